//! Capabilities as slots hold them, and the operations on one that touch nothing else: mask its rights, change its data,
//! compare it.
//!
//! Neighbours: `derivation` (the derivation order), `cnode` (the slots), and the object that each capability names.

use crate::Arch;
use crate::arena::{AsidPoolId, CNodeId, EndpointId, IoTableId, NotificationId, TableId, ThreadId};
use crate::rules::{Correction, Interface, Ports, Rules};
use platform::{Badge, CapData, Error, Rights, TableLevel};

/// Bits of an endpoint's badge.
const ENDPOINT_BADGE_BITS: u32 = 28;
/// Layout of the data word of a CNode capability (seL4 5.0.0, `seL4_CapData`).
const OLD_GUARD_TAG: u64 = 1 << 31;
const OLD_GUARD_SHIFT: u32 = 8;
const OLD_GUARD_MASK: u64 = (1 << 18) - 1;
const OLD_GUARD_SIZE_SHIFT: u32 = 2;
const GUARD_SHIFT: u32 = 6;
const GUARD_SIZE_MASK: u64 = (1 << 6) - 1;

/// The size of a frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FrameSize {
    /// 4 KiB.
    Small,
    /// 2 MiB.
    Large,
}

impl FrameSize {
    /// log2 of the bytes.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::Small => 12,
            Self::Large => 21,
        }
    }
}

/// Access that a frame's capability allows to its mappings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum VmRights {
    /// No access from user level.
    KernelOnly,
    /// Read.
    ReadOnly,
    /// Read and write.
    ReadWrite,
}

impl VmRights {
    /// The rights that remain under `rights`.
    #[must_use]
    pub const fn masked(self, rights: Rights) -> Self {
        match self {
            Self::ReadOnly | Self::ReadWrite if !rights.read => Self::KernelOnly,
            Self::ReadWrite if rights.write => Self::ReadWrite,
            Self::ReadOnly | Self::ReadWrite => Self::ReadOnly,
            Self::KernelOnly => Self::KernelOnly,
        }
    }
}

/// The place where this capability maps its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mapping {
    /// Not mapped.
    None,
    /// In a VSpace.
    VSpace {
        /// The VSpace's address space identifier.
        asid: u16,
        /// First byte.
        vaddr: u64,
    },
    /// In an IOSpace.
    IoSpace {
        /// The PCI requester id of the IOSpace.
        requester_id: u16,
        /// First byte.
        iova: u64,
    },
}

/// The place where a paging structure is installed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TablePlace {
    /// The VSpace.
    pub asid: u16,
    /// First byte it translates.
    pub vaddr: u64,
}

/// The place where an IO page table is installed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoTablePlace {
    /// The IOSpace's PCI requester id.
    pub requester_id: u16,
    /// 0 for the root, counted downwards.
    pub level: u8,
    /// First byte it translates; 0 for the root.
    pub iova: u64,
}

/// An object whose last capability was deleted and which still has slots to empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dying {
    /// A CNode.
    CNode(CNodeId),
    /// A thread.
    Thread(ThreadId),
}

