//! Faults: of a thread, with the words of their messages, and of a device's DMA. Neighbour: `fault_ipc` sends and answers them.

use crate::access::Access;
use platform::{CPtr, Message, Vaddr};

/// Labels of fault messages (seL4 5.0.0, `seL4_Fault`).
pub(crate) const CAPABILITY_FAULT: u32 = 1;
pub(crate) const UNKNOWN_SYSCALL: u32 = 2;
pub(crate) const USER_EXCEPTION: u32 = 3;
pub(crate) const VM_FAULT: u32 = 5;
/// The processor's page fault error code (Intel SDM volume 3, section 4.7).
const PRESENT: u64 = 1 << 0;
const WRITE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
/// Words of an unknown syscall's message before its number, and where among them are instruction and stack pointer.
pub(crate) const SYSCALL_REGISTERS: usize = 18;
pub(crate) const SYSCALL_IP: usize = 15;
pub(crate) const SYSCALL_SP: usize = 16;

/// The invalid action of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The thread accessed memory that is not mapped for this access.
    Vm {
        /// The address.
        vaddr: u64,
        /// The access.
        access: Access,
    },
    /// The thread used a path that leads to no capability.
    Capability {
        /// The path.
        cptr: CPtr,
        /// Whether the thread was receiving.
        is_receiving: bool,
    },
    /// The thread made a system call that does not exist.
    UnknownSyscall(u64),
    /// The processor raised an exception.
    Exception(u32),
}

/// A failed lookup of a path (seL4 manual, section 3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LookupFailure {
    /// The path does not start in a CNode.
    InvalidRoot,
    /// There is nothing where it ends.
    MissingCapability {
        /// Bits that were left.
        bits_left: u8,
    },
    /// A CNode takes more bits than are left, or bits are left over.
    DepthMismatch {
        /// Bits that the CNode takes.
        bits_found: u8,
        /// Bits that were left.
        bits_left: u8,
    },
    /// The path differs from a CNode's guard.
    GuardMismatch {
        /// The guard.
        guard: u64,
        /// Bits that were left.
        bits_left: u8,
        /// Bits of the guard.
        bits_found: u8,
    },
}

/// An access to memory that a thread may not make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VmFault {
    /// The address.
    pub vaddr: Vaddr,
    /// The access.
    pub access: Access,
}

impl From<VmFault> for Fault {
    fn from(fault: VmFault) -> Self {
        Self::Vm { vaddr: fault.vaddr.bits(), access: fault.access }
    }
}

/// DMA that the IOMMU stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoFault {
    /// The requester id of the access.
    pub requester_id: u16,
    /// The address.
    pub iova: u64,
    /// The kind of access.
    pub access: Access,
}

/// A fault without reply so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PendingFault {
    pub(crate) fault: Fault,
    /// The processor's error code, for memory.
    pub(crate) status: u64,
    /// The lookup failure, for capabilities.
    pub(crate) failure: Option<LookupFailure>,
}

/// Number and words of a lookup failure, as messages have them.
pub(crate) fn failure_words(failure: Option<LookupFailure>) -> [u64; 4] {
    match failure {
        None | Some(LookupFailure::InvalidRoot) => [1, 0, 0, 0],
        Some(LookupFailure::MissingCapability { bits_left }) => [2, bits_left.into(), 0, 0],
        Some(LookupFailure::DepthMismatch { bits_found, bits_left }) => [3, bits_left.into(), bits_found.into(), 0],
        Some(LookupFailure::GuardMismatch { guard, bits_left, bits_found }) => {
            [4, bits_left.into(), guard, bits_found.into()]
        }
    }
}

/// Number of words that follow the failure's number.
pub(crate) const fn failure_len(failure: Option<LookupFailure>) -> usize {
    match failure {
        None | Some(LookupFailure::InvalidRoot) => 0,
        Some(LookupFailure::MissingCapability { .. }) => 1,
        Some(LookupFailure::DepthMismatch { .. }) => 2,
        Some(LookupFailure::GuardMismatch { .. }) => 3,
    }
}

/// A decoded fault message of the kernel, for a supervisor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultReport {
    /// The fault.
    pub fault: Fault,
    /// The address of the instruction.
    pub instruction: u64,
}

impl FaultReport {
    /// Decodes `message`; `None` when the kernel did not write it.
    #[must_use]
    pub fn decode(message: &Message) -> Option<Self> {
        let word = |index: usize| message.words().get(index).copied();
        let (fault, instruction) = match message.label {
            VM_FAULT => {
                let (instruction, vaddr) = (word(0)?, word(1)?);
                let access = match (word(2)?, word(3)?) {
                    (_, status) if status & WRITE != 0 => Access::Write,
                    // The processor distinguishes fetches from reads only where no-execute is in use.
                    (prefetch, _) if prefetch != 0 || vaddr == instruction => Access::Execute,
                    _ => Access::Read,
                };
                (Fault::Vm { vaddr, access }, instruction)
            }
            CAPABILITY_FAULT => {
                (Fault::Capability { cptr: CPtr::new(word(1)?), is_receiving: word(2)? != 0 }, word(0)?)
            }
            UNKNOWN_SYSCALL => (Fault::UnknownSyscall(word(SYSCALL_REGISTERS)?), word(SYSCALL_IP)?),
            USER_EXCEPTION => (Fault::Exception(word(3)? as u32), word(0)?),
            _ => return None,
        };
        Some(Self { fault, instruction })
    }
}

/// The error code of a page fault at user level.
pub(crate) fn page_fault_status(is_present: bool, access: Access) -> u64 {
    let present = if is_present { PRESENT } else { 0 };
    let write = if access == Access::Write { WRITE } else { 0 };
    USER | present | write
}
