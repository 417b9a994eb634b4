//! The ways of submission that experiments compare (SEEDS V9): the order of requests, and which tenants share queue pairs.

use super::variant::Variant;
use anyhow::Result;
use blk_api::queue_sharing::QueueSharing;
use toml::Value;

/// A way of submission: a scheduling policy, and which tenants share queue pairs.
#[derive(Clone, Copy)]
pub(super) struct Way {
    /// Its name in data and pictures.
    pub(super) name: &'static str,
    /// `[server] policy`.
    policy: &'static str,
    /// `[server] queues`.
    queues: QueueSharing,
}

/// One queue for all tenants, the thesis's starting point.
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

    /// Its name in file names.
    pub(super) fn file_name(self) -> String {
        self.name.replace(' ', "-")
    }

    /// A scenario in which `tenants`, each with one queue pair in the file, use this way.
    pub(super) fn apply(self, variant: Variant, tenants: &[&str]) -> Result<Variant> {
        let variant =
            variant.with("server.policy", self.policy)?.with("server.queues", Value::try_from(self.queues)?)?;
        let own = i64::from(self.is_own());
        tenants.iter().try_fold(variant, |variant, tenant| variant.with(&format!("tenant/{tenant}.queue_pairs"), own))
    }
}
