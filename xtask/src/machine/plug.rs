//! Hands at QEMU's slots: inserts controllers and removes them while the system runs, by a scenario's `[[hotplug]]` events.
//!
//! | action | what is done |
//! |---|---|
//! | `insert` | the monitor adds the device (`device_add`); QEMU presses the attention button with it |
//! | `remove` | the monitor requests the removal (`device_del`): QEMU presses the attention button, and takes the device out once the system has turned the slot's power off |
//! | `pull` | the port's power is turned off from outside, and QEMU takes the device out at once. It has no way to take out a device with power |
//!
//! Times count from the moment when every load at the controllers that are there at first is known to have had a verified
//! transfer, because the boot time of a machine is unknown to a scenario. An insertion waits until the device is out, and after a
//! removal in order for [`IN_HAND`] more, as in the simulator. A controller that came back stays until the tenants that wait for it
//! have their sessions again. A removal that the system is too busy for is tried again. An event that is late delays the later ones
//! of its controller, so that they do not come at once.
//!
//! The machine is stopped while a device is added or pulled. QEMU 7.2 changes the map of a machine's memory at once, and what its
//! processor has cached of it a moment later. An access in between may go to another device, and an interrupt controller whose
//! line is not unmasked so gives no more ticks. QEMU completes what its storage has begun before it stops.
//!
//! Neighbours: `qemu` describes the device, `injection` has the faults.

use crate::machine::inherited::Inside;
use crate::machine::injection::{Done, Door, Function};
use crate::machine::monitor::{Monitor, Refused};
use crate::machine::qemu::{self, Which};
use crate::records::results::Results;
use anyhow::{Result, bail};
use capdl::Scenario;
use capdl::scenario::{Action, Controller, HotPlug, Moved, Workload};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
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
    /// The time after QEMU's start from which times count, once it is known.
    since: Option<Duration>,
    /// In the order of their times.
    ahead: Vec<&'a HotPlug>,
    /// By index, the controllers with events.
    slots: BTreeMap<usize, Slot>,
}

/// The sentence about an event that did not happen.
pub fn too_late(controller: &str, action: Action) -> String {
    format!("the run was over before the hot-plug event of {controller}: {}", action.name())
}

/// The slot of a controller with events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Slot {
    place: Place,
    /// Number of insertions.
    inserted: usize,
    /// Delay of the last event.
    late: Duration,
}

/// Where a controller is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// In its slot.
    In,
    /// On its way out, by this action.
    Going(Action),
    /// Out of its slot; it can be inserted from this time after QEMU's start on.
    Out(Duration),
}

impl<'a> Plug<'a> {
    /// The events of the scenario, and QEMU's end of the monitor. The test port is used for `pull`.
    pub(crate) fn new(scenario: &'a Scenario, door: Door) -> Result<(Self, Inside)> {
        let (monitor, inside) = Monitor::new()?;
        Ok((Self::with(scenario, door, monitor), inside))
    }

    fn with(scenario: &'a Scenario, door: Door, monitor: Monitor) -> Self {
        let moving = (0..scenario.controllers.len()).filter(|index| scenario.comes_and_goes(*index));
        let slot = |index| {
            let place = if scenario.is_there_at_first(index) { Place::In } else { Place::Out(Duration::ZERO) };
            (index, Slot { place, inserted: 0, late: Duration::ZERO })
        };
        let (ahead, slots) = (scenario.hot_plugs.iter().collect(), moving.map(slot).collect());
        Self { scenario, door, monitor, since: None, ahead, slots }
    }

    /// Does what is due at `age` after QEMU's start.
    pub(crate) fn go_on(&mut self, results: &Results, age: Duration) -> Result<Vec<Done>> {
        let mut done = Vec::new();
        self.monitor.begin()?;
        if self.is_waiting() {
            for device in self.monitor.deleted()? {
                let out = self.is_out(&device, age);
                done.extend(out.map(|controller| self.done(controller, Moved::Out, results, age)));
            }
        }
        if self.since.is_none() && self.is_at_work(results) {
            self.since = Some(age);
        }
        let mut seen = BTreeSet::new();
        for event in std::mem::take(&mut self.ahead) {
            // A later event of the same controller waits for the first.
            let is_first = seen.insert(&event.controller);
            match self.scenario.controller(&event.controller) {
                Some((index, controller)) if is_first => {
                    match self.go_on_with(index, controller, event, results, age)? {
                        Some(moved) => done.push(self.done(controller, moved, results, age)),
                        None => self.ahead.push(event),
                    }
                }
                _ => self.ahead.push(event),
            }
        }
        Ok(done)
    }

    /// Time until the next poll of the machine, at `age` after QEMU's start, if it is known.
    pub(crate) fn pause(&self, age: Duration) -> Option<Duration> {
        if self.is_waiting() {
            return Some(POLL);
        }
        let next = self.ahead.iter().filter_map(|event| {
            let (index, _) = self.scenario.controller(&event.controller)?;
            Some(self.due(index, event)?.saturating_sub(age).max(POLL))
        });
        next.min()
    }

    /// Events that did not happen, one sentence each.
    pub(crate) fn left(&self) -> Vec<String> {
        self.ahead.iter().map(|event| too_late(&event.controller, event.action)).collect()
    }

