//! Hands at QEMU's slots: inserts controllers and removes them while the system runs, by a scenario's `[[hotplug]]` events.
//!
//! | action | what is done |
//! |---|---|
//! | `insert` | the monitor adds the device (`device_add`); QEMU presses the attention button with it |
//! | `remove` | the monitor asks for the removal (`device_del`): QEMU presses the attention button, and takes the device out once the system has turned the slot's power off |
//! | `pull` | the port's power is turned off from outside, and QEMU takes the device out at once. It has no way to take out a device with power |
//!
//! An event's time counts from the moment when every load at the controllers that are there at first had its first verified
//! transfer, because the boot time of a machine is unknown to a scenario. An insertion waits until the device is out: in order and
//! then for [`IN_HAND`] more, as in the simulator. A removal that the system is too busy for is tried again.
//!
//! Neighbours: `qemu` describes the device, `injection` has the faults.

use crate::machine::inherited::Inside;
use crate::machine::injection::{Done, Door, Function};
use crate::machine::monitor::{Monitor, Refused};
use crate::machine::qemu;
use crate::records::results::Results;
use anyhow::{Result, bail};
use capdl::Scenario;
use capdl::scenario::{Action, Controller, HotPlug, Workload};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time for which a controller that was removed in order is at least out.
const IN_HAND: Duration = Duration::from_millis(500);
/// Time between two polls of a device that is on its way out, and between two tries of a removal.
const POLL: Duration = Duration::from_millis(20);

/// The events of a run that are still to come.
pub(crate) struct Plug<'a> {
    scenario: &'a Scenario,
    door: Door,
    monitor: Monitor,
    /// In the order of their times.
    ahead: Vec<&'a HotPlug>,
    /// Where the controllers with events are, by index.
    places: BTreeMap<usize, Place>,
}

/// Where a controller is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// In its slot.
    In,
    /// On its way out, by this action.
    Going(Action),
    /// Out of its slot; it can be inserted from this age of QEMU on.
    Out(Duration),
}

impl<'a> Plug<'a> {
    /// The events of the scenario, and QEMU's side of the monitor. It uses this test port.
    pub(crate) fn new(scenario: &'a Scenario, door: Door) -> Result<(Self, Inside)> {
        let (monitor, inside) = Monitor::new()?;
        Ok((Self::with(scenario, door, monitor), inside))
    }

    fn with(scenario: &'a Scenario, door: Door, monitor: Monitor) -> Self {
        let moving = (0..scenario.controllers.len()).filter(|index| scenario.comes_and_goes(*index));
        let place = |index| match scenario.is_there_at_first(index) {
            true => (index, Place::In),
            false => (index, Place::Out(Duration::ZERO)),
        };
        Self {
            scenario,
            door,
            monitor,
            ahead: scenario.hot_plugs.iter().collect(),
            places: moving.map(place).collect(),
        }
    }

    /// Does what is due at `age` after QEMU's start.
    pub(crate) fn go_on(&mut self, results: &Results, age: Duration) -> Result<Vec<Done>> {
        let mut done = Vec::new();
        self.monitor.begin()?;
        if self.places.values().any(|place| matches!(place, Place::Going(_))) {
            for device in self.monitor.deleted()? {
                done.extend(
                    self.is_out(&device, age).map(|(controller, words)| self.done(controller, words, results, age)),
                );
            }
        }
        let Some(since) = self.since(results) else { return Ok(done) };
        let mut blocked = Vec::new();
        let mut place = 0;
        while let Some(event) = self.ahead.get(place).copied() {
            let Some((index, controller)) = self.scenario.controller(&event.controller) else { break };
            let is_due = since + Duration::from_millis(event.after_ms.into()) <= age;
            let words = match is_due && !blocked.contains(&index) && self.is_possible(index, event.action, age) {
                true => self.act(index, controller, event.action)?,
                false => None,
            };
            // A later event of the same controller waits for this one.
            match words {
                Some(words) => {
                    self.ahead.remove(place);
                    done.push(self.done(controller, words, results, age));
                }
                None => {
                    blocked.push(index);
                    place += 1;
                }
            }
        }
        Ok(done)
    }

    /// Time until the next look at the machine, at `age` after QEMU's start, if it is known.
    pub(crate) fn pause(&self, results: &Results, age: Duration) -> Option<Duration> {
        let since = self.since(results)?;
        let due = |event: &&HotPlug| (since + Duration::from_millis(event.after_ms.into())).saturating_sub(age);
        let next = self.ahead.iter().map(due).min().map(|next| next.max(POLL));
        let is_going = self.places.values().any(|place| matches!(place, Place::Going(_)));
        if is_going { Some(POLL) } else { next }
    }

