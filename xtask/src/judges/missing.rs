//! Checks for the reports that every run must have, whatever its scenario expects: a missing line fails the run.

use crate::records::results::{Faulted, Results};
use capdl::scenario::{Path, Workload};
use capdl::{Scenario, System};
use capdl_spec::Role;
use report::{FaultKind, Reconnected, Report};
use sim_fault::{CommandEffect, Fault, QueueKind};
use std::collections::{BTreeMap, BTreeSet};

/// Lines that are missing or differ from the scenario; one sentence each.
pub fn lines(scenario: &Scenario, system: &System, results: &Results) -> Vec<String> {
    if results.not_built().is_some() {
        return Vec::new();
    }
    let mut missing = Vec::new();
    let mut must = |holds: bool, sentence: String| missing.extend((!holds).then_some(sentence));
    must(results.machine.is_some(), "the root task did not describe the machine".into());
    for component in &system.specification.components {
        let started = results.components.iter().any(|one| one.component == component.id);
        must(started, format!("{} was not reported as started", component.name));
    }
    must(!results.pci.is_empty(), "the PCI server reported no function".into());
    if scenario.probe.is_none() {
        // A lost controller may be gone before its first report.
        for controller in scenario.controllers.iter().filter(|one| !scenario.expect.lost.contains(&one.name)) {
            // Namespaces of virtual functions are not the server's.
            let attached = (1..).zip(&controller.namespaces).filter(|(nsid, _)| controller.is_attached(*nsid));
            let served = attached.filter(|(_, namespace)| namespace.is_served());
            let (refused, namespaces) = served.fold((0, 0), |(refused, all), (nsid, _)| {
                (refused + usize::from(may_be_refused(scenario, &controller.name, nsid)), all + 1)
            });
            let server = scenario.server_name(&controller.name);
            let reported = results.controllers.iter().find(|one| one.server == server.as_str());
            must(reported.is_some(), format!("{server} reported no controller"));
            let named = controller.interrupts.name();
            let as_asked = reported.is_none_or(|one| one.interrupts == named);
            must(as_asked, format!("the controller of {server} does not interrupt by {named}"));
            let reported: Vec<u32> =
                results.namespaces.iter().filter(|one| one.server == server.as_str()).map(|one| one.nsid).collect();
            let found = reported.iter().collect::<BTreeSet<_>>().len();
            let has_all = (namespaces - refused..=namespaces).contains(&found);
            must(has_all, format!("{server} reported {found} namespaces, and there are {namespaces}"));
            // Each of its incarnations reports them once.
            let at_most = namespaces * (1 + results.restarts_of(&server));
            must(reported.len() <= at_most, format!("{server} reported namespaces {} times", reported.len()));
        }
    }
    let mut ordered = BTreeMap::<&str, usize>::new();
    for kill in &scenario.kills {
        *ordered.entry(&kill.component).or_default() += kill.times as usize;
    }
    for (name, times) in ordered {
        let is_kill = |Faulted { fault, .. }: &&Faulted| fault.kind == FaultKind::Killed && fault.name == name;
        let seen = results.faults.iter().filter(is_kill).count();
        let what = format!("{name} was killed {seen} times of {times} before the run was over");
        must(seen >= times, format!("{what}: let the tenants work longer"));
    }
    for tenant in &scenario.tenants {
        // Another judge reports a tenant that did not pass.
        let passed = results.done.iter().any(|(name, passed)| *name == tenant.name.as_str() && *passed);
        let reported = match &tenant.workload {
            Workload::Bench(bench) if bench.measure.is_empty() => {
                results.tenants.iter().any(|one| one.tenant == tenant.name.as_str())
            }
            Workload::Digest(_) => results.digests.iter().any(|one| one.tenant == tenant.name.as_str()),
            Workload::Bench(_) | Workload::Flood(_) | Workload::Hostile(_) | Workload::Signal(_) | Workload::Own(_) => {
                true
            }
        };
        must(reported || !passed, format!("{} reported no result", tenant.name));
        // A tenant that faults or never finishes does not close its session, and one with a function has none.
        let closes = tenant.path == Path::Server
            && !matches!(tenant.workload, Workload::Signal(_))
            && !scenario.expect.unfinished.contains(&tenant.name)
            && !results.faulted(&tenant.name);
        let reported = results.sessions.iter().any(|one| one.tenant == tenant.name.as_str());
        must(reported || !passed || !closes, format!("nothing was reported of the session of {}", tenant.name));
    }
    missing
}

