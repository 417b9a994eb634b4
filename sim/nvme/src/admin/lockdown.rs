//! Lockdown (base specification 2.0, sections 5.19 and 8.4), and the log page that lists its effects.
//!
//! A prohibition holds for every controller of the subsystem until the subsystem loses power. To the primary controller this is the
//! way to keep virtual functions from commands that reach the whole subsystem. Left out: management endpoints, of which there are none.

use nvme_spec::admin::{Lock, LockdownDw10, LockdownInterface, LockdownScope, Opcode};
use nvme_spec::feature::{Feature, SetDw10};
use nvme_spec::log::{LockdownContents, LockdownLog, LockdownSelector};
use nvme_spec::{Sqe, Status, StatusCode};

use super::commands::{self, bad_field};
use super::feature_commands;
use crate::command::{Outcome, refused};
use crate::controller::Controller;
use crate::lockdown::Lockable;

/// Bits of the log specific field that the page does not use.
const LSP_RESERVED: u8 = 0x40;

/// Executes Lockdown.
pub(super) fn execute(controller: &mut Controller, sqe: &Sqe) -> Result<Outcome, Status> {
    let dw10 = LockdownDw10::from_bits(sqe.cdw10);
    let scope = LockdownScope::from_raw(dw10.scope());
    let (Some(scope), Some(interface)) = (scope, LockdownInterface::from_raw(dw10.interface())) else {
        return Err(bad_field(controller, sqe, 10));
    };
    // There is no management endpoint, and PCIe commands come by one alone.
    if interface != LockdownInterface::AdminQueues || scope == LockdownScope::Pcie {
        return Err(refused(StatusCode::InvalidField));
    }
    let which = lockable(controller, scope, dw10.id()).ok_or(refused(StatusCode::ProhibitionNotSupported))?;
    let lock = if dw10.prohibit() { Lock::Prohibit } else { Lock::Allow };
    controller.subsystem.lockdown.set(which, lock);
    Ok(Outcome::SUCCESS)
}

/// Refuses a command that is prohibited.
///
/// # Errors
/// Command Prohibited by Command and Feature Lockdown.
pub(super) fn check(controller: &Controller, opcode: Opcode, sqe: &Sqe) -> Result<(), Status> {
    let lockdown = &controller.subsystem.lockdown;
    let of_feature =
        || opcode == Opcode::SetFeatures && lockdown.prohibits(Lockable::Feature(SetDw10::from_bits(sqe.cdw10).fid()));
    if lockdown.prohibits(Lockable::Command(opcode as u8)) || of_feature() {
        return Err(refused(StatusCode::CommandProhibited));
    }
    Ok(())
}

/// Returns the log page that the log specific field selects.
///
/// # Errors
/// Invalid Field in Command for a list that does not exist.
pub(super) fn page(controller: &mut Controller, sqe: &Sqe, lsp: u8) -> Result<LockdownLog, Status> {
    let selector = LockdownSelector::from_bits(lsp);
    let scope = LockdownScope::from_raw(selector.scope());
    let contents = LockdownContents::from_raw(selector.contents()).filter(|_| lsp & LSP_RESERVED == 0);
    let (Some(scope), Some(contents)) = (scope, contents) else {
        return Err(bad_field(controller, sqe, 10));
    };
    let is_listed = |id: &u8| match (lockable(controller, scope, *id), contents) {
        (Some(_), LockdownContents::Supported) => true,
        (Some(which), LockdownContents::ByAdminQueue) => controller.subsystem.lockdown.prohibits(which),
        (_, LockdownContents::ByEndpoint) | (None, _) => false,
    };
    Ok(LockdownLog::of(selector, (0..=u8::MAX).filter(is_listed)))
}

/// Returns what an identifier of this scope stands for, if it can be prohibited.
fn lockable(controller: &Controller, scope: LockdownScope, id: u8) -> Option<Lockable> {
    match scope {
        LockdownScope::Commands => {
            let opcode = commands::supported(&controller.config, id)?;
            is_lockable(opcode).then_some(Lockable::Command(id))
        }
        LockdownScope::Features => {
            let feature =
                Feature::from_raw(id).filter(|&feature| feature_commands::is_there(&controller.config, feature));
            feature.map(|_| Lockable::Feature(id))
        }
        LockdownScope::Management | LockdownScope::Pcie => None,
    }
}

/// Whether a command can be prohibited: no driver needs it to bring its own controller up and to use it.
const fn is_lockable(opcode: Opcode) -> bool {
    match opcode {
        Opcode::NamespaceManagement
        | Opcode::NamespaceAttachment
        | Opcode::FirmwareCommit
        | Opcode::FirmwareDownload
        | Opcode::DeviceSelfTest
        | Opcode::VirtualizationManagement
        | Opcode::Lockdown
        | Opcode::DoorbellBufferConfig
        | Opcode::FormatNvm
        | Opcode::Sanitize => true,
        Opcode::DeleteIoSq
        | Opcode::CreateIoSq
        | Opcode::GetLogPage
        | Opcode::DeleteIoCq
        | Opcode::CreateIoCq
        | Opcode::Identify
        | Opcode::Abort
        | Opcode::SetFeatures
        | Opcode::GetFeatures
        | Opcode::AsyncEventRequest
        | Opcode::KeepAlive
        | Opcode::DirectiveSend
        | Opcode::DirectiveReceive
        | Opcode::SecuritySend
        | Opcode::SecurityReceive => false,
    }
}
