//! Lists of namespaces, of controllers, and of a namespace's identifiers.

use core::fmt;

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::Nsid;

/// A namespace list (section 4.9): up to 1024 identifiers, ascending, the rest 0.
#[derive(Clone, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct NamespaceList {
    /// The identifiers as they stand.
    pub nsids: [U32; 1024],
}

const _: () = assert!(size_of::<NamespaceList>() == 4096);

impl NamespaceList {
    /// The identifiers up to the first 0. Stops too where they do not ascend, which no controller may send.
    pub fn iter(&self) -> impl Iterator<Item = Nsid> + '_ {
        let mut last = 0;
        self.nsids.iter().map_while(move |nsid| {
            let nsid = nsid.get();
            if nsid <= last || nsid == u32::MAX {
                return None;
            }
            last = nsid;
            Some(Nsid(nsid))
        })
    }
}

impl NamespaceList {
    /// The first entry of log page 04h when more namespaces changed than the list can hold (section 5.14.1.4).
    pub const OVERFLOW: u32 = u32::MAX;

    /// The first 1024 of these identifiers; they must ascend.
    #[must_use]
    pub fn of(nsids: impl Iterator<Item = Nsid>) -> Self {
        let mut list = Self { nsids: [U32::ZERO; 1024] };
        for (place, nsid) in list.nsids.iter_mut().zip(nsids) {
            place.set(nsid.0);
        }
        list
    }
}

/// A controller list: up to 2047 identifiers, ascending.
#[derive(Clone, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ControllerList {
    /// The number of identifiers.
    pub count: U16,
    /// The identifiers as they stand.
    pub ids: [U16; 2047],
}

const _: () = assert!(size_of::<ControllerList>() == 4096);

impl ControllerList {
    /// The first 2047 of these identifiers; they must ascend.
    #[must_use]
    pub fn of(ids: impl Iterator<Item = u16>) -> Self {
        let mut list = Self { count: U16::ZERO, ids: [U16::ZERO; 2047] };
        for (place, id) in list.ids.iter_mut().zip(ids) {
            place.set(id);
            list.count.set(list.count.get().saturating_add(1));
        }
        list
    }

    /// The identifiers; `None` when there are more than the list can hold or they do not ascend.
    #[must_use]
    pub fn listed(&self) -> Option<&[U16]> {
        let ids = self.ids.get(..usize::from(self.count.get()))?;
        ids.is_sorted_by(|a, b| a.get() < b.get()).then_some(ids)
    }
}

/// Namespace identifier types (section 5.15.2.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum IdKind {
    /// 1h: EUI-64, 8 bytes.
    Eui64 = 1,
    /// 2h: NGUID, 16 bytes.
    Nguid = 2,
    /// 3h: UUID, 16 bytes.
    Uuid = 3,
    /// 4h: the I/O command set, 1 byte (base specification 2.0, section 5.17.2.3). See [`CommandSetId`].
    CommandSet = 4,
}

/// I/O command set identifiers (base specification 2.0, section 5.17.2): the commands that a namespace takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommandSetId {
    /// 00h: blocks that can be read and written at any time.
    Nvm,
    /// 01h: keys and values.
    KeyValue,
    /// 02h: blocks in zones, which are written in their order.
    Zoned,
    /// Another command set.
    Other(u8),
}

impl CommandSetId {
    /// The command set of this number.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Self {
        match raw {
            0 => Self::Nvm,
            1 => Self::KeyValue,
            2 => Self::Zoned,
            other => Self::Other(other),
        }
    }
}

impl CommandSetId {
    /// The command set's number.
    #[must_use]
    pub const fn to_raw(self) -> u8 {
        match self {
            Self::Nvm => 0,
            Self::KeyValue => 1,
            Self::Zoned => 2,
            Self::Other(raw) => raw,
        }
    }
}

impl fmt::Display for CommandSetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nvm => f.write_str("has plain blocks"),
            Self::KeyValue => f.write_str("is a key-value store"),
            Self::Zoned => f.write_str("is zoned"),
            Self::Other(raw) => write!(f, "has the I/O command set {raw:#x}"),
        }
    }
}

impl IdKind {
    /// The type of this number, if it is one of those named here.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        match raw {
            1 => Some(Self::Eui64),
            2 => Some(Self::Nguid),
            3 => Some(Self::Uuid),
            4 => Some(Self::CommandSet),
            _ => None,
        }
    }

    /// NIDL: bytes of an identifier of this type.
    #[must_use]
    pub const fn bytes(self) -> u8 {
        match self {
            Self::Eui64 => 8,
            Self::Nguid | Self::Uuid => 16,
            Self::CommandSet => 1,
        }
    }
}

/// The header of each identifier in the list that [`crate::admin::Cns::NamespaceDescriptors`] returns (section 5.15.2.3).
/// A header of zeroes ends the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IdDescriptor {
    /// NIDT: see [`IdKind`].
    pub kind: u8,
    /// NIDL: bytes of the identifier that follows.
    pub bytes: u8,
    reserved: [u8; 2],
}

const _: () = assert!(size_of::<IdDescriptor>() == 4);

impl IdDescriptor {
    /// The header of an identifier of this type.
    #[must_use]
    pub const fn new(kind: IdKind) -> Self {
        Self { kind: kind as u8, bytes: kind.bytes(), reserved: [0; 2] }
    }
}

/// The identifiers of a namespace, as [`crate::admin::Cns::NamespaceDescriptors`] returns them.
#[derive(Clone, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IdList {
    /// Headers, each with its identifier after it.
    pub bytes: [u8; 4096],
}

const _: () = assert!(size_of::<IdList>() == 4096);

impl IdList {
    /// The identifiers: NIDT and NID of each. Ends at a header of zeroes, and before one that is beyond the list.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &[u8])> + '_ {
        let mut rest = self.bytes.as_slice();
        core::iter::from_fn(move || {
            let (header, behind) = IdDescriptor::ref_from_prefix(rest).ok()?;
            let id = behind.get(..usize::from(header.bytes)).filter(|id| !id.is_empty())?;
            rest = behind.get(id.len()..)?;
            Some((header.kind, id))
        })
    }

    /// The namespace's I/O command set, if it is in the list.
    #[must_use]
    pub fn command_set(&self) -> Option<CommandSetId> {
        let (_, id) = self.iter().find(|(kind, _)| *kind == IdKind::CommandSet as u8)?;
        id.first().copied().map(CommandSetId::from_raw)
    }
}
