//! Hands at the slots: put controllers in and take them out by a scenario's events.
//!
//! A controller that is taken out loses its power, keeps its namespaces' content, and is the same when it is put in again.
//! Whoever takes it out in order presses the attention button, and waits until the slot has no power. An insertion that is due
//! before follows then. Neighbours: `machine` calls this at the events' times, `topology` knows the slots. Left out: what
//! software does about it.

use crate::inside::Inside;
use capdl::Scenario;
use capdl::scenario::{Action, HotPlug, Moved};
use sim_pci::{BusId, Device, Endpoint, FunctionConfig, FunctionId, Machine, Reset, SlotState, Tree};
use std::collections::BTreeMap;

const NS_PER_MS: u64 = 1_000_000;
/// Time for which a controller that is to be put in again is at least out.
const IN_HAND_NS: u64 = 500 * NS_PER_MS;

/// A slot, and the controllers that are put into it.
pub(crate) struct Slot {
    /// The controller's number in the scenario.
    controller: usize,
    /// The bus below the port.
    bus: BusId,
    config: FunctionConfig,
    /// The scenario's own controller, while it is out.
    own: Option<Inside>,
    /// The other controller, while it is out.
    other: Option<Inside>,
    /// Whether the other one is in the slot, or was the last that was.
    is_others: bool,
}

impl Slot {
    /// The slot below a port, with the controller in it; the other one is out.
    pub(crate) const fn new(controller: usize, bus: BusId, config: FunctionConfig, other: Option<Inside>) -> Self {
        Self { controller, bus, config, own: None, other, is_others: false }
    }

    const fn last_out(&mut self) -> &mut Option<Inside> {
        if self.is_others { &mut self.other } else { &mut self.own }
    }
}

/// The machine around the slots, at one time.
pub(crate) struct Around<'a> {
    pub(crate) tree: &'a mut Tree<Inside>,
    pub(crate) now_ns: u64,
    pub(crate) machine: &'a mut dyn Machine,
}

/// All slots, and what is still to be done.
pub(crate) struct Plug {
    slots: BTreeMap<usize, Slot>,
    /// The events to come, the last first.
    events: Vec<Event>,
    /// Controllers that are to be taken out once their slot has no power.
    requested: Vec<usize>,
    /// Insertions that are to follow once the controllers are out.
    returning: Vec<Event>,
    /// Moves that were not reported yet.
    done: Vec<SlotEvent>,
}

/// Something that was done at a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotEvent {
    /// The event's time, in nanoseconds of virtual time.
    pub at_ns: u64,
    /// The controller's number in the scenario.
    pub controller: usize,
    /// The move.
    pub moved: Moved,
}

/// An event.
#[derive(Clone, Copy)]
struct Event {
    at_ns: u64,
    controller: usize,
    action: Action,
    /// The other controller is put in.
    other: bool,
}

/// A change in a slot.
pub(crate) enum Changed {
    /// The controller was taken out.
    Out(usize),
    /// The controller was put in, as this function.
    In(usize, FunctionId),
}

impl Plug {
    /// The scenario's events. Controllers that are not there at first are taken out of the tree.
    pub(crate) fn new(scenario: &Scenario, slots: Vec<Slot>, around: &mut Around<'_>) -> Self {
        let event = |event: &HotPlug| {
            let (controller, _) = scenario.controller(&event.controller)?;
            let at_ns = u64::from(event.after_ms) * NS_PER_MS;
            Some(Event { at_ns, controller, action: event.action, other: event.other })
        };
        let mut plug = Self {
            slots: slots.into_iter().map(|slot| (slot.controller, slot)).collect(),
            events: scenario.hot_plugs.iter().rev().filter_map(event).collect(),
            requested: Vec::new(),
            returning: Vec::new(),
            done: Vec::new(),
        };
        let absent = plug.slots.keys().copied().filter(|index| !scenario.is_there_at_first(*index));
        for index in absent.collect::<Vec<_>>() {
            plug.take_out(index, around);
        }
        plug
    }

    /// Time of the next event.
    pub(crate) fn next_event_ns(&self, tree: &Tree<Inside>) -> Option<u64> {
        if self.requested.iter().any(|index| self.is_off(*index, tree)) {
            return Some(0);
        }
        self.events.last().map(|event| event.at_ns)
    }

