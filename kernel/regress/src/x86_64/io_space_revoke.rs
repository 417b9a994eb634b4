//! Fix `io-space-revoke`: an IOSpace that was minted and copied to others can be revoked, and no other can be minted from it.

use super::edu::{Edu, REQUESTER_ID};
use crate::machine::Machine;
use crate::sys::{Slot, values};
use crate::verdict::{Check, defect_if, need};

const PATTERN: u64 = 0x5eed_0004_5eed_0004;
const DOMAIN: u16 = 1;
const OTHER_DOMAIN: u16 = 2;
const MASTER: Slot = values::CAP_IO_SPACE as Slot;
/// Addresses below one table.
const FIRST: u64 = 0x10_0000;
const SECOND: u64 = 0x10_1000;
const THIRD: u64 = 0x10_2000;

/// The minted capability is revoked: its copies are deleted, and the copies' copies; it and its sibling stay.
pub(crate) fn copy(machine: &mut Machine) -> Check {
    // Minted first, so that the walk along the derivations comes to it after the copies.
    let sibling = machine.io_space(REQUESTER_ID, OTHER_DOMAIN)?;
    let (minted, copy) = minted_and_copy(machine)?;
    let second_copy = machine.copy(copy)?;
    machine.revoke(minted)?;
    defect_if(machine.is_io_space(copy, FIRST)?, "a copy of an IOSpace outlives the revocation")?;
    defect_if(machine.is_io_space(second_copy, FIRST)?, "a copy of an IOSpace's copy outlives the revocation")?;
    need(machine.is_io_space(minted, SECOND)?, "the revoked capability itself is gone")?;
    need(machine.is_io_space(sibling, THIRD)?, "an IOSpace minted apart went with the revoked one")
}

/// The minted capability is revoked and deleted while the device works for the holder of a copy.
pub(crate) fn dma(machine: &mut Machine) -> Check {
    let device = Edu::new(machine)?;
    let (minted, copy) = minted_and_copy(machine)?;
    let frame = machine.frame()?;
    machine.map_io(&frame, copy, FIRST)?;
    frame.write(PATTERN);
    device.load(FIRST)?;
    frame.write(0);
    device.store(FIRST)?;
    need(frame.read() == PATTERN, "the device does not reach a mapped frame")?;

    machine.revoke(minted)?;
    machine.delete(minted)?;
    frame.write(0);
    device.store(FIRST)?;
    defect_if(frame.read() != 0, "the device writes after its IOSpace was revoked and deleted")
}

/// The master is revoked: all minted capabilities are deleted, and it can be minted from again.
pub(crate) fn master(machine: &mut Machine) -> Check {
    let (minted, copy) = minted_and_copy(machine)?;
    machine.revoke(MASTER)?;
    defect_if(machine.is_io_space(minted, FIRST)?, "a minted IOSpace outlives the master's revocation")?;
    defect_if(machine.is_io_space(copy, SECOND)?, "a minted IOSpace's copy outlives the master's revocation")?;
    // Its first table can be installed again: the device's entry was removed with the last capability.
    minted_and_copy(machine).map(|_| ())
}

/// An IOSpace of the one requester id that looks like the master's, and one minted from it.
pub(crate) fn mint(machine: &mut Machine) -> Check {
    let minted = machine.io_space(0, DOMAIN)?;
    match machine.mint(minted, u64::from(OTHER_DOMAIN) << 16 | u64::from(REQUESTER_ID)) {
        Ok(_) => defect_if(true, "the IOSpace of requester id 0 gave one of another function"),
        Err(error) => need(error == values::ERROR_ILLEGAL_OPERATION as u64, "another error than expected"),
    }
}

/// An IOSpace of the device, with tables of every level over the addresses above installed through a copy of it.
fn minted_and_copy(machine: &mut Machine) -> Check<(Slot, Slot)> {
    let minted = machine.io_space(REQUESTER_ID, DOMAIN)?;
    let copy = machine.copy(minted)?;
    for _ in 0..3 {
        machine.map_io_table(copy, FIRST)?;
    }
    Ok((minted, copy))
}
