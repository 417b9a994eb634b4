//! Fix `short-signal`: a signal is not decoded like an invocation.
//!
//! Counted in instructions: the machine's clock goes by them. The measure is a call of the same notification, which is an
//! invocation and stays one. That signals arrive as before is shown by the sequences of `sim/conformance`.

use crate::arch;
use crate::machine::Machine;
use crate::sys::{self, values};
use crate::verdict::{Check, defect_if};

const REPEATED: u64 = 1000;

pub(crate) fn run(machine: &mut Machine) -> Check {
    let notification = machine.object(values::NOTIFICATION_OBJECT)?;
    let call = instructions("call", || sys::signal_by_call(notification));
    let signal = instructions("signal", || sys::signal(notification));
    defect_if(signal > call - call / 3, "a signal takes the way of an invocation")
}

/// Instructions of `step`.
fn instructions(name: &str, step: impl Fn()) -> u64 {
    let begin = arch::ticks();
    for _ in 0..REPEATED {
        step();
    }
    let instructions = arch::instructions(arch::ticks().wrapping_sub(begin)) / REPEATED;
    sys::print(name);
    sys::print(": ");
    sys::print_number(instructions);
    sys::print(" instructions\n");
    instructions
}
