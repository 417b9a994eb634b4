//! Verdicts over made-up reports.

use super::*;
use crate::judges::causes::first_ns;
use capdl::scenario::HotPlug;
use report::{Attack, Refused, Report, Restart, Session, clip};
use std::time::Duration;

fn scenario(expect: &str) -> Scenario {
    let text = format!(
        "name = \"t\"\ndescription = \"t\"\n[[controller]]\nname = \"a\"\n[[controller.namespace]]\nsize = \"64M\"\n\
         [[tenant]]\nname = \"w\"\nqueue_pairs = 1\nextents = [{{ first = 0, blocks = 1024 }}]\nprogram.name = \"bench\"\n[tenant.program.config]\n\
         [expect]\n{expect}\n"
    );
    Scenario::parse(&text, "t.toml").unwrap()
}

#[test]
fn who_loses_its_controller_may_fail_and_must_end() {
    let lost = scenario("lost = [\"a\"]");
    let unreported = "a was not lost: nvme-server reported no failure";
    assert_eq!(reasons(&lost, &results(vec![])), ["w has not finished", unreported]);
    let failure =
        |name: &str| Report::Failure { component: clip(name), reason: clip("the controller cannot be brought up") };
    let reset = Report::Reset {
        server: clip("nvme-server"),
        scope: ResetScope::Controller,
        reason: clip("registers are not there"),
    };
    let all = vec![reset, failure("nvme-server"), failure("w"), done(false)];
    assert_eq!(reasons(&lost, &results(all.clone())), [""; 0]);
    assert_eq!(reasons(&scenario(""), &results(all)).len(), 4);
    assert_eq!(reasons(&lost, &results(vec![failure("pci-server"), done(true)])).len(), 2);
}

#[test]
fn controller_that_is_to_be_lost_must_be_reported_as_lost() {
    let failure = |name: &str| Report::Failure { component: clip(name), reason: clip("it is gone") };
    let seen = |reports: Vec<Report>| reasons(&scenario("lost = [\"a\"]"), &results(reports));
    let unreported = ["a was not lost: nvme-server reported no failure"];
    assert_eq!(seen(vec![done(true)]), unreported);
    assert_eq!(seen(vec![failure("w"), done(false)]), unreported, "its tenant may fail for another reason");
    for name in ["nvme-server", "policy"] {
        assert_eq!(seen(vec![failure(name), done(false)]), [""; 0], "{name}");
    }
    let drawn = scenario("lost = [\"a\"]\nfaults_may_miss = true");
    assert_eq!(reasons(&drawn, &results(vec![done(true)])), [""; 0]);
}

#[test]
fn expected_recreation_is_required_and_allowed() {
    let reset = |scope| Report::Reset { server: clip("nvme-server"), scope, reason: clip("no answer") };
    let must = scenario("must_reset = [\"queue-pair\"]");
    assert_eq!(reasons(&must, &results(vec![done(true)])), ["no server had to recreate a queue pair"]);
    let other = results(vec![reset(ResetScope::Controller), done(true)]);
    assert_eq!(reasons(&must, &other), ["no server had to recreate a queue pair"]);
    assert_eq!(reasons(&must, &results(vec![reset(ResetScope::QueuePair), done(true)])), [""; 0]);
}

fn results(reports: Vec<Report>) -> Results {
    let mut results = Results::default();
    for report in reports {
        results.add(report, Duration::ZERO);
    }
    results
}

#[test]
fn a_tenant_that_was_started_again_must_finish_again() {
    let scenario = scenario("restarts = { w = 1 }");
    let restart =
        Report::Restart(Restart { name: clip("w"), times: 1, ended_at_ns: 700, took_ns: 50, memory_left_bytes: 0 });
    let mut results = results(vec![done(true), restart]);
    results.done_at.insert(clip("w"), 600);
    assert_eq!(awaited(&scenario, &results), ["w has not finished"]);
    results.done_at.insert(clip("w"), 800);
    assert_eq!(awaited(&scenario, &results), [""; 0]);
}

fn done(passed: bool) -> Report {
    Report::Done { tenant: clip("w"), passed }
}

fn fault() -> Report {
    let kind = FaultKind::Write;
    Report::Fault(Fault { component: 3, name: clip("w"), kind, address: 0x1000, instruction: 0x500_0000 })
}

#[test]
fn a_run_is_over_when_everybody_is_through() {
    let scenario = scenario("");
    assert_eq!(awaited(&scenario, &results(vec![])), ["w has not finished"]);
    let all = results(vec![done(true)]);
    assert!(awaited(&scenario, &all).is_empty() && reasons(&scenario, &all).is_empty());
    assert_eq!(reasons(&scenario, &results(vec![done(false)])), ["w did not pass its own checks"]);
}

