//! The slot of a root port or a switch's downstream port: registers of the PCI Express capability (PCIe 7.5.3.6 to 7.5.3.11).
//!
//! A port has a slot if [`Capabilities::slot`](crate::express::Capabilities::slot) is set. Left out: the electromechanical
//! interlock, and power limits.

use bitfield_struct::bitfield;

/// Byte offset of [`LinkCapabilities`] from the capability's start.
pub const LINK_CAPABILITIES: u8 = 0x0c;
/// Byte offset of the dword with Link Control (15:0) and [`LinkStatus`] (31:16) from the capability's start.
pub const LINK_CONTROL_STATUS: u8 = 0x10;
/// Byte offset of [`SlotCapabilities`] from the capability's start.
pub const SLOT_CAPABILITIES: u8 = 0x14;
/// Byte offset of the dword with [`SlotControl`] (15:0) and [`SlotStatus`] (31:16) from the capability's start.
pub const SLOT_CONTROL_STATUS: u8 = 0x18;

/// Milliseconds from the time at which the link is active to the first access to the device (PCIe 6.6.1).
pub const LINK_TO_ACCESS_MS: u64 = 100;
/// Milliseconds in which a device answers its first access with success (PCIe 6.6.1).
pub const FIRST_ANSWER_MS: u64 = 1000;
/// Milliseconds in which a second press of the attention button withdraws the first (PCIe 6.7.1.5).
pub const WITHDRAW_MS: u64 = 5000;
/// Milliseconds from the removal of a slot's power to the next step that relies on it (PCIe 6.7.1.8).
pub const POWER_OFF_MS: u64 = 1000;
/// Milliseconds in which a slot completes a command (PCIe 6.7.3.2).
pub const COMMAND_MS: u64 = 1000;

/// Link capabilities (PCIe 7.5.3.6).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct LinkCapabilities {
    #[bits(20)]
    __: u32,
    /// [`LinkStatus::active`] is implemented.
    pub reports_active: bool,
    #[bits(11)]
    __: u16,
}

/// Link status (PCIe 7.5.3.8).
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct LinkStatus {
    #[bits(13)]
    __: u16,
    /// The data link layer is active: there is a device at the other end, with power.
    pub active: bool,
    #[bits(2)]
    __: u8,
}

/// Slot capabilities (PCIe 7.5.3.9).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct SlotCapabilities {
    /// There is an attention button.
    pub button: bool,
    /// There is a power controller: [`SlotControl::power_off`] has an effect.
    pub power_controller: bool,
    /// There is a sensor of the retention latch.
    pub latch_sensor: bool,
    /// There is an attention indicator.
    pub attention_indicator: bool,
    /// There is a power indicator.
    pub power_indicator: bool,
    /// A device in the slot may be removed without notice.
    pub surprise: bool,
    /// Devices can be inserted and removed while the system runs.
    pub hot_plug: bool,
    #[bits(11)]
    __: u16,
    /// The slot does not report the completion of commands, and takes them at any time.
    pub no_command_completed: bool,
    /// Physical slot number, the same at every start; 0 for a device that is fixed.
    #[bits(13)]
    pub number: u16,
}

/// Slot control (PCIe 7.5.3.10). Each write is a command.
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct SlotControl {
    /// Interrupts for events, bits 0 to 5 in the order of [`SlotStatus`], and for hot plug as a whole.
    #[bits(6)]
    pub interrupts: u8,
    /// Attention indicator.
    #[bits(2)]
    pub attention: Indicator,
    /// Power indicator.
    #[bits(2)]
    pub power: Indicator,
    /// The slot has no power.
    pub power_off: bool,
    #[bits(5)]
    pub others: u8,
}

/// State of an indicator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Indicator {
    /// 0: reserved; read where there is no indicator.
    Reserved = 0,
    /// 1: it shines.
    On = 1,
    /// 2: it blinks.
    Blink = 2,
    /// 3: it is dark.
    Off = 3,
}

impl Indicator {
    const fn from_bits(bits: u8) -> Self {
        match bits {
            1 => Self::On,
            2 => Self::Blink,
            3 => Self::Off,
            _ => Self::Reserved,
        }
    }

    const fn into_bits(self) -> u8 {
        self as u8
    }
}

/// Slot status (PCIe 7.5.3.11). Events clear where a one is written.
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct SlotStatus {
    /// Event: the attention button was pressed.
    pub button: bool,
    /// Event: the power controller found a fault.
    pub power_fault: bool,
    /// Event: the retention latch was opened or closed.
    pub latch_changed: bool,
    /// Event: [`present`](Self::present) changed.
    pub presence_changed: bool,
    /// Event: the slot completed a command and takes the next one.
    pub command_completed: bool,
    /// The retention latch is open.
    pub latch_open: bool,
    /// There is a device in the slot, with power or without.
    pub present: bool,
    /// The electromechanical interlock is engaged.
    pub interlocked: bool,
    /// Event: [`LinkStatus::active`] changed.
    pub link_changed: bool,
    #[bits(7)]
    __: u8,
}

impl SlotStatus {
    /// All events.
    pub const EVENTS: Self = Self::new()
        .with_button(true)
        .with_power_fault(true)
        .with_latch_changed(true)
        .with_presence_changed(true)
        .with_command_completed(true)
        .with_link_changed(true);

    /// The events that are set, to be written back.
    #[must_use]
    pub const fn events(self) -> Self {
        Self::from_bits(self.into_bits() & Self::EVENTS.into_bits())
    }
}

#[cfg(test)]
#[path = "slot_tests.rs"]
mod tests;
