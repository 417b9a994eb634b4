//! The machine as the kernel hands it to the root task, in terms of the seam alone, so that tests can supply the same.

use crate::error::BuildError;
use crate::timer::OneShot;
use alloc::vec::Vec;
use core::ops::Range;
use platform::{
    AsidPool, CNode, CPtr, Cap, IoPort, IoSpace, IrqControl, Message, Notification, ObjectType, OutOfBounds, Paddr,
    Platform, Region, Tcb, Untyped, VSpace,
};
use report::FaultKind;

/// Bits of every path in every CSpace of ours: the guard fills what the CNode's slots leave.
pub(crate) const PATH_BITS: u8 = 64;

/// An untyped that the kernel handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UntypedInfo {
    /// The untyped's capability.
    pub cptr: Cap<Untyped>,
    /// First byte.
    pub paddr: Paddr,
    /// log2 of its bytes.
    pub size_bits: u8,
    /// Not ordinary memory: only frames and smaller untypeds can be made of it.
    pub is_device: bool,
}

/// The machine at the root task's start.
#[derive(Clone, Debug)]
pub struct BootInfo {
    /// All unused memory.
    pub untypeds: Vec<UntypedInfo>,
    /// Empty cptrs of `cnode`.
    pub free_cptrs: Range<u64>,
    /// The root task's CNode, the whole of its CSpace.
    pub cnode: Cap<CNode>,
    /// The root task's VSpace.
    pub vspace: Cap<VSpace>,
    /// The root task's thread.
    pub tcb: Cap<Tcb>,
    /// Pool from which VSpaces get their identifiers.
    pub asid_pool: Cap<AsidPool>,
    /// All interrupts.
    pub irq_control: Cap<IrqControl>,
    /// The master of all IOSpaces, where the kernel has them.
    pub io_space_master: Cap<IoSpace>,
    /// All I/O ports, on x86_64.
    pub io_ports: Cap<IoPort>,
    /// Levels of the IOMMU's page tables, 0 without an IOMMU.
    pub iommu_levels: u8,
    /// Addresses for frames of the root task's own, at a 1 GiB boundary of which no paging structure exists yet below
    /// the second level. At least 4 MiB.
    pub mapping_area: Region,
    /// Addresses for device registers, in the same GiB, at a 2 MiB boundary.
    pub device_area: Region,
    /// log2 of an object's bytes, from its type and the size given to retype. The kernel's own numbers.
    pub object_bits: fn(ObjectType, u8) -> u8,
    /// Objects the kernel makes in one retype, at most.
    pub retype_limit: u64,
}

/// A component's fault, independent of the kernel's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The fault's kind.
    pub kind: FaultKind,
    /// The address or cptr it was about, 0 where there is none.
    pub address: u64,
    /// The instruction.
    pub instruction: u64,
}

/// Services of the runtime for the root task alone, in addition to [`platform::Platform`], which every component has.
pub trait Services<P: Platform>: Clone + 'static {
    /// The machine's timer.
    type Timer: OneShot;

    /// The machine's timer. `registers` maps the page of registers at an address, for a timer that has them in memory.
    ///
    /// # Errors
    /// [`BuildError`] when there is none, or none that can be used.
    fn timer(&self, registers: impl FnOnce(Paddr) -> Result<P::Mmio, BuildError>) -> Result<Self::Timer, BuildError>;

    /// Decodes a message to the fault endpoint; `None` when the kernel did not write it.
    fn fault(&self, message: &Message) -> Option<Fault>;

    /// Starts the log: log and reports go to the ring in `region`, a mapped part of the mapping area, and `console` is signalled.
    ///
    /// # Errors
    /// [`OutOfBounds`] when the region is not of the mapping area or has no size for a ring.
    fn start_log(&self, region: &Region, console: Cap<Notification>) -> Result<(), OutOfBounds>;
}

/// 2^`bits`, 0 for more than 64 bits hold.
pub(crate) fn bytes(bits: u8) -> u64 {
    1u64.checked_shl(u32::from(bits)).unwrap_or(0)
}

impl BootInfo {
    /// `cptr` of the root task, in the form for CNode invocations.
    #[must_use]
    pub fn absolute(&self, cptr: CPtr) -> platform::AbsoluteCPtr {
        platform::AbsoluteCPtr { root: self.cnode, index: cptr.bits(), depth: PATH_BITS }
    }

    /// Bytes of ordinary memory.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let ordinary = self.untypeds.iter().filter(|untyped| !untyped.is_device);
        ordinary.fold(0, |sum, untyped| sum.saturating_add(bytes(untyped.size_bits)))
    }
}
