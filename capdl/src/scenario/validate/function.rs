//! Refusals about tenants that drive a virtual function themselves.

use super::queues::check_size;
use crate::scenario::refusal::{Checked, refuse};
use crate::scenario::{Controller, FUNCTION_QUEUES, Namespace, Path, Scenario, Tenant, What};
use blk_api::config::Completion;
use blk_api::extent::Extent;

/// I/O queue pairs of a function, beside the admin queue pair.
pub(crate) const QUEUE_PAIRS: u16 = FUNCTION_QUEUES - 1;

/// Checks what a tenant with a function asks for.
pub(super) fn check(scenario: &Scenario, tenant: &Tenant, controller: &Controller, line: usize) -> Checked {
    let name = &tenant.name;
    let refuse = |what: String| refuse(line, format!("tenant `{name}` drives a function of its own, {what}"));
    // A defect that tenants share is refused at the first of them.
    let earlier = || {
        let before = scenario.tenants.iter().take_while(|other| other.name != *name);
        before.filter(|other| other.path == Path::Function)
    };
    let names: Vec<_> = scenario.functions(&controller.name).map(|other| format!("`{}`", other.name)).collect();
    let functions = names.len();
    if functions > usize::from(controller.virtual_functions)
        && !earlier().any(|other| other.controller == tenant.controller)
    {
        return refuse(format!(
            "and `{}` has {} for {functions} such tenants ({}): write `virtual_functions = {functions}` there",
            controller.name,
            controller.virtual_functions,
            names.join(", ")
        ));
    }
    if !scenario.machine.iommu && earlier().next().is_none() {
        return refuse("which reaches all memory where [machine] iommu is false: leave one out".into());
    }
    let shares = |other: &&Tenant| {
        other.name != *name && other.controller == tenant.controller && other.namespace == tenant.namespace
    };
    if let Some(other) = scenario.tenants.iter().find(shares).filter(|_| !earlier().any(|other| shares(&other))) {
        return refuse(format!(
            "and tenant `{}` is on the same namespace {}: give each one of its own",
            other.name, tenant.namespace
        ));
    }
    let whole = scenario.namespace(tenant).map(|namespace| Extent::new(0, namespace.blocks()));
    if tenant.extents.iter().copied().ne(whole) {
        return refuse("with all blocks of its namespace: take its extents away".into());
    }
    if tenant.namespace == 1 {
        return refuse("and namespace 1 belongs to the physical function: name another".into());
    }
    if tenant.queue_pairs != QUEUE_PAIRS {
        return refuse(format!("which has {QUEUE_PAIRS} queue pair: write `queue_pairs = {QUEUE_PAIRS}`"));
    }
    for (key, is_set) in [
        ("iops", tenant.iops.is_some()),
        ("bandwidth", tenant.bandwidth.is_some()),
        ("writable = false", !tenant.writable),
        ("core", tenant.core.is_some()),
    ] {
        if is_set {
            return refuse(format!("for which no server can keep `{key}`: take it away"));
        }
    }
    if tenant.completion == Completion::Hybrid {
        return refuse("which polls or has interrupts: write `completion = \"polled\"` or `\"interrupt\"`".into());
    }
    check_size(tenant, line)
}

/// Checks a change for a tenant with a function, which has all blocks of its namespace or none.
pub(super) fn check_change(scenario: &Scenario, tenant: &Tenant, change: &What, line: usize) -> Checked {
    let blocks = scenario.namespace(tenant).map_or(0, Namespace::blocks);
    let is_whole = |first: u64, number: u64| first == 0 && number == blocks;
    let (revokes, is_possible) = match change {
        What::Revoke(all) => (true, matches!(all[..], [part] if is_whole(part.first, part.blocks))),
        What::Grant(all) => (false, matches!(all[..], [part] if is_whole(part.first, part.blocks) && part.writable)),
        What::Entitle(_) => {
            let name = &tenant.name;
            return refuse(
                line,
                format!("a change of the share of `{name}`, whose function no server serves: take it away"),
            );
        }
    };
    if is_possible {
        return Ok(());
    }
    let key = if revokes { "revoke" } else { "grant" };
    refuse(
        line,
        format!(
            "a change for tenant `{}`, which has its function or nothing: write `{key} = [{{ first = 0, blocks = {blocks} }}]`",
            tenant.name
        ),
    )
}

