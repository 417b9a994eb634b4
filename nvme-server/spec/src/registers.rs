//! Controller registers in BAR0: their offsets and their bits (section 3.1).
//!
//! The driver reads and writes them. The admin queue's base registers ASQ and ACQ are plain 64-bit addresses whose low
//! twelve bits are reserved, so they have no type here.

use core::fmt;
use core::time::Duration;

use bitfield_struct::bitfield;

use crate::QueueId;

/// A register and, as its value, its byte offset from the start of BAR0 (section 3.1, figure 69).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Register {
    /// Controller Capabilities, 64 bits: [`Cap`].
    Cap = 0x00,
    /// Version, 32 bits: [`Vs`].
    Vs = 0x08,
    /// Interrupt Mask Set, 32 bits, a bit per vector. Not to be touched with MSI-X (section 3.1.3).
    Intms = 0x0c,
    /// Interrupt Mask Clear, 32 bits, a bit per vector. Not to be touched with MSI-X (section 3.1.4).
    Intmc = 0x10,
    /// Controller Configuration, 32 bits: [`Cc`].
    Cc = 0x14,
    /// Controller Status, 32 bits: [`Csts`].
    Csts = 0x1c,
    /// NVM Subsystem Reset, 32 bits: writing [`NSSR_RESET`] resets the subsystem, if CAP.NSSRS.
    Nssr = 0x20,
    /// Admin Queue Attributes, 32 bits: [`Aqa`].
    Aqa = 0x24,
    /// Admin SQ base address, 64 bits, 4 KiB aligned (section 3.1.9).
    Asq = 0x28,
    /// Admin CQ base address, 64 bits, 4 KiB aligned (section 3.1.10).
    Acq = 0x30,
    /// Controller Memory Buffer location, 32 bits (section 3.1.11).
    Cmbloc = 0x38,
    /// Controller Memory Buffer size, 32 bits (section 3.1.12).
    Cmbsz = 0x3c,
    /// Controller Ready Timeouts, 32 bits: [`Crto`], if [`Cap::crwms`] (base specification 2.0, section 3.1.3.22).
    Crto = 0x68,
}

impl Register {
    /// Byte offset from the start of BAR0.
    #[must_use]
    pub const fn offset(self) -> usize {
        self as usize
    }
}

/// The value of [`Register::Nssr`] that resets: the letters `NVMe` (section 3.1.7).
pub const NSSR_RESET: u32 = 0x4e56_4d65;

/// Byte offset of the first doorbell: the admin SQ's tail (section 3.1.24).
pub const DOORBELL_BASE: usize = 0x1000;

/// The value of a register read when the function is gone or does not answer: all ones.
pub const ABSENT: u32 = u32::MAX;

/// CAP, Controller Capabilities (section 3.1.1).
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct Cap {
    /// MQES: the largest I/O queue, 0's based, in entries. At least 1 in a controller that follows the standard.
    pub mqes_z: u16,
    /// CQR: I/O queues must be physically contiguous.
    pub cqr: bool,
    /// AMS bit 17: weighted round robin with urgent class is supported.
    pub ams_wrr: bool,
    /// AMS bit 18: a vendor's own arbitration is supported.
    pub ams_vendor: bool,
    #[bits(5)]
    __: u8,
    /// TO: the longest time for CSTS.RDY to follow CC.EN, in units of 500 ms. See [`Cap::timeout`].
    pub to: u8,
    /// DSTRD: doorbell stride is 4 << DSTRD bytes.
    #[bits(4)]
    pub dstrd: u8,
    /// NSSRS: NVM subsystem reset is supported.
    pub nssrs: bool,
    /// CSS bit 37: the NVM command set is supported.
    pub css_nvm: bool,
    #[bits(5)]
    __: u8,
    /// CSS bit 43: one or more other I/O command sets are supported (added after 1.4).
    pub css_other: bool,
    /// CSS bit 44: no I/O command set may be selected (only admin commands).
    pub css_admin_only: bool,
    /// BPS: boot partitions are supported.
    pub bps: bool,
    #[bits(2)]
    __: u8,
    /// MPSMIN: the smallest memory page is 2^(12 + MPSMIN) bytes.
    #[bits(4)]
    pub mpsmin: u8,
    /// MPSMAX: the largest memory page is 2^(12 + MPSMAX) bytes.
    #[bits(4)]
    pub mpsmax: u8,
    /// PMRS: a Persistent Memory Region is supported.
    pub pmrs: bool,
    /// CMBS: a Controller Memory Buffer is supported.
    pub cmbs: bool,
    /// NSSS: NVM subsystem shutdown is supported (base specification 2.0).
    pub nsss: bool,
    /// CRMS bit 59: [`Register::Crto`] has the time to be ready with the media (base specification 2.0).
    pub crwms: bool,
    /// CRMS bit 60: the controller can be ready before its media (base specification 2.0).
    pub crims: bool,
    #[bits(3)]
    __: u8,
}

