//! Features: values set and got by identifier (sections 5.13 and 5.21).
//!
//! A feature has a current value; a default one; and, when the controller can save it, a saved one that it starts with.
//! The values have types of their own, each from section 5.21.1 and the feature's number.

mod values;

pub use values::{
    ArbitrationWeights, AsyncEvents, AutonomousPower, ErrorRecovery, HostBehavior, HostId, IdleTransition,
    InterruptCoalescing, InterruptVector, NumberOfQueues, PowerManagement, TemperatureThreshold, Timestamp,
    WriteAtomicity, WriteCache,
};

use bitfield_struct::bitfield;

use crate::admin::Opcode;
use crate::{Cid, DataPointer, Nsid, Sqe};

/// Feature identifiers (section 5.21.1, figure 272).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Feature {
    /// 01h: [`ArbitrationWeights`].
    Arbitration = 0x01,
    /// 02h: [`PowerManagement`].
    PowerManagement = 0x02,
    /// 03h: the types of ranges of a namespace's blocks.
    LbaRangeType = 0x03,
    /// 04h: [`TemperatureThreshold`].
    TemperatureThreshold = 0x04,
    /// 05h: [`ErrorRecovery`], of a namespace.
    ErrorRecovery = 0x05,
    /// 06h: [`WriteCache`].
    VolatileWriteCache = 0x06,
    /// 07h: [`NumberOfQueues`].
    NumberOfQueues = 0x07,
    /// 08h: [`InterruptCoalescing`].
    InterruptCoalescing = 0x08,
    /// 09h: [`InterruptVector`].
    InterruptVector = 0x09,
    /// 0Ah: [`WriteAtomicity`].
    WriteAtomicity = 0x0a,
    /// 0Bh: [`AsyncEvents`].
    AsyncEvents = 0x0b,
    /// 0Ch: [`AutonomousPower`], with [`IdleTransition`]s in a data buffer.
    AutonomousPower = 0x0c,
    /// 0Dh: host memory for the controller's use.
    HostMemoryBuffer = 0x0d,
    /// 0Eh: [`Timestamp`], in a data buffer.
    Timestamp = 0x0e,
    /// 0Fh: milliseconds after which a silent host counts as gone; 0 is never.
    KeepAliveTimer = 0x0f,
    /// 16h: [`HostBehavior`], in a data buffer.
    HostBehavior = 0x16,
    /// 81h: [`HostId`], with the identifier in a data buffer.
    HostId = 0x81,
}

impl Feature {
    /// The feature of this number, if it is one of those named here.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        Some(match raw {
            0x01 => Self::Arbitration,
            0x02 => Self::PowerManagement,
            0x03 => Self::LbaRangeType,
            0x04 => Self::TemperatureThreshold,
            0x05 => Self::ErrorRecovery,
            0x06 => Self::VolatileWriteCache,
            0x07 => Self::NumberOfQueues,
            0x08 => Self::InterruptCoalescing,
            0x09 => Self::InterruptVector,
            0x0a => Self::WriteAtomicity,
            0x0b => Self::AsyncEvents,
            0x0c => Self::AutonomousPower,
            0x0d => Self::HostMemoryBuffer,
            0x0e => Self::Timestamp,
            0x0f => Self::KeepAliveTimer,
            0x16 => Self::HostBehavior,
            0x81 => Self::HostId,
            _ => return None,
        })
    }
}

/// CDW10 of Set Features (section 5.21).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct SetDw10 {
    /// FID: see [`Feature`].
    pub fid: u8,
    #[bits(23)]
    __: u32,
    /// SV: the value is saved too, across resets and power cycles.
    pub save: bool,
}

/// CDW10 of Get Features (section 5.13).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct GetDw10 {
    /// FID: see [`Feature`].
    pub fid: u8,
    /// SEL: see [`Select`].
    #[bits(3)]
    pub select: u8,
    #[bits(21)]
    __: u32,
}

/// SEL of Get Features: the value asked for (section 5.13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Select {
    /// 000b: the one in force.
    Current = 0,
    /// 001b: the one a controller starts with when none was saved.
    Default = 1,
    /// 010b: the one saved last; the default one when there is none.
    Saved = 2,
    /// 011b: no value, but the feature's [`Capabilities`].
    Supported = 3,
}

impl Select {
    /// The choice of this number, if it is one of those named here.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        match raw {
            0 => Some(Self::Current),
            1 => Some(Self::Default),
            2 => Some(Self::Saved),
            3 => Some(Self::Supported),
            _ => None,
        }
    }
}

/// DW0 of a Get Features with [`Select::Supported`] (section 5.13).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Capabilities {
    /// The value can be saved.
    pub saveable: bool,
    /// Each namespace has a value of its own.
    pub of_namespace: bool,
    /// The value can be changed.
    pub changeable: bool,
    #[bits(29)]
    __: u32,
}

/// Set Features (section 5.21) for a feature whose value is CDW11. Not saved across a power cycle.
#[must_use]
pub const fn set_feature(cid: Cid, feature: Feature, cdw11: u32) -> Sqe {
    let mut sqe = Sqe::new(Opcode::SetFeatures as u8, cid, Nsid::NONE, DataPointer::NONE);
    sqe.cdw10 = feature as u32;
    sqe.cdw11 = cdw11;
    sqe
}

/// Set Features (section 5.21) for a feature whose value is CDW11, which is saved too.
#[must_use]
pub const fn save_feature(cid: Cid, feature: Feature, cdw11: u32) -> Sqe {
    let mut sqe = set_feature(cid, feature, cdw11);
    sqe.cdw10 = SetDw10::new().with_fid(feature as u8).with_save(true).into_bits();
    sqe
}

/// Set Features (section 5.21) for a feature whose value is in a data buffer. Not saved across a power cycle.
#[must_use]
pub const fn set_feature_by_data(cid: Cid, feature: Feature, data: DataPointer) -> Sqe {
    let mut sqe = Sqe::new(Opcode::SetFeatures as u8, cid, Nsid::NONE, data);
    sqe.cdw10 = feature as u32;
    sqe
}

/// Get Features (section 5.13): the current value, in the completion's DW0.
#[must_use]
pub const fn get_feature(cid: Cid, feature: Feature) -> Sqe {
    get_feature_selected(cid, feature, Select::Current)
}

/// Get Features (section 5.13): the value that `select` names, in the completion's DW0.
#[must_use]
pub const fn get_feature_selected(cid: Cid, feature: Feature, select: Select) -> Sqe {
    let mut sqe = Sqe::new(Opcode::GetFeatures as u8, cid, Nsid::NONE, DataPointer::NONE);
    sqe.cdw10 = GetDw10::new().with_fid(feature as u8).with_select(select as u8).into_bits();
    sqe
}

#[cfg(test)]
#[path = "feature_tests.rs"]
mod tests;
