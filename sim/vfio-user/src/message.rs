//! The wire formats of vfio-user: headers and the fixed parts of messages, as they are in memory.
//!
//! Everything has the byte order of the build machine ("Protocol Specification"). Left out: what the fields mean; they
//! are a client's claims until `request` has checked them.

use core::mem::size_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Numbers of the messages ("Commands").
pub(crate) mod command {
    pub(crate) const VERSION: u16 = 1;
    pub(crate) const DMA_MAP: u16 = 2;
    pub(crate) const DMA_UNMAP: u16 = 3;
    pub(crate) const DEVICE_GET_INFO: u16 = 4;
    pub(crate) const DEVICE_GET_REGION_INFO: u16 = 5;
    pub(crate) const DEVICE_GET_REGION_IO_FDS: u16 = 6;
    pub(crate) const DEVICE_GET_IRQ_INFO: u16 = 7;
    pub(crate) const DEVICE_SET_IRQS: u16 = 8;
    pub(crate) const REGION_READ: u16 = 9;
    pub(crate) const REGION_WRITE: u16 = 10;
    pub(crate) const DMA_READ: u16 = 11;
    pub(crate) const DMA_WRITE: u16 = 12;
    pub(crate) const DEVICE_RESET: u16 = 13;
    /// In QEMU's header file and no more in the specification.
    pub(crate) const DIRTY_PAGES: u16 = 14;
    pub(crate) const REGION_WRITE_MULTI: u16 = 15;
    pub(crate) const DEVICE_FEATURE: u16 = 16;
    pub(crate) const MIG_DATA_READ: u16 = 17;
    pub(crate) const MIG_DATA_WRITE: u16 = 18;
}

/// Bits of [`Header::flags`] ("Header").
pub(crate) mod flag {
    pub(crate) const TYPE: u32 = 0xF;
    pub(crate) const TYPE_COMMAND: u32 = 0;
    pub(crate) const TYPE_REPLY: u32 = 1;
    pub(crate) const NO_REPLY: u32 = 1 << 4;
    pub(crate) const ERROR: u32 = 1 << 5;
}

/// Size of a [`Header`].
pub(crate) const HEADER_BYTES: usize = size_of::<Header>();

/// The beginning of each message ("Header").
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Header {
    /// Chosen by the sender of the command, and repeated in the reply.
    pub(crate) id: u16,
    /// The message's command, of [`command`].
    pub(crate) command: u16,
    /// Size of the message, header included.
    pub(crate) bytes: u32,
    /// Bits of [`flag`].
    pub(crate) flags: u32,
    /// A UNIX error number, in a reply with [`flag::ERROR`].
    pub(crate) error: u32,
}
const _: () = assert!(size_of::<Header>() == 16);

impl Header {
    /// A command of ours, with `body_bytes` after the header.
    pub(crate) fn of_command(id: u16, command: u16, body_bytes: u32) -> Self {
        Self { id, command, bytes: with_header(body_bytes), flags: flag::TYPE_COMMAND, error: 0 }
    }

    /// The reply to this command, with `body_bytes` after the header.
    pub(crate) fn reply(self, body_bytes: u32) -> Self {
        Self { bytes: with_header(body_bytes), flags: flag::TYPE_REPLY, error: 0, ..self }
    }

    /// The reply to this command that says it failed: a header only.
    pub(crate) fn refusal(self, errno: i32) -> Self {
        let error = errno.unsigned_abs();
        Self { bytes: with_header(0), flags: flag::TYPE_REPLY | flag::ERROR, error, ..self }
    }

    /// Whether this is a reply; the connection lets no third type in.
    pub(crate) fn is_reply(&self) -> bool {
        self.flags & flag::TYPE == flag::TYPE_REPLY
    }

    /// Whether the sender wants an answer.
    pub(crate) fn wants_reply(&self) -> bool {
        self.flags & flag::NO_REPLY == 0
    }

    /// Whether this reply says that its command failed.
    pub(crate) fn is_refusal(&self) -> bool {
        self.flags & flag::ERROR != 0
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a header has 16 bytes")]
fn with_header(body_bytes: u32) -> u32 {
    body_bytes.saturating_add(HEADER_BYTES as u32)
}

/// Begins the messages of "VFIO_USER_VERSION"; text and a NUL may follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Version {
    pub(crate) major: u16,
    pub(crate) minor: u16,
}
const _: () = assert!(size_of::<Version>() == 4);

/// "VFIO_USER_DMA_MAP".
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct DmaMap {
    pub(crate) argsz: u32,
    /// Bits of [`map_flag`].
    pub(crate) flags: u32,
    pub(crate) file_offset: u64,
    pub(crate) iova: u64,
    pub(crate) bytes: u64,
}
const _: () = assert!(size_of::<DmaMap>() == 32);

/// Bits of [`DmaMap::flags`].
pub(crate) mod map_flag {
    pub(crate) const READABLE: u32 = 1 << 0;
    pub(crate) const WRITEABLE: u32 = 1 << 1;
}

/// "VFIO_USER_DMA_UNMAP", command and reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct DmaUnmap {
    pub(crate) argsz: u32,
    /// Zero or [`UNMAP_ALL`].
    pub(crate) flags: u32,
    pub(crate) iova: u64,
    pub(crate) bytes: u64,
}
const _: () = assert!(size_of::<DmaUnmap>() == 24);

