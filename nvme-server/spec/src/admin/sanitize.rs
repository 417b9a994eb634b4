//! Sanitize (section 5.24; the operation is in section 8.15).

use bitfield_struct::bitfield;

use super::Opcode;
use crate::{Cid, DataPointer, Nsid, Sqe};

/// CDW10 of Sanitize (section 5.24).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct SanitizeDw10 {
    /// SANACT: see [`SanitizeAction`].
    #[bits(3)]
    pub action: u8,
    /// AUSE: a failed operation may be left without another one that succeeds.
    pub unrestricted_exit: bool,
    /// OWPASS: passes of an overwrite; 0 stands for 16.
    #[bits(4)]
    pub passes: u8,
    /// OIPBP: the pattern is inverted between passes.
    pub invert: bool,
    /// NDAS: blocks stay allocated after the operation.
    pub keep_allocated: bool,
    #[bits(22)]
    __: u32,
}

/// SANACT: the operation (section 5.24).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum SanitizeAction {
    /// 001b: leaves the state after a failure.
    ExitFailure = 1,
    /// 010b: the blocks of the media are erased.
    BlockErase = 2,
    /// 011b: a pattern, CDW11, is written over everything.
    Overwrite = 3,
    /// 100b: the keys of the data change.
    CryptoErase = 4,
}

impl SanitizeAction {
    /// The operation of this number, if it is one of those named here.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        match raw {
            1 => Some(Self::ExitFailure),
            2 => Some(Self::BlockErase),
            3 => Some(Self::Overwrite),
            4 => Some(Self::CryptoErase),
            _ => None,
        }
    }
}

/// Sanitize: erases all data of the subsystem, after the command is complete. `pattern` is that of an overwrite.
#[must_use]
pub const fn sanitize(cid: Cid, how: SanitizeDw10, pattern: u32) -> Sqe {
    let mut sqe = Sqe::new(Opcode::Sanitize as u8, cid, Nsid::NONE, DataPointer::NONE);
    sqe.cdw10 = how.into_bits();
    sqe.cdw11 = pattern;
    sqe
}
