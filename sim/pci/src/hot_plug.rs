//! Slots: insertion and removal while the machine runs, and the notification of software (PCIe 6.7).
//!
//! A change sets event bits in the slot's status; enabled ones raise the port's one message, or its pin. Removal of a
//! device from a slot that has power is a surprise. Software is notified in the same way, and everything of the device
//! reads all ones. In an orderly removal somebody presses the attention button, and software turns the slot's power
//! off.

use crate::arena::Bus;
use crate::build::{AttachError, Endpoint};
use crate::function::{Core, Function, Kind};
use crate::ids::{BusId, FunctionId};
use crate::layout::{LINK_STATUS, SLOT};
use crate::machine::{Device, Level, Machine, Reset, Upstream};
use crate::port::{self, Port, Presence};
use crate::tree::Tree;
use crate::upstream::Line;

/// Event bits in the dword of slot control and status.
const ATTENTION_BUTTON: u32 = 1 << 16;
const PRESENCE_CHANGED: u32 = 1 << 19;
const COMMAND_COMPLETED: u32 = 1 << 20;
const PRESENT: u32 = 1 << 22;
const LINK_CHANGED: u32 = 1 << 24;
/// Each event with the bit of slot control that enables it.
const EVENTS: [(u32, u32); 4] =
    [(ATTENTION_BUTTON, 1), (PRESENCE_CHANGED, 1 << 3), (COMMAND_COMPLETED, 1 << 4), (LINK_CHANGED, 1 << 12)];
const HOT_PLUG_INTERRUPT: u32 = 1 << 5;
/// Data link layer active, in the dword of link control and status.
const LINK_ACTIVE: u32 = 1 << 29;
const POWER_OFF: u32 = 1 << 10;

/// State of a slot as seen from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotState {
    /// Nothing in it.
    Empty,
    /// A device that is switched off: it may be taken out.
    Off,
    /// A device that runs: its removal is a surprise.
    On,
}

impl<D: Device> Tree<D> {
    /// Returns the state of the slot above a bus; `None` when there is none.
    #[must_use]
    pub fn slot(&self, bus: BusId) -> Option<SlotState> {
        let (_, Function { core, kind: Kind::Port(port) }) = self.bridge_of(bus)? else { return None };
        Some(match port.slot? {
            Presence::Empty => SlotState::Empty,
            Presence::Occupied if port::slot_has_power(&core.space) => SlotState::On,
            Presence::Occupied => SlotState::Off,
        })
    }

    /// Puts a device of one or several functions, numbered from 0, into an empty slot.
    ///
    /// # Errors
    ///
    /// [`AttachError`]: no such slot, it is not empty, or a function is invalid. The slot is then as it was.
    pub fn insert(
        &mut self,
        bus: BusId,
        functions: Vec<Endpoint<D>>,
        now_ns: u64,
        machine: &mut dyn Machine,
    ) -> Result<Vec<FunctionId>, AttachError> {
        self.outer.batch.now_ns = now_ns;
        match self.slot(bus) {
            None => return Err(AttachError::NoSuchPlace),
            Some(SlotState::Empty) => {}
            Some(SlotState::Off | SlotState::On) => return Err(AttachError::Taken),
        }
        let put: Result<Vec<_>, _> =
            (0u8..).zip(functions).map(|(number, endpoint)| self.put_endpoint(bus, 0, number, endpoint)).collect();
        if put.is_err() {
            for id in self.below(bus) {
                self.take_out(id, &mut Vec::new(), machine);
            }
        }
        if !self.below(bus).is_empty() {
            self.set_presence(bus, Presence::Occupied, machine);
        }
        put
    }

    /// Takes out everything below a slot, orderly or by surprise: see [`Tree::slot`]. Returns the devices, those on
    /// bridges' lower buses too; none when there is no slot.
    pub fn remove(&mut self, bus: BusId, now_ns: u64, machine: &mut dyn Machine) -> Vec<(FunctionId, D)> {
        self.outer.batch.now_ns = now_ns;
        if self.slot(bus).is_none() {
            return Vec::new();
        }
        let mut devices = Vec::new();
        for id in self.below(bus) {
            self.take_out(id, &mut devices, machine);
        }
        self.set_presence(bus, Presence::Empty, machine);
        devices
    }

    /// Presses the slot's attention button: a request to take out the device in the slot, or to start it.
    pub fn press_attention_button(&mut self, bus: BusId, now_ns: u64, machine: &mut dyn Machine) {
        self.outer.batch.now_ns = now_ns;
        if self.slot(bus).is_some() {
            self.signal(bus, ATTENTION_BUTTON, machine);
        }
    }

    /// Returns all functions below a bus, the nearest first.
    pub(crate) fn below(&self, bus: BusId) -> Vec<FunctionId> {
        let mut found: Vec<FunctionId> = self.buses.get(bus).map_or(Vec::new(), |bus| bus.functions().collect());
        let mut next = 0;
        while let Some(id) = found.get(next).copied() {
            if let Some(Function { kind: Kind::Port(port), .. }) = self.functions.get(id) {
                found.extend(self.buses.get(port.below).into_iter().flat_map(Bus::functions));
            }
            next += 1;
        }
        found
    }

