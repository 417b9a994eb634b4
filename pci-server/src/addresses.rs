//! Physical addresses: the PCI windows, and the pages of a BAR.

use alloc::vec::Vec;
use core::ops::Range;
use pci_api::Refusal;
use pci_spec::Bar;
use platform::{PAGE_SIZE, Paddr};

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

/// Physical address of page `number` of `bar`, which is page aligned.
pub(crate) fn page_of(bar: &Bar, number: u64) -> Result<Paddr, Refusal> {
    let offset = number.checked_mul(PAGE_SIZE as u64).ok_or(Refusal::Unusable)?;
    Paddr::new(bar.address()).checked_add(offset).ok_or(Refusal::Unusable)
}
