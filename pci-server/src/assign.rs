//! Numbers buses and places registers in the machine's PCI windows, on a machine without firmware.
//!
//! `scan` numbers and sizes, `layout` computes addresses, and this module writes them, with decoding off. Then bridges
//! decode and forward; functions do so when they are claimed. A function that cannot be placed, or that does not keep the
//! written values, is left out; with a bridge, everything behind it is. The rest works. Any earlier configuration is
//! discarded. So a server that dies in the middle leaves no state that the next one needs: that one starts over, with
//! nothing claimed, and reaches the same result.
//!
//! A port whose slot a driver is for has room for devices that come later. [`assign_behind`] does the same for such a device, in
//! that room.
//!
//! Neighbours: `enumerate` walks the numbered buses as if firmware had configured them. Left out: I/O ports, which stay
//! disabled, expansion ROMs, and registers of host and ISA bridges, which must lie outside the PCI windows.

pub mod layout;
mod scan;

use self::layout::{Layout, MemoryType, Need, Node, Part, Place, Placed, Prefetchable, lay_out};
use self::scan::{Found, close, scan};
use crate::addresses::PciWindows;
use crate::config_space::ConfigSpace;
use crate::function::{Bridge, VirtualFunctions};
use crate::sizing::Note;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use pci_spec::bar::Prefetch;
use pci_spec::bridge::{self, MemoryWindow, PrefetchableRegisters};
use pci_spec::header::offset;
use pci_spec::{Bar, BarKind, Bdf, sriov};
use platform::log::warn;
use platform::{Memory, Mmio, PAGE_SIZE};
use virtio_drivers::transport::pci::bus::Command;

/// Room at a port for devices that come later, beside that of a device that is there: what firmware gives a port with a slot. The
/// least aligned range is placed last, so the device that is there has the place that it gets when it is inserted again.
const RESERVE: Need =
    Need { part: Part::Own, bar: 0, memory_type: MemoryType::Low, align: PAGE_SIZE as u64, bytes: 2 << 20 };

/// Reason why a function gets no addresses; with a bridge, nothing behind it does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LeftOut {
    /// An impossible BAR.
    Bar,
    /// The PCI windows have no room for its BARs.
    NoRoom,
    /// No bus number is left for what is behind it.
    NoBus,
    /// More bridges lie above what is behind it than a walk goes down.
    TooDeep,
    /// There are more functions than the scan covers.
    TooMany,
    /// The function's BARs, bridge windows or bus numbers do not keep the values written.
    Forgets,
    /// A bridge above it is left out.
    Behind,
}

impl LeftOut {
    /// The reason in words, for the log.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Bar => "has an impossible BAR",
            Self::NoRoom => "finds no room in the PCI windows",
            Self::NoBus => "finds no bus number for what is behind it",
            Self::TooDeep => "lies too deep for what is behind it",
            Self::TooMany => "is one function too many",
            Self::Forgets => "does not keep what is written to it",
            Self::Behind => "is behind a bridge that is left out",
        }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Assigns bus numbers, bridge windows and addresses, with room at the ports of `slots`. Returns the functions that are left
/// out.
pub fn assign<M: Mmio>(
    config: &mut ConfigSpace<M>,
    note: &Note<impl Memory>,
    windows: &PciWindows,
    slots: &[u16],
) -> Vec<(Bdf, LeftOut)> {
    let last = u8::try_from(config.buses().saturating_sub(1)).unwrap_or(u8::MAX);
    let (found, surplus) = scan(config, note, 0..=last, None, 0, slots);
    write_all(config, &found, &surplus, windows.ranges())
}

/// Assigns bus numbers and addresses to what is behind a port, in the port's own buses and its window for all memory. `depth`
/// bridges lie above. Returns as [`assign`].
pub fn assign_behind<M: Mmio>(
    config: &mut ConfigSpace<M>,
    note: &Note<impl Memory>,
    (bdf, port): (Bdf, &Bridge),
    depth: usize,
) -> Vec<(Bdf, LeftOut)> {
    let buses = port.numbers.secondary()..=port.numbers.subordinate();
    let (found, surplus) = scan(config, note, buses, Some(bdf), depth, &[]);
    let window = port.memory.map(|window| window.base()..window.limit().saturating_add(1));
    write_all(config, &found, &surplus, window.as_slice())
}

