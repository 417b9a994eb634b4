//! Commands of the NVM command set (chapter 6).

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Cid, DataPointer, Lba, Nsid, Sqe};

/// Opcodes on I/O SQs (chapter 6, figure 346).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Opcode {
    /// Flush (section 6.8).
    Flush = 0x00,
    /// Write (section 6.15).
    Write = 0x01,
    /// Read (section 6.9).
    Read = 0x02,
    /// Write Uncorrectable (section 6.16).
    WriteUncorrectable = 0x04,
    /// Compare (section 6.6).
    Compare = 0x05,
    /// Write Zeroes (section 6.17).
    WriteZeroes = 0x08,
    /// Dataset Management (section 6.7).
    DatasetManagement = 0x09,
    /// Verify (section 6.14).
    Verify = 0x0c,
    /// Copy (added after 1.4, by the NVM command set specification 1.0).
    Copy = 0x19,
}

impl Opcode {
    /// The opcode of this number, if it is one of those named here.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        Some(match raw {
            0x00 => Self::Flush,
            0x01 => Self::Write,
            0x02 => Self::Read,
            0x04 => Self::WriteUncorrectable,
            0x05 => Self::Compare,
            0x08 => Self::WriteZeroes,
            0x09 => Self::DatasetManagement,
            0x0c => Self::Verify,
            0x19 => Self::Copy,
            _ => return None,
        })
    }
}

/// The blocks that a command concerns: SLBA and NLB. Never empty, and all have an LBA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocks {
    start: Lba,
    nlb_z: u16,
}

impl Blocks {
    /// The most blocks one command can name.
    pub const MAX: u32 = 65536;

    /// `count` blocks from `start`; `None` unless `count` is 1..=65536 and the last block has an address.
    #[inline]
    #[must_use]
    pub const fn new(start: Lba, count: u32) -> Option<Self> {
        let Some(nlb_z) = count.checked_sub(1) else {
            return None;
        };
        if nlb_z > u16::MAX as u32 || start.checked_add(nlb_z as u64).is_none() {
            return None;
        }
        Some(Self { start, nlb_z: nlb_z as u16 })
    }

    /// `count` blocks from `start`; `None` unless `count` is 1..=65536 and all of them are below the block `end`.
    #[inline(always)]
    #[must_use]
    pub const fn below(start: Lba, count: u32, end: Lba) -> Option<Self> {
        let (nlb_z, Some(room)) = (count.wrapping_sub(1), end.0.checked_sub(start.0)) else {
            return None;
        };
        if nlb_z > u16::MAX as u32 || nlb_z as u64 >= room {
            return None;
        }
        Some(Self { start, nlb_z: nlb_z as u16 })
    }

    /// The blocks that a read, write, compare, verify or write zeroes names; `None` when its end has no address.
    #[must_use]
    pub const fn from_sqe(sqe: &Sqe) -> Option<Self> {
        let start = Lba((sqe.cdw10 as u64) | ((sqe.cdw11 as u64) << 32));
        Self::new(start, (sqe.cdw12 & 0xffff).saturating_add(1))
    }

    /// The first block.
    #[must_use]
    pub const fn start(self) -> Lba {
        self.start
    }

    /// The number of blocks: 1..=65536.
    #[must_use]
    pub const fn count(self) -> u32 {
        (self.nlb_z as u32).saturating_add(1)
    }

    /// The number of blocks less one, as in NLB.
    #[must_use]
    pub const fn nlb_z(self) -> u16 {
        self.nlb_z
    }
}

/// CDW12 of read, write, compare, verify and write zeroes.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct IoDw12 {
    /// NLB: number of blocks, 0's based.
    pub nlb_z: u16,
    #[bits(9)]
    __: u16,
    /// DEAC, of write zeroes: the blocks may be deallocated.
    pub deac: bool,
    /// PRINFO: the handling of protection information.
    #[bits(4)]
    pub prinfo: u8,
    /// FUA: the medium, not a cache, is read or written before completion.
    pub fua: bool,
    /// LR: the controller shall not try hard.
    pub lr: bool,
}

#[inline]
const fn io(opcode: Opcode, cid: Cid, nsid: Nsid, blocks: Blocks, data: DataPointer) -> Sqe {
    let mut sqe = Sqe::new(opcode as u8, cid, nsid, data);
    sqe.cdw10 = blocks.start.0 as u32;
    sqe.cdw11 = (blocks.start.0 >> 32) as u32;
    sqe.cdw12 = blocks.nlb_z as u32;
    sqe
}

/// Read (section 6.9).
#[inline]
#[must_use]
pub const fn read(cid: Cid, nsid: Nsid, blocks: Blocks, data: DataPointer) -> Sqe {
    io(Opcode::Read, cid, nsid, blocks, data)
}

/// Write (section 6.15).
#[inline]
#[must_use]
pub const fn write(cid: Cid, nsid: Nsid, blocks: Blocks, data: DataPointer) -> Sqe {
    io(Opcode::Write, cid, nsid, blocks, data)
}

/// Compare (section 6.6): the blocks with the data; [`crate::StatusCode::CompareFailure`] when they differ.
#[must_use]
pub const fn compare(cid: Cid, nsid: Nsid, blocks: Blocks, data: DataPointer) -> Sqe {
    io(Opcode::Compare, cid, nsid, blocks, data)
}

/// Verify (section 6.14): reads the medium, transfers nothing.
#[must_use]
pub const fn verify(cid: Cid, nsid: Nsid, blocks: Blocks) -> Sqe {
    io(Opcode::Verify, cid, nsid, blocks, DataPointer::NONE)
}

