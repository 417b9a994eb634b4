//! Typed results of a run: filled from the components' reports, read by tables, JSON and verdicts.

use crate::records::lateness::Lateness;
use crate::records::plan::{Plan, Planned};
use crate::records::timeline::Timeline;
use capdl::Scenario;
use capdl::programs::ROOT_TASK;
use capdl::scenario::{Guarantee, Tenant};
use capdl_spec::Role;
use report::{
    Attack, Blocked, Change, Component, Controller, Digest, Fault, FaultKind, Installed, Interrupts, InterruptsChange,
    Load, Machine, Measured, Name, Namespace, PciFunction, Reconnected, Refused, Report, ResetScope, Restart, Session,
    Stamped, TelemetryPages, Value,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// A kernel that is not the project's own.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OtherKernel {
    /// The release, by its interface; in the simulator those that it stands for.
    pub release: String,
    /// The file; none in the simulator.
    pub file: Option<String>,
    /// By guarantee that the kernel lacks, what it leaves.
    pub leaves: BTreeMap<&'static str, &'static str>,
}

/// All results of a run.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Results {
    /// The scenario.
    pub scenario: String,
    /// The architecture.
    pub arch: &'static str,
    /// The kernel, if it is not the project's own.
    pub kernel: Option<OtherKernel>,
    /// The seed of a simulated run; none on QEMU.
    pub seed: Option<u64>,
    /// Whether everything expected was there and correct.
    pub passed: bool,
    /// Reasons for not passing.
    pub reasons: Vec<String>,
    /// Guarantees on which the scenario relies and which the kernel lacks, if the run did not pass: it has not failed then.
    pub not_promised: Vec<&'static str>,
    /// Rows that are neither passed nor failed, because the build machine was too slow for their times, with the measured lateness.
    pub not_judged: Vec<String>,
    /// How late QEMU was; none in the simulator, and where the system does not count it.
    pub lateness: Option<Lateness>,
    /// QEMU ended by a signal that nobody sent it.
    #[serde(skip)]
    pub emulator_crashed: bool,
    /// Seconds from QEMU's start to its end.
    pub seconds: f64,
    /// Seconds from QEMU's start to the first verified transfer of a tenant.
    pub(crate) first_verified_io_seconds: Option<f64>,
    /// The folder of the run, relative to the project; empty without one.
    #[serde(skip)]
    pub folder: String,
    /// By kind, the files of the run that are there, relative to the project, and their folder.
    pub files: BTreeMap<&'static str, String>,
    /// The machine.
    pub machine: Option<Machine>,
    /// The components, as started.
    pub components: Vec<Component>,
    /// PCI functions, in the order of enumeration.
    pub pci: Vec<PciFunction>,
    /// Controllers.
    pub controllers: Vec<Controller>,
    /// Namespaces.
    pub namespaces: Vec<Namespace>,
    /// Measurements of load generators.
    pub tenants: Vec<Load>,
    /// Servers' counts for sessions.
    pub sessions: Vec<Session>,
    /// Sessions that were not opened, and why.
    pub refused: Vec<Refused>,
    /// Attacks and their outcomes.
    pub attacks: Vec<Attack>,
    /// Digests of ranges.
    pub digests: Vec<Compared>,
    /// Faults.
    pub faults: Vec<Faulted>,
    /// Restarts of components.
    pub restarts: Vec<Restart>,
    /// Changes of rights that were carried out.
    pub changes: Vec<Change>,
    /// Changes of controllers' interrupt modes.
    pub(crate) interrupts_changes: Vec<InterruptsChange>,
    /// Interrupts that drivers without sessions took.
    #[cfg_attr(feature = "schema", schemars(with = "std::collections::BTreeMap<&'static str, Interrupts>"))]
    pub interrupted: BTreeMap<Name, Interrupts>,
    /// Clients that opened their sessions again.
    pub reconnected: Vec<Reconnected>,
    /// Parts of controllers that were recreated because of their errors.
    pub resets: Vec<Reset>,
    /// The last driver of each function, by requester id.
    #[cfg_attr(feature = "schema", schemars(with = "std::collections::BTreeMap<u16, &'static str>"))]
    pub drivers: BTreeMap<u16, Name>,
    /// Transactions of functions that the IOMMU blocked, by function, where its server reports them.
    pub blocked: BTreeMap<u16, Blocked>,
    /// Checks that failed inside the machine.
    pub failures: Vec<Failed>,
    /// Numbers that client programs found.
    pub values: Vec<Value>,
    /// Measured parts.
    pub measured: Vec<Measured>,
    /// Bytes of components' logs that were overwritten before the console read them.
    pub(crate) lost_log_bytes: BTreeMap<String, u64>,
    /// Tenants that have finished, and whether all their checks held.
    #[cfg_attr(feature = "schema", schemars(with = "std::collections::BTreeMap<&'static str, bool>"))]
    pub done: BTreeMap<Name, bool>,
    /// Events and progress over time.
    pub timeline: Timeline,
    /// Where the components' telemetry is in the machine's memory.
    #[serde(skip)]
    pub telemetry_pages: Vec<TelemetryPages>,
    /// The roles of the specification's components, by name. The root task has none.
    #[serde(skip)]
    pub(crate) roles: BTreeMap<Name, Role>,
    /// The machine's time, in nanoseconds, at which each tenant reported its end.
    #[serde(skip)]
    pub(crate) done_at: BTreeMap<Name, u64>,
    /// The time of the last report of each tenant's attack, fault or expulsion.
    #[serde(skip)]
    pub(crate) acted_at: BTreeMap<Name, u64>,
    /// Reports without times so far.
    #[cfg(test)]
    #[serde(skip)]
    pub added: u64,
    /// The server of each tenant: of its session, or of its function's controller.
    #[serde(skip)]
    pub servers: BTreeMap<String, String>,
    /// Limits and changes that the scenario declares.
    #[serde(skip)]
    pub(crate) plan: Plan,
    /// Free memory of servers at each opening of a session.
    #[serde(skip)]
    pub opened: Vec<Opened>,
    /// Empty cptrs of the PCI server at each claim of a function, in order.
    #[serde(skip)]
    pub(crate) claims: Vec<Claim>,
    /// Installed capabilities, where the scenario asks for them.
    #[serde(skip)]
    pub installed: Vec<Installed>,
    /// The earliest verified transfer by the machine's clock, nanoseconds.
    #[serde(skip)]
    pub(crate) first_io_ns: Option<u64>,
    /// The first verified transfer of each tenant by the machine's clock, nanoseconds.
    #[serde(skip)]
    pub(crate) working_since_ns: BTreeMap<Name, u64>,
    /// Least difference seen between the machine's clock and the build machine's, nanoseconds.
    #[serde(skip)]
    pub(crate) clock_offset_ns: Option<i128>,
}

