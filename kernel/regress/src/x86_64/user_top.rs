//! Fix `user-top`: user level gets neither the last page of the lower half nor an address that is not canonical.
//!
//! QEMU lets the kernel return to such an address, and faults at user level. So the tests look whether the kernel refuses.

use crate::machine::{HIGHEST, Machine, PAGE, READ_WRITE, VSPACE, configure_with_buffer};
use crate::sys::{self, values};
use crate::verdict::{Check, Failure, defect_if};

/// The first address that is not canonical.
const END: usize = 1 << 47;
/// The last page below.
const LAST: usize = END - PAGE;

pub(crate) fn page(machine: &mut Machine) -> Check {
    machine.map_tables(VSPACE, LAST)?;
    let mut map = |address: usize| {
        let frame = machine.object(values::SMALL_PAGE_OBJECT)?;
        let words = [address as u64, READ_WRITE, values::WRITE_BACK as u64];
        Ok(sys::invoke(frame, values::PAGE_MAP, &words, &[VSPACE]))
    };
    map(LAST - PAGE)?.map_err(|error| Failure::Broken("mapping the page below", error))?;
    defect_if(map(LAST)?.is_ok(), "user level has the page whose end is not canonical")
}

pub(crate) fn buffer(machine: &mut Machine) -> Check {
    let endpoint = machine.object(values::ENDPOINT_OBJECT)?;
    let tcb = machine.object(values::TCB_OBJECT)?;
    let configure = |address: usize| configure_with_buffer(tcb, VSPACE, endpoint, HIGHEST, address as u64);
    configure(LAST - PAGE).map_err(|error| Failure::Broken("configuring a thread", error))?;
    defect_if(configure(END).is_ok(), "an IPC buffer's address is not canonical")
}
