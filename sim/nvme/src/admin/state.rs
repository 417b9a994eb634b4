//! State of the admin side, and its changes without a command: errors, time, resets.

use nvme_spec::event::AsyncEvent;
use nvme_spec::{Cid, QueueId, Status, StatusCode, nvm};

use super::changes::Changes;
use super::clocks::{self, Calendar, KeepAlive, Power};
use super::errors::{Details, ErrorLog};
use super::events::Events;
use super::features::{Features, Shape};
use super::happening;
use super::health::Monitor;
use crate::command::{Command, Outcome};
use crate::config::Config;
use crate::controller::Controller;
use crate::doorbell::DoorbellError;
use crate::host::Host;
use crate::settings::Settings;

/// State of the admin side.
#[derive(Debug)]
pub(crate) struct Admin {
    pub(super) features: Features,
    pub(super) events: Events,
    pub(super) errors: ErrorLog,
    pub(super) monitor: Monitor,
    pub(super) changes: Changes,
    pub(super) power: Power,
    pub(super) keep_alive: KeepAlive,
    pub(super) timestamp: Calendar,
    /// Bytes that belong to no namespace.
    pub(super) unallocated_bytes: u64,
    /// Namespaces ever created by command.
    pub(super) created: u32,
    /// Details for the error log about a command that was just refused.
    details: Option<(Cid, Details)>,
}

impl Admin {
    /// Creates the state for a controller whose configuration is sane.
    pub(crate) fn new(config: &Config) -> Self {
        let admin = &config.admin;
        let shape =
            Shape { vectors: config.vectors, queue_pairs: config.queue_pairs, warning_kelvin: admin.warning_kelvin };
        let mut state = Self {
            features: Features::new(shape),
            events: Events::new(admin.event_requests.into()),
            errors: ErrorLog::new(admin.error_entries.into()),
            monitor: Monitor::new(admin.health, admin.warning_kelvin, admin.critical_kelvin),
            changes: Changes::default(),
            power: Power::new(admin.power_states.clone()),
            keep_alive: KeepAlive::new(admin.keep_alive_100ms),
            timestamp: Calendar::new(),
            unallocated_bytes: config.unallocated_bytes,
            created: 0,
            details: None,
        };
        state.start_with(&config.saved, config.namespaces.len() as u32);
        state
    }

    /// Starts with values that were saved before, of a controller with this number of namespaces.
    pub(crate) fn start_with(&mut self, saved: &[(u8, u32)], namespaces: u32) {
        for (fid, value) in saved {
            self.features.start_with(*fid, *value, namespaces);
        }
        self.monitor.reconsider(self.features.current().thresholds);
    }

    /// Resets with the controller, which then has this many queue pairs. Saved features take effect again and are copied into `settings`, which are new.
    pub(crate) fn reset(&mut self, settings: &mut Settings, queue_pairs: u16, now_ns: u64) {
        let Self {
            features,
            events,
            errors: _,
            monitor,
            changes,
            power,
            keep_alive,
            timestamp,
            unallocated_bytes: _,
            created: _,
            details,
        } = self;
        features.reset(queue_pairs);
        features.apply(settings);
        monitor.reconsider(features.current().thresholds);
        events.reset();
        changes.clear();
        power.reset();
        keep_alive.stop();
        timestamp.reset(now_ns);
        *details = None;
    }

    /// Grants no more I/O queue pairs than these until the next reset.
    pub(crate) fn limit_queues(&mut self, queue_pairs: u16) {
        self.features.limit_queues(queue_pairs);
    }

    /// Time at which the host counts as lost, unless it sends Keep Alive.
    pub(crate) const fn next_event_ns(&self) -> Option<u64> {
        self.keep_alive.expires_ns()
    }

    /// Returns how long a fetched I/O command waits because of the power state.
    pub(crate) fn wake_ns(&mut self, now_ns: u64) -> u64 {
        clocks::wake(&mut self.power, &mut self.features, now_ns)
    }

    /// Sets the details for the error log about the command that is being refused.
    pub(super) const fn explain(&mut self, cid: Cid, details: Details) {
        self.details = Some((cid, details));
    }
}

/// Holds an Asynchronous Event Request until there is an event, or completes it if there is one already.
pub(super) fn event_request(controller: &mut Controller, cid: Cid) -> Result<Outcome, Status> {
    controller.admin.events.request(cid).map_err(Status::new)?;
    let Some((_, event)) = controller.admin.events.take_due() else { return Ok(Outcome::Held) };
    happening::told(controller, event);
    Ok(Outcome::Done { dw0: event.into_bits(), status: Status::SUCCESS })
}

/// Handles the expiry of the keep alive timer: the controller stops (section 7.12).
pub(crate) fn advance(controller: &mut Controller) {
    if controller.admin.next_event_ns().is_some_and(|at_ns| at_ns <= controller.clock_ns) {
        controller.admin.keep_alive.stop();
        controller.fail();
    }
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
        details.map_or_else(|| Details { lba: first_block(command), command_specific: 0 }, |(_, details)| details);
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
        happening::told(controller, event);
        controller.complete_held(cid.0, event.into_bits(), Status::SUCCESS, host);
    }
}
