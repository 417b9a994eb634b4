//! The configurations of a tenant's server, of the policy component beside it, and of its client.

use super::moments::Numbering;
use crate::scenario::{Change, Controller, ControllerChange, QUEUE_PAIRS, Scenario, Tenant, What};
use blk_api::config::{Completion, FunctionConfig, SessionConfig};
use blk_api::policy::{self, Holder};
use blk_api::queue_sharing::QueueSharing;
use workload::Client;

/// The configuration of `tenant`'s session, which has this number at its server.
pub(super) fn session(scenario: &Scenario, tenant: &Tenant, number: u16) -> SessionConfig {
    let (most_queue_pairs, most_depth) = scenario.most_queues(tenant);
    SessionConfig {
        tenant: tenant.name.clone(),
        class: tenant.class,
        highest: tenant.highest(),
        weight: tenant.weight,
        iops_limit: tenant.iops,
        bandwidth_limit: tenant.bandwidth,
        queue_pairs: tenant.queue_pairs,
        depth: depth(scenario.server.queues, tenant.depth),
        most_queue_pairs,
        most_depth: depth(scenario.server.queues, most_depth),
        core: tenant.core.unwrap_or(number),
        nsid: tenant.namespace,
        blocks: tenant.blocks(),
        writable: tenant.writable,
        completion: tenant.completion,
        ring_entries: tenant.ring_entries,
        window_bytes: tenant.window,
        traced: scenario.traced(tenant),
    }
}

/// The virtual function of `tenant`.
pub(super) fn function(tenant: &Tenant) -> FunctionConfig {
    FunctionConfig { tenant: tenant.name.clone(), nsid: tenant.namespace, queue_pairs: QUEUE_PAIRS }
}

/// The depth of queue pairs, of a tenant's own or of those that it shares.
fn depth(queues: QueueSharing, own: u16) -> u16 {
    queues.common().map_or(own, |(_, depth)| depth)
}

/// The share of `tenant`'s session at the start, for the policy component's configuration.
pub(super) fn share(tenant: &Tenant, queues: QueueSharing) -> policy::Entitlement {
    let Tenant { class, weight, iops, bandwidth, queue_pairs, .. } = *tenant;
    policy::Entitlement { class, weight, iops, bandwidth, queue_pairs, depth: depth(queues, tenant.depth) }
}

/// The namespace and extents of `tenant`'s session, for the policy component's configuration.
pub(super) fn holder(tenant: &Tenant) -> Holder {
    let Tenant { name, namespace, extents, writable, .. } = tenant;
    Holder { tenant: name.clone(), nsid: *namespace, extents: extents.clone(), writable: *writable }
}

/// A change for `tenant`, whose session has this number, as the policy component receives it. Applies the change to `tenant`,
/// too.
pub(super) fn change(
    (change, moment): (&Change, u16),
    tenant: &mut Tenant,
    queues: QueueSharing,
    session: u32,
) -> policy::Change {
    let what = match &change.what {
        What::Revoke(all) => policy::What::Revoke(all.clone()),
        What::Grant(all) => policy::What::Grant(all.clone()),
        What::Entitle(entitlement) => {
            tenant.entitle(entitlement);
            policy::What::Entitle(share(tenant, queues))
        }
    };
    policy::Change { moment, session, what }
}

/// A controller's changes of interrupt mode in their order, as the policy component receives them.
pub(super) fn interrupts(numbering: &Numbering<'_>, controller: &Controller) -> Vec<policy::InterruptsChange> {
    let configured =
        |(change, moment): (&ControllerChange, u16)| policy::InterruptsChange { moment, to: change.interrupts };
    numbering.of_controller(controller).map(configured).collect()
}

/// The configuration of `tenant`'s client, which has this number at its server.
pub(super) fn client(scenario: &Scenario, tenant: &Tenant, queues: QueueSharing, number: u16) -> Client {
    let numbering = Numbering::new(scenario);
    let moment = |name: &Option<String>| name.as_deref().and_then(|name| numbering.named(name));
    let shared = queues.of_core(tenant.core.unwrap_or(number)).len() as u16;
    Client {
        tenant: tenant.name.clone(),
        class: tenant.class.name().into(),
        queue_pairs: if queues == QueueSharing::Dedicated { tenant.queue_pairs } else { shared },
        ring_entries: tenant.ring_entries,
        window_bytes: tenant.window,
        first_block: tenant.extents.first().map_or(0, |extent| extent.first),
        polls: tenant.completion == Completion::Polled,
        waits: tenant.waits,
        traced: scenario.traced(tenant).0,
        opens: moment(&tenant.opens),
        begins: moment(&tenant.begins),
        ends: moment(&tenant.ends),
        config: tenant.workload.config(),
    }
}
