//! Refusals of changes: each change is judged by what its tenant and the others have at its time.

use super::moment::check_when;
use super::{function, queues, share};
use crate::scenario::file::Lines;
use crate::scenario::refusal::{Checked, refuse};
use crate::scenario::{Change, Path, Scenario, Tenant, What};
use blk_api::extent::{Blocks, Extent};

/// A part of an extent, with a tenant's rights to it at the moment.
#[derive(Clone, Copy)]
struct Part {
    blocks: Extent,
    allowed: bool,
}

/// Checks the changes, which come in the order of their times.
pub(super) fn check(scenario: &Scenario, lines: &Lines) -> Checked {
    let mut holdings: Vec<Vec<Part>> = scenario.tenants.iter().map(parts).collect();
    let mut tenants = scenario.tenants.clone();
    let named = scenario.changes.iter().filter(|change| change.when.at.is_some()).count();
    for (change, line) in scenario.changes.iter().zip(&lines.changes) {
        let Change { when, tenant: name, what } = change;
        let Some(index) = scenario.tenants.iter().position(|tenant| tenant.name == *name) else {
            return refuse(*line, format!("a change names the tenant `{name}`, which is not there: name one that is"));
        };
        check_when(scenario, when, &format!("tenant `{name}` changes"), *line)?;
        if named > 0 && when.at.is_none() {
            return refuse(*line, "some changes wait for moments: name a moment for each change, or for none".into());
        }
        let after_ms = when.after_ms;
        let of_it = scenario.kills.iter().filter(|kill| kill.component == *name && kill.when.at == when.at);
        let death = of_it.map(|kill| kill.when.after_ms).min();
        // Blocks of a dead tenant may still be taken, to be given to another.
        if let Some(death) = death.filter(|death| *death <= after_ms && !matches!(what, What::Revoke(_))) {
            return refuse(
                *line,
                format!(
                    "a change after {after_ms} ms gives something to tenant `{name}`, which is killed after {death} ms: \
                     let it come before"
                ),
            );
        }
        if let Some(tenant) = scenario.tenants.get(index).filter(|tenant| tenant.path == Path::Function) {
            function::check_change(scenario, tenant, what, *line)?;
        }
        let all: Vec<(Extent, bool)> = match what {
            What::Revoke(all) => all.iter().map(|blocks| (extent(*blocks), false)).collect(),
            What::Grant(all) => all.iter().map(|extent| (*extent, true)).collect(),
            What::Entitle(entitlement) => {
                if let Some(tenant) = tenants.get_mut(index) {
                    tenant.entitle(entitlement);
                    share::check(tenant, *line)?;
                    queues::check_change(scenario, tenant, entitlement, *line)?;
                }
                continue;
            }
        };
        if all.is_empty() {
            return refuse(*line, format!("a change for tenant `{name}` names no blocks: add one or more"));
        }
        for (extent, allowed) in all {
            check_one(scenario, &holdings, index, Part { blocks: extent, allowed }, *line)?;
            if let Some(parts) = holdings.get_mut(index) {
                *parts = changed(parts, Part { blocks: extent, allowed });
            }
        }
    }
    Ok(())
}

const fn extent(blocks: Blocks) -> Extent {
    Extent::new(blocks.first, blocks.blocks)
}

fn parts(tenant: &Tenant) -> Vec<Part> {
    tenant.extents.iter().map(|blocks| Part { blocks: *blocks, allowed: true }).collect()
}

