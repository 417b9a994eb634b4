//! Virtualization Management (section 5.22), and the structures with which Identify reports its results.

use nvme_spec::admin::{ControllerResource, VirtualizationAction, VirtualizationDw10, VirtualizationDw11};
use nvme_spec::identify::{PrimaryCapabilities, ResourceCounts, SecondaryController, SecondaryList};
use nvme_spec::{Sqe, Status, StatusCode};
use zerocopy::FromZeros;

use super::commands::bad_field;
use crate::attachment::Place;
use crate::command::{Outcome, refused};
use crate::controller::Controller;
use crate::resources::{Resources, Secondary};

/// VxGRAN: resources can be assigned one by one.
const GRANULARITY: u16 = 1;

/// Executes Virtualization Management.
pub(crate) fn execute(controller: &mut Controller, sqe: &Sqe) -> Result<Outcome, Status> {
    let dw10 = VirtualizationDw10::from_bits(sqe.cdw10);
    let Some(action) = VirtualizationAction::from_raw(dw10.act()) else {
        return Err(bad_field(controller, sqe, 10));
    };
    let place = controller.place_of(dw10.cntlid()).ok_or(refused(StatusCode::InvalidControllerId))?;
    let kind = ControllerResource::from_raw(dw10.rt()).ok_or(StatusCode::InvalidResourceId);
    let count = VirtualizationDw11::from_bits(sqe.cdw11).nr();
    let Some(resources) = &mut controller.subsystem.resources else {
        return Err(refused(StatusCode::InvalidOpcode));
    };
    let modified = match action {
        VirtualizationAction::PrimaryAllocation if place != Place::PRIMARY => Err(StatusCode::InvalidControllerId),
        VirtualizationAction::PrimaryAllocation => {
            kind.and_then(|kind| resources.allocate(kind, count)).map(|()| count)
        }
        VirtualizationAction::SecondaryAssign => {
            kind.and_then(|kind| resources.assign(place, kind, count)).map(|()| count)
        }
        VirtualizationAction::SecondaryOnline => resources.set_online(place).map(|()| 0),
        VirtualizationAction::SecondaryOffline => resources.set_offline(place).map(|()| 0),
    };
    modified.map(|count| Outcome::Done { dw0: count.into(), status: Status::SUCCESS }).map_err(refused)
}

/// Returns the capabilities of the primary controller (section 5.15.2.10).
///
/// # Errors
/// Invalid Field in Command when `cntid` is another controller.
pub(super) fn capabilities(controller: &Controller, cntid: u16) -> Result<PrimaryCapabilities, Status> {
    let own = controller.config.identity.controller_id;
    let resources = controller.subsystem.resources.as_ref().filter(|_| cntid == own);
    let resources = resources.ok_or(refused(StatusCode::InvalidField))?;
    let mut about = PrimaryCapabilities::new_zeroed();
    about.cntlid.set(own);
    about.crt = PrimaryCapabilities::KINDS;
    about.queues = counts(resources, ControllerResource::Queues);
    about.interrupts = counts(resources, ControllerResource::Interrupts);
    Ok(about)
}

fn counts(resources: &Resources, kind: ControllerResource) -> ResourceCounts {
    let pool = resources.pool(kind);
    let mut counts = ResourceCounts::default();
    counts.flexible.set(pool.flexible.into());
    counts.assigned.set(resources.assigned(kind).into());
    counts.primary.set(pool.primary);
    counts.private.set(pool.private);
    counts.secondary_max.set(pool.secondary_max);
    counts.granularity.set(GRANULARITY);
    counts
}

/// Returns the secondary controllers from identifier `first` on (section 5.15.2.11).
pub(super) fn secondaries(controller: &Controller, first: u16) -> SecondaryList {
    let all = controller.subsystem.resources.iter().flat_map(Resources::secondaries);
    let entries = all.map(|secondary| entry(controller, secondary));
    SecondaryList::of(entries.filter(|entry| entry.scid.get() >= first))
}

fn entry(controller: &Controller, secondary: &Secondary) -> SecondaryController {
    let mut entry = SecondaryController::default();
    entry.scid.set(controller.controller_id(secondary.place));
    entry.pcid.set(controller.config.identity.controller_id);
    entry.scs = if secondary.is_online { SecondaryController::ONLINE } else { 0 };
    entry.vfn.set(secondary.place.number().into());
    entry.nvq.set(secondary.queues);
    entry.nvi.set(secondary.interrupts);
    entry
}
