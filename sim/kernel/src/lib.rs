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
//! Modules with parts of the state: `kernel` puts them together; `arena`, `capability`, `slots`, `object`, `thread`, `queue`,
//! `scheduler`, `handlers`, `controller`, `known_walks`, `memory`; `access`, `delivery`, `fault` and `invocation` have what
//! calls take and return. They know no [`Kernel`].
//!
//! Modules that work on the kernel: `derivation` and `delete` on capabilities; `invoke` enters invocations, and `cnode`,
//! `untyped`, `tcb`, `configure`, `asid`, `vspace`, `frame`, `iospace`, `interrupt` and `ioport` have those of each object;
//! `syscall`, `endpoint`, `notification`, `transfer` and `fault_ipc` communication; `schedule` the ready queues; `introspect`
//! and `invariants` are for checkers; `invoker` and `mapped` put components' code on the model in their own tests.
//!
//! Left out: time (the caller has it), preemption inside of long operations, multiple cores, virtual machines, the content
//! of the kernel's own memory, and the bytes of IPC buffers.

#![forbid(unsafe_code)]

mod access;
mod arena;
mod asid;
mod boot;
mod capability;
mod cnode;
mod configure;
mod controller;
mod delete;
mod delivery;
mod derivation;
mod endpoint;
mod fault;
mod fault_ipc;
mod frame;
mod grants;
mod handlers;
mod interrupt;
mod introspect;
mod invariants;
mod invocation;
mod invoke;
mod invoker;
mod ioport;
mod iospace;
mod kernel;
mod known_walks;
mod label;
mod mapped;
mod memory;
mod notification;
mod object;
mod queue;
mod rules;
mod schedule;
mod scheduler;
mod slots;
mod surroundings;
mod syscall;
mod tcb;
mod thread;
mod transfer;
mod untyped;
mod vspace;

pub use access::Access;
pub use arena::{AsidPoolId, CNodeId, EndpointId, IoTableId, NotificationId, TableId, ThreadId};
pub use boot::{BootUntyped, Iommu, MachineConfig, RootTask};
pub use capability::{Capability, Dying, FrameSize, IoTablePlace, Mapping, TablePlace, VmRights};
pub use capdl_spec::Arch;
pub use controller::{IOAPIC_PINS, Level};
pub use delivery::Delivery;
pub use fault::{Fault, FaultReport, IoFault, LookupFailure, VmFault};
pub use grants::Grants;
pub use introspect::{Held, IoPage, MappedPage};
pub use invoker::Invoker;
pub use kernel::{Halt, Kernel};
pub use mapped::MappedMemory;
pub use memory::{NotRam, Page, PhysicalMemory};
pub use object::{RETYPE_LIMIT, object_bits};
pub use rules::{Correction, Interface, Ports, Rules};
pub use scheduler::TIME_SLICE_TICKS;
pub use surroundings::{CNODE_BITS, Given, Surroundings};
pub use thread::ThreadState;
