//! Fix `frame-remap`: the mapping of a frame cannot be changed where the table that held it is gone.

use crate::machine::{Machine, READ_WRITE, VSPACE};
use crate::sys::{self, values};
use crate::verdict::{Check, Trouble, need};

/// An address far from the image and from the window.
const ADDRESS: usize = 0x100_0000_0000;

pub(crate) fn run(machine: &mut Machine) -> Check {
    let table = machine.map_tables(VSPACE, ADDRESS)?;
    let frame = machine.object(values::SMALL_PAGE_OBJECT)?;
    let attributes = values::WRITE_BACK as u64;
    sys::invoke(frame, values::PAGE_MAP, &[ADDRESS as u64, READ_WRITE, attributes], &[VSPACE])
        .map_err(|error| Trouble::Broken("mapping a frame", error))?;
    let remap = || sys::invoke(frame, values::PAGE_REMAP, &[READ_WRITE, attributes], &[VSPACE]);
    remap().map_err(|error| Trouble::Broken("changing a mapping", error))?;
    machine.delete(table)?;
    // A kernel with the defect writes through a null pointer here.
    sys::print("the table is gone\n");
    need(remap() == Err(values::ERROR_FAILED_LOOKUP as u64), "another answer than expected")
}
