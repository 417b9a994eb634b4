//! Controllers that come back as another disk, or with less: no tenant reads another disk's data as its own, and a session that the
//! controller still suffices for goes on.

use super::restarts::{UNDER_LOAD, crash};
use super::*;
use report::ResetScope;

/// Ways to a recovery, 60 ms after the start.
const WAYS: [&str; 3] = ["\"fatal-status\"", "{ all-ones = { for_ns = 300000000 } }", "\"power-loss\""];
/// Another disk of the same model.
const OTHER: &str = "enabling = 2\nserial = \"OTHER\"\nblank = true";

/// Two tenants, the second on namespace `nsid` of two, with a controller that is recovered by `way` and is `later` then.
fn scenario_of(way: &str, controller: &str, later: &str, nsid: u32) -> Scenario {
    let tenant = |name: &str, nsid: u32, first: u32| {
        format!(
            "[[tenant]]\nname = \"{name}\"\nqueue_pairs = 1\ndepth = 8\nnamespace = {nsid}\n\
             extents = [{{ first = {first}, blocks = 8192 }}]\nprogram.name = \"bench\"\n\
             [tenant.program.config]\noperations = 10000\ndepth = 4\n\n"
        )
    };
    let text = format!(
        "name = \"other-disks\"\ndescription = \"A controller that is another one after a reset.\"\n\
         [[controller]]\nname = \"disk\"\niops_limit = 20000\n{controller}\n[[controller.later]]\n{later}\n\
         [[controller.namespace]]\nsize = \"16M\"\nnguid = 1\n[[controller.namespace]]\nsize = \"16M\"\nnguid = 2\n\
         {}{}[[fault]]\ncontroller = {{ at_ns = 60000000, effect = {way} }}\n",
        tenant("alice", 1, 0),
        tenant("bob", nsid, 16384),
    );
    Scenario::parse(&text, "other-disks").unwrap_or_else(|error| panic!("{error}"))
}

fn run_of(way: &str, controller: &str, later: &str, nsid: u32) -> Run {
    let run = run_for(&scenario_of(way, controller, later, nsid), 1, 60_000);
    assert_eq!(run.account.findings, "", "{way}, {later}");
    let is_reset = |report: &Report| matches!(report, Report::Reset { scope: ResetScope::Controller, .. });
    assert!(run.reports.iter().any(is_reset));
    run
}

/// Failures that were reported, with the component.
fn failures(run: &Run) -> Vec<String> {
    let failure = |report: &Report| match report {
        Report::Failure { component, reason } => Some(format!("{component}: {reason}")),
        _ => None,
    };
    run.reports.iter().filter_map(failure).collect()
}

/// Whether the tenant did all its work.
fn finishes(run: &Run, tenant: &str) -> bool {
    run.load(tenant).is_some_and(|load| load.reads + load.writes == 10_000)
}

#[test]
fn another_disk_ends_its_tenants() {
    for way in WAYS {
        let run = run_of(way, "", OTHER, 1);
        let failures = failures(&run);
        assert!(failures[0].starts_with("nvme-server: another disk is in the controller's place"), "{failures:?}");
        for tenant in ["alice", "bob"] {
            let is_told = |one: &&String| one.starts_with(tenant) && one.ends_with("the controller is gone");
            assert!(failures.iter().any(|one| is_told(&one)), "{failures:?}");
            assert!(!finishes(&run, tenant));
        }
    }
}

#[test]
fn another_namespace_ends_its_own_tenant() {
    for way in WAYS {
        for change in ["nguid = 9\nblank = true", "eui64 = 9", "size = \"15M\""] {
            let run = run_of(way, "", &format!("enabling = 2\nnsid = 2\n{change}"), 2);
            let failures = failures(&run);
            assert!(
                failures[0].starts_with("nvme-server: the session of bob ended: another namespace"),
                "{failures:?}"
            );
            assert!(failures.iter().skip(1).all(|failure| failure.starts_with("bob: ")), "{failures:?}");
            assert!(finishes(&run, "alice") && !finishes(&run, "bob"));
        }
    }
}

