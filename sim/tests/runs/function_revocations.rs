//! Virtual functions that are taken from their clients while these use them, and given back.

use super::{Run, restarts, run_for, scenario};
use capdl::Scenario;
use capdl::scenario::{Kill, Restart, Workload};
use report::{Changed, Report};

/// The times of the two changes.
const REVOKED_MS: u32 = 400;
const GRANTED_MS: u32 = 550;

/// The scenario in less time, whose components are started again.
fn hurried(killed: Option<(&str, u32)>) -> Scenario {
    let mut scenario = scenario("functions-revoked");
    for (change, after_ms) in scenario.changes.iter_mut().zip([REVOKED_MS, GRANTED_MS]) {
        change.when.after_ms = after_ms;
    }
    for tenant in &mut scenario.tenants {
        let Workload::Bench(bench) = &mut tenant.workload else { panic!("a load") };
        (bench.milliseconds, bench.think_microseconds, bench.depth) = (400, 1000, 2);
        tenant.restart = Some(Restart { times: 3, within_seconds: 60 });
    }
    scenario.kills.extend(killed.map(|(component, after_ms)| Kill::new(component, after_ms)));
    scenario
}

fn forbidden(run: &Run, tenant: &str) -> u64 {
    run.load(tenant).expect("it finished").forbidden
}

#[test]
fn revoked_function_forbids_requests_until_it_is_granted_again() {
    let scenario = hurried(None);
    for seed in 0..3 {
        let run = run_for(&scenario, seed, 4_000);
        assert!(restarts::everybody_passed(&run, &scenario), "seed {seed}: {:?}", run.reports);
        assert_eq!(run.account.findings, "", "seed {seed}");
        let changed = |report: &Report| match report {
            Report::Change(change) => Some((change.tenant.to_string(), change.what)),
            _ => None,
        };
        let blocks = 32768;
        let expected =
            [Changed::Revoked { blocks }, Changed::Granted { blocks }].map(|what| ("frida".to_owned(), what));
        assert_eq!(run.reports.iter().filter_map(changed).collect::<Vec<_>>(), expected, "seed {seed}");
        assert!(forbidden(&run, "frida") > 0);
        assert_eq!((forbidden(&run, "fritz"), forbidden(&run, "alice")), (0, 0), "seed {seed}");
    }
}

#[test]
fn command_of_a_function_that_should_be_revoked_is_found() {
    // The components are configured without the changes that the checkers' scenario has.
    let revoked = scenario("functions-revoked");
    let mut calm = revoked.clone();
    calm.changes.clear();
    let findings = super::run_configured(&calm, &revoked, 1).account.findings;
    assert!(findings.contains("its function's command") && findings.contains("rights were taken before"), "{findings}");
}

#[test]
fn revocation_outlives_every_component_that_takes_part() {
    for component in ["nvme-server", "policy", "pci-server", "frida"] {
        // Before it, while it is revoked, and afterwards.
        for after_ms in [REVOKED_MS - 20, REVOKED_MS + 80, GRANTED_MS + 20] {
            let scenario = hurried(Some((component, after_ms)));
            let run = run_for(&scenario, 1, 8_000);
            let at = format!("{component} dies after {after_ms} ms");
            // A client that is started again may begin after the revocation, or after its end.
            let expected = ["no request was forbidden", "what was forbidden was never done again"];
            let failure = |report: &Report| match report {
                Report::Failure { component, reason }
                    if component != "frida" || !expected.contains(&reason.as_str()) =>
                {
                    Some(format!("{component}: {reason}"))
                }
                _ => None,
            };
            let failures: Vec<_> = run.reports.iter().filter_map(failure).collect();
            let done = run.reports.iter().filter(|report| matches!(report, Report::Done { .. })).count();
            assert_eq!((failures, done), (vec![], scenario.tenants.len()), "{at}");
            assert_eq!(run.account.findings, "", "{at}");
        }
    }
}
