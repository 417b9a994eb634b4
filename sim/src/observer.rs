//! Observation of a run, and reports to the checkers.
//!
//! The observer asks no component. It sees requests where they cross from one component to another: when an index of a ring
//! is published. It reads contents from the window at these moments. Rights to pages are worked out from the
//! specification, not from the kernel model's capabilities. Commands, resets and losses of power are reported by the
//! controllers' own records.

mod contents;
mod controllers;
mod functions;
mod holdings;
mod numbers;
mod pages;
mod rights;
mod session;
mod shares;

use crate::disk::Disk;
use crate::iommu::DeviceMemory;
use crate::machine::Machine;
use crate::translations::Translations;
use blk_api::operation::{Data as Moved, Opcode};
use blk_api::{Status, names};
use capdl::Scenario;
use capdl::scenario::{Backend, Control};
use capdl_spec::{Component, Role, Specification};
use contents::{End, answered, asked, initial, request_id};
use controllers::{Checkers, ControllerReports};
use functions::{Functions, Judges};
use holdings::{Counted, Holdings, needed};
use pages::Pages;
use platform::{PAGE_BITS, PAGE_SIZE, Paddr, Region, RegionKind, Vaddr};
use rights::Rights as Changing;
use session::{PUBLISHES, Session, Sight, Trust};
use sim_check::{
    Accounting, Checker, Data, Discard, Fairness, Findings, Hash, Liveness, LivenessBounds, NamespaceRules, Rights,
    Subject, WriteCache,
};
use sim_kernel::{Access, IoFault, Kernel, ThreadId, ThreadState};
use sim_nvme::{Event, ViolationKind};
use std::collections::BTreeMap;
use std::ops::Range;

/// Findings that are reported; further ones are only counted.
const FINDINGS_KEPT: usize = 20;
/// Upper limit on the time to an answer: a command's timeout, a reset, and the request resubmitted.
const ANSWER_NS: u64 = 120_000_000_000;
const READ_WRITE: Rights = Rights { read: true, write: true };

/// The observer.
pub(crate) struct Observer {
    pub(crate) findings: Findings,
    sessions: Vec<Session>,
    /// By controller, virtual functions' last: the name of its driver, which is its server or its tenant; empty for none.
    servers: Vec<String>,
    /// Deaths of servers.
    dead: Vec<Dead>,
    /// Whether the PCI server is dead.
    pci_server_is_dead: bool,
    /// By controller whose server stays dead in the end, since the scenario tests that: the number of deaths before its last.
    survived: Vec<Option<usize>>,
    controllers: Vec<ControllerReports>,
    functions: Functions,
    pages: Pages,
    data: Data,
    liveness: Liveness,
    accounting: Accounting,
    holdings: Holdings,
    fairness: Fairness,
    changing: Changing,
    /// By requester id, the controller, once its server has run.
    requesters: BTreeMap<u16, u32>,
    commands: u64,
    /// Buffers that are kept to save allocations.
    sights: Vec<Sight>,
    hashes: Vec<Hash>,
    touched: Vec<u64>,
}

/// A period in which a controller's server was dead.
struct Dead {
    controller: u32,
    time: Range<u64>,
    /// Time after which nothing from before the death goes on any more: its successor's first reset.
    over_ns: u64,
    /// The PCI server was dead in it too: capabilities from it were revoked while the controller went on.
    without_pci_server: bool,
}

/// A ring's region as one side has it mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    session: usize,
    side: Side,
    vaddr: Vaddr,
    thread: ThreadId,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Client,
    Server,
}

