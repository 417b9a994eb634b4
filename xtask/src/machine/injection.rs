//! Injects controller faults on QEMU. The simulator's model has these faults itself. Here QEMU's controller is changed from
//! outside, by accesses to its registers and configuration space while the system runs; the system is the same as without faults.
//!
//! | fault | what is done |
//! |---|---|
//! | `fatal-status` | the controller is disabled, and enabled with admin queues of an invalid size: it sets CSTS.CFS |
//! | `all-ones` | its expansion ROM, which holds ones, replaces its registers for the fault's duration |
//! | `stuck-queue-pair` | a head is written to its doorbell that makes the completion queue appear full (`stuck`) |
//! | `removal` | its port switches off the slot's power, which takes it off the bus |
//!
//! With the simulator's model in QEMU (`--device model`), the model is sent the fault instead.
//!
//! A fault's time counts from the moment when every load at the controller had its first verified transfer, because the boot time
//! of a machine is unknown to a scenario. Left out: faults of single commands, which cannot be caused from outside of QEMU's
//! controller.

pub(super) mod door;
mod function;
mod stuck;

use crate::records::results::Results;
use anyhow::Result;
use capdl::Scenario;
use capdl::scenario::{Controller, Workload};
pub(crate) use door::Door;
pub(crate) use function::Function;
use sim_fault::{ControllerEffect, Happening};
use std::fmt;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Registers of the controller (NVM Express base specification 1.4, section 3.1).
const CC: u64 = 0x14;
const CC_EN: u32 = 1;
const AQA: u64 = 0x24;

/// The faults of a run that are still to come.
pub struct Injection<'a> {
    scenario: &'a Scenario,
    way: Way,
    ahead: Vec<Act<'a>>,
}

/// How faults reach the controllers.
enum Way {
    /// By accesses to QEMU's own.
    Door(Door),
    /// By messages to the simulator's, in the scenario's order.
    Models(Vec<Sender<ControllerEffect>>),
}

/// An action on a controller.
#[derive(Clone, Copy)]
struct Act<'a> {
    index: usize,
    controller: &'a Controller,
    when: When,
    what: Doing,
}

/// Time of an action.
#[derive(Clone, Copy)]
enum When {
    /// This long after every load at the controller began to work.
    Working(Duration),
    /// This long after QEMU's start.
    Age(Duration),
}

/// Kind of an action.
#[derive(Clone, Copy)]
enum Doing {
    Begin(ControllerEffect),
    /// Removes the ROM from in front of the registers; holds the former value of the ROM's register.
    Uncover(u32),
}

/// An action that was done: the controller's server, the time by the machine's clock in nanoseconds, and a description.
pub struct Done {
    /// Nanoseconds by the machine's clock.
    pub at_ns: u64,
    /// The controller's server.
    pub server: String,
    /// Description.
    pub words: String,
}

impl<'a> Injection<'a> {
    /// The faults of the scenario, which are made through this test port.
    pub(crate) fn new(scenario: &'a Scenario, door: Door) -> Self {
        Self { scenario, way: Way::Door(door), ahead: Self::ahead(scenario) }
    }

    /// The faults of the scenario, for the simulator's controllers; `None` without faults.
    pub(crate) fn of_models(scenario: &'a Scenario, models: Vec<Sender<ControllerEffect>>) -> Option<Self> {
        let ahead = Self::ahead(scenario);
        (!ahead.is_empty()).then_some(Self { scenario, way: Way::Models(models), ahead })
    }

