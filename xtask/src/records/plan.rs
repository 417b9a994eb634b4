//! Parts of a scenario that reports show beside the results of its run: limits of controllers, and changes of tenants in words.

use crate::reports::count::count;
use blk_api::config::{Class, Interrupts, RateLimit};
use capdl::Scenario;
use capdl::scenario::{Controller, Entitlement, Tenant, What, Workload};
use report::Changed;
use std::collections::BTreeMap;

/// Limits and changes that a scenario declares.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Plan {
    /// The limited controllers without virtual functions, by the server of each.
    pub limits: BTreeMap<String, Limit>,
    /// Loads that rest, by tenant, with the most of the time in which each has requests in flight, percent.
    pub(crate) resting: BTreeMap<String, u8>,
    /// Interrupt modes of controllers, the initial one first, by the policy component beside the server of each.
    modes: BTreeMap<String, Vec<Interrupts>>,
    /// The changes of each tenant, in the order of their times.
    changes: BTreeMap<String, Vec<Planned>>,
}

/// Limit of a controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Limit {
    /// The controller.
    pub controller: String,
    /// Most 4 KiB units a second.
    pub per_second: u32,
}

/// A change that a scenario declares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Planned {
    /// Values before and after the change, or the blocks.
    pub words: String,
    /// New class, if it is another one.
    pub class: Option<Class>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Revoke,
    Grant,
    Entitle,
}

impl Plan {
    /// The plan of a scenario.
    pub(crate) fn of(scenario: &Scenario) -> Self {
        // In the simulator each virtual function has the limit of its own.
        let is_limited = |one: &&Controller| one.iops_limit > 0 && one.virtual_functions == 0;
        let limited = scenario.controllers.iter().filter(is_limited);
        let limit = |controller: &Controller| {
            let limit = Limit { controller: controller.name.clone(), per_second: controller.iops_limit };
            (scenario.server_name(&controller.name), limit)
        };
        let modes = |one: &Controller| (scenario.policy_name(&one.name), one.ways().collect());
        let modes = scenario.controllers.iter().map(modes).collect();
        let resting = scenario.tenants.iter().filter_map(|tenant| match &tenant.workload {
            Workload::Bench(bench) if bench.busy_percent > 0 => Some((tenant.name.clone(), bench.busy_percent)),
            _ => None,
        });
        let (limits, resting) = (limited.map(limit).collect(), resting.collect());
        let mut plan = Self { limits, resting, modes, changes: BTreeMap::new() };
        for tenant in &scenario.tenants {
            let mut now = tenant.clone();
            let own = scenario.changes.iter().filter(|change| change.tenant == tenant.name);
            let planned = own.map(|change| Planned::of(&mut now, &change.what)).collect();
            plan.changes.insert(tenant.name.clone(), planned);
        }
        plan
    }

    /// The interrupt mode before the change `number`, counted from 1, that a policy component ordered.
    pub(crate) fn mode_before(&self, policy: &str, number: u16) -> Option<&'static str> {
        let before = usize::from(number).checked_sub(1)?;
        self.modes.get(policy)?.get(before).map(|mode| mode.name())
    }

    /// The change of `tenant` after `earlier` others, if it is of the reported kind.
    pub(crate) fn change(&self, tenant: &str, earlier: usize, reported: Changed) -> Option<&Planned> {
        let kind = match reported {
            Changed::Revoked { .. } => Kind::Revoke,
            Changed::Granted { .. } => Kind::Grant,
            Changed::Entitled => Kind::Entitle,
        };
        self.changes.get(tenant)?.get(earlier).filter(|planned| planned.kind == kind)
    }
}

