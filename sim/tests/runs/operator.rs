//! An operator who acts on a running system by its control component.

mod administration;

use super::{as_written, loads_last};
use blk_api::config::{Class, RateLimit};
use blk_api::extent::{Blocks, Extent};
use blk_api::orders::{Limit, ShareChange};
use blk_api::policy::{self, Refusal as PolicyRefusal};
use capdl::Scenario;
use capdl::scenario::{CONTROL, Workload};
use control_api::mailbox::{ANSWERS, REQUESTS};
use control_api::supervisor::Refusal as SupervisorRefusal;
use control_api::{Act, Answer, Refusal, Request};
use platform::{Message, PAGE_SIZE};
use report::frame::{Kind, Piece, Reader};
use report::{Load, Report, Stamped};
use sim::{Disk, Mailbox, Progress, Simulation};
use zerocopy::IntoBytes;

/// Virtual time between two looks.
const STEP_NS: u64 = 50_000;
/// The longest wait for an answer: an order whose server stays dead is answered after some seconds, any other after two ticks.
const PATIENCE_NS: u64 = 6_000_000_000;

/// The longest wait for the end of all loads: a tenant with a low limit writes its blocks for a second first.
const LONGEST_NS: u64 = 10_000_000_000;

/// A running system, and its operator.
struct System {
    simulation: Simulation,
    specification: capdl::System,
    reader: Reader,
    reports: Vec<Report>,
    mailbox: Option<Mailbox>,
}

impl System {
    fn start(scenario: &Scenario) -> Self {
        let specification = capdl::build(scenario, &sim::programs(scenario.machine.arch)).unwrap();
        let disks = scenario.controllers.iter().map(|one| one.namespaces.iter().map(|_| Disk::zeroes()).collect());
        let simulation = Simulation::new(scenario, &specification, disks.collect(), &[], 1);
        let mut system = Self { simulation, specification, reader: Reader::new(), reports: Vec::new(), mailbox: None };
        while system.mailbox.is_none() {
            system.pass();
            let page = |offset| system.page(offset);
            system.mailbox = page(ANSWERS).zip(page(REQUESTS)).map(|(answers, requests)| Mailbox { answers, requests });
        }
        system
    }

    fn page(&self, offset: usize) -> Option<u64> {
        let number = (offset / PAGE_SIZE) as u32;
        self.reports.iter().find_map(|report| match report {
            Report::TelemetryPages(run) if run.component == CONTROL => {
                let page = number.checked_sub(run.first).filter(|page| *page < run.count)?;
                Some(run.paddr + u64::from(page) * PAGE_SIZE as u64)
            }
            _ => None,
        })
    }

    fn pass(&mut self) -> Progress {
        let progress = self.simulation.run_until(self.simulation.now_ns() + STEP_NS);
        let (bytes, reports) = (self.simulation.take_serial(), &mut self.reports);
        self.reader.feed(&bytes, &mut |piece| {
            if let Piece::Frame { kind: Kind::Report, bytes, .. } = piece {
                reports.extend(Stamped::decode(bytes).map(|stamped| stamped.report));
            }
        });
        progress
    }

    fn pass_ms(&mut self, milliseconds: u64) {
        let until = self.simulation.now_ns() + milliseconds * 1_000_000;
        while self.simulation.now_ns() < until && self.pass() != Progress::Quiet {}
    }

    fn component(&self, name: &str) -> u16 {
        let components = &self.specification.specification.components;
        components.iter().find(|one| one.name == name).unwrap_or_else(|| panic!("no {name}")).id
    }

    fn ask(&mut self, request: &Request) -> Answer {
        let mailbox = self.mailbox.unwrap();
        let number = self.simulation.request(mailbox, request).unwrap();
        let since = self.simulation.now_ns();
        loop {
            if let Some(answer) = self.simulation.answer(mailbox, number) {
                return answer;
            }
            if self.simulation.now_ns() >= since + PATIENCE_NS {
                fail(&format!("no answer to {request:?}"));
            }
            self.pass();
        }
    }

    /// Has the request carried out, and returns how long that took.
    fn has(&mut self, request: &Request) -> u64 {
        match self.ask(request) {
            Answer::Done { took_ns } => took_ns,
            answer => fail(&format!("{request:?}: {answer:?}")),
        }
    }

    fn share(&mut self, tenant: &str, change: ShareChange) -> Answer {
        self.ask(&Request::Share { tenant: self.component(tenant), change })
    }

    /// Runs it to its end, and returns the loads and the findings.
    fn end(mut self) -> (Vec<Load>, String) {
        let until = self.simulation.now_ns() + LONGEST_NS;
        while self.simulation.now_ns() < until && self.pass() != Progress::Quiet {}
        let load = |report: &Report| if let Report::Load(load) = report { Some(load.clone()) } else { None };
        (self.reports.iter().filter_map(load).collect(), self.simulation.end().findings)
    }
}

/// Fails while a simulation runs, which keeps panics to itself.
fn fail(reason: &str) -> ! {
    println!("{reason}");
    panic!("{reason}")
}