    /// Whether a device is on its way out.
    fn is_waiting(&self) -> bool {
        self.slots.values().any(|slot| matches!(slot.place, Place::Going(_)))
    }

    /// Whether the system has begun, with all loads at controllers that are there.
    fn is_at_work(&self, results: &Results) -> bool {
        let is_there = |(index, _): &(usize, &Controller)| self.scenario.is_there_at_first(*index);
        let controllers = self.scenario.controllers.iter().enumerate().filter(is_there);
        let sessions = controllers.flat_map(|(_, controller)| self.scenario.sessions(&controller.name));
        let mut loads = sessions.filter(|tenant| matches!(tenant.workload, Workload::Bench(_)));
        results.timeline.begin_ns.is_some()
            && loads.all(|load| results.working_since_ns.contains_key(load.name.as_str()))
    }

    /// The time of an event of the controller `index`, once it is known.
    fn due(&self, index: usize, event: &HotPlug) -> Option<Duration> {
        Some(self.since? + Duration::from_millis(event.after_ms.into()) + self.slots.get(&index)?.late)
    }

    /// Lets an event happen if it is time for it; returns what was done.
    fn go_on_with(
        &mut self,
        index: usize,
        controller: &Controller,
        event: &HotPlug,
        results: &Results,
        age: Duration,
    ) -> Result<Option<Moved>> {
        let Some(late) = self.due(index, event).and_then(|due| age.checked_sub(due)) else { return Ok(None) };
        let Some(slot) = self.slots.get(&index).copied() else { return Ok(None) };
        let is_possible = match (event.action, slot.place) {
            (Action::Insert, Place::Out(from)) => from <= age,
            (Action::Remove | Action::Pull, Place::In) => {
                self.has_its_tenants(index, controller, slot.inserted, results)
            }
            _ => false,
        };
        let done = if is_possible { self.act(index, controller, event)? } else { None };
        if let Some((place, _)) = done {
            let inserted = slot.inserted + usize::from(place == Place::In);
            self.slots.insert(index, Slot { place, inserted, late: slot.late + late });
        }
        Ok(done.map(|(_, moved)| moved))
    }

    /// Whether each tenant that waits for the controller has its session again, or is at its end.
    fn has_its_tenants(&self, index: usize, controller: &Controller, inserted: usize, results: &Results) -> bool {
        let returns = inserted.saturating_sub(usize::from(!self.scenario.is_there_at_first(index)));
        let mut waiting = self.scenario.sessions(&controller.name).filter(|tenant| tenant.waits);
        waiting.all(|tenant| {
            let name = tenant.name.as_str();
            results.done.contains_key(name) || results.sessions_again(name) >= returns
        })
    }

    /// Does one thing; returns where the controller is then, and what was done. `None` if it is to be tried again.
    fn act(&mut self, index: usize, controller: &Controller, event: &HotPlug) -> Result<Option<(Place, Moved)>> {
        Ok(Some(match event.action {
            Action::Insert => {
                let (which, moved) = match event.other {
                    false => (Which::Own, Moved::In),
                    true => (Which::Other, Moved::OtherIn),
                };
                let device = qemu::hot_plugged(index, controller, which);
                let added = self.stopped(|hands| hands.monitor.execute("device_add", &device))?;
                if let Err(Refused(why)) = added {
                    bail!("QEMU does not insert the controller {}: {why}", controller.name);
                }
                (Place::In, moved)
            }
            Action::Remove => {
                let asked = self.monitor.execute("device_del", &json!({"id": qemu::device_id(index)}))?;
                if asked.is_err() {
                    return Ok(None);
                }
                (Place::Going(Action::Remove), Moved::Requested)
            }
            Action::Pull => {
                self.stopped(|hands| Function::find(&mut hands.door, index, controller.attach)?.pull(&mut hands.door))?;
                (Place::Going(Action::Pull), Moved::Pulled)
            }
        }))
    }

    /// Does something while the machine is stopped.
    fn stopped<R>(&mut self, act: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let command = |hands: &mut Self, command: &str| match hands.monitor.execute(command, &json!({}))? {
            Ok(()) => Ok(()),
            Err(Refused(why)) => bail!("QEMU refuses to {command}: {why}"),
        };
        command(self, "stop")?;
        let done = act(self)?;
        command(self, "cont")?;
        Ok(done)
    }

    /// Records that a device was deleted; returns the controller if that is news.
    fn is_out(&mut self, device: &str, age: Duration) -> Option<&'a Controller> {
        let (index, slot) = self.slots.iter_mut().find(|(index, _)| qemu::device_id(**index) == device)?;
        let in_order = slot.place == Place::Going(Action::Remove);
        slot.place = Place::Out(if in_order { age + IN_HAND } else { age });
        self.scenario.controllers.get(*index).filter(|_| in_order)
    }

    fn done(&self, controller: &Controller, moved: Moved, results: &Results, age: Duration) -> Done {
        let server = self.scenario.server_name(&controller.name);
        Done { at_ns: results.machine_ns(age), server, words: moved.words().into() }
    }
}

#[cfg(test)]
mod tests;
