//! Sizes BARs, and checks them against the PCI windows, the bridges and each other.
//!
//! They are sized with decoding off. `pci_spec::Bar` refuses impossible ones. It also refuses a type that changes with all
//! ones, which the library's own sizing does not check. This module decides which BARs may be given away: those of whole
//! pages, inside the device memory the server holds, without overlap, and reachable.

use crate::addresses::{PciWindows, page_range};
use crate::config_space::ConfigSpace;
use crate::function::{Function, Unusable};
use crate::sizing::{Note, read_sizes};
use crate::virtual_functions;
use alloc::vec::Vec;
use core::ops::Range;
use pci_spec::bar::decode_all;
use pci_spec::header::offset;
use pci_spec::{Bar, Bdf};
use platform::{Memory, Mmio, OutOfBounds};

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
