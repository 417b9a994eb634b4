//! Asynchronous events: a controller's reports that answer no other command (section 5.2.1).

use bitfield_struct::bitfield;

/// DW0 of a completed Asynchronous Event Request (section 5.2.1, figure 146).
///
/// An event is these three numbers together, so the named ones are values of this type, to be compared whole.
#[bitfield(u32)]
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub struct AsyncEvent {
    /// Event type. See [`EventKind`].
    #[bits(3)]
    pub kind: u8,
    #[bits(5)]
    __: u8,
    /// Event information, by type.
    pub info: u8,
    /// The log page to read; reading it also lets the event be reported again. See [`crate::log::LogPage`].
    pub log_page: u8,
    __: u8,
}

/// Event types (section 5.2.1, figure 146).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum EventKind {
    /// 0: an error that belongs to no command.
    Error = 0,
    /// 1: SMART and health.
    Smart = 1,
    /// 2: a notice, of a change.
    Notice = 2,
    /// 6: of the I/O command set.
    IoCommandSet = 6,
    /// 7: the vendor's own.
    Vendor = 7,
}

impl EventKind {
    /// The type of this number, if it is one of those named here.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        Some(match raw {
            0 => Self::Error,
            1 => Self::Smart,
            2 => Self::Notice,
            6 => Self::IoCommandSet,
            7 => Self::Vendor,
            _ => return None,
        })
    }
}

impl AsyncEvent {
    /// Error: a doorbell of no queue was written.
    pub const INVALID_DOORBELL_REGISTER: Self = Self::from_bits(0x01_00_00);
    /// Error: a doorbell got a value that is invalid for its queue.
    pub const INVALID_DOORBELL_VALUE: Self = Self::from_bits(0x01_01_00);
    /// Error: a diagnostic failed.
    pub const DIAGNOSTIC_FAILURE: Self = Self::from_bits(0x01_02_00);
    /// Error: a persistent internal error.
    pub const PERSISTENT_INTERNAL_ERROR: Self = Self::from_bits(0x01_03_00);
    /// Error: a transient internal error.
    pub const TRANSIENT_INTERNAL_ERROR: Self = Self::from_bits(0x01_04_00);
    /// Error: a firmware image could not be loaded.
    pub const FIRMWARE_LOAD_ERROR: Self = Self::from_bits(0x01_05_00);
    /// Health: the subsystem's reliability is degraded.
    pub const RELIABILITY: Self = Self::from_bits(0x02_00_01);
    /// Health: a temperature is beyond its threshold.
    pub const TEMPERATURE: Self = Self::from_bits(0x02_01_01);
    /// Health: the spare is below its threshold.
    pub const SPARE: Self = Self::from_bits(0x02_02_01);
    /// Notice: namespaces were attached, detached, formatted or deleted.
    pub const NAMESPACE_CHANGED: Self = Self::from_bits(0x04_00_02);
    /// Notice: the controller is about to activate firmware.
    pub const FIRMWARE_ACTIVATION: Self = Self::from_bits(0x03_01_02);
    /// I/O command set: a sanitize operation ended. Its log page is [`crate::log::LogPage::Sanitize`].
    pub const SANITIZE_COMPLETED: Self = Self::from_bits(0x81_01_06);

    /// The type, if it has a name here.
    #[must_use]
    pub const fn event_kind(self) -> Option<EventKind> {
        EventKind::from_raw(self.kind())
    }
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;
