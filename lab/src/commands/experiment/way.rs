//! The ways of submission that experiments compare (SEEDS V9): the order of requests, and which tenants share queue pairs.

use crate::combinations::Vary;
use anyhow::Result;
use blk_api::queue_sharing::QueueSharing;

/// A way of submission: a scheduling policy, and which tenants share queue pairs.
#[derive(Clone, Copy)]
pub(super) struct Way {
    /// The way's name in data and pictures.
    pub(super) name: &'static str,
    /// `[server] policy`.
    policy: &'static str,
    /// `[server] queues`.
    queues: QueueSharing,
}

/// A single queue for all tenants, the thesis's starting point.
pub(super) const ONE_QUEUE: Way =
    Way { name: "one queue", policy: "round-robin", queues: QueueSharing::Shared { queue_pairs: 1, depth: 128 } };
/// A queue for each of eight cores.
pub(super) const PER_CORE: Way =
    Way { name: "per core", policy: "round-robin", queues: QueueSharing::PerCore { cores: 8, depth: 128 } };
/// A pool for each of eight cores.
pub(super) const POOL_PER_CORE: Way = Way {
    name: "pool per core",
    policy: "round-robin",
    queues: QueueSharing::PoolPerCore { cores: 8, queue_pairs: 4, depth: 128 },
};
/// Queue pairs of their own, and one line before them.
pub(super) const ROUND_ROBIN: Way = Way::own("round-robin");
/// Queue pairs of their own, and nothing before them.
pub(super) const DEDICATED: Way = Way::own("dedicated");
/// Queue pairs of their own, weighed by the server.
pub(super) const WEIGHTED: Way = Way::own("weighted");
/// Queue pairs of their own, paced.
pub(super) const PACED: Way = Way::own("paced");

impl Way {
    const fn own(policy: &'static str) -> Self {
        Self { name: policy, policy, queues: QueueSharing::Dedicated }
    }

    /// Whether tenants have queue pairs of their own.
    pub(super) fn is_own(self) -> bool {
        self.queues == QueueSharing::Dedicated
    }

    /// Settings of this way for `tenants`, each with one queue pair in the file.
    pub(super) fn settings(self, tenants: &[&str]) -> Result<Vec<String>> {
        let queues = toml::Value::try_from(self.queues)?;
        let own = u16::from(self.is_own());
        let server = [format!("server.policy={}", self.policy), format!("server.queues={queues}")];
        let tenants = tenants.iter().map(|tenant| format!("tenant.{tenant}.queue_pairs={own}"));
        Ok(server.into_iter().chain(tenants).collect())
    }
}

/// The policy as these ways for `tenants`.
pub(super) fn vary(ways: &[Way], tenants: &[&str]) -> Result<Vary> {
    let ways = ways.iter().map(|way| Ok((way.name, way.settings(tenants)?)));
    Vary::groups("policy", ways.collect::<Result<Vec<_>>>()?)
}
