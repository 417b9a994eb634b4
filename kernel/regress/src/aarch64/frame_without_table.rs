//! Fixes `frame-remap` and `frame-flush`: a frame's capability has a mapping whose table is gone, and operations on that
//! mapping are errors.

use crate::machine::{Machine, READ_WRITE, VSPACE};
use crate::sys::{self, Slot, values};
use crate::verdict::{Check, Failure, defect_if, need};

/// An address far from the image and from the mapping area.
const ADDRESS: usize = 0x100_0000_0000;
const FAILED_LOOKUP: u64 = values::ERROR_FAILED_LOOKUP as u64;

/// The mapping is changed.
pub(crate) fn remap(machine: &mut Machine) -> Check {
    let (frame, table) = mapped(machine)?;
    let remap = || sys::invoke(frame, values::PAGE_REMAP, &[READ_WRITE, values::WRITE_BACK as u64], &[VSPACE]);
    remap().map_err(|error| Failure::Broken("changing a mapping", error))?;
    machine.delete(table)?;
    // A kernel with the defect writes through a null pointer here.
    sys::print("the table is gone\n");
    need(remap() == Err(FAILED_LOOKUP), "another answer than expected")
}

/// The frame's first word is written back from the cache.
pub(crate) fn flush(machine: &mut Machine) -> Check {
    let (frame, table) = mapped(machine)?;
    let flush = || sys::invoke(frame, values::PAGE_CLEAN, &[0, 8], &[]);
    flush().map_err(|error| Failure::Broken("cleaning the cache", error))?;
    machine.delete(table)?;
    let answer = flush();
    defect_if(answer.is_ok(), "the kernel works on the cache at an address that is not mapped")?;
    need(answer == Err(FAILED_LOOKUP), "another answer than expected")
}

/// A frame that is mapped, and the table under it.
fn mapped(machine: &mut Machine) -> Check<(Slot, Slot)> {
    let table = machine.map_tables(VSPACE, ADDRESS)?;
    let frame = machine.object(values::SMALL_PAGE_OBJECT)?;
    let words = [ADDRESS as u64, READ_WRITE, values::WRITE_BACK as u64];
    sys::invoke(frame, values::PAGE_MAP, &words, &[VSPACE])
        .map_err(|error| Failure::Broken("mapping a frame", error))?;
    Ok((frame, table))
}