impl Observer {
    pub(crate) fn new(scenario: &Scenario, specification: &Specification, disks: &[Vec<Disk>]) -> Self {
        let mut findings = Findings::new(FINDINGS_KEPT);
        let sessions: Vec<Session> = scenario.tenants.iter().map(|tenant| Session::new(scenario, tenant)).collect();
        for (number, session) in (0..).zip(&sessions) {
            findings.name(Subject::Session(number), session.tenant.clone());
        }
        let mut data = Data::new();
        for (number, controller) in (0..).zip(&scenario.controllers) {
            findings.name(Subject::Controller(number), controller.name.clone());
            for (nsid, namespace) in (1..).zip(&controller.namespaces) {
                let disk = disks.get(number as usize).and_then(|disks| disks.get(nsid as usize - 1));
                // A null device forgets its data, and an operator may change those of others, so such blocks are not judged.
                let changes_data = scenario.control.as_ref().is_some_and(Control::changes_data);
                if let Some(disk) = disk.filter(|_| namespace.backend == Backend::File && !changes_data) {
                    let rules = NamespaceRules {
                        block_bytes: namespace.block_bytes as usize,
                        discard: Discard::OldOrZeroes,
                        write_cache: if controller.model.write_cache > 0 {
                            WriteCache::Volatile
                        } else {
                            WriteCache::None
                        },
                    };
                    data.namespace(number, nsid, rules, initial(disk, namespace.block_bytes as usize));
                }
            }
        }
        let mut servers: Vec<String> =
            (0..scenario.controllers.len()).map(|number| server_of(specification, number)).collect();
        for ((physical, tenant), number) in numbers::all(scenario).zip(servers.len() as u32..) {
            let name = scenario.controllers.get(physical).map_or("", |controller| controller.name.as_str());
            findings.name(Subject::Controller(number), format!("a virtual function of {name}"));
            servers.push(tenant.map(|tenant| tenant.name.clone()).unwrap_or_default());
        }
        let survived: Vec<_> = servers.iter().map(|server| survived(scenario, specification, server)).collect();
        let pages = Pages::new(specification, &mut findings);
        let liveness = Liveness::new(LivenessBounds { answer_ns: ANSWER_NS, run_ns: ANSWER_NS });
        let (accounting, commands) = (Accounting::new(), 0);
        let (sights, hashes, touched) = (Vec::new(), Vec::new(), Vec::new());
        let controllers = ControllerReports::all(scenario);
        Self {
            findings,
            sessions,
            holdings: Holdings::new(scenario, specification, &servers, &survived),
            servers,
            dead: Vec::new(),
            pci_server_is_dead: false,
            survived,
            requesters: BTreeMap::new(),
            controllers,
            functions: Functions::new(scenario),
            pages,
            data,
            liveness,
            accounting,
            fairness: shares::fairness(scenario),
            changing: Changing::new(scenario),
            commands,
            sights,
            hashes,
            touched,
        }
    }

    /// Returns the place to observe in `part` of a component's region `granted`, if there is one.
    pub(crate) fn place(&self, component: &str, thread: ThreadId, granted: &Region, part: &Region) -> Option<Place> {
        if granted.vaddr != part.vaddr || granted.kind != RegionKind::ReadWrite {
            return None;
        }
        let (session, side) = match names::session_of_ring_server(&granted.name) {
            Some(index) => {
                let controller = self.servers.iter().position(|server| server == component)? as u32;
                let own = (0..).zip(&self.sessions).filter(|(_, session)| session.device() == controller);
                (own.map(|(number, _)| number).nth(index as usize)?, Side::Server)
            }
            None if granted.name == names::RING_CLIENT => {
                (self.sessions.iter().position(|session| session.tenant == component)?, Side::Client)
            }
            None => return None,
        };
        Some(Place { session, side, vaddr: granted.vaddr, thread })
    }

