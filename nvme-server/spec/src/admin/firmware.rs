//! Firmware Image Download and Firmware Commit (sections 5.12 and 5.11; the process is in section 8.1).

use bitfield_struct::bitfield;

use super::Opcode;
use crate::{Cid, DataPointer, Nsid, Sqe};

/// The parameters of a Firmware Image Download (section 5.12).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FirmwarePiece {
    /// NUMD: length in dwords, 0's based.
    pub dwords_z: u32,
    /// OFST: place in the image, in dwords.
    pub offset_dwords: u32,
}

impl FirmwarePiece {
    /// Bytes of the piece: 4 to 16 GiB.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        (self.dwords_z as u64).saturating_add(1).saturating_mul(4)
    }

    /// Place of the first byte in the image.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        (self.offset_dwords as u64).saturating_mul(4)
    }

    /// The command.
    #[must_use]
    pub const fn sqe(&self, cid: Cid, data: DataPointer) -> Sqe {
        let mut sqe = Sqe::new(Opcode::FirmwareDownload as u8, cid, Nsid::NONE, data);
        sqe.cdw10 = self.dwords_z;
        sqe.cdw11 = self.offset_dwords;
        sqe
    }

    /// The parameters of the command.
    #[must_use]
    pub const fn from_sqe(sqe: &Sqe) -> Self {
        Self { dwords_z: sqe.cdw10, offset_dwords: sqe.cdw11 }
    }
}

/// CDW10 of Firmware Commit (section 5.11).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct CommitDw10 {
    /// FS: the slot, 1 to 7; with 0 the controller chooses.
    #[bits(3)]
    pub slot: u8,
    /// CA: see [`CommitAction`].
    #[bits(3)]
    pub action: u8,
    #[bits(25)]
    __: u32,
    /// BPID: the boot partition, for the actions about one.
    pub boot_partition: bool,
}

/// CA: what happens to the image that was downloaded, or to the one in a slot (section 5.11).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum CommitAction {
    /// 000b: the downloaded image replaces that of the slot.
    Replace = 0,
    /// 001b: the downloaded image replaces that of the slot, and runs after the next reset.
    ReplaceAndActivate = 1,
    /// 010b: the image of the slot runs after the next reset.
    Activate = 2,
    /// 011b: the image of the slot, which the downloaded one replaces if there is one, runs at once.
    ActivateNow = 3,
}

impl CommitAction {
    /// The action of this number, if it is one of those named here.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        match raw {
            0 => Some(Self::Replace),
            1 => Some(Self::ReplaceAndActivate),
            2 => Some(Self::Activate),
            3 => Some(Self::ActivateNow),
            _ => None,
        }
    }
}

/// Firmware Commit for a slot, of which 3 bits count.
#[must_use]
pub const fn firmware_commit(cid: Cid, action: CommitAction, slot: u8) -> Sqe {
    let mut sqe = Sqe::new(Opcode::FirmwareCommit as u8, cid, Nsid::NONE, DataPointer::NONE);
    sqe.cdw10 = CommitDw10::new().with_slot(slot & 7).with_action(action as u8).into_bits();
    sqe
}
