//! Commands: 16 bytes each, put into the command queue by software (chapter 4).

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::StreamId;
use crate::context::Asid;

/// log2 of a command's bytes.
pub const COMMAND_BYTES_LOG2: u32 = 4;

/// A command (section 4.1). Made by the constructors, read by [`Command::opcode`] and the accessors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Command {
    /// Bits 63:0.
    pub word0: CommandWord0,
    /// Bits 127:64: an address in bits 63:12, or a range in bits 4:0; bit 0 is Leaf in other commands.
    pub word1: u64,
}

const _: () = assert!(size_of::<Command>() == 1 << COMMAND_BYTES_LOG2);

/// The first word of a command: its opcode and its target.
#[bitfield(u64)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct CommandWord0 {
    /// The opcode; see [`Opcode`].
    pub opcode: u8,
    #[bits(2)]
    __: u8,
    /// SSec: the stream is Secure.
    pub secure: bool,
    /// SSV: the substream is valid.
    pub substream_valid: bool,
    /// SSID of configuration commands, CS of a SYNC in its low two bits.
    #[bits(20)]
    pub substream: u32,
    /// StreamID of configuration commands; VMID and ASID of invalidations.
    pub target: u32,
}

/// Opcodes (section 4.1.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Opcode {
    /// CMD_CFGI_STE: one stream's configuration (section 4.3.1).
    InvalidateStream = 0x03,
    /// CMD_CFGI_STE_RANGE, and CMD_CFGI_ALL with range 31 (section 4.3.2).
    InvalidateStreams = 0x04,
    /// CMD_CFGI_CD: one context descriptor (section 4.3.3).
    InvalidateContext = 0x05,
    /// CMD_TLBI_NH_ASID: an address space's translations (section 4.4.2).
    InvalidateAsid = 0x11,
    /// CMD_TLBI_NH_VA: one address's translations (section 4.4.2).
    InvalidateAddress = 0x12,
    /// CMD_TLBI_NSNH_ALL: all Non-secure translations (section 4.4.4).
    InvalidateAll = 0x30,
    /// CMD_SYNC: all before it has taken effect when it is consumed (section 4.6.3).
    Sync = 0x46,
}

impl Opcode {
    /// The opcode of this number, if it is one of those named here.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        Some(match raw {
            0x03 => Self::InvalidateStream,
            0x04 => Self::InvalidateStreams,
            0x05 => Self::InvalidateContext,
            0x11 => Self::InvalidateAsid,
            0x12 => Self::InvalidateAddress,
            0x30 => Self::InvalidateAll,
            0x46 => Self::Sync,
            _ => return None,
        })
    }
}

/// Which cached levels of a walk an invalidation reaches (Leaf; sections 4.3.1 and 4.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Leaf 0: the last level and all that led to it.
    AllLevels,
    /// Leaf 1: the last level alone.
    LastLevel,
}

/// The range of CMD_CFGI_ALL: every stream (section 4.3.2).
pub const RANGE_ALL: u8 = 31;

const ADDRESS_MASK: u64 = !0xfff;

impl Command {
    const fn of(opcode: Opcode) -> CommandWord0 {
        CommandWord0::new().with_opcode(opcode as u8)
    }

    /// CMD_CFGI_STE.
    #[must_use]
    pub const fn invalidate_stream(stream: StreamId, reach: Reach) -> Self {
        Self { word0: Self::of(Opcode::InvalidateStream).with_target(stream.0), word1: leaf(reach) }
    }

    /// CMD_CFGI_STE_RANGE: the 2^(`range` + 1) streams of an aligned group that has `stream` in it.
    #[must_use]
    pub const fn invalidate_streams(stream: StreamId, range: u8) -> Self {
        let word1 = (range & RANGE_ALL) as u64;
        Self { word0: Self::of(Opcode::InvalidateStreams).with_target(stream.0), word1 }
    }

    /// CMD_CFGI_ALL: the configuration of all streams.
    #[must_use]
    pub const fn invalidate_all_streams() -> Self {
        Self::invalidate_streams(StreamId(0), RANGE_ALL)
    }

    /// CMD_CFGI_CD of a stream's only context descriptor.
    #[must_use]
    pub const fn invalidate_context(stream: StreamId) -> Self {
        Self { word0: Self::of(Opcode::InvalidateContext).with_target(stream.0), word1: leaf(Reach::LastLevel) }
    }

    /// CMD_TLBI_NH_ASID, of VMID 0.
    #[must_use]
    pub const fn invalidate_asid(asid: Asid) -> Self {
        Self { word0: Self::of(Opcode::InvalidateAsid).with_target((asid.0 as u32) << 16), word1: 0 }
    }

