//! Format NVM (section 5.23): sets another block size and erases the data.
//!
//! The format takes effect at once and its completion comes later. Until then nothing else can be done with the
//! namespace, and Identify reports the progress. Left out: metadata, protection information, cryptographic erase.

use nvme_spec::admin::{FormatDw10, SecureErase};
use nvme_spec::log::SelfTestResult;
use nvme_spec::{Nsid, Sqe, Status, StatusCode};

use super::commands::bad_field;
use super::names::{Named, check_formatted, named};
use super::self_test;
use crate::attachment::Attachments;
use crate::command::{Command, Outcome, refused};
use crate::controller::Controller;

/// Executes Format NVM.
pub(crate) fn execute(controller: &mut Controller, command: &Command) -> Result<Outcome, Status> {
    let sqe = &command.sqe;
    let how = FormatDw10::from_bits(sqe.cdw10);
    let nsids = namespaces(controller, sqe)?;
    check_formatted(controller, &nsids)?;
    match SecureErase::from_raw(how.ses()) {
        // Data removed from the model are gone: both promises are kept alike.
        Some(SecureErase::None | SecureErase::UserData) => {}
        // FNA does not offer it.
        Some(SecureErase::Cryptographic) => return Err(refused(StatusCode::InvalidField)),
        None => return Err(bad_field(controller, sqe, 10)),
    }
    let has_format = |nsid: &u32| {
        let formats = controller.namespaces.get(*nsid).map_or(0, |namespace| namespace.formats.len());
        usize::from(how.index()) < formats
    };
    // There is no metadata, so nothing about it can be selected.
    let has_metadata = how.mset() || how.pi() != 0 || how.pil();
    if has_metadata || !nsids.iter().all(has_format) {
        return Err(refused(StatusCode::InvalidFormat));
    }
    let ns = controller.config.admin.format_ns.saturating_mul(nsids.len() as u64);
    for &nsid in &nsids {
        format(controller, nsid, how.index(), ns);
    }
    Ok(Outcome::After { ns, dw0: 0, status: Status::SUCCESS })
}

fn namespaces(controller: &Controller, sqe: &Sqe) -> Result<Vec<u32>, Status> {
    match named(controller, sqe.nsid()) {
        Some(Named::Active) => Ok(vec![sqe.nsid]),
        Some(Named::All) => Ok(controller.namespaces.attached().map(|one| one.nsid).collect()),
        Some(Named::Inactive | Named::Unallocated) => Err(refused(StatusCode::InvalidField)),
        Some(Named::Nothing) | None => Err(refused(StatusCode::InvalidNamespaceOrFormat)),
    }
}

fn format(controller: &mut Controller, nsid: u32, index: u8, ns: u64) {
    self_test::disturb(controller, Nsid(nsid), SelfTestResult::AbortedByFormat);
    // Writes that are not durable yet must not bring back old data over the format when power is lost.
    controller.settle(nsid);
    let Some(namespace) = controller.namespaces.get_mut(nsid) else { return };
    namespace.store.erase();
    namespace.formatted_ns = controller.clock_ns.saturating_add(ns);
    let is_another = namespace.format != index;
    namespace.format = index;
    namespace.blocks = namespace.allocated_bytes >> namespace.block_bits();
    let concerned = if is_another { namespace.attachments } else { Attachments::default() };
    for place in concerned.places() {
        controller.namespace_changed(place, nsid);
    }
}
