//! Device Self-test (sections 5.8 and 8.11), and the log page of the results.
//!
//! A test takes its time beside all other work. The only thing that it finds are media that are not reliable any more. Left out:
//! places of failures, formats and deletions by other controllers of the subsystem as reasons of an abort.

use nvme_spec::admin::SelfTestCode;
use nvme_spec::log::{SelfTestLog, SelfTestResult};
use nvme_spec::{Nsid, Sqe, Status, StatusCode};

use super::commands::bad_field;
use super::health::Media;
use super::names::{Named, named};
use super::test_log::Running;
use crate::command::{Outcome, refused};
use crate::controller::Controller;

/// Executes Device Self-test.
pub(super) fn execute(controller: &mut Controller, sqe: &Sqe) -> Result<Outcome, Status> {
    let Some(code) = SelfTestCode::from_dw10(sqe.cdw10) else {
        return Err(bad_field(controller, sqe, 10));
    };
    settle(controller);
    let now_ns = controller.clock_ns;
    let takes_ns = match code {
        SelfTestCode::Abort => {
            controller.admin.self_tests.end(SelfTestResult::AbortedByCommand, now_ns);
            return Ok(Outcome::SUCCESS);
        }
        SelfTestCode::Short => controller.config.admin.short_test_ns,
        SelfTestCode::Extended => controller.config.admin.extended_test_ns,
    };
    match named(controller, sqe.nsid()) {
        Some(Named::Nothing | Named::All | Named::Active) => {}
        Some(Named::Inactive | Named::Unallocated) => return Err(refused(StatusCode::InvalidField)),
        None => return Err(refused(StatusCode::InvalidNamespaceOrFormat)),
    }
    if controller.admin.self_tests.running().is_some() {
        return Err(Status::new(StatusCode::SelfTestInProgress));
    }
    let ends_ns = now_ns.saturating_add(takes_ns);
    controller.admin.self_tests.start(Running { code, nsid: sqe.nsid(), began_ns: now_ns, ends_ns });
    Ok(Outcome::SUCCESS)
}

/// The log page (section 5.14.1.6).
pub(super) fn log(controller: &mut Controller) -> SelfTestLog {
    settle(controller);
    controller.admin.self_tests.log(controller.clock_ns)
}

/// Ends the test whose time is over.
fn settle(controller: &mut Controller) {
    let Some(test) = controller.admin.self_tests.running() else { return };
    // Of any controller of the subsystem.
    let sanitized_ns = controller.subsystem.sanitization.began_ns();
    if let Some(at_ns) = sanitized_ns.filter(|at_ns| (test.began_ns..test.ends_ns).contains(at_ns)) {
        return controller.admin.self_tests.end(SelfTestResult::AbortedBySanitize, at_ns);
    }
    if test.ends_ns <= controller.clock_ns {
        let result = match controller.admin.monitor.health().media {
            Media::Reliable => SelfTestResult::Passed,
            Media::Degraded | Media::ReadOnly => SelfTestResult::FailedSomewhere,
        };
        controller.admin.self_tests.end(result, test.ends_ns);
    }
}

/// Ends the test of a namespace that is formatted or removed.
pub(super) fn disturb(controller: &mut Controller, nsid: Nsid, result: SelfTestResult) {
    settle(controller);
    let is_tested = |test: Running| test.nsid == Nsid::ALL || test.nsid == nsid;
    if controller.admin.self_tests.running().is_some_and(is_tested) {
        controller.admin.self_tests.end(result, controller.clock_ns);
    }
}

/// Ends the test that a reset of the controller ends.
pub(crate) fn reset(controller: &mut Controller) {
    settle(controller);
    controller.admin.self_tests.reset(controller.clock_ns);
}