    /// CMD_TLBI_NH_VA, of VMID 0: the page at `address`, whose low 12 bits are dropped.
    #[must_use]
    pub const fn invalidate_address(asid: Asid, address: u64, reach: Reach) -> Self {
        let word1 = (address & ADDRESS_MASK) | leaf(reach);
        Self { word0: Self::of(Opcode::InvalidateAddress).with_target((asid.0 as u32) << 16), word1 }
    }

    /// CMD_TLBI_NSNH_ALL.
    #[must_use]
    pub const fn invalidate_all_translations() -> Self {
        Self { word0: Self::of(Opcode::InvalidateAll), word1: 0 }
    }

    /// CMD_SYNC with CS 0: its consumption is the only signal.
    #[must_use]
    pub const fn sync() -> Self {
        Self { word0: Self::of(Opcode::Sync), word1: 0 }
    }

    /// The opcode, if it has a name here.
    #[must_use]
    pub const fn opcode(&self) -> Option<Opcode> {
        Opcode::from_raw(self.word0.opcode())
    }

    /// The stream of a configuration command.
    #[must_use]
    pub const fn stream(&self) -> StreamId {
        StreamId(self.word0.target())
    }

    /// The range of CMD_CFGI_STE_RANGE.
    #[must_use]
    pub const fn range(&self) -> u8 {
        (self.word1 & RANGE_ALL as u64) as u8
    }

    /// The ASID of an invalidation of translations.
    #[must_use]
    pub const fn asid(&self) -> Asid {
        Asid((self.word0.target() >> 16) as u16)
    }

    /// The address of CMD_TLBI_NH_VA.
    #[must_use]
    pub const fn address(&self) -> u64 {
        self.word1 & ADDRESS_MASK
    }

    /// How far the invalidation reaches.
    #[must_use]
    pub const fn reach(&self) -> Reach {
        if self.word1 & 1 == 0 { Reach::AllLevels } else { Reach::LastLevel }
    }
}

const fn leaf(reach: Reach) -> u64 {
    match reach {
        Reach::AllLevels => 0,
        Reach::LastLevel => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;

    const STREAM: StreamId = StreamId(0x0108);

    #[test]
    fn configuration_commands_have_the_bytes_of_the_standard() {
        let bytes = |command: Command| <[u8; 16]>::try_from(command.as_bytes()).unwrap();
        let ste = Command::invalidate_stream(STREAM, Reach::LastLevel);
        assert_eq!(bytes(ste), [3, 0, 0, 0, 0x08, 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        let range = Command::invalidate_streams(StreamId(0x140), 5);
        assert_eq!(bytes(range), [4, 0, 0, 0, 0x40, 0x01, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes(Command::invalidate_all_streams()), [4, 0, 0, 0, 0, 0, 0, 0, 31, 0, 0, 0, 0, 0, 0, 0]);
        let context = Command::invalidate_context(STREAM);
        assert_eq!(bytes(context), [5, 0, 0, 0, 0x08, 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn invalidations_of_translations_have_the_bytes_of_the_standard() {
        let bytes = |command: Command| <[u8; 16]>::try_from(command.as_bytes()).unwrap();
        let address = Command::invalidate_address(Asid(0x0203), 0x12_3456_7abc, Reach::AllLevels);
        assert_eq!(bytes(address), [0x12, 0, 0, 0, 0, 0, 3, 2, 0, 0x70, 0x56, 0x34, 0x12, 0, 0, 0]);
        let leaf = Command::invalidate_address(Asid(0x0203), 0x12_3456_7000, Reach::LastLevel);
        assert_eq!(bytes(leaf), [0x12, 0, 0, 0, 0, 0, 3, 2, 1, 0x70, 0x56, 0x34, 0x12, 0, 0, 0]);
        let asid = Command::invalidate_asid(Asid(0x0203));
        assert_eq!(bytes(asid), [0x11, 0, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Command::invalidate_all_translations().word0.into_bits(), 0x30);
        assert_eq!(Command::sync().word0.into_bits(), 0x46);
    }

    #[test]
    fn commands_are_read_as_they_were_made() {
        let command = Command::invalidate_address(Asid(0xffff), u64::MAX, Reach::LastLevel);
        assert_eq!(command.opcode(), Some(Opcode::InvalidateAddress));
        assert_eq!((command.asid(), command.address(), command.reach()), (Asid(0xffff), !0xfff, Reach::LastLevel));
        let command = Command::invalidate_streams(StreamId(u32::MAX), 0xff);
        assert_eq!((command.stream(), command.range()), (StreamId(u32::MAX), RANGE_ALL));
        assert_eq!(Command::default().opcode(), None);
    }
}
