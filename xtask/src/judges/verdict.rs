//! Compares the events and contents of a run with the scenario's expectations. Left out: times and rates (`times`).

use crate::judges::causes::Reason;
use crate::judges::{arrivals, completions, digests, interrupts, leaks, limits, probe};
use crate::records::results::{Failed, Results};
use crate::reports::count::count;
use blk_api::Status;
use blk_api::session::Refusal;
use capdl::Scenario;
use capdl::scenario::{Action, Expect, ExpectedQueues, Tenant};
use report::{Fault, FaultKind, Load, ResetScope};

/// The reason a server reports when it ends the session of a killed client.
const DIED: &str = "its client died";

/// Expected events that have not happened yet, one phrase each; the run continues until there are none.
pub(crate) fn awaited(scenario: &Scenario, results: &Results) -> Vec<Reason> {
    let expect = &scenario.expect;
    let mut awaited = Vec::new();
    for tenant in &scenario.tenants {
        let name = &tenant.name;
        let other_end = [&expect.faults, &expect.expelled].iter().any(|list| list.contains(name));
        if !other_end && !has_finished(results, name) {
            awaited.push(Reason::consequence(name, format!("{name} has not finished")));
        }
    }
    awaited.extend(probe::awaited(scenario, results).into_iter().map(Reason::from));
    let mut wait = |names: &[String], what: &str, is_there: &dyn Fn(&str) -> bool| {
        awaited.extend(names.iter().filter(|name| !is_there(name)).map(|name| format!("{name} {what}").into()));
    };
    wait(&expect.faults, "has not faulted", &|name| results.faulted(name));
    wait(&expect.expelled, "has not been expelled", &|name| results.expelled(name).is_some());
    wait(&expect.attackers, "has reported no attack", &|name| results.attacks.iter().any(|a| a.tenant == name));
    wait(&expect.digests, "has reported no digest", &|name| results.digests.iter().any(|d| d.tenant == name));
    wait(&expect.measured, "was not measured", &|name| results.measured.iter().any(|m| m.name == name));
    for tenant in &scenario.tenants {
        let to_come = scenario.changes.iter().filter(|change| change.tenant == tenant.name).count();
        let seen = results.changes.iter().filter(|change| change.tenant == tenant.name.as_str()).count();
        if seen < to_come {
            awaited.push(format!("{seen} of {to_come} changes for {} were carried out", tenant.name).into());
        }
    }
    awaited.extend(interrupts::awaited(scenario, results).into_iter().map(Reason::from));
    // A fault that is drawn may come too late to take the controller.
    let lost = expect.lost.iter().filter(|_| !expect.faults_may_miss);
    awaited.extend(lost.filter_map(|controller| not_lost(scenario, controller, results).map(Reason::from)));
    for (name, times) in &expect.restarts {
        let seen = results.restarts_of(name).saturating_sub(results.restarts_with_server(name));
        if seen < usize::from(*times) {
            awaited.push(format!("{name} was started again {seen} of {times} times").into());
        }
    }
    awaited
}

/// Whether a tenant has reported its end since it was last started: one that was killed after its end works again.
fn has_finished(results: &Results, name: &str) -> bool {
    let ends = results.restarts.iter().filter(|restart| restart.name == name).map(|restart| restart.ended_at_ns);
    let began = ends.max().unwrap_or(0);
    results.done_at.iter().any(|(done, at)| done == name && *at >= began)
}

/// Whether the run has failed already, so that waiting cannot improve the result.
pub(crate) fn is_lost(scenario: &Scenario, results: &Results) -> bool {
    results.not_built().is_some()
        || results.faults.iter().any(|fault| !may_fault(&scenario.expect, fault, results))
        || probe::is_lost(scenario, results)
}

