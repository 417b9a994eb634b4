//! Device Self-test (section 5.8; the operation is in section 8.11).

use super::Opcode;
use crate::{Cid, DataPointer, Nsid, Sqe};

/// STC: the operation that a Device Self-test asks for, in bits 3:0 of CDW10 (section 5.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum SelfTestCode {
    /// 1h: a short test, of two minutes at most.
    Short = 0x1,
    /// 2h: an extended test, of EDSTT minutes at most.
    Extended = 0x2,
    /// Fh: the test that runs is aborted.
    Abort = 0xf,
}

impl SelfTestCode {
    /// The operation that CDW10 asks for, if it is one of those named here.
    #[must_use]
    pub const fn from_dw10(dw10: u32) -> Option<Self> {
        match dw10 & 0xf {
            0x1 => Some(Self::Short),
            0x2 => Some(Self::Extended),
            0xf => Some(Self::Abort),
            _ => None,
        }
    }
}

/// Device Self-test of the controller alone ([`Nsid::NONE`]), with all its namespaces ([`Nsid::ALL`]), or with one.
#[must_use]
pub const fn self_test(cid: Cid, code: SelfTestCode, nsid: Nsid) -> Sqe {
    let mut sqe = Sqe::new(Opcode::DeviceSelfTest as u8, cid, nsid, DataPointer::NONE);
    sqe.cdw10 = code as u32;
    sqe
}
