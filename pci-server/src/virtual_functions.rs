//! Virtual functions (SR-IOV): disabled, sized, and checked for places that they can use.
//!
//! A physical function describes them in its configuration space, and one BAR of its capability holds a part for each of
//! them. They are found while they are disabled, so that nothing of them is touched. A physical function with an impossible
//! description, or with no place for them, is used without them. Neighbours: `enumerate` records them beside their
//! physical function, `assign` gives their BARs addresses, where no firmware has placed anything. Firmware that places only
//! other BARs leaves theirs to [`place`].

use crate::addresses::{PciWindows, page_range};
use crate::config_space::ConfigSpace;
use crate::function::{Function, Unusable, VirtualFunctions, VirtualOf};
use crate::sizing::{Note, read_sizes};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use pci_spec::bar::decode_all;
use pci_spec::bridge::MemoryWindow;
use pci_spec::extended::{self, ExtendedError};
use pci_spec::sriov::{self, Control, Sriov, SriovError, offset};
use pci_spec::{Bar, Bdf};
use platform::log::info;
use platform::{Memory, Mmio};

/// Reason why a description of virtual functions is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Impossible {
    /// The list of extended capabilities.
    List(ExtendedError),
    /// The capability.
    Capability(SriovError),
    /// The BARs of the virtual functions.
    Bar,
}

impl Impossible {
    /// The reason in words, for the log.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::List(_) => "has an impossible list of extended capabilities",
            Self::Capability(_) => "has an impossible SR-IOV capability",
            Self::Bar => "has impossible BARs of virtual functions",
        }
    }
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Gives virtual functions the addresses that firmware left them without: free ones that the bridges above forward. Only the
/// records change, and `enable` writes the registers. Where there is no room they stay unusable. `buses` exist.
pub fn place(functions: &mut [Function], windows: &PciWindows, buses: u16) {
    for index in 0..functions.len() {
        let Some(physical) = functions.get(index) else { continue };
        let Some(described) = physical.virtual_functions.clone() else { continue };
        if described.unusable != Some(Unusable::Unassigned) {
            continue;
        }
        for (number, bar) in described.bars.iter().enumerate().filter(|(_, bar)| bar.address() == 0) {
            let placed = functions.get(index).and_then(|physical| free_place(physical, bar, functions, windows));
            let record = functions.get_mut(index).and_then(|physical| physical.virtual_functions.as_mut());
            let record = record.and_then(|described| described.bars.get_mut(number));
            if let Some((record, placed)) = record.zip(placed) {
                *record = placed;
            }
        }
        let unusable = functions.get(index).and_then(|physical| misplaced(physical, functions, windows, buses));
        if let Some(described) = functions.get_mut(index).and_then(|physical| physical.virtual_functions.as_mut()) {
            described.unusable = unusable;
        }
    }
}

/// `bar` of the virtual functions of `physical`, at the lowest address where all their parts have room.
fn free_place(physical: &Function, bar: &Bar, all: &[Function], windows: &PciWindows) -> Option<Bar> {
    let described = physical.virtual_functions.as_ref()?;
    let bytes = sriov::bytes(bar, described.sriov.total)?;
    let taken: Vec<Range<u64>> = all.iter().flat_map(|other| answered(other, &physical.path)).collect();
    let above = || all.iter().filter(|other| physical.path.contains(&other.bdf)).map(|other| other.bridge?.memory);
    let first = windows.ranges().iter().map(|range| range.start);
    let forwarded = above().flatten().map(MemoryWindow::base);
    let after = taken.iter().map(|range| range.end);
    let starts = first.chain(forwarded).chain(after).filter_map(|start| start.checked_next_multiple_of(bar.size()));
    let is_free = |bar: &Bar| {
        let Some(end) = bar.address().checked_add(bytes).filter(|_| bar.address() != 0) else { return false };
        let range = bar.address()..end;
        windows.cover(&range)
            && above().all(|window| window.is_some_and(|window| window.contains(range.start, bytes)))
            && taken.iter().all(|taken| taken.end <= range.start || range.end <= taken.start)
    };
    starts.filter_map(|start| bar.at(start)).filter(is_free).min_by_key(|bar| bar.address())
}

