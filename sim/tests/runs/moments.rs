//! Events that wait for moments, and loads that leave time to others.

use super::{Run, run_with};
use capdl::Scenario;
use report::{FaultKind, Report};

fn parsed(alice: &str, bob: &str, rest: &str) -> Scenario {
    let tenant = |name: &str, first: u32, keys: &str| {
        format!(
            "[[tenant]]\nname = \"{name}\"\nqueue_pairs = 1\ndepth = 8\nextents = [{{ first = {first}, blocks = 1024 }}]\n\
             {keys}\n"
        )
    };
    let text = format!(
        "name = \"moments\"\ndescription = \"Events that wait for moments.\"\n[[controller]]\nname = \"disk\"\n\
         iops_limit = 50000\n[[controller.namespace]]\nsize = \"16M\"\n{}{}{rest}",
        tenant("alice", 0, alice),
        tenant("bob", 1024, bob)
    );
    Scenario::parse(&text, "moments").unwrap()
}

const LOAD: &str = "program.name = \"bench\"\n[tenant.program.config]\noperations = 0\n";

fn load(keys: &str, config: &str) -> String {
    format!("{keys}\n{LOAD}{config}")
}

fn was_killed(run: &Run, tenant: &str) -> bool {
    let of_it = |report: &Report| match report {
        Report::Fault(fault) => fault.name == tenant && fault.kind == FaultKind::Killed,
        _ => false,
    };
    run.reports.iter().any(of_it)
}

#[test]
fn kill_comes_after_the_work_that_it_waits_for_and_ends_the_others_load() {
    let rest = "[[moment]]\nname = \"both-are-ready\"\nwhen = { alice = { ready = 1 }, bob = { ready = 1 } }\n\
        [[moment]]\nname = \"bob-has-written\"\nwhen = { bob = { written = 500 } }\n\
        [[moment]]\nname = \"bob-is-dead\"\nwhen = { bob = { deaths = 1 } }\nafter_ms = 30\n\
        [[kill]]\ncomponent = \"bob\"\nat = \"bob-has-written\"\n[expect]\nfaults = [\"bob\"]\n";
    let alice = load("begins = \"both-are-ready\"\nends = \"bob-is-dead\"", "read_percent = 50");
    // It is much later than alice.
    let bob = load("begins = \"both-are-ready\"", "read_percent = 0\nmilliseconds = 60000\ndelay_milliseconds = 400");
    let run = super::run_for(&parsed(&alice, &bob, rest), 1, 5_000);
    let load = run.load("alice").expect("its load has ended");
    assert!(was_killed(&run, "bob"));
    // Bob writes for some ten milliseconds, up to the supervisor's tick; alice would otherwise have had the time of its delay.
    assert!((30_000_000..200_000_000).contains(&load.elapsed_ns), "{} ns", load.elapsed_ns);
    assert_eq!(run.account.findings, "");
}

#[test]
fn kill_whose_moment_never_comes_does_not_happen() {
    let rest = "[[moment]]\nname = \"never\"\nwhen = { bob = { forbidden = 1 } }\n\
        [[kill]]\ncomponent = \"bob\"\nat = \"never\"\n";
    let run = run_with(&parsed(&load("", "milliseconds = 60"), &load("", "milliseconds = 60"), rest), 1, &[]);
    assert!(run.load("bob").is_some() && !was_killed(&run, "bob"));
}

#[test]
fn change_before_the_first_tick_comes_when_asked_for() {
    let rest = "[[change]]\nafter_ms = 5\ntenant = \"bob\"\nweight = 2\n";
    let run = run_with(&parsed(&load("", "milliseconds = 60"), &load("", "milliseconds = 60"), rest), 1, &[]);
    let at = run.reports.iter().find_map(|report| match report {
        Report::Change(change) => Some(change.at_ns),
        _ => None,
    });
    let began = run.reports.iter().find_map(|report| match report {
        Report::Machine(machine) => Some(machine.started_at_ns),
        _ => None,
    });
    let after_ns = at.expect("a change") - began.expect("a machine");
    assert!((5_000_000..6_000_000).contains(&after_ns), "{after_ns} ns");
}

#[test]
fn load_that_leaves_time_is_busy_for_its_part() {
    let reads = |busy_percent: u8| {
        let config = format!("milliseconds = 1000\nread_percent = 100\ndepth = 1\nbusy_percent = {busy_percent}");
        let run = run_with(&parsed(&load("", &config), &load("", "milliseconds = 50"), ""), 1, &[]);
        assert_eq!(run.account.findings, "");
        run.load("alice").expect("its load").reads
    };
    // The blocks that it writes before, for some 20 ms, are no part of it.
    let (all, quarter, hundredth) = (reads(0), reads(25), reads(1));
    assert!(quarter.abs_diff(all / 4) < all / 100, "{quarter} of {all}");
    assert!(hundredth.abs_diff(all / 100) < all / 500, "{hundredth} of {all}");
}
