//! Tenants as scenarios name them.

use super::{Entitlement, Restart, Workload, bytes};
use blk_api::config::{Class, Completion, RateLimit};
use blk_api::extent::Extent;
use serde::{Deserialize, Deserializer};

/// A tenant: one client component with one session.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Tenant {
    /// Name, unique; also its component's.
    pub name: String,
    /// The way of its requests.
    #[serde(default)]
    pub path: Path,
    /// The controller of its session; may be left out when there is one.
    #[serde(default)]
    pub controller: String,
    /// The namespace's id.
    #[serde(default = "default_namespace")]
    pub namespace: u32,
    /// Priority class.
    #[serde(default = "default_class")]
    pub class: Class,
    /// The most urgent class that it may ever be given; its class where none is named.
    #[serde(default)]
    pub highest_class: Option<Class>,
    /// Weight against the other tenants of its class, 1 or more.
    #[serde(default = "default_weight")]
    pub weight: u16,
    /// Commands a second, at most.
    #[serde(default)]
    pub iops: Option<RateLimit>,
    /// Bytes a second, at most.
    #[serde(default, deserialize_with = "bandwidth")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Bandwidth>"))]
    pub bandwidth: Option<RateLimit>,
    /// Hardware queue pairs of its own; none where tenants share queue pairs ([`Server::queues`](super::Server::queues)).
    #[serde(default)]
    pub queue_pairs: u16,
    /// Commands that each of its queue pairs may hold, 1 to 1024.
    #[serde(default = "default_depth")]
    pub depth: u16,
    /// The core on which it counts as submitting, where each core has queue pairs. Without one, its place among the tenants of
    /// its controller determines the core.
    #[serde(default)]
    pub core: Option<u16>,
    /// Blocks, in the order of the tenant's own numbering. A tenant that drives a function has its whole namespace, and names none.
    #[serde(default)]
    pub extents: Vec<Extent>,
    /// Whether the tenant may write.
    #[serde(default = "default_writable")]
    pub writable: bool,
    /// Bytes of its window, a multiple of 4096 up to 256M.
    #[serde(default = "default_window", deserialize_with = "bytes::deserialize")]
    #[cfg_attr(feature = "schema", schemars(with = "super::schema::Size"))]
    pub window: u64,
    /// Entries of its rings, a power of two.
    #[serde(default = "default_ring_entries")]
    pub ring_entries: u32,
    /// Whether the tenant's requests wait for the return of a controller that is removed. Otherwise they fail, as the controller
    /// is gone.
    #[serde(default)]
    pub waits: bool,
    /// How the server and the client notice completions.
    #[serde(default = "default_completion")]
    pub completion: Completion,
    /// Whether the tenant may ask the supervisor for an alarm, to sleep for a part of the time that a request takes. Each alarm
    /// costs the supervisor's time, before that of all servers.
    #[serde(default)]
    pub alarm: bool,
    /// Scheduling priority of its component, 1 or more and below the servers'; that of its class without it
    /// ([`Scenario::priority`](super::Scenario::priority)).
    #[serde(default)]
    pub priority: Option<u8>,
    /// Another tenant whose notification it may signal; empty for none. Only this declaration makes a channel between tenants.
    #[serde(default)]
    pub peer: String,
    /// How often its component is started again after a fault, each time with a new session; without, it stays dead.
    #[serde(default)]
    pub restart: Option<Restart>,
    /// The moment at which it opens its session, or its function. Without one it does so at once.
    #[serde(default)]
    pub opens: Option<String>,
    /// The moment that its load, or its attacks, wait for: it is open by then. Without one it begins at once.
    #[serde(default)]
    pub begins: Option<String>,
    /// The moment at which its load ends, unless it has ended before.
    #[serde(default)]
    pub ends: Option<String>,
    /// Number of tenants like this one, up to 256, named `name-0`, `name-1`, …, each with the extents after the last one's and a seed of
    /// its own; 0 for this one alone.
    #[serde(default)]
    pub copies: u16,
    /// The program of its component.
    #[serde(rename = "program")]
    pub workload: Workload,
}

/// The way of a tenant's requests to the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// Through the NVMe server, which checks them.
    #[default]
    Server,
    /// To a virtual function of the tenant's own, with a namespace of its own. Hardware keeps it apart from others.
    Function,
}

const fn default_namespace() -> u32 {
    1
}
const fn default_class() -> Class {
    Class::Medium
}
const fn default_weight() -> u16 {
    1
}
const fn default_depth() -> u16 {
    32
}
const fn default_writable() -> bool {
    true
}
const fn default_window() -> u64 {
    1 << 20
}
const fn default_ring_entries() -> u32 {
    64
}
const fn default_completion() -> Completion {
    Completion::Interrupt
}

/// Reads a limit in bytes, which may have units.
pub(super) fn bandwidth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RateLimit>, D::Error> {
    Bandwidth::deserialize(deserializer).map(|bandwidth| Some(bandwidth.into()))
}

/// A rate in bytes, with a burst after a pause: in any time `t` at most `per_second * t + burst`.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Bandwidth {
    /// Bytes a second, 4096 or more.
    #[serde(deserialize_with = "bytes::deserialize")]
    #[cfg_attr(feature = "schema", schemars(with = "super::schema::Size"))]
    per_second: u64,
    /// Bytes at once, 4096 or more.
    #[serde(deserialize_with = "bytes::deserialize")]
    #[cfg_attr(feature = "schema", schemars(with = "super::schema::Size"))]
    burst: u64,
}

impl From<Bandwidth> for RateLimit {
    fn from(Bandwidth { per_second, burst }: Bandwidth) -> Self {
        Self { per_second, burst }
    }
}

impl Tenant {
    /// Applies another share from now on. The most that the tenant may have stays.
    pub fn entitle(&mut self, to: &Entitlement) {
        self.highest_class = Some(self.highest());
        self.class = to.class.unwrap_or(self.class);
        self.weight = to.weight.unwrap_or(self.weight);
        self.iops = to.iops.unwrap_or(self.iops);
        self.bandwidth = to.bandwidth.unwrap_or(self.bandwidth);
        self.queue_pairs = to.queue_pairs.unwrap_or(self.queue_pairs);
        self.depth = to.depth.unwrap_or(self.depth);
    }

    /// Whether the tenant's server polls for it, and so never sleeps.
    #[must_use]
    pub fn is_polled_for(&self) -> bool {
        self.completion == Completion::Polled && self.path == Path::Server
    }

    /// The most urgent class that it may ever be given.
    #[must_use]
    pub fn highest(&self) -> Class {
        self.highest_class.unwrap_or(self.class)
    }

    /// Blocks, all extents together.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.extents.iter().fold(0, |sum, extent| sum.saturating_add(extent.blocks))
    }
}
