//! Reports of health: the events of new warnings, and the SMART log (section 5.14.1.2).

use nvme_spec::event::AsyncEvent;
use nvme_spec::log::{Smart, Warnings};
use zerocopy::FromZeros;

use super::deliver_events;
use super::health::{Health, NS_PER_MINUTE, minutes};
use crate::controller::Controller;
use crate::host::Host;

const NS_PER_HOUR: u128 = 60 * NS_PER_MINUTE;
const SECTOR_BYTES: u64 = 512;
const SECTORS_PER_UNIT: u64 = 1000;

impl Controller {
    /// Readings of the sensors.
    #[must_use]
    pub const fn health(&self) -> Health {
        self.admin.health()
    }

    /// Sets the readings of the sensors from now on. New warnings are reported as asynchronous events, as far as the
    /// driver enabled them.
    pub fn set_health(&mut self, health: Health, host: &mut dyn Host) {
        feel(self, health);
        deliver_events(self, host);
        self.look_ahead();
    }
}

/// Takes readings of the sensors, and reports new warnings.
pub(crate) fn feel(controller: &mut Controller, health: Health) {
    controller.admin.monitor.pass_time(controller.clock_ns);
    controller.admin.monitor.health = health;
    warn(controller);
}

/// Computes the warnings after health or thresholds changed, and reports new ones as events.
pub(crate) fn warn(controller: &mut Controller) {
    let admin = &mut controller.admin;
    let fresh = admin.monitor.reconsider(admin.features.current().thresholds);
    let reported = Warnings::from_bits(fresh.into_bits() & admin.features.current().events.warnings());
    for (wanted, event) in [
        (reported.spare(), AsyncEvent::SPARE),
        (reported.temperature(), AsyncEvent::TEMPERATURE),
        (reported.reliability() || reported.read_only(), AsyncEvent::RELIABILITY),
    ] {
        if wanted {
            admin.events.report(event);
        }
    }
}

/// Returns the present SMART log.
pub(crate) fn smart(controller: &mut Controller) -> Smart {
    controller.admin.monitor.pass_time(controller.clock_ns);
    let (monitor, counters) = (&controller.admin.monitor, controller.counters());
    let mut smart = Smart::new_zeroed();
    smart.critical_warning = monitor.warnings.into_bits();
    smart.temperature.set(monitor.health.temperature_kelvin);
    for (place, kelvin) in smart.sensors.iter_mut().zip(monitor.health.sensors_kelvin) {
        place.set(kelvin);
    }
    smart.spare = monitor.health.spare_percent;
    smart.spare_threshold = monitor.health.spare_threshold_percent;
    smart.used = monitor.health.used_percent;
    smart.data_units_read.set(data_units(counters.bytes_read));
    smart.data_units_written.set(data_units(counters.bytes_written));
    smart.host_reads.set(counters.reads.into());
    smart.host_writes.set(counters.writes.into());
    smart.power_cycles.set(counters.power_cycles.into());
    smart.power_on_hours.set(u128::from(controller.clock_ns) / NS_PER_HOUR);
    smart.unsafe_shutdowns.set(counters.unsafe_shutdowns.into());
    smart.media_errors.set(counters.media_errors.into());
    smart.error_log_entries.set(controller.admin.errors.count().into());
    smart.warning_minutes.set(minutes(monitor.warning_ns));
    smart.critical_minutes.set(minutes(monitor.critical_ns));
    smart
}

/// Thousands of 512-byte units, rounded up.
fn data_units(bytes: u64) -> u128 {
    bytes.div_ceil(SECTOR_BYTES).div_ceil(SECTORS_PER_UNIT).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_counted_in_thousands_of_sectors_rounded_up() {
        assert_eq!([0, 1, 512_000, 512_001].map(data_units), [0, 1, 1, 2]);
    }
}
