//! Refusals of tenants whose memory the machine does not have: programs, windows, rings, and their part of the servers' pools; or
//! their server or their own client, on its heap.
//!
//! Programs, logs and tables are estimated by component: the root task refuses what does not fit in the end.

use crate::build::pool_pages;
use crate::scenario::file::Lines;
use crate::scenario::refusal::{Checked, refuse};
use crate::scenario::validate::limits::PAGE;
use crate::scenario::{Path, QUEUE_PAIRS, Scenario, Telemetry, Tenant, Workload};
use blk_api::client_heap;
use blk_api::config::ServerConfig;
use blk_api::queue_sharing::QueueSharing;
use blk_api::ring::{MAX_ENTRIES, client_region_bytes, server_region_bytes};
use platform::HEAP_BYTES;
use workload::{Bench, Digest, HEAP_A_REQUEST};

/// Bytes of the machine's memory that the kernel and the root task take: 16 MiB for its CNode, the rest mostly for its image, in which
/// all programs are.
const BOOT: u64 = 28 << 20;
/// Bytes of a component: its heap, and up to 768 KiB for its code and data, its stack, its log ring and its tables.
const COMPONENT: u64 = (HEAP_BYTES + (768 << 10)) as u64;
/// Bytes of an NVMe server, which has 2.25 MiB more of heap.
const SERVER: u64 = COMPONENT + (9 << 18);
/// Pages for which the root task has slots, beside those of everything else: its CNode has 2^19 slots.
const PAGES: u64 = (1 << 19) - (1 << 16);