/// A fault, with its time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Faulted {
    /// Time in nanoseconds of the machine's clock.
    pub at_ns: u64,
    /// The fault.
    #[serde(flatten)]
    pub fault: Fault,
}

/// Free memory of a server when it opened a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opened {
    /// Time of the opening, nanoseconds of machine time.
    pub at_ns: u64,
    /// Tenant of the session.
    pub tenant: Name,
    /// Pages of its own memory.
    pub(crate) pages_left: u32,
    /// IO page tables.
    pub(crate) io_tables_left: u32,
}

/// A claim of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Claim {
    /// The driver.
    pub driver: Name,
    /// Empty cptrs of the PCI server's CSpace after it.
    pub(crate) cptrs_left: u32,
}

/// A digest, and the build machine's own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compared {
    /// The tenant that read.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub tenant: Name,
    /// First byte of the range on the namespace.
    pub first_byte: u64,
    /// Bytes.
    pub bytes: u64,
    /// SHA-256 of what the tenant read, in hexadecimal.
    pub(crate) sha256: String,
    /// The build machine's digest, if it has the bytes.
    pub build_machine_sha256: Option<String>,
}

/// A part of a controller that was recreated.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reset {
    /// The controller's server.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub component: Name,
    /// Size of the recreated part.
    pub scope: ResetScope,
    /// Time in nanoseconds of the machine's clock.
    pub at_ns: u64,
    /// Reason.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub reason: report::Text,
}

/// A check that failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Failed {
    /// Component that checked.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub component: Name,
    /// Time in nanoseconds of the machine's clock, if the machine reported it.
    pub at_ns: Option<u64>,
    /// The reason, in one sentence.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub reason: report::Text,
}

/// Nanoseconds after the first transfer during which the two clocks are assumed to run at the same rate.
const CLOCKS_AGREE_NS: u64 = 1_000_000_000;

