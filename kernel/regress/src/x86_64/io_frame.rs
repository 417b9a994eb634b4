//! Fix `frame-copy`, in an IOSpace.

use super::edu::{Edu, REQUESTER_ID};
use crate::machine::Machine;
use crate::verdict::{Check, defect_if, need};

const PATTERN: u64 = 0x5eed_0001_5eed_0001;
const DOMAIN: u16 = 1;
const SOURCE: u64 = 0x10_0000;
const TARGET: u64 = 0x10_1000;

/// The device stores through a mapping before and after its capability is deleted.
pub(crate) fn run(machine: &mut Machine) -> Check {
    let device = Edu::new(machine)?;
    let io_space = machine.io_space(REQUESTER_ID, DOMAIN)?;
    for _ in 0..3 {
        machine.map_io_table(io_space, SOURCE)?;
    }
    let (source, target) = (machine.frame()?, machine.frame()?);
    machine.map_io(&source, io_space, SOURCE)?;
    let mapping = machine.map_io(&target, io_space, TARGET)?;
    source.write(PATTERN);
    device.load(SOURCE)?;
    device.store(TARGET)?;
    need(target.read() == PATTERN, "the device does not reach a mapped frame")?;
    machine.delete(mapping)?;
    target.write(0);
    device.store(TARGET)?;
    defect_if(target.read() != 0, "the device writes through a deleted frame capability")
}
