//! The slot of a port: its registers, for devices that come and go while the system runs (PCIe 6.7).
//!
//! `state` decides what a reading means; [`Port`] reads, and writes power and the power indicator. Neighbours: `server::slots`
//! carries out orders that concern functions and claims; `assign` reserves room at ports. Left out: the port's interrupts. The
//! server reads the status at each tick, and events stay set until then.

pub mod state;

use crate::config_space::ConfigSpace;
use pci_spec::capability::{self, Capability, id};
use pci_spec::slot::{
    COMMAND_MS, Indicator, LINK_CAPABILITIES, LINK_CONTROL_STATUS, LinkCapabilities, LinkStatus, SLOT_CAPABILITIES,
    SLOT_CONTROL_STATUS, SlotCapabilities, SlotControl, SlotStatus,
};
use pci_spec::{Bdf, express};
use platform::Mmio;
use state::Seen;

const NS_PER_MS: u64 = 1_000_000;

/// A port with a slot whose devices can be inserted and removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Port {
    bdf: Bdf,
    /// Byte offset of Link Control.
    link: u8,
    /// Byte offset of Slot Control.
    slot: u8,
    capabilities: SlotCapabilities,
    reports_link: bool,
    /// A command was written and has until this time to complete; 0 for none.
    busy_until_ns: u64,
}

impl Port {
    /// The port at `bdf`, if it is one with such a slot.
    #[must_use]
    pub fn find<M: Mmio>(config: &ConfigSpace<M>, bdf: Bdf) -> Option<Self> {
        let read = |register: u8| config.read(bdf, register);
        let found: Capability = capability::find(&read, id::EXPRESS).ok().flatten()?;
        let capabilities = SlotCapabilities::from_bits(found.read32(&read, SLOT_CAPABILITIES)?);
        let has_slot = express::Capabilities::from_bits(found.control).slot();
        let link = LinkCapabilities::from_bits(found.read32(&read, LINK_CAPABILITIES)?);
        (has_slot && capabilities.hot_plug()).then_some(Self {
            bdf,
            link: found.offset.checked_add(LINK_CONTROL_STATUS)?,
            slot: found.offset.checked_add(SLOT_CONTROL_STATUS)?,
            capabilities,
            reports_link: link.reports_active(),
            busy_until_ns: 0,
        })
    }

    /// The port.
    #[must_use]
    pub const fn bdf(&self) -> Bdf {
        self.bdf
    }

    /// Physical slot number.
    #[must_use]
    pub const fn number(&self) -> u16 {
        self.capabilities.number()
    }

    /// Reads the slot, and returns the events to be [cleared](Port::clear). `None` while a command is being carried out; its events
    /// stay.
    pub fn read<M: Mmio>(&mut self, config: &ConfigSpace<M>, now_ns: u64) -> Option<(Seen, SlotStatus)> {
        let (control, status) = self.registers(config);
        if self.busy_until_ns != 0 && !status.command_completed() && now_ns < self.busy_until_ns {
            return None;
        }
        self.busy_until_ns = 0;
        let is_powered = status.present() && !self.is_off(control);
        let seen = Seen {
            now_ns,
            present: status.present(),
            link: if self.reports_link { self.is_link_active(config) } else { is_powered },
            exchanged: status.presence_changed(),
            link_changed: self.reports_link && status.link_changed(),
            button: self.capabilities.button() && status.button(),
            fault: self.capabilities.power_controller() && status.power_fault(),
            claimed: false,
        };
        Some((seen, status.events()))
    }

    /// Clears these events.
    pub fn clear<M: Mmio>(&self, config: &mut ConfigSpace<M>, events: SlotStatus) {
        // Each write is a command, whose completion is not worth another one.
        if events.with_command_completed(false) != SlotStatus::new() {
            self.write(config, self.registers(config).0, events);
        }
    }

    /// Whether the slot has power.
    #[must_use]
    pub fn has_power<M: Mmio>(&self, config: &ConfigSpace<M>) -> bool {
        !self.is_off(self.registers(config).0)
    }

    /// Turns the slot's power on or off, where there is a power controller, and sets the power indicator.
    pub fn command<M: Mmio>(&mut self, config: &mut ConfigSpace<M>, power: Power, now_ns: u64) {
        let (before, status) = self.registers(config);
        let (is_off, indicator) = match power {
            Power::Off => (true, Indicator::Off),
            Power::Changing => (false, Indicator::Blink),
            Power::On => (false, Indicator::On),
        };
        let mut control = before;
        if self.capabilities.power_controller() {
            control.set_power_off(is_off);
        }
        if self.capabilities.power_indicator() {
            control.set_power(indicator);
        }
        if control != before {
            // The completion that is awaited is that of this command.
            self.write(config, control, SlotStatus::new().with_command_completed(status.command_completed()));
            let end = now_ns.saturating_add(COMMAND_MS.saturating_mul(NS_PER_MS));
            self.busy_until_ns = if self.capabilities.no_command_completed() { 0 } else { end };
        }
    }

    fn is_off(&self, control: SlotControl) -> bool {
        self.capabilities.power_controller() && control.power_off()
    }

    fn is_link_active<M: Mmio>(&self, config: &ConfigSpace<M>) -> bool {
        let [_, _, low, high] = config.read(self.bdf, self.link).to_le_bytes();
        LinkStatus::from_bits(u16::from_le_bytes([low, high])).active()
    }

    fn registers<M: Mmio>(&self, config: &ConfigSpace<M>) -> (SlotControl, SlotStatus) {
        let [a, b, c, d] = config.read(self.bdf, self.slot).to_le_bytes();
        (SlotControl::from_bits(u16::from_le_bytes([a, b])), SlotStatus::from_bits(u16::from_le_bytes([c, d])))
    }

    fn write<M: Mmio>(&self, config: &mut ConfigSpace<M>, control: SlotControl, events: SlotStatus) {
        let dword = u32::from(events.into_bits()) << 16 | u32::from(control.into_bits());
        config.write(self.bdf, self.slot, dword);
        let _ = config.read(self.bdf, self.slot); // A posted write has arrived after this.
    }
}

/// Order to a slot's power controller, which its power indicator shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Power {
    /// No power.
    Off,
    /// Power, and the indicator blinks: a device comes or is to go.
    Changing,
    /// Power.
    On,
}