fn controlled(milliseconds: u64) -> Scenario {
    let mut scenario = as_written("control");
    loads_last(&mut scenario, milliseconds);
    scenario
}

fn load<'a>(loads: &'a [Load], tenant: &str) -> &'a Load {
    loads.iter().find(|load| load.tenant == tenant).unwrap_or_else(|| panic!("{tenant} measured nothing"))
}

/// Checks that no tenant's p99 beside `what` is more than `most` times that alone.
fn assert_tails(tenants: &[&str], alone: &[Load], beside: &[Load], most: f64, what: &str) {
    for tenant in tenants {
        let (before, after) = (load(alone, tenant).p99_ns, load(beside, tenant).p99_ns);
        println!("{tenant} beside {what}: p99 {after} ns, alone {before} ns");
        assert!(after as f64 <= before as f64 * most, "{tenant} beside {what}: {after} and {before} ns");
    }
}

fn refused(answer: Answer) -> Refusal {
    let Answer::Refused(refusal) = answer else { panic!("{answer:?}") };
    refusal
}

/// The policy component's reason.
fn policys(answer: Answer) -> PolicyRefusal {
    let Refusal::Policy { label, values } = refused(answer) else { panic!("{answer:?}") };
    PolicyRefusal::of(&Message::from_words(label, &values))
}

#[test]
fn ten_thousand_alternating_changes_under_load_are_each_in_force_within_two_milliseconds() {
    let mut system = System::start(&controlled(4_000));
    system.pass_ms(100);
    let alice = system.component("alice");
    let blocks = Blocks { first: 1024, blocks: 64 };
    let extent = Extent { first: 1024, blocks: 64, writable: true };
    let mut longest = 0;
    for round in 0..2_500u64 {
        let rate = RateLimit { per_second: 4_000 + round, burst: 16 };
        let class = if round % 2 == 0 { Class::Urgent } else { Class::Medium };
        let limited = ShareChange { class: Some(class), iops: Some(Limit::Of(rate)), ..ShareChange::default() };
        let free = ShareChange { iops: Some(Limit::None), ..ShareChange::default() };
        for request in [
            Request::Share { tenant: alice, change: limited },
            Request::Revoke { tenant: alice, blocks },
            Request::Share { tenant: alice, change: free },
            Request::Grant { tenant: alice, extent },
        ] {
            longest = longest.max(system.has(&request));
        }
    }
    println!("10,000 changes, the slowest in force after {longest} ns");
    assert!(longest <= 2_000_000, "{longest} ns");
    assert_eq!(system.end().1, "");
}

#[test]
fn revoked_blocks_are_forbidden_until_they_are_granted_again() {
    let mut system = System::start(&controlled(600));
    system.pass_ms(100);
    let carol = system.component("carol");
    system.has(&Request::Revoke { tenant: carol, blocks: Blocks { first: 32768, blocks: 16384 } });
    system.pass_ms(300);
    // The successor of a policy component that dies meanwhile does not give them back.
    system.has(&Request::Kill(system.component("policy")));
    system.pass_ms(300);
    let (loads, findings) = system.end();
    assert_eq!(findings, "");
    let [alice, carol] = ["alice", "carol"].map(|name| load(&loads, name));
    assert!(carol.forbidden > 0 && alice.forbidden == 0, "{loads:?}");
    // A load of a system with an operator who has the act expects that.
    assert_eq!((alice.errors, carol.errors), (0, 0), "{loads:?}");
}

#[test]
fn a_share_outlives_the_servers_and_the_policy_components_death() {
    for killed in ["nvme-server", "policy"] {
        let mut system = System::start(&controlled(1_000));
        system.pass_ms(100);
        let rate = RateLimit { per_second: 500, burst: 10 };
        let slow = ShareChange { iops: Some(Limit::Of(rate)), ..ShareChange::default() };
        assert!(matches!(system.share("alice", slow), Answer::Done { .. }));
        system.has(&Request::Kill(system.component(killed)));
        // Only the weight: the limit stays.
        system.pass_ms(100);
        let heavy = ShareChange { weight: Some(2), ..ShareChange::default() };
        assert!(matches!(system.share("alice", heavy), Answer::Done { .. }), "after the death of {killed}");
        let (loads, findings) = system.end();
        assert_eq!(findings, "", "after the death of {killed}");
        let alice = load(&loads, "alice");
        let rate = super::iops(alice);
        // A tenth of the run was before the order.
        assert!(rate < 4_000.0, "{rate} requests a second after the death of {killed}");
    }
}

