//! Refusals of tenants whose memory the machine does not have: windows, rings, and their part of the servers' pools; or their
//! server, on its heap.
//!
//! A system also has programs, logs and tables, which are not counted: the root task refuses what does not fit in the end.

use super::{Checked, PAGE, refuse};
use crate::build::pool_pages;
use crate::scenario::{Lines, Path, QUEUE_PAIRS, Scenario, Tenant};
use blk_api::config::ServerConfig;
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
    scenario.controllers.iter().zip(&lines.controllers).try_for_each(|(one, line)| heap(scenario, &one.name, *line))
}

/// Checks that the server of a controller has room on its heap for what its sessions and queue pairs keep.
fn heap(scenario: &Scenario, controller: &str, line: usize) -> Checked {
    let bytes = |(queue_pairs, depth)| ServerConfig::queue_pair_heap(queue_pairs, depth);
    let common = scenario.server.queues.common();
    let own = |tenant| if common.is_some() { 0 } else { bytes(scenario.most_queues(tenant)) };
    let sessions =
        scenario.sessions(controller).map(|tenant| ServerConfig::session_heap(tenant.ring_entries) + own(tenant));
    let sum = sessions.sum::<usize>() + common.map_or(0, bytes);
    if sum > ServerConfig::REQUESTS_HEAP {
        return refuse(
            line,
            format!(
                "the server of `{controller}` has {} KiB for its sessions' requests, and their rings and queue pairs need {}: \
                 lower ring_entries, depths or the number of tenants",
                ServerConfig::REQUESTS_HEAP >> 10,
                sum.div_ceil(1 << 10)
            ),
        );
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

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;

    /// The outcome for a controller with so many tenants, each with so many ring entries.
    fn with_rings(tenants: u64, entries: u32) -> Result<Scenario, String> {
        let mut text = "name = \"a\"\ndescription = \"b\"\n[[controller]]\nname = \"disk\"\n\
                        [[controller.namespace]]\nsize = \"1M\"\n"
            .to_owned();
        for tenant in 0..tenants {
            text += &format!(
                "[[tenant]]\nname = \"t{tenant}\"\nqueue_pairs = 1\nring_entries = {entries}\n\
                 extents = [{{ first = {}, blocks = 16 }}]\nprogram.name = \"bench\"\n[tenant.program.config]\n",
                16 * tenant
            );
        }
        Scenario::parse(&text, "file").map_err(|error| error.to_string())
    }

    #[test]
    fn rings_that_fill_the_servers_heap_are_refused_with_the_controllers_line() {
        assert!(with_rings(60, 64).is_ok());
        assert!(with_rings(12, 4096).is_ok());
        let refusal = with_rings(40, 4096).unwrap_err();
        assert!(
            refusal.starts_with("file:3: the server of `disk` has 1024 KiB") && refusal.contains("lower ring_entries"),
            "{refusal}"
        );
    }
}
