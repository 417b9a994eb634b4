//! Events that faults of the configuration cause.
//!
//! Each leaves what its log page shows: a reading of a sensor, an entry of the error log, or a namespace that changed.

use nvme_spec::event::AsyncEvent;
use sim_fault::Happening;

use super::health::Media;
use super::smart;
use crate::controller::Controller;
use crate::fault::Hit;

/// Makes the change that the happening is. The fault hits when [`deliver_events`](super::deliver_events) reports the event to the driver.
pub(crate) fn happen(controller: &mut Controller, happening: Happening) -> Hit {
    let admin = &mut controller.admin;
    let over_kelvin = admin.features.current().thresholds.band(0).over;
    let mut health = admin.monitor.health();
    match happening {
        Happening::Spare => health.spare_percent = health.spare_threshold_percent.saturating_sub(1),
        Happening::Temperature => health.temperature_kelvin = over_kelvin,
        Happening::Reliability => health.media = Media::Degraded,
        Happening::ReadOnly => health.media = Media::ReadOnly,
        Happening::NamespaceChanged => controller.namespaces_change(),
        Happening::InternalError => {
            admin.errors.record_event();
            admin.events.report(AsyncEvent::TRANSIENT_INTERNAL_ERROR);
        }
    }
    smart::feel(controller, health);
    Hit::Later
}
