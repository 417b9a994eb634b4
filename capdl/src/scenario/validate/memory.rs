//! Refusals of tenants whose memory the machine does not have: windows, rings, and their part of the servers' pools.
//!
//! A system also has programs, logs and tables, which are not counted: the root task refuses what does not fit in the end.

use super::{Checked, PAGE, refuse};
use crate::build::pool_pages;
use crate::scenario::{Lines, Path, QUEUE_PAIRS, Scenario, Tenant};
use blk_api::queue_sharing::QueueSharing;
use blk_api::ring::{client_region_bytes, server_region_bytes};

/// Bytes of the machine's memory that tenants do not have: those of the kernel, the programs and their logs.
const OTHERS: u64 = 40 << 20;
/// Pages for which the root task has slots, beside those of everything else: its CNode has 2^19 slots.
const PAGES: u64 = (1 << 19) - (1 << 16);

/// Checks that the tenants' memory fits. The refusal names the first tenant for which it does not.
pub(super) fn check(scenario: &Scenario, lines: &Lines) -> Checked {
    let memory = scenario.machine.memory;
    let most = memory.saturating_sub(OTHERS).min(PAGES * PAGE);
    let mut sum = scenario.server.queues.common().map_or(0, |_| common(scenario));
    for (tenant, line) in scenario.tenants.iter().zip(&lines.tenants) {
        sum = sum.saturating_add(own(scenario, tenant));
        if sum > most {
            return refuse(
                *line,
                format!(
                    "tenant `{}` and those before it need {} MiB for windows, rings and queues, and a machine of {} MiB has \
                     {} for them: make windows smaller, lower depths, or raise [machine] memory",
                    tenant.name,
                    sum.div_ceil(1 << 20),
                    memory >> 20,
                    most >> 20
                ),
            );
        }
    }
    Ok(())
}

/// Bytes of the pools of queue pairs that tenants share.
fn common(scenario: &Scenario) -> u64 {
    let pool = pool_pages(scenario.server.queues, std::iter::empty()) * PAGE;
    pool.saturating_mul(scenario.controllers.len() as u64)
}

/// Bytes of a tenant's own memory.
fn own(scenario: &Scenario, tenant: &Tenant) -> u64 {
    if tenant.path == Path::Function {
        return tenant.window
            + pool_pages(QueueSharing::Dedicated, std::iter::once((QUEUE_PAIRS, tenant.depth))) * PAGE;
    }
    let rings = client_region_bytes(tenant.ring_entries) + server_region_bytes(tenant.ring_entries);
    let pool = match scenario.server.queues.common() {
        Some(_) => 0,
        None => pool_pages(QueueSharing::Dedicated, std::iter::once(scenario.most_queues(tenant))) * PAGE,
    };
    tenant.window + rings + pool
}
