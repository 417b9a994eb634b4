//! What a tenant's server and its client are told of it.

use crate::scenario::Tenant;
use blk_api::config::{Completion, SessionConfig};
use workload::Client;

/// The session of `tenant`, as its server is told.
pub(super) fn session(tenant: &Tenant) -> SessionConfig {
    SessionConfig {
        tenant: tenant.name.clone(),
        class: tenant.class,
        queue_pairs: tenant.queue_pairs,
        depth: tenant.depth,
        nsid: tenant.namespace,
        extents: tenant.extents.clone(),
        writable: tenant.writable,
        completion: tenant.completion,
        ring_entries: tenant.ring_entries,
        window_bytes: tenant.window,
    }
}

/// The client that acts for `tenant`, as its program is told.
pub(super) fn client(tenant: &Tenant) -> Client {
    Client {
        tenant: tenant.name.clone(),
        class: tenant.class.name().into(),
        queue_pairs: tenant.queue_pairs,
        ring_entries: tenant.ring_entries,
        window_bytes: tenant.window,
        first_block: tenant.extents.first().map_or(0, |extent| extent.first),
        polls: tenant.completion == Completion::Polled,
        workload: tenant.workload.clone(),
    }
}
