//! The table of an NVMe server's sessions and that of its policy component: sound in themselves, and no two tenants have rights to
//! the same blocks of which one may write.
//!
//! Left out: that both are as declared (`declared`), who the tenants are (`configured`), and the sizes of namespaces, which only
//! the controller knows.

use super::super::{Config, System};
use blk_api::config::{ClassWeights, ServerConfig, SessionConfig};
use blk_api::extent::Extent;
use blk_api::policy::{Change, Entitlement, Holder, PolicyConfig, What};
use blk_api::queue_sharing::QueueSharing;
use blk_api::ring::{MAX_ENTRIES, client_region_bytes, server_region_bytes};

/// Identifiers of namespaces: neither none nor all of them (NVMe base specification 1.4, section 6.1.4).
const NSIDS: core::ops::RangeInclusive<u32> = 1..=0xffff_fffe;

/// Rights to blocks that a tenant has or may get.
struct Right<'a> {
    tenant: &'a str,
    nsid: u32,
    first: u64,
    end: u64,
    writable: bool,
}

impl System<'_> {
    /// Checks the numbers of a server's configuration: rings as long as their memory, and shares within their bounds.
    pub(super) fn sessions_are_sound(&self, index: usize, config: &ServerConfig) -> Vec<String> {
        let (who, mut paths) = (self.who(index), Vec::new());
        let ClassWeights { high, medium, low } = config.class_weights;
        if config.records == 0 || [high, medium, low].iter().any(|weight| !(1..=ClassWeights::MOST).contains(weight)) {
            paths.push(format!("{who} is configured with no records, or with a weight of a class that does not exist"));
        }
        for session in &config.sessions {
            let SessionConfig { tenant, ring_entries, .. } = session;
            let bytes = |part: &str| self.id(&format!("{tenant}.{part}")).and_then(|ring| self.bytes(ring));
            let has_rings = ring_entries.is_power_of_two()
                && *ring_entries <= MAX_ENTRIES
                && bytes("ring-client") == Some(client_region_bytes(*ring_entries))
                && bytes("ring-server") == Some(server_region_bytes(*ring_entries));
            if !has_rings {
                paths.push(format!(
                    "{who} is configured with {ring_entries} entries in the rings of {tenant}, which are not as long"
                ));
            }
            if !is_within(session, &share(session), config.queue_sharing) {
                paths.push(format!("{who} is configured with a share of {tenant} beyond its bounds"));
            }
        }
        let sessions = config.sessions.iter().map(|session| (&session.tenant, session.nsid));
        let functions = config.functions.iter().map(|function| (&function.tenant, function.nsid));
        for (tenant, nsid) in sessions.chain(functions).filter(|(_, nsid)| !NSIDS.contains(nsid)) {
            paths.push(format!("{who} is configured with namespace {nsid} for {tenant}, which no namespace is"));
        }
        paths
    }

    /// Compares the rights of a policy component's tenants with each other, and changes with the shares that their server gives.
    pub(super) fn rights_are_apart(&self, index: usize, config: &PolicyConfig) -> Vec<String> {
        let (who, mut paths) = (self.who(index), Vec::new());
        let server = self.indices().find(|server| self.is_policy_of(index, *server));
        let Some(Config::NvmeServer(server)) = server.map(|server| &self.configs[server]) else { return paths };
        for holder in config.sessions.iter().chain(&config.functions) {
            if !is_sound(holder) {
                paths.push(format!("{who} is configured with impossible extents of {}", holder.tenant));
            }
        }
        for change in &config.changes {
            if !is_possible(change, config, server) {
                paths.push(format!("{who} is configured with a change of session {} beyond its due", change.session));
            }
        }
        paths.extend(overlap(config).map(|(one, other)| {
            format!("{who} is configured with blocks that {one} and {other} have, of which one may write")
        }));
        paths
    }
}