/// In [`DmaUnmap::flags`]: all regions; address and size are zero (linux/vfio.h, `VFIO_DMA_UNMAP_FLAG_ALL`). Not in the
/// specification; QEMU sends it.
pub(crate) const UNMAP_ALL: u32 = 1 << 1;

/// "VFIO_USER_DEVICE_GET_INFO", command and reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct DeviceInfo {
    pub(crate) argsz: u32,
    /// Bits of [`device_flag`].
    pub(crate) flags: u32,
    pub(crate) regions: u32,
    pub(crate) irq_types: u32,
}
const _: () = assert!(size_of::<DeviceInfo>() == 16);

/// Bits of [`DeviceInfo::flags`].
pub(crate) mod device_flag {
    pub(crate) const RESET: u32 = 1 << 0;
    pub(crate) const PCI: u32 = 1 << 1;
}

/// "VFIO_USER_DEVICE_GET_REGION_INFO", command and reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RegionInfo {
    pub(crate) argsz: u32,
    /// Bits of [`region_flag`].
    pub(crate) flags: u32,
    pub(crate) index: u32,
    pub(crate) cap_offset: u32,
    pub(crate) bytes: u64,
    pub(crate) offset: u64,
}
const _: () = assert!(size_of::<RegionInfo>() == 32);

/// Bits of [`RegionInfo::flags`].
pub(crate) mod region_flag {
    pub(crate) const READ: u32 = 1 << 0;
    pub(crate) const WRITE: u32 = 1 << 1;
}

/// Indices of a PCI device's regions (linux/vfio.h, `VFIO_PCI_*_REGION_INDEX`): 0 to 5 are the BARs.
pub(crate) mod region_index {
    pub(crate) const ROM: u32 = 6;
    pub(crate) const CONFIG: u32 = 7;
    pub(crate) const VGA: u32 = 8;
    pub(crate) const COUNT: u32 = 9;
}

/// "VFIO_USER_DEVICE_GET_IRQ_INFO", command and reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct IrqInfo {
    pub(crate) argsz: u32,
    /// Bits of [`irq_info_flag`].
    pub(crate) flags: u32,
    pub(crate) index: u32,
    pub(crate) count: u32,
}
const _: () = assert!(size_of::<IrqInfo>() == 16);

/// Bits of [`IrqInfo::flags`].
pub(crate) mod irq_info_flag {
    pub(crate) const EVENTFD: u32 = 1 << 0;
    pub(crate) const MASKABLE: u32 = 1 << 1;
    pub(crate) const AUTOMASKED: u32 = 1 << 2;
}

/// Indices of a PCI device's interrupt types (linux/vfio.h, `VFIO_PCI_*_IRQ_INDEX`). Error and request notifiers, the
/// two after these, are left out.
pub(crate) mod irq_index {
    pub(crate) const PIN: u32 = 0;
    pub(crate) const MSI: u32 = 1;
    pub(crate) const MSIX: u32 = 2;
    pub(crate) const COUNT: u32 = 3;
}

/// Begins "VFIO_USER_DEVICE_SET_IRQS"; booleans of one byte may follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct IrqSet {
    pub(crate) argsz: u32,
    /// A data bit and an action bit of [`irq_set_flag`].
    pub(crate) flags: u32,
    pub(crate) index: u32,
    pub(crate) start: u32,
    pub(crate) count: u32,
}
const _: () = assert!(size_of::<IrqSet>() == 20);

/// Bits of [`IrqSet::flags`].
pub(crate) mod irq_set_flag {
    pub(crate) const DATA_NONE: u32 = 1 << 0;
    pub(crate) const DATA_BOOL: u32 = 1 << 1;
    pub(crate) const DATA_EVENTFD: u32 = 1 << 2;
    pub(crate) const ACTION_MASK: u32 = 1 << 3;
    pub(crate) const ACTION_UNMASK: u32 = 1 << 4;
    pub(crate) const ACTION_TRIGGER: u32 = 1 << 5;
    pub(crate) const DATA: u32 = DATA_NONE | DATA_BOOL | DATA_EVENTFD;
    pub(crate) const ACTION: u32 = ACTION_MASK | ACTION_UNMASK | ACTION_TRIGGER;
}

/// Begins "VFIO_USER_REGION_READ" and "VFIO_USER_REGION_WRITE", command and reply; data may follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RegionAccess {
    pub(crate) offset: u64,
    pub(crate) region: u32,
    pub(crate) count: u32,
}
const _: () = assert!(size_of::<RegionAccess>() == 16);

/// A write of "VFIO_USER_REGION_WRITE_MULTI". They follow their number, 64 bits; the reply is the number done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct SmallWrite {
    pub(crate) access: RegionAccess,
    pub(crate) data: [u8; 8],
}
const _: () = assert!(size_of::<SmallWrite>() == 24);

/// Begins "VFIO_USER_DMA_READ" and "VFIO_USER_DMA_WRITE"; data may follow. The count has 64 bits. QEMU's first version
/// of the client (10.1) had 32 bits there, and the data four bytes earlier; it cannot be served by messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct DmaAccess {
    pub(crate) iova: u64,
    pub(crate) count: u64,
}
const _: () = assert!(size_of::<DmaAccess>() == 16);
