//! Firmware: it leaves the tree in the state in which SeaBIOS does.
//!
//! It uses only configuration accesses, so its result is determined by the model: buses numbered depth first, memory
//! BARs and bridges' memory windows placed in the host bridge's first window, decoding on. Bridges get at least 1 MiB,
//! and 2 MiB with a slot, for devices plugged in later. Left out, as SeaBIOS does: virtual functions' BARs. Left out,
//! although SeaBIOS does it: I/O ports, and prefetchable windows (prefetchable BARs go into the other window, which is
//! always allowed).

use crate::machine::{Device, Machine};
use crate::tree::Tree;
use core::cell::RefCell;
use core::fmt;
use core::ops::Range;
use pci_spec::bar::{RawBar, decode_all};
use pci_spec::bridge::{self, BusNumbers, MEMORY_WINDOW_ALIGN, MemoryWindow};
use pci_spec::header::{Command, FUNCTIONS, HeaderType, Layout, NO_VENDOR, offset};
use pci_spec::{Bar, BarKind, Bdf, capability, express};

/// The firmware that runs before the operating system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Firmware {
    /// Firmware that places everything and enables decoding. Nothing is bus master.
    Places,
    /// Firmware that also leaves all bridges and endpoints bus masters, as after booting from one of them.
    PlacesAndBoots,
}

/// The reason why firmware gave up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FirmwareError {
    /// More buses than configuration space has.
    NoBus,
    /// The BARs do not fit into the host bridge's first window, or there is none.
    NoRoom,
}

impl fmt::Display for FirmwareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoBus => "more PCI buses than configuration space has",
            Self::NoRoom => "the BARs do not fit into the PCI window",
        })
    }
}

impl core::error::Error for FirmwareError {}

impl<D: Device> Tree<D> {
    /// Runs firmware over the tree, at time 0.
    ///
    /// # Errors
    ///
    /// A [`FirmwareError`]; parts that were placed before stay.
    pub fn run_firmware(&mut self, firmware: Firmware, machine: &mut dyn Machine) -> Result<(), FirmwareError> {
        let buses = self.config_buses;
        let window = self.windows.first().cloned().ok_or(FirmwareError::NoRoom)?;
        let mut setup = Setup { tree: self, machine, buses, last_bus: 0 };
        let mut found = setup.walk(0)?;
        let needs = place_order(&mut found);
        if needs > window.end.saturating_sub(window.start) {
            return Err(FirmwareError::NoRoom);
        }
        setup.place(&found, window)?;
        setup.enable(&found, firmware);
        Ok(())
    }
}

/// A function that was found, with its parts that need room.
struct Found {
    bdf: Bdf,
    bars: Vec<Bar>,
    /// The functions below a bridge, and its window.
    below: Option<Below>,
}

struct Below {
    functions: Vec<Found>,
    least_bytes: u64,
    /// Bytes its window gets, a multiple of 1 MiB.
    bytes: u64,
    align: u64,
}

struct Setup<'a, D> {
    tree: &'a mut Tree<D>,
    machine: &'a mut dyn Machine,
    buses: u16,
    last_bus: u8,
}

