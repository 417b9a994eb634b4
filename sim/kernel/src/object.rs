//! Kernel objects: the state of each kind, and the memory that it takes.

use crate::Arch;
use crate::arena::{IoTableId, TableId, ThreadId};
use crate::capability::VmRights;
use crate::queue::Queue;
use crate::slots::SlotId;
use platform::ObjectType;

/// log2 of the bytes of a slot, and of objects of a fixed size (seL4 5.0.0, x86_64).
pub(crate) const SLOT_BITS: u8 = 5;
pub(crate) const TCB_BITS: u8 = 11;
pub(crate) const ENDPOINT_BITS: u8 = 4;
pub(crate) const NOTIFICATION_BITS: u8 = 5;
pub(crate) const PAGE_BITS: u8 = 12;
/// Entries of a paging structure, of the MMU or the IOMMU.
pub(crate) const TABLE_ENTRIES: usize = 512;

/// Objects the kernel makes in one retype, at most.
pub const RETYPE_LIMIT: u64 = 256;

/// log2 of the bytes of an object of `object_type`; `size_bits` as passed to retype.
#[must_use]
pub const fn object_bits(object_type: ObjectType, size_bits: u8) -> u8 {
    match object_type {
        ObjectType::Untyped => size_bits,
        ObjectType::CNode => size_bits.saturating_add(SLOT_BITS),
        ObjectType::Endpoint => ENDPOINT_BITS,
        ObjectType::Notification => NOTIFICATION_BITS,
        ObjectType::Tcb => TCB_BITS,
        ObjectType::LargePage => 21,
        ObjectType::VSpace | ObjectType::TranslationTable(_) | ObjectType::SmallPage | ObjectType::IoPageTable => {
            PAGE_BITS
        }
    }
}

/// A node of slots.
#[derive(Clone, Debug)]
pub(crate) struct CNodeObject {
    pub(crate) paddr: u64,
    /// log2 of the slots.
    pub(crate) radix: u8,
    pub(crate) first: SlotId,
}

/// The direction in which the threads in an endpoint's queue wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waiting {
    Nobody,
    Senders,
    Receivers,
}

/// A synchronous endpoint.
#[derive(Clone, Debug)]
pub(crate) struct EndpointObject {
    pub(crate) paddr: u64,
    pub(crate) waiting: Waiting,
    pub(crate) queue: Queue,
}

/// The state of a notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Signalled {
    No,
    /// Not signalled, and threads wait.
    Awaited,
    /// Signalled with these badges, ORed.
    Yes(u64),
}

/// An asynchronous notification.
#[derive(Clone, Debug)]
pub(crate) struct NotificationObject {
    pub(crate) paddr: u64,
    pub(crate) state: Signalled,
    pub(crate) queue: Queue,
    pub(crate) bound: Option<ThreadId>,
}

/// An entry of a paging structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    Empty,
    /// The next structure.
    Table(TableId),
    /// A frame, of the size that the structure's level says.
    Page {
        paddr: u64,
        rights: VmRights,
        is_executable: bool,
    },
}

/// A paging structure of a VSpace.
#[derive(Clone, Debug)]
pub(crate) struct TableObject {
    pub(crate) paddr: u64,
    pub(crate) entries: Box<[Entry; TABLE_ENTRIES]>,
}

impl TableObject {
    pub(crate) fn new(paddr: u64) -> Self {
        Self { paddr, entries: Box::new([Entry::Empty; TABLE_ENTRIES]) }
    }
}

/// Number of pools of address space identifiers that the kernel can have.
pub(crate) const fn asid_pools(arch: Arch) -> usize {
    match arch {
        Arch::X86_64 => 8,
        Arch::Aarch64 => 128,
    }
}

/// A pool of address space identifiers.
#[derive(Clone, Debug)]
pub(crate) struct AsidPoolObject {
    pub(crate) paddr: u64,
    pub(crate) vspaces: Box<[Option<TableId>; TABLE_ENTRIES]>,
}

impl AsidPoolObject {
    pub(crate) fn new(paddr: u64) -> Self {
        Self { paddr, vspaces: Box::new([None; TABLE_ENTRIES]) }
    }
}

/// An entry of an IO page table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IoEntry {
    Empty,
    Table(IoTableId),
    Page { paddr: u64, read: bool, write: bool },
}

/// A page table of the IOMMU.
#[derive(Clone, Debug)]
pub(crate) struct IoTableObject {
    pub(crate) paddr: u64,
    pub(crate) entries: Box<[IoEntry; TABLE_ENTRIES]>,
}

impl IoTableObject {
    pub(crate) fn new(paddr: u64) -> Self {
        Self { paddr, entries: Box::new([IoEntry::Empty; TABLE_ENTRIES]) }
    }
}