#[test]
fn a_fault_is_lost_unless_it_is_what_the_scenario_is_about() {
    assert!(is_lost(&scenario(""), &results(vec![fault()])));
    let reason = reasons(&scenario(""), &results(vec![fault(), done(true)]));
    assert_eq!(reason, ["w faulted: Write of 0x1000 at instruction 0x5000000"]);
    let expected = scenario("faults = [\"w\"]");
    assert_eq!(awaited(&expected, &results(vec![])), ["w has not faulted"]);
    assert!(reasons(&expected, &results(vec![fault()])).is_empty());
}

#[test]
fn failed_build_ends_the_run_with_its_reason_alone() {
    let reason = "the system needs 8 bytes of memory, and the machine has 4 for it";
    let failure = |component: &str| Report::Failure { component: clip(component), reason: clip(reason) };
    let none = results(vec![failure("root-task")]);
    assert!(is_lost(&scenario(""), &none));
    let fix = "raise [machine] memory, or have fewer or smaller tenants";
    assert_eq!(reasons(&scenario(""), &none), [format!("there is no system: {reason}: {fix}").as_str()]);
    // A failure of one component, and of the root task once components run, are different.
    assert!(!is_lost(&scenario(""), &results(vec![failure("w")])));
    let component = report::Component { component: 1, name: clip("w"), priority: 1, capabilities: 0, pages: 0 };
    assert!(!is_lost(&scenario(""), &results(vec![Report::Component(component), failure("root-task")])));
}

#[test]
fn a_tenant_must_be_told_that_its_controller_is_gone() {
    let scenario = scenario("gone = [\"w\"]");
    let failure = |reason: &str| Report::Failure { component: clip("w"), reason: clip(reason) };
    let told = results(vec![failure("a read: the controller is gone"), done(false)]);
    assert_eq!(reasons(&scenario, &told), [""; 0]);
    for reports in [vec![done(true)], vec![failure("a read: media error"), done(false)]] {
        assert_eq!(reasons(&scenario, &results(reports)), ["w was not told that its controller is gone"]);
    }
}

#[test]
fn the_session_of_a_tenant_whose_namespace_is_to_be_gone_may_end() {
    let scenario = scenario("gone = [\"w\"]");
    let ended = |tenant: &str| Report::Failure {
        component: clip("nvme-server"),
        reason: clip(&format!("the session of {tenant} ended: another namespace")),
    };
    let told = Report::Failure { component: clip("w"), reason: clip("a read: the controller is gone") };
    let all = |tenant| results(vec![ended(tenant), told.clone(), done(false)]);
    assert_eq!(reasons(&scenario, &all("w")), [""; 0]);
    assert_eq!(reasons(&scenario, &all("v")), ["nvme-server: the session of v ended: another namespace"]);
}

#[test]
fn a_component_is_started_again_as_often_as_the_scenario_says() {
    let scenario = scenario("restarts = { w = 1 }");
    let restart = Restart { name: clip("w"), times: 1, ended_at_ns: 1, took_ns: 2, memory_left_bytes: 7 };
    let again = Report::Restart(restart);
    assert!(reasons(&scenario, &results(vec![fault(), again.clone(), done(true)])).is_empty());
    let one_too_many = results(vec![fault(), again.clone(), fault(), done(true)]);
    assert!(is_lost(&scenario, &one_too_many) && !reasons(&scenario, &one_too_many).is_empty());
    assert_eq!(awaited(&scenario, &results(vec![fault(), done(true)])), ["w was started again 0 of 1 times"]);
    let unexpected = reasons(&super::tests::scenario(""), &results(vec![again, done(true)]));
    assert_eq!(unexpected, ["w had to be started again"]);
}

#[test]
fn fault_that_is_one_too_many_is_blamed_with_its_own_time() {
    let restart = Restart { name: clip("w"), times: 1, ended_at_ns: 1, took_ns: 2, memory_left_bytes: 7 };
    let mut results = Results::default();
    for (at_ns, report) in [
        (1, ended_with_server()),
        (2, fault()),
        (3, Report::Restart(restart.clone())),
        (4, Report::Restart(restart)),
        (9, fault()),
        (10, done(true)),
    ] {
        results.take(report::Stamped { at_ns, report }, Duration::ZERO);
    }
    let reasons = reasons(&scenario("restarts = { w = 1 }"), &results);
    assert_eq!(reasons, ["w faulted: Write of 0x1000 at instruction 0x5000000"]);
    assert_eq!(first_ns(&reasons), Some(9));
}

