//! Tenants as scenarios name them.

use super::{TENANT_PRIORITY, bytes};
use blk_api::config::{Class, Completion};
use blk_api::extent::Extent;
use serde::Deserialize;
use workload::Workload;

/// A tenant: one client component with one session.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tenant {
    /// Its name, unique; also its component's.
    pub name: String,
    /// The controller it has its session at; may be left out when there is one.
    #[serde(default)]
    pub controller: String,
    /// The namespace's id.
    #[serde(default = "default_namespace")]
    pub namespace: u32,
    /// Its priority class.
    #[serde(default = "default_class")]
    pub class: Class,
    /// Hardware queue pairs of its own.
    #[serde(default)]
    pub queue_pairs: u16,
    /// Commands each of them may hold.
    #[serde(default = "default_depth")]
    pub depth: u16,
    /// Its blocks, in the order of its own numbering.
    #[serde(default)]
    pub extents: Vec<Extent>,
    /// Whether it may write.
    #[serde(default = "default_writable")]
    pub writable: bool,
    /// Bytes of its window.
    #[serde(default = "default_window", deserialize_with = "bytes::deserialize")]
    pub window: u64,
    /// Entries of its rings, a power of two.
    #[serde(default = "default_ring_entries")]
    pub ring_entries: u32,
    /// How completions are noticed, by the server and by the client.
    #[serde(default = "default_completion")]
    pub completion: Completion,
    /// Scheduling priority of its component.
    #[serde(default = "default_priority")]
    pub priority: u8,
    /// Another tenant, whose notification it may signal; empty for none. A channel by declaration: between tenants that
    /// name no peer there is none.
    #[serde(default)]
    pub peer: String,
    /// So many tenants like this one, named `name-0`, `name-1`, …, each with the extents after the last one's and a
    /// seed of its own; 0 for this one alone. Always 0 in a loaded scenario.
    #[serde(default)]
    pub copies: u16,
    /// What it does.
    pub workload: Workload,
}

const fn default_namespace() -> u32 {
    1
}
const fn default_class() -> Class {
    Class::Medium
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
const fn default_priority() -> u8 {
    TENANT_PRIORITY
}

impl Tenant {
    /// Its blocks, all extents together.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.extents.iter().fold(0, |sum, extent| sum.saturating_add(extent.blocks))
    }
}
