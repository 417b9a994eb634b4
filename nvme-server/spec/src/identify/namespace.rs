//! Identify Namespace.

use core::fmt;

use bitfield_struct::bitfield;
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::Flbas;
use crate::Lba;

/// Identify Namespace (section 5.15.2.1, figure 245).
#[derive(Clone, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Namespace {
    /// NSZE: size in blocks. 0 when the namespace is not active.
    pub nsze: U64,
    /// NCAP: most blocks that may be allocated.
    pub ncap: U64,
    /// NUSE: blocks allocated.
    pub nuse: U64,
    /// NSFEAT: features. See [`super::Nsfeat`].
    pub nsfeat: u8,
    /// NLBAF: formats, 0's based.
    pub nlbaf_z: u8,
    /// FLBAS: format in use and place of metadata. See [`super::Flbas`] and [`Namespace::format`].
    pub flbas: u8,
    /// MC: metadata capabilities.
    pub mc: u8,
    /// DPC: protection capabilities.
    pub dpc: u8,
    /// DPS: protection in use; 0 in 2:0 is none.
    pub dps: u8,
    /// NMIC: shared among controllers.
    pub nmic: u8,
    /// RESCAP: reservation capabilities.
    pub rescap: u8,
    /// FPI: progress of a format.
    pub fpi: u8,
    /// DLFEAT: the value that deallocated blocks read as (2:0; 1 is zeroes).
    pub dlfeat: u8,
    /// NAWUN: atomic write unit, blocks, 0's based.
    pub nawun_z: U16,
    /// NAWUPF: atomic write unit in a power failure, blocks, 0's based.
    pub nawupf_z: U16,
    /// NACWU: atomic compare and write unit, blocks, 0's based.
    pub nacwu_z: U16,
    /// NABSN: atomic boundary, blocks, 0's based.
    pub nabsn_z: U16,
    /// NABO: offset of the first atomic boundary, blocks.
    pub nabo: U16,
    /// NABSPF: atomic boundary in a power failure, blocks, 0's based.
    pub nabspf_z: U16,
    /// NOIOB: boundary that reads and writes should not cross, blocks; 0 not reported.
    pub noiob: U16,
    /// NVMCAP: bytes of media.
    pub nvmcap: U128,
    /// NPWG: preferred write granularity, blocks, 0's based.
    pub npwg_z: U16,
    /// NPWA: preferred write alignment, blocks, 0's based.
    pub npwa_z: U16,
    /// NPDG: preferred deallocate granularity, blocks, 0's based.
    pub npdg_z: U16,
    /// NPDA: preferred deallocate alignment, blocks, 0's based.
    pub npda_z: U16,
    /// NOWS: optimal write size, blocks, 0's based.
    pub nows_z: U16,
    /// MSSRL: longest range that a copy may read, blocks (added to 1.4 with the Copy command).
    pub mssrl: U16,
    /// MCL: most blocks of one copy (added to 1.4 with the Copy command).
    pub mcl: U32,
    /// MSRC: most ranges of one copy, 0's based (added to 1.4 with the Copy command).
    pub msrc_z: u8,
    reserved_81: [u8; 11],
    /// ANAGRPID: ANA group.
    pub anagrpid: U32,
    reserved_96: [u8; 3],
    /// NSATTR: bit 0, write protected.
    pub nsattr: u8,
    /// NVMSETID: NVM set.
    pub nvmsetid: U16,
    /// ENDGID: endurance group.
    pub endgid: U16,
    /// NGUID: globally unique, most significant byte first; all zeroes when there is none.
    pub nguid: [u8; 16],
    /// EUI64: globally unique, most significant byte first; all zeroes when there is none.
    pub eui64: [u8; 8],
    /// LBAF0 to LBAF63: the formats; from LBAF16 on since revision 2.0. See [`LbaFormat`].
    pub lbaf: [U32; FORMATS],
    /// The vendor's own.
    pub vendor: [u8; 3712],
}

const _: () = assert!(size_of::<Namespace>() == 4096 && align_of::<Namespace>() == 1);

/// Places for formats (NVM command set specification 1.0, figure 97).
pub const FORMATS: usize = 64;

/// An LBA format (section 5.15.2.1, figure 246).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct LbaFormat {
    /// MS: metadata per block, bytes.
    pub ms: u16,
    /// LBADS: a block is 2^LBADS bytes; below 9 the format does not exist.
    pub lbads: u8,
    /// RP: relative performance, 0 is best.
    #[bits(2)]
    pub rp: u8,
    #[bits(6)]
    __: u8,
}