    /// Records the start of the component of this name, the first one or a restart.
    pub(crate) fn started(
        &mut self,
        name: &str,
        thread: ThreadId,
        regions: &[Region],
        kernel: &Kernel,
        machine: &Machine,
        now_ns: u64,
    ) {
        self.pages.started(name, thread, kernel, now_ns, &mut self.findings);
        let role = self.pages.role(name);
        for (number, server) in (0..).zip(&self.servers) {
            let Some(requester) = machine.requester_id(number).filter(|_| server == name) else { continue };
            if let Some(dead) = self.dead.iter_mut().rfind(|dead| dead.controller == number) {
                dead.time.end = dead.time.end.min(now_ns);
            }
            self.requesters.insert(requester, number);
            if machine.is_bus_master(number) && role != Some(Role::Probe) {
                self.findings.add(now_ns, Checker::Authority, Subject::Controller(number), || {
                    "it masters the bus when its server starts, and may reach what that maps for it".into()
                });
            }
            let pool = mapped(&self.pages, name, regions, names::DMA);
            let administered = self.pages.frames_of(name, names::ADMINISTRATION_WINDOW, kernel, thread);
            let reached = pool.iter().chain(&administered);
            reached.for_each(|page| self.pages.authority.pool(requester, *page..*page + 1, READ_WRITE));
            self.pages.registers(name, machine.register_pages(number));
            if role == Some(Role::Probe) {
                // A probe tries forbidden accesses on purpose; the run itself compares what stops it.
                self.pages.everything(name);
                self.pages.authority.pool(requester, 0..u64::MAX, READ_WRITE);
            }
        }
        if role == Some(Role::EduDriver) {
            self.pages.registers(name, machine.edu_pages());
        }
        if role == Some(Role::PciServer) {
            self.pci_server_is_dead = false;
            let range = machine.pci_window();
            self.pages.registers(name, range.start >> PAGE_BITS..range.end >> PAGE_BITS);
        }
        let window = mapped(&self.pages, name, regions, names::WINDOW);
        self.end_incarnation(name, &window, kernel, machine, now_ns);
        let Some((number, session)) = (0..).zip(&mut self.sessions).find(|(_, session)| session.tenant == name) else {
            return;
        };
        let Some(region) = regions.iter().find(|region| region.name == names::WINDOW) else { return };
        session.started(thread, region, machine.requester_id(session.device()));
        for page in window {
            self.pages.authority.window(number, page..page + 1, READ_WRITE);
            // The times of an attacker's requests, and of those to a function, are unknown from outside: the window is the limit.
            if (session.trust == Trust::Attacks || session.function.is_some())
                && let Some(requester) = session.requester
            {
                self.pages.authority.pool(requester, page..page + 1, READ_WRITE);
            }
        }
    }

    /// Allows the driver of a controller its registers, which software has just placed there.
    pub(crate) fn placed(&mut self, controller: u32, pages: Range<u64>) {
        if let Some(driver) = self.servers.get(controller as usize) {
            self.pages.registers(driver, pages);
        }
    }

    /// A client was restarted. No request of its previous incarnation goes on: no controller reaches its window, and no
    /// request has effect any more.
    fn end_incarnation(&mut self, name: &str, window: &[u64], kernel: &Kernel, machine: &Machine, now_ns: u64) {
        let own = self.sessions.iter_mut().zip(0..).find(|(session, _)| session.tenant == name);
        let Some((session, number)) = own else { return };
        let Some(requester) = session.requester else { return };
        let reached = machine.reached(kernel, requester);
        let reached = reached.iter().filter(|page| window.contains(&(page.bits() >> PAGE_BITS))).count();
        if reached > 0 {
            self.findings.add(now_ns, Checker::Authority, Subject::Session(number), || {
                format!("its client begins again with {reached} pages of the window in reach of its controller")
            });
        }
        for flight in session.begin_again() {
            self.pages.authority.release(request_id(number, &flight, 0));
            answered(&mut self.data, number, &flight, End::Perhaps, &[], now_ns, &mut self.findings);
        }
        self.liveness.session_ended(number);
        self.accounting.session_ended(number);
        self.fairness.session_ended(number);
    }

