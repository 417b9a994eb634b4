//! State of the admin side. Neighbour: `notices` has its changes without a command.

use nvme_spec::Cid;
use nvme_spec::event::AsyncEvent;

use super::changes::Changes;
use super::clocks::{self, Calendar, KeepAlive, Power};
use super::download::Download;
use super::errors::{Details, ErrorLog};
use super::events::Events;
use super::features::{Features, Shape};
use super::health::{Health, Monitor};
use super::host_id::HostIdentity;
use super::test_log::SelfTests;
use crate::config::Config;
use crate::settings::Settings;

/// State of the admin side.
#[derive(Debug)]
pub(crate) struct Admin {
    pub(super) features: Features,
    pub(super) events: Events,
    pub(super) errors: ErrorLog,
    pub(super) monitor: Monitor,
    pub(super) changes: Changes,
    pub(super) power: Power,
    pub(super) keep_alive: KeepAlive,
    pub(super) timestamp: Calendar,
    pub(super) host_id: HostIdentity,
    pub(super) download: Download,
    pub(super) self_tests: SelfTests,
    /// When the sanitize operation ends that this controller began. It reports that end.
    pub(super) sanitize_ends_ns: Option<u64>,
    /// Bytes that belong to no namespace.
    pub(super) unallocated_bytes: u64,
    /// Namespaces ever created by command.
    pub(super) created: u32,
    /// Details for the error log about a command that was just refused.
    pub(super) details: Option<(Cid, Details)>,
}

impl Admin {
    /// Creates the state for a controller whose configuration is sane.
    pub(crate) fn new(config: &Config) -> Self {
        let admin = &config.admin;
        let shape =
            Shape { vectors: config.vectors, queue_pairs: config.queue_pairs, warning_kelvin: admin.warning_kelvin };
        let mut state = Self {
            features: Features::new(shape),
            events: Events::new(admin.event_requests.into()),
            errors: ErrorLog::new(admin.error_entries.into()),
            monitor: Monitor::new(admin.health, admin.warning_kelvin, admin.critical_kelvin),
            changes: Changes::default(),
            power: Power::new(admin.power_states.clone()),
            keep_alive: KeepAlive::new(admin.keep_alive_100ms),
            timestamp: Calendar::new(),
            host_id: HostIdentity::default(),
            download: Download::default(),
            self_tests: SelfTests::default(),
            sanitize_ends_ns: None,
            unallocated_bytes: config.unallocated_bytes,
            created: 0,
            details: None,
        };
        state.start_with(&config.saved, config.namespaces.len() as u32);
        state
    }

    /// Starts with values that were saved before, of a controller with this number of namespaces.
    pub(crate) fn start_with(&mut self, saved: &[(u8, u32)], namespaces: u32) {
        for (fid, value) in saved {
            self.features.start_with(*fid, *value, namespaces);
        }
        self.monitor.reconsider(self.features.current().thresholds);
    }

    /// Resets with the controller, which then has this many queue pairs. Saved features take effect again and are copied into `settings`, which are new.
    pub(crate) fn reset(&mut self, settings: &mut Settings, queue_pairs: u16, now_ns: u64) {
        let Self {
            features,
            events,
            errors: _,
            monitor,
            changes,
            power,
            keep_alive,
            timestamp,
            host_id,
            download,
            self_tests: _,
            sanitize_ends_ns: _,
            unallocated_bytes: _,
            created: _,
            details,
        } = self;
        features.reset(queue_pairs);
        features.apply(settings);
        monitor.reconsider(features.current().thresholds);
        events.reset();
        changes.clear();
        power.reset(now_ns);
        keep_alive.stop();
        timestamp.reset(now_ns);
        host_id.reset();
        download.clear();
        *details = None;
    }

    /// Grants no more I/O queue pairs than these until the next reset.
    pub(crate) fn limit_queues(&mut self, queue_pairs: u16) {
        self.features.limit_queues(queue_pairs);
    }

    /// Time at which the host counts as lost, unless it sends Keep Alive, or at which a sanitize operation ends.
    pub(crate) fn next_event_ns(&self) -> Option<u64> {
        [self.keep_alive.expires_ns(), self.sanitize_ends_ns].into_iter().flatten().min()
    }

    pub(super) const fn health(&self) -> Health {
        self.monitor.health()
    }

    /// Makes the transitions of power states that the controller has made since it is idle.
    pub(super) fn follow_idleness(&mut self, now_ns: u64) {
        clocks::idle(&mut self.power, &mut self.features, now_ns);
    }

    /// Returns how long a fetched I/O command waits because of the power state.
    pub(crate) fn wake_ns(&mut self, now_ns: u64) -> u64 {
        clocks::wake(&mut self.power, &mut self.features, now_ns)
    }

    /// Records a namespace whose Identify data changed, or that became active or inactive.
    pub(crate) fn namespace_changed(&mut self, nsid: u32) {
        self.changes.insert(nsid);
        if self.features.current().events.namespace_changed() {
            self.events.report(AsyncEvent::NAMESPACE_CHANGED);
        }
    }

    /// Sets the details for the error log about the command that is being refused.
    pub(super) const fn explain(&mut self, cid: Cid, details: Details) {
        self.details = Some((cid, details));
    }
}
