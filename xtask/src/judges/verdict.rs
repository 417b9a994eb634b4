//! Compares the events and contents of a run with the scenario's expectations. Left out: times and rates (`times`).

use crate::judges::causes::Reason;
use crate::judges::{arrivals, attacks, completions, digests, interrupts, leaks, limits, probe};
use crate::records::results::{Failed, Faulted, Results};
use crate::reports::count::count;
use blk_api::Status;
use blk_api::session::Refusal;
use capdl::Scenario;
use capdl::scenario::{Action, Expect, ExpectedQueues, Tenant};
use control_api::Act;
use report::{Fault, FaultKind, Load, ResetScope};
use std::collections::BTreeMap;

/// The reason a server reports when it ends the session of a killed client.
const DIED: &str = "its client died";

/// Expected events that have not happened yet, one phrase each; the run continues until there are none.
pub fn awaited(scenario: &Scenario, results: &Results) -> Vec<Reason> {
    let expect = &scenario.expect;
    let mut awaited = Vec::new();
    for tenant in &scenario.tenants {
        let name = &tenant.name;
        let other_end = [&expect.faults, &expect.expelled].iter().any(|list| list.contains(name));
        let is_stopped = kills(scenario, results, name) > results.restarts_of(name);
        if !other_end && !is_stopped && !has_finished(results, name) {
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
pub fn is_lost(scenario: &Scenario, results: &Results) -> bool {
    results.not_built().is_some()
        || unexpected_faults(scenario, results).next().is_some()
        || probe::is_lost(scenario, results)
}

/// The reasons for which the run failed; empty if it passed.
pub fn reasons(scenario: &Scenario, results: &Results) -> Vec<Reason> {
    if let Some(reason) = results.not_built() {
        // Other missing reports would add nothing.
        return vec![
            format!("there is no system: {reason}: raise [machine] memory, or have fewer or smaller tenants").into(),
        ];
    }
    let expect = &scenario.expect;
    let mut reasons = awaited(scenario, results);
    for Faulted { at_ns, fault } in unexpected_faults(scenario, results) {
        reasons.push(Reason::cause(&fault.name, faulted(fault, results)).at(Some(*at_ns)));
    }
    for restart in &results.restarts {
        let name = restart.name.as_str();
        let with_server = results.restarts_with_server(name);
        let meant = with_server.saturating_add(kills(scenario, results, name));
        if !expect.restarts.contains_key(name) && results.restarts_of(name) > meant {
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
        let tenant = session.tenant.as_str();
        let may_die = expect.restarts.contains_key(tenant) || kills(scenario, results, tenant) > 0;
        let died = session.ended_by == DIED && may_die;
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
    reasons.extend(attacks::violations(scenario, results).into_iter().map(Reason::from));
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

/// Faults that the scenario does not expect: of a component that is not expected to fault, those after as many as it is expected to
/// restart. A component that ended with its server did nothing wrong: the server's fault is judged.
fn unexpected_faults<'a>(scenario: &'a Scenario, results: &'a Results) -> impl Iterator<Item = &'a Faulted> {
    let expect = &scenario.expect;
    let mut left: BTreeMap<&str, u16> = expect.restarts.iter().map(|(name, times)| (name.as_str(), *times)).collect();
    results.faults.iter().filter(move |Faulted { fault, .. }| {
        let is_ordered = fault.kind == FaultKind::Killed && may_kill(scenario);
        if is_ordered
            || fault.kind == FaultKind::ServerDied
            || expect.faults.iter().any(|name| fault.name == name.as_str())
        {
            return false;
        }
        match left.get_mut(fault.name.as_str()).filter(|left| **left > 0) {
            Some(left) => {
                *left -= 1;
                false
            }
            None => true,
        }
    })
}

/// Whether an operator may stop components: then nobody did wrong who was.
fn may_kill(scenario: &Scenario) -> bool {
    scenario.control.as_ref().is_some_and(|control| control.acts.contains(&Act::Kill))
}

/// The times that an operator stopped the component of this name.
fn kills(scenario: &Scenario, results: &Results, name: &str) -> usize {
    let is_its = |fault: &Fault| fault.name == name && fault.kind == FaultKind::Killed && may_kill(scenario);
    results.faults.iter().filter(|one| is_its(&one.fault)).count()
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

/// Whether a failed run may be repeated: it was too short to show anything, or QEMU crashed, which is not the system's doing. Neither
/// explains what a component did wrong.
pub fn may_repeat(scenario: &Scenario, results: &Results) -> bool {
    let did_wrong = results.failures.iter().any(|failure| !is_expected(scenario, failure))
        || results.tenants.iter().any(|load| load.wrong_bytes > 0)
        || results.attacks.iter().any(|attack| !attack.refused);
    !did_wrong && (results.emulator_crashed || is_too_short(scenario, results))
}

/// Whether the run was too short to show anything: a tenant finished by its time before an attacker that it must outlive, or a
/// tenant was killed, or its rights changed, before it was at work.
fn is_too_short(scenario: &Scenario, results: &Results) -> bool {
    let is_early = |change: &report::Change| {
        results.working_since_ns.get(&change.tenant).is_none_or(|since_ns| change.at_ns < *since_ns)
    };
    let is_idle = |Faulted { fault, .. }: &Faulted| {
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
    let at = |order: &BTreeMap<report::Name, u64>, name: &str| {
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
mod tests;
