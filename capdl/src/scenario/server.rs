//! Settings of the NVMe servers.

use crate::priority::SERVER_PRIORITY;
use blk_api::config::{ClassWeights, SchedulingPolicy};
use blk_api::queue_sharing::QueueSharing;
use capdl_spec::RestartPolicy;
use serde::Deserialize;

/// Records of extents of an NVMe server unless the scenario names another number (SEEDS M3).
pub const RECORDS: u32 = 16_384;

/// Settings of all NVMe servers.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// Scheduling priority of the servers, below the PCI server's 150.
    pub priority: u8,
    /// The scheduling policy: which session's request goes to the controller next.
    pub policy: SchedulingPolicy,
    /// Weights of the classes below urgent.
    pub class_weights: ClassWeights,
    /// How tenants share queue pairs.
    pub queues: QueueSharing,
    /// How often a server, or the policy component beside it, is started again after a fault.
    pub restart: Restart,
    /// Records of extents that a server keeps for all its sessions together: at least 4 for each of them, at most 65535 with one for each.
    pub records: u32,
    /// Whether adjacent records with the same rights become one. `false` is for comparison alone (SEEDS M5).
    pub merging: bool,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            priority: SERVER_PRIORITY,
            policy: SchedulingPolicy::default(),
            class_weights: ClassWeights::default(),
            queues: QueueSharing::default(),
            restart: Restart::default(),
            records: RECORDS,
            merging: true,
        }
    }
}

/// Limit on restarts: so many times in any so many seconds; the next fault ends the component.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields, default)]
pub struct Restart {
    /// Restarts; 0 for none.
    pub times: u16,
    /// Seconds.
    pub within_seconds: u16,
}

impl Default for Restart {
    fn default() -> Self {
        Self { times: 5, within_seconds: 60 }
    }
}

impl Restart {
    pub(crate) fn to_policy(self) -> RestartPolicy {
        RestartPolicy { times: self.times, within_ms: u32::from(self.within_seconds) * 1000 }
    }
}
