//! Namespace Management and Namespace Attachment (sections 5.20 and 5.19).
//!
//! Left out: thin provisioning, metadata and protection information, ANA groups and NVM sets; a command that requests
//! them is refused.

use nvme_spec::admin::{Attachment, Management};
use nvme_spec::identify::{CommandSetId, ControllerList, Flbas, Namespace as Description};
use nvme_spec::log::SelfTestResult;
use nvme_spec::{Nsid, Status, StatusCode};
use zerocopy::{FromZeros, IntoBytes};

use super::commands::bad_field;
use super::errors::Details;
use super::names::{self, Named, named};
use super::self_test;
use crate::attachment::Place;
use crate::command::{Command, Outcome, refused};
use crate::controller::Controller;
use crate::host::Host;
use crate::namespace::{Namespace, NamespaceConfig};
use crate::store::Zeroes;

/// NMIC: the namespace may be shared.
const SHARED: u8 = 1;
/// An OUI for the identifiers of created namespaces, from the locally administered range.
const LOCAL_OUI: [u8; 3] = [0x52, 0x54, 0x00];

/// Executes Namespace Management.
pub(crate) fn manage(controller: &mut Controller, command: &Command, host: &mut dyn Host) -> Result<Outcome, Status> {
    match Management::from_dw10(command.sqe.cdw10) {
        Some(Management::Create) => create(controller, command, host),
        Some(Management::Delete) => delete(controller, command),
        None => Err(bad_field(controller, &command.sqe, 10)),
    }
}

/// Executes Namespace Attachment.
pub(crate) fn attach(controller: &mut Controller, command: &Command, host: &mut dyn Host) -> Result<Outcome, Status> {
    let sqe = &command.sqe;
    let Some(operation) = Attachment::from_dw10(sqe.cdw10) else {
        return Err(bad_field(controller, sqe, 10));
    };
    match named(controller, sqe.nsid()) {
        Some(Named::Active | Named::Inactive) => {}
        Some(Named::Unallocated | Named::All) => return Err(refused(StatusCode::InvalidField)),
        Some(Named::Nothing) | None => return Err(refused(StatusCode::InvalidNamespaceOrFormat)),
    }
    let mut list = ControllerList::new_zeroed();
    controller.data_from_host(command, list.as_mut_bytes(), host)?;
    let places = places(controller, &list).ok_or(refused(StatusCode::ControllerListInvalid))?;
    set_attached(controller, sqe.nsid, operation, &places)?;
    for place in places {
        controller.namespace_changed(place, sqe.nsid);
    }
    Ok(Outcome::SUCCESS)
}

/// Returns the controllers of a list; `None` when the list is empty or wrong, or one of them is not in the subsystem.
fn places(controller: &Controller, list: &ControllerList) -> Option<Vec<Place>> {
    let ids = list.listed().filter(|ids| !ids.is_empty())?;
    ids.iter().map(|id| controller.place_of(id.get())).collect()
}

/// Changes the attachment of a namespace for all these controllers, or for none.
fn set_attached(controller: &mut Controller, nsid: u32, operation: Attachment, places: &[Place]) -> Result<(), Status> {
    let namespace = controller.namespaces.get_mut(nsid).ok_or(refused(StatusCode::InvalidField))?;
    let attachments = &mut namespace.attachments;
    let is_attached = |place: &Place| attachments.contains(*place);
    match operation {
        Attachment::Attach if places.iter().any(is_attached) => Err(refused(StatusCode::NamespaceAttached)),
        Attachment::Attach if !namespace.shared && (!attachments.is_empty() || places.len() > 1) => {
            Err(refused(StatusCode::NamespacePrivate))
        }
        Attachment::Attach => {
            places.iter().for_each(|&place| attachments.insert(place));
            Ok(())
        }
        Attachment::Detach if !places.iter().all(is_attached) => Err(refused(StatusCode::NamespaceNotAttached)),
        Attachment::Detach => {
            places.iter().for_each(|&place| attachments.remove(place));
            Ok(())
        }
    }
}

