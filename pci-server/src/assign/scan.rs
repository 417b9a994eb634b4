//! Finds the tree where the buses have no numbers yet: each bridge gets its numbers on the way down, and each function is
//! sized.
//!
//! Every function found is silenced and stops decoding, whether firmware, an earlier server or nobody configured it.
//! Bridges are not bus masters, so that nothing from below gets through while buses have other numbers. The walk ends
//! whatever functions answer: a bus number is given once, bridges nest [`MAX_DEPTH`] deep, and the scan covers
//! [`MAX_FUNCTIONS`]. Host and ISA bridges belong to the machine and are left alone.
//!
//! Neighbours: `layout` computes places for the functions found here, `virtual_functions` sizes the virtual ones. Left out:
//! routing ids that virtual functions get when fewer of them are enabled; the reserved buses are for all of them.

use super::LeftOut;
use crate::bars;
use crate::config_space::ConfigSpace;
use crate::enumerate::{MAX_DEPTH, MAX_FUNCTIONS, is_machines, silence};
use crate::function::VirtualFunctions;
use crate::sizing::Note;
use crate::slot::Port;
use crate::virtual_functions;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use pci_spec::bridge::{self, BusNumbers};
use pci_spec::header::{DEVICES, Layout, offset};
use pci_spec::sriov::Sriov;
use pci_spec::{Bar, Bdf, HeaderType};
use platform::log::warn;
use platform::{Memory, Mmio};
use virtio_drivers::transport::pci::bus::Command;

/// A function of the tree.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The function's BDF.
    pub(super) bdf: Bdf,
    /// The number of the bridge right above it.
    pub(super) parent: Option<usize>,
    /// The function's memory BARs.
    pub(super) bars: Vec<Bar>,
    /// The function's properties as a bridge.
    pub(super) bridge: Option<FoundBridge>,
    /// The function's virtual functions, if it has any.
    pub(super) virtual_functions: Option<VirtualFunctions>,
    /// The function is a port at which room is reserved.
    pub(super) reserves: bool,
    /// Reason why it gets nothing, if so.
    pub(super) left_out: Option<LeftOut>,
}

/// Properties that only a bridge has.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundBridge {
    /// The value read from the dword of its prefetchable window while that is closed.
    pub(super) prefetchable: u32,
}

/// Numbers the first of `buses` and those behind it and sizes all functions on them. The bridge `above` is the nearest
/// of `depth` bridges that lie above. A bridge comes
/// before what is behind it; ports of `slots` reserve room. Functions beyond [`MAX_FUNCTIONS`] come apart, by name.
pub(super) fn scan<M: Mmio>(
    config: &mut ConfigSpace<M>,
    note: &Note<impl Memory>,
    buses: RangeInclusive<u8>,
    above: Option<Bdf>,
    depth: usize,
    slots: &[u16],
) -> (Vec<Found>, Vec<Bdf>) {
    let (first, limit) = buses.into_inner();
    let mut scan = Scan { config, note, slots, found: Vec::new(), surplus: Vec::new(), limit, last_bus: first };
    scan.bus(first, above, None, depth);
    (scan.found, scan.surplus)
}

struct Scan<'a, M: Mmio, N: Memory> {
    config: &'a mut ConfigSpace<M>,
    note: &'a Note<N>,
    slots: &'a [u16],
    found: Vec<Found>,
    /// Functions beyond [`MAX_FUNCTIONS`], which are not sized.
    surplus: Vec<Bdf>,
    /// The last bus that may be given.
    limit: u8,
    /// The last bus that has been given to a bridge or is kept for virtual functions.
    last_bus: u8,
}

