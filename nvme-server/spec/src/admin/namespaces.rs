//! Creating, attaching and formatting namespaces (sections 5.19, 5.20 and 5.23).

use bitfield_struct::bitfield;

use super::Opcode;
use crate::{Cid, DataPointer, Nsid, Sqe};

/// SEL of Namespace Management (section 5.20).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Management {
    /// 0: create a namespace as the data, an [`crate::identify::Namespace`], describes it; DW0 of the completion is its NSID.
    Create = 0,
    /// 1: delete the NSID, or every namespace.
    Delete = 1,
}

impl Management {
    /// The operation that CDW10 asks for, if it is one of those named here.
    #[must_use]
    pub const fn from_dw10(dw10: u32) -> Option<Self> {
        match dw10 & 0xf {
            0 => Some(Self::Create),
            1 => Some(Self::Delete),
            _ => None,
        }
    }
}

/// Namespace Management, create (section 5.20). Of the data only size, capacity, format, protection, sharing and groups
/// count; all else must be 0. The namespace is not attached to any controller.
#[must_use]
pub const fn create_namespace(cid: Cid, data: DataPointer) -> Sqe {
    Sqe::new(Opcode::NamespaceManagement as u8, cid, Nsid::NONE, data)
}

/// Namespace Management, delete (section 5.20). [`Nsid::ALL`] deletes every namespace.
#[must_use]
pub const fn delete_namespace(cid: Cid, nsid: Nsid) -> Sqe {
    let mut sqe = Sqe::new(Opcode::NamespaceManagement as u8, cid, nsid, DataPointer::NONE);
    sqe.cdw10 = Management::Delete as u32;
    sqe
}

/// SEL of Namespace Attachment (section 5.19).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Attachment {
    /// 0: the namespace becomes active at the listed controllers.
    Attach = 0,
    /// 1: it becomes inactive there.
    Detach = 1,
}

impl Attachment {
    /// The operation that CDW10 asks for, if it is one of those named here.
    #[must_use]
    pub const fn from_dw10(dw10: u32) -> Option<Self> {
        match dw10 & 0xf {
            0 => Some(Self::Attach),
            1 => Some(Self::Detach),
            _ => None,
        }
    }
}

/// Namespace Attachment (section 5.19). The data is the [`crate::identify::ControllerList`] of those concerned.
#[must_use]
pub const fn namespace_attachment(cid: Cid, operation: Attachment, nsid: Nsid, data: DataPointer) -> Sqe {
    let mut sqe = Sqe::new(Opcode::NamespaceAttachment as u8, cid, nsid, data);
    sqe.cdw10 = operation as u32;
    sqe
}

/// SES of Format NVM: the erase of the previous data (section 5.23).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum SecureErase {
    /// 000b: no promise.
    None = 0,
    /// 001b: no user data can be recovered, wherever it was stored.
    UserData = 1,
    /// 010b: the key with which user data was encrypted is deleted.
    Cryptographic = 2,
}

impl SecureErase {
    /// The erase of this number, if it is one of those named here.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        match raw {
            0 => Some(Self::None),
            1 => Some(Self::UserData),
            2 => Some(Self::Cryptographic),
            _ => None,
        }
    }
}

/// CDW10 of Format NVM (section 5.23).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct FormatDw10 {
    /// LBAF: bits 3:0 of the index in [`crate::identify::Namespace::lbaf`] of the format to use. See [`FormatDw10::of`].
    #[bits(4)]
    pub lbaf: u8,
    /// MSET: metadata follows each block's data instead of being in a separate buffer.
    pub mset: bool,
    /// PI: protection information type; 0 is none.
    #[bits(3)]
    pub pi: u8,
    /// PIL: protection information stands first in the metadata.
    pub pil: bool,
    /// SES: see [`SecureErase`].
    #[bits(3)]
    pub ses: u8,
    /// LBAFU: bits 5:4 of the index (NVM command set specification 1.0, section 4.1.4). Reserved in revision 1.4.
    #[bits(2)]
    pub lbaf_upper: u8,
    #[bits(18)]
    __: u32,
}

impl FormatDw10 {
    /// Index of the format, 0 to 63.
    #[must_use]
    pub const fn index(self) -> u8 {
        self.lbaf() | self.lbaf_upper() << 4
    }

    /// To use the format of this index, of which six bits count, without erasing more than the format does.
    #[must_use]
    pub const fn of(index: u8) -> Self {
        Self::new().with_lbaf(index & 0xf).with_lbaf_upper(index >> 4 & 3)
    }
}

/// Format NVM (section 5.23): erases all data of the namespace, or with [`Nsid::ALL`] of all.
#[must_use]
pub const fn format_nvm(cid: Cid, nsid: Nsid, how: FormatDw10) -> Sqe {
    let mut sqe = Sqe::new(Opcode::FormatNvm as u8, cid, nsid, DataPointer::NONE);
    sqe.cdw10 = how.into_bits();
    sqe
}
