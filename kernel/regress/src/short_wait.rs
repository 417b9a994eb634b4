//! Fix `short-wait`: a wait for which nothing is there blocks at once.
//!
//! Counted in instructions: the machine's clock goes by them. The measure is a wait that answers nobody before (ReplyRecv without
//! a caller), which takes the general way and stays there. That threads run in the same order as without the fix is shown by the
//! sequences of `sim/conformance`.

use crate::arch;
use crate::machine::{HIGHEST, Machine};
use crate::sys::{self, Slot, values};
use crate::verdict::{Check, defect_if};

const REPEATED: u64 = 100;
/// Instructions by which the general way is more. The attempt to answer alone was 51 to 89, and with the general way 131 to 215.
const LEAST_GAIN: u64 = 110;

pub(crate) fn run(machine: &mut Machine) -> Check {
    for object in [values::ENDPOINT_OBJECT, values::NOTIFICATION_OBJECT] {
        let (asked, answered) = (machine.object(values::NOTIFICATION_OBJECT)?, machine.object(object)?);
        machine.start(sys::answerer, asked as usize, answered, HIGHEST)?;
        let general = round_trip("general", values::SYS_REPLY_RECV, asked, answered);
        let short = round_trip("short", values::SYS_RECV, asked, answered);
        defect_if(short + LEAST_GAIN > general, "a wait for which nothing is there takes the general way")?;
    }
    Ok(())
}

/// Instructions from a signal to `asked` until its answer at `answered`, for which this thread waits by system call `wait`.
fn round_trip(name: &str, wait: i64, asked: Slot, answered: Slot) -> u64 {
    let begin = arch::ticks();
    for _ in 0..REPEATED {
        sys::signal(asked);
        sys::wait_by(wait, answered);
    }
    let instructions = arch::instructions(arch::ticks().wrapping_sub(begin)) / REPEATED;
    sys::print(name);
    sys::print(": ");
    sys::print_number(instructions);
    sys::print(" instructions\n");
    instructions
}
