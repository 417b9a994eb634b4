//! The values of features (section 5.21.1).

use bitfield_struct::bitfield;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Feature, set_feature};
use crate::{Cid, Sqe};

/// Number of Queues (section 5.21.1.7): I/O queues, the admin pair not counted.
///
/// The driver requests numbers in CDW11 of Set Features, before any I/O queue exists. The controller grants numbers in DW0
/// of the completion, which may be more or less. Both are 0's based, so zero queues can be neither requested nor granted.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct NumberOfQueues {
    /// NSQR or NSQA: SQs, 0's based. 65535 is invalid.
    pub sqs_z: u16,
    /// NCQR or NCQA: CQs, 0's based. 65535 is invalid.
    pub cqs_z: u16,
}

impl NumberOfQueues {
    /// The value for as many SQs as CQs, 1..=65535; `None` for other numbers.
    #[must_use]
    pub const fn pairs(pairs: u16) -> Option<Self> {
        match pairs.checked_sub(1) {
            Some(z) => Some(Self::new().with_sqs_z(z).with_cqs_z(z)),
            None => None,
        }
    }

    /// Number of SQs: 1..=65536.
    #[must_use]
    pub const fn sqs(self) -> u32 {
        (self.sqs_z() as u32).saturating_add(1)
    }

    /// Number of CQs: 1..=65536.
    #[must_use]
    pub const fn cqs(self) -> u32 {
        (self.cqs_z() as u32).saturating_add(1)
    }

    /// Set Features with this value.
    #[must_use]
    pub const fn set(self, cid: Cid) -> Sqe {
        set_feature(cid, Feature::NumberOfQueues, self.into_bits())
    }
}

/// Arbitration (section 5.21.1.1).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct ArbitrationWeights {
    /// AB: at most 2^AB commands from an SQ at a time; 7 is no limit.
    #[bits(3)]
    pub burst: u8,
    #[bits(5)]
    __: u8,
    /// LPW: weight of the low class, 0's based.
    pub low_z: u8,
    /// MPW: weight of the medium class, 0's based.
    pub medium_z: u8,
    /// HPW: weight of the high class, 0's based.
    pub high_z: u8,
}

impl ArbitrationWeights {
    /// [`ArbitrationWeights::burst`] without a limit.
    pub const NO_LIMIT: u8 = 7;

    /// Set Features with this value.
    #[must_use]
    pub const fn set(self, cid: Cid) -> Sqe {
        set_feature(cid, Feature::Arbitration, self.into_bits())
    }
}

/// Power Management (section 5.21.1.2).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct PowerManagement {
    /// PS: the power state, an index of [`crate::identify::Controller::psd`].
    #[bits(5)]
    pub state: u8,
    /// WH: the expected load; 0 for no hint.
    #[bits(3)]
    pub workload: u8,
    #[bits(24)]
    __: u32,
}

/// Temperature Threshold (section 5.21.1.4).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct TemperatureThreshold {
    /// TMPTH: kelvin.
    pub kelvin: u16,
    /// TMPSEL: 0 the composite temperature, 1 to 8 a sensor, [`TemperatureThreshold::ALL_SENSORS`] all sensors.
    #[bits(4)]
    pub sensor: u8,
    /// THSEL: 0 is an upper threshold, 1 a lower one.
    #[bits(2)]
    pub under: u8,
    #[bits(10)]
    __: u16,
}

impl TemperatureThreshold {
    /// [`TemperatureThreshold::sensor`] for all of them; only to be set, not got.
    pub const ALL_SENSORS: u8 = 0xf;
}

/// Error Recovery (section 5.21.1.5), of a namespace.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct ErrorRecovery {
    /// TLER: the limit of error recovery for a command, in units of 100 ms; 0 is no limit.
    pub retry_limit: u16,
    /// DULBE: reading deallocated or unwritten blocks is an error.
    pub unwritten_is_error: bool,
    #[bits(15)]
    __: u16,
}

/// Volatile Write Cache (section 5.21.1.6).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct WriteCache {
    /// WCE: writes may complete before they are safe from power loss.
    pub enabled: bool,
    #[bits(31)]
    __: u32,
}

/// Interrupt Coalescing (section 5.21.1.8): hints that do not apply to the admin queue.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct InterruptCoalescing {
    /// THR: completions to gather before an interrupt, 0's based.
    pub threshold_z: u8,
    /// TIME: the longest delay of an interrupt, in units of 100 us; 0 is no delay at all.
    pub time: u8,
    __: u16,
}