/// Whether a fault of the scenario may refuse to identify the namespace.
fn may_be_refused(scenario: &Scenario, controller: &str, nsid: u32) -> bool {
    scenario.faults.iter().any(|fault| {
        let Fault::Command(fault) = fault else { return false };
        let is_its = fault.controller.is_empty() || fault.controller == controller;
        let is_refusal = matches!(fault.effect, CommandEffect::Status { .. } | CommandEffect::NotNow { .. });
        is_its && is_refusal && fault.queues == QueueKind::Admin && fault.nsid == Some(nsid)
    })
}

/// Whether a component may make this report: about itself, or about the subject of its role, but not the results of others. The
/// root task is number 0 and has no role.
pub(crate) fn may_say(component: u16, name: &str, role: Option<Role>, report: &Report) -> bool {
    let is = |wanted| role == Some(wanted);
    match report {
        Report::Machine(_)
        | Report::Component(_)
        | Report::Installed(_)
        | Report::Fault(_)
        | Report::Restart(_)
        | Report::TelemetryPages(_)
        | Report::Blocked(_) => component == 0,
        Report::Change(one) => one.policy == name && is(Role::Policy),
        Report::InterruptsChange(one) => one.policy == name && is(Role::Policy),
        Report::PciFunction(_) | Report::Claimed { .. } => is(Role::PciServer),
        Report::Controller(one) => one.server == name,
        Report::Namespace(one) => one.server == name,
        Report::Session(_) | Report::Opened { .. } => is(Role::NvmeServer),
        Report::FirstIo { tenant, .. }
        | Report::Done { tenant, .. }
        | Report::Reconnected(Reconnected { tenant, .. }) => tenant == name,
        Report::Progress(one) => one.tenant == name,
        Report::Load(one) => one.tenant == name,
        Report::Digest(one) => one.tenant == name,
        Report::Attack(one) => one.tenant == name,
        Report::Refused(one) => one.tenant == name,
        Report::Value(one) => one.tenant == name,
        // The root task reports components that stay dead.
        Report::Failure { component: one, .. } => component == 0 || one == name,
        Report::Reset { server, .. } => server == name,
        Report::Event { server, .. } => server == name && is(Role::NvmeServer),
        Report::Measured(_) => is(Role::Client),
        Report::Interrupted { driver, .. } => driver == name && is(Role::EduDriver),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::clip;
    use std::time::Duration;

    /// Judges the one tenant of a run in which it passed and made `reports` besides.
    fn of_the_tenant(workload: &str, reports: Vec<Report>) -> Vec<String> {
        let text = format!(
            "name = \"t\"\ndescription = \"t\"\n[[controller]]\nname = \"a\"\n[[controller.namespace]]\nsize = \"1M\"\n\
             [[tenant]]\nname = \"w\"\nqueue_pairs = 1\nextents = [{{ first = 0, blocks = 1024 }}]\n{workload}\n"
        );
        let scenario = Scenario::parse(&text, "t.toml").unwrap();
        let system = System { specification: Default::default(), data: Vec::new(), environments: Vec::new() };
        let mut results = Results::default();
        let done = Report::Done { tenant: clip("w"), passed: true };
        for report in reports.into_iter().chain([done]) {
            results.add(report, Duration::ZERO);
        }
        let all = lines(&scenario, &system, &results);
        all.into_iter().filter(|line| line.starts_with("w ") || line.ends_with(" w")).collect()
    }

    #[test]
    fn a_tenant_that_passed_has_a_result_and_a_session() {
        let session = Report::Session(report::Session { tenant: clip("w"), ..report::Session::default() });
        let load = Report::Load(report::Load { tenant: clip("w"), ..report::Load::default() });
        let (bench, hostile) = (
            "program.name = \"bench\"\n[tenant.program.config]",
            "program.name = \"hostile\"\n[tenant.program.config]",
        );
        assert!(of_the_tenant(bench, vec![load, session.clone()]).is_empty());
        assert_eq!(of_the_tenant(bench, vec![session]), ["w reported no result"]);
        assert_eq!(of_the_tenant(hostile, vec![]), ["nothing was reported of the session of w"]);
    }

    #[test]
    fn a_namespace_that_a_fault_refuses_may_be_missing() {
        let judged = |fault: &str| {
            let text = format!(
                "name = \"t\"\ndescription = \"t\"\n[[controller]]\nname = \"a\"\n[[controller.namespace]]\nsize = \"1M\"\n\
                 [[controller.namespace]]\nsize = \"1M\"\n[[tenant]]\nname = \"w\"\nqueue_pairs = 1\n\
                 extents = [{{ first = 0, blocks = 1024 }}]\nprogram.name = \"bench\"\n[tenant.program.config]\n{fault}\n"
            );
            let system = System { specification: Default::default(), data: Vec::new(), environments: Vec::new() };
            let (server, blocks) = (clip("nvme-server"), 2048);
            let first = report::Namespace { server, nsid: 1, blocks, block_bytes: 512 };
            let mut results = Results::default();
            results.add(Report::Namespace(first), Duration::ZERO);
            let all = lines(&Scenario::parse(&text, "t.toml").unwrap(), &system, &results);
            all.iter().any(|line| line.contains("reported 1 namespaces, and there are 2"))
        };
        let fault =
            |nsid, effect| format!("[[fault]]\ncommand = {{ queues = \"admin\", nsid = {nsid}, effect = {effect} }}");
        let refusal = "{ status = { sct = 0, sc = 11 } }";
        assert!(!judged(&fault(2, refusal)));
        assert!(judged("") && judged(&fault(1, "\"drop-completion\"")) && judged(&fault(2, "\"lose-interrupt\"")));
    }

    #[test]
    fn who_faulted_has_no_session_that_was_closed() {
        let kind = report::FaultKind::Read;
        let fault = report::Fault { component: 4, name: clip("w"), kind, address: 0, instruction: 0 };
        assert!(
            of_the_tenant("program.name = \"hostile\"\n[tenant.program.config]", vec![Report::Fault(fault)]).is_empty()
        );
    }

    #[test]
    fn a_component_speaks_for_itself_alone() {
        let client = Some(Role::Client);
        let done = Report::Done { tenant: clip("alice"), passed: true };
        assert!(may_say(4, "alice", client, &done));
        assert!(!may_say(5, "mallory", client, &done));
        let fault = report::Fault {
            component: 4,
            name: clip("alice"),
            kind: report::FaultKind::Read,
            address: 0,
            instruction: 0,
        };
        assert!(may_say(0, "root-task", None, &Report::Fault(fault.clone())));
        assert!(!may_say(5, "mallory", client, &Report::Fault(fault)));
        let dead = Report::Failure { component: clip("alice"), reason: clip("stays dead") };
        assert!(may_say(0, "root-task", None, &dead) && !may_say(5, "mallory", client, &dead));
        let interrupted = Report::Interrupted { driver: clip("edu-driver"), interrupts: Default::default() };
        assert!(
            may_say(3, "edu-driver", Some(Role::EduDriver), &interrupted) && !may_say(4, "alice", client, &interrupted)
        );
        let session = Report::Session(report::Session { tenant: clip("alice"), ..report::Session::default() });
        assert!(
            may_say(3, "nvme-server", Some(Role::NvmeServer), &session) && !may_say(5, "mallory", client, &session)
        );
    }
}
