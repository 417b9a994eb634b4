//! Hands at the slots: put controllers in and take them out by a scenario's events.
//!
//! A controller that is taken out loses its power, keeps its namespaces' content, and is the same when it is put in again.
//! Whoever takes it out in order presses the attention button, and waits until the slot has no power. An insertion that is due
//! before follows then. Neighbours: `machine`
//! calls this at the events' times, `topology` knows the slots. Left out: what software does about it.

use crate::inside::Inside;
use capdl::Scenario;
use capdl::scenario::Action;
use sim_pci::{BusId, Device, Endpoint, FunctionConfig, FunctionId, Machine, Reset, SlotState, Tree};
use std::collections::BTreeMap;

const NS_PER_MS: u64 = 1_000_000;
/// Time for which a controller that is to be put in again is at least out.
const IN_HAND_NS: u64 = 500 * NS_PER_MS;

/// A slot, and the controller that belongs in it.
pub(crate) struct Slot {
    /// Its number in the scenario.
    pub(crate) controller: usize,
    /// The bus below the port.
    pub(crate) bus: BusId,
    pub(crate) config: FunctionConfig,
}

/// All slots, and what is still to be done.
pub(crate) struct Plug {
    slots: BTreeMap<usize, Slot>,
    /// Time, controller and event, the last first.
    events: Vec<(u64, usize, Action)>,
    /// Controllers that are to be taken out once their slot has no power.
    requested: Vec<usize>,
    /// Controllers that are to be put in again once they are out.
    returning: Vec<usize>,
    /// Controllers that are out of their slots.
    out: BTreeMap<usize, Inside>,
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
    pub(crate) fn new(
        scenario: &Scenario,
        slots: Vec<Slot>,
        tree: &mut Tree<Inside>,
        machine: &mut dyn Machine,
    ) -> Self {
        let number = |name: &str| scenario.controller(name).map(|(index, _)| index);
        let event = |event: &capdl::scenario::HotPlug| {
            Some((u64::from(event.after_ms) * NS_PER_MS, number(&event.controller)?, event.action))
        };
        let mut plug = Self {
            slots: slots.into_iter().map(|slot| (slot.controller, slot)).collect(),
            events: scenario.hot_plugs.iter().rev().filter_map(event).collect(),
            requested: Vec::new(),
            returning: Vec::new(),
            out: BTreeMap::new(),
        };
        let absent = plug.slots.keys().copied().filter(|index| !scenario.is_there_at_first(*index));
        for index in absent.collect::<Vec<_>>() {
            plug.take_out(index, tree, 0, machine);
        }
        plug
    }

    /// Time of the next event.
    pub(crate) fn next_event_ns(&self, tree: &Tree<Inside>) -> Option<u64> {
        if self.requested.iter().any(|index| self.is_off(*index, tree)) {
            return Some(0);
        }
        self.events.last().map(|(at_ns, ..)| *at_ns)
    }

    /// A controller that is out of its slot.
    pub(crate) fn out(&self, controller: usize) -> Option<&Inside> {
        self.out.get(&controller)
    }

    /// The same, for changes.
    pub(crate) fn out_mut(&mut self, controller: usize) -> Option<&mut Inside> {
        self.out.get_mut(&controller)
    }

    /// Does one thing that is due.
    pub(crate) fn act(&mut self, tree: &mut Tree<Inside>, now_ns: u64, machine: &mut dyn Machine) -> Option<Changed> {
        if let Some(place) = self.requested.iter().position(|index| self.is_off(*index, tree)) {
            let index = self.requested.swap_remove(place);
            return self.take_out(index, tree, now_ns, machine);
        }
        let (_, index, action) = self.events.pop_if(|(at_ns, ..)| *at_ns <= now_ns)?;
        match action {
            Action::Remove => {
                let slot = self.slots.get(&index)?;
                tree.press_attention_button(slot.bus, now_ns, machine);
                self.requested.push(index);
                None
            }
            Action::Pull => self.take_out(index, tree, now_ns, machine),
            Action::Insert if self.requested.contains(&index) => {
                self.returning.push(index);
                None
            }
            Action::Insert => self.put_in(index, tree, now_ns, machine),
        }
    }

    fn is_off(&self, index: usize, tree: &Tree<Inside>) -> bool {
        self.slots.get(&index).is_some_and(|slot| tree.slot(slot.bus) == Some(SlotState::Off))
    }

    fn take_out(
        &mut self,
        index: usize,
        tree: &mut Tree<Inside>,
        now_ns: u64,
        machine: &mut dyn Machine,
    ) -> Option<Changed> {
        let slot = self.slots.get(&index)?;
        let (_, mut device) = tree.remove(slot.bus, now_ns, machine).into_iter().next()?;
        device.reset(Reset::Power, now_ns);
        self.out.insert(index, device);
        if let Some(place) = self.returning.iter().position(|returning| *returning == index) {
            self.returning.swap_remove(place);
            self.events.push((now_ns.saturating_add(IN_HAND_NS), index, Action::Insert));
            self.events.sort_by_key(|(at_ns, ..)| std::cmp::Reverse(*at_ns));
        }
        Some(Changed::Out(index))
    }

    fn put_in(
        &mut self,
        index: usize,
        tree: &mut Tree<Inside>,
        now_ns: u64,
        machine: &mut dyn Machine,
    ) -> Option<Changed> {
        let slot = self.slots.get(&index)?;
        let endpoint = Endpoint::new(slot.config.clone(), self.out.remove(&index)?);
        // The slot is empty, and the function was in it before.
        let function = tree.insert(slot.bus, vec![endpoint], now_ns, machine).ok()?.into_iter().next()?;
        Some(Changed::In(index, function))
    }
}