    fn ahead(scenario: &'a Scenario) -> Vec<Act<'a>> {
        let mut ahead = Vec::new();
        for (index, controller) in scenario.controllers.iter().enumerate() {
            ahead.extend(scenario.faults_of(controller).map(|fault| Act {
                index,
                controller,
                when: When::Working(Duration::from_nanos(fault.at_ns)),
                what: Doing::Begin(fault.effect),
            }));
        }
        ahead
    }

    /// Does the actions that are due at `age` after QEMU's start.
    pub(crate) fn go_on(&mut self, results: &Results, age: Duration) -> Result<Vec<Done>> {
        let mut done = Vec::new();
        let is_due = |act: &mut Act<'_>| due(self.scenario, act, results).is_some_and(|due| due <= age);
        let now: Vec<_> = self.ahead.extract_if(.., is_due).collect();
        for act in now {
            let words = self.act(act, age)?;
            let server = self.scenario.server_name(&act.controller.name);
            done.push(Done { at_ns: results.machine_ns(age), server, words });
        }
        Ok(done)
    }

    /// Time until the next action, at `age` after QEMU's start, if it is known.
    pub(crate) fn pause(&self, results: &Results, age: Duration) -> Option<Duration> {
        let next = self.ahead.iter().filter_map(|act| due(self.scenario, act, results)).min();
        next.map(|next| next.saturating_sub(age))
    }

    /// Actions that were not done, one sentence each.
    pub fn left(&self) -> Vec<String> {
        let words = |act: &Act<'_>| match act.what {
            Doing::Begin(effect) => {
                format!("the run was over before the fault of {}: {}", act.controller.name, words(effect))
            }
            Doing::Uncover(_) => {
                format!("the run was over before the registers of {} were there again", act.controller.name)
            }
        };
        self.ahead.iter().map(words).collect()
    }

    fn act(&mut self, act: Act<'a>, age: Duration) -> Result<String> {
        let door = match (&mut self.way, act.what) {
            (Way::Door(door), _) => door,
            (Way::Models(models), Doing::Begin(effect)) => {
                // A model that has ended is reported at the end.
                let _ = models.get(act.index).map(|model| model.send(effect));
                return Ok(words(effect));
            }
            (Way::Models(_), Doing::Uncover(_)) => return Ok(String::new()),
        };
        let function = Function::find(door, act.index, act.controller.attach)?;
        let effect = match act.what {
            Doing::Uncover(before) => {
                function.uncover(door, before)?;
                return Ok("its registers are there again".into());
            }
            Doing::Begin(effect) => effect,
        };
        match effect {
            ControllerEffect::FatalStatus => fail(door, function)?,
            ControllerEffect::AllOnes { for_ns } => {
                let before = function.cover(door)?;
                let until = for_ns.map(|ns| When::Age(age + Duration::from_nanos(ns)));
                self.ahead.extend(until.map(|when| Act { when, what: Doing::Uncover(before), ..act }));
            }
            ControllerEffect::StuckQueuePair { pair } => stuck::stick(door, function, pair)?,
            ControllerEffect::Removal => function.pull(door)?,
            // A scenario that QEMU runs has none of these.
            ControllerEffect::SpuriousInterrupt { .. }
            | ControllerEffect::NeverReady
            | ControllerEffect::PowerLoss
            | ControllerEffect::Event(_) => {}
        }
        Ok(words(effect))
    }
}

/// Makes the controller fail: it rejects admin queues of one entry when it is enabled.
fn fail(door: &mut Door, function: Function) -> Result<()> {
    let registers = function.registers(door)?;
    let configuration = door.read32(registers + CC)?;
    door.write32(registers + AQA, 0)?;
    door.write32(registers + CC, configuration & !CC_EN)?;
    door.write32(registers + CC, configuration | CC_EN)
}

/// Time of an action after QEMU's start, once it is known.
fn due(scenario: &Scenario, act: &Act<'_>, results: &Results) -> Option<Duration> {
    let after = match act.when {
        When::Age(age) => return Some(age),
        When::Working(after) => after,
    };
    let loads = scenario.sessions(&act.controller.name).filter(|tenant| matches!(tenant.workload, Workload::Bench(_)));
    let since: Option<Vec<_>> = loads.map(|load| results.working_since_ns.get(load.name.as_str())).collect();
    Some(results.age_at(*since?.into_iter().max()?)? + after)
}

/// Fault number `fault` of a scenario, from 0, and the command of a controller that it hit.
pub fn hit_words(fault: usize, hit: &dyn fmt::Display, controller: &str) -> String {
    format!("fault {} hit {hit} of {controller}", fault.saturating_add(1))
}

