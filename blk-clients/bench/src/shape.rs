//! The shape of a load, from the configuration and the session's geometry, and the reasons why a load is impossible.

use crate::area::{MAX_FILL_BYTES, MAX_UNITS};
use crate::buffer::Layout;
use blk_client::{Geometry, MAX_SEGMENTS};
use core::fmt;
use workload::Bench;

/// Reason why a load cannot run as configured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Impossible {
    /// The request size is zero, or no multiple of the block size.
    BlockBytes { asked: u32, block: u32 },
    /// The extents, or the largest request, hold less than one request.
    TooFewBlocks,
    /// The window holds less than one request.
    WindowTooSmall,
    /// More ranges than a request can name, or none; or ranges that are not aligned to 4 bytes.
    Ranges,
    /// Neither a count nor a time ends the load.
    Endless,
    /// The window's memory differs from the environment's description.
    Window,
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BlockBytes { asked, block } => {
                write!(f, "block_bytes {asked} is not a multiple of the namespace's {block}")
            }
            Self::TooFewBlocks => f.write_str("the session's blocks hold less than one request"),
            Self::WindowTooSmall => f.write_str("the window holds less than one request"),
            Self::Ranges => {
                write!(f, "segments must be 1 to {MAX_SEGMENTS}, misalign_bytes a multiple of 4 below 4096")
            }
            Self::Endless => f.write_str("neither operations nor milliseconds nor a moment that ends it is set"),
            Self::Window => f.write_str("the window's memory cannot be reached"),
        }
    }
}

impl From<platform::OutOfBounds> for Impossible {
    fn from(_: platform::OutOfBounds) -> Self {
        Self::Window
    }
}

/// Computes the layout of requests in the window from the configuration and the geometry.
pub(crate) fn layout(geometry: &Geometry, bench: &Bench) -> Result<Layout, Impossible> {
    let block = geometry.block_bytes;
    let multiple = |bytes: u32| bytes != 0 && bytes.is_multiple_of(block);
    if !multiple(bench.block_bytes) {
        return Err(Impossible::BlockBytes { asked: bench.block_bytes, block });
    }
    let segments = usize::from(bench.segments);
    let misalign_bytes = bench.misalign_bytes as usize;
    if !(1..=MAX_SEGMENTS).contains(&segments) || !misalign_bytes.is_multiple_of(4) || misalign_bytes >= 4096 {
        return Err(Impossible::Ranges);
    }
    let unit_blocks = bench.block_bytes.checked_div(block).unwrap_or(1);
    let largest = bench.max_block_bytes.max(bench.block_bytes).checked_div(block).unwrap_or(1);
    let reachable = u64::from(largest.min(geometry.max_blocks)).min(geometry.blocks);
    // Below a u32, and in whole units.
    let units = (reachable as u32).checked_div(unit_blocks).unwrap_or(0);
    if units == 0 {
        return Err(Impossible::TooFewBlocks);
    }
    let max_blocks = units.saturating_mul(unit_blocks);
    if max_blocks < largest {
        platform::log::warn!("requests cut to {} blocks, the most the session takes", max_blocks);
    }
    Ok(Layout { block_bytes: block as usize, max_blocks: max_blocks as usize, segments, misalign_bytes })
}

/// Units of the area: limited by the extents, by the table, and by the time to fill them.
pub(crate) fn area_units(blocks: u64, unit_blocks: u32, max_units: u32, bench: &Bench) -> u32 {
    let held = blocks.checked_div(u64::from(unit_blocks)).unwrap_or(0).min(MAX_UNITS);
    // Twice what can be in flight, so that random places seldom meet.
    let apart = u64::from(max_units).saturating_mul(u64::from(bench.depth.max(1))).saturating_mul(2);
    let fillable = MAX_FILL_BYTES.checked_div(u64::from(bench.block_bytes)).unwrap_or(1).max(apart);
    let units = if bench.verify { held.min(fillable) } else { held };
    // At most MAX_UNITS.
    units as u32
}