/// Interrupt Vector Configuration (section 5.21.1.9).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct InterruptVector {
    /// IV: the vector.
    pub vector: u16,
    /// CD: its interrupts are not coalesced.
    pub coalescing_disabled: bool,
    #[bits(15)]
    __: u16,
}

/// Write Atomicity Normal (section 5.21.1.10).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct WriteAtomicity {
    /// DN: only the atomicity in a power failure is required, and not that of normal operation.
    pub disable_normal: bool,
    #[bits(31)]
    __: u32,
}

/// Asynchronous Event Configuration (section 5.21.1.11): the events that are reported.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct AsyncEvents {
    /// Critical warnings that are reported, by the bits of [`crate::log::Warnings`].
    pub warnings: u8,
    /// Namespace attribute notices.
    pub namespace_changed: bool,
    /// Firmware activation notices.
    pub firmware_activation: bool,
    /// Telemetry log notices.
    pub telemetry: bool,
    /// Asymmetric namespace access change notices.
    pub access: bool,
    /// Predictable latency event notices.
    pub latency: bool,
    /// LBA status information notices.
    pub lba_status: bool,
    /// Endurance group notices.
    pub endurance: bool,
    #[bits(17)]
    __: u32,
}

/// Timestamp (section 5.21.1.14): the data of the feature.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Timestamp {
    /// Milliseconds, least significant byte first. See [`Timestamp::milliseconds`].
    pub timestamp: [u8; 6],
    /// The origin from which the milliseconds count; only the controller writes it.
    pub attributes: u8,
    /// Reserved.
    pub reserved: u8,
}

const _: () = assert!(size_of::<Timestamp>() == 8);

impl Timestamp {
    /// [`Timestamp::attributes`]: counted from the last reset of the controller.
    pub const SINCE_RESET: u8 = 0;
    /// [`Timestamp::attributes`]: counted from the value that the host set last.
    pub const SET_BY_HOST: u8 = 1 << 1;

    /// Of the lower 48 bits of a number of milliseconds.
    #[must_use]
    pub const fn new(milliseconds: u64, attributes: u8) -> Self {
        let [a, b, c, d, e, f, _, _] = milliseconds.to_le_bytes();
        Self { timestamp: [a, b, c, d, e, f], attributes, reserved: 0 }
    }

    /// The milliseconds: below 2^48.
    #[must_use]
    pub const fn milliseconds(self) -> u64 {
        let [a, b, c, d, e, f] = self.timestamp;
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }
}

/// Host Behavior Support (section 5.21.1.22): the data of the feature.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HostBehavior {
    /// ACRE: 1 when the host keeps the delays that CRD names.
    pub acre: u8,
    /// Reserved in revision 1.4.
    pub reserved: [u8; 511],
}

const _: () = assert!(size_of::<HostBehavior>() == 512);

impl HostBehavior {
    /// The host keeps the delays that CRD names.
    pub const RETRIES_LATER: Self = Self { acre: 1, reserved: [0; 511] };
}

/// Autonomous Power State Transition (section 5.21.1.12): CDW11. The data are 32 [`IdleTransition`]s, by power state.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct AutonomousPower {
    /// APSTE: the controller changes its power state when it is idle.
    pub enabled: bool,
    #[bits(31)]
    __: u32,
}

/// A transition that a controller makes when it is idle in a power state (section 5.21.1.12).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IdleTransition {
    /// ITPS (7:3) and ITPT (31:8).
    pub bits: U32,
    reserved_4: [u8; 4],
}

const _: () = assert!(size_of::<IdleTransition>() == 8 && align_of::<IdleTransition>() == 1);

impl IdleTransition {
    /// Bits that are reserved.
    pub const RESERVED: u32 = 0x7;

    /// To this state, of which 5 bits count, after this time in milliseconds, of which 24 bits count.
    #[must_use]
    pub const fn new(state: u8, idle_ms: u32) -> Self {
        Self { bits: U32::new(((state & 0x1f) as u32) << 3 | idle_ms << 8), reserved_4: [0; 4] }
    }

    /// ITPS: the state, which must be a non-operational one.
    #[must_use]
    pub const fn state(self) -> u8 {
        (self.bits.get() >> 3 & 0x1f) as u8
    }

    /// ITPT: idle time before the transition, milliseconds; 0 is no transition.
    #[must_use]
    pub const fn idle_ms(self) -> u32 {
        self.bits.get() >> 8
    }
}

/// Host Identifier (section 5.21.1.26): CDW11. The data are 8 bytes, or 16 for a long identifier.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct HostId {
    /// EXHID: the identifier has 128 bits.
    pub long: bool,
    #[bits(31)]
    __: u32,
}
