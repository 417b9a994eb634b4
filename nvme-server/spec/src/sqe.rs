//! The submission queue entry: 64 bytes common to every command (section 4.2).
//!
//! [`crate::admin`] and [`crate::nvm`] build the commands themselves.

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Cid, Nsid};

/// A submission queue entry (section 4.2, figure 105). Reserved words are 0 in every command built by this crate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Sqe {
    /// CDW0: opcode, fused operation, kind of data pointer, command identifier.
    pub cdw0: Cdw0,
    /// NSID. See [`Nsid`].
    pub nsid: u32,
    /// CDW2, reserved in the commands here.
    pub cdw2: u32,
    /// CDW3, reserved in the commands here.
    pub cdw3: u32,
    /// MPTR: address of a contiguous metadata buffer, if the command has one.
    pub mptr: u64,
    /// DPTR's first half: PRP1.
    pub prp1: u64,
    /// DPTR's second half: PRP2.
    pub prp2: u64,
    /// CDW10; the command defines it.
    pub cdw10: u32,
    /// CDW11; the command defines it.
    pub cdw11: u32,
    /// CDW12; the command defines it.
    pub cdw12: u32,
    /// CDW13; the command defines it.
    pub cdw13: u32,
    /// CDW14; the command defines it.
    pub cdw14: u32,
    /// CDW15; the command defines it.
    pub cdw15: u32,
}

const _: () = assert!(size_of::<Sqe>() == 64);

/// Command dword 0 (section 4.2, figure 104).
#[bitfield(u32)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Cdw0 {
    /// OPC: [`crate::admin::Opcode`] on the admin SQ, [`crate::nvm::Opcode`] on the others.
    pub opc: u8,
    /// FUSE: 0 normal, 1 first, 2 second of a fused pair.
    #[bits(2)]
    pub fuse: u8,
    #[bits(4)]
    __: u8,
    /// PSDT: 0 is PRPs, 1 and 2 are SGLs.
    #[bits(2)]
    pub psdt: u8,
    /// CID: the command identifier.
    pub cid: u16,
}

/// The data pointer of a command: two PRP entries (section 4.3).
///
/// The length of the transfer decides whether they point at nothing, one page, two pages, or a page and a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DataPointer {
    /// Address of the first byte. May have an offset in its page.
    pub prp1: u64,
    /// 0, address of the second page, or of the PRP list.
    pub prp2: u64,
}

impl DataPointer {
    /// No data.
    pub const NONE: Self = Self { prp1: 0, prp2: 0 };

    /// Data that lies within one memory page.
    #[must_use]
    pub const fn page(address: u64) -> Self {
        Self { prp1: address, prp2: 0 }
    }
}

impl Sqe {
    /// An entry with the common fields set and the command's own words 0. It uses PRPs and is not fused.
    #[must_use]
    pub const fn new(opcode: u8, cid: Cid, nsid: Nsid, data: DataPointer) -> Self {
        Self {
            cdw0: Cdw0::from_bits((opcode as u32) | ((cid.0 as u32) << 16)),
            nsid: nsid.0,
            cdw2: 0,
            cdw3: 0,
            mptr: 0,
            prp1: data.prp1,
            prp2: data.prp2,
            cdw10: 0,
            cdw11: 0,
            cdw12: 0,
            cdw13: 0,
            cdw14: 0,
            cdw15: 0,
        }
    }

    /// The opcode, as the entry has it.
    #[must_use]
    pub const fn opcode(&self) -> u8 {
        self.cdw0.opc()
    }

    /// The command identifier.
    #[must_use]
    pub const fn cid(&self) -> Cid {
        Cid(self.cdw0.cid())
    }

    /// The namespace.
    #[must_use]
    pub const fn nsid(&self) -> Nsid {
        Nsid(self.nsid)
    }

    /// The data pointer, if it is made of PRPs by [`Cdw0::psdt`].
    #[must_use]
    pub const fn data_pointer(&self) -> Option<DataPointer> {
        match self.cdw0.psdt() {
            0 => Some(DataPointer { prp1: self.prp1, prp2: self.prp2 }),
            _ => None,
        }
    }

    /// This command under another identifier.
    #[must_use]
    pub const fn with_cid(mut self, cid: Cid) -> Self {
        self.cdw0 = self.cdw0.with_cid(cid.0);
        self
    }
}