impl LbaFormat {
    /// Bytes of a block without metadata: 512 and more. `None` when LBADS is below 9 or above 31.
    #[must_use]
    pub const fn block_bytes(self) -> Option<u32> {
        match self.lbads() {
            lbads @ 9..=31 => Some(1 << lbads),
            _ => None,
        }
    }
}

/// Blocks without metadata and protection information: all that reads and writes of data alone can use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlainBlocks {
    /// Blocks of the namespace, at least 1. Their bytes together fit into 64 bits.
    pub blocks: u64,
    /// log2 of the bytes of a block, at least 9.
    pub shift: u8,
}

/// Why the blocks of a namespace are not plain ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotPlain {
    /// NSZE is 0.
    Inactive,
    /// FLBAS names a format that is not there.
    NoSuchFormat {
        /// Index of the format.
        index: u8,
        /// Number of formats.
        formats: u16,
    },
    /// Blocks of 2^LBADS bytes are too small for the standard, or too large for the driver.
    BlockSize {
        /// LBADS.
        log2: u8,
    },
    /// Each block has metadata, which commands would transfer too.
    Metadata {
        /// Bytes of a block's metadata.
        bytes: u16,
    },
    /// Protection information is in use (DPS).
    Protection {
        /// The type of protection, 1 to 7.
        kind: u8,
    },
    /// 64 bits cannot hold the size in bytes.
    TooLarge,
}

impl fmt::Display for NotPlain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inactive => f.write_str("is not active"),
            Self::NoSuchFormat { index, formats } => write!(f, "has format {index}, and {formats} formats"),
            Self::BlockSize { log2 } => write!(f, "has blocks of 2^{log2} bytes"),
            Self::Metadata { bytes } => write!(f, "has {bytes} bytes of metadata a block"),
            Self::Protection { kind } => write!(f, "has protection information of type {kind}"),
            Self::TooLarge => f.write_str("has more bytes than 64 bits can count"),
        }
    }
}

impl core::error::Error for NotPlain {}

impl Namespace {
    /// Index of the format in use, 0 to 63.
    #[must_use]
    pub const fn format_index(&self) -> u8 {
        Flbas::from_bits(self.flbas).index()
    }

    /// The format in use; `None` when FLBAS names one beyond NLBAF, or NLBAF claims more than there are places for.
    ///
    /// The standard lets a host ignore bits 6:5 of FLBAS when there are at most 16 formats. Here they make an index that does not
    /// exist: a controller that has them set means a format that it did not describe.
    #[must_use]
    pub fn format(&self) -> Option<LbaFormat> {
        let index = self.format_index();
        if index > self.nlbaf_z || usize::from(self.nlbaf_z) >= FORMATS {
            return None;
        }
        self.lbaf.get(usize::from(index)).map(|raw| LbaFormat::from_bits(raw.get()))
    }

    /// The namespace's blocks, if they are plain ones of at most `2^most_shift` bytes.
    ///
    /// # Errors
    /// The first [`NotPlain`] reason that applies.
    pub fn plain(&self, most_shift: u8) -> Result<PlainBlocks, NotPlain> {
        let blocks = self.nsze.get();
        if blocks == 0 {
            return Err(NotPlain::Inactive);
        }
        let formats = u16::from(self.nlbaf_z).saturating_add(1);
        let format = self.format().ok_or(NotPlain::NoSuchFormat { index: self.format_index(), formats })?;
        let shift = format.lbads();
        if format.block_bytes().is_none() || shift > most_shift {
            return Err(NotPlain::BlockSize { log2: shift });
        }
        if format.ms() != 0 {
            return Err(NotPlain::Metadata { bytes: format.ms() });
        }
        let kind = self.dps & 7;
        if kind != 0 {
            return Err(NotPlain::Protection { kind });
        }
        self.size_bytes().ok_or(NotPlain::TooLarge)?;
        Ok(PlainBlocks { blocks, shift })
    }

    /// Bytes of a block without metadata, in the format in use.
    #[must_use]
    pub fn block_bytes(&self) -> Option<u32> {
        self.format()?.block_bytes()
    }

    /// Size in bytes without metadata; `None` when the format is impossible or 64 bits cannot hold the size.
    #[must_use]
    pub fn size_bytes(&self) -> Option<u64> {
        self.nsze.get().checked_mul(u64::from(self.block_bytes()?))
    }

    /// The first address beyond the namespace.
    #[must_use]
    pub const fn end(&self) -> Lba {
        Lba(self.nsze.get())
    }

    /// Whether the controller promises that deallocated blocks read as zeroes (DLFEAT).
    #[must_use]
    pub const fn deallocated_reads_zeroes(&self) -> bool {
        self.dlfeat & 7 == 1
    }
}