/// Checks that the tenants' memory fits. The refusal names the first tenant for which it does not.
pub(super) fn check(scenario: &Scenario, lines: &Lines) -> Checked {
    let memory = scenario.machine.memory;
    let most = memory.saturating_sub(others(scenario)).min(PAGES * PAGE);
    let mut sum = scenario.server.queues.common().map_or(0, |_| common(scenario));
    for (tenant, line) in scenario.tenants.iter().zip(&lines.tenants) {
        client_heap(tenant, *line)?;
        sum = sum.saturating_add(own(scenario, tenant));
        if sum > most {
            return refuse(
                *line,
                format!(
                    "tenant `{}` and those before it need {} MiB for programs, windows, rings and queues, and a machine of {} MiB \
                     has {} for them: have fewer tenants, make windows smaller, lower depths, or raise [machine] memory",
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

/// Checks that a tenant's client has room on its heap for its session and its program's requests.
fn client_heap(tenant: &Tenant, line: usize) -> Checked {
    let needed = client_heap_bytes(tenant, tenant.ring_entries);
    if needed > HEAP_BYTES {
        let mend = match most_ring_entries(tenant) {
            Some(most) => format!("write ring_entries = {most} or less, or make the window smaller"),
            None => "make the window smaller, or lower the workload's depth".into(),
        };
        return refuse(
            line,
            format!(
                "tenant `{}` has a client with {} KiB of heap, and its window, rings and requests need {}: {mend}",
                tenant.name,
                HEAP_BYTES >> 10,
                needed.div_ceil(1 << 10)
            ),
        );
    }
    Ok(())
}

/// The most ring entries for which the tenant's client has room beside its window and requests; none if it has no room at all.
pub(super) fn most_ring_entries(tenant: &Tenant) -> Option<u32> {
    let sizes = (0..=MAX_ENTRIES.ilog2()).rev().map(|log| 1 << log);
    sizes.into_iter().find(|entries| client_heap_bytes(tenant, *entries) <= HEAP_BYTES)
}

/// Bytes of heap that the tenant's client needs with rings of so many entries.
fn client_heap_bytes(tenant: &Tenant, ring_entries: u32) -> usize {
    let session = match tenant.path {
        Path::Server => client_heap::session(tenant.window, ring_entries),
        Path::Function => client_heap::session_on_function(tenant.window, ring_entries),
    };
    let depth = match &tenant.workload {
        Workload::Bench(Bench { depth, .. }) | Workload::Digest(Digest { depth, .. }) => *depth,
        Workload::Flood(_) | Workload::Hostile(_) | Workload::Signal(_) | Workload::Own(_) => 0,
    };
    session + usize::from(depth) * HEAP_A_REQUEST
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

/// Bytes that tenants do not have: those of the kernel and of all other components.
fn others(scenario: &Scenario) -> u64 {
    let servers = scenario.controllers.len() as u64;
    // Console, PCI server and IOMMU server, and a policy component beside each NVMe server.
    BOOT + (3 + servers) * COMPONENT + servers * SERVER
}

/// Bytes of the pools of queue pairs that tenants share.
fn common(scenario: &Scenario) -> u64 {
    let pool = pool_pages(scenario.server.queues, std::iter::empty()) * PAGE;
    pool.saturating_mul(scenario.controllers.len() as u64)
}

/// Bytes of a tenant's own memory, its client's program with it.
fn own(scenario: &Scenario, tenant: &Tenant) -> u64 {
    let telemetry = scenario.telemetry.as_ref();
    if tenant.path == Path::Function {
        return COMPONENT
            + telemetry.map_or(0, Telemetry::function_pages) as u64 * PAGE
            + tenant.window
            + pool_pages(QueueSharing::Dedicated, std::iter::once((QUEUE_PAIRS, tenant.depth))) * PAGE;
    }
    let shown = telemetry.map_or(0, |shown| shown.server_pages(1).saturating_add(shown.client_pages())) as u64 * PAGE;
    let rings = client_region_bytes(tenant.ring_entries) + server_region_bytes(tenant.ring_entries);
    let pool = match scenario.server.queues.common() {
        Some(_) => 0,
        None => pool_pages(QueueSharing::Dedicated, std::iter::once(scenario.most_queues(tenant))) * PAGE,
    };
    COMPONENT + shown + tenant.window + rings + pool
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;

    /// The outcome for a machine of so many MiB with a controller and so many tenants, each with these keys.
    fn with_tenants(mib: u64, tenants: u64, keys: &str) -> Result<Scenario, String> {
        let mut text = "name = \"a\"\ndescription = \"b\"\n[[controller]]\nname = \"disk\"\n\
                        [[controller.namespace]]\nsize = \"1M\"\n"
            .to_owned();
        for tenant in 0..tenants {
            text += &format!(
                "[[tenant]]\nname = \"t{tenant}\"\nqueue_pairs = 1\n{keys}\n\
                 extents = [{{ first = {}, blocks = 16 }}]\nprogram.name = \"bench\"\n[tenant.program.config]\n",
                16 * tenant
            );
        }
        text += &format!("[machine]\nmemory = \"{mib}M\"\n");
        Scenario::parse(&text, "file").map_err(|error| error.to_string())
    }

    #[test]
    fn rings_that_fill_the_servers_heap_are_refused_with_the_controllers_line() {
        assert!(with_tenants(256, 60, "ring_entries = 64").is_ok());
        assert!(with_tenants(256, 12, "ring_entries = 2048").is_ok());
        let refusal = with_tenants(256, 40, "ring_entries = 2048").unwrap_err();
        assert!(
            refusal.starts_with("file:3: the server of `disk` has 1024 KiB") && refusal.contains("lower ring_entries"),
            "{refusal}"
        );
    }

    #[test]
    fn sessions_that_fill_a_clients_heap_are_refused_with_the_tenants_line() {
        let one = |keys: &str| with_tenants(1024, 1, keys).map(drop);
        let refused = |keys: &str| {
            let refusal = one(keys).unwrap_err();
            let says = ["file:7: tenant `t0` has a client with 1024 KiB of heap", "make the window smaller"];
            assert!(says.into_iter().all(|said| refusal.contains(said)), "{keys}: {refusal}");
        };
        // The largest window, and rings of most sizes, but not both.
        assert_eq!(one("window = \"256M\""), Ok(()));
        assert_eq!(one("ring_entries = 2048"), Ok(()));
        refused("ring_entries = 4096");
        assert!(one("ring_entries = 4096").unwrap_err().contains("write ring_entries = 2048 or less"));
        for (entries, most) in
            [("ring_entries = 3", 2048), ("ring_entries = 8192", 2048), ("ring_entries = 0\nwindow = \"128M\"", 1024)]
        {
            let refusal = one(entries).unwrap_err();
            assert!(refusal.ends_with(&format!("make it a power of two up to {most}")), "{refusal}");
        }
        refused("window = \"256M\"\nring_entries = 2048");
    }

    #[test]
    fn programs_that_fill_the_machine_are_refused_with_the_tenants_line() {
        let with = |tenants| with_tenants(64, tenants, "window = \"64K\"");
        assert!(with(8).is_ok());
        let refusal = with(16).unwrap_err();
        assert!(refusal.contains("need 26 MiB for programs, windows") && refusal.contains("has 25 for"), "{refusal}");
    }
}