/// The addresses that a function answers: its registers, those of its virtual functions, and those that it forwards, unless it
/// is one of the bridges in `path`.
fn answered<'a>(function: &'a Function, path: &[Bdf]) -> impl Iterator<Item = Range<u64>> + use<'a> {
    let described = function.virtual_functions.iter();
    let virtual_ranges = described.flat_map(|described| {
        let placed = described.bars.iter().filter(|bar| bar.address() != 0);
        placed.filter_map(move |bar| described.range(bar))
    });
    let beside = function.bridge.filter(|_| !path.contains(&function.bdf));
    let forwarded = beside.into_iter().flat_map(|bridge| [bridge.memory, bridge.prefetchable]).flatten();
    let forwarded = forwarded.map(|window| window.base()..window.limit().saturating_add(1));
    function.memory_bars().map(page_range).chain(virtual_ranges).chain(forwarded)
}

/// Whether the virtual function at `place`, with these BARs, is still enabled, and has the registers that it had when it was
/// found: a reset of the physical function takes both.
pub(crate) fn stand<M: Mmio>(config: &ConfigSpace<M>, place: VirtualOf, bars: &[Bar]) -> bool {
    let VirtualOf { physical, capability, number_z } = place;
    let register = |bytes: u16| capability.saturating_add(bytes);
    let read = |bytes: u16| u64::from(config.read_extended(physical, register(bytes)));
    let control = Control::from_bits(config.read_lower_half(physical, register(offset::CONTROL)));
    let number = config.read_lower_half(physical, register(offset::NUMBER));
    let stands = |bar: &Bar| {
        let low = offset::BAR0.saturating_add(u16::from(bar.index()) << 2);
        let upper = if bar.registers() == 2 { read(low.saturating_add(4)) << 32 } else { 0 };
        let first = bar.at(read(low) & !0xf | upper);
        first.and_then(|first| first.following(number_z)).as_ref() == Some(bar)
    };
    control.vf_enable() && control.vf_memory_space() && number_z < number && bars.iter().all(stands)
}

/// Disables the virtual functions of `physical`: they disappear with all that they were doing.
pub fn disable<M: Mmio>(config: &mut ConfigSpace<M>, physical: Bdf) {
    if let Ok(Some(capability)) = find(config, physical) {
        let register = capability.saturating_add(offset::CONTROL);
        let control = Control::from_bits(config.read_lower_half(physical, register));
        if control.vf_enable() || control.vf_memory_space() {
            info!("{:x}:{:x}.{} had virtual functions", physical.bus(), physical.device(), physical.function());
            let off = control.with_vf_enable(false).with_vf_memory_space(false);
            config.write_extended(physical, register, off.into_bits().into());
        }
    }
}

/// Reads the capability of `physical`, whose virtual functions are disabled, and sizes their BARs. Each BAR has its old
/// value afterwards; `note` has it meanwhile. `None` for a function without the capability.
///
/// # Errors
///
/// [`Impossible`]. Then they must stay disabled.
pub fn size<M: Mmio>(
    config: &mut ConfigSpace<M>,
    note: &Note<impl Memory>,
    physical: Bdf,
) -> Result<Option<VirtualFunctions>, Impossible> {
    let Some(capability) = find(config, physical)? else { return Ok(None) };
    let register = |bytes: u16| capability.saturating_add(bytes);
    config.write_extended(physical, register(offset::SYSTEM_PAGE_SIZE), sriov::PAGES_OF_4_KIB);
    // Routing ids depend on the number of functions, and are meaningless without any.
    let initial = config.read_lower_half(physical, register(offset::TOTAL));
    config.write_extended(physical, register(offset::NUMBER), initial.into());
    let read = Sriov::read(|register| config.read_extended(physical, register), physical, capability);
    config.write_extended(physical, register(offset::NUMBER), 0);
    let sriov = read.map_err(Impossible::Capability)?;
    let raw = read_sizes(config, note, physical, register(offset::BAR0), sriov::BARS as u8);
    let mut bars = heapless::Vec::new();
    for bar in decode_all(&raw.map_err(|_| Impossible::Bar)?) {
        let bar = bar.map_err(|_| Impossible::Bar)?;
        sriov::bytes(&bar, sriov.total).ok_or(Impossible::Bar)?;
        bars.push(bar).map_err(|_| Impossible::Bar)?;
    }
    Ok(Some(VirtualFunctions { sriov, bars, unusable: None }))
}