fn check_one(scenario: &Scenario, holdings: &[Vec<Part>], index: usize, part: Part, line: usize) -> Checked {
    let Some((tenant, own)) = scenario.tenants.get(index).zip(holdings.get(index)) else { return Ok(()) };
    let (name, Extent { first, blocks, writable }) = (&tenant.name, part.blocks);
    let namespace_blocks = scenario.namespace(tenant).map_or(0, crate::scenario::Namespace::blocks);
    let Some(end) = part.blocks.end().filter(|end| *end > first) else {
        return refuse(
            line,
            format!("a change for tenant `{name}` names {blocks} blocks at block {first}: give it blocks"),
        );
    };
    if end > namespace_blocks {
        return refuse(
            line,
            format!(
                "a change for tenant `{name}` names blocks up to {end} but namespace {} has {namespace_blocks} blocks: \
                 shorten it",
                tenant.namespace
            ),
        );
    }
    let among = |parts: &mut dyn Iterator<Item = &Part>| {
        let common =
            |one: &Part| one.blocks.end().map_or(0, |own| own.min(end)).saturating_sub(one.blocks.first.max(first));
        parts.map(common).sum::<u64>() == blocks
    };
    if !part.allowed {
        if !among(&mut own.iter().filter(|one| one.allowed)) {
            return refuse(
                line,
                format!(
                    "a change takes {blocks} blocks at block {first} from tenant `{name}`, which has not all of them \
                     then: name blocks that it has"
                ),
            );
        }
        return Ok(());
    }
    if !among(&mut own.iter()) {
        return refuse(
            line,
            format!(
                "a change gives {blocks} blocks at block {first} to tenant `{name}`, whose numbering has not all of \
                 them: name blocks of its extents"
            ),
        );
    }
    let writes = tenant.writable && writable;
    for (other, parts) in scenario.tenants.iter().zip(holdings).filter(|(other, _)| other.name != *name) {
        let same = other.controller == tenant.controller && other.namespace == tenant.namespace;
        let meets = |one: &Part| {
            one.allowed && one.blocks.overlaps(part.blocks) && (writes || (other.writable && one.blocks.writable))
        };
        if same && parts.iter().any(meets) {
            return refuse(
                line,
                format!(
                    "a change gives {blocks} blocks at block {first} to tenant `{name}` that overlap an extent of \
                     tenant `{}` then: make both read-only, or take them from `{}` before",
                    other.name, other.name
                ),
            );
        }
    }
    Ok(())
}

