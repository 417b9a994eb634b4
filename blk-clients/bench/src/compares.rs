//! After the load: verify and compare, over the first requests' blocks.
//!
//! Each request's blocks are written and verified; a controller without Verify may refuse that. A compare with what was written must succeed, and one with other data must
//! report the difference. In the end the blocks are read: nothing of that changed them.

use crate::area::{Access, Units};
use crate::buffer::Buffer;
use crate::load::{Load, Operation};
use crate::shape::Impossible;
use blk_client::{Error, Status};
use platform::Platform;

/// Requests whose blocks are verified and compared.
const REQUESTS: u32 = 4;

/// Runs the phase.
pub(crate) async fn run<P: Platform>(load: &Load<'_, P>, buffer: &Buffer<P::Memory>) -> Result<(), Impossible> {
    let total = load.area.borrow().len();
    for index in 0..REQUESTS {
        let first = index.saturating_mul(load.max_units);
        let count = load.max_units.min(total.saturating_sub(first));
        let units = Units { first, count };
        if count == 0 || load.touches_bad_block(units) {
            continue;
        }
        load.operate(Operation { access: Access::Write, units }, buffer).await?;
        check(load, units, buffer).await?;
        load.operate(Operation { access: Access::Read, units }, buffer).await?;
    }
    Ok(())
}

/// Verifies and compares blocks that have the content of the buffer.
async fn check<P: Platform>(load: &Load<'_, P>, units: Units, buffer: &Buffer<P::Memory>) -> Result<(), Impossible> {
    let (lba, blocks) = (load.lba(units), load.blocks(units));
    let verified = load.persistently(async || load.device.verify(lba, blocks as u32).await).await;
    // QEMU's controller does not offer it.
    if verified != Err(Error::status(Status::Unsupported)) {
        load.holds("verify", lba, verified);
    }
    load.holds("compare", lba, compare(load, units, buffer).await);
    buffer.soil(blocks)?;
    match compare(load, units, buffer).await {
        Err(error) if error.outcome() == Some(Status::CompareFailed) => {}
        Err(error) => load.fail(true, format_args!("compare at block {lba} with other data: {error}")),
        Ok(()) => load.fail(false, format_args!("blocks from {lba} on compared as equal with other data")),
    }
    Ok(())
}

async fn compare<P: Platform>(load: &Load<'_, P>, units: Units, buffer: &Buffer<P::Memory>) -> Result<(), Error> {
    let mut room = buffer.room();
    let (parts, lba) = (buffer.parts(load.blocks(units), &mut room), load.lba(units));
    load.persistently(async || load.device.compare(lba, parts).await).await
}
