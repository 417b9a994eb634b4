//! Sizes BARs, and checks them against the PCI windows, the bridges and each other.
//!
//! They are sized with decoding off. `pci_spec::Bar` refuses impossible ones. It also refuses a type that changes with all
//! ones, which the library's own sizing does not check. This module decides which BARs may be given away: those of whole
//! pages, inside the device memory the server holds, without overlap, and reachable.

use crate::config_space::ConfigSpace;
use crate::function::{Function, Unusable};
use crate::sizing::Note;
use crate::virtual_functions;
use alloc::vec::Vec;
use core::ops::Range;
use pci_spec::bar::{RawBar, decode_all};
use pci_spec::header::{BARS_TYPE_0, offset};
use pci_spec::{Bar, Bdf};
use platform::{Memory, Mmio, OutOfBounds, PAGE_SIZE, Paddr};
use virtio_drivers::transport::pci::bus::Command;

/// The BARs of a function, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SizedBars {
    /// The possible ones.
    pub bars: heapless::Vec<Bar, 6>,
    /// Whether some BAR is impossible.
    pub impossible: bool,
}

/// Sizes the first `count` BARs of `bdf`. Each has its old value afterwards; if the server is stopped meanwhile, `note` has
/// the values for the next incarnation to restore.
///
/// # Errors
///
/// [`OutOfBounds`] for a page that cannot hold the note: then nothing was sized.
pub fn size<M: Mmio>(
    config: &mut ConfigSpace<M>,
    note: &Note<impl Memory>,
    bdf: Bdf,
    count: u8,
) -> Result<SizedBars, OutOfBounds> {
    let raw = read_sizes(config, note, bdf, offset::BAR0.into(), count)?;
    let mut sized = SizedBars::default();
    for decoded in decode_all(&raw) {
        match decoded {
            Ok(bar) => sized.impossible |= sized.bars.push(bar).is_err(),
            Err(_) => sized.impossible = true,
        }
    }
    Ok(sized)
}

/// Reads the values and sizes of `count` BARs of `bdf`, up to six, of which the first is at byte `first`. Otherwise as
/// [`size`].
pub(crate) fn read_sizes<M: Mmio>(
    config: &mut ConfigSpace<M>,
    note: &Note<impl Memory>,
    bdf: Bdf,
    first: u16,
    count: u8,
) -> Result<heapless::Vec<RawBar, 6>, OutOfBounds> {
    note.take(config, bdf, first, count)?;
    let decoding = Command::IO_SPACE | Command::MEMORY_SPACE;
    let before = config.change_command(bdf, Command::empty(), decoding);
    let registers = (first..).step_by(4).take(count.min(BARS_TYPE_0).into());
    let raw = registers
        .map(|register| {
            let value = config.read_extended(bdf, register);
            config.write_extended(bdf, register, u32::MAX);
            let sized = config.read_extended(bdf, register);
            config.write_extended(bdf, register, value);
            RawBar { value, sized }
        })
        .collect();
    config.change_command(bdf, before.intersection(decoding), Command::empty());
    note.strike()?;
    Ok(raw)
}

/// The physical memory that BARs may lie in: the server's device untypeds.
#[derive(Clone, Debug)]
pub struct PciWindows {
    /// Disjoint, not touching, ascending.
    ranges: Vec<Range<u64>>,
}

impl PciWindows {
    /// The PCI windows of untypeds with these addresses and log2 sizes.
    #[must_use]
    pub fn new(untypeds: &[(Paddr, u8)]) -> Self {
        let mut all: Vec<Range<u64>> = untypeds
            .iter()
            .filter_map(|(paddr, bits)| {
                let bytes = 1u64.checked_shl(u32::from(*bits))?;
                Some(paddr.bits()..paddr.bits().checked_add(bytes)?)
            })
            .collect();
        all.sort_by_key(|range| range.start);
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for range in all {
            match ranges.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => ranges.push(range),
            }
        }
        Self { ranges }
    }

    /// The PCI windows, disjoint and ascending.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Whether all of `range` lies in the PCI windows.
    #[must_use]
    pub fn cover(&self, range: &Range<u64>) -> bool {
        self.ranges.iter().any(|window| window.start <= range.start && range.end <= window.end)
    }
}

/// The whole pages a BAR touches, as physical addresses. Those at the very top end at the last address.
#[must_use]
pub fn page_range(bar: &Bar) -> Range<u64> {
    let page = PAGE_SIZE as u64;
    let start = bar.address() & !page.wrapping_sub(1);
    let end = bar.last().checked_add(1).and_then(|end| end.checked_next_multiple_of(page));
    start..end.unwrap_or(u64::MAX)
}

/// Whether each memory BAR still has the address at which it was found: a function that was reset since has lost them.
#[must_use]
pub fn stand<M: Mmio>(config: &ConfigSpace<M>, function: &Function) -> bool {
    if let Some(place) = function.virtual_of {
        return virtual_functions::stand(config, place, &function.bars);
    }
    let address = |index: u8| offset::bar(index).map_or(0, |register| u64::from(config.read(function.bdf, register)));
    function.memory_bars().all(|bar| {
        let upper = if bar.registers() == 2 { address(bar.index().saturating_add(1)) << 32 } else { 0 };
        address(bar.index()) & !0xf | upper == bar.address()
    })
}

/// Marks the functions with a memory BAR that must not be given away, and those whose virtual functions cannot be used, from
/// number `first` on: those before are as they were. There are `buses` buses.
pub fn place(functions: &mut [Function], first: usize, windows: &PciWindows, buses: u16) {
    let reasons: Vec<[Option<Unusable>; 2]> = functions
        .iter()
        .skip(first)
        .map(|function| {
            let of_virtual = virtual_functions::misplaced(function, functions, windows, buses);
            [misplaced(function, functions, windows), of_virtual]
        })
        .collect();
    for (function, [reason, of_virtual]) in functions.iter_mut().skip(first).zip(reasons) {
        if let Some(reason) = reason {
            function.refuse(reason);
        }
        if let Some(virtual_functions) = &mut function.virtual_functions {
            virtual_functions.unusable = of_virtual;
        }
    }
}

fn misplaced(function: &Function, all: &[Function], windows: &PciWindows) -> Option<Unusable> {
    let above: Vec<&Function> = all.iter().filter(|other| function.path.contains(&other.bdf)).collect();
    for bar in function.memory_bars() {
        let pages = page_range(bar);
        if !windows.cover(&pages) {
            return Some(Unusable::OutsidePciWindows);
        }
        if pages.start != bar.address() {
            return Some(Unusable::InsidePage);
        }
        let forwarded = |bridge: &&Function| bridge.bridge.is_some_and(|b| b.forwards(bar.address(), bar.size()));
        if !above.iter().all(forwarded) {
            return Some(Unusable::NotForwarded);
        }
        if all.iter().any(|other| other.memory_bars().any(|theirs| clash(function, bar, &pages, other, theirs))) {
            return Some(Unusable::Overlap);
        }
    }
    None
}

/// Whether `theirs` of `other` is a different BAR that touches one of `pages`.
fn clash(function: &Function, bar: &Bar, pages: &Range<u64>, other: &Function, theirs: &Bar) -> bool {
    let same = function.bdf == other.bdf && bar.index() == theirs.index();
    let other = page_range(theirs);
    !same && pages.start < other.end && other.start < pages.end
}