impl<D: Device> Setup<'_, D> {
    /// Numbers everything below a bus and sizes it.
    fn walk(&mut self, bus: u8) -> Result<Vec<Found>, FirmwareError> {
        let mut found = Vec::new();
        for device in 0..pci_spec::header::DEVICES {
            let Some(first) = Bdf::new(bus, device, 0).filter(|bdf| self.answers(*bdf)) else { continue };
            let several = HeaderType::from_dword(self.read(first, offset::HEADER_TYPE)).is_multifunction();
            let functions = if several { FUNCTIONS } else { 1 };
            for bdf in (0..functions).filter_map(|function| Bdf::new(bus, device, function)) {
                if self.answers(bdf) {
                    found.push(self.function(bdf)?);
                }
            }
        }
        Ok(found)
    }

    fn function(&mut self, bdf: Bdf) -> Result<Found, FirmwareError> {
        let header = HeaderType::from_dword(self.read(bdf, offset::HEADER_TYPE));
        let bars = self.size(bdf, header.bars());
        let below = if header.layout() == Layout::Bridge { Some(self.behind(bdf)?) } else { None };
        Ok(Found { bdf, bars, below })
    }

    fn behind(&mut self, bdf: Bdf) -> Result<Below, FirmwareError> {
        let secondary = self.last_bus.checked_add(1).ok_or(FirmwareError::NoBus)?;
        if u16::from(secondary) >= self.buses {
            return Err(FirmwareError::NoBus);
        }
        self.last_bus = secondary;
        let numbers = BusNumbers::new().with_primary(bdf.bus()).with_secondary(secondary);
        // All remaining buses, until their number is known.
        self.write(bdf, bridge::offset::BUS_NUMBERS, numbers.with_subordinate(u8::MAX).into_bits());
        for register in [bridge::offset::MEMORY, bridge::offset::PREFETCHABLE] {
            self.write(bdf, register, bridge::CLOSED);
        }
        let functions = self.walk(secondary)?;
        self.write(bdf, bridge::offset::BUS_NUMBERS, numbers.with_subordinate(self.last_bus).into_bits());
        let least_bytes = if self.has_slot(bdf) { 2 * MEMORY_WINDOW_ALIGN } else { MEMORY_WINDOW_ALIGN };
        Ok(Below { functions, least_bytes, bytes: 0, align: MEMORY_WINDOW_ALIGN })
    }

    /// Sizes the first `count` BARs: writes all ones, reads back, and restores the value. Nothing decodes yet.
    fn size(&mut self, bdf: Bdf, count: u8) -> Vec<Bar> {
        let mut raw = Vec::new();
        for register in (0..count).filter_map(offset::bar) {
            let value = self.read(bdf, register);
            self.write(bdf, register, u32::MAX);
            let sized = self.read(bdf, register);
            self.write(bdf, register, value);
            raw.push(RawBar { value, sized });
        }
        decode_all(&raw).filter_map(Result::ok).filter(|bar| bar.is_memory()).collect()
    }

    /// Places into `window` the functions that [`place_order`] has ordered.
    fn place(&mut self, found: &[Found], window: Range<u64>) -> Result<(), FirmwareError> {
        let mut next = window.start;
        for room in rooms(found) {
            let start = next.next_multiple_of(room.align);
            next = start.checked_add(room.bytes).filter(|end| *end <= window.end).ok_or(FirmwareError::NoRoom)?;
            match room.what {
                What::Bar(bdf, bar) => self.move_bar(bdf, bar, start),
                What::BridgeWindow(bdf, below) => {
                    let dword = MemoryWindow::new(start, room.bytes).and_then(MemoryWindow::to_memory);
                    self.write(bdf, bridge::offset::MEMORY, dword.map_err(|_| FirmwareError::NoRoom)?);
                    self.place(below, start..next)?;
                }
            }
        }
        Ok(())
    }

    fn move_bar(&mut self, bdf: Bdf, bar: Bar, address: u64) {
        let Some(register) = offset::bar(bar.index()) else { return };
        self.write(bdf, register, address as u32);
        if let BarKind::Memory64(_) = bar.kind() {
            self.write(bdf, register + 4, (address >> 32) as u32);
        }
    }

    fn enable(&mut self, found: &[Found], firmware: Firmware) {
        let masters = firmware == Firmware::PlacesAndBoots;
        for function in found {
            let command = Command::new().with_io_space(true).with_memory_space(true).with_serr(true);
            self.write(function.bdf, offset::COMMAND_STATUS, command.with_bus_master(masters).into_bits().into());
            let pins = self.read(function.bdf, offset::INTERRUPT);
            if pins & 0xff00 != 0 {
                // The old interrupt controller's number, not the I/O APIC's.
                self.write(function.bdf, offset::INTERRUPT, pins & !0xff | 11);
            }
            if let Some(below) = &function.below {
                self.enable(&below.functions, firmware);
            }
        }
    }

    fn has_slot(&mut self, bdf: Bdf) -> bool {
        let this = RefCell::new(self);
        let read = |register: u8| this.borrow_mut().read(bdf, register);
        let found = capability::find(&read, capability::id::EXPRESS);
        let control = found.ok().flatten().map(|capability| express::Capabilities::from_bits(capability.control));
        control.is_some_and(|control| control.slot())
    }

    fn answers(&mut self, bdf: Bdf) -> bool {
        self.read(bdf, offset::ID) as u16 != NO_VENDOR
    }

    fn read(&mut self, bdf: Bdf, register: u8) -> u32 {
        let offset = u64::from(bdf.to_raw()) << 12 | u64::from(register);
        // Four aligned bytes are never a bad access.
        self.tree.config_read(offset, 4, 0).unwrap_or(u64::MAX) as u32
    }

    fn write(&mut self, bdf: Bdf, register: u8, value: u32) {
        let offset = u64::from(bdf.to_raw()) << 12 | u64::from(register);
        // As above.
        let _ = self.tree.config_write(offset, 4, value.into(), 0, self.machine);
    }
}

/// Something that needs room.
struct Room<'a> {
    align: u64,
    bytes: u64,
    what: What<'a>,
}

enum What<'a> {
    Bar(Bdf, Bar),
    BridgeWindow(Bdf, &'a [Found]),
}

/// Computes the windows' sizes from below. Returns the bytes that all of `found` needs, from an address aligned well
/// enough.
fn place_order(found: &mut [Found]) -> u64 {
    for below in found.iter_mut().filter_map(|function| function.below.as_mut()) {
        let needs = place_order(&mut below.functions);
        below.bytes = needs.max(below.least_bytes).next_multiple_of(MEMORY_WINDOW_ALIGN);
        let widest = rooms(&below.functions).into_iter().map(|room| room.align).max();
        below.align = widest.unwrap_or(0).max(MEMORY_WINDOW_ALIGN);
    }
    rooms(found).iter().fold(0, |end: u64, room| end.next_multiple_of(room.align).saturating_add(room.bytes))
}

/// Returns the parts that need room on one bus, the largest alignment first, so that little is lost between.
fn rooms(found: &[Found]) -> Vec<Room<'_>> {
    let mut rooms = Vec::new();
    for function in found {
        let bar = |bar: &Bar| {
            // No BAR shares a page with another.
            let bytes = bar.size().max(4096);
            Room { align: bytes, bytes, what: What::Bar(function.bdf, *bar) }
        };
        rooms.extend(function.bars.iter().map(bar));
        if let Some(Below { functions, bytes, align, .. }) = &function.below {
            rooms.push(Room { align: *align, bytes: *bytes, what: What::BridgeWindow(function.bdf, functions) });
        }
    }
    rooms.sort_by_key(|room| core::cmp::Reverse(room.align));
    rooms
}