impl Cap {
    /// The largest number of entries an I/O queue may have: 1..=65536.
    #[must_use]
    pub const fn max_queue_entries(self) -> u32 {
        (self.mqes_z() as u32).saturating_add(1)
    }

    /// The longest time of a reset or an enable (CAP.TO). A register value of 0 counts as the shortest unit, 500 ms, because
    /// no controller could meet a limit of no time at all.
    #[must_use]
    pub const fn timeout(self) -> Duration {
        let units = if self.to() == 0 { 1 } else { self.to() as u64 };
        Duration::from_millis(units.saturating_mul(500))
    }

    /// The smallest memory page in bytes: 4 KiB to 128 MiB.
    #[must_use]
    pub const fn min_page_bytes(self) -> u32 {
        4096 << self.mpsmin()
    }

    /// The largest memory page in bytes: 4 KiB to 128 MiB.
    #[must_use]
    pub const fn max_page_bytes(self) -> u32 {
        4096 << self.mpsmax()
    }

    /// The layout of this controller's doorbells.
    #[must_use]
    pub const fn doorbells(self) -> DoorbellLayout {
        DoorbellLayout { dstrd: self.dstrd() }
    }
}

/// CRTO, Controller Ready Timeouts (base specification 2.0, section 3.1.3.22), in units of 500 ms.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Crto {
    /// CRWMT: the longest time for CSTS.RDY to follow CC.EN with the media ready.
    pub crwmt: u16,
    /// CRIMT: the same without the media.
    pub crimt: u16,
}

impl Crto {
    /// The longest time of an enable whose media are ready then.
    #[must_use]
    pub const fn with_media(self) -> Duration {
        Duration::from_millis((self.crwmt() as u64).saturating_mul(500))
    }
}

/// Computes doorbell offsets from CAP.DSTRD (sections 3.1.24 and 3.1.25).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DoorbellLayout {
    dstrd: u8,
}

impl DoorbellLayout {
    /// Bytes from one doorbell to the next: 4 to 131072.
    #[must_use]
    pub const fn stride_bytes(self) -> usize {
        4 << self.dstrd
    }

    /// Byte offset in BAR0 of the tail doorbell of an SQ, or `None` when the machine's addresses cannot hold it.
    #[must_use]
    pub const fn sq_tail(self, queue: QueueId) -> Option<usize> {
        match (queue.0 as usize).checked_mul(2) {
            Some(index) => self.doorbell(index),
            None => None,
        }
    }

    /// Byte offset in BAR0 of the head doorbell of a CQ, or `None` when the machine's addresses cannot hold it.
    #[must_use]
    pub const fn cq_head(self, queue: QueueId) -> Option<usize> {
        match (queue.0 as usize).checked_mul(2) {
            Some(even) => self.doorbell(even.saturating_add(1)),
            None => None,
        }
    }

    /// Bytes of BAR0 up to the end of the doorbells of queues 0 to `last`, which a driver of these queues must map.
    #[must_use]
    pub const fn end(self, last: QueueId) -> Option<usize> {
        match self.cq_head(last) {
            Some(offset) => offset.checked_add(4),
            None => None,
        }
    }

    const fn doorbell(self, index: usize) -> Option<usize> {
        match index.checked_mul(self.stride_bytes()) {
            Some(bytes) => DOORBELL_BASE.checked_add(bytes),
            None => None,
        }
    }
}

/// VS, Version (section 3.1.2). Controllers before 1.2 leave the tertiary number 0.
#[bitfield(u32)]
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub struct Vs {
    /// TER: tertiary version number.
    pub ter: u8,
    /// MNR: minor version number.
    pub mnr: u8,
    /// MJR: major version number.
    pub mjr: u16,
}

impl fmt::Display for Vs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.mjr(), self.mnr())?;
        if self.ter() != 0 {
            write!(f, ".{}", self.ter())?;
        }
        Ok(())
    }
}

