//! A model of the kernel: seL4 5.0.0 on x86_64 or AArch64, as this project configures and corrects it, as one value.
//!
//! [`Rules`] has the differences of released kernels as switches. Rules about capabilities in messages have two versions
//! ([`Grants`]). The stricter are the default: a system that works here works on every version.
//!
//! [`Kernel::boot`] lays out a machine and its root task. Every invocation of the seam ([`platform::Kernel`]) and every
//! system call is a method with the invoking thread first. Devices act through interrupts and DMA translation. Results,
//! errors, the order of the kernel's checks and the scheduling are seL4's. The model has no time and draws no random
//! numbers: the same calls give the same state.
//!
//! Modules: `capability`, `slots`, `derivation` and `delete` are the capability system; `cnode`, `untyped`, `thread`,
//! `configure`, `asid`, `vspace`, `frame`, `iospace`, `interrupt` and `ioport` the objects' invocations, `controller` the
//! interrupt controllers; `syscall`, `endpoint`, `notification`, `transfer`, `grants` and `fault` communication; `schedule`
//! the ready queues; `memory` the RAM; `introspect` and `invariants` are for checkers; `invoker` and `mapped` put
//! components' code on the model in their own tests.
//!
//! Left out: time (the caller has it), preemption inside of long operations, multiple cores, virtual machines, the content
//! of the kernel's own memory, and the bytes of IPC buffers.

#![forbid(unsafe_code)]

mod arena;
mod asid;
mod boot;
mod capability;
mod cnode;
mod configure;
mod controller;
mod delete;
mod derivation;
mod endpoint;
mod fault;
mod frame;
mod grants;
mod interrupt;
mod introspect;
mod invariants;
mod invocation;
mod invoker;
mod ioport;
mod iospace;
mod label;
mod mapped;
mod memory;
mod notification;
mod object;
mod queue;
mod rules;
mod schedule;
mod slots;
mod surroundings;
mod syscall;
mod thread;
mod transfer;
mod untyped;
mod vspace;

pub use arena::{AsidPoolId, CNodeId, EndpointId, IoTableId, NotificationId, TableId, ThreadId};
pub use boot::{BootUntyped, Iommu, MachineConfig, RootTask};
pub use capability::{Capability, Dying, FrameSize, IoTablePlace, Mapping, TablePlace, VmRights};
pub use capdl_spec::Arch;
pub use cnode::LookupFailure;
pub use controller::{IOAPIC_PINS, Level};
pub use fault::{Fault, FaultReport};
pub use grants::Grants;
pub use introspect::{Held, IoPage, MappedPage};
pub use invoker::Invoker;
pub use iospace::IoFault;
pub use mapped::MappedMemory;
pub use memory::{NotRam, Page, PhysicalMemory};
pub use object::{RETYPE_LIMIT, object_bits};
pub use rules::{Correction, Interface, Ports, Rules};
pub use schedule::TIME_SLICE_TICKS;
pub use surroundings::{CNODE_BITS, Given, Surroundings};
pub use syscall::Delivery;
pub use thread::ThreadState;
pub use vspace::{Access, VmFault};

use arena::Arena;
use interrupt::Interrupts;
use iospace::KnownWalks;
use object::{AsidPoolObject, CNodeObject, EndpointObject, IoTableObject, NotificationObject, TableObject};
use schedule::Scheduler;
use slots::Slots;
use std::collections::BTreeMap;
use thread::Thread;

/// The state of the kernel of one machine, and the machine's RAM.
#[derive(Clone, Debug)]
pub struct Kernel {
    arch: Arch,
    rules: Rules,
    memory: PhysicalMemory,
    slots: Slots,
    cnodes: Arena<CNodeId, CNodeObject>,
    threads: Arena<ThreadId, Thread>,
    endpoints: Arena<EndpointId, EndpointObject>,
    notifications: Arena<NotificationId, NotificationObject>,
    tables: Arena<TableId, TableObject>,
    asid_pools: Arena<AsidPoolId, AsidPoolObject>,
    /// The pools, by the upper bits of their identifiers.
    asid_table: Vec<Option<AsidPoolId>>,
    io_tables: Arena<IoTableId, IoTableObject>,
    /// The top IO page table of each requester id that has one, in order.
    io_roots: Vec<(u16, IoTableId)>,
    /// The IOMMU's context cache, in order, on a kernel that never empties it: the top table of each requester id at its first DMA.
    io_contexts: Vec<(u16, IoTableId)>,
    /// Deleted IO page tables, by address. Their memory keeps its content until it is cleared.
    io_deleted: BTreeMap<u64, IoTableId>,
    /// DMA translations found through them.
    io_known: KnownWalks,
    has_iommu: bool,
    /// The ranges of I/O ports that the control capability issued.
    issued_ports: Vec<(u16, u16)>,
    io_faults: Vec<IoFault>,
    io_fault_count: u64,
    interrupts: Interrupts,
    scheduler: Scheduler,
    translation_generation: u64,
    halted: Option<Halt>,
}

/// The reason why the kernel stopped the machine: cases known of 5.0.0 that the project's corrections leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Halt {
    /// A thread copied a capability to a second-level paging structure, on x86_64.
    DerivedPdpt,
}

impl Kernel {
    /// A kernel with nothing in it yet, over this RAM.
    fn bare(arch: Arch, rules: Rules, memory: PhysicalMemory, has_iommu: bool) -> Self {
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
            asid_table: vec![None; asid::pools(arch)],
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

    fn is_current(&self) -> bool {
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

    fn halt(&mut self, why: Halt) {
        self.halted = self.halted.or(Some(why));
    }
}