/// The parts after `change`, which sets the rights of the blocks that it covers.
fn changed(parts: &[Part], change: Part) -> Vec<Part> {
    let mut changed = Vec::new();
    let (first, end) = (change.blocks.first, change.blocks.first.saturating_add(change.blocks.blocks));
    for part in parts {
        let part_end = part.blocks.first.saturating_add(part.blocks.blocks);
        let inside = (first.clamp(part.blocks.first, part_end), end.clamp(part.blocks.first, part_end));
        let pieces = [(part.blocks.first, inside.0, part), (inside.0, inside.1, &change), (inside.1, part_end, part)];
        for (from, to, Part { blocks, allowed }) in pieces.into_iter().filter(|(from, to, _)| from < to) {
            changed.push(Part { blocks: Extent { first: from, blocks: to - from, ..*blocks }, allowed: *allowed });
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use crate::Scenario;
    use crate::scenario::What;
    use blk_api::config::RateLimit;
    use blk_api::extent::Blocks;

    const SYSTEM: &str = r#"
name = "a"
description = "b"
[[controller]]
name = "disk"
[[controller.namespace]]
size = "1M"
[[tenant]]
name = "alice"
queue_pairs = 1
extents = [{ first = 0, blocks = 64 }, { first = 128, blocks = 64, writable = false }]
program.name = "bench"
[tenant.program.config]
read_percent = 100
verify = false
[[tenant]]
name = "bob"
queue_pairs = 1
writable = false
extents = [{ first = 128, blocks = 128 }]
program.name = "bench"
[tenant.program.config]
read_percent = 100
verify = false
"#;

    fn parsed(changes: &[&str]) -> Result<Scenario, String> {
        let changes: String = changes.iter().map(|change| format!("[[change]]\n{change}\n")).collect();
        Scenario::parse(&format!("{SYSTEM}{changes}"), "file").map_err(|error| error.to_string())
    }

    #[test]
    fn changes_are_read_in_the_order_of_their_times() {
        let scenario = parsed(&[
            "after_ms = 700\ntenant = \"alice\"\ngrant = [{ first = 8, blocks = 8 }]",
            "after_ms = 300\ntenant = \"alice\"\nrevoke = [{ first = 0, blocks = 32 }]",
        ]);
        let changes = scenario.unwrap().changes;
        assert_eq!((changes[0].when.after_ms, changes[1].when.after_ms), (300, 700));
        assert_eq!(changes[0].what, What::Revoke(vec![Blocks { first: 0, blocks: 32 }]));
    }

    #[test]
    fn what_somebody_lost_may_become_anothers_to_write() {
        let take = "after_ms = 1\ntenant = \"bob\"\nrevoke = [{ first = 128, blocks = 64 }]";
        let give = "after_ms = 2\ntenant = \"alice\"\ngrant = [{ first = 128, blocks = 64 }]";
        assert!(parsed(&[take, give]).is_ok());
        let alone = parsed(&[give]).unwrap_err();
        assert!(alone.contains("overlap an extent of tenant `bob` then: make both read-only, or take"), "{alone}");
        // Bob does not get them back while alice may write them.
        let back = "after_ms = 3\ntenant = \"bob\"\ngrant = [{ first = 128, blocks = 1, writable = false }]";
        assert!(parsed(&[take, give, back]).unwrap_err().contains("overlap an extent of tenant `alice`"));
    }

    #[test]
    fn a_limit_can_be_taken_away_and_the_rest_of_the_share_stays() {
        let set = "after_ms = 1\ntenant = \"alice\"\niops = { per_second = 5, burst = 1 }\n\
                   bandwidth = { per_second = \"1M\", burst = \"64K\" }";
        let scenario = parsed(&[set, "after_ms = 2\ntenant = \"alice\"\niops = \"none\""]).unwrap();
        let mut alice = scenario.tenants[0].clone();
        for change in &scenario.changes {
            let What::Entitle(entitlement) = &change.what else { panic!("{change:?}") };
            alice.entitle(entitlement);
        }
        let bandwidth = Some(RateLimit { per_second: 1 << 20, burst: 1 << 16 });
        assert_eq!((alice.iops, alice.bandwidth, alice.weight), (None, bandwidth, 1));
        let refusal = parsed(&["after_ms = 1\ntenant = \"alice\"\nbandwidth = \"all\""]).unwrap_err();
        assert!(refusal.contains("burst = 10 }, or \"none\""), "{refusal}");
    }

    #[test]
    fn tenants_that_share_queue_pairs_keep_them() {
        for change in ["depth = 4", "queue_pairs = 1"] {
            let text = SYSTEM.replace("queue_pairs = 1\n", "");
            let shared = "[server]\nqueues = { shared = { queue_pairs = 1, depth = 8 } }\n";
            let change = format!("[[change]]\nafter_ms = 5\ntenant = \"bob\"\n{change}\n");
            let refusal = Scenario::parse(&format!("{text}{change}{shared}"), "file").unwrap_err().to_string();
            assert!(
                refusal.contains("tenant `bob` shares its queue pairs: take `queue_pairs` and `depth` out"),
                "{refusal}"
            );
        }
    }

    #[test]
    fn room_is_there_for_the_most_that_a_tenant_ever_has() {
        let change = |after_ms, keys: &str| format!("after_ms = {after_ms}\ntenant = \"alice\"\n{keys}");
        let changes = [change(1, "queue_pairs = 3"), change(2, "queue_pairs = 2\ndepth = 100"), change(3, "depth = 7")];
        let scenario = parsed(&changes.each_ref().map(String::as_str)).unwrap();
        assert_eq!(scenario.most_queues(&scenario.tenants[0]), (3, 100));
        assert_eq!(scenario.queue_pairs("disk"), 4);
    }

    #[test]
    fn impossible_changes_are_refused_with_the_line_of_the_last() {
        let lower = "after_ms = 1\ntenant = \"alice\"\nclass = \"low\"";
        let back = "after_ms = 2\ntenant = \"alice\"\nclass = \"medium\"";
        assert!(parsed(&[lower, back]).is_ok(), "what it had first it may have again");
        let killed = "after_ms = 1\ntenant = \"bob\"\nrevoke = [{ first = 128, blocks = 64 }]\n\
                      [[kill]]\ncomponent = \"alice\"\nafter_ms = 2";
        let taken = "after_ms = 9\ntenant = \"alice\"\nrevoke = [{ first = 0, blocks = 8 }]";
        assert!(parsed(&[killed, taken]).is_ok(), "from the dead it may be taken");
        for (first, second, expected) in [
            (lower, "class = \"high\"", "class `high` above its highest_class `medium`"),
            (lower, "weight = 0", "has weight 0: give it 1 to 65535"),
            (lower, "bandwidth = { per_second = \"1M\", burst = 512 }", "give both at least 4096"),
            (killed, "grant = [{ first = 128, blocks = 8 }]", "which is killed after 2 ms: let it come before"),
            (killed, "weight = 3", "which is killed after 2 ms: let it come before"),
        ] {
            let refusal = parsed(&[first, &format!("after_ms = 2\ntenant = \"alice\"\n{second}")]).unwrap_err();
            let line = 25 + 1 + first.lines().count();
            assert!(refusal.starts_with(&format!("file:{line}: ")) && refusal.contains(expected), "{refusal}");
        }
        let nobody = parsed(&[lower, "after_ms = 2\ntenant = \"carol\"\nweight = 2"]).unwrap_err();
        assert!(nobody.starts_with("file:29: ") && nobody.contains("`carol`, which is not there"), "{nobody}");
    }

    #[test]
    fn impossible_change_is_refused_with_line_and_fix() {
        for (change, expected) in [
            ("tenant = \"carol\"\nrevoke = [{ first = 0, blocks = 1 }]", "`carol`, which is not there"),
            ("tenant = \"alice\"", "says nothing: write `revoke`, `grant`, or"),
            (
                "tenant = \"alice\"\nrevoke = [{ first = 0, blocks = 1 }]\ngrant = [{ first = 0, blocks = 1 }]",
                "says two things: write `revoke`, `grant`, or",
            ),
            ("tenant = \"alice\"\nweight = 0", "tenant `alice` has weight 0: give it 1 to 65535"),
            ("tenant = \"alice\"\nclass = \"high\"", "class `high` above its highest_class `medium`"),
            (
                "tenant = \"alice\"\niops = { per_second = 5, burst = 0 }",
                "iops of 5 per_second and a burst of 0, under which no request passes",
            ),
            ("tenant = \"alice\"\nweight = 2\nrevoke = []", "says two things"),
            ("tenant = \"alice\"\nqueue_pairs = 0", "tenant `alice` has no queue pairs: give it `queue_pairs = 1`"),
            ("tenant = \"alice\"\ndepth = 0", "tenant `alice` has depth 0: give it 1 to 1024"),
            ("tenant = \"alice\"\ndepth = 1025", "tenant `alice` has depth 1025: give it 1 to 1024"),
            (
                "tenant = \"alice\"\nqueue_pairs = 64",
                "a change gives tenant `alice` 64 queue pairs but controller `disk` has 64 for all: give it fewer",
            ),
            ("tenant = \"alice\"\nrevoke = []", "names no blocks: add one"),
            ("tenant = \"alice\"\nrevoke = [{ first = 3, blocks = 0 }]", "0 blocks at block 3: give it blocks"),
            (
                "tenant = \"alice\"\nrevoke = [{ first = 1, blocks = 18446744073709551615 }]",
                "18446744073709551615 blocks at block 1: give it blocks",
            ),
            ("tenant = \"alice\"\nrevoke = [{ first = 2040, blocks = 9 }]", "up to 2049 but namespace 1 has 2048"),
            ("tenant = \"alice\"\nrevoke = [{ first = 60, blocks = 5 }]", "5 blocks at block 60 from tenant `alice`"),
            ("tenant = \"alice\"\ngrant = [{ first = 64, blocks = 1 }]", "to tenant `alice`, whose numbering has not"),
        ] {
            let refusal = parsed(&[&format!("after_ms = 5\n{change}")]).unwrap_err();
            assert!(refusal.starts_with("file:25: ") && refusal.contains(expected), "{refusal}");
        }
        let early = parsed(&["after_ms = 0\ntenant = \"alice\"\nrevoke = [{ first = 0, blocks = 1 }]"]);
        assert!(early.unwrap_err().contains("write at least 1"));
        let twice = "after_ms = 4\ntenant = \"alice\"\nrevoke = [{ first = 0, blocks = 1 }]";
        assert!(parsed(&[twice, twice]).unwrap_err().contains("has not all of them then"));
    }
}