/// Writes the layout of `found` in `windows`.
fn write_all<M: Mmio>(
    config: &mut ConfigSpace<M>,
    found: &[Found],
    surplus: &[Bdf],
    windows: &[Range<u64>],
) -> Vec<(Bdf, LeftOut)> {
    let layout = lay_out_with_reserves(found, windows);
    let mut fates: Vec<Option<LeftOut>> = Vec::with_capacity(found.len());
    for ((number, function), place) in found.iter().enumerate().zip(&layout.places) {
        let above = function.parent.and_then(|parent| fates.get(parent).copied().flatten());
        let no_room = layout.left_out.contains(&(number, Part::Own)).then_some(LeftOut::NoRoom);
        let fate = above.map(|_| LeftOut::Behind).or(function.left_out).or(no_room);
        let fate = fate.or_else(|| write(config, function, place).err());
        match fate {
            Some(reason) => {
                withdraw(config, function);
                log(function.bdf, reason.text());
            }
            None if layout.left_out.contains(&(number, Part::Virtual)) => {
                withdraw_virtual(config, function);
                log(function.bdf, "finds no room for its virtual functions");
            }
            None => {}
        }
        fates.push(fate);
    }
    for (function, fate) in found.iter().zip(&fates) {
        if function.bridge.is_some() && fate.is_none() {
            config.change_command(function.bdf, Command::MEMORY_SPACE, Command::empty());
        }
    }
    for bdf in surplus {
        log(*bdf, LeftOut::TooMany.text());
    }
    let left_out = found.iter().zip(fates).filter_map(|(function, fate)| Some((function.bdf, fate?)));
    left_out.chain(surplus.iter().map(|bdf| (*bdf, LeftOut::TooMany))).collect()
}

/// Lays out the functions, and the reserves of slots beside them if all functions have a place then.
fn lay_out_with_reserves(found: &[Found], windows: &[Range<u64>]) -> Layout {
    let mut nodes: Vec<Node> = found.iter().map(node).collect();
    let unusable = found.iter().enumerate().filter(|(_, function)| function.left_out.is_some());
    let unusable: BTreeSet<(usize, Part)> = unusable.map(|(number, _)| (number, Part::Own)).collect();
    let without = lay_out(&nodes, windows, unusable.clone());
    let slots = found.iter().enumerate().filter(|(_, function)| function.reserves);
    nodes.extend(slots.map(|(port, _)| Node { parent: Some(port), bridge: None, needs: Vec::from([RESERVE]) }));
    if nodes.len() == found.len() {
        return without;
    }
    let with = lay_out(&nodes, windows, unusable);
    for (node, _) in with.left_out.iter().filter(|(node, _)| *node >= found.len()) {
        let port = nodes.get(*node).and_then(|node| found.get(node.parent?));
        port.into_iter().for_each(|port| log(port.bdf, "has no room for devices that come later"));
    }
    let are_all_there = with.left_out.iter().all(|part| part.0 >= found.len() || without.left_out.contains(part));
    if are_all_there { with } else { without }
}

fn log(bdf: Bdf, what: &'static str) {
    warn!("{:x}:{:x}.{} {}", bdf.bus(), bdf.device(), bdf.function(), what);
}

/// A function as input of `layout`.
fn node(found: &Found) -> Node {
    let bridge = found.bridge.map(|bridge| match bridge.prefetchable {
        low if !bridge::has_prefetchable(low) => Prefetchable::Absent,
        low if bridge::is_prefetchable_64(low) => Prefetchable::Any,
        _ => Prefetchable::Low,
    });
    let mut needs: Vec<Need> = found.bars.iter().filter_map(|bar| need(Part::Own, bar, 1)).collect();
    if let Some(VirtualFunctions { sriov, bars, .. }) = &found.virtual_functions {
        needs.extend(bars.iter().filter_map(|bar| need(Part::Virtual, bar, sriov.total)));
    }
    Node { parent: found.parent, bridge, needs }
}

/// The range that a BAR needs when `functions` functions have a part of it each. No two functions share a page.
fn need(part: Part, bar: &Bar, functions: u16) -> Option<Need> {
    let memory_type = match bar.kind() {
        BarKind::Io => return None,
        BarKind::Memory32(Prefetch::NonPrefetchable) => MemoryType::Low,
        BarKind::Memory32(Prefetch::Prefetchable) => MemoryType::LowPrefetchable,
        BarKind::Memory64(Prefetch::NonPrefetchable) => MemoryType::Any,
        BarKind::Memory64(Prefetch::Prefetchable) => MemoryType::AnyPrefetchable,
    };
    let align = bar.size().max(PAGE_SIZE as u64);
    // A size that overflows has no room either.
    Some(Need { part, bar: bar.index(), memory_type, align, bytes: align.saturating_mul(functions.into()) })
}

/// Writes a function's addresses, and a bridge's windows.
fn write<M: Mmio>(config: &mut ConfigSpace<M>, function: &Found, place: &Place) -> Result<(), LeftOut> {
    let bdf = function.bdf;
    for Placed { need, address } in place.ranges.iter().filter(|placed| placed.need.part == Part::Own) {
        let bar = function.bars.iter().find(|bar| bar.index() == need.bar).ok_or(LeftOut::Bar)?;
        write_bar(config, bdf, offset::BAR0.into(), bar, *address)?;
    }
    if let Some(found) = function.bridge {
        let [memory, prefetchable] = &place.windows;
        write_memory(config, bdf, memory.as_ref())?;
        write_prefetchable(config, bdf, prefetchable.as_ref(), found.prefetchable)?;
    }
    if write_virtual(config, function, place).is_err() {
        withdraw_virtual(config, function);
        log(bdf, "does not keep the addresses of its virtual functions");
    }
    Ok(())
}

