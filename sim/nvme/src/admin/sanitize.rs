//! Sanitize (sections 5.24 and 8.15): erases all namespaces of the subsystem, while nothing else can be done with them.
//!
//! The controller that executed the command reports the end of the operation. Left out: crypto erase, failures.

use nvme_spec::admin::{Opcode, SanitizeAction, SanitizeDw10};
use nvme_spec::event::AsyncEvent;
use nvme_spec::identify::Sanicap;
use nvme_spec::log::{LogDw10, LogPage};
use nvme_spec::{Sqe, Status, StatusCode};

use super::commands::bad_field;
use crate::command::{Outcome, refused};
use crate::controller::Controller;
use crate::store::{Base, Store, Zeroes};
use crate::write_log::WriteLog;

/// SANICAP. The media are not changed after an operation.
pub(super) const CAPABILITIES: Sanicap = Sanicap::new().with_erase(true).with_overwrite(true).with_modifies_after(1);

/// Bytes of the pattern of an overwrite.
const PATTERN_BYTES: u64 = 4;

/// Executes Sanitize. The operation begins with the completion.
pub(super) fn execute(controller: &mut Controller, sqe: &Sqe) -> Result<Outcome, Status> {
    let how = SanitizeDw10::from_bits(sqe.cdw10);
    let Some(action) = SanitizeAction::from_raw(how.action()) else {
        return Err(bad_field(controller, sqe, 10));
    };
    match action {
        // No operation fails, so there is nothing to leave.
        SanitizeAction::ExitFailure => return Ok(Outcome::SUCCESS),
        // SANICAP does not offer it.
        SanitizeAction::CryptoErase => return Err(refused(StatusCode::InvalidField)),
        SanitizeAction::BlockErase | SanitizeAction::Overwrite => {}
    }
    if controller.subsystem.firmware.next() != 0 {
        return Err(refused(StatusCode::FirmwareNeedsControllerReset));
    }
    let pattern = (action == SanitizeAction::Overwrite && how.keep_allocated()).then_some(sqe.cdw11);
    for namespace in controller.namespaces.iter_mut() {
        let base: Box<dyn Base> = match pattern {
            Some(pattern) => Box::new(move |offset: u64, bytes: &mut [u8]| fill(pattern, offset, bytes)),
            None => Box::new(Zeroes),
        };
        (namespace.store, namespace.log) = (Store::new(base), WriteLog::default());
    }
    controller.admin.events.log_read(LogPage::Sanitize as u8);
    let ends_ns = controller.subsystem.sanitization.begin(how, controller.clock_ns);
    controller.admin.sanitize_ends_ns = Some(ends_ns);
    Ok(Outcome::SUCCESS)
}

/// Fills bytes from this place of a namespace on with the pattern, whose least significant byte stands first.
fn fill(pattern: u32, offset: u64, bytes: &mut [u8]) {
    let pattern = pattern.to_le_bytes();
    let pattern = pattern.iter().copied().cycle().skip((offset % PATTERN_BYTES) as usize);
    for (place, byte) in bytes.iter_mut().zip(pattern) {
        *place = byte;
    }
}

/// Refuses commands that have to wait for the end of an operation (section 8.15.1).
///
/// # Errors
/// Sanitize In Progress.
pub(super) fn check(controller: &Controller, opcode: Opcode, sqe: &Sqe) -> Result<(), Status> {
    if controller.subsystem.sanitization.is_running(controller.clock_ns) && !is_allowed(opcode, sqe) {
        return Err(Status::new(StatusCode::SanitizeInProgress));
    }
    Ok(())
}

/// Whether a command is executed while an operation is going on.
fn is_allowed(opcode: Opcode, sqe: &Sqe) -> bool {
    const PAGES: [u8; 4] = [
        LogPage::ErrorInformation as u8,
        LogPage::Smart as u8,
        LogPage::ChangedNamespaces as u8,
        LogPage::Sanitize as u8,
    ];
    match opcode {
        Opcode::Abort
        | Opcode::AsyncEventRequest
        | Opcode::CreateIoCq
        | Opcode::CreateIoSq
        | Opcode::DeleteIoCq
        | Opcode::DeleteIoSq
        | Opcode::GetFeatures
        | Opcode::Identify
        | Opcode::KeepAlive
        | Opcode::SetFeatures => true,
        Opcode::GetLogPage => PAGES.contains(&LogDw10::from_bits(sqe.cdw10).lid()),
        _ => false,
    }
}

/// Reports the end of the operation that this controller began.
pub(super) fn advance(controller: &mut Controller) {
    if controller.admin.sanitize_ends_ns.is_some_and(|at_ns| at_ns <= controller.clock_ns) {
        controller.admin.sanitize_ends_ns = None;
        if controller.registers.is_ready() {
            controller.admin.events.report(AsyncEvent::SANITIZE_COMPLETED);
        }
    }
}
