//! Devices that come and go: carries out the orders of each slot's state machine (`slot::state`).
//!
//! Slots are those that drivers are for. At each tick a slot is read and takes one step. An arriving device is numbered, sized
//! and placed as at the start, in its port's bus and window. A device that leaves is first closed to claims; its driver reads
//! that in its page of presence (`pci_api::presence`) and releases it. Only a driver that does not is deprived of it. Left out:
//! ports that are themselves plugged in.

use super::Server;
use crate::assign::assign_behind;
use crate::enumerate::enumerate_behind;
use crate::function::{Bridge, Function};
use crate::resources::{Missing, Resources};
use crate::sizing::Note;
use crate::slot::state::{Arrival, Kept, Order, State};
use crate::slot::{Port, Power};
use alloc::vec::Vec;
use pci_api::presence::{Presence, Visit};
use pci_api::{Match, ServerConfig, names};
use pci_spec::Bdf;
use pci_spec::bridge::BusNumbers;
use platform::log::{error, info, warn};
use platform::{Environment, Platform};
use virtio_drivers::transport::pci::bus::Command;

/// A slot that drivers are for.
#[derive(Debug)]
pub(super) struct Slot<M> {
    port: Port,
    /// The buses behind the port.
    numbers: BusNumbers,
    /// The slot's place in the kept page.
    index: usize,
    state: State,
    visit: Visit,
    /// Each driver's page of presence.
    pages: Vec<M>,
}

impl<M: platform::Memory> Slot<M> {
    /// The slot's physical number.
    pub(super) const fn number(&self) -> u16 {
        self.port.number()
    }

    /// The port above.
    pub(super) const fn port(&self) -> Bdf {
        self.port.bdf()
    }

    /// Whether a function is, or would be, behind the port.
    pub(super) const fn holds(&self, function: Bdf) -> bool {
        self.numbers.forwards(function.bus())
    }

    /// Whether the slot's functions can be claimed.
    pub(super) const fn is_open(&self) -> bool {
        self.state.is_open()
    }

    /// Enters a state, and keeps what a successor of this server must know of it. `is_pressed`: an event of the button led there.
    fn enter(&mut self, note: &Note<M>, state: State, is_pressed: bool) {
        let changes = self.state.kept() != state.kept();
        self.state = state;
        if changes || is_pressed {
            self.keep(note, is_pressed);
        }
    }

    fn keep(&self, note: &Note<M>, is_pressed: bool) {
        if note.keep_of_slot(self.index, self.state.kept().to_word(is_pressed)).is_err() {
            error!("the state of slot {} cannot be kept", self.number());
        }
    }

    /// Lets the drivers know.
    fn publish(&mut self, visit: Visit) {
        self.visit = visit;
        if self.pages.iter().any(|page| visit.store(page).is_err()) {
            error!("a page of presence cannot be written");
        }
    }
}

/// The slots that drivers are for, among the ports found. A port without a bus, or one that is not there, is logged. `note` has what
/// an earlier server kept of them.
pub(super) fn find<P: Platform>(
    resources: &mut Resources<P>,
    environment: &Environment,
    config: &ServerConfig,
    functions: &[Function],
    note: &Note<P::Memory>,
) -> Result<Vec<Slot<P::Memory>>, Missing> {
    let mut slots = Vec::new();
    for (index, number) in config.slots().into_iter().enumerate() {
        let found = functions.iter().filter_map(|function| Some((function, function.bridge?.numbers))).find_map(
            |(function, numbers)| {
                let port = Port::find(&resources.config, function.bdf).filter(|port| port.number() == number)?;
                (numbers.secondary() != 0).then_some((port, numbers))
            },
        );
        let pages = pages(&resources.platform, environment, config, number)?;
        let Some((port, numbers)) = found else {
            error!("there is no port with a slot number {} that devices can be plugged into", number);
            continue;
        };
        // The supervisor counts on after the death of an earlier server: another arrival has another number.
        let visit = pages.first().and_then(|page| Visit::load(page).ok()).unwrap_or_default();
        let mut slot = Slot { port, numbers, index, state: State::Empty, visit, pages };
        let is_usable = |function: &Function| slot.holds(function.bdf) && function.unusable.is_none();
        let is_found = functions.iter().any(is_usable);
        slot.start(resources, note, is_found);
        slots.push(slot);
    }
    Ok(slots)
}

impl<M: platform::Memory> Slot<M> {
    /// Puts the slot into its first state. Events from before the start are in that, but a press of the button and a fault are
    /// left for the first reading, unless another device is there since.
    fn start<P: Platform<Memory = M>>(&mut self, resources: &mut Resources<P>, note: &Note<M>, is_found: bool) {
        let now_ns = resources.now_ns();
        let (kept, was_seen) = Kept::from_word(note.of_slot(self.index).unwrap_or_default());
        let Some((seen, events)) = self.port.read(&resources.config, now_ns) else { return };
        let has_power = self.port.has_power(&resources.config);
        let kept = if seen.exchanged { kept.without_device(has_power) } else { kept };
        self.state = State::at_start(is_found, has_power, kept, now_ns);
        let events = events
            .with_button(events.button() && (seen.exchanged || was_seen))
            .with_power_fault(events.power_fault() && seen.exchanged);
        self.port.clear(&mut resources.config, events);
        self.keep(note, false);
        if is_found && self.state.has_power() {
            let power = if self.state == State::On { Power::On } else { Power::Changing };
            self.port.command(&mut resources.config, power, now_ns);
        }
        let presence = if self.state.is_open() { Presence::Present } else { Presence::Absent };
        self.publish(self.visit.with(presence));
    }
}