/// Description of a controller's fault.
pub fn words(effect: ControllerEffect) -> String {
    match effect {
        ControllerEffect::SpuriousInterrupt { vector } => format!("vector {vector} interrupts for nothing"),
        ControllerEffect::FatalStatus => "CSTS.CFS is set".into(),
        ControllerEffect::AllOnes { for_ns: Some(ns) } => format!("registers read as ones for {} ms", ns / 1_000_000),
        ControllerEffect::AllOnes { for_ns: None } => "registers read as ones from now on".into(),
        ControllerEffect::StuckQueuePair { pair: 0 } => "the admin queue posts no completions".into(),
        ControllerEffect::StuckQueuePair { pair } => format!("queue pair {pair} posts no completions"),
        ControllerEffect::NeverReady => "CSTS.RDY never becomes 1".into(),
        ControllerEffect::Removal => "it is pulled out".into(),
        ControllerEffect::PowerLoss => "its power fails for an instant".into(),
        ControllerEffect::Event(Happening::Spare) => "its spare falls below the threshold".into(),
        ControllerEffect::Event(Happening::Temperature) => "its temperature rises above the threshold".into(),
        ControllerEffect::Event(Happening::Reliability) => "its media is degraded".into(),
        ControllerEffect::Event(Happening::ReadOnly) => "its media becomes read-only".into(),
        ControllerEffect::Event(Happening::NamespaceChanged) => "its namespaces change".into(),
        ControllerEffect::Event(Happening::InternalError) => "it has an internal error that passes".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::door::memory::{Memory, door, get, put};
    use super::*;
    use report::{Report, clip};

    const SCENARIO: &str = r#"
name = "a"
description = "b"
[[controller]]
name = "disk"
attach = "root"
[[controller.namespace]]
size = "1M"
[[tenant]]
name = "alice"
queue_pairs = 1
extents = [{ first = 0, blocks = 64 }]
program.name = "bench"
[tenant.program.config]
[[tenant]]
name = "bob"
queue_pairs = 1
extents = [{ first = 64, blocks = 64 }]
program.name = "bench"
[tenant.program.config]
[[fault]]
controller = { at_ns = 20000000, effect = { all-ones = { for_ns = 30000000 } } }
"#;

    fn works(results: &mut Results, tenant: &str, at_ms: u64) {
        let report = Report::FirstIo { tenant: clip(tenant), at_ns: at_ms * 1_000_000 };
        results.add(report, Duration::from_millis(at_ms + 500));
    }

    #[test]
    fn a_fault_comes_once_all_loads_work_and_goes_again() {
        let memory = Memory::default();
        put(&memory, 0xb002_0004, &[6]);
        put(&memory, 0xb002_0010, &0xfe60_0004u32.to_le_bytes());
        let scenario = Scenario::parse(SCENARIO, "file").unwrap();
        assert!(!scenario.is_simulators_alone());
        let mut injection = Injection::new(&scenario, door(&memory));
        let mut results = Results::default();
        let ms = Duration::from_millis;
        works(&mut results, "alice", 100);
        assert!(injection.go_on(&results, ms(5000)).unwrap().is_empty());
        assert_eq!(injection.pause(&results, ms(5000)), None, "bob does not work yet");
        works(&mut results, "bob", 200);
        assert_eq!(injection.pause(&results, ms(700)), Some(ms(20)));
        assert!(injection.go_on(&results, ms(719)).unwrap().is_empty());
        let done = injection.go_on(&results, ms(720)).unwrap();
        let [Done { at_ns: 220_000_000, words, .. }] = done.as_slice() else { panic!("one, by the machine's clock") };
        assert_eq!(words, "registers read as ones for 30 ms");
        assert_eq!(get(&memory, 0xb002_0030, 4), 0xfe60_0001);
        assert_eq!(injection.pause(&results, ms(720)), Some(ms(30)));
        assert_eq!(injection.left().len(), 1, "they must come back");
        assert_eq!(injection.go_on(&results, ms(760)).unwrap().len(), 1);
        assert_eq!(get(&memory, 0xb002_0030, 4), 0);
        assert!(injection.left().is_empty());
    }

    #[test]
    fn a_fault_that_nobody_came_to_fails_the_run() {
        let scenario = Scenario::parse(SCENARIO, "file").unwrap();
        let injection = Injection::new(&scenario, door(&Memory::default()));
        assert!(injection.left()[0].contains("the run was over before"), "{:?}", injection.left());
    }
}
