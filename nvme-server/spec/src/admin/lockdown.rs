//! Lockdown: commands and features that no controller of the subsystem executes (base specification 2.0, sections 5.19 and 8.4).

use bitfield_struct::bitfield;

use super::Opcode;
use crate::feature::Feature;
use crate::{Cid, DataPointer, Nsid, Sqe};

/// CDW10 of Lockdown (base specification 2.0, section 5.19).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct LockdownDw10 {
    /// SCP: see [`LockdownScope`].
    #[bits(4)]
    pub scope: u8,
    /// PRHBT: the command is prohibited from now on; otherwise allowed.
    pub prohibit: bool,
    /// IFC: see [`LockdownInterface`].
    #[bits(2)]
    pub interface: u8,
    __: bool,
    /// OFI: the opcode or feature identifier.
    pub id: u8,
    __: u16,
}

/// SCP: the kind of identifiers that a Lockdown or its log page is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LockdownScope {
    /// 0: opcodes of admin commands.
    Commands = 0,
    /// 2: identifiers of features, for Set Features.
    Features = 2,
    /// 3: opcodes of the management interface.
    Management = 3,
    /// 4: opcodes of PCIe commands of the management interface.
    Pcie = 4,
}

impl LockdownScope {
    /// The scope of this number, if it is one of those named here.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        match raw {
            0 => Some(Self::Commands),
            2 => Some(Self::Features),
            3 => Some(Self::Management),
            4 => Some(Self::Pcie),
            _ => None,
        }
    }
}

/// IFC: the ways by which a prohibited command may not come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LockdownInterface {
    /// 00b: admin SQs.
    AdminQueues = 0,
    /// 01b: admin SQs and management endpoints.
    Both = 1,
    /// 10b: management endpoints.
    Endpoints = 2,
}

impl LockdownInterface {
    /// The interface of this number, if it is one of those named here.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        match raw {
            0 => Some(Self::AdminQueues),
            1 => Some(Self::Both),
            2 => Some(Self::Endpoints),
            _ => None,
        }
    }
}

/// PRHBT: the effect of a Lockdown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lock {
    /// 0: allows again.
    Allow,
    /// 1: prohibits until the subsystem loses power, or until another Lockdown allows again.
    Prohibit,
}

/// Lockdown for an admin command that comes by an admin SQ of any controller of the subsystem.
#[must_use]
pub const fn lock_command(cid: Cid, lock: Lock, opcode: Opcode) -> Sqe {
    lockdown(cid, lock, LockdownScope::Commands, opcode as u8)
}

/// Lockdown for Set Features of this feature.
#[must_use]
pub const fn lock_feature(cid: Cid, lock: Lock, feature: Feature) -> Sqe {
    lockdown(cid, lock, LockdownScope::Features, feature as u8)
}

const fn lockdown(cid: Cid, lock: Lock, scope: LockdownScope, id: u8) -> Sqe {
    let mut sqe = Sqe::new(Opcode::Lockdown as u8, cid, Nsid::NONE, DataPointer::NONE);
    let prohibit = matches!(lock, Lock::Prohibit);
    sqe.cdw10 = LockdownDw10::new().with_scope(scope as u8).with_prohibit(prohibit).with_id(id).into_bits();
    sqe
}
