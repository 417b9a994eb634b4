//! Reads that must happen in every run of a load: its mix is drawn at random and may miss them.

use crate::area::{Access, Units};
use crate::buffer::Buffer;
use crate::load::{Load, Operation};
use crate::shape::Impossible;
use platform::Platform;

/// Makes one read of the largest size where sizes vary.
///
/// A session that takes no request of that size, or an area without room for one, fails the load.
pub(crate) async fn read_largest<P: Platform>(
    load: &Load<'_, P>,
    buffers: &[Buffer<P::Memory>],
) -> Result<(), Impossible> {
    let (largest, Some(buffer)) = (load.bench.max_block_bytes, buffers.first()) else { return Ok(()) };
    let units = Units { first: 0, count: load.max_units.min(load.area.borrow().len()) };
    let bytes = units.count.saturating_mul(load.bench.block_bytes);
    if bytes < largest {
        load.fail(false, format_args!("the largest request has {bytes} bytes instead of {largest}"));
    }
    if largest > 0 && !load.touches_bad_block(units) {
        load.operate(Operation { access: Access::Read, units }, buffer).await?;
    }
    Ok(())
}

/// Reads the block that must fail, where there is one. At least one read of it must have failed.
pub(crate) async fn read_bad_block<P: Platform>(
    load: &Load<'_, P>,
    buffers: &[Buffer<P::Memory>],
) -> Result<(), Impossible> {
    let (Some(bad), Some(buffer)) = (load.bench.bad_block, buffers.first()) else { return Ok(()) };
    let unit = bad.checked_div(u64::from(load.unit_blocks)).and_then(|unit| u32::try_from(unit).ok());
    if let Some(first) = unit.filter(|unit| *unit < load.area.borrow().len()) {
        load.operate(Operation { access: Access::Read, units: Units { first, count: 1 } }, buffer).await?;
    }
    if load.outcome.borrow().media_errors == 0 {
        load.fail(false, format_args!("no read of the bad block {bad} failed"));
    }
    Ok(())
}
