//! Fix `io-page-table`: an IO page table that was unmapped has no old entries when it is mapped again.

use super::edu::{Edu, REQUESTER_ID};
use crate::machine::Machine;
use crate::sys::{Slot, values};
use crate::verdict::{Check, Failure, defect_if, need};

const PATTERN: u64 = 0x5eed_0003_5eed_0003;
const DOMAIN: u16 = 1;
/// An address, and one that needs another table of the lowest level.
const FIRST: u64 = 0x20_0000;
const SECOND: u64 = 0x40_0000;

/// A table with an entry is unmapped and mapped elsewhere, and the entry's frame capability is deleted.
pub(crate) fn entries(machine: &mut Machine) -> Check {
    let device = Edu::new(machine)?;
    let (io_space, lowest) = space(machine)?;
    let frame = machine.frame()?;
    let mapping = machine.map_io(&frame, io_space, FIRST)?;
    frame.write(PATTERN);
    device.load(FIRST)?;
    frame.write(0);
    device.store(FIRST)?;
    need(frame.read() == PATTERN, "the device does not reach a mapped frame")?;

    machine.unmap_io_table(lowest).map_err(|error| Failure::Broken("unmapping an IO page table", error))?;
    machine.map_this_io_table(lowest, io_space, SECOND)?;
    machine.delete(mapping)?;
    frame.write(0);
    device.store(SECOND)?;
    defect_if(frame.read() != 0, "the device writes through a table that was unmapped, after its frame's deletion")
}

/// A table is unmapped while its capability has a copy.
pub(crate) fn copies(machine: &mut Machine) -> Check {
    let (_, lowest) = space(machine)?;
    machine.copy(lowest)?;
    match machine.unmap_io_table(lowest) {
        Ok(()) => defect_if(true, "an IO page table was unmapped although its capability has copies"),
        Err(error) => need(error == values::ERROR_REVOKE_FIRST as u64, "another error than expected"),
    }
}

/// The device's address space with tables of every level over [`FIRST`], and the lowest of them.
fn space(machine: &mut Machine) -> Check<(Slot, Slot)> {
    let io_space = machine.io_space(REQUESTER_ID, DOMAIN)?;
    for _ in 0..2 {
        machine.map_io_table(io_space, FIRST)?;
    }
    Ok((io_space, machine.map_io_table(io_space, FIRST)?))
}
