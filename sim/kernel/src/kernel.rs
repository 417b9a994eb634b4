//! The state of the kernel as one value. Its parts have files of their own, and so have the calls that work on it.

use crate::Arch;
use crate::arena::{Arena, AsidPoolId, CNodeId, EndpointId, IoTableId, NotificationId, TableId, ThreadId};
use crate::fault::IoFault;
use crate::handlers::Interrupts;
use crate::known_walks::KnownWalks;
use crate::memory::PhysicalMemory;
use crate::object::{
    AsidPoolObject, CNodeObject, EndpointObject, IoTableObject, NotificationObject, TableObject, asid_pools,
};
use crate::rules::{Interface, Rules};
use crate::scheduler::Scheduler;
use crate::slots::Slots;
use crate::thread::Thread;
use std::collections::BTreeMap;

/// The state of the kernel of one machine, and the machine's RAM.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(crate) arch: Arch,
    pub(crate) rules: Rules,
    pub(crate) memory: PhysicalMemory,
    pub(crate) slots: Slots,
    pub(crate) cnodes: Arena<CNodeId, CNodeObject>,
    pub(crate) threads: Arena<ThreadId, Thread>,
    pub(crate) endpoints: Arena<EndpointId, EndpointObject>,
    pub(crate) notifications: Arena<NotificationId, NotificationObject>,
    pub(crate) tables: Arena<TableId, TableObject>,
    pub(crate) asid_pools: Arena<AsidPoolId, AsidPoolObject>,
    /// The pools, by the upper bits of their identifiers.
    pub(crate) asid_table: Vec<Option<AsidPoolId>>,
    pub(crate) io_tables: Arena<IoTableId, IoTableObject>,
    /// The top IO page table of each requester id that has one, in order.
    pub(crate) io_roots: Vec<(u16, IoTableId)>,
    /// The IOMMU's context cache, in order, on a kernel that never empties it: the top table of each requester id at its first DMA.
    pub(crate) io_contexts: Vec<(u16, IoTableId)>,
    /// Deleted IO page tables, by address. Their memory keeps its content until it is cleared.
    pub(crate) io_deleted: BTreeMap<u64, IoTableId>,
    /// DMA translations found through them.
    pub(crate) io_known: KnownWalks,
    pub(crate) has_iommu: bool,
    /// The ranges of I/O ports that the control capability issued.
    pub(crate) issued_ports: Vec<(u16, u16)>,
    pub(crate) io_faults: Vec<IoFault>,
    pub(crate) io_fault_count: u64,
    pub(crate) interrupts: Interrupts,
    pub(crate) scheduler: Scheduler,
    pub(crate) translation_generation: u64,
    pub(crate) halted: Option<Halt>,
}

/// The reason why the kernel stopped the machine: cases known of 5.0.0 that the project's corrections leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Halt {
    /// A thread copied a capability to a second-level paging structure, on x86_64.
    DerivedPdpt,
}

impl Kernel {
    /// A kernel with nothing in it yet, over this RAM.
    pub(crate) fn bare(arch: Arch, rules: Rules, memory: PhysicalMemory, has_iommu: bool) -> Self {
        let mut slots = Slots::new();
        let interrupts = Interrupts::new(arch, rules.interface, &mut slots);
        Self {
            arch,
            rules,
            memory,
            slots,
            cnodes: Arena::new(),
            threads: Arena::new(),
            endpoints: Arena::new(),
            notifications: Arena::new(),
            tables: Arena::new(),
            asid_pools: Arena::new(),
            asid_table: vec![None; asid_pools(arch)],
            io_tables: Arena::new(),
            io_roots: Vec::new(),
            io_contexts: Vec::new(),
            io_deleted: BTreeMap::new(),
            issued_ports: Vec::new(),
            io_known: KnownWalks::new(),
            has_iommu,
            io_faults: Vec::new(),
            io_fault_count: 0,
            interrupts,
            scheduler: Scheduler::new(),
            translation_generation: 0,
            halted: None,
        }
    }

    /// The architecture.
    #[must_use]
    pub const fn arch(&self) -> Arch {
        self.arch
    }

    /// The kernel's rules.
    #[must_use]
    pub const fn rules(&self) -> Rules {
        self.rules
    }

    pub(crate) fn is_current(&self) -> bool {
        self.rules.interface == Interface::Current
    }

    /// The machine's RAM.
    #[inline]
    #[must_use]
    pub const fn memory(&self) -> &PhysicalMemory {
        &self.memory
    }

    /// The machine's RAM, to write to.
    #[inline]
    pub const fn memory_mut(&mut self) -> &mut PhysicalMemory {
        &mut self.memory
    }

    /// The reason why the machine stopped, if it did; no call has an effect after that.
    #[must_use]
    pub const fn halted(&self) -> Option<Halt> {
        self.halted
    }

    pub(crate) fn halt(&mut self, why: Halt) {
        self.halted = self.halted.or(Some(why));
    }
}
