//! Events that faults of the configuration cause.
//!
//! Each leaves what its log page shows: a reading of a sensor, an entry of the error log, or a namespace that changed.

use nvme_spec::event::AsyncEvent;
use sim_fault::{ControllerEffect, Happening};

use super::health::{self, Media};
use crate::controller::Controller;
use crate::fault::Hit;

/// Makes the change that the happening is. The fault hits when [`deliver_events`](super::deliver_events) reports the event to the driver.
pub(crate) fn happen(controller: &mut Controller, happening: Happening) -> Hit {
    let admin = &mut controller.admin;
    let over_kelvin = admin.features.current().thresholds.over;
    let mut health = admin.monitor.health();
    match happening {
        Happening::Spare => health.spare_percent = health.spare_threshold_percent.saturating_sub(1),
        Happening::Temperature => health.temperature_kelvin = over_kelvin,
        Happening::Reliability => health.media = Media::Degraded,
        Happening::NamespaceChanged => controller.namespaces_change(),
        Happening::InternalError => {
            admin.errors.record_event();
            admin.events.report(AsyncEvent::TRANSIENT_INTERNAL_ERROR);
        }
    }
    health::feel(controller, health);
    Hit::Later
}

/// Counts the faults that this event reports to the driver.
pub(super) fn told(controller: &mut Controller, event: AsyncEvent) {
    let is_told = |effect| matches!(effect, ControllerEffect::Event(happening) if event_of(happening) == event);
    controller.faults.met(is_told);
}

const fn event_of(happening: Happening) -> AsyncEvent {
    match happening {
        Happening::Spare => AsyncEvent::SPARE,
        Happening::Temperature => AsyncEvent::TEMPERATURE,
        Happening::Reliability => AsyncEvent::RELIABILITY,
        Happening::NamespaceChanged => AsyncEvent::NAMESPACE_CHANGED,
        Happening::InternalError => AsyncEvent::TRANSIENT_INTERNAL_ERROR,
    }
}