/// Offset of the SR-IOV capability, which ends inside configuration space.
pub(crate) fn find<M: Mmio>(config: &ConfigSpace<M>, physical: Bdf) -> Result<Option<u16>, Impossible> {
    let found = extended::find(|register| config.read_extended(physical, register), extended::id::SRIOV);
    let found = found.map_err(Impossible::List)?;
    found.map_or(Ok(()), sriov::check_place).map_err(Impossible::Capability)?;
    Ok(found)
}

/// Reason why the virtual functions of one of `all` the functions cannot be used, if so: a BAR of theirs without a place, or
/// a routing id that is not theirs alone. `buses` exist.
pub(crate) fn misplaced(physical: &Function, all: &[Function], windows: &PciWindows, buses: u16) -> Option<Unusable> {
    let virtual_functions = physical.virtual_functions.as_ref()?;
    // A bridge above that renames requests would rename those of all of them.
    if physical.requester_id != physical.bdf {
        return Some(Unusable::SharedRequesterId);
    }
    let Sriov { routing, total, .. } = virtual_functions.sriov;
    let last_bus = routing.last_bus(physical.bdf, total)?;
    if !own_buses(physical, last_bus, all, buses) {
        return Some(Unusable::NoBus);
    }
    let above = || all.iter().filter(|other| physical.path.contains(&other.bdf));
    for bar in &virtual_functions.bars {
        let Some(range) = virtual_functions.range(bar) else { return Some(Unusable::Bar) };
        if range.start == 0 {
            return Some(Unusable::Unassigned);
        }
        if !windows.cover(&range) {
            return Some(Unusable::OutsidePciWindows);
        }
        let bytes = range.end.saturating_sub(range.start);
        if !above().all(|other| other.bridge.is_some_and(|bridge| bridge.forwards(range.start, bytes))) {
            return Some(Unusable::NotForwarded);
        }
        if all.iter().any(|other| clash(physical, bar, &range, other)) {
            return Some(Unusable::Overlap);
        }
    }
    None
}

/// Whether accesses to all buses after the physical function's up to `last` arrive on its bus, and on no other.
fn own_buses(physical: &Function, last: u8, all: &[Function], buses: u16) -> bool {
    let Some(first) = physical.bdf.bus().checked_add(1) else { return last == physical.bdf.bus() };
    (first..=last).all(|bus| {
        let bridges = all.iter().filter_map(|other| Some((other.bdf, other.bridge?.numbers)));
        u16::from(bus) < buses
            && bridges.into_iter().all(|(bdf, numbers)| numbers.forwards(bus) == physical.path.contains(&bdf))
    })
}

/// Whether a BAR of `other`, or of its virtual functions, touches `range`, which is that of `bar` of the virtual functions of
/// `physical`.
fn clash(physical: &Function, bar: &Bar, range: &Range<u64>, other: &Function) -> bool {
    let touches = |theirs: Range<u64>| range.start < theirs.end && theirs.start < range.end;
    let theirs = other.virtual_functions.iter().flat_map(|virtual_functions| {
        let same = |theirs: &&Bar| physical.bdf == other.bdf && theirs.index() == bar.index();
        let others = virtual_functions.bars.iter().filter(move |theirs| !same(theirs));
        others.filter_map(|theirs| virtual_functions.range(theirs))
    });
    other.memory_bars().map(page_range).chain(theirs).any(touches)
}