/// A capability.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Capability {
    /// An empty slot.
    #[default]
    Null,
    /// Memory to make objects of.
    Untyped {
        /// First byte.
        paddr: u64,
        /// log2 of its bytes.
        size_bits: u8,
        /// Whether the untyped is device memory.
        is_device: bool,
        /// Bytes used from the start.
        used: u64,
    },
    /// An endpoint.
    Endpoint {
        /// The endpoint's number.
        endpoint: EndpointId,
        /// 28 bits, 0 for none.
        badge: u64,
        /// Write is send, read is receive.
        rights: Rights,
    },
    /// A notification.
    Notification {
        /// The notification's number.
        notification: NotificationId,
        /// 0 for none.
        badge: u64,
        /// Write is signal, read is wait. Grant means nothing.
        rights: Rights,
    },
    /// The right to reply to a thread.
    Reply {
        /// The thread that waits for the reply.
        thread: ThreadId,
        /// Whether the reply may carry a capability.
        can_grant: bool,
        /// Whether the capability is the thread's own, from which the others derive.
        is_master: bool,
    },
    /// A CNode.
    CNode {
        /// The CNode's number.
        cnode: CNodeId,
        /// log2 of its slots.
        radix: u8,
        /// The guard.
        guard: u64,
        /// The guard's bits.
        guard_bits: u8,
    },
    /// A thread.
    Thread(ThreadId),
    /// Scheduling domains, of which there is one.
    Domain,
    /// The right to make interrupt handlers.
    IrqControl,
    /// A kernel interrupt.
    IrqHandler(u8),
    /// The rest of an object that is being deleted.
    Zombie {
        /// The object.
        of: Dying,
        /// Slots that are not known to be empty, from its first.
        left: u32,
    },
    /// A frame.
    Frame {
        /// First byte.
        paddr: u64,
        /// The frame's size.
        size: FrameSize,
        /// Access that its mappings may allow.
        rights: VmRights,
        /// Whether the frame is device memory.
        is_device: bool,
        /// The mapping made through this capability.
        mapping: Mapping,
    },
    /// A paging structure below the root.
    Table {
        /// The structure's level.
        level: TableLevel,
        /// The structure's number.
        table: TableId,
        /// Where it is installed, as this capability knows it.
        place: Option<TablePlace>,
    },
    /// The root of a VSpace.
    VSpace {
        /// The root structure's number.
        table: TableId,
        /// The address space identifier, 0 for none yet.
        asid: u16,
    },
    /// The right to make pools of address space identifiers.
    AsidControl,
    /// A pool of them.
    AsidPool {
        /// The pool's number.
        pool: AsidPoolId,
        /// The pool's first identifier.
        base: u16,
    },
    /// The right to issue I/O ports.
    IoPortControl,
    /// I/O ports.
    IoPorts {
        /// First.
        first: u16,
        /// Last.
        last: u16,
    },
    /// The address space of a PCI function, or with domain 0 the master of all.
    IoSpace {
        /// IOMMU domain.
        domain: u16,
        /// PCI requester id.
        requester_id: u16,
    },
    /// A page table of the IOMMU.
    IoTable {
        /// The table's number.
        table: IoTableId,
        /// Where it is installed, as this capability knows it.
        place: Option<IoTablePlace>,
    },
}

impl Capability {
    /// Whether the slot is empty.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The capability with its rights cut to `mask`. Only endpoints, notifications and frames have rights.
    #[must_use]
    pub fn masked(mut self, mask: Rights) -> Self {
        match &mut self {
            Self::Endpoint { rights, .. } => {
                rights.read &= mask.read;
                rights.write &= mask.write;
                rights.grant &= mask.grant;
                rights.grant_reply &= mask.grant_reply;
            }
            Self::Notification { rights, .. } => {
                rights.read &= mask.read;
                rights.write &= mask.write;
            }
            Self::Frame { rights, .. } => *rights = rights.masked(mask),
            _ => {}
        }
        self
    }

    /// The capability with the data `word`; [`Capability::Null`] when these data are invalid for it.
    #[must_use]
    pub fn with_data(mut self, word: u64, rules: Rules) -> Self {
        match &mut self {
            Self::Endpoint { badge, .. }
                if *badge == 0 && (rules.interface == Interface::Current || word >> ENDPOINT_BADGE_BITS == 0) =>
            {
                *badge = word;
            }
            Self::Notification { badge, .. } if *badge == 0 => *badge = word,
            Self::Endpoint { .. } | Self::Notification { .. } => return Self::Null,
            Self::CNode { radix, guard, guard_bits, .. } => {
                let (bits, value) = rules.interface.guard_of(word);
                if bits + *radix > 64 {
                    return Self::Null;
                }
                *guard = value & low_bits(bits);
                *guard_bits = bits;
            }
            Self::IoPorts { first, last } if rules.ports == Ports::Minted => {
                let (new_first, new_last) = ((word >> 16) as u16, word as u16);
                if new_first > new_last || new_first < *first || new_last > *last {
                    return Self::Null;
                }
                (*first, *last) = (new_first, new_last);
            }
            Self::IoSpace { domain, requester_id } => {
                let (new_domain, new_requester) = ((word >> 16) as u16, word as u16);
                // Without the correction the kernel tells the master by its requester id alone.
                let is_master = *domain == 0 || rules.io_space_revoke == Correction::Missing;
                if !is_master || *requester_id != 0 || new_domain == 0 {
                    return Self::Null;
                }
                (*domain, *requester_id) = (new_domain, new_requester);
            }
            _ => {}
        }
        self
    }
}

