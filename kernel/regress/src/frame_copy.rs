//! Fix `frame-copy`, in a VSpace: a mapping is removed with the capability through which it was made, even if the frame has
//! others.

use crate::machine::Machine;
use crate::verdict::{Check, defect_if, need};

const PATTERN: u64 = 0x5eed_0001_5eed_0001;

/// A second thread reads through a mapping before and after its capability is deleted.
pub(crate) fn run(machine: &mut Machine) -> Check {
    let frame = machine.frame()?;
    frame.write(PATTERN);
    let address = frame.address();
    need(machine.probe(address)? == Some(PATTERN), "the second thread cannot read a mapped frame")?;
    machine.delete(frame.mapped)?;
    defect_if(machine.probe(address)?.is_some(), "the processor reads through a deleted frame capability")
}