/// The reasons for which the run failed; empty if it passed.
pub(crate) fn reasons(scenario: &Scenario, results: &Results) -> Vec<Reason> {
    if let Some(reason) = results.not_built() {
        // Other missing reports would add nothing.
        return vec![
            format!("there is no system: {reason}: raise [machine] memory, or have fewer or smaller tenants").into(),
        ];
    }
    let expect = &scenario.expect;
    let mut reasons = awaited(scenario, results);
    for fault in &results.faults {
        if !may_fault(expect, fault, results) {
            reasons
                .push(Reason::cause(&fault.name, faulted(fault, results)).at(results.timeline.fault_ns(&fault.name)));
        }
    }
    for restart in &results.restarts {
        let name = restart.name.as_str();
        let with_server = results.restarts_with_server(name);
        if !expect.restarts.contains_key(name) && results.restarts_of(name) > with_server {
            reasons.push(Reason::consequence(name, format!("{name} had to be started again")));
        }
    }
    for failure in results.failures.iter().filter(|failure| !is_expected(scenario, failure)) {
        let text = format!("{}: {}", failure.component, failure.reason);
        reasons.push(Reason::cause(&failure.component, text).at(failure.at_ns));
    }
    let may_reset = |server: &str| expect.allows_resets() || scenario.is_of_lost(server) || is_pulled(scenario, server);
    for reset in results.resets.iter().filter(|reset| !may_reset(&reset.component)) {
        let what = recreation(reset.scope);
        let text = format!("{} had to {what}: {}", reset.component, reset.reason);
        reasons.push(Reason::cause(&reset.component, text).at(Some(reset.at_ns)));
    }
    for scope in expect.must_reset.iter().copied() {
        if !results.resets.iter().any(|reset| reset.scope == scope) {
            reasons.push(format!("no server had to {}", recreation(scope)).into());
        }
    }
    for (tenant, passed) in &results.done {
        if !passed && !may_fail(scenario, tenant) {
            reasons.push(Reason::consequence(tenant, format!("{tenant} did not pass its own checks")));
        }
    }
    if !may_be_blocked(scenario) {
        for blocked in results.blocked.values().filter(|blocked| !is_attackers(scenario, results, blocked.requester_id))
        {
            let (times, function) = (blocked.times, blocked.requester_id);
            reasons
                .push(format!("the IOMMU blocked {} of function {function:04x}", count(times, "transaction")).into());
        }
    }
    reasons.extend(expect.refused_sessions.iter().filter_map(|tenant| not_refused(tenant, results)).map(Reason::from));
    reasons.extend(expect.gone.iter().filter_map(|tenant| not_gone(tenant, results)).map(Reason::from));
    for session in results.sessions.iter().filter(|session| !session.ended_by.is_empty()) {
        let died = session.ended_by == DIED && expect.restarts.contains_key(session.tenant.as_str());
        if !died && !may_fail(scenario, &session.tenant) {
            let text = format!("the session of {} was ended: {}", session.tenant, session.ended_by);
            reasons.push(Reason::consequence(&session.tenant, text));
        }
    }
    reasons.extend(expect.outlives.iter().filter_map(|tenant| outlived_by(tenant, expect, results)).map(Reason::from));
    reasons.extend(
        expect.queues.iter().filter_map(|(tenant, queues)| other_queues(tenant, *queues, results)).map(Reason::from),
    );
    for load in results.tenants.iter().filter(|load| load.wrong_bytes > 0) {
        let text = format!("{} read {}", load.tenant, count(load.wrong_bytes, "wrong byte"));
        reasons.push(Reason::consequence(&load.tenant, text));
    }
    reasons.extend(idle(scenario, results).map(Reason::from));
    for attack in results.attacks.iter().filter(|attack| !attack.refused) {
        reasons.push(format!("an attack of {} succeeded: {}", attack.tenant, attack.attack).into());
    }
    reasons.extend(digests::violations(scenario, results).into_iter().map(Reason::from));
    reasons.extend(completions::violations(scenario, results).into_iter().map(Reason::from));
    reasons.extend(leaks::violations(scenario, results).into_iter().map(Reason::from));
    reasons.extend(arrivals::violations(scenario, results).into_iter().map(Reason::from));
    reasons.extend(limits::violations(scenario, results).into_iter().map(Reason::from));
    for (component, bytes) in &results.lost_log_bytes {
        reasons.push(format!("the log of {component} lost {}", count(*bytes, "byte")).into());
    }
    reasons
}

/// Loads that made no request after they had written their blocks: such a run shows nothing about them.
fn idle(scenario: &Scenario, results: &Results) -> impl Iterator<Item = String> {
    let is_idle = |load: &&Load| load.reads == 0 && load.writes == 0 && load.errors == 0 && load.forbidden == 0;
    let idle = results.tenants.iter().filter(is_idle).filter(|load| !may_fail(scenario, &load.tenant));
    idle.filter(|_| scenario.expect.measured.is_empty())
        .map(|load| format!("{} made no request of its load", load.tenant))
}

