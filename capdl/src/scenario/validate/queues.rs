//! Refusals of queue pairs: those of a tenant's own, and those that tenants share.

use super::memory::most_ring_entries;
use crate::scenario::file::Lines;
use crate::scenario::refusal::{Checked, refuse, refuse_file};
use crate::scenario::validate::limits::MAX_DEPTH;
use crate::scenario::{Entitlement, Path, Scenario, Server, Tenant};
use blk_api::config::SchedulingPolicy;
use blk_api::queue_sharing::QueueSharing;
use blk_api::ring::MAX_ENTRIES;
use std::collections::BTreeMap;

/// Queue pairs of a tenant where each has another speed (device-direct).
const SPEEDS: u16 = 3;

/// Checks the queue pairs that a tenant asks for itself.
pub(super) fn check(server: &Server, tenant: &Tenant, line: usize) -> Checked {
    let Tenant { name, queue_pairs, core, .. } = tenant;
    let queues = server.queues;
    match (queues, *queue_pairs) {
        (QueueSharing::Shared { .. } | QueueSharing::PerCore { .. } | QueueSharing::PoolPerCore { .. }, _)
            if server.policy == SchedulingPolicy::DeviceDirect =>
        {
            return refuse_file(
                "[server] policy is device-direct, which needs queue pairs of each tenant's own: take [server] queues away, or \
                 name another policy"
                    .into(),
            );
        }
        (QueueSharing::Dedicated, 0) => {
            return refuse(line, format!("tenant `{name}` has no queue pairs: give it `queue_pairs = 1` or more"));
        }
        (QueueSharing::Dedicated, own) if server.policy == SchedulingPolicy::DeviceDirect && own != SPEEDS => {
            return refuse(
                line,
                format!(
                    "tenant `{name}` has {own} queue pairs where [server] policy is device-direct: give it \
                     `queue_pairs = {SPEEDS}`, one of each speed"
                ),
            );
        }
        (QueueSharing::Dedicated, _) | (_, 0) => {}
        (_, own) => {
            return refuse(
                line,
                format!(
                    "tenant `{name}` has {own} queue pairs of its own where [server] queues are shared: take one away"
                ),
            );
        }
    }
    let by_core = matches!(queues, QueueSharing::PerCore { .. } | QueueSharing::PoolPerCore { .. });
    if let Some(core) = core.filter(|_| !by_core) {
        return refuse(
            line,
            format!(
                "tenant `{name}` is on core {core} but queue pairs are not by core: take it away, or set [server] queues"
            ),
        );
    }
    check_size(tenant, line)
}

/// Checks the lengths of a tenant's queues.
pub(super) fn check_size(tenant: &Tenant, line: usize) -> Checked {
    let Tenant { name, depth, .. } = tenant;
    if *depth == 0 || *depth > MAX_DEPTH {
        return refuse(line, format!("tenant `{name}` has depth {depth}: give it 1 to {MAX_DEPTH}"));
    }
    let entries = tenant.ring_entries;
    if !entries.is_power_of_two() || entries > MAX_ENTRIES {
        let most = most_ring_entries(tenant).unwrap_or(1);
        return refuse(
            line,
            format!("tenant `{name}` has {entries} ring entries: make it a power of two up to {most}"),
        );
    }
    Ok(())
}

/// Checks the queue pairs that a tenant has after a change, which `tenant` includes already.
pub(super) fn check_change(scenario: &Scenario, tenant: &Tenant, to: &Entitlement, line: usize) -> Checked {
    let name = &tenant.name;
    if to.queue_pairs.is_none() && to.depth.is_none() {
        return Ok(());
    }
    if scenario.server.queues != QueueSharing::Dedicated {
        return refuse(
            line,
            format!(
                "a change for tenant `{name}`, but tenant `{name}` shares its queue pairs: take `queue_pairs` and `depth` \
                 out of it"
            ),
        );
    }
    check(&scenario.server, tenant, line)?;
    let Some((_, controller)) = scenario.controller(&tenant.controller) else { return Ok(()) };
    let (wanted, has) = (tenant.queue_pairs, controller.server_queue_pairs());
    // Room for it is kept from the beginning, beside the most that the others ever have.
    if to.queue_pairs.is_some() && scenario.queue_pairs(&controller.name) > u32::from(has) {
        return refuse(
            line,
            format!(
                "a change gives tenant `{name}` {wanted} queue pairs but controller `{}` has {has} for all: give it fewer, \
                 or the controller more",
                controller.name
            ),
        );
    }
    Ok(())
}

/// Checks the needs of all tenants together.
pub(super) fn check_all(scenario: &Scenario, lines: &Lines) -> Checked {
    match scenario.server.queues.common() {
        None => check_own(scenario, lines),
        Some((queue_pairs, depth)) => {
            check_common(scenario, queue_pairs, depth)?;
            check_completions(scenario, lines)
        }
    }
}

/// Tenants with an expected refusal do not count: a scenario shows the refusal at run time that way.
fn check_own(scenario: &Scenario, lines: &Lines) -> Checked {
    for controller in &scenario.controllers {
        let all = controller.server_queue_pairs();
        let mut left = all;
        for (tenant, line) in scenario.tenants.iter().zip(&lines.tenants) {
            if tenant.controller != controller.name
                || tenant.path == Path::Function
                || scenario.expect.refused_sessions.contains(&tenant.name)
            {
                continue;
            }
            let Some(rest) = left.checked_sub(tenant.queue_pairs) else {
                return refuse(
                    *line,
                    format!(
                        "tenant `{}` wants {} queue pairs but controller `{}` has {left} of {all} left: \
                         give it fewer, or the controller more",
                        tenant.name, tenant.queue_pairs, controller.name
                    ),
                );
            };
            left = rest;
        }
    }
    Ok(())
}

fn check_common(scenario: &Scenario, queue_pairs: u16, depth: u16) -> Checked {
    if queue_pairs == 0 {
        return refuse_file("[server] queues are none: give them 1 queue pair and 1 core or more".into());
    }
    if depth == 0 || depth > MAX_DEPTH {
        return refuse_file(format!("[server] queues have depth {depth}: give them 1 to {MAX_DEPTH}"));
    }
    match scenario.controllers.iter().find(|controller| controller.server_queue_pairs() < queue_pairs) {
        Some(controller) => refuse_file(format!(
            "[server] queues are {queue_pairs} queue pairs but controller `{}` has {}: give it more, or share fewer",
            controller.name,
            controller.server_queue_pairs()
        )),
        None => Ok(()),
    }
}

/// A queue pair either raises interrupts or does not, so its tenants must notice completions in the same way.
fn check_completions(scenario: &Scenario, lines: &Lines) -> Checked {
    let queues = scenario.server.queues;
    for controller in &scenario.controllers {
        let numbered = scenario.tenants.iter().zip(&lines.tenants);
        let is_served = |tenant: &Tenant| tenant.controller == controller.name && tenant.path == Path::Server;
        let of_controller = numbered.filter(|(tenant, _)| is_served(tenant));
        let mut first_by_queue = BTreeMap::new();
        for ((tenant, line), number) in of_controller.zip(0u16..) {
            let queue = queues.of_core(tenant.core.unwrap_or(number)).start;
            let first: &&Tenant = first_by_queue.entry(queue).or_insert(tenant);
            if first.completion != tenant.completion {
                return refuse(
                    *line,
                    format!(
                        "tenants `{}` and `{}` share queue pairs but notice completions in different ways: make these alike",
                        first.name, tenant.name
                    ),
                );
            }
        }
    }
    Ok(())
}
