//! The log page about supported commands and their effects (section 5.14.1.5).

use bitfield_struct::bitfield;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Commands Supported and Effects, log page 05h (section 5.14.1.5). Each entry is a [`CommandEffects`].
#[derive(Clone, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Effects {
    /// ACS: admin commands, by opcode.
    pub admin: [U32; 256],
    /// IOCS: I/O commands, by opcode.
    pub io: [U32; 256],
    reserved_2048: [u8; 2048],
}

const _: () = assert!(size_of::<Effects>() == 4096 && align_of::<Effects>() == 1);

/// The effects of one command (section 5.14.1.5).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct CommandEffects {
    /// CSUPP: the command is supported; all else is 0 when it is not.
    pub supported: bool,
    /// LBCC: it may change the contents of blocks.
    pub block_contents: bool,
    /// NCC: it may change capabilities of a namespace.
    pub namespace: bool,
    /// NIC: it may change the inventory of namespaces.
    pub inventory: bool,
    /// CCC: it may change capabilities of the controller.
    pub controller: bool,
    #[bits(11)]
    __: u16,
    /// CSE: see [`Execution`].
    #[bits(3)]
    pub execution: u8,
    /// USS: a UUID may be chosen in it.
    pub uuid: bool,
    /// CSP: see [`Scope`]. Since revision 2.0.
    #[bits(12)]
    pub scope: u16,
}

/// CSP and FSP: what a command or a feature is about, a bit for each (base specification 2.0, sections 5.16.1.6 and 5.16.1.18).
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct Scope {
    /// A namespace.
    pub namespace: bool,
    /// The controller.
    pub controller: bool,
    /// An NVM set.
    pub set: bool,
    /// An endurance group.
    pub endurance_group: bool,
    /// A domain.
    pub domain: bool,
    /// The NVM subsystem.
    pub subsystem: bool,
    #[bits(10)]
    __: u16,
}

/// CSE: the commands that may be outstanding while a command executes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Execution {
    /// 000b: any others.
    Any = 0,
    /// 001b: no other for the same namespace.
    AloneInNamespace = 1,
    /// 010b: no other for any namespace.
    Alone = 2,
}
