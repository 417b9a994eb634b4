//! The log page about health (section 5.14.1.2).

use bitfield_struct::bitfield;
use zerocopy::little_endian::{U16, U32, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// SMART / Health Information, log page 02h (section 5.14.1.2, figure 194). Counters run over the device's life.
#[derive(Clone, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Smart {
    /// Critical warning. See [`Smart::warnings`].
    pub critical_warning: u8,
    /// Composite temperature, kelvin.
    pub temperature: U16,
    /// Available spare, percent.
    pub spare: u8,
    /// Spare below which the device warns, percent.
    pub spare_threshold: u8,
    /// Part of its life the device estimates as used, percent; may exceed 100; 255 stands for all above 254.
    pub used: u8,
    /// Critical warnings of endurance groups.
    pub endurance_warning: u8,
    reserved_7: [u8; 25],
    /// Data read, in thousands of 512-byte units, rounded up.
    pub data_units_read: U128,
    /// Data written, in thousands of 512-byte units, rounded up.
    pub data_units_written: U128,
    /// Read commands completed.
    pub host_reads: U128,
    /// Write commands completed.
    pub host_writes: U128,
    /// Minutes busy with commands.
    pub busy_minutes: U128,
    /// Power cycles.
    pub power_cycles: U128,
    /// Hours with power.
    pub power_on_hours: U128,
    /// Power lost without a shutdown.
    pub unsafe_shutdowns: U128,
    /// Media and data integrity errors.
    pub media_errors: U128,
    /// Entries ever made in the error log.
    pub error_log_entries: U128,
    /// Minutes above the warning temperature.
    pub warning_minutes: U32,
    /// Minutes above the critical temperature.
    pub critical_minutes: U32,
    /// Temperature sensors 1 to 8, kelvin; 0 is no sensor.
    pub sensors: [U16; 8],
    /// Transitions to thermal management states 1 and 2.
    pub thermal_transitions: [U32; 2],
    /// Seconds in thermal management states 1 and 2.
    pub thermal_seconds: [U32; 2],
    reserved_232: [u8; 280],
}

const _: () = assert!(size_of::<Smart>() == 512 && align_of::<Smart>() == 1);

/// Critical warning of [`Smart`].
#[bitfield(u8)]
#[derive(PartialEq, Eq)]
pub struct Warnings {
    /// The spare is below its threshold.
    pub spare: bool,
    /// A temperature is beyond a threshold.
    pub temperature: bool,
    /// The medium has become unreliable.
    pub reliability: bool,
    /// The medium is read-only.
    pub read_only: bool,
    /// The volatile memory's backup has failed.
    pub backup: bool,
    /// The persistent memory region has become read-only or unreliable.
    pub persistent_memory: bool,
    #[bits(2)]
    __: u8,
}

impl Smart {
    /// Critical warning as flags.
    #[must_use]
    pub const fn warnings(&self) -> Warnings {
        Warnings::from_bits(self.critical_warning)
    }

    /// Composite temperature in degrees Celsius.
    #[must_use]
    pub fn celsius(&self) -> i32 {
        i32::from(self.temperature.get()).saturating_sub(273)
    }
}
