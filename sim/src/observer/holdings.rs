//! Holdings of components: capabilities in their CSpaces, pages in their VSpaces, pages that controllers reach. They are
//! counted when a server gives a session its first answer, and again at the end of the run. Both counts must be equal.
//!
//! Holdings that are kept on purpose are there at the first count already: a server's queues, page tables and vectors, which
//! stay for the next opening. Clients' windows are not counted then, and must be out of the controller's reach at the
//! end. Left out: the right to answer a caller, which a server holds for as long as it answers; windows of sessions that
//! wait for an answer when the run is cut off; attackers and their holdings; components that the scenario lets crash or stay
//! dead, which give nothing back; servers whose controller has another interrupt mode at the end than at the first count; tenants
//! that drive virtual functions, whose answers are not seen, and with them the PCI server, which gives them theirs at any time.

use super::pages::Pages;
use super::session::{Session, Trust};
use crate::machine::Machine;
use capdl::Scenario;
use capdl::scenario::{Controller, ControllerChange};
use capdl_spec::{Component, Role, Specification};
use platform::PAGE_BITS;
use sim_check::Accounting;
use sim_fault::{ComponentEffect, Fault};
use sim_kernel::{Capability, Kernel};
use std::collections::BTreeSet;

/// Roles of the components that serve every controller: they are counted with every server.
const SHARED: [Role; 3] = [Role::PciServer, Role::IommuServer, Role::Console];

const CAPABILITIES: &str = "capabilities";
const PAGES: &str = "pages in its VSpace";
const REACHED: &str = "pages in reach of its controller";

/// The counts, and their conditions.
pub(crate) struct Holdings {
    /// By controller: the time until which a count of its server can be compared with the one at the end.
    one_way_until_ns: Vec<u64>,
    /// Components that the scenario lets crash, and those that are not counted for another reason.
    crash: BTreeSet<String>,
    /// Servers and tenants that were counted at the beginning.
    components: BTreeSet<String>,
    /// By session: it had an answer.
    answered: Vec<bool>,
    /// Controllers whose server died and has answered no session since. The PCI server holds less meanwhile.
    down: BTreeSet<u32>,
    /// A session had its first answer while a server was down: the shared components are counted when none is.
    owed: bool,
}

/// The parts of the observer that a count needs.
pub(crate) struct Counted<'a> {
    pub(crate) pages: &'a Pages,
    pub(crate) sessions: &'a [Session],
    /// By controller: the name of its server.
    pub(crate) servers: &'a [String],
    pub(crate) kernel: &'a Kernel,
    pub(crate) accounting: &'a mut Accounting,
}

impl Holdings {
    /// Nothing is counted yet. By controller, `servers` has the name of its server. `survived` has the number of deaths
    /// that the server survives, if it stays dead in the end.
    pub(crate) fn new(
        scenario: &Scenario,
        specification: &Specification,
        servers: &[String],
        survived: &[Option<usize>],
    ) -> Self {
        let crash = |fault: &Fault| match fault {
            Fault::Component(fault) if matches!(fault.effect, ComponentEffect::Crash { .. }) => {
                Some(fault.component.clone())
            }
            _ => None,
        };
        let mut crash: BTreeSet<String> = scenario.faults.iter().filter_map(crash).collect();
        let servers = scenario.controllers.iter().zip(servers).zip(survived);
        for ((controller, server), _) in servers.filter(|(_, survived)| survived.is_some()) {
            // The PCI server takes its device back, and its clients lose the capability to call it.
            crash.extend(needed(specification).map(str::to_owned));
            crash.insert(server.clone());
            crash.extend(scenario.sessions(&controller.name).map(|tenant| tenant.name.clone()));
        }
        if super::numbers::all(scenario).any(|(_, tenant)| tenant.is_some()) {
            let of_pci = specification.components.iter().filter(|one| one.role == Role::PciServer);
            crash.extend(of_pci.map(|one| one.name.clone()));
        }
        let without_policy = |one: &&Controller| scenario.expect.faults.contains(&scenario.policy_name(&one.name));
        for controller in scenario.controllers.iter().filter(without_policy) {
            crash.extend(scenario.sessions(&controller.name).map(|tenant| tenant.name.clone()));
        }
        let answered = vec![false; scenario.tenants.len()];
        let one_way_until_ns = scenario.controllers.iter().map(|one| one_way_until_ns(scenario, one)).collect();
        Self { one_way_until_ns, crash, components: BTreeSet::new(), answered, down: BTreeSet::new(), owed: false }
    }

    /// Records the death of a controller's server; not that of a virtual function's driver.
    pub(crate) fn stopped(&mut self, controller: u32) {
        if (controller as usize) < self.one_way_until_ns.len() {
            self.down.insert(controller);
        }
    }

    /// Whether a count is due at this answer to a session of the controller. Called at each answer.
    pub(crate) fn is_due(&mut self, session: usize, controller: u32) -> bool {
        let is_back = self.down.remove(&controller) && self.down.is_empty();
        let is_first = self.answered.get_mut(session).is_some_and(|answered| !std::mem::replace(answered, true));
        is_first || (is_back && self.owed)
    }