    /// Records the publication of a word in a ring's region, by the side that has these translations of it.
    #[expect(clippy::too_many_arguments, reason = "where it is looked at, and what is looked at there")]
    pub(crate) fn published(
        &mut self,
        place: &Place,
        translations: &Translations,
        offset: usize,
        value: u32,
        kernel: &Kernel,
        machine: &Machine,
        now_ns: u64,
    ) {
        if offset != PUBLISHES {
            return;
        }
        self.changing.follow(now_ns, |moment| self.pages.has_come(moment, kernel));
        let Some(session) = self.sessions.get_mut(place.session) else { return };
        let slot = |offset: usize, bytes: &mut [u8]| place.read(translations, kernel, offset, bytes);
        let mut sights = std::mem::take(&mut self.sights);
        match place.side {
            Side::Client => session.client_published(value, now_ns, slot, &mut sights),
            Side::Server => session.server_published(value, slot, &mut sights),
        }
        let answered = place.side == Side::Server && !sights.is_empty();
        for sight in sights.drain(..) {
            self.saw(place.session, &sight, kernel, now_ns);
            if let (Sight::Answered(id, _), Some(session)) = (sight, self.sessions.get_mut(place.session)) {
                session.end(id);
            }
        }
        self.sights = sights;
        let Self { pages, sessions, servers, accounting, holdings, .. } = self;
        let controller = sessions.get(place.session).map(|session| session.controller).filter(|_| answered);
        if controller.is_some_and(|controller| holdings.is_due(place.session, controller)) {
            let counted = Counted { pages, sessions, servers, kernel, accounting };
            holdings.begin(place.session, now_ns, machine, counted);
        }
    }

    fn saw(&mut self, index: usize, sight: &Sight, kernel: &Kernel, now_ns: u64) {
        let Some(session) = self.sessions.get(index).filter(|session| session.trust == Trust::Follows) else { return };
        let (number, findings) = (index as u32, &mut self.findings);
        match sight {
            Sight::Asked(id) => {
                let Some(flight) = session.flight(*id) else { return };
                let request = request_id(number, flight, 0);
                self.liveness.asked(request, now_ns);
                self.accounting.asked(request, now_ns, findings);
                self.fairness.asked(number, now_ns, findings);
                if let Some(requester) = session.requester {
                    session.pages(flight, kernel, &mut self.touched);
                    let device = match flight.opcode.data() {
                        Moved::ToWindow => sim_check::Access::Write,
                        Moved::FromWindow | Moved::None => sim_check::Access::Read,
                    };
                    self.pages.authority.lease(request, requester, &self.touched, device, now_ns, findings);
                }
                self.hashes.clear();
                if flight.opcode == Opcode::Write {
                    session.hash(flight, kernel, &mut self.hashes);
                }
                asked(&mut self.data, session, number, flight, &self.hashes, now_ns);
            }
            Sight::AskedAgain(id) => {
                let Some(flight) = session.flight(*id) else { return };
                for part in 0..flight.ranges.len().max(1) {
                    self.data.repeated(request_id(number, flight, part as u64));
                }
            }
            Sight::Answered(id, completed) => {
                let Some(flight) = session.flight(*id) else { return };
                let request = request_id(number, flight, 0);
                self.liveness.answered(request);
                self.accounting.answered(request, now_ns, findings);
                self.fairness.answered(number, flight.bytes(), now_ns, findings);
                self.pages.authority.release(request);
                let status = completed.status();
                if session.is_ended_by(status) {
                    self.liveness.session_ended(number);
                }
                self.changing.answered(number, flight, status, now_ns, findings);
                self.hashes.clear();
                if contents::shows(flight.opcode) && status == Some(Status::Success) {
                    session.hash(flight, kernel, &mut self.hashes);
                }
                let controller = self.controllers.get(session.controller as usize);
                let end = End::of(flight, status, controller);
                answered(&mut self.data, number, flight, end, &self.hashes, now_ns, findings);
            }
            Sight::AnsweredNothing(user_data) => {
                findings.add(now_ns, Checker::Accounting, Subject::Session(number), || {
                    format!("an answer names {user_data:#x}, which is no request in flight")
                });
            }
        }
    }