    /// Events that did not happen, one sentence each.
    pub(crate) fn left(&self) -> Vec<String> {
        let words =
            |event: &&HotPlug| format!("the run was over before the {} of {}", event.action.name(), event.controller);
        self.ahead.iter().map(words).collect()
    }

    /// The moment from which times count, once it is known.
    fn since(&self, results: &Results) -> Option<Duration> {
        let is_there = |controller: &Controller| {
            self.scenario.controller(&controller.name).is_some_and(|(index, _)| self.scenario.is_there_at_first(index))
        };
        let sessions = self.scenario.controllers.iter().filter(|controller| is_there(controller));
        let sessions = sessions.flat_map(|controller| self.scenario.sessions(&controller.name));
        let loads = sessions.filter(|tenant| matches!(tenant.workload, Workload::Bench(_)));
        let since: Option<Vec<_>> =
            loads.map(|load| results.working_since_ns.get(load.name.as_str()).copied()).collect();
        results.age_at(since?.into_iter().max().or(results.timeline.begin_ns)?)
    }

    fn is_possible(&self, index: usize, action: Action, age: Duration) -> bool {
        match (action, self.places.get(&index)) {
            (Action::Insert, Some(Place::Out(from))) => *from <= age,
            (Action::Remove | Action::Pull, Some(Place::In)) => true,
            _ => false,
        }
    }

    /// Does one thing, and describes it; `None` if it is to be tried again.
    fn act(&mut self, index: usize, controller: &Controller, action: Action) -> Result<Option<String>> {
        let (place, words) = match action {
            Action::Insert => {
                let device = qemu::hot_plugged(index, controller);
                if let Err(Refused(why)) = self.monitor.execute("device_add", &device)? {
                    bail!("QEMU does not insert the controller {}: {why}", controller.name);
                }
                (Place::In, "it is inserted")
            }
            Action::Remove => {
                let asked = self.monitor.execute("device_del", &json!({"id": qemu::device_id(index)}))?;
                if asked.is_err() {
                    return Ok(None);
                }
                (Place::Going(Action::Remove), "its removal is requested")
            }
            Action::Pull => {
                Function::find(&mut self.door, index, controller.attach)?.pull(&mut self.door)?;
                (Place::Going(Action::Pull), "it is pulled out")
            }
        };
        self.places.insert(index, place);
        Ok(Some(words.into()))
    }

    /// The controller whose device was deleted, and a description if that is news.
    fn is_out(&mut self, device: &str, age: Duration) -> Option<(&'a Controller, String)> {
        let index = self.places.keys().copied().find(|index| qemu::device_id(*index) == device)?;
        let in_order = self.places.get(&index) == Some(&Place::Going(Action::Remove));
        let from = if in_order { age + IN_HAND } else { age };
        self.places.insert(index, Place::Out(from));
        let controller = self.scenario.controllers.get(index)?;
        in_order.then(|| (controller, "it is out".into()))
    }