fn write_virtual<M: Mmio>(config: &mut ConfigSpace<M>, function: &Found, place: &Place) -> Result<(), LeftOut> {
    let Some(VirtualFunctions { sriov, bars, .. }) = &function.virtual_functions else { return Ok(()) };
    for Placed { need, address } in place.ranges.iter().filter(|placed| placed.need.part == Part::Virtual) {
        let bar = bars.iter().find(|bar| bar.index() == need.bar).ok_or(LeftOut::Bar)?;
        write_bar(config, function.bdf, sriov.register(sriov::offset::BAR0), bar, *address)?;
    }
    Ok(())
}

/// Writes one of the BARs that begin at byte `first`.
pub(crate) fn write_bar<M: Mmio>(
    config: &mut ConfigSpace<M>,
    bdf: Bdf,
    first: u16,
    bar: &Bar,
    address: u64,
) -> Result<(), LeftOut> {
    let at = first.saturating_add(u16::from(bar.index()) << 2);
    let above = (bar.registers() == 2).then_some(at.saturating_add(4));
    config.write_extended(bdf, at, address as u32);
    if let Some(above) = above {
        config.write_extended(bdf, above, (address >> 32) as u32);
    }
    let read = |register| u64::from(config.read_extended(bdf, register));
    let upper = above.map_or(0, |above| read(above) << 32);
    if read(at) & !0xf | upper == address { Ok(()) } else { Err(LeftOut::Forgets) }
}

fn write_memory<M: Mmio>(config: &mut ConfigSpace<M>, bdf: Bdf, range: Option<&Range<u64>>) -> Result<(), LeftOut> {
    let Some(range) = range else { return Ok(()) };
    let window = window(range)?;
    config.write(bdf, bridge::offset::MEMORY, window.to_memory().map_err(|_| LeftOut::NoRoom)?);
    let read = MemoryWindow::from_memory(config.read(bdf, bridge::offset::MEMORY));
    if read == Some(window) { Ok(()) } else { Err(LeftOut::Forgets) }
}

/// Writes the window of a bridge whose register reads `closed` without one.
fn write_prefetchable<M: Mmio>(
    config: &mut ConfigSpace<M>,
    bdf: Bdf,
    range: Option<&Range<u64>>,
    closed: u32,
) -> Result<(), LeftOut> {
    let Some(range) = range else { return Ok(()) };
    let window = window(range)?;
    let registers = window.to_prefetchable();
    if bridge::is_prefetchable_64(closed) {
        config.write(bdf, bridge::offset::PREFETCHABLE_BASE_UPPER, registers.base_upper);
        config.write(bdf, bridge::offset::PREFETCHABLE_LIMIT_UPPER, registers.limit_upper);
    }
    config.write(bdf, bridge::offset::PREFETCHABLE, registers.low);
    let read = MemoryWindow::from_prefetchable(PrefetchableRegisters {
        low: config.read(bdf, bridge::offset::PREFETCHABLE),
        base_upper: config.read(bdf, bridge::offset::PREFETCHABLE_BASE_UPPER),
        limit_upper: config.read(bdf, bridge::offset::PREFETCHABLE_LIMIT_UPPER),
    });
    if read == Some(window) { Ok(()) } else { Err(LeftOut::Forgets) }
}

fn window(range: &Range<u64>) -> Result<MemoryWindow, LeftOut> {
    MemoryWindow::new(range.start, range.end.saturating_sub(range.start)).map_err(|_| LeftOut::NoRoom)
}

/// Takes the addresses of a function that is left out, and a bridge's buses and windows. It decodes nothing.
fn withdraw<M: Mmio>(config: &mut ConfigSpace<M>, function: &Found) {
    for bar in &function.bars {
        // One that keeps another address does not answer there: decoding stays off.
        let _ = write_bar(config, function.bdf, offset::BAR0.into(), bar, 0);
    }
    if function.bridge.is_some() {
        close(config, function.bdf);
    }
    withdraw_virtual(config, function);
}

fn withdraw_virtual<M: Mmio>(config: &mut ConfigSpace<M>, function: &Found) {
    let Some(VirtualFunctions { sriov, bars, .. }) = &function.virtual_functions else { return };
    for bar in bars {
        // As above.
        let _ = write_bar(config, function.bdf, sriov.register(sriov::offset::BAR0), bar, 0);
    }
}
