//! Changes of the admin side without a command: events, errors, the end of the keep alive time.

use nvme_spec::event::AsyncEvent;
use nvme_spec::{Cid, QueueId, Status, StatusCode, nvm};
use sim_fault::{ControllerEffect, Happening};

use super::errors::Details;
use super::sanitize;
use crate::command::{Command, Outcome};
use crate::controller::Controller;
use crate::host::Host;
use crate::violation::DoorbellError;

/// Holds an Asynchronous Event Request until there is an event, or completes it if there is one already.
pub(super) fn event_request(controller: &mut Controller, cid: Cid) -> Result<Outcome, Status> {
    controller.admin.events.request(cid).map_err(Status::new)?;
    let Some((_, event)) = controller.admin.events.take_due() else { return Ok(Outcome::Held) };
    told(controller, event);
    Ok(Outcome::Done { dw0: event.into_bits(), status: Status::SUCCESS })
}

/// Handles the expiry of the keep alive timer: the controller stops (section 7.12).
fn expire(controller: &mut Controller) {
    if controller.admin.keep_alive.expires_ns().is_some_and(|at_ns| at_ns <= controller.clock_ns) {
        controller.admin.keep_alive.stop();
        controller.fail();
    }
}

/// Acts on what is due.
pub(crate) fn advance(controller: &mut Controller, host: &mut dyn Host) {
    expire(controller);
    sanitize::advance(controller);
    deliver_events(controller, host);
}

/// Adds a failed command to the error log and sets More in its status. Commands that were aborted on request or with
/// their queue are not errors.
pub(crate) fn on_error(controller: &mut Controller, command: &mut Command) {
    let details =
        controller.admin.details.take_if(|(cid, _)| command.sq == QueueId::ADMIN.0 && *cid == command.sqe.cid());
    if matches!(command.status.code(), StatusCode::AbortRequested | StatusCode::SqDeleted) {
        return;
    }
    let details =
        details.map_or_else(|| Details { lba: first_block(command), ..Details::default() }, |(_, details)| details);
    command.status = controller.admin.errors.record(command.sq, &command.sqe, command.status, details);
}

/// Returns the first block of an I/O command that names blocks in CDW10 and CDW11; 0 for any other.
fn first_block(command: &Command) -> u64 {
    let opcode = nvm::Opcode::from_raw(command.sqe.opcode());
    match opcode {
        _ if command.sq == QueueId::ADMIN.0 => 0,
        None | Some(nvm::Opcode::Flush | nvm::Opcode::DatasetManagement) => 0,
        Some(_) => u64::from(command.sqe.cdw10) | u64::from(command.sqe.cdw11) << 32,
    }
}

/// Adds a wrong write of a doorbell to the error log, and reports an event.
pub(crate) fn on_doorbell_error(controller: &mut Controller, which: DoorbellError, host: &mut dyn Host) {
    controller.admin.errors.record_event();
    controller.admin.events.report(match which {
        DoorbellError::UnknownQueue => AsyncEvent::INVALID_DOORBELL_REGISTER,
        DoorbellError::Value => AsyncEvent::INVALID_DOORBELL_VALUE,
    });
    deliver_events(controller, host);
}

/// Completes event requests for which there is an event, if the controller still completes commands.
pub(crate) fn deliver_events(controller: &mut Controller, host: &mut dyn Host) {
    if !controller.registers.is_ready() {
        return;
    }
    while let Some((cid, event)) = controller.admin.events.take_due() {
        told(controller, event);
        controller.complete_held(cid.0, event.into_bits(), Status::SUCCESS, host);
    }
}

/// Counts the faults that this event reports to the driver.
fn told(controller: &mut Controller, event: AsyncEvent) {
    let is_told = |effect| matches!(effect, ControllerEffect::Event(happening) if event_of(happening) == event);
    controller.faults.met(is_told);
}

const fn event_of(happening: Happening) -> AsyncEvent {
    match happening {
        Happening::Spare => AsyncEvent::SPARE,
        Happening::Temperature => AsyncEvent::TEMPERATURE,
        Happening::Reliability | Happening::ReadOnly => AsyncEvent::RELIABILITY,
        Happening::NamespaceChanged => AsyncEvent::NAMESPACE_CHANGED,
        Happening::InternalError => AsyncEvent::TRANSIENT_INTERNAL_ERROR,
    }
}
