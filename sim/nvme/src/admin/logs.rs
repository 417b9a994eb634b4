//! Get Log Page (section 5.14): the pages that the controller has, and reads of their parts.
//!
//! The standard does not define the result of a read beyond the end of a page: here zeroes, as far as a megabyte.

use nvme_spec::log::{LogDw10, LogEvent, LogPage, LogRead};
use nvme_spec::{Sqe, Status, StatusCode};
use zerocopy::IntoBytes;

use super::commands::{bad_field, effects_log};
use super::names::{Named, named};
use super::{firmware, lockdown, self_test, smart, supported};
use crate::command::{Command, Outcome, refused};
use crate::controller::Controller;
use crate::host::Host;

/// Offsets are multiples of this.
const DWORD: u64 = 4;
/// Limit of a read: no page is longer, and no driver needs more zeroes.
const MOST_BYTES: usize = 1 << 20;

/// Returns the page of this identifier, if the controller has it.
fn page_of(controller: &Controller, lid: u8) -> Option<LogPage> {
    LogPage::from_raw(lid).filter(|page| match page {
        LogPage::Lockdown => controller.config.admin.commands.lockdown,
        LogPage::SelfTest => controller.config.admin.commands.self_test,
        // Of every controller of the subsystem, whichever has the command.
        LogPage::Sanitize => controller.subsystem.sanitization.is_offered(),
        LogPage::ErrorInformation
        | LogPage::Smart
        | LogPage::FirmwareSlots
        | LogPage::ChangedNamespaces
        | LogPage::CommandEffects
        | LogPage::SupportedPages
        | LogPage::SupportedFeatures
        | LogPage::ManagementEffects => true,
    })
}

/// Executes Get Log Page.
pub(crate) fn execute(controller: &mut Controller, command: &Command, host: &mut dyn Host) -> Result<Outcome, Status> {
    let sqe = &command.sqe;
    let read = LogRead::from_sqe(sqe);
    let page = page_of(controller, read.lid).ok_or(refused(StatusCode::InvalidLogPage))?;
    check_namespace(controller, page, sqe)?;
    if !read.offset.is_multiple_of(DWORD) {
        return Err(bad_field(controller, sqe, 12));
    }
    if controller.exceeds_transfer_limit(read.bytes()) {
        return Err(bad_field(controller, sqe, 10));
    }
    let mut contents = contents(controller, page, sqe)?;
    let offset = usize::try_from(read.offset).ok().filter(|&offset| offset <= contents.len());
    contents.drain(..offset.ok_or(refused(StatusCode::InvalidField))?);
    let wanted = usize::try_from(read.bytes()).unwrap_or(usize::MAX);
    contents.resize(wanted.min(MOST_BYTES), 0);
    controller.data_to_host(command, &contents, host)?;
    if read.event == LogEvent::Clear {
        was_read(controller, read.lid);
    }
    Ok(Outcome::SUCCESS)
}

/// Checks the NSID: all these pages belong to the controller, none to a namespace. Only of SMART has the standard a page
/// for each namespace, which LPA does not offer here; so there an NSID can be invalid.
fn check_namespace(controller: &mut Controller, page: LogPage, sqe: &Sqe) -> Result<(), Status> {
    match named(controller, sqe.nsid()) {
        Some(Named::Nothing | Named::All) => Ok(()),
        None if page == LogPage::Smart => Err(refused(StatusCode::InvalidNamespaceOrFormat)),
        Some(Named::Active | Named::Inactive | Named::Unallocated) | None => Err(bad_field(controller, sqe, 1)),
    }
}

fn contents(controller: &mut Controller, page: LogPage, sqe: &Sqe) -> Result<Vec<u8>, Status> {
    let lsp = LogDw10::from_bits(sqe.cdw10).lsp();
    if lsp != 0 && page != LogPage::Lockdown {
        return Err(bad_field(controller, sqe, 10));
    }
    Ok(match page {
        LogPage::ErrorInformation => controller.admin.errors.page(),
        LogPage::Smart => smart::smart(controller).as_bytes().to_vec(),
        LogPage::FirmwareSlots => firmware::slots(&controller.subsystem.firmware).as_bytes().to_vec(),
        LogPage::ChangedNamespaces => controller.admin.changes.page().as_bytes().to_vec(),
        LogPage::CommandEffects => effects_log(&controller.config).as_bytes().to_vec(),
        LogPage::Lockdown => lockdown::page(controller, sqe, lsp)?.as_bytes().to_vec(),
        LogPage::SelfTest => self_test::log(controller).as_bytes().to_vec(),
        LogPage::Sanitize => controller.subsystem.sanitization.log(controller.clock_ns).as_bytes().to_vec(),
        LogPage::SupportedPages => supported::pages(|lid| page_of(controller, lid).is_some()).as_bytes().to_vec(),
        LogPage::SupportedFeatures => supported::features(&controller.config).as_bytes().to_vec(),
        LogPage::ManagementEffects => vec![0; supported::MANAGEMENT_BYTES],
    })
}

/// Handles a page that the driver has read completely: its events may be reported again, and changes are reported once.
fn was_read(controller: &mut Controller, lid: u8) {
    controller.admin.events.log_read(lid);
    if lid == LogPage::ChangedNamespaces as u8 {
        controller.admin.changes.clear();
    }
}