#[test]
fn a_paused_tenant_does_nothing_until_it_goes_on() {
    let mut scenario = controlled(500);
    for tenant in &mut scenario.tenants {
        if let Workload::Bench(bench) = &mut tenant.workload {
            bench.progress_milliseconds = 50;
        }
    }
    let mut system = System::start(&scenario);
    system.pass_ms(100);
    let bob = system.component("bob");
    system.has(&Request::Pause(bob));
    let says = |system: &System| {
        system.reports.iter().filter(|report| matches!(report, Report::Progress(one) if one.tenant == "bob")).count()
    };
    system.pass_ms(50);
    let before = says(&system);
    system.pass_ms(200);
    assert_eq!(says(&system), before);
    system.has(&Request::Resume(bob));
    let (loads, findings) = system.end();
    assert_eq!(findings, "");
    assert!(load(&loads, "bob").reads > 0);
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut system = System::start(&controlled(300));
    system.pass_ms(50);
    let (alice, bob) = (system.component("alice"), system.component("bob"));
    let urgent = ShareChange { class: Some(Class::Urgent), ..ShareChange::default() };
    let answer = system.share("bob", urgent);
    assert!(matches!(policys(answer), PolicyRefusal::ClassNotAllowed { .. }), "{answer:?}");
    let blocks = Blocks { first: 16384, blocks: 8 };
    let answer = system.ask(&Request::Revoke { tenant: alice, blocks });
    assert_eq!(policys(answer), PolicyRefusal::NotNumbered { lba: 16384, blocks: 8 });
    assert_eq!(refused(system.ask(&Request::Revoke { tenant: 999, blocks })), Refusal::NoTenant(999));
    for (request, reason) in [
        (Request::Pause(system.component("nvme-server")), SupervisorRefusal::NoClient),
        (Request::Kill(999), SupervisorRefusal::NoComponent),
    ] {
        assert_eq!(refused(system.ask(&request)), Refusal::Supervisor(reason), "{request:?}");
    }
    assert_eq!(system.ask(&Request::Nothing), system.ask(&Request::Nothing));
    system.has(&Request::Kill(bob));
    let (_, findings) = system.end();
    assert_eq!(findings, "");
}

#[test]
fn an_order_that_nobody_carries_out_is_answered_after_some_seconds() {
    let mut scenario = controlled(100);
    scenario.server.restart.times = 0;
    let mut system = System::start(&scenario);
    system.pass_ms(50);
    system.has(&Request::Kill(system.component("nvme-server")));
    let heavy = ShareChange { weight: Some(2), ..ShareChange::default() };
    assert_eq!(refused(system.share("alice", heavy)), Refusal::Late);
    // The policy component still has it, and the control component goes on.
    assert_eq!(policys(system.share("alice", heavy)), PolicyRefusal::Busy);
    system.has(&Request::Nothing);
}

#[test]
fn acts_that_the_scenario_lacks_are_refused() {
    for (acts, refused_by_supervisor) in [(vec![Act::Shares], false), (vec![Act::Pause], true)] {
        let mut scenario = controlled(300);
        scenario.control.as_mut().unwrap().acts = acts.clone();
        let mut system = System::start(&scenario);
        let alice = system.component("alice");
        let kill = refused(system.ask(&Request::Kill(alice)));
        let revoke = refused(system.ask(&Request::Revoke { tenant: alice, blocks: Blocks { first: 0, blocks: 8 } }));
        if refused_by_supervisor {
            assert_eq!((kill, revoke), (Refusal::Supervisor(SupervisorRefusal::NotAllowed), Refusal::NotAllowed));
        } else {
            let Message { label, .. } = PolicyRefusal::NotAllowed.message();
            assert_eq!((kill, revoke), (Refusal::NotAllowed, Refusal::Policy { label, values: [0; 3] }));
        }
    }
    assert_eq!(policy::DONE, 0);
}

/// The garbage that a build machine writes.
#[derive(Clone, Copy, Debug)]
enum Garbage {
    Random,
    /// Whole letters of acts that are refused.
    Letters,
}

/// Runs the scenario while the build machine writes garbage at each step. Returns the loads.
fn beside(garbage: Option<Garbage>) -> Vec<Load> {
    let mut system = System::start(&controlled(1_000));
    let mailbox = system.mailbox.unwrap();
    let mut state = 1u64;
    let until = system.simulation.now_ns() + 1_000_000_000;
    while system.simulation.now_ns() < until {
        match garbage {
            None => {}
            Some(Garbage::Letters) => {
                system.simulation.request(mailbox, &Request::Kill(999)).unwrap();
            }
            Some(Garbage::Random) => {
                let mut page = [0u64; PAGE_SIZE / 8];
                for word in &mut page {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    *word = state;
                }
                system.simulation.write_requests(mailbox, page.as_bytes().try_into().unwrap());
            }
        }
        system.pass();
    }
    let (loads, findings) = system.end();
    assert_eq!(findings, "", "{garbage:?}");
    loads
}

#[test]
fn a_build_machine_that_writes_garbage_without_end_delays_nobody_by_five_percent() {
    let quiet = beside(None);
    for garbage in [Garbage::Random, Garbage::Letters] {
        let loud = beside(Some(garbage));
        assert_tails(&["alice", "bob", "carol"], &quiet, &loud, 1.05, &format!("{garbage:?}"));
    }
}