/// The share that a session begins with.
const fn share(session: &SessionConfig) -> Entitlement {
    Entitlement {
        class: session.class,
        weight: session.weight,
        iops: session.iops_limit,
        bandwidth: session.bandwidth_limit,
        queue_pairs: session.queue_pairs,
        depth: session.depth,
    }
}

fn is_within(session: &SessionConfig, share: &Entitlement, sharing: QueueSharing) -> bool {
    let least = if sharing == QueueSharing::Dedicated { 1 } else { 0 };
    share.class.number() >= session.highest.number()
        && share.weight > 0
        && (least..=session.most_queue_pairs).contains(&share.queue_pairs)
        && (1..=session.most_depth).contains(&share.depth)
}

/// Whether each extent has blocks, and no block is in two.
fn is_sound(holder: &Holder) -> bool {
    let mut all: Vec<_> = holder.extents.iter().map(|extent| (extent.first, extent.end())).collect();
    all.sort_unstable();
    let are_apart = all.windows(2).all(|two| two[0].1.is_some_and(|end| end <= two[1].0));
    let are_possible = holder.extents.iter().all(|extent| extent.blocks > 0 && extent.end().is_some());
    are_apart && are_possible
}

/// Whether a change is about a session that there is, its own blocks, and a share that it may have.
fn is_possible(change: &Change, config: &PolicyConfig, server: &ServerConfig) -> bool {
    let Ok(number) = usize::try_from(change.session) else { return false };
    let Some(holder) = config.sessions.iter().chain(&config.functions).nth(number) else { return false };
    match &change.what {
        What::Revoke(all) => all.iter().all(|blocks| has(holder, blocks.first, blocks.blocks)),
        What::Grant(all) => all.iter().all(|extent| has(holder, extent.first, extent.blocks)),
        What::Entitle(share) => {
            server.sessions.get(number).is_some_and(|session| is_within(session, share, server.queue_sharing))
        }
    }
}

/// Whether the holder numbers all of these blocks. Its extents are apart.
fn has(holder: &Holder, first: u64, blocks: u64) -> bool {
    let Some(end) = first.checked_add(blocks).filter(|_| blocks > 0) else { return false };
    let within = |extent: &Extent| {
        let extent_end = extent.end().unwrap_or(u64::MAX);
        extent_end.min(end).saturating_sub(extent.first.max(first))
    };
    holder.extents.iter().map(within).fold(0, u64::saturating_add) == blocks
}

/// Two tenants with rights to the same block, one of which may write, now or after a change.
fn overlap(config: &PolicyConfig) -> Option<(String, String)> {
    let holders = || config.sessions.iter().chain(&config.functions);
    let granted = config.changes.iter().filter_map(|change| match &change.what {
        What::Grant(all) => Some((holders().nth(usize::try_from(change.session).ok()?)?, all.as_slice())),
        What::Revoke(_) | What::Entitle(_) => None,
    });
    let all = holders().map(|holder| (holder, holder.extents.as_slice())).chain(granted);
    let mut rights: Vec<Right<'_>> = all
        .flat_map(|(Holder { tenant, nsid, writable: may_write, .. }, extents)| {
            extents.iter().map(|extent| {
                let Extent { first, .. } = *extent;
                // A session that may not write has no extent to write, whatever the extent says.
                let writable = *may_write && extent.writable;
                Right { tenant, nsid: *nsid, first, end: extent.end().unwrap_or(u64::MAX), writable }
            })
        })
        .collect();
    rights.sort_unstable_by_key(|right| (right.nsid, right.first));
    // Rights that begin before the one that is looked at and may reach into it.
    let mut open: Vec<&Right<'_>> = Vec::new();
    for right in &rights {
        open.retain(|other| other.nsid == right.nsid && other.end > right.first);
        let other = open.iter().find(|other| other.tenant != right.tenant && (other.writable || right.writable));
        if let Some(other) = other {
            return Some((other.tenant.to_owned(), right.tenant.to_owned()));
        }
        open.push(right);
    }
    None
}