/// The word that user level makes of `data`. The kernel interprets it by the kind of capability that it is for.
pub(crate) fn data_word(arch: Arch, interface: Interface, data: CapData) -> platform::Result<u64> {
    const BADGES: u64 = 1 << ENDPOINT_BADGE_BITS;
    match data {
        CapData::Badge(badge) if badge.0 >= BADGES && !badge.has(Badge::SIGNAL) => {
            Err(Error::RangeError { min: 0, max: BADGES - 1 })
        }
        CapData::Badge(badge) => Ok(badge.0),
        CapData::IoPorts(..) | CapData::IoSpace { .. } if arch == Arch::Aarch64 => Err(Error::IllegalOperation),
        CapData::Guard { size, value } => Ok(interface.guard_word(size, value)),
        CapData::IoPorts(first, last) => Ok(u64::from(first) << 16 | u64::from(last)),
        CapData::IoSpace { domain, requester_id } => Ok(u64::from(domain) << 16 | u64::from(requester_id)),
    }
}

impl Interface {
    /// The data word of a guard.
    pub(crate) fn guard_word(self, size: u8, value: u64) -> u64 {
        let size = u64::from(size) & GUARD_SIZE_MASK;
        match self {
            Self::Old => OLD_GUARD_TAG | (value & OLD_GUARD_MASK) << OLD_GUARD_SHIFT | size << OLD_GUARD_SIZE_SHIFT,
            Self::Current => value << GUARD_SHIFT | size,
        }
    }

    /// The size and the value of the guard in a data word.
    fn guard_of(self, word: u64) -> (u8, u64) {
        let (size, value) = match self {
            Self::Old => (word >> OLD_GUARD_SIZE_SHIFT, word >> OLD_GUARD_SHIFT & OLD_GUARD_MASK),
            Self::Current => (word, word >> GUARD_SHIFT),
        };
        ((size & GUARD_SIZE_MASK) as u8, value)
    }
}

/// A word with its lowest `bits` set.
pub(crate) const fn low_bits(bits: u8) -> u64 {
    match 1u64.checked_shl(bits as u32) {
        Some(one) => one - 1,
        None => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORRECTED: Rules = Rules::CORRECTED;

    fn endpoint(badge: u64) -> Capability {
        Capability::Endpoint { endpoint: crate::arena::Id::from_place(0), badge, rights: Rights::ALL }
    }

    #[test]
    fn a_badge_is_given_once() {
        assert_eq!(endpoint(0).with_data(5, CORRECTED), endpoint(5));
        assert_eq!(endpoint(5).with_data(6, CORRECTED), Capability::Null);
        assert_eq!(endpoint(0).with_data(1 << 28, CORRECTED), Capability::Null);
    }

    #[test]
    fn ports_only_shrink() {
        let ports = Capability::IoPorts { first: 0x3f8, last: 0x3ff };
        let word = |first, last| data_word(Arch::X86_64, Interface::Old, CapData::IoPorts(first, last)).unwrap();
        assert_eq!(ports.with_data(word(0x3f9, 0x3fa), CORRECTED), Capability::IoPorts { first: 0x3f9, last: 0x3fa });
        assert_eq!(ports.with_data(word(0x3f0, 0x3fa), CORRECTED), Capability::Null);
        assert_eq!(ports.with_data(word(0x3fa, 0x3f9), CORRECTED), Capability::Null);
    }

    #[test]
    fn a_frame_without_read_is_the_kernels_alone() {
        assert_eq!(VmRights::ReadWrite.masked(Rights::WRITE), VmRights::KernelOnly);
        assert_eq!(VmRights::ReadOnly.masked(Rights::READ_WRITE), VmRights::ReadOnly);
        assert_eq!(VmRights::ReadWrite.masked(Rights::READ), VmRights::ReadOnly);
    }

    #[test]
    fn only_the_master_becomes_an_io_space() {
        let master = Capability::IoSpace { domain: 0, requester_id: 0 };
        let word = data_word(Arch::X86_64, Interface::Old, CapData::IoSpace { domain: 3, requester_id: 0x18 }).unwrap();
        let minted = Capability::IoSpace { domain: 3, requester_id: 0x18 };
        assert_eq!(master.with_data(word, CORRECTED), minted);
        assert_eq!(minted.with_data(word, CORRECTED), Capability::Null);
        assert_eq!(master.with_data(0x18, CORRECTED), Capability::Null);
    }
}