impl<M: Mmio, N: Memory> Scan<'_, M, N> {
    /// Scans all functions on a bus, and then behind its bridges: virtual functions may need the next numbers.
    fn bus(&mut self, bus: u8, above: Option<Bdf>, parent: Option<usize>, depth: usize) {
        let mut bridges = Vec::new();
        let devices = above.map_or(0..DEVICES, |bridge| self.config.devices_below(bridge));
        for bdf in self.config.functions_on(bus, devices) {
            if is_machines(self.config, bdf) {
                continue;
            }
            let header = self.silence(bdf);
            if self.found.len() >= MAX_FUNCTIONS {
                self.surplus.push(bdf);
                continue;
            }
            let found = self.function(bdf, parent, header);
            if found.bridge.is_some() && found.left_out.is_none() {
                bridges.push((self.found.len(), bdf));
            }
            self.found.push(found);
        }
        for (number, bdf) in bridges {
            if let Err(reason) = self.behind(number, bdf, depth) {
                self.config.write(bdf, bridge::offset::BUS_NUMBERS, 0);
                if let Some(found) = self.found.get_mut(number) {
                    found.left_out = Some(reason);
                }
            }
        }
    }

    /// Stops a function from decoding, forwarding and sending.
    fn silence(&mut self, bdf: Bdf) -> HeaderType {
        silence(self.config, bdf);
        let off = Command::IO_SPACE | Command::MEMORY_SPACE | Command::BUS_MASTER;
        self.config.change_command(bdf, Command::empty(), off);
        let header = HeaderType::from_dword(self.config.read(bdf, offset::HEADER_TYPE));
        let is_bridge = header.layout() == Layout::Bridge;
        if is_bridge {
            close(self.config, bdf);
        }
        self.config.write(bdf, if is_bridge { bridge::offset::ROM } else { offset::ROM }, 0);
        header
    }

    fn function(&mut self, bdf: Bdf, parent: Option<usize>, header: HeaderType) -> Found {
        let mut found = Found {
            bdf,
            parent,
            bars: Vec::new(),
            bridge: None,
            virtual_functions: None,
            reserves: false,
            left_out: None,
        };
        if header.layout() == Layout::Bridge {
            let slot = Port::find(self.config, bdf).map(|port| port.number());
            found.reserves = slot.is_some_and(|slot| self.slots.contains(&slot));
            found.bridge = Some(FoundBridge { prefetchable: self.config.read(bdf, bridge::offset::PREFETCHABLE) });
        }
        match bars::size(self.config, self.note, bdf, header.bars()) {
            Ok(sized) if !sized.impossible => {
                found.bars = sized.bars.into_iter().filter(|bar| bar.is_memory()).collect()
            }
            _ => found.left_out = Some(LeftOut::Bar),
        }
        if header.layout() == Layout::Endpoint {
            found.virtual_functions = self.virtual_functions(bdf);
        }
        found
    }

    fn behind(&mut self, number: usize, bdf: Bdf, depth: usize) -> Result<(), LeftOut> {
        if depth >= MAX_DEPTH {
            return Err(LeftOut::TooDeep);
        }
        let secondary = self.last_bus.checked_add(1).filter(|bus| *bus <= self.limit).ok_or(LeftOut::NoBus)?;
        let numbers = BusNumbers::new().with_primary(bdf.bus()).with_secondary(secondary);
        // All buses there may be, until it is known how many there are.
        self.set_numbers(bdf, numbers.with_subordinate(self.limit))?;
        self.last_bus = secondary;
        self.bus(secondary, Some(bdf), Some(number), depth.saturating_add(1));
        self.set_numbers(bdf, numbers.with_subordinate(self.last_bus))?;
        Ok(())
    }

    fn set_numbers(&mut self, bdf: Bdf, numbers: BusNumbers) -> Result<(), LeftOut> {
        self.config.write(bdf, bridge::offset::BUS_NUMBERS, numbers.into_bits());
        let read = BusNumbers::from_bits(self.config.read(bdf, bridge::offset::BUS_NUMBERS));
        if read.with_latency(0) == numbers { Ok(()) } else { Err(LeftOut::Forgets) }
    }

    /// Sizes the BARs of a function's virtual functions, which are disabled, and keeps the buses they need. None where they
    /// cannot be used.
    fn virtual_functions(&mut self, bdf: Bdf) -> Option<VirtualFunctions> {
        let reason = match virtual_functions::size(self.config, self.note, bdf) {
            Ok(None) => return None,
            Ok(Some(found)) => {
                let Sriov { routing, total, .. } = found.sriov;
                match routing.last_bus(bdf, total).filter(|bus| *bus <= self.limit) {
                    Some(last_bus) => {
                        self.last_bus = self.last_bus.max(last_bus);
                        return Some(found);
                    }
                    None => "has virtual functions on buses that there are not",
                }
            }
            Err(reason) => reason.text(),
        };
        warn!("{:x}:{:x}.{} {}: no virtual functions", bdf.bus(), bdf.device(), bdf.function(), reason);
        None
    }
}

/// Takes a bridge's buses and windows from it.
pub(super) fn close<M: Mmio>(config: &mut ConfigSpace<M>, bridge: Bdf) {
    for (register, value) in [
        (bridge::offset::BUS_NUMBERS, 0),
        (bridge::offset::IO, bridge::IO_CLOSED),
        (bridge::offset::MEMORY, bridge::CLOSED),
        (bridge::offset::PREFETCHABLE, bridge::CLOSED),
        (bridge::offset::PREFETCHABLE_BASE_UPPER, 0),
        (bridge::offset::PREFETCHABLE_LIMIT_UPPER, 0),
    ] {
        config.write(bridge, register, value);
    }
}