impl Planned {
    /// The change of a tenant that has the share `now`, which it replaces.
    fn of(now: &mut Tenant, what: &What) -> Self {
        match what {
            What::Revoke(all) => {
                let words = all.iter().map(|blocks| range(blocks.first, blocks.blocks));
                Self { words: joined(words), class: None, kind: Kind::Revoke }
            }
            What::Grant(all) => {
                let rights = |writable| if writable { "" } else { " (read-only)" };
                let words = all.iter().map(|one| range(one.first, one.blocks) + rights(one.writable));
                Self { words: joined(words), class: None, kind: Kind::Grant }
            }
            What::Entitle(to) => {
                let before = now.clone();
                now.entitle(to);
                let class = (now.class != before.class).then_some(now.class);
                Self { words: differences(&before, now, to), class, kind: Kind::Entitle }
            }
        }
    }
}

fn joined(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

fn range(first: u64, blocks: u64) -> String {
    let blocks = count(blocks, "block");
    format!("{blocks} from {first}")
}

/// The named parts of a share, each as it was and as it is.
fn differences(before: &Tenant, after: &Tenant, named: &Entitlement) -> String {
    let Entitlement { class, weight, iops, bandwidth, queue_pairs, depth } = named;
    let limit = |limit: Option<RateLimit>| limit.map_or_else(|| "none".into(), |limit| limit.per_second.to_string());
    let number = |before: u16, after: u16| (before.to_string(), after.to_string());
    let parts = [
        class.map(|_| ("class", (before.class.name().into(), after.class.name().into()))),
        weight.map(|_| ("weight", number(before.weight, after.weight))),
        iops.map(|_| ("IOPS limit", (limit(before.iops), limit(after.iops)))),
        bandwidth.map(|_| ("bytes/s limit", (limit(before.bandwidth), limit(after.bandwidth)))),
        queue_pairs.map(|_| ("queue pairs", number(before.queue_pairs, after.queue_pairs))),
        depth.map(|_| ("depth", number(before.depth, after.depth))),
    ];
    joined(parts.into_iter().flatten().map(|(name, (before, after))| format!("{name} {before} -> {after}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = r#"
name = "t"
description = "t"
[server]
policy = "weighted"
[[controller]]
name = "disk"
iops_limit = 4000
[[controller.namespace]]
size = "64M"
[[tenant]]
name = "a"
class = "high"
queue_pairs = 1
extents = [{ first = 0, blocks = 1024 }]
program.name = "bench"
[[change]]
after_ms = 100
tenant = "a"
class = "low"
weight = 2
iops = { per_second = 1000, burst = 10 }
[[change]]
after_ms = 200
tenant = "a"
revoke = [{ first = 8, blocks = 16 }, { first = 64, blocks = 1 }]
[[change]]
after_ms = 300
tenant = "a"
grant = [{ first = 8, blocks = 16, writable = false }]
[[change]]
after_ms = 400
tenant = "a"
class = "medium"
iops = "none"
"#;

    #[test]
    fn changes_say_what_was_and_what_is() {
        let plan = Plan::of(&Scenario::parse(SCENARIO, "t").unwrap());
        let of = |earlier, reported| plan.change("a", earlier, reported).map(|one| (one.words.as_str(), one.class));
        let (revoked, granted) = (Changed::Revoked { blocks: 17 }, Changed::Granted { blocks: 16 });
        let first = "class high -> low, weight 1 -> 2, IOPS limit none -> 1000";
        assert_eq!(of(0, Changed::Entitled), Some((first, Some(Class::Low))));
        assert_eq!(of(1, revoked), Some(("16 blocks from 8, 1 block from 64", None)));
        assert_eq!(of(2, granted), Some(("16 blocks from 8 (read-only)", None)));
        let last = "class low -> medium, IOPS limit 1000 -> none";
        assert_eq!(of(3, Changed::Entitled), Some((last, Some(Class::Medium))));
        assert_eq!((of(0, revoked), of(4, Changed::Entitled)), (None, None), "another kind, and one too many");
        let limit = Limit { controller: "disk".into(), per_second: 4000 };
        assert_eq!(plan.limits.into_values().collect::<Vec<_>>(), [limit]);
    }
}