/// The pages of presence of the drivers of slot `number`.
fn pages<P: Platform>(
    platform: &P,
    environment: &Environment,
    config: &ServerConfig,
    number: u16,
) -> Result<Vec<P::Memory>, Missing> {
    let drivers = (0u32..).zip(&config.drivers).filter(|(_, driver)| driver.allowed == Match::Slot(number));
    let page = |(driver, _)| platform.memory(environment.region(&names::presence(driver))?).ok();
    let pages: Option<Vec<_>> = drivers.map(page).collect();
    pages.ok_or(Missing("the pages of presence of slots' drivers"))
}

impl<P: Platform> Server<P> {
    /// Reads all slots, and lets each take one step.
    pub(super) fn watch_slots(&mut self) {
        for index in 0..self.slots.len() {
            self.watch_slot(index);
        }
    }

    fn watch_slot(&mut self, index: usize) {
        let now_ns = self.resources.now_ns();
        let Some(slot) = self.slots.get_mut(index) else { return };
        let Some((mut seen, events)) = slot.port.read(&self.resources.config, now_ns) else { return };
        seen.claimed = self.claims.iter().flatten().any(|claim| slot.holds(claim.bdf()));
        let (state, order) = slot.state.next(&seen);
        // Kept before the event is cleared: a server that dies in between leaves one or the other.
        slot.enter(&self.note, state, seen.button);
        slot.port.clear(&mut self.resources.config, events);
        if seen.button {
            slot.keep(&self.note, false);
        }
        if let Some(order) = order {
            self.obey(index, order, now_ns);
        }
    }

    fn obey(&mut self, index: usize, order: Order, now_ns: u64) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        let number = slot.number();
        let mut power = |power| slot.port.command(&mut self.resources.config, power, now_ns);
        match order {
            Order::PowerOn => power(Power::Changing),
            Order::Blink => {
                info!("removal of the device in slot {} was requested", number);
                power(Power::Changing);
            }
            Order::Steady => power(Power::On),
            Order::Arrive => self.arrive(index, now_ns),
            Order::Leave => slot.publish(slot.visit.with(Presence::Leaving)),
            Order::Lose => {
                warn!("the device in slot {} is gone", number);
                self.forget(index);
            }
            Order::TakeBack => self.take_back(index),
            Order::PowerOff => {
                info!("slot {} has no power any more", number);
                power(Power::Off);
                self.forget(index);
            }
        }
    }

    /// Gives the device in a slot addresses and records its functions, if it answers.
    fn arrive(&mut self, index: usize, now_ns: u64) {
        let arrival = self.place(index);
        let Some(slot) = self.slots.get_mut(index) else { return };
        let (state, order) = slot.state.arrived(arrival, now_ns);
        slot.enter(&self.note, state, false);
        if arrival == Arrival::Found {
            info!("a device arrived in slot {}", slot.number());
            slot.publish(slot.visit.next());
        }
        if let Some(order) = order {
            self.obey(index, order, now_ns);
        }
    }

    fn place(&mut self, index: usize) -> Arrival {
        let Self { resources: Resources { config, .. }, note, functions, slots, .. } = self;
        let Some(slot) = slots.get(index) else { return Arrival::Unusable };
        let (port, secondary) = (slot.port(), slot.numbers.secondary());
        if !Bdf::new(secondary, 0, 0).is_some_and(|first| config.answers(first)) {
            return Arrival::Silent;
        }
        // Those of a server before, which died while it placed them.
        functions.retain(|function| !slot.holds(function.bdf));
        let above = functions.iter().find(|function| function.bdf == port);
        let Some((bridge, depth)) = above.and_then(|port| Some((port.bridge?, port.path.len().saturating_add(1))))
        else {
            return Arrival::Unusable;
        };
        let bridge: Bridge = bridge;
        let left_out = assign_behind(config, note, (port, &bridge), depth);
        config.change_command(port, Command::MEMORY_SPACE, Command::empty());
        let windows = crate::resources::pci_windows(&self.config);
        let known = functions.len();
        enumerate_behind(config, note, &windows, &left_out, port, functions);
        let arrived = functions.iter().skip(known);
        arrived.clone().for_each(super::log);
        if arrived.into_iter().any(|function| function.unusable.is_none()) { Arrival::Found } else { Arrival::Unusable }
    }

    /// Forgets the functions in a slot, and lets drivers know. Claims of them stay.
    fn forget(&mut self, index: usize) {
        let Self { note, functions, provisions, slots, .. } = self;
        let Some(slot) = slots.get_mut(index) else { return };
        functions.retain(|function| !slot.holds(function.bdf));
        provisions.retain(|provision| {
            let is_gone = slot.holds(provision.physical());
            if is_gone && provision.is_resetting() && note.strike().is_err() {
                error!("the note of a function's registers cannot be cleared");
            }
            !is_gone
        });
        slot.publish(slot.visit.with(Presence::Absent));
    }

    /// Takes back the claims of the functions in a slot from drivers that did not release them.
    fn take_back(&mut self, index: usize) {
        let Self { resources, claims, slots, .. } = self;
        let Some(slot) = slots.get(index) else { return };
        for claim in claims.iter_mut().filter(|claim| claim.as_ref().is_some_and(|claim| slot.holds(claim.bdf()))) {
            if let Some(claim) = claim.take() {
                let bdf = claim.bdf();
                warn!("{:x}:{:x}.{} is taken from its driver", bdf.bus(), bdf.device(), bdf.function());
                claim.close(resources);
            }
        }
    }
}
