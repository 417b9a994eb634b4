//! Fix `fastpath-reply`: a server above its client answers as quickly as one at its client's priority.
//!
//! Counted in instructions: the machine's clock goes by them. That threads run in the same order as without the fix is shown
//! elsewhere, by the sequences of `sim/conformance` that answer and wait in one call.

use crate::arch;
use crate::machine::{HIGHEST, Machine};
use crate::sys::{self, MEASURED_CALLS, values};
use crate::verdict::{Check, defect_if, need};

/// The client's priority: the last in its word of the ready queues' bitmap, so every server above it is in another.
const CLIENT: u64 = 63;

pub(crate) fn run(machine: &mut Machine) -> Check {
    let equal = round_trip(machine, CLIENT)?;
    for server in [CLIENT + 1, HIGHEST] {
        let above = round_trip(machine, server)?;
        // The search of the ready queues takes a few instructions; the slow path takes more than the whole fast one.
        defect_if(above > equal + equal / 4, "an answer to a less urgent caller takes the slow path")?;
    }
    Ok(())
}

/// Instructions of a call and its answer, with a server of this priority.
fn round_trip(machine: &mut Machine, server: u64) -> Check<u64> {
    let (called, endpoint) = (machine.object(values::ENDPOINT_OBJECT)?, machine.object(values::ENDPOINT_OBJECT)?);
    machine.start(sys::server, called as usize, endpoint, server)?;
    machine.start(sys::measured_caller, called as usize, endpoint, CLIENT)?;
    let reported = sys::receive(endpoint);
    need(reported.label == sys::PROBED, "the client did not come through")?;
    let instructions = arch::instructions(reported.word) / MEASURED_CALLS;
    sys::print("server at ");
    sys::print_number(server);
    sys::print(": ");
    sys::print_number(instructions);
    sys::print(" instructions\n");
    Ok(instructions)
}
