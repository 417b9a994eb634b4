//! The tree: buses, functions, and the accesses that arrive from the processor.
//!
//! The calls of `build` and `hot_plug` determine the structure. Software's writes determine bus numbers and the
//! addresses that each function answers (`routing`). Neighbours: `effects` applies the effects of writes to configuration
//! space.

use crate::access::{self, BadAccess, ConfigAccess};
use crate::arena::{Buses, Functions};
use crate::function::{Function, Kind};
use crate::ids::{BusId, FunctionId};
use crate::machine::{Device, Machine, Upstream};
use crate::msix::Place;
use crate::port::DeviceNumbers;
use crate::record::Violation;
use crate::upstream::{Line, Outer};
use crate::view::{Claim, Decoded, Overlap};
use core::ops::Range;

/// The host bridge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeConfig {
    /// Buses that configuration space has room for, from 0 on, 1 MiB each: at most 256.
    pub buses: u16,
    /// Physical addresses that the host bridge hands down.
    pub windows: Vec<Range<u64>>,
}

/// A PCI Express tree whose endpoints are `D`s.
#[derive(Debug)]
pub struct Tree<D> {
    pub(crate) functions: Functions<D>,
    pub(crate) buses: Buses,
    pub(crate) config_buses: u16,
    pub(crate) windows: Vec<Range<u64>>,
    /// The bus that receives an access to each bus number.
    pub(crate) claims: [Claim; 256],
    /// Sorted by start.
    pub(crate) decoded: Vec<Decoded>,
    /// The entry of `decoded` that was used last.
    pub(crate) last_hit: usize,
    pub(crate) overlaps: Vec<Overlap>,
    pub(crate) outer: Outer,
}

impl<D: Device> Tree<D> {
    /// Reads configuration space at a byte offset in the ECAM region (PCIe 7.2.2): all ones where nothing answers.
    ///
    /// # Errors
    ///
    /// [`BadAccess`] unless 1, 2 or 4 aligned bytes.
    pub fn config_read(&mut self, offset: u64, bytes: u8, now_ns: u64) -> Result<u64, BadAccess> {
        let access = ConfigAccess::new(offset, bytes)?;
        self.outer.batch.now_ns = now_ns;
        let function = self.locate(access).and_then(|id| self.functions.get(id));
        let dword = function.map_or(u32::MAX, |function| function.core.space.read(access.register));
        Ok(access.extract(dword))
    }

    /// Writes configuration space, as [`Tree::config_read`]. Lost where nothing answers.
    ///
    /// # Errors
    ///
    /// [`BadAccess`] unless 1, 2 or 4 aligned bytes.
    pub fn config_write(
        &mut self,
        offset: u64,
        bytes: u8,
        value: u64,
        now_ns: u64,
        machine: &mut dyn Machine,
    ) -> Result<(), BadAccess> {
        let access = ConfigAccess::new(offset, bytes)?;
        self.outer.batch.now_ns = now_ns;
        if let Some(id) = self.locate(access) {
            self.write_register(id, access.register, access.place(value), access.mask(), machine);
        }
        Ok(())
    }

    /// Reads physical memory in a PCI window: all ones where nothing answers.
    ///
    /// # Errors
    ///
    /// [`BadAccess`] unless 1, 2, 4 or 8 aligned bytes.
    pub fn memory_read(&mut self, address: u64, bytes: u8, now_ns: u64) -> Result<u64, BadAccess> {
        access::check(address, bytes)?;
        self.outer.batch.now_ns = now_ns;
        let target = self.find(address).and_then(|found| Some((found, self.functions.ready(found.function, now_ns)?)));
        let Some((found, function)) = target else {
            self.outer.batch.unanswered();
            return Ok(access::all_ones(bytes));
        };
        let (bar, offset) = (found.bar, address.wrapping_sub(found.base));
        let core = &function.core;
        if let Some((msix, place)) = core.msix.as_ref().and_then(|msix| Some((msix, msix.place(bar, offset)?))) {
            if bytes < 4 {
                let (id, bdf) = (core.id, core.route.bdf);
                self.outer.batch.violation(id, bdf, Violation::NarrowTableAccess { offset });
                return Ok(access::all_ones(bytes));
            }
            return Ok(msix.read(place, bytes));
        }
        Ok(match &mut function.kind {
            Kind::Device(device) => device.read(bar, offset, bytes, now_ns) & access::all_ones(bytes),
            Kind::Port(_) | Kind::Inert => 0,
        })
    }

    /// Writes physical memory in a PCI window. Lost where nothing answers.
    ///
    /// # Errors
    ///
    /// [`BadAccess`] unless 1, 2, 4 or 8 aligned bytes.
    pub fn memory_write(
        &mut self,
        address: u64,
        bytes: u8,
        value: u64,
        now_ns: u64,
        machine: &mut dyn Machine,
    ) -> Result<(), BadAccess> {
        access::check(address, bytes)?;
        self.outer.batch.now_ns = now_ns;
        let target = self.find(address).and_then(|found| Some((found, self.functions.ready(found.function, now_ns)?)));
        let Some((found, function)) = target else {
            self.outer.batch.unanswered();
            return Ok(());
        };
        let offset = address.wrapping_sub(found.base);
        let mut line = Line { core: &mut function.core, outer: &mut self.outer, machine };
        if let Some(place) = line.core.msix.as_ref().and_then(|msix| msix.place(found.bar, offset)) {
            line.write_table(place, offset, bytes, value);
        } else if let Kind::Device(device) = &mut function.kind {
            device.write(found.bar, offset, bytes, value & access::all_ones(bytes), now_ns, &mut line);
        }
        Ok(())
    }

