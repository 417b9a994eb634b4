//! Power state descriptors.

use bitfield_struct::bitfield;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A power state, as Identify Controller describes it (section 5.15.2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PowerState {
    /// MP: the most power drawn, in the unit of [`PowerFlags::fine`].
    pub max_power: U16,
    reserved_2: u8,
    /// MXPS and NOPS. See [`PowerFlags`].
    pub flags: u8,
    /// ENLAT: longest time to enter the state, microseconds; 0 not reported.
    pub entry_us: U32,
    /// EXLAT: longest time to leave the state, microseconds; 0 not reported.
    pub exit_us: U32,
    /// RRT: rank by read throughput (4:0); 0 is best.
    pub read_throughput: u8,
    /// RRL: rank by read latency (4:0); 0 is best.
    pub read_latency: u8,
    /// RWT: rank by write throughput (4:0); 0 is best.
    pub write_throughput: u8,
    /// RWL: rank by write latency (4:0); 0 is best.
    pub write_latency: u8,
    /// IDLP: power drawn when idle.
    pub idle_power: U16,
    /// IPS: unit of IDLP (7:6).
    pub idle_scale: u8,
    reserved_19: u8,
    /// ACTP: power drawn under load.
    pub active_power: U16,
    /// APW (2:0) and APS (7:6): the load, and the unit of ACTP.
    pub active_load_scale: u8,
    reserved_23: [u8; 9],
}

const _: () = assert!(size_of::<PowerState>() == 32 && align_of::<PowerState>() == 1);

/// [`PowerState::flags`].
#[bitfield(u8)]
#[derive(PartialEq, Eq)]
pub struct PowerFlags {
    /// MXPS: MP is in units of 0.1 mW instead of 10 mW.
    pub fine: bool,
    /// NOPS: no I/O command is processed in the state.
    pub non_operational: bool,
    #[bits(6)]
    __: u8,
}

impl PowerState {
    /// Whether no I/O command is processed in the state.
    #[must_use]
    pub const fn is_non_operational(&self) -> bool {
        PowerFlags::from_bits(self.flags).non_operational()
    }
}