    /// Records an access of a component's thread: once for each page and direction until mappings change.
    pub(crate) fn touched(&mut self, thread: ThreadId, at: Paddr, access: Access, now_ns: u64) {
        self.pages.touched(thread, at.bits() >> PAGE_BITS, access, now_ns, &mut self.findings);
    }

    /// Records a device's transfer from or to a page.
    pub(crate) fn transferred(&mut self, requester_id: u16, page: u64, access: Access, now_ns: u64) {
        let access = if access == Access::Write { sim_check::Access::Write } else { sim_check::Access::Read };
        self.pages.authority.transfer(requester_id, page, access, now_ns, &mut self.findings);
    }

    /// Records a transfer that the IOMMU blocked. A device whose PCI server died goes on for a moment and reaches nothing. An
    /// attacker may have its function try anything. The blocked transfers of a probe's device are compared in the run itself.
    pub(crate) fn blocked(&mut self, fault: IoFault, now_ns: u64) {
        let IoFault { requester_id, iova, access } = fault;
        let excuses = |number: u32| self.death(number, now_ns).is_some_and(|dead| dead.without_pci_server);
        let is_excused =
            self.requesters.get(&requester_id).is_some_and(|number| excuses(*number) || self.is_attackers(*number));
        if !is_excused && self.pages.named(Role::Probe).is_none() {
            self.findings.add(now_ns, Checker::Authority, Subject::Requester(requester_id), || {
                format!("the IOMMU stopped a {access:?} at {iova:#x}, which its server should never have asked for")
            });
        }
    }

    /// Returns the number of commands that controllers finished.
    pub(crate) const fn commands(&self) -> u64 {
        self.commands
    }

    /// Records that an operator takes or gives rights of the tenant whose component has this number.
    pub(crate) fn ordered(&mut self, component: u16, blocks: (u64, u64, bool), now_ns: u64) {
        let name = self.pages.name(component).unwrap_or_default();
        if let Some(session) = self.sessions.iter().position(|session| session.tenant == name) {
            self.changing.ordered(session, blocks, now_ns);
        }
    }

    /// Records that the last order was refused.
    pub(crate) fn refused(&mut self) {
        self.changing.refused();
    }

    /// Reports requests past their deadline.
    pub(crate) fn check(&mut self, kernel: &Kernel, now_ns: u64) {
        self.let_the_dead_go(kernel);
        self.liveness.check(now_ns, &mut self.findings);
        self.fairness.check(now_ns, &mut self.findings);
    }

    /// Stops waiting for answers that cannot come: the client was stopped for good, or the server stays dead.
    fn let_the_dead_go(&mut self, kernel: &Kernel) {
        for (number, session) in (0..).zip(&self.sessions).filter(|(_, session)| session.waits()) {
            let thread = self.pages.component(&session.tenant).map(|(_, thread)| thread);
            let is_dead = thread.is_some_and(|thread| kernel.thread_state(thread) == Some(ThreadState::Inactive));
            if is_dead || self.is_dead_for_good(session.controller) {
                self.liveness.session_ended(number);
                self.fairness.session_ended(number);
            }
        }
    }

    /// Checks the invariants of the kernel's model.
    pub(crate) fn inspect(&mut self, kernel: &Kernel, now_ns: u64) {
        if let Err(wrong) = kernel.check_invariants() {
            self.findings.add(now_ns, Checker::Kernel, Subject::Kernel, || format!("its state cannot be: {wrong}"));
        }
    }