fn create(controller: &mut Controller, command: &Command, host: &mut dyn Host) -> Result<Outcome, Status> {
    let sqe = &command.sqe;
    if sqe.nsid != 0 {
        return Err(bad_field(controller, sqe, 1));
    }
    let mut asked = Description::new_zeroed();
    controller.data_from_host(command, asked.as_mut_bytes(), host)?;
    let bits = check(controller, command, &asked)?;
    let bytes = asked.nsze.get().checked_mul(1 << bits).ok_or(refused(StatusCode::NamespaceInsufficientCapacity))?;
    if bytes > controller.admin.unallocated_bytes {
        let details = Details { command_specific: bytes, ..Details::default() };
        controller.admin.explain(sqe.cid(), details);
        return Err(refused(StatusCode::NamespaceInsufficientCapacity));
    }
    let free = |nsid: &u32| controller.namespaces.get(*nsid).is_none();
    let nsid = (1..=names::largest(controller)).find(free).ok_or(refused(StatusCode::NamespaceIdUnavailable))?;
    let nguid = next_nguid(controller);
    let config = NamespaceConfig {
        bytes,
        formats: controller.config.admin.formats.clone(),
        format: Flbas::from_bits(asked.flbas).index(),
        nguid,
        eui64: [0; 8],
        command_set: CommandSetId::Nvm,
        metadata: 0,
        protection: 0,
        attached: None,
        base: Box::new(Zeroes),
    };
    let mut namespace = Namespace::new(nsid, config);
    namespace.shared = asked.nmic & SHARED != 0;
    controller.namespaces.insert(namespace);
    controller.admin.unallocated_bytes -= bytes;
    Ok(Outcome::Done { dw0: nsid, status: Status::SUCCESS })
}

/// Checks whether such a namespace is possible. Returns log2 of the bytes of its blocks.
fn check(controller: &mut Controller, command: &Command, asked: &Description) -> Result<u8, Status> {
    let format = Flbas::from_bits(asked.flbas).index();
    let flbas_reserved = asked.flbas & !Flbas::of(format).into_bits();
    if has_reserved(asked) || flbas_reserved != 0 || asked.nmic & !SHARED != 0 {
        return Err(bad_field(controller, &command.sqe, 6));
    }
    let bits = controller.config.admin.formats.get(usize::from(format)).copied();
    let bits = bits.filter(|_| asked.dps == 0).ok_or(refused(StatusCode::InvalidFormat))?;
    let (size, capacity) = (asked.nsze.get(), asked.ncap.get());
    if size == 0 || capacity == 0 || capacity > size {
        return Err(refused(StatusCode::InvalidField));
    }
    if capacity < size {
        return Err(refused(StatusCode::ThinProvisioningUnsupported));
    }
    Ok(bits)
}

/// Whether a field is set that a driver may not set, or that belongs to a feature which this controller does not have.
fn has_reserved(asked: &Description) -> bool {
    let mut rest = asked.clone();
    for used in [&mut rest.nsze, &mut rest.ncap] {
        used.set(0);
    }
    (rest.flbas, rest.dps, rest.nmic) = (0, 0, 0);
    rest.as_bytes().iter().any(|&byte| byte != 0)
}

/// Returns an identifier that no namespace of this controller had before.
fn next_nguid(controller: &mut Controller) -> [u8; 16] {
    controller.admin.created += 1;
    let mut nguid = [0; 16];
    for (place, byte) in nguid.iter_mut().take(8).zip(controller.config.identity.serial.bytes().rev()) {
        *place = byte;
    }
    nguid[8..11].copy_from_slice(&LOCAL_OUI);
    nguid[12..].copy_from_slice(&controller.admin.created.to_be_bytes());
    nguid
}

fn delete(controller: &mut Controller, command: &Command) -> Result<Outcome, Status> {
    let sqe = &command.sqe;
    if sqe.prp1 != 0 || sqe.prp2 != 0 {
        return Err(bad_field(controller, sqe, 6));
    }
    let doomed: Vec<u32> = match named(controller, sqe.nsid()) {
        Some(Named::Active | Named::Inactive) => vec![sqe.nsid],
        Some(Named::All) => controller.namespaces.iter().map(|namespace| namespace.nsid).collect(),
        Some(Named::Unallocated) => return Err(refused(StatusCode::InvalidField)),
        Some(Named::Nothing) | None => return Err(refused(StatusCode::InvalidNamespaceOrFormat)),
    };
    names::check_formatted(controller, &doomed)?;
    for nsid in doomed {
        remove(controller, Nsid(nsid));
    }
    Ok(Outcome::SUCCESS)
}

fn remove(controller: &mut Controller, nsid: Nsid) {
    let Some(namespace) = controller.namespaces.remove(nsid.0) else { return };
    self_test::disturb(controller, nsid, SelfTestResult::AbortedByRemoval);
    controller.admin.unallocated_bytes = controller.admin.unallocated_bytes.saturating_add(namespace.allocated_bytes);
    for place in namespace.attachments.places() {
        controller.namespace_changed(place, nsid.0);
    }
}

/// TNVMCAP: the bytes of the namespaces and the unallocated ones.
pub(crate) fn total_bytes(controller: &Controller) -> u128 {
    let allocated: u128 = controller.namespaces.iter().map(|namespace| u128::from(namespace.allocated_bytes)).sum();
    allocated + u128::from(controller.admin.unallocated_bytes)
}
