//! The admin side: everything that admin commands do, except the queues' places in memory.
//!
//! [`execute`] looks a command up in the table of [`commands`], refuses one with reserved fields set, and passes it to
//! the module of its kind. Then it completes event requests for which there is an event. Statuses are those of the base
//! specification 1.4, and for Lockdown those of 2.0; a refusal has Do Not Retry unless the same command may succeed at another time.
//!
//! Neighbours: [`crate::controller`] fetches and completes, [`crate::settings`] holds the values that the data path
//! uses, [`crate::resources`] those of Virtualization Management. Left out: security, directives. All are refused as unknown opcodes, and Identify promises none of them. So are, by a secondary
//! controller, the management of namespaces and of virtualization.

mod changes;
mod clocks;
mod commands;
mod config;
mod data_features;
mod download;
mod errors;
mod events;
mod feature_commands;
mod features;
mod firmware;
mod format;
mod happening;
mod health;
mod host_id;
mod identify;
mod lockdown;
mod logs;
mod names;
mod namespaces;
mod notices;
mod queues;
mod sanitize;
mod self_test;
mod smart;
mod state;
mod supported;
mod test_log;
mod virtualization;

pub use config::{AdminConfig, Operation, OptionalCommands, PowerLevel, SecondaryCommands};
pub(crate) use happening::happen;
pub use health::{Health, Media};
pub(crate) use names::check_active;
pub(crate) use notices::{advance, deliver_events, on_doorbell_error, on_error};
pub(crate) use self_test::reset as end_self_test;
pub(crate) use state::Admin;

use crate::command::{Command, Outcome, refused};
use nvme_spec::admin::{Opcode, aborted_command};
use nvme_spec::{QueueId, Sqe, Status, StatusCode};

use crate::controller::Controller;
use crate::host::Host;
use crate::settings::Shadow;

/// Executes one admin command.
pub(crate) fn execute(controller: &mut Controller, command: &Command, host: &mut dyn Host) -> Outcome {
    let outcome = dispatch(controller, command, host).unwrap_or_else(Outcome::status);
    deliver_events(controller, host);
    outcome
}

fn dispatch(controller: &mut Controller, command: &Command, host: &mut dyn Host) -> Result<Outcome, Status> {
    let sqe = &command.sqe;
    let opcode = commands::supported(&controller.config, sqe.opcode());
    let rules = opcode.and_then(|opcode| commands::rules(&controller.config, opcode));
    let (Some(opcode), Some(rules)) = (opcode, rules) else {
        return Err(refused(StatusCode::InvalidOpcode));
    };
    lockdown::check(controller, opcode, sqe)?;
    sanitize::check(controller, opcode, sqe)?;
    commands::check_reserved(controller, &rules, sqe)?;
    match opcode {
        Opcode::CreateIoSq | Opcode::CreateIoCq | Opcode::DeleteIoSq | Opcode::DeleteIoCq => {
            Ok(queues::execute(controller, command, host))
        }
        Opcode::Identify => identify::execute(controller, command, host),
        Opcode::GetLogPage => logs::execute(controller, command, host),
        Opcode::SetFeatures => feature_commands::set(controller, command, host),
        Opcode::GetFeatures => feature_commands::get(controller, command, host),
        Opcode::Abort => abort(controller, sqe, host),
        Opcode::AsyncEventRequest => notices::event_request(controller, sqe.cid()),
        Opcode::NamespaceManagement => namespaces::manage(controller, command, host),
        Opcode::NamespaceAttachment => namespaces::attach(controller, command, host),
        Opcode::FormatNvm => format::execute(controller, command),
        Opcode::KeepAlive => {
            controller.admin.keep_alive.restart(controller.clock_ns);
            Ok(Outcome::SUCCESS)
        }
        Opcode::VirtualizationManagement => virtualization::execute(controller, sqe),
        Opcode::FirmwareDownload => firmware::download(controller, command, host),
        Opcode::FirmwareCommit => firmware::commit(controller, sqe),
        Opcode::DeviceSelfTest => self_test::execute(controller, sqe),
        Opcode::Sanitize => sanitize::execute(controller, sqe),
        Opcode::Lockdown => lockdown::execute(controller, sqe),
        Opcode::DoorbellBufferConfig => doorbell_buffers(controller, sqe),
        _ => Err(refused(StatusCode::InvalidOpcode)),
    }
}

/// Executes Abort (section 5.1) for commands that were fetched; it does not search the SQs. Bit 0 of DW0 reports that
/// the command was not aborted.
fn abort(controller: &mut Controller, sqe: &Sqe, host: &mut dyn Host) -> Result<Outcome, Status> {
    let is_abort = |command: &Command| command.sq == QueueId::ADMIN.0 && command.sqe.opcode() == Opcode::Abort as u8;
    let outstanding = controller.commands.find(is_abort).len();
    if outstanding > usize::from(controller.config.admin.aborts) {
        return Err(Status::new(StatusCode::AbortLimit));
    }
    let victim = aborted_command(sqe);
    let is_itself = victim.sq == QueueId::ADMIN && victim.cid == sqe.cid();
    let is_done = if is_itself {
        false
    } else if victim.sq == QueueId::ADMIN && controller.admin.events.abort(victim.cid) {
        controller.complete_held(victim.cid.0, 0, Status::new(StatusCode::AbortRequested), host);
        true
    } else {
        controller.abort(victim.sq.0, victim.cid.0, host)
    };
    Ok(Outcome::Done { dw0: u32::from(!is_done), status: Status::SUCCESS })
}

/// Executes Doorbell Buffer Config (section 5.7): both buffers begin at a page.
fn doorbell_buffers(controller: &mut Controller, sqe: &Sqe) -> Result<Outcome, Status> {
    let page_bytes = controller.page_bytes();
    let is_page = |address: u64| address != 0 && address.is_multiple_of(page_bytes);
    for (dword, address) in [(6, sqe.prp1), (8, sqe.prp2)] {
        if !is_page(address) {
            return Err(commands::bad_field(controller, sqe, dword));
        }
    }
    controller.settings.shadow = Some(Shadow { doorbells: sqe.prp1, event_indexes: sqe.prp2 });
    Ok(Outcome::SUCCESS)
}
