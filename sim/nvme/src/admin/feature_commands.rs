//! Set Features and Get Features (sections 5.21 and 5.13): the accepted values and their consequences.

use nvme_spec::feature::{
    ErrorRecovery, Feature, GetDw10, InterruptVector, NumberOfQueues, PowerManagement, Select, SetDw10,
    TemperatureThreshold,
};
use nvme_spec::{Nsid, Sqe, Status, StatusCode};

use super::commands::bad_field;
use super::data_features;
use super::features::{Keep, Which, capabilities};
use super::names::{Named, named};
use super::smart;
use crate::command::{Command, Outcome, refused};
use crate::config::Config;
use crate::controller::Controller;
use crate::host::Host;

/// Hints about the workload that have a meaning.
const WORKLOADS: u8 = 2;
/// A number of queues that a driver must not request.
const TOO_MANY_QUEUES: u16 = u16::MAX;

/// Set Features.
pub(crate) fn set(controller: &mut Controller, command: &Command, host: &mut dyn Host) -> Result<Outcome, Status> {
    let sqe = &command.sqe;
    let dw10 = SetDw10::from_bits(sqe.cdw10);
    let feature = feature(controller, dw10.fid())?;
    let names = namespaces(controller, feature, sqe)?;
    if dw10.save() && !capabilities(feature).saveable() {
        return Err(refused(StatusCode::FeatureNotSaveable));
    }
    if sqe.cdw11 & !set_mask(&controller.config, feature) != 0 {
        return Err(bad_field(controller, sqe, 11));
    }
    check_data_pointer(controller, feature, sqe)?;
    let keep = if dw10.save() { Keep::Saved } else { Keep::UntilReset };
    if data_features::has_data(feature) {
        data_features::set(controller, command, (feature, keep), host)?;
        return Ok(Outcome::SUCCESS);
    }
    controller.admin.follow_idleness(controller.clock_ns);
    let value = accept(controller, feature, sqe)?;
    for nsid in names {
        controller.admin.features.set(feature, Which { nsid, cdw11: value }, keep);
    }
    Ok(follow(controller, feature, value))
}

/// Get Features.
pub(crate) fn get(controller: &mut Controller, command: &Command, host: &mut dyn Host) -> Result<Outcome, Status> {
    let sqe = &command.sqe;
    let dw10 = GetDw10::from_bits(sqe.cdw10);
    let feature = feature(controller, dw10.fid())?;
    let Some(select) = Select::from_raw(dw10.select()) else {
        return Err(bad_field(controller, sqe, 10));
    };
    let names = namespaces(controller, feature, sqe)?;
    let &[nsid] = names.as_slice() else {
        return Err(refused(StatusCode::InvalidNamespaceOrFormat));
    };
    if sqe.cdw11 & !get_mask(feature) != 0 || !names_a_value(controller, feature, sqe) {
        return Err(bad_field(controller, sqe, 11));
    }
    check_data_pointer(controller, feature, sqe)?;
    if data_features::has_data(feature) && select != Select::Supported {
        let dw0 = data_features::get(controller, command, (feature, select), host)?;
        return Ok(Outcome::Done { dw0, status: Status::SUCCESS });
    }
    controller.admin.follow_idleness(controller.clock_ns);
    let dw0 = controller.admin.features.get(feature, Which { nsid, cdw11: sqe.cdw11 }, select);
    Ok(Outcome::Done { dw0, status: Status::SUCCESS })
}

/// Returns the feature of this number, if the controller has it.
fn feature(controller: &Controller, fid: u8) -> Result<Feature, Status> {
    let known = Feature::from_raw(fid).filter(|&feature| is_there(&controller.config, feature));
    known.ok_or(refused(StatusCode::InvalidField))
}

/// Whether the controller has the feature.
pub(super) fn is_there(config: &Config, feature: Feature) -> bool {
    match feature {
        Feature::VolatileWriteCache => config.cache.is_some(),
        Feature::KeepAliveTimer => config.admin.keep_alive_100ms != 0,
        Feature::HostBehavior => config.retry_delays_100ms != [0; 3],
        Feature::AutonomousPower => config.admin.has_idle_states(),
        Feature::LbaRangeType | Feature::HostMemoryBuffer => false,
        _ => true,
    }
}

/// Returns the namespaces that the command addresses; 0 stands for the controller as a whole. By any valid NSID the value
/// of the controller can be read, but not set (section 7.8).
fn namespaces(controller: &Controller, feature: Feature, sqe: &Sqe) -> Result<Vec<u32>, Status> {
    let name = named(controller, sqe.nsid()).ok_or(refused(StatusCode::InvalidNamespaceOrFormat))?;
    let reads = sqe.opcode() == nvme_spec::admin::Opcode::GetFeatures as u8;
    if !capabilities(feature).of_namespace() {
        return match name {
            Named::Nothing | Named::All => Ok(vec![Nsid::NONE.0]),
            Named::Active | Named::Inactive | Named::Unallocated if reads => Ok(vec![Nsid::NONE.0]),
            Named::Active | Named::Inactive | Named::Unallocated => Err(refused(StatusCode::FeatureNotNamespace)),
        };
    }
    match name {
        Named::Nothing => Err(refused(StatusCode::InvalidNamespaceOrFormat)),
        Named::Active => Ok(vec![sqe.nsid]),
        Named::Inactive | Named::Unallocated => Err(refused(StatusCode::InvalidField)),
        Named::All if reads => Err(refused(StatusCode::InvalidNamespaceOrFormat)),
        Named::All => Ok(controller.namespaces.attached().map(|one| one.nsid).collect()),
    }
}