/// `bytes` in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Results {
    /// Whether something was expected that the kernel promises, and did not happen.
    pub fn failed(&self) -> bool {
        !self.passed && self.not_promised.is_empty()
    }

    /// Notes the guarantees on which the scenario relies and which the kernel lacks, if the run did not pass. A system that never started
    /// shows nothing of the kernel, and has failed.
    pub fn take_promises(&mut self, relies_on: &[Guarantee]) {
        if self.passed || self.components.is_empty() {
            return;
        }
        let lacks = |name: &&str| self.kernel.as_ref().is_some_and(|kernel| kernel.leaves.contains_key(name));
        self.not_promised = relies_on.iter().map(|one| one.as_str()).filter(lacks).collect();
    }

    /// Takes the scenario's name, and who serves its tenants.
    pub fn take_scenario(&mut self, scenario: &Scenario) {
        self.scenario.clone_from(&scenario.name);
        let served = |tenant: &Tenant| (tenant.name.clone(), scenario.server_name(&tenant.controller));
        self.servers = scenario.tenants.iter().map(served).collect();
        self.plan = Plan::of(scenario);
    }

    /// Adds a record that came `arrived` after QEMU's start.
    pub fn take(&mut self, record: Stamped, arrived: Duration) {
        let planned = match &record.report {
            Report::Change(change) => self.planned_for(&self.changes, change).map(|planned| planned.words.clone()),
            _ => None,
        };
        self.timeline.take(&record, planned.as_deref());
        if let Report::Opened { tenant, pages_left, io_tables_left } = &record.report {
            let (tenant, at_ns) = (tenant.clone(), record.at_ns);
            let (pages_left, io_tables_left) = (*pages_left, *io_tables_left);
            self.opened.push(Opened { at_ns, tenant, pages_left, io_tables_left });
        }
        self.put(record.report, arrived, record.at_ns);
    }

    /// Adds a report that came `arrived` after QEMU's start, without its time: it is later than those before it.
    #[cfg(test)]
    pub fn add(&mut self, report: Report, arrived: Duration) {
        self.added += 1;
        self.put(report, arrived, self.added);
    }

    fn put(&mut self, report: Report, arrived: Duration, at_ns: u64) {
        self.keep_order(&report, at_ns);
        match report {
            Report::Machine(machine) => {
                self.set_clock(machine.started_at_ns, arrived);
                self.machine = Some(machine);
            }
            Report::Component(component) => self.components.push(component),
            Report::Installed(installed) => self.installed.push(installed),
            Report::Fault(fault) => self.faults.push(Faulted { at_ns, fault }),
            Report::Restart(restart) => self.restarts.push(restart),
            Report::Change(change) => self.changes.push(change),
            Report::InterruptsChange(change) => self.interrupts_changes.push(change),
            Report::Reconnected(reconnected) => self.reconnected.push(reconnected),
            // A restarted PCI server reports all functions again.
            Report::PciFunction(function) => match self.pci.iter_mut().find(|known| known.bdf == function.bdf) {
                Some(known) => *known = function,
                None => self.pci.push(function),
            },
            Report::Controller(controller) => self.controllers.push(controller),
            Report::Namespace(namespace) => self.namespaces.push(namespace),
            Report::Session(session) => self.sessions.push(session),
            Report::FirstIo { tenant, at_ns } => {
                self.working_since_ns.entry(tenant).or_insert(at_ns);
                self.first_io_ns = Some(self.first_io_ns.map_or(at_ns, |first| first.min(at_ns)));
                self.set_clock(at_ns, arrived);
            }
            Report::Load(load) => self.tenants.push(load),
            Report::Digest(digest) => self.digests.push(compared(digest)),
            Report::Attack(attack) => self.attacks.push(attack),
            Report::Measured(measured) => self.measured.push(measured),
            Report::Value(value) => self.values.push(value),
            Report::Reset { server, scope, reason } => {
                self.resets.push(Reset { component: server, scope, at_ns, reason })
            }
            Report::Blocked(blocked) => {
                let known = self.blocked.entry(blocked.requester_id);
                known.and_modify(|known| known.times = known.times.saturating_add(blocked.times)).or_insert(blocked);
            }
            Report::Claimed { driver, requester_id, cptrs_left } => {
                self.claims.push(Claim { driver: driver.clone(), cptrs_left });
                self.drivers.insert(requester_id, driver);
            }
            Report::Failure { component, reason } => {
                self.failures.push(Failed { component, at_ns: Some(at_ns), reason })
            }
            Report::Done { tenant, passed } => {
                self.done.insert(tenant, passed);
            }
            Report::Refused(refused) => self.refused.push(refused),
            Report::Interrupted { driver, interrupts } => {
                self.interrupted.insert(driver, interrupts);
            }
            // These are useful with their times only, in the timeline.
            Report::Opened { .. } | Report::Progress(_) | Report::Event { .. } => {}
            Report::TelemetryPages(pages) => self.telemetry_pages.push(pages),
        }
    }

    /// Keeps the machine's time at which a tenant finished, and at which it last attacked or was ended. Records of two components
    /// arrive in another order when they wait for the console.
    fn keep_order(&mut self, report: &Report, at_ns: u64) {
        let acted = match report {
            Report::Done { tenant, .. } => {
                self.done_at.insert(tenant.clone(), at_ns);
                return;
            }
            Report::Attack(attack) => &attack.tenant,
            Report::Fault(fault) => &fault.name,
            Report::Session(session) if !session.ended_by.is_empty() => &session.tenant,
            _ => return,
        };
        self.acted_at.insert(acted.clone(), at_ns);
    }

    /// Records that `component` did something that a sound component never does.
    pub fn fail(&mut self, component: &str, reason: &str) {
        self.failures.push(Failed { component: report::clip(component), at_ns: None, reason: report::clip(reason) });
    }

    /// Updates the offset of the clocks from a record made at `at_ns` of the machine's time, which arrived `arrived` after QEMU's
    /// start. Records wait for the console, so the least difference seen is the nearest to the true offset, and never below it.
    /// Later records are ignored, because one clock is a little faster than the other.
    pub(crate) fn set_clock(&mut self, at_ns: u64, arrived: Duration) {
        if self.first_io_ns.is_some_and(|first| at_ns > first.saturating_add(CLOCKS_AGREE_NS)) {
            return;
        }
        let offset = arrived.as_nanos() as i128 - i128::from(at_ns);
        self.clock_offset_ns = Some(self.clock_offset_ns.map_or(offset, |least| least.min(offset)));
        let first = self.first_io_ns.zip(self.clock_offset_ns);
        self.first_verified_io_seconds = first.map(|(at, offset)| (i128::from(at) + offset) as f64 / 1e9);
    }

    /// Zero of the run's times, in a phrase.
    pub const fn zero(&self) -> &'static str {
        match self.seed {
            Some(_) => "virtual time since the start of the machine",
            None => "time since the start of the system, after that of QEMU",
        }
    }

    /// The time after QEMU's start at which the machine's clock showed `at_ns`.
    pub(crate) fn age_at(&self, at_ns: u64) -> Option<Duration> {
        let ns = i128::from(at_ns) + self.clock_offset_ns?;
        Some(Duration::from_nanos(u64::try_from(ns).unwrap_or(0)))
    }

    /// The machine's clock at `age` after QEMU's start, nanoseconds.
    pub(crate) fn machine_ns(&self, age: Duration) -> u64 {
        let ns = age.as_nanos() as i128 - self.clock_offset_ns.unwrap_or(0);
        u64::try_from(ns).unwrap_or(0)
    }

    /// The reason for which the root task could not build the system.
    pub(crate) fn not_built(&self) -> Option<&str> {
        let mut failures = self.failures.iter().filter(|_| self.components.is_empty());
        failures.find(|failure| failure.component == ROOT_TASK).map(|failure| failure.reason.as_str())
    }

    /// Interrupts by mode and name: of sessions, and of drivers without sessions.
    pub fn interrupts(&self) -> impl Iterator<Item = (&Name, &Interrupts)> {
        let sessions = self.sessions.iter().map(|session| (&session.tenant, &session.interrupts));
        sessions.chain(&self.interrupted)
    }

    /// Whether a component with this role was started.
    pub fn has(&self, role: Role) -> bool {
        self.components.iter().any(|component| self.roles.get(&component.name) == Some(&role))
    }

    /// The change of the scenario that the report `index` is about.
    pub(crate) fn planned(&self, index: usize) -> Option<&Planned> {
        let (earlier, rest) = self.changes.split_at_checked(index)?;
        self.planned_for(earlier, rest.first()?)
    }

    /// The change of the scenario that a report is about, after `earlier` ones. A restarted policy component reports its changes again,
    /// so nobody knows then.
    fn planned_for(&self, earlier: &[Change], report: &Change) -> Option<&Planned> {
        let earlier = earlier.iter().filter(|one| one.tenant == report.tenant).count();
        let known = self.restarts_of(&report.policy) == 0;
        known.then(|| self.plan.change(&report.tenant, earlier, report.what)).flatten()
    }

    /// Whether the component or tenant `name` faulted.
    pub(crate) fn faulted(&self, name: &str) -> bool {
        self.faults.iter().any(|Faulted { fault, .. }| fault.name == name)
    }

    /// How often a tenant had its session again.
    pub(crate) fn sessions_again(&self, tenant: &str) -> usize {
        self.reconnected.iter().filter(|one| one.tenant == tenant).count()
    }

    /// How often the component `name` was restarted.
    pub(crate) fn restarts_of(&self, name: &str) -> usize {
        self.restarts.iter().filter(|restart| restart.name == name).count()
    }

    /// How often a component was restarted because a server that it ended with died.
    pub(crate) fn restarts_with_server(&self, name: &str) -> usize {
        let ended = |Faulted { fault, .. }: &&Faulted| fault.name == name && fault.kind == FaultKind::ServerDied;
        self.faults.iter().filter(ended).count().min(self.restarts_of(name))
    }

    /// The reason for which the server ended the session of `tenant`, if it did.
    pub(crate) fn expelled(&self, tenant: &str) -> Option<&str> {
        let mut ended = self.sessions.iter().filter(|session| session.tenant == tenant);
        ended.find(|session| !session.ended_by.is_empty()).map(|session| session.ended_by.as_str())
    }
}

