//! Errors for the checkers: actions that software must not do, and DMA that was blocked.
//!
//! Nothing here stops the model: hardware would not stop either. Both lists are bounded by [`KEPT`]; later records are
//! only counted.

use crate::ids::FunctionId;
use crate::machine::Blocked;
use pci_spec::Bdf;

/// Limit of records of each sort.
pub const KEPT: usize = 4096;

/// An action that no driver, no firmware or no device should do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Violation {
    /// A BAR was changed while the function answers memory accesses: its old and its new place both misdecode
    /// meanwhile (PCI 6.2.5.1).
    BarMovedWhileDecoding {
        /// Byte offset of the BAR in configuration space.
        register: u16,
    },
    /// Two functions, or a function and a bridge, on one bus answer the same address.
    Overlap {
        /// The other one.
        other: FunctionId,
        /// The first address both answer.
        address: u64,
    },
    /// A configuration access went to a bus that two bridges claim.
    AmbiguousBus {
        /// The bus.
        bus: u8,
    },
    /// A write would have changed a register without any writable bit. BARs are not counted: sizing writes them.
    ReadOnlyRegister {
        /// Byte offset in configuration space.
        register: u16,
    },
    /// A message was due while the function or a bridge above it is not bus master. It is lost.
    MessageWithoutBusMaster {
        /// The vector.
        vector: u16,
    },
    /// DMA was tried while the function or a bridge above it is not bus master.
    DmaWithoutBusMaster,
    /// A vector was raised whose message was not programmed.
    UnprogrammedVector {
        /// The vector.
        vector: u16,
    },
    /// A message went to an address that is no interrupt: it was a DMA write.
    MessageElsewhere {
        /// The vector.
        vector: u16,
        /// The address.
        address: u64,
    },
    /// The device raised a vector that it does not have.
    NoSuchVector {
        /// The vector.
        vector: u16,
    },
    /// An entry of the MSI-X table was changed while messages could be sent by it (PCI 6.8.2).
    EntryChangedUnmasked {
        /// The vector.
        vector: u16,
    },
    /// The MSI-X table or the pending bits were accessed by less than a dword (PCI 6.8.2).
    NarrowTableAccess {
        /// Byte offset in the BAR.
        offset: u64,
    },
    /// MSI and MSI-X are both on (the standard has software choose one, PCI 6.8).
    MsiAndMsix,
    /// DMA by the device went into the interrupt range: an interrupt that the MSI-X table does not know of.
    DmaIntoInterruptRange {
        /// The address.
        address: u64,
    },
    /// The function was accessed while it was being reset (PCIe 6.6.2 has software wait 100 ms).
    AccessDuringReset {
        /// Byte offset in configuration space.
        register: u16,
    },
    /// NumVFs, or the system page size, was written while virtual functions are enabled. The write was ignored.
    VirtualFunctionsEnabled {
        /// Byte offset in configuration space.
        register: u16,
    },
    /// More virtual functions were enabled than there are. None is there.
    TooManyVirtualFunctions {
        /// NumVFs.
        count: u16,
    },
}

/// A violation, its time, and its function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// Virtual time in nanoseconds.
    pub at_ns: u64,
    /// The function it concerns.
    pub function: FunctionId,
    /// The BDF that it had then.
    pub bdf: Bdf,
    /// The violation.
    pub violation: Violation,
}

/// The direction of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From memory to the device.
    Read,
    /// From the device to memory.
    Write,
}

/// A DMA that did not happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DmaFault {
    /// Virtual time in nanoseconds.
    pub at_ns: u64,
    /// The function that sent it.
    pub function: FunctionId,
    /// The requester id that it had at the root.
    pub requester_id: u16,
    /// The address of the access.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// The direction.
    pub direction: Direction,
    /// The reason.
    pub reason: Blocked,
}

/// Both lists, and the time of the access in progress.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    pub(crate) now_ns: u64,
    pub(crate) violations: Vec<Record>,
    pub(crate) violations_lost: u64,
    pub(crate) dma_faults: Vec<DmaFault>,
    pub(crate) dma_faults_lost: u64,
    /// Number of accesses that nothing answered.
    pub(crate) unanswered: u64,
}

impl Batch {
    pub(crate) fn violation(&mut self, function: FunctionId, bdf: Bdf, violation: Violation) {
        let record = Record { at_ns: self.now_ns, function, bdf, violation };
        push(&mut self.violations, &mut self.violations_lost, record);
    }

    pub(crate) fn dma_fault(&mut self, fault: DmaFault) {
        push(&mut self.dma_faults, &mut self.dma_faults_lost, fault);
    }

    pub(crate) fn unanswered(&mut self) {
        self.unanswered = self.unanswered.saturating_add(1);
    }
}

fn push<T>(list: &mut Vec<T>, lost: &mut u64, item: T) {
    if list.len() < KEPT {
        list.push(item);
    } else {
        *lost = lost.saturating_add(1);
    }
}