#[test]
fn namespace_that_changes_without_a_reset_ends_its_own_tenant_and_others_only_if_it_did() {
    let event = "{ event = \"namespace-changed\" }";
    for (change, seed) in [("nguid = 9", 1), ("size = \"15M\"", 1), ("nguid = 9", 2)] {
        let run = run_for(&scenario_of(event, "", &format!("nsid = 2\n{change}"), 2), seed, 60_000);
        assert_eq!(run.account.findings, "");
        assert!(failures(&run)[0].starts_with("nvme-server: the session of bob ended: another namespace"));
        assert!(finishes(&run, "alice") && !finishes(&run, "bob"));
    }
    // It grew, or it is nobody's.
    for (change, nsid) in [("nsid = 2\nsize = \"32M\"", 2), ("nsid = 2\nnguid = 9", 1)] {
        let run = run_for(&scenario_of(event, "", change, nsid), 1, 60_000);
        assert_eq!((run.account.findings.as_str(), failures(&run)), ("", vec![]));
        assert!(!run.reports.iter().any(|report| matches!(report, Report::Reset { .. })));
        assert!(finishes(&run, "alice") && finishes(&run, "bob"));
    }
}

#[test]
fn a_disk_that_is_known_to_change_its_nguid_goes_on() {
    for way in WAYS {
        let run = run_of(way, "quirks = [\"nguid-changes-at-reset\"]", "enabling = 2\nnguid = 9", 2);
        assert_eq!(failures(&run), [""; 0]);
        assert!(finishes(&run, "alice") && finishes(&run, "bob"));
        let run = run_of(way, "quirks = [\"nguid-changes-at-reset\"]", OTHER, 2);
        assert!(!finishes(&run, "alice") && !finishes(&run, "bob"));
    }
}

#[test]
fn less_is_kept_to() {
    for way in WAYS {
        let run = run_of(way, "", "enabling = 2\nmax_transfer = 1\nsize = \"32M\"", 2);
        assert_eq!(failures(&run), [""; 0]);
        assert!(finishes(&run, "alice") && finishes(&run, "bob"));
    }
}

#[test]
fn fewer_queue_pairs_end_those_that_do_not_fit() {
    for way in WAYS {
        let run = run_of(way, "", "enabling = 2\nqueue_pairs = 1", 1);
        let failures = failures(&run);
        assert!(failures[0].starts_with("nvme-server: the session of bob ended: too few queue pairs"), "{failures:?}");
        assert!(failures.iter().skip(1).all(|failure| failure.starts_with("bob: ")), "{failures:?}");
        assert!(finishes(&run, "alice") && !finishes(&run, "bob"));
    }
}

/// The successor of a server knows nothing of the disk that was there. The clients do.
#[test]
fn another_disk_at_a_servers_restart_ends_its_tenants() {
    let mut scenario = scenario_of(WAYS[0], "", OTHER, 1);
    scenario.faults = vec![crash("nvme-server", UNDER_LOAD)];
    let run = run_for(&scenario, 1, 60_000);
    // Requests that the dead server did not answer end in the client, which the checker does not see.
    let others = run.account.findings.lines().filter(|line| !line.contains(" liveness "));
    assert_eq!(others.collect::<Vec<_>>(), [""; 0]);
    assert!(run.reports.iter().any(|report| matches!(report, Report::Restart(_))));
    assert!(!finishes(&run, "alice") && !finishes(&run, "bob"));
}

#[test]
fn a_namespace_that_identify_refuses_is_missing_alone() {
    let refusal = "[[fault]]\ncommand = { queues = \"admin\", opcodes = [6], nsid = 2, effect = { status = { sct = 0, sc = 11 } } }";
    let text = format!(
        "name = \"refused\"\ndescription = \"Namespace 2 cannot be identified.\"\n[[controller]]\nname = \"disk\"\n\
         [[controller.namespace]]\nsize = \"16M\"\n[[controller.namespace]]\nsize = \"16M\"\n\
         [[tenant]]\nname = \"alice\"\nqueue_pairs = 1\nextents = [{{ first = 0, blocks = 8192 }}]\n\
         program.name = \"bench\"\n[tenant.program.config]\noperations = 10000\n\n{refusal}\n"
    );
    let run = run_for(&Scenario::parse(&text, "refused").unwrap(), 1, 60_000);
    assert_eq!(run.account.findings, "");
    assert!(finishes(&run, "alice"));
}