    /// A controller that is out of its slot.
    pub(crate) fn out(&self, controller: usize) -> Option<&Inside> {
        self.slots.get(&controller)?.own.as_ref()
    }

    /// All that belong in a slot and are out of it.
    pub(crate) fn all_out(&self, controller: usize) -> impl Iterator<Item = &Inside> {
        self.slots.get(&controller).into_iter().flat_map(|slot| slot.own.iter().chain(&slot.other))
    }

    /// The one that was taken out of a slot last, the other one perhaps, for changes.
    pub(crate) fn last_out_mut(&mut self, controller: usize) -> Option<&mut Inside> {
        self.slots.get_mut(&controller)?.last_out().as_mut()
    }

    /// Does one thing that is due.
    pub(crate) fn act(&mut self, around: &mut Around<'_>) -> Option<Changed> {
        if let Some(place) = self.requested.iter().position(|index| self.is_off(*index, around.tree)) {
            let index = self.requested.swap_remove(place);
            let out = self.take_out(index, around);
            self.note(index, Moved::Out, around);
            return out;
        }
        let event = self.events.pop_if(|event| event.at_ns <= around.now_ns)?;
        let index = event.controller;
        match event.action {
            Action::Remove => {
                let slot = self.slots.get(&index)?;
                around.tree.press_attention_button(slot.bus, around.now_ns, around.machine);
                self.requested.push(index);
                self.note(index, Moved::Requested, around);
                None
            }
            Action::Pull => {
                self.note(index, Moved::Pulled, around);
                self.take_out(index, around)
            }
            Action::Insert if self.requested.contains(&index) => {
                self.returning.push(event);
                None
            }
            Action::Insert => {
                self.note(index, if event.other { Moved::OtherIn } else { Moved::In }, around);
                self.put_in(index, event.other, around)
            }
        }
    }

    /// Takes what was done since the last call.
    pub(crate) fn take_done(&mut self) -> Vec<SlotEvent> {
        std::mem::take(&mut self.done)
    }

    /// The events that did not happen so far, or not wholly, by their controllers' numbers.
    pub(crate) fn left(&self) -> Vec<(usize, Action)> {
        let requested = self.requested.iter().map(|index| (*index, Action::Remove));
        let returning = self.returning.iter().chain(self.events.iter().rev());
        requested.chain(returning.map(|event| (event.controller, event.action))).collect()
    }

    fn note(&mut self, controller: usize, moved: Moved, around: &Around<'_>) {
        self.done.push(SlotEvent { at_ns: around.now_ns, controller, moved });
    }

    fn is_off(&self, index: usize, tree: &Tree<Inside>) -> bool {
        self.slots.get(&index).is_some_and(|slot| tree.slot(slot.bus) == Some(SlotState::Off))
    }

    fn take_out(&mut self, index: usize, around: &mut Around<'_>) -> Option<Changed> {
        let now_ns = around.now_ns;
        let slot = self.slots.get_mut(&index)?;
        let (_, mut device) = around.tree.remove(slot.bus, now_ns, around.machine).into_iter().next()?;
        device.reset(Reset::Power, now_ns);
        *slot.last_out() = Some(device);
        if let Some(place) = self.returning.iter().position(|event| event.controller == index) {
            let event = self.returning.swap_remove(place);
            self.events.push(Event { at_ns: now_ns.saturating_add(IN_HAND_NS), ..event });
            self.events.sort_by_key(|event| std::cmp::Reverse(event.at_ns));
        }
        Some(Changed::Out(index))
    }

    fn put_in(&mut self, index: usize, other: bool, around: &mut Around<'_>) -> Option<Changed> {
        let slot = self.slots.get_mut(&index)?;
        slot.is_others = other;
        let endpoint = Endpoint::new(slot.config.clone(), slot.last_out().take()?);
        // The slot is empty, and the function was in it before.
        let inserted = around.tree.insert(slot.bus, vec![endpoint], around.now_ns, around.machine);
        Some(Changed::In(index, inserted.ok()?.into_iter().next()?))
    }
}
