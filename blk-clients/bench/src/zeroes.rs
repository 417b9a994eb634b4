//! After the load: write zeroes and discard, over the first requests' blocks.
//!
//! Zeroed blocks must read as zeroes. Discarded blocks may read as anything (NVM command set 1.0, section 3.2.3.2.1:
//! the namespace's DLFEAT says what), so the check is only that they are readable. Both are written again at the end and
//! verified, so that the area agrees with the table.

use crate::area::{Access, Units};
use crate::buffer::Buffer;
use crate::load::{Load, Operation};
use crate::shape::Impossible;
use platform::Platform;

/// Requests that are zeroed or discarded, by turns.
const REQUESTS: u32 = 8;

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
        load.area.borrow_mut().forget(units);
        if index.is_multiple_of(2) {
            zero(load, units, buffer).await?;
        } else {
            discard(load, units, buffer).await?;
        }
        for access in [Access::Write, Access::Read] {
            load.operate(Operation { access, units }, buffer).await?;
        }
    }
    Ok(())
}

async fn zero<P: Platform>(load: &Load<'_, P>, units: Units, buffer: &Buffer<P::Memory>) -> Result<(), Impossible> {
    let (lba, blocks) = (load.lba(units), load.blocks(units));
    let zeroed = load.persistently(async || load.device.write_zeroes(lba, blocks as u32).await).await;
    buffer.soil(blocks)?;
    if load.holds("write zeroes", lba, zeroed) && read(load, units, buffer).await {
        let nonzero = buffer.count_nonzero(blocks)?;
        if nonzero > 0 {
            load.fail(
                false,
                format_args!("blocks from {lba} on have {nonzero} bytes that are not zero after write zeroes"),
            );
        }
    }
    Ok(())
}

async fn discard<P: Platform>(load: &Load<'_, P>, units: Units, buffer: &Buffer<P::Memory>) -> Result<(), Impossible> {
    let (lba, blocks) = (load.lba(units), load.blocks(units));
    let discarded = load.persistently(async || load.device.discard(lba, blocks as u32).await).await;
    if load.holds("discard", lba, discarded) {
        read(load, units, buffer).await;
    }
    Ok(())
}

async fn read<P: Platform>(load: &Load<'_, P>, units: Units, buffer: &Buffer<P::Memory>) -> bool {
    let mut room = buffer.room();
    let (parts, lba) = (buffer.parts(load.blocks(units), &mut room), load.lba(units));
    load.holds("read", lba, load.persistently(async || load.device.read(lba, parts).await).await)
}