/// Write Zeroes (section 6.17): the blocks read as zeroes afterwards; nothing is transferred.
#[must_use]
pub const fn write_zeroes(cid: Cid, nsid: Nsid, blocks: Blocks) -> Sqe {
    io(Opcode::WriteZeroes, cid, nsid, blocks, DataPointer::NONE)
}

/// Flush (section 6.8): the data of commands completed before is on the medium when this completes.
#[must_use]
pub const fn flush(cid: Cid, nsid: Nsid) -> Sqe {
    Sqe::new(Opcode::Flush as u8, cid, nsid, DataPointer::NONE)
}

/// Flags of the commands above, set on the results of the functions.
impl Sqe {
    /// Sets FUA of a read, write, compare, verify or write zeroes.
    #[must_use]
    pub const fn with_force_unit_access(mut self) -> Self {
        self.cdw12 = IoDw12::from_bits(self.cdw12).with_fua(true).into_bits();
        self
    }

    /// Sets DEAC of a write zeroes: the blocks may be deallocated instead of written.
    #[must_use]
    pub const fn with_deallocate(mut self) -> Self {
        self.cdw12 = IoDw12::from_bits(self.cdw12).with_deac(true).into_bits();
        self
    }
}

/// Dataset Management, deallocate (section 6.7): the data is a list of [`Range`].
///
/// `ranges_z` is NR: the number of ranges, 0's based.
#[must_use]
pub const fn deallocate(cid: Cid, nsid: Nsid, ranges_z: u8, data: DataPointer) -> Sqe {
    let mut sqe = Sqe::new(Opcode::DatasetManagement as u8, cid, nsid, data);
    sqe.cdw10 = ranges_z as u32;
    sqe.cdw11 = DsmAttributes::new().with_deallocate(true).into_bits();
    sqe
}

/// CDW11 of Dataset Management (section 6.7, figure 361).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DsmAttributes {
    /// IDR: the ranges will be read as a whole.
    pub integral_read: bool,
    /// IDW: the ranges will be written as a whole.
    pub integral_write: bool,
    /// AD: the ranges' contents are no longer needed.
    pub deallocate: bool,
    #[bits(29)]
    __: u32,
}

/// A range of Dataset Management (section 6.7, figure 362).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Range {
    /// Context attributes: hints about access, 0 for none.
    pub attributes: u32,
    /// Length in blocks; not 0's based. 0 is a range without blocks.
    pub blocks: u32,
    /// The first block.
    pub start: u64,
}

const _: () = assert!(size_of::<Range>() == 16);

impl Range {
    /// `blocks` blocks from `start`, without hints; `None` when they are none or their end has no address.
    #[must_use]
    pub const fn new(start: Lba, blocks: u32) -> Option<Self> {
        let Some(beyond_first) = blocks.checked_sub(1) else {
            return None;
        };
        if start.checked_add(beyond_first as u64).is_none() {
            return None;
        }
        Some(Self { attributes: 0, blocks, start: start.0 })
    }
}

/// CDW12 of Copy (NVM command set specification 1.0).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct CopyDw12 {
    /// NR: number of source ranges, 0's based.
    pub ranges_z: u8,
    /// DESFMT: format of the ranges; 0 is [`CopyRange`].
    #[bits(4)]
    pub format: u8,
    /// PRINFOR: the handling of protection information read.
    #[bits(4)]
    pub prinfo_read: u8,
    #[bits(4)]
    __: u8,
    /// DTYPE: type of directive.
    #[bits(4)]
    pub directive: u8,
    #[bits(2)]
    __: u8,
    /// PRINFOW: the handling of protection information written.
    #[bits(4)]
    pub prinfo_write: u8,
    /// FUA: the medium, not a cache, is written before completion.
    pub fua: bool,
    /// LR: the controller shall not try hard.
    pub lr: bool,
}

/// A source range of Copy, format 0 (NVM command set specification 1.0).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CopyRange {
    reserved_0: u64,
    /// SLBA: the first block.
    pub start: u64,
    /// NLB: number of blocks, 0's based.
    pub nlb_z: u16,
    reserved_18: [u8; 6],
    /// EILBRT: expected reference tag.
    pub reference_tag: u32,
    /// ELBAT: expected application tag.
    pub application_tag: u16,
    /// ELBATM: mask of the application tag.
    pub application_tag_mask: u16,
}

const _: () = assert!(size_of::<CopyRange>() == 32);

impl CopyRange {
    /// The blocks, without protection information.
    #[must_use]
    pub const fn new(blocks: Blocks) -> Self {
        Self {
            reserved_0: 0,
            start: blocks.start.0,
            nlb_z: blocks.nlb_z,
            reserved_18: [0; 6],
            reference_tag: 0,
            application_tag: 0,
            application_tag_mask: 0,
        }
    }
}

/// Copy: `ranges_z` + 1 ranges, listed in the data, to `target` (NVM command set specification 1.0).
#[must_use]
pub const fn copy(cid: Cid, nsid: Nsid, target: Lba, ranges_z: u8, data: DataPointer) -> Sqe {
    let mut sqe = Sqe::new(Opcode::Copy as u8, cid, nsid, data);
    sqe.cdw10 = target.0 as u32;
    sqe.cdw11 = (target.0 >> 32) as u32;
    sqe.cdw12 = CopyDw12::new().with_ranges_z(ranges_z).into_bits();
    sqe
}

#[cfg(test)]
#[path = "nvm_tests.rs"]
mod tests;