    /// Returns the port above a bus.
    pub(crate) fn port_mut(&mut self, bus: BusId) -> Option<(&mut Core, &mut Port)> {
        let bridge = self.buses.get(bus)?.bridge?;
        let Function { core, kind: Kind::Port(port) } = self.functions.get_mut(bridge)? else { return None };
        Some((core, port))
    }

    /// Updates slot and link status to the present state, without a notification.
    pub(crate) fn settle_slot(&mut self, bus: BusId) {
        let Some((core, port)) = self.port_mut(bus) else { return };
        if let Some(presence) = port.slot {
            let present = if presence == Presence::Occupied { PRESENT } else { 0 };
            core.space.set(SLOT, present, PRESENT);
            let active = if port.link_is_up(&core.space) { LINK_ACTIVE } else { 0 };
            core.space.set(LINK_STATUS, active, LINK_ACTIVE);
        }
    }

    /// Handles a write to link control, which may have switched the link off or on. The device at its end is reset when
    /// the link goes down.
    pub(crate) fn link_changed(&mut self, port: FunctionId, machine: &mut dyn Machine) {
        let Some(bus) = self.bus_below(port) else { return };
        let was_active = self.link_is_active(bus);
        self.settle_link(bus, 0, machine);
        if was_active && !self.link_is_active(bus) {
            for id in self.below(bus) {
                self.reset_one(id, Reset::Bus);
            }
        }
    }

    /// Handles a write to slot control. Each write is a command to the slot, and completes at once.
    pub(crate) fn slot_written(&mut self, port: FunctionId, changed: u32, machine: &mut dyn Machine) {
        const CONTROL: u32 = 0xffff;
        let Some(bus) = self.bus_below(port) else { return };
        let event = if changed & CONTROL != 0 { COMMAND_COMPLETED } else { 0 };
        if changed & POWER_OFF != 0 {
            for id in self.below(bus) {
                self.reset_one(id, Reset::Power);
            }
            self.settle_link(bus, event, machine);
        } else {
            self.signal(bus, event, machine);
        }
    }

    pub(crate) fn bus_below(&self, port: FunctionId) -> Option<BusId> {
        match &self.functions.get(port)?.kind {
            Kind::Port(port) => Some(port.below),
            Kind::Device(_) | Kind::Inert => None,
        }
    }

    fn set_presence(&mut self, bus: BusId, presence: Presence, machine: &mut dyn Machine) {
        if let Some(slot) = self.port_mut(bus).and_then(|(_, port)| port.slot.as_mut()) {
            *slot = presence;
        }
        self.settle_link(bus, PRESENCE_CHANGED, machine);
    }

    /// Takes a function out. It raises nothing any more, and a pin that it asserted falls.
    fn take_out(&mut self, id: FunctionId, devices: &mut Vec<(FunctionId, D)>, machine: &mut dyn Machine) {
        let Some(Function { mut core, kind }) = self.functions.take(id) else { return };
        Line { core: &mut core, outer: &mut self.outer, machine }.pin(Level::Deasserted);
        if let Some(bus) = self.buses.get_mut(core.bus) {
            bus.put(core.devfn, None);
        }
        match kind {
            Kind::Device(device) => devices.push((id, device)),
            Kind::Port(port) => drop(self.buses.take(port.below)),
            Kind::Inert => {}
        }
    }

    /// Updates the link's state, and notifies software of `event` and of the link if it changed.
    fn settle_link(&mut self, bus: BusId, event: u32, machine: &mut dyn Machine) {
        let before = self.link_is_active(bus);
        self.settle_slot(bus);
        self.reroute(machine);
        let change = if self.link_is_active(bus) == before { 0 } else { LINK_CHANGED };
        self.signal(bus, event | change, machine);
    }

    fn link_is_active(&mut self, bus: BusId) -> bool {
        self.port_mut(bus).is_some_and(|(core, _)| core.space.read(LINK_STATUS) & LINK_ACTIVE != 0)
    }

    /// Sets event bits, and interrupts when one that is enabled is new.
    fn signal(&mut self, bus: BusId, events: u32, machine: &mut dyn Machine) {
        let Some(bridge) = self.buses.get(bus).and_then(|bus| bus.bridge) else { return };
        let Some(Function { core, .. }) = self.functions.get_mut(bridge) else { return };
        core.space.set(SLOT, u32::MAX, events);
        let slot = core.space.read(SLOT);
        let due = slot & HOT_PLUG_INTERRUPT != 0
            && EVENTS.iter().any(|(event, enable)| slot & event != 0 && slot & enable != 0);
        let was_due = core.wanted == Level::Asserted;
        let mut line = Line { core, outer: &mut self.outer, machine };
        line.pin(if due { Level::Asserted } else { Level::Deasserted });
        if due && !was_due {
            line.interrupt(0);
        }
    }
}