    fn done(&self, controller: &Controller, words: String, results: &Results, age: Duration) -> Done {
        Done { at_ns: results.machine_ns(age), server: self.scenario.server_name(&controller.name), words }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::injection::door::memory::{Memory, door, get, put};
    use crate::machine::monitor::script::{Script, deletion, monitor};
    use report::{Report, clip};
    use std::sync::{Arc, Mutex};

    const SCENARIO: &str = r#"
name = "a"
description = "b"
[[controller]]
name = "disk"
hot_plug = true
[[controller.namespace]]
size = "1M"
[[tenant]]
name = "alice"
queue_pairs = 1
extents = [{ first = 0, blocks = 64 }]
program.name = "bench"
[tenant.program.config]
"#;

    fn scenario(events: &[(u32, &str)]) -> Scenario {
        let event = |(after_ms, action): &(u32, &str)| {
            format!("[[hotplug]]\ncontroller = \"disk\"\nafter_ms = {after_ms}\naction = \"{action}\"\n")
        };
        let events: String = events.iter().map(event).collect();
        Scenario::parse(&format!("{SCENARIO}{events}"), "file").unwrap()
    }

    /// A port whose slot has power, and a monitor.
    fn machine() -> (Memory, Arc<Mutex<Script>>) {
        let memory = Memory::default();
        put(&memory, 0xb002_0018, &[0, 1, 1, 0]);
        put(&memory, 0xb002_0034, &[0x40]);
        put(&memory, 0xb002_0040, &[0x10, 0]);
        (memory, Arc::default())
    }

    /// Results of a run whose load works since 600 ms after QEMU's start.
    fn working() -> Results {
        let mut results = Results::default();
        results.add(Report::FirstIo { tenant: clip("alice"), at_ns: 100_000_000 }, Duration::from_millis(600));
        results
    }

    fn words(plug: &mut Plug<'_>, results: &Results, at_ms: u64) -> Vec<String> {
        plug.go_on(results, ms(at_ms)).unwrap().into_iter().map(|done| done.words).collect()
    }

    fn asked(script: &Mutex<Script>) -> Vec<String> {
        let script = script.lock().unwrap();
        script.asked.iter().map(|(name, _)| name.clone()).filter(|name| name.starts_with("device")).collect()
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_pulled_controller_is_inserted_once_it_is_out() {
        let scenario = scenario(&[(100, "pull"), (200, "insert")]);
        let (memory, script) = machine();
        let mut plug = Plug::with(&scenario, door(&memory), monitor(&script));
        assert_eq!(words(&mut plug, &Results::default(), 5000), [""; 0], "the load does not work yet");
        assert_eq!(plug.pause(&Results::default(), ms(5000)), None);
        let results = working();
        assert_eq!(words(&mut plug, &results, 699), [""; 0]);
        assert_eq!(plug.pause(&results, ms(650)), Some(ms(50)));
        assert_eq!(words(&mut plug, &results, 700), ["it is pulled out"]);
        assert_eq!(get(&memory, 0xb002_0058, 2), 0x700, "no power, and a dark indicator");
        assert_eq!(words(&mut plug, &results, 900), [""; 0], "QEMU still has the device");
        assert_eq!(plug.pause(&results, ms(900)), Some(POLL));
        assert_eq!(plug.left(), ["the run was over before the insert of disk"]);
        script.lock().unwrap().before.push(deletion("nvme0"));
        assert_eq!(words(&mut plug, &results, 920), ["it is inserted"]);
        assert_eq!(asked(&script), ["device_add"]);
        assert!(plug.left().is_empty());
    }

    #[test]
    fn a_removal_in_order_waits_for_the_system_and_an_insertion_for_it() {
        let scenario = scenario(&[(100, "remove"), (200, "insert")]);
        let (memory, script) = machine();
        let mut plug = Plug::with(&scenario, door(&memory), monitor(&script));
        let results = working();
        script.lock().unwrap().refuses.push("device_del");
        assert_eq!(words(&mut plug, &results, 700), [""; 0], "the slot is busy");
        script.lock().unwrap().refuses.clear();
        assert_eq!(words(&mut plug, &results, 720), ["its removal is requested"]);
        assert_eq!(words(&mut plug, &results, 6000), [""; 0]);
        script.lock().unwrap().before.push(deletion("nvme0"));
        assert_eq!(words(&mut plug, &results, 7000), ["it is out"]);
        assert_eq!(words(&mut plug, &results, 7499), [""; 0]);
        assert_eq!(words(&mut plug, &results, 7500), ["it is inserted"]);
        assert_eq!(asked(&script), ["device_del", "device_del", "device_add"]);
        let script = script.lock().unwrap();
        let (_, device) = script.asked.last().unwrap();
        assert_eq!(device["serial"], "disk");
        assert_eq!((&device["drive"], &device["bus"]), (&json!("d0n1"), &json!("port0")));
    }

    #[test]
    fn a_controller_that_is_absent_at_first_is_not_waited_for() {
        let scenario = scenario(&[(100, "insert")]);
        let (memory, script) = machine();
        let mut plug = Plug::with(&scenario, door(&memory), monitor(&script));
        let mut results = Results::default();
        results.set_clock(0, ms(500));
        results.timeline.begin_ns = Some(100_000_000);
        assert_eq!(words(&mut plug, &results, 699), [""; 0]);
        assert_eq!(words(&mut plug, &results, 700), ["it is inserted"]);
    }

    #[test]
    fn an_insertion_that_qemu_refuses_ends_the_run() {
        let scenario = scenario(&[(100, "insert")]);
        let (memory, script) = machine();
        script.lock().unwrap().refuses.push("device_add");
        let mut plug = Plug::with(&scenario, door(&memory), monitor(&script));
        let mut results = Results::default();
        results.set_clock(0, ms(500));
        results.timeline.begin_ns = Some(0);
        let error = plug.go_on(&results, ms(700)).err().unwrap().to_string();
        assert_eq!(error, "QEMU does not insert the controller disk: guest is busy");
    }
}