/// CC, Controller Configuration (section 3.1.5). All but EN and SHN may change only while EN is 0.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Cc {
    /// EN: 1 lets the controller process commands; from 1 to 0 is a controller reset.
    pub en: bool,
    #[bits(3)]
    __: u8,
    /// CSS: the I/O command set, one of [`CommandSet`].
    #[bits(3)]
    pub css: CommandSet,
    /// MPS: the memory page is 2^(12 + MPS) bytes.
    #[bits(4)]
    pub mps: u8,
    /// AMS: the controller's arbitration among SQs.
    #[bits(3)]
    pub ams: Arbitration,
    /// SHN: requests a shutdown.
    #[bits(2)]
    pub shn: ShutdownNotification,
    /// IOSQES: an I/O SQ entry is 2^IOSQES bytes. 6 in the NVM command set.
    #[bits(4)]
    pub iosqes: u8,
    /// IOCQES: an I/O CQ entry is 2^IOCQES bytes. 4 in the NVM command set.
    #[bits(4)]
    pub iocqes: u8,
    __: u8,
}

/// CC.IOSQES for 64-byte entries.
pub const IOSQES_64: u8 = 6;
/// CC.IOCQES for 16-byte entries.
pub const IOCQES_16: u8 = 4;

/// CC.CSS, I/O command set selected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum CommandSet {
    /// 000b: the NVM command set.
    Nvm = 0,
    /// 110b: all supported I/O command sets (added after 1.4).
    All = 6,
    /// 111b: admin commands only.
    AdminOnly = 7,
    /// A value the standard reserves.
    Reserved = 1,
}

impl CommandSet {
    const fn from_bits(bits: u8) -> Self {
        match bits {
            0 => Self::Nvm,
            6 => Self::All,
            7 => Self::AdminOnly,
            _ => Self::Reserved,
        }
    }

    const fn into_bits(self) -> u8 {
        self as u8
    }
}

/// CC.AMS, arbitration mechanism selected (section 4.13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Arbitration {
    /// 000b: round robin.
    RoundRobin = 0,
    /// 001b: weighted round robin with urgent priority class; needs [`Cap::ams_wrr`].
    WeightedUrgent = 1,
    /// 111b: the vendor's own.
    Vendor = 7,
    /// A value the standard reserves.
    Reserved = 2,
}

impl Arbitration {
    const fn from_bits(bits: u8) -> Self {
        match bits {
            0 => Self::RoundRobin,
            1 => Self::WeightedUrgent,
            7 => Self::Vendor,
            _ => Self::Reserved,
        }
    }

    const fn into_bits(self) -> u8 {
        self as u8
    }
}

/// CC.SHN, shutdown notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ShutdownNotification {
    /// 00b: none.
    None = 0,
    /// 01b: normal shutdown.
    Normal = 1,
    /// 10b: abrupt shutdown.
    Abrupt = 2,
    /// 11b: reserved.
    Reserved = 3,
}

impl ShutdownNotification {
    const fn from_bits(bits: u8) -> Self {
        match bits {
            0 => Self::None,
            1 => Self::Normal,
            2 => Self::Abrupt,
            _ => Self::Reserved,
        }
    }

    const fn into_bits(self) -> u8 {
        self as u8
    }
}

/// CSTS, Controller Status (section 3.1.6).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Csts {
    /// RDY: the controller processes commands. Follows CC.EN within [`Cap::timeout`].
    pub rdy: bool,
    /// CFS: a fatal error that could not be reported otherwise; a reset is needed.
    pub cfs: bool,
    /// SHST: the progress of a shutdown.
    #[bits(2)]
    pub shst: ShutdownStatus,
    /// NSSRO: a subsystem reset happened since this bit was cleared by writing 1.
    pub nssro: bool,
    /// PP: command processing is paused.
    pub pp: bool,
    #[bits(26)]
    __: u32,
}

impl Csts {
    /// Whether the read returned all ones: the function is gone, or its memory decoding is off.
    #[must_use]
    pub const fn is_absent(self) -> bool {
        self.into_bits() == ABSENT
    }
}

/// CSTS.SHST, shutdown status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ShutdownStatus {
    /// 00b: no shutdown was requested.
    Normal = 0,
    /// 01b: in progress.
    Processing = 1,
    /// 10b: complete.
    Complete = 2,
    /// 11b: reserved.
    Reserved = 3,
}

impl ShutdownStatus {
    const fn from_bits(bits: u8) -> Self {
        match bits {
            0 => Self::Normal,
            1 => Self::Processing,
            2 => Self::Complete,
            _ => Self::Reserved,
        }
    }

    const fn into_bits(self) -> u8 {
        self as u8
    }
}

/// AQA, Admin Queue Attributes (section 3.1.8). Both sizes are 2..=4096 entries.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Aqa {
    /// ASQS: entries of the admin SQ, 0's based.
    #[bits(12)]
    pub asqs_z: u16,
    #[bits(4)]
    __: u8,
    /// ACQS: entries of the admin CQ, 0's based.
    #[bits(12)]
    pub acqs_z: u16,
    #[bits(4)]
    __: u8,
}

#[cfg(test)]
#[path = "registers_tests.rs"]
mod tests;