    /// Lets every device execute its due work.
    pub fn advance(&mut self, now_ns: u64, machine: &mut dyn Machine) {
        self.outer.batch.now_ns = now_ns;
        let mut next = 0;
        while let Some(&id) = self.functions.devices().get(next) {
            next += 1;
            if let Some(Function { core, kind: Kind::Device(device) }) = self.functions.get_mut(id)
                && core.is_there()
                && device.next_event_ns().is_some_and(|at_ns| at_ns <= now_ns)
            {
                device.advance(now_ns, &mut Line { core, outer: &mut self.outer, machine });
            }
        }
    }

    /// Time at which [`Tree::advance`] has something to do next.
    #[must_use]
    pub fn next_event_ns(&self) -> Option<u64> {
        let devices = self.functions.devices().iter().filter_map(|id| self.functions.get(*id));
        devices.filter(|function| function.core.is_there()).filter_map(|one| one.device()?.next_event_ns()).min()
    }

    /// Calls `act` with the device inside a function and its way up, for events from outside the machine, such as
    /// faults. `None` when the function is gone or not a device.
    pub fn with_device<T>(
        &mut self,
        id: FunctionId,
        now_ns: u64,
        machine: &mut dyn Machine,
        act: impl FnOnce(&mut D, &mut dyn Upstream) -> T,
    ) -> Option<T> {
        self.outer.batch.now_ns = now_ns;
        let Function { core, kind } = self.functions.get_mut(id)?;
        let Kind::Device(device) = kind else { return None };
        Some(act(device, &mut Line { core, outer: &mut self.outer, machine }))
    }

    /// Returns the device inside a function.
    #[must_use]
    pub fn device(&self, id: FunctionId) -> Option<&D> {
        self.functions.get(id)?.device()
    }

    /// Returns the device inside a function, mutable.
    pub fn device_mut(&mut self, id: FunctionId) -> Option<&mut D> {
        match &mut self.functions.get_mut(id)?.kind {
            Kind::Device(device) => Some(device),
            Kind::Port(_) | Kind::Inert => None,
        }
    }

    /// Returns the function that answers a configuration access.
    fn locate(&mut self, access: ConfigAccess) -> Option<FunctionId> {
        let bdf = access.bdf.filter(|bdf| u16::from(bdf.bus()) < self.config_buses)?;
        let claim = *self.claims.get(usize::from(bdf.bus()))?;
        let id = claim.bus?;
        let bus = self.buses.get(id)?;
        // A bus number that a bridge forwards and that is not its own lower bus lies further down, where no bridge took
        // it.
        if bus.view.number != Some(bdf.bus()) {
            return None;
        }
        let mut place = bdf.to_raw() as u8;
        if let Some((_, Function { core, kind: Kind::Port(port) })) = self.bridge_of(id) {
            if !port.forwards_device(&core.space, bdf.device()) || !core.is_on() {
                return None;
            }
            if port.numbers == DeviceNumbers::All {
                // The device ignores its number.
                place = bdf.function();
            }
        }
        let function = self.functions.get(bus.at(place)?)?;
        let (id, register) = (function.core.id, access.register);
        if claim.ambiguous {
            self.outer.batch.violation(id, bdf, Violation::AmbiguousBus { bus: bdf.bus() });
        }
        if !function.core.is_there() {
            return None;
        }
        if function.core.ready_at_ns > self.outer.batch.now_ns {
            self.outer.batch.violation(id, bdf, Violation::AccessDuringReset { register });
            return None;
        }
        Some(id)
    }

    /// Returns the BAR that answers a physical address.
    fn find(&mut self, address: u64) -> Option<Decoded> {
        let contains = |decoded: &&Decoded| (decoded.start..=decoded.last).contains(&address);
        if let Some(hit) = self.decoded.get(self.last_hit).filter(contains) {
            return Some(*hit);
        }
        let after = self.decoded.partition_point(|decoded| decoded.start <= address);
        // The nearest one answers, except where BARs overlap.
        let index = self.decoded.get(..after)?.iter().rposition(|decoded| contains(&decoded))?;
        self.last_hit = index;
        self.decoded.get(index).copied()
    }

    /// Returns the bridge that leads down to a bus, and the bus above it.
    pub(crate) fn bridge_of(&self, bus: BusId) -> Option<(BusId, &Function<D>)> {
        let bridge = self.functions.get(self.buses.get(bus)?.bridge?)?;
        Some((bridge.core.bus, bridge))
    }
}

impl Line<'_> {
    /// Writes into the MSI-X table, one dword after the other. The pending bits are read-only.
    fn write_table(&mut self, place: Place, offset: u64, bytes: u8, value: u64) {
        let Place::Table(at) = place else { return };
        if bytes < 4 {
            return self.violation(Violation::NarrowTableAccess { offset });
        }
        self.write_entry(at, value as u32);
        if bytes == 8 {
            self.write_entry(at + 4, (value >> 32) as u32);
        }
    }

    fn write_entry(&mut self, at: u64, value: u32) {
        let gate = self.core.msix_gate();
        let Some(msix) = &mut self.core.msix else { return };
        let written = msix.write(at, value, gate);
        if let Some(vector) = written.changed_unmasked {
            self.violation(Violation::EntryChangedUnmasked { vector });
        }
        if written.unmasked_pending.is_some() {
            self.deliver_pending();
        }
    }
}