#[cfg(test)]
mod tests {
    use crate::scenario::{Path, Scenario};

    fn parsed(controller: &str, tenant: &str) -> Result<Scenario, String> {
        parsed_with(controller, tenant, "program.name = \"bench\"\n")
    }

    fn parsed_with(controller: &str, tenant: &str, program: &str) -> Result<Scenario, String> {
        let text = format!(
            "name = \"a\"\ndescription = \"b\"\n[[controller]]\nname = \"disk\"\n{controller}\n\
             [[controller.namespace]]\nsize = \"1M\"\n[[controller.namespace]]\nsize = \"2M\"\n\
             [[tenant]]\nname = \"alice\"\nqueue_pairs = 1\npath = \"function\"\n{tenant}\n\
             {program}"
        );
        Scenario::parse(&text, "file").map_err(|error| error.to_string())
    }

    #[test]
    fn a_function_has_all_blocks_of_its_namespace() {
        let scenario = parsed("virtual_functions = 1", "namespace = 2").unwrap();
        let [alice] = scenario.tenants.as_slice() else { panic!() };
        assert_eq!((alice.path, alice.blocks()), (Path::Function, 4096));
        assert_eq!(scenario.functions("disk").count(), 1);
        assert_eq!((scenario.sessions("disk").count(), scenario.queue_pairs("disk")), (0, 0));
    }

    #[test]
    fn a_function_is_lost_with_its_controller() {
        let mut scenario = parsed("virtual_functions = 1", "namespace = 2").unwrap();
        assert!(!scenario.is_of_lost("alice"));
        scenario.expect.lost = vec!["disk".into()];
        assert!(scenario.is_of_lost("alice"));
    }

    #[test]
    fn an_attacker_with_a_function_has_no_attack_on_rings() {
        let hostile = |last: &str| {
            let program = format!("program.name = \"hostile\"\n[tenant.program.config]\nlast = \"{last}\"\n");
            parsed_with("virtual_functions = 1", "namespace = 2", &program)
        };
        assert!(hostile("foreign-registers").is_ok());
        assert!(hostile("tail-backwards").unwrap_err().contains("its last attack is one on rings: name another"));
    }

    /// A tenant with a change of these keys, before another one.
    fn changed(keys: &str) -> String {
        format!(
            "namespace = 2\nprogram.name = \"bench\"\n[[change]]\nafter_ms = 5\ntenant = \"alice\"\n{keys}\n\
             [[tenant]]\nname = \"bob\"\nqueue_pairs = 1\nextents = [{{ first = 0, blocks = 8 }}]"
        )
    }

    #[test]
    fn a_function_can_be_revoked_and_granted_again() {
        let whole = "revoke = [{ first = 0, blocks = 4096 }]\n[[change]]\nafter_ms = 9\ntenant = \"alice\"\n\
                     grant = [{ first = 0, blocks = 4096 }]";
        assert_eq!(parsed("virtual_functions = 1", &changed(whole)).map(|scenario| scenario.changes.len()), Ok(2));
    }

    #[test]
    fn a_function_has_one_queue_pair() {
        let text = |queue_pairs: u16| {
            format!(
                "name = \"a\"\ndescription = \"b\"\n[[controller]]\nname = \"disk\"\nvirtual_functions = 1\n\
                 [[controller.namespace]]\nsize = \"1M\"\n[[controller.namespace]]\nsize = \"2M\"\n[[tenant]]\n\
                 name = \"alice\"\nqueue_pairs = {queue_pairs}\npath = \"function\"\nnamespace = 2\n\
                 program.name = \"bench\"\n"
            )
        };
        assert!(Scenario::parse(&text(1), "file").is_ok());
        for queue_pairs in [0, 2, u16::MAX] {
            let refusal = Scenario::parse(&text(queue_pairs), "file").unwrap_err().to_string();
            assert!(refusal.starts_with("file:10: ") && refusal.ends_with("write `queue_pairs = 1`"), "{refusal}");
        }
    }