    /// Counts the holdings at the beginning. The session has an answer, so it is open and its server is up.
    pub(crate) fn begin(&mut self, index: usize, now_ns: u64, machine: &Machine, counted: Counted<'_>) {
        let Counted { pages, sessions, servers, kernel, accounting } = counted;
        let Some(session) = sessions.get(index) else { return };
        let Some(server) = servers.get(session.controller as usize) else { return };
        for (server, until_ns) in servers.iter().zip(&self.one_way_until_ns) {
            if now_ns >= *until_ns {
                // A count taken now would differ from the one at the end.
                self.crash.extend(pages.named(Role::PciServer).map(str::to_owned));
                self.crash.insert(server.clone());
            }
        }
        let own =
            [server.as_str(), session.tenant.as_str()].into_iter().filter(|name| !self.components.contains(*name));
        // The PCI server holds more with each server that comes. Components that have not run yet are not counted yet.
        self.owed = !self.down.is_empty();
        let shared = SHARED.into_iter().filter(|_| !self.owed).filter_map(|role| pages.named(role));
        let running = own.chain(shared).filter_map(|name| Some((name, pages.component(name)?)));
        let running: Vec<_> = running.collect();
        for (name, (number, thread)) in running {
            accounting.baseline(number, CAPABILITIES, capabilities(kernel, thread));
            accounting.baseline(number, PAGES, kernel.vspace(thread).len() as u64);
            if name == server {
                let all = reached(machine, kernel, session.requester);
                let windows = windows(pages, sessions, session.controller, |_| true);
                accounting.baseline(number, REACHED, all.difference(&windows).count() as u64);
            }
            self.components.insert(name.to_owned());
        }
    }

    /// Counts the holdings at the end of the run.
    pub(crate) fn end(&self, machine: &Machine, counted: Counted<'_>) {
        let Counted { pages, sessions, servers, kernel, accounting } = counted;
        let attacks = |name: &str| sessions.iter().any(|one| one.tenant == name && one.trust == Trust::Attacks);
        let crashed = |name: &str| self.crash.contains(name);
        for name in &self.components {
            let Some((number, thread)) = pages.component(name) else { continue };
            if attacks(name) || crashed(name) {
                accounting.uncounted(number);
                continue;
            }
            accounting.finally(number, CAPABILITIES, capabilities(kernel, thread));
            accounting.finally(number, PAGES, kernel.vspace(thread).len() as u64);
            let Some(controller) = servers.iter().position(|server| server == name) else { continue };
            let all = reached(machine, kernel, machine.requester_id(controller as u32));
            let open = |one: &Session| one.trust == Trust::Attacks || crashed(&one.tenant) || one.waits();
            let excused = windows(pages, sessions, controller as u32, open);
            accounting.finally(number, REACHED, all.difference(&excused).count() as u64);
        }
    }
}

/// Returns the time until which a controller's server and the PCI server hold as much for its interrupts as in the end. It
/// is unlimited where the interrupt mode never changes, the first change where the last one leads back, and zero where the last
/// mode is another or the controller is lost.
fn one_way_until_ns(scenario: &Scenario, controller: &Controller) -> u64 {
    let last = controller.changes.iter().max_by_key(|change| change.when.after_ms);
    let known = |change: &ControllerChange| if change.when.at.is_none() { change.when.after_ms } else { 0 };
    let first_ms = controller.changes.iter().map(known).min();
    match (last, first_ms) {
        (Some(last), Some(first_ms)) => {
            let leads_back =
                last.interrupts == controller.interrupts && !scenario.expect.lost.contains(&controller.name);
            if leads_back { u64::from(first_ms) * 1_000_000 } else { 0 }
        }
        _ => u64::MAX,
    }
}

/// Counts the capabilities in a component's CSpace, without rights to answer.
fn capabilities(kernel: &Kernel, thread: sim_kernel::ThreadId) -> u64 {
    kernel.cspace(thread).iter().filter(|held| !matches!(held.cap, Capability::Reply { .. })).count() as u64
}

/// Returns the pages that a controller reaches.
fn reached(machine: &Machine, kernel: &Kernel, requester: Option<u16>) -> BTreeSet<u64> {
    let pages = requester.map(|requester| machine.reached(kernel, requester)).unwrap_or_default();
    pages.iter().map(|page| page.bits() >> PAGE_BITS).collect()
}

/// Returns the pages of the windows of a controller's sessions, for those sessions that `wanted` accepts.
fn windows(pages: &Pages, sessions: &[Session], controller: u32, wanted: impl Fn(&Session) -> bool) -> BTreeSet<u64> {
    let own = sessions.iter().filter(|session| session.device() == controller && wanted(session));
    own.filter_map(|one| Some(pages.mapped_at(&one.tenant, one.window()?))).flatten().collect()
}

/// Returns the names of the servers that a driver cannot do without.
pub(super) fn needed(specification: &Specification) -> impl Iterator<Item = &str> {
    let is_needed = |one: &&Component| matches!(one.role, Role::PciServer | Role::IommuServer);
    specification.components.iter().filter(is_needed).map(|one| one.name.as_str())
}