    /// Records an event of a controller, which reads `memory`.
    pub(crate) fn happened(&mut self, controller: u32, event: &Event, memory: DeviceMemory<'_>, now_ns: u64) {
        self.commands += u64::from(matches!(event, Event::Over(_)));
        if matches!(event, Event::Reset) {
            self.was_reset(controller, now_ns);
        }
        let Self { controllers, functions, sessions, changing, data, accounting, findings, .. } = self;
        if let Some(reported) = controllers.get_mut(controller as usize) {
            reported.happened(controller, event, now_ns, Checkers { data, accounting, findings });
        }
        let judges = Judges { sessions, rights: changing, data, findings };
        functions.happened(controller, event, memory, now_ns, judges);
    }

    /// Ends the observation and reports the last findings.
    pub(crate) fn finish(&mut self, machine: &Machine, kernel: &Kernel, now_ns: u64) {
        self.inspect(kernel, now_ns);
        self.let_the_dead_go(kernel);
        self.liveness.finish(now_ns, &mut self.findings);
        self.finish_accounting(machine, kernel, now_ns);
        for record in machine.violations() {
            let number = machine.controller_at(record.bdf.to_raw());
            let taken_back = record.violation == sim_pci::Violation::DmaWithoutBusMaster
                && number.is_some_and(|number| self.was_taken_back(number, record.at_ns));
            if taken_back || number.is_some_and(|number| self.is_attackers(number)) {
                continue;
            }
            let requester = record.bdf.to_raw();
            self.findings.add(record.at_ns, Checker::Accounting, Subject::Requester(requester), || {
                format!("its driver, or the PCI server, did what it must not: {:?}", record.violation)
            });
        }
        for violation in machine.iommu_violations() {
            let server = self.pages.named(Role::IommuServer).and_then(|name| self.pages.component(name));
            let server = server.map_or(0, |(number, _)| number);
            self.findings.add(now_ns, Checker::Accounting, Subject::Component(server), || {
                format!("it did to the SMMU what it must not: {violation:?}")
            });
        }
        for (number, controller) in machine.all_controllers() {
            let is_probes =
                self.servers.get(number as usize).is_some_and(|server| self.pages.role(server) == Some(Role::Probe));
            if is_probes || self.is_attackers(number) {
                // These try forbidden accesses on purpose.
                continue;
            }
            for violation in controller.violations() {
                let blocked = matches!(violation.kind, ViolationKind::DmaBlocked { .. });
                if blocked && self.was_taken_back(number, violation.at_ns) {
                    continue;
                }
                let about = || format!("its driver did what it must not: {:?}", violation.kind);
                self.findings.add(violation.at_ns, Checker::Accounting, Subject::Controller(number), about);
            }
        }
    }

    /// Records that a thread was stopped, for good or until its restart.
    pub(crate) fn stopped(&mut self, thread: ThreadId, now_ns: u64) {
        let is_stopped = |name: &str| self.pages.component(name).is_some_and(|(_, own)| own == thread);
        if self.pages.named(Role::PciServer).is_some_and(is_stopped) {
            self.pci_server_is_dead = true;
            let dead = self.dead.iter_mut().filter(|dead| dead.time.contains(&now_ns));
            dead.for_each(|dead| dead.without_pci_server = true);
        }
        if let Some(number) = self.servers.iter().position(|server| is_stopped(server)) {
            let without_pci_server = self.pci_server_is_dead;
            let time = now_ns..u64::MAX;
            self.dead.push(Dead { controller: number as u32, time, over_ns: u64::MAX, without_pci_server });
            self.holdings.stopped(number as u32);
        }
    }

    /// Whether the controller is that of a virtual function which an attacker drives.
    fn is_attackers(&self, controller: u32) -> bool {
        self.sessions.iter().any(|one| one.function == Some(controller) && one.trust == Trust::Attacks)
    }