    #[test]
    fn defect_that_tenants_share_is_refused_at_the_first() {
        let two = |namespace: u32, more: &str| {
            format!(
                "namespace = 2\nprogram.name = \"bench\"\nprogram.config.operations = 1\n[[tenant]]\nname = \"bob\"\n\
                 queue_pairs = 1\npath = \"function\"\nnamespace = {namespace}\nprogram.name = \"bench\"\n{more}"
            )
        };
        let own = "[[controller.namespace]]\nsize = \"1M\"";
        for (controller, tenant, expected) in [
            (
                format!("virtual_functions = 1\n{own}"),
                two(3, ""),
                "`disk` has 1 for 2 such tenants (`alice`, `bob`): write",
            ),
            (format!("virtual_functions = 2\n{own}"), two(3, "[machine]\niommu = false"), "[machine] iommu is false"),
            ("virtual_functions = 2".into(), two(2, ""), "and tenant `bob` is on the same namespace 2: give each"),
        ] {
            let refusal = parsed_with(&controller, &tenant, "").unwrap_err();
            assert!(refusal.contains("tenant `alice` drives a function") && refusal.contains(expected), "{refusal}");
            assert_eq!(refusal.lines().count(), 1, "{refusal}");
        }
    }

    #[test]
    fn impossible_function_is_refused_with_line_and_fix() {
        let good = ("virtual_functions = 1", "namespace = 2");
        for (controller, tenant, expected) in [
            ("", good.1, "and `disk` has 0 for 1 such tenants (`alice`): write `virtual_functions = 1` there"),
            (good.0, "", "namespace 1 belongs to the physical function: name another"),
            (good.0, "namespace = 2\nextents = [{ first = 0, blocks = 8 }]", "take its extents away"),
            (good.0, "namespace = 2\nwritable = false", "no server can keep `writable = false`: take it away"),
            (
                "virtual_functions = 2",
                "namespace = 2\ncopies = 2",
                "is on the same namespace 2: give each one of its own",
            ),
            (good.0, "namespace = 2\ncompletion = \"hybrid\"", "write `completion = \"polled\"`"),
            (
                good.0,
                "namespace = 2\ncompletion = \"polled\"\nprogram.config.completion = \"interrupt\"",
                "awaits interrupts of a function that is polled and has none: write `completion = \"interrupt\"`",
            ),
            (
                good.0,
                &changed("revoke = [{ first = 0, blocks = 8 }]"),
                "write `revoke = [{ first = 0, blocks = 4096 }]`",
            ),
            (good.0, &changed("grant = []"), "write `grant = [{ first = 0, blocks = 4096 }]`"),
            (
                good.0,
                &changed("grant = [{ first = 0, blocks = 4096, writable = false }]"),
                "write `grant = [{ first = 0, blocks = 4096 }]`",
            ),
            (good.0, &changed("weight = 2"), "whose function no server serves: take it away"),
            (good.0, "namespace = 3", "names namespace 3 but `disk` has 1 to 2"),
            (
                good.0,
                "namespace = 2\ncontroller = \"dsik\"",
                "names the controller `dsik`, which is not there: name one of disk",
            ),
            (good.0, "namespace = 2\niops = { per_second = 9, burst = 9 }", "no server can keep `iops`: take it away"),
            (good.0, "namespace = 2\ncore = 0", "no server can keep `core`: take it away"),
            (good.0, "namespace = 2\ndepth = 1025", "has depth 1025: give it 1 to 1024"),
        ] {
            let refusal = parsed(controller, tenant).unwrap_err();
            assert!(refusal.starts_with("file:") && refusal.contains(expected), "{refusal}");
        }
    }
}