/// A fault in words. A kill that no expectation permits names the key that would.
fn faulted(fault: &Fault, results: &Results) -> String {
    let Fault { name, kind, address, instruction, .. } = fault;
    if *kind != FaultKind::Killed {
        return format!("{name} faulted: {kind:?} of {address:#x} at instruction {instruction:#x}");
    }
    // [expect] counts no restart that a server's death caused.
    let again = results.restarts_of(name).saturating_sub(results.restarts_with_server(name));
    let key = match again {
        0 => format!("faults = [\"{name}\"]"),
        _ => format!("restarts = {{ {name} = {again} }}"),
    };
    format!("{name} was killed, which [expect] does not permit: if that is meant, write {key} there")
}

/// Whether functions may access memory that is not theirs: the scenario wants it so, or its IOMMU server restarts while they
/// work.
fn may_be_blocked(scenario: &Scenario) -> bool {
    scenario.probe.is_some() || !scenario.faults.is_empty() || scenario.needs_iommu_server()
}

/// Whether the server's controller is pulled out while the system runs. It may lose its power a moment before it is gone.
fn is_pulled(scenario: &Scenario, server: &str) -> bool {
    let pulls = scenario.hot_plugs.iter().filter(|event| event.action == Action::Pull);
    pulls.map(|event| scenario.server_name(&event.controller)).any(|name| name == server)
}

/// Whether an attacker drives the function, which may try anything.
fn is_attackers(scenario: &Scenario, results: &Results, requester_id: u16) -> bool {
    let driver = results.drivers.get(&requester_id);
    driver.is_some_and(|driver| scenario.expect.attackers.iter().any(|attacker| driver == attacker.as_str()))
}

const fn recreation(scope: ResetScope) -> &'static str {
    match scope {
        ResetScope::Command => "abort a command",
        ResetScope::QueuePair => "recreate a queue pair",
        ResetScope::Controller => "reset its controller",
    }
}

/// Whether the scenario expects this fault: a component is expected to fault, or faults no more often than it is expected to
/// restart. A component that ended with its server did nothing wrong: the server's fault is judged.
fn may_fault(expect: &Expect, fault: &Fault, results: &Results) -> bool {
    let is_own = |fault: &&Fault| fault.kind != FaultKind::ServerDied;
    if !is_own(&fault) {
        return true;
    }
    let name = fault.name.as_str();
    let faults = results.faults.iter().filter(|fault| fault.name == name).filter(is_own).count();
    let restarts = expect.restarts.get(name).copied().map_or(0, usize::from);
    expect.faults.iter().any(|expected| name == expected) || faults <= restarts
}

/// Violation if a tenant that must be refused for lack of queue pairs was refused for another reason, or not at all.
fn not_refused(tenant: &str, results: &Results) -> Option<String> {
    match results.refused.iter().find(|refused| refused.tenant == tenant) {
        Some(refused) if refused.label == Refusal::NoQueuePairs as u32 => None,
        Some(refused) => Some(format!("{tenant} was refused its session for another reason: {}", refused.reason)),
        None => Some(format!("{tenant} was not refused its session")),
    }
}

/// Violation if no request of a tenant ended because its controller is gone.
fn not_gone(tenant: &str, results: &Results) -> Option<String> {
    let mut failures = results.failures.iter().filter(|failure| failure.component == tenant);
    let gone = Status::DeviceGone.to_string();
    let is_told = failures.any(|failure| failure.reason.ends_with(&gone));
    (!is_told).then(|| format!("{tenant} was not told that its controller is gone"))
}

/// Violation if nobody reported that a controller is lost: the failure of its server or policy component, or their end for good.
fn not_lost(scenario: &Scenario, controller: &str, results: &Results) -> Option<String> {
    let (server, policy) = (scenario.server_name(controller), scenario.policy_name(controller));
    let is_its = |name: &str| name == server || name == policy;
    let is_reported = results.failures.iter().any(|failure| is_its(&failure.component));
    (!is_reported).then(|| format!("{controller} was not lost: {server} reported no failure"))
}

