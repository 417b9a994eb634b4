//! Features whose values are data structures: autonomous power state transitions, timestamp, host behavior, host identifier
//! (sections 5.21.1.12, .14, .22 and .26).

use nvme_spec::feature::{AutonomousPower, Feature, HostBehavior, HostId, IdleTransition, Select, Timestamp};
use nvme_spec::{Status, StatusCode};
use zerocopy::{FromZeros, IntoBytes};

use super::config::Operation;
use super::features::{Keep, TRANSITIONS};
use super::host_id::{LONG_BYTES, SHORT_BYTES};
use crate::command::{Command, refused};
use crate::controller::Controller;
use crate::host::Host;

/// Bytes of an [`IdleTransition`] that are not reserved.
const USED_BYTES: usize = 4;

/// Whether the feature's value is a data structure.
pub(super) const fn has_data(feature: Feature) -> bool {
    matches!(feature, Feature::AutonomousPower | Feature::Timestamp | Feature::HostBehavior | Feature::HostId)
}

/// Sets such a feature.
///
/// # Errors
/// Errors of the transfer and of the feature.
pub(super) fn set(
    controller: &mut Controller,
    command: &Command,
    (feature, keep): (Feature, Keep),
    host: &mut dyn Host,
) -> Result<(), Status> {
    match feature {
        Feature::AutonomousPower => set_transitions(controller, command, keep, host),
        Feature::HostBehavior => set_host_behavior(controller, command, host),
        Feature::HostId => set_host_id(controller, command, host),
        _ => set_timestamp(controller, command, host),
    }
}

/// Gets such a feature. Returns DW0.
///
/// # Errors
/// Errors of the transfer.
pub(super) fn get(
    controller: &mut Controller,
    command: &Command,
    (feature, select): (Feature, Select),
    host: &mut dyn Host,
) -> Result<u32, Status> {
    let is_current = select == Select::Current;
    match feature {
        Feature::AutonomousPower => {
            let (value, table) = controller.admin.features.transitions(select);
            controller.data_to_host(command, table.as_bytes(), host)?;
            return Ok(value.into_bits());
        }
        Feature::HostBehavior => {
            let keeps = controller.settings.keeps_retry_delays && is_current;
            let behavior = HostBehavior { acre: keeps.into(), ..HostBehavior::new_zeroed() };
            controller.data_to_host(command, behavior.as_bytes(), host)?;
        }
        Feature::HostId => {
            let id = if is_current { controller.admin.host_id.get() } else { [0; LONG_BYTES] };
            let bytes = if HostId::from_bits(command.sqe.cdw11).long() { LONG_BYTES } else { SHORT_BYTES };
            controller.data_to_host(command, &id[..bytes], host)?;
        }
        _ => {
            let timestamp = controller.admin.timestamp.at(controller.clock_ns, select);
            controller.data_to_host(command, timestamp.as_bytes(), host)?;
        }
    }
    Ok(0)
}

fn set_transitions(
    controller: &mut Controller,
    command: &Command,
    keep: Keep,
    host: &mut dyn Host,
) -> Result<(), Status> {
    let mut table = [IdleTransition::default(); TRANSITIONS];
    controller.data_from_host(command, table.as_mut_bytes(), host)?;
    if !table.iter().all(|transition| is_possible(controller, *transition)) {
        return Err(refused(StatusCode::InvalidField));
    }
    controller.admin.follow_idleness(controller.clock_ns);
    let value = AutonomousPower::from_bits(command.sqe.cdw11);
    controller.admin.features.set_transitions(value, table, keep);
    Ok(())
}

/// Whether a transition leads to a state that processes no I/O, or is none.
fn is_possible(controller: &Controller, transition: IdleTransition) -> bool {
    let level = controller.config.admin.power_states.get(usize::from(transition.state()));
    let leads_to_rest = level.is_some_and(|level| level.operation == Operation::NonOperational);
    let is_reserved = transition.bits.get() & IdleTransition::RESERVED != 0
        || transition.as_bytes()[USED_BYTES..].iter().any(|&byte| byte != 0);
    !is_reserved && (transition.idle_ms() == 0 || leads_to_rest)
}

fn set_timestamp(controller: &mut Controller, command: &Command, host: &mut dyn Host) -> Result<(), Status> {
    let mut timestamp = Timestamp::new_zeroed();
    controller.data_from_host(command, timestamp.as_mut_bytes(), host)?;
    controller.admin.timestamp.set(timestamp.milliseconds(), controller.clock_ns);
    Ok(())
}

fn set_host_behavior(controller: &mut Controller, command: &Command, host: &mut dyn Host) -> Result<(), Status> {
    let mut behavior = HostBehavior::new_zeroed();
    controller.data_from_host(command, behavior.as_mut_bytes(), host)?;
    if behavior.acre > 1 || behavior.reserved.iter().any(|&byte| byte != 0) {
        return Err(refused(StatusCode::InvalidField));
    }
    controller.settings.keeps_retry_delays = behavior.acre == 1;
    Ok(())
}

fn set_host_id(controller: &mut Controller, command: &Command, host: &mut dyn Host) -> Result<(), Status> {
    let mut id = [0; LONG_BYTES];
    let bytes = if HostId::from_bits(command.sqe.cdw11).long() { LONG_BYTES } else { SHORT_BYTES };
    controller.data_from_host(command, &mut id[..bytes], host)?;
    controller.admin.host_id.set(id).map_err(refused)
}