    /// Whether the controller's server had died by then, and the controller was not reset since. The PCI server then takes
    /// the device back in the middle of its work; a live driver must not let that happen.
    fn was_taken_back(&self, controller: u32, at_ns: u64) -> bool {
        self.dead.iter().any(|dead| dead.controller == controller && (dead.time.start..dead.over_ns).contains(&at_ns))
    }

    /// Records a reset of the controller: no command from before it goes on.
    fn was_reset(&mut self, controller: u32, now_ns: u64) {
        let dead = self.dead.iter_mut().rfind(|dead| dead.controller == controller && dead.time.end <= now_ns);
        if let Some(dead) = dead {
            dead.over_ns = dead.over_ns.min(now_ns);
        }
    }

    /// Whether the controller's server has died and will not be started again.
    fn is_dead_for_good(&self, controller: u32) -> bool {
        let survived = self.survived.get(controller as usize).copied().flatten();
        survived
            .is_some_and(|survived| self.dead.iter().filter(|dead| dead.controller == controller).count() > survived)
    }

    fn death(&self, controller: u32, at_ns: u64) -> Option<&Dead> {
        self.dead.iter().find(|dead| dead.controller == controller && dead.time.contains(&at_ns))
    }

    /// Reports what is left over. Requests without an answer are reported by the checker of progress.
    fn finish_accounting(&mut self, machine: &Machine, kernel: &Kernel, now_ns: u64) {
        let Self { pages, sessions, servers, accounting, holdings, .. } = self;
        (0..).zip(&*sessions).for_each(|(number, _)| accounting.session_ended(number));
        // A run is cut off, so a command may be in flight, but not in a controller that has no further event.
        for (number, _) in machine.all_controllers().filter(|(_, one)| one.next_event_ns().is_some()) {
            accounting.controller_reset(number);
        }
        holdings.end(machine, Counted { pages, sessions, servers, kernel, accounting });
        self.accounting.finish(now_ns, &mut self.findings);
    }
}

/// Returns the name of the component that drives the controller of this number: its NVMe server, or the probe.
fn server_of(specification: &Specification, number: usize) -> String {
    let drives = |one: &&Component| match one.role {
        Role::NvmeServer => one.driver.map(usize::from) == Some(number),
        role => role == Role::Probe,
    };
    specification.components.iter().find(drives).map_or_else(String::new, |one| one.name.clone())
}

/// Returns how many deaths the server named `server` survives. Only for a server that is dead in the end, by itself or
/// because of a server that it needs.
fn survived(scenario: &Scenario, specification: &Specification, server: &str) -> Option<usize> {
    let expect = &scenario.expect;
    let all = || needed(specification).chain([server]);
    let times = all().filter_map(|name| expect.restarts.get(name)).map(|times| usize::from(*times)).sum();
    all().any(|name| expect.faults.iter().any(|fault| fault == name)).then_some(times)
}

/// Returns the pages of the component's region `region`, one of `regions`.
fn mapped(pages: &Pages, name: &str, regions: &[Region], region: &str) -> Vec<u64> {
    let region = regions.iter().find(|one| one.name == region);
    region.map_or_else(Vec::new, |region| pages.mapped_at(name, region.vaddr))
}

impl Place {
    /// Reads the region from `offset` on.
    fn read(&self, translations: &Translations, kernel: &Kernel, offset: usize, bytes: &mut [u8]) {
        // A slot never crosses a page: its size divides one, and the first begins at a multiple of it. The region begins
        // with a page, and the publisher of a slot has just written it. Translations are not learned here: the owner has
        // not accessed through them.
        let Some(vaddr) = self.vaddr.checked_add(offset as u64) else { return };
        let known = translations.known(kernel, offset / PAGE_SIZE, Access::Write);
        let known = known.map(|frame| Paddr::new(frame.bits() + vaddr.page_offset() as u64));
        if let Some(paddr) = known.or_else(|| kernel.translate(self.thread, vaddr, Access::Read).ok()) {
            let _ = kernel.memory().read(paddr, bytes);
        }
    }
}