/// Bits of CDW11 that Set Features uses for this feature.
fn set_mask(config: &Config, feature: Feature) -> u32 {
    match feature {
        Feature::Arbitration => 0xffff_ff07,
        Feature::PowerManagement => 0xff,
        Feature::TemperatureThreshold => 0x003f_ffff,
        Feature::ErrorRecovery | Feature::InterruptVector => 0x0001_ffff,
        Feature::VolatileWriteCache | Feature::WriteAtomicity | Feature::AutonomousPower | Feature::HostId => 1,
        Feature::NumberOfQueues | Feature::KeepAliveTimer => u32::MAX,
        Feature::InterruptCoalescing => 0xffff,
        // The warnings that exist, and the notices that OAES promises.
        Feature::AsyncEvents if config.admin.commands.firmware => 0x033f,
        Feature::AsyncEvents => 0x013f,
        _ => 0,
    }
}

/// Bits of CDW11 that Get Features uses for this feature.
const fn get_mask(feature: Feature) -> u32 {
    match feature {
        Feature::TemperatureThreshold => 0x003f_0000,
        Feature::InterruptVector => 0xffff,
        Feature::HostId => 1,
        _ => 0,
    }
}

/// Whether the value that CDW11 of Get Features selects exists.
fn names_a_value(controller: &Controller, feature: Feature, sqe: &Sqe) -> bool {
    match feature {
        Feature::TemperatureThreshold => {
            let threshold = TemperatureThreshold::from_bits(sqe.cdw11);
            has_sensor(controller, threshold.sensor()) && threshold.under() <= 1
        }
        Feature::InterruptVector => InterruptVector::from_bits(sqe.cdw11).vector() < controller.limits.vectors,
        _ => true,
    }
}

/// Whether there is a temperature sensor of this number; 0 is the composite temperature.
fn has_sensor(controller: &Controller, sensor: u8) -> bool {
    let Some(index) = usize::from(sensor).checked_sub(1) else { return true };
    controller.config.admin.health.sensors_kelvin.get(index).is_some_and(|&kelvin| kelvin != 0)
}

/// Refuses a data pointer for a feature without data.
fn check_data_pointer(controller: &mut Controller, feature: Feature, sqe: &Sqe) -> Result<(), Status> {
    if !data_features::has_data(feature) && (sqe.prp1 != 0 || sqe.prp2 != 0) {
        return Err(bad_field(controller, sqe, 6));
    }
    Ok(())
}

/// Checks whether a feature can have the requested value. Returns the value to set.
fn accept(controller: &mut Controller, feature: Feature, sqe: &Sqe) -> Result<u32, Status> {
    let value = sqe.cdw11;
    let is_possible = match feature {
        Feature::PowerManagement => {
            let power = PowerManagement::from_bits(value);
            let states = controller.config.admin.power_states.len();
            usize::from(power.state()) < states && power.workload() <= WORKLOADS
        }
        Feature::TemperatureThreshold => {
            let threshold = TemperatureThreshold::from_bits(value);
            let is_all = threshold.sensor() == TemperatureThreshold::ALL_SENSORS;
            (is_all || has_sensor(controller, threshold.sensor())) && threshold.under() <= 1
        }
        // NSFEAT does not offer errors for unwritten blocks.
        Feature::ErrorRecovery => !ErrorRecovery::from_bits(value).unwritten_is_error(),
        Feature::InterruptVector => is_in_use(controller, InterruptVector::from_bits(value).vector()),
        Feature::NumberOfQueues => {
            let asked = NumberOfQueues::from_bits(value);
            asked.sqs_z() != TOO_MANY_QUEUES && asked.cqs_z() != TOO_MANY_QUEUES
        }
        _ => true,
    };
    if !is_possible {
        return Err(bad_field(controller, sqe, 11));
    }
    match feature {
        // Section 5.21.1.7: the value cannot change after the first I/O queue was created.
        Feature::NumberOfQueues if controller.queues.io_created => Err(refused(StatusCode::CommandSequence)),
        Feature::NumberOfQueues => Ok(controller.admin.features.grant(NumberOfQueues::from_bits(value)).into_bits()),
        Feature::KeepAliveTimer => Ok(controller.admin.keep_alive.rounded(value)),
        _ => Ok(value),
    }
}

/// Whether an I/O CQ interrupts on the vector.
fn is_in_use(controller: &Controller, vector: u16) -> bool {
    controller.queues.cqs.iter().skip(1).flatten().any(|cq| cq.vector == Some(vector))
}

/// Applies the consequences of a new value.
fn follow(controller: &mut Controller, feature: Feature, value: u32) -> Outcome {
    controller.admin.features.apply(&mut controller.settings);
    match feature {
        Feature::NumberOfQueues => return Outcome::Done { dw0: value, status: Status::SUCCESS },
        Feature::PowerManagement => {
            let ns = controller.admin.power.change(PowerManagement::from_bits(value).state(), controller.clock_ns);
            return Outcome::After { ns, dw0: 0, status: Status::SUCCESS };
        }
        Feature::TemperatureThreshold => smart::warn(controller),
        Feature::KeepAliveTimer => controller.admin.keep_alive.set(value, controller.clock_ns),
        _ => {}
    }
    Outcome::SUCCESS
}
