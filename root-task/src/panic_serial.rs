//! The root task's panic message when there is no console to send it.

use crate::build::OWN_COMPONENT;
use alloc::vec::Vec;
use report::frame::{self, Kind, MAX_FRAME};
use report::{Report, Stamped, clip};

/// `reason` as a failure of the root task: a frame for the machine's serial line, so that the build machine prints it instead of
/// waiting for a system that never comes.
#[must_use]
pub fn panic_frame(reason: &str) -> Vec<u8> {
    let report = Report::Failure { component: clip("root-task"), reason: clip(reason) };
    // Without a platform there is no clock.
    let record = Stamped { at_ns: 0, report }.encode();
    let mut line = [0; MAX_FRAME];
    let len = frame::encode(OWN_COMPONENT, Kind::Report, &record, &mut line).unwrap_or(0);
    line.get(..len).unwrap_or_default().to_vec()
}