fn ended_with_server() -> Report {
    let Report::Fault(fault) = fault() else { unreachable!("it is one") };
    Report::Fault(Fault { kind: FaultKind::ServerDied, ..fault })
}

#[test]
fn controller_that_is_pulled_out_may_lose_its_power_before() {
    let mut scenario = scenario("");
    let server = scenario.server_name(&scenario.controllers[0].name);
    let reset =
        Report::Reset { server: clip(&server), scope: ResetScope::Controller, reason: clip("not ready any more") };
    let seen = results(vec![reset, done(true)]);
    for (action, allowed) in [(Action::Remove, false), (Action::Pull, true)] {
        let controller = scenario.controllers[0].name.clone();
        scenario.hot_plugs = vec![HotPlug { controller, after_ms: 5, action, other: false }];
        assert_eq!(reasons(&scenario, &seen).is_empty(), allowed, "{action:?}");
    }
}

#[test]
fn driver_restarts_with_its_pci_server_by_default() {
    let restart = |name: &str, times| {
        Report::Restart(Restart { name: clip(name), times, ended_at_ns: 1, took_ns: 2, memory_left_bytes: 7 })
    };
    let ended = ended_with_server();
    assert!(!is_lost(&scenario(""), &results(vec![ended.clone()])));
    assert!(reasons(&scenario(""), &results(vec![ended.clone(), restart("w", 1), done(true)])).is_empty());
    let once_more = results(vec![ended.clone(), restart("w", 1), restart("w", 2), done(true)]);
    assert!(!reasons(&scenario(""), &once_more).is_empty());
    // It does not count as a fault of the component's own where one is expected.
    let own = scenario("restarts = { w = 1 }");
    let seen = results(vec![ended, restart("w", 1), done(true)]);
    assert_eq!(awaited(&own, &seen), ["w was started again 0 of 1 times"]);
}

#[test]
fn session_with_unexpected_queue_pairs_fails_the_run() {
    let scenario = scenario("queues = { w = { queue_pairs = 4, depth = 16 } }");
    let ended =
        |queue_pairs, depth| Report::Session(Session { tenant: clip("w"), queue_pairs, depth, ..Session::default() });
    assert!(reasons(&scenario, &results(vec![done(true), ended(1, 8), ended(4, 16)])).is_empty());
    let shallow = reasons(&scenario, &results(vec![done(true), ended(4, 8)]));
    assert_eq!(shallow, ["the session of w had 4 queue pairs of depth 8 in the end, not 4 of depth 16"]);
    let untold = reasons(&scenario, &results(vec![done(true)]));
    assert_eq!(untold, ["nobody said which queue pairs the session of w had in the end"]);
}

#[test]
fn a_change_that_is_not_carried_out_fails_the_run() {
    let mut scenario = scenario("");
    let what = capdl::scenario::What::Revoke(vec![]);
    scenario.changes =
        vec![capdl::scenario::Change { when: capdl::scenario::When::after_ms(5), tenant: "w".into(), what }];
    assert_eq!(reasons(&scenario, &results(vec![done(true)])), ["0 of 1 changes for w were carried out"]);
    let what = report::Changed::Revoked { blocks: 8 };
    let change = report::Change { policy: clip("policy"), tenant: clip("w"), what, at_ns: 5, took_ns: 1 };
    assert!(reasons(&scenario, &results(vec![Report::Change(change), done(true)])).is_empty());
}

#[test]
fn an_expelled_tenant_is_fine_where_expected_alone() {
    let ended = Report::Session(Session { tenant: clip("w"), ended_by: clip("tail"), ..Session::default() });
    assert!(reasons(&scenario("expelled = [\"w\"]"), &results(vec![ended.clone()])).is_empty());
    assert_eq!(reasons(&scenario(""), &results(vec![ended, done(true)])), ["the session of w was ended: tail"]);
}

#[test]
fn expected_refusal_must_be_for_want_of_queue_pairs() {
    let scenario = scenario("refused_sessions = [\"w\"]");
    let refused = |refusal: Refusal| {
        Report::Refused(Refused { tenant: clip("w"), label: refusal as u32, reason: clip(&refusal.to_string()) })
    };
    assert!(reasons(&scenario, &results(vec![refused(Refusal::NoQueuePairs), done(false)])).is_empty());
    let device = reasons(&scenario, &results(vec![refused(Refusal::Device), done(false)]));
    assert_eq!(device, ["w was refused its session for another reason: the controller failed"]);
    assert_eq!(reasons(&scenario, &results(vec![done(true)])), ["w was not refused its session"]);
}

