//! Get Log Page (section 5.14): error information, SMART, firmware slots, changed namespaces, commands and effects.
//!
//! The standard does not define the result of a read beyond the end of a page: here zeroes, as far as a megabyte.

use nvme_spec::log::{ActiveFirmware, FirmwareSlots, LogEvent, LogPage, LogRead};
use nvme_spec::{Sqe, Status, StatusCode};
use zerocopy::{FromZeros, IntoBytes};

use super::commands::{bad_field, effects_log};
use super::names::{Named, named};
use super::smart;
use crate::command::{Command, Outcome, refused};
use crate::controller::Controller;
use crate::host::Host;

/// Offsets are multiples of this.
const DWORD: u64 = 4;
/// Limit of a read: no page is longer, and no driver needs more zeroes.
const MOST_BYTES: usize = 1 << 20;

/// Executes Get Log Page.
pub(crate) fn execute(controller: &mut Controller, command: &Command, host: &mut dyn Host) -> Result<Outcome, Status> {
    let sqe = &command.sqe;
    let read = LogRead::from_sqe(sqe);
    let page = LogPage::from_raw(read.lid).ok_or(refused(StatusCode::InvalidLogPage))?;
    check_namespace(controller, page, sqe)?;
    if !read.offset.is_multiple_of(DWORD) {
        return Err(bad_field(controller, sqe, 12));
    }
    if controller.exceeds_transfer_limit(read.bytes()) {
        return Err(bad_field(controller, sqe, 10));
    }
    let mut contents = contents(controller, page);
    let offset = usize::try_from(read.offset).ok().filter(|&offset| offset <= contents.len());
    contents.drain(..offset.ok_or(refused(StatusCode::InvalidField))?);
    let wanted = usize::try_from(read.bytes()).unwrap_or(usize::MAX);
    contents.resize(wanted.min(MOST_BYTES), 0);
    controller.data_to_host(command, &contents, host)?;
    if read.event == LogEvent::Clear {
        was_read(controller, page);
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

fn contents(controller: &mut Controller, page: LogPage) -> Vec<u8> {
    match page {
        LogPage::ErrorInformation => controller.admin.errors.page(),
        LogPage::Smart => smart::smart(controller).as_bytes().to_vec(),
        LogPage::FirmwareSlots => firmware(&controller.config.identity.firmware).as_bytes().to_vec(),
        LogPage::ChangedNamespaces => controller.admin.changes.page().as_bytes().to_vec(),
        LogPage::CommandEffects => effects_log(&controller.config).as_bytes().to_vec(),
    }
}

/// Returns the log of the one slot, which is active.
fn firmware(revision: &str) -> FirmwareSlots {
    let mut slots = FirmwareSlots::new_zeroed();
    slots.afi = ActiveFirmware::new().with_active(1).into_bits();
    for (place, byte) in slots.revisions[0].iter_mut().zip(revision.bytes().chain(std::iter::repeat(b' '))) {
        *place = byte;
    }
    slots
}

/// Handles a page that the driver has read completely: its events may be reported again, and changes are reported once.
fn was_read(controller: &mut Controller, page: LogPage) {
    controller.admin.events.log_read(page as u8);
    if page == LogPage::ChangedNamespaces {
        controller.admin.changes.clear();
    }
}
