//! Pages of registers that the drivers of PCI functions use: no others are mapped.

use crate::layout::PAGE;

/// Queue pairs of the probe.
pub const PROBE_QUEUE_PAIRS: u32 = 2;
/// Pages of registers of an edu device: the rest of its BAR is a buffer.
pub const EDU_PAGES: u32 = 1;

/// Pages of BAR 0 of an NVMe controller up to the last doorbell of `queue_pairs` I/O queue pairs; `stride` is CAP.DSTRD, 15 at most
/// (NVMe base specification 2.0, sections 3.1.3.1 and 3.1.3.10).
#[must_use]
pub fn register_pages(queue_pairs: u32, stride: u8) -> u32 {
    let doorbells = 2 * (u64::from(queue_pairs) + 1) * (4u64 << stride.min(15));
    u32::try_from(doorbells.div_ceil(PAGE)).map_or(u32::MAX, |pages| pages.saturating_add(1))
}