fn compared(digest: Digest) -> Compared {
    Compared {
        tenant: digest.tenant,
        first_byte: digest.first_byte,
        bytes: digest.bytes,
        sha256: hex(&digest.sha256),
        build_machine_sha256: None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Results of a run of two tenants on a limited controller, with reports at times in milliseconds. `more` continues the scenario.
    pub(crate) fn of_reports(more: &str, reports: impl IntoIterator<Item = (u64, Report)>) -> Results {
        let tenant = |name: &str, first: u32| {
            format!(
                "[[tenant]]\nname = \"{name}\"\nclass = \"high\"\nqueue_pairs = 1\nprogram.name = \"bench\"\n\
                 extents = [{{ first = {first}, blocks = 1024 }}]\n"
            )
        };
        let text = format!(
            "name = \"t\"\ndescription = \"t\"\n[[controller]]\nname = \"disk\"\niops_limit = 4000\n\
             [[controller.namespace]]\nsize = \"64M\"\n{}{}{more}",
            tenant("a", 0),
            tenant("b", 1024)
        );
        let mut results = Results::default();
        results.take_scenario(&Scenario::parse(&text, "t").unwrap());
        let stamped = |(at_ms, report): (u64, Report)| Stamped { at_ns: at_ms * 1_000_000, report };
        reports.into_iter().for_each(|one| results.take(stamped(one), Duration::ZERO));
        results
    }

    fn first_io(at_ns: u64) -> Report {
        Report::FirstIo { tenant: report::clip("a"), at_ns }
    }

    #[test]
    fn only_a_system_that_started_can_miss_what_is_not_promised() {
        let leaves = BTreeMap::from([(Guarantee::IoSpaceRevoke.as_str(), "")]);
        let kernel = Some(OtherKernel { release: String::new(), file: None, leaves });
        let mut results = Results { kernel, ..Results::default() };
        results.take_promises(&[Guarantee::IoSpaceRevoke]);
        assert!(results.failed());
        let component = Component { component: 1, name: report::clip("w"), priority: 1, capabilities: 0, pages: 0 };
        results.components.push(component);
        results.take_promises(&[Guarantee::IoSpaceRevoke]);
        assert!(!results.failed() && !results.passed);
    }

    #[test]
    fn first_transfer_is_timed_by_the_machines_clock() {
        let mut results = Results::default();
        // The record came half a second late; the line's own time shows that the clocks are 0.1 s apart.
        results.add(first_io(1_000_000_000), Duration::from_millis(1_600));
        assert_eq!(results.first_verified_io_seconds, Some(1.6));
        results.set_clock(2_000_000_000, Duration::from_millis(2_100));
        assert_eq!(results.first_verified_io_seconds, Some(1.1));
        // A machine whose clock has gained two seconds in ten.
        results.set_clock(12_000_000_000, Duration::from_millis(10_100));
        assert_eq!(results.first_verified_io_seconds, Some(1.1));
    }

    #[test]
    fn a_session_that_was_closed_in_order_is_not_an_expulsion() {
        let mut results = Results::default();
        results.add(Report::Session(Session { tenant: report::clip("a"), ..Session::default() }), Duration::ZERO);
        assert_eq!(results.expelled("a"), None);
        let ended_by = report::clip("tail beyond the ring");
        results.add(
            Report::Session(Session { tenant: report::clip("a"), ended_by, ..Session::default() }),
            Duration::ZERO,
        );
        assert_eq!(results.expelled("a"), Some("tail beyond the ring"));
    }
}