/// Violation if a session did not end with the queue pairs that it must have.
fn other_queues(tenant: &str, expected: ExpectedQueues, results: &Results) -> Option<String> {
    let ExpectedQueues { queue_pairs, depth } = expected;
    let sessions = || results.sessions.iter().filter(|session| session.tenant == tenant);
    let Some(last) = sessions().next_back() else {
        return Some(format!("nobody said which queue pairs the session of {tenant} had in the end"));
    };
    ((last.queue_pairs, last.depth) != (queue_pairs, depth)).then(|| {
        format!(
            "the session of {tenant} had {} of depth {} in the end, not {queue_pairs} of depth {depth}",
            count(last.queue_pairs, "queue pair"),
            last.depth
        )
    })
}

/// Whether a failed run may be repeated: it was too short to show anything, which does not explain what a component did wrong.
pub(crate) fn may_repeat(scenario: &Scenario, results: &Results) -> bool {
    let did_wrong = results.failures.iter().any(|failure| !is_expected(scenario, failure))
        || results.tenants.iter().any(|load| load.wrong_bytes > 0)
        || results.attacks.iter().any(|attack| !attack.refused);
    !did_wrong && is_too_short(scenario, results)
}

/// Whether the run was too short to show anything: a tenant finished by its time before an attacker that it must outlive, or a
/// tenant was killed, or its rights changed, before it was at work.
fn is_too_short(scenario: &Scenario, results: &Results) -> bool {
    let is_early = |change: &report::Change| {
        results.working_since_ns.get(&change.tenant).is_none_or(|since_ns| change.at_ns < *since_ns)
    };
    let is_idle = |fault: &Fault| {
        let is_its = |tenant: &Tenant| fault.name == tenant.name.as_str();
        fault.kind == FaultKind::Killed
            && scenario.tenants.iter().any(is_its)
            && !results.working_since_ns.contains_key(&fault.name)
    };
    scenario.expect.outlives.iter().any(|tenant| outlived_by(tenant, &scenario.expect, results).is_some())
        || results.changes.iter().any(is_early)
        || results.faults.iter().any(is_idle)
}

/// Violation if a tenant finished before the last act of an attacker.
fn outlived_by(tenant: &str, expect: &Expect, results: &Results) -> Option<String> {
    let at = |order: &std::collections::BTreeMap<report::Name, u64>, name: &str| {
        order.iter().find_map(|(one, at)| (one.as_str() == name).then_some(*at))
    };
    // A tenant without an end is already among the awaited ones.
    let finished = at(&results.done_at, tenant)?;
    let mut later = results.acted_at.iter().filter(|(name, at)| expect.is_outlived(name) && **at > finished);
    later.next().map(|(attacker, _)| format!("{tenant} had finished before {attacker} was at its end"))
}

/// Whether the scenario expects this failure: of a component, or the end of a session whose namespace is to be gone.
fn is_expected(scenario: &Scenario, failure: &Failed) -> bool {
    let ends = |tenant: &String| failure.reason.starts_with(&format!("the session of {tenant} ended"));
    may_fail(scenario, &failure.component) || scenario.expect.gone.iter().any(ends)
}

/// Whether the scenario expects this tenant or component to fail.
fn may_fail(scenario: &Scenario, name: &str) -> bool {
    let expect = &scenario.expect;
    let lists = [&expect.faults, &expect.expelled, &expect.refused_sessions, &expect.gone];
    scenario.is_of_lost(name) || lists.iter().any(|list| list.iter().any(|one| one == name))
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let ended = |queue_pairs, depth| {
            Report::Session(Session { tenant: clip("w"), queue_pairs, depth, ..Session::default() })
        };
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
        let attack =
            Report::Attack(Attack { tenant: clip("w"), attack: clip("reads"), refused: false, stopped_by: clip("") });
        assert_eq!(reasons(&scenario(""), &results(vec![attack, done(true)])), ["an attack of w succeeded: reads"]);
    }

    fn attack() -> Report {
        let stopped_by = clip("the server's check");
        Report::Attack(Attack { tenant: clip("m"), attack: clip("reads"), refused: true, stopped_by })
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
        let failure = Report::Failure { component: clip("m"), reason: clip("refused: the session is not open") };
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
}
