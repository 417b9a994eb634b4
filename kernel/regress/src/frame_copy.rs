//! Fix `frame-copy`: a mapping goes with the capability through which it was made, even if the frame has others.

use crate::edu::{Edu, REQUESTER_ID};
use crate::machine::Machine;
use crate::verdict::{Check, defect_if, need};

const PATTERN: u64 = 0x5eed_0001_5eed_0001;
const DOMAIN: u16 = 1;
const SOURCE: u64 = 0x10_0000;
const TARGET: u64 = 0x10_1000;

/// A second thread reads through a mapping before and after its capability is deleted.
pub(crate) fn vspace(machine: &mut Machine) -> Check {
    let frame = machine.frame()?;
    frame.write(PATTERN);
    let address = frame.address();
    need(machine.probe(address)? == Some(PATTERN), "the second thread cannot read a mapped frame")?;
    machine.delete(frame.mapped)?;
    defect_if(machine.probe(address)?.is_some(), "the processor reads through a deleted frame capability")
}

/// The device stores through a mapping before and after its capability is deleted.
pub(crate) fn io_space(machine: &mut Machine) -> Check {
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
