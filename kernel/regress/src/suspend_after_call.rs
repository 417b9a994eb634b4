//! Fix `suspend-after-call`: a thread that was woken, suspended before it ran, and resumed, does not wait again.

use crate::machine::{HIGHEST, Machine};
use crate::sys::{self, values};
use crate::verdict::{Check, Failure, defect_if, need};

pub(crate) fn run(machine: &mut Machine) -> Check {
    let endpoint = machine.object(values::ENDPOINT_OBJECT)?;
    let notification = machine.object(values::NOTIFICATION_OBJECT)?;
    let waiter = machine.start(sys::waiter, notification as usize, endpoint, HIGHEST)?;
    // A less urgent thread reports that the first one waits.
    let frame = machine.frame()?;
    machine.start(sys::prober, frame.address(), endpoint, HIGHEST - 1)?;
    need(sys::receive(endpoint).label == sys::PROBED, "the less urgent thread did not run")?;
    sys::signal(notification);
    for (label, step) in [(values::TCB_SUSPEND, "suspending"), (values::TCB_RESUME, "resuming")] {
        sys::invoke(waiter, label, &[], &[]).map_err(|error| Failure::Broken(step, error))?;
    }
    // The signal was delivered before: now the thread's message arrives, or its fault.
    let answer = sys::receive(endpoint);
    defect_if(answer.label != sys::PROBED, "a thread that was woken waited again, for something it never named")
}