#[test]
fn a_wrong_byte_and_an_attack_that_succeeds_fail_the_run() {
    let load = |reads, wrong_bytes| Report::Load(Load { tenant: clip("w"), reads, wrong_bytes, ..Load::default() });
    let seen = |load| reasons(&scenario(""), &results(vec![load, done(true)]));
    assert_eq!(seen(load(1, 1)), ["w read 1 wrong byte"]);
    assert_eq!(seen(load(1, 0)), [""; 0]);
    assert_eq!(seen(load(0, 0)), ["w made no request of its load"]);
    let attack = Report::Attack(Attack {
        tenant: clip("w"),
        kind: clip(""),
        attack: clip("reads"),
        refused: false,
        stopped_by: clip(""),
    });
    assert_eq!(reasons(&scenario(""), &results(vec![attack, done(true)])), ["an attack of w succeeded: reads"]);
}

fn attack() -> Report {
    let stopped_by = clip("the server's check");
    Report::Attack(Attack { tenant: clip("m"), kind: clip(""), attack: clip("reads"), refused: true, stopped_by })
}

#[test]
fn neighbour_whose_end_arrives_before_an_earlier_attack_has_outlived_it() {
    let mut scenario = scenario("");
    scenario.expect.attackers = vec!["m".into()];
    scenario.expect.outlives = vec!["w".into()];
    let of = |attacked_ns, finished_ns| {
        let mut results = Results::default();
        for (report, at_ns) in [(done(true), finished_ns), (attack(), attacked_ns)] {
            results.take(report::Stamped { at_ns, report }, Duration::ZERO);
        }
        reasons(&scenario, &results)
    };
    assert_eq!(of(4, 5), [""; 0]);
    assert_eq!(of(6, 5), ["w had finished before m was at its end"]);
}

#[test]
fn neighbour_that_finishes_before_the_last_attack_fails() {
    let mut scenario = scenario("");
    scenario.expect.attackers = vec!["m".into()];
    scenario.expect.outlives = vec!["w".into()];
    assert!(reasons(&scenario, &results(vec![attack(), done(true)])).is_empty());
    let early = reasons(&scenario, &results(vec![attack(), done(true), attack()]));
    assert_eq!(early, ["w had finished before m was at its end"]);
    assert!(is_too_short(&scenario, &results(vec![attack(), done(true), attack()])));
    assert!(!is_too_short(&scenario, &results(vec![attack(), done(true)])));
    let change = |at_ns| {
        let (policy, tenant, what) = (clip("p"), clip("w"), report::Changed::Entitled);
        Report::Change(report::Change { policy, tenant, what, at_ns, took_ns: 0 })
    };
    let works = Report::FirstIo { tenant: clip("w"), at_ns: 5 };
    assert!(is_too_short(&scenario, &results(vec![works.clone(), change(4), attack(), done(true)])));
    assert!(!is_too_short(&scenario, &results(vec![works.clone(), change(5), attack(), done(true)])));
    let kind = FaultKind::Killed;
    let killed = Report::Fault(Fault { component: 1, name: clip("w"), kind, address: 0, instruction: 0 });
    assert!(is_too_short(&scenario, &results(vec![killed.clone()])));
    assert!(!is_too_short(&scenario, &results(vec![works, killed.clone()])));
    assert!(may_repeat(&scenario, &results(vec![killed.clone()])));
    let of_crash = |reports| Results { emulator_crashed: true, ..results(reports) };
    assert!(may_repeat(&scenario, &of_crash(Vec::new())), "the emulator's crash is not the system's");
    let failure = Report::Failure { component: clip("m"), reason: clip("refused: the session is not open") };
    assert!(!may_repeat(&scenario, &of_crash(vec![failure.clone()])));
    assert!(!may_repeat(&scenario, &results(vec![killed, failure])), "what it did wrong is not repeated away");
    let ended = Session { tenant: clip("m"), ended_by: clip("tail"), ..Session::default() };
    scenario.expect.expelled = vec!["m".into()];
    let expelled = reasons(&scenario, &results(vec![attack(), done(true), Report::Session(ended)]));
    assert_eq!(expelled, ["w had finished before m was at its end"]);
}

#[test]
fn who_goes_on_without_end_must_say_first_that_all_was_refused() {
    let scenario = scenario("unfinished = [\"w\"]");
    assert_eq!(reasons(&scenario, &results(vec![])), ["w has not finished"]);
    assert_eq!(reasons(&scenario, &results(vec![done(false)])), ["w did not pass its own checks"]);
    assert!(reasons(&scenario, &results(vec![done(true)])).is_empty());
}
