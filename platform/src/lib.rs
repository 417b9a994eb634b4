//! The seam: all that a component needs from the platform below it, as types and traits.
//!
//! A component is a `no_std` library with one `async fn run(platform, environment)`. It holds typed capabilities
//! ([`Cap`]), invokes them through [`Kernel`], reads and writes memory others may change under it through [`Memory`]
//! and device registers through [`Mmio`], and waits in one place, [`Platform::next_event`]. On seL4 these are system
//! calls and mappings (`platform/sel4`); in the simulator of the whole system (`sim`) they act on models, and unit
//! tests put smaller models of their own in their place. Left out: any policy, any device, any protocol of ours.
//!
//! Names follow rust-sel4's, so that they are familiar to its users.

#![no_std]
#![forbid(unsafe_code)]
#![warn(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

extern crate alloc;

mod abuse;
mod address;
mod allowance;
mod cap;
mod environment;
mod error;
mod event;
#[cfg(feature = "fake")]
pub mod fake;
mod kernel;
mod liveness;
pub mod log;
mod memory;
mod message;
pub mod names;
mod slots;
mod untyped;
pub mod x86_64;

pub use abuse::{Abuse, FORBIDDEN_INSTRUCTIONS, ProcessorState};
pub use address::{Iova, PAGE_BITS, PAGE_SIZE, Paddr, Vaddr};
pub use allowance::Allowance;
pub use cap::{
    AbsoluteCPtr, AsidControl, AsidPool, CNode, CPtr, Cap, CapType, Endpoint, Frame, IoPageTable, IoPort, IoSpace,
    IrqControl, IrqHandler, Notification, ObjectType, Rights, TableLevel, Tcb, TranslationTable, Untyped, VSpace,
};
pub use environment::{Environment, Name, NamedCaps, Region, RegionKind, ticks_to_ns};
pub use error::{Error, Result};
pub use event::{Badge, Event};
pub use kernel::{CacheAttributes, CapData, IrqSource, Kernel, Resume, Trigger, UserContext};
pub use liveness::Incarnation;
pub use memory::{Memory, Mmio, OutOfBounds};
pub use message::{MESSAGE_WORDS, Message, REGISTER_WORDS};
pub use slots::{CheckedSlots, SlotReader, SlotWriter};
pub use untyped::{DeviceUntyped, DeviceUntypeds};

use core::future::Future;

/// Bytes of the heap of a program that asks for no other size.
pub const HEAP_BYTES: usize = 1 << 20;

/// A component's access to all below it: implemented by the seL4 runtime, and by models in tests.
///
/// Handles are cheap to clone and belong to one component.
pub trait Platform: Clone + 'static {
    /// Invocations and IPC.
    type Kernel: Kernel;
    /// Memory mapped into the component, shared or private.
    type Memory: Memory;
    /// Device registers mapped into the component.
    type Mmio: Mmio;

    /// The kernel's invocations.
    fn kernel(&self) -> &Self::Kernel;

    /// Access to `region`, which must lie inside one of the environment's memory regions.
    ///
    /// # Errors
    /// [`OutOfBounds`] when the environment grants no such memory.
    fn memory(&self, region: &Region) -> core::result::Result<Self::Memory, OutOfBounds>;

    /// Access to device registers at `vaddr`, which must lie inside a device region or arena of the environment and
    /// have been mapped before.
    ///
    /// # Errors
    /// [`OutOfBounds`] when the environment reserves no such range for devices.
    fn mmio(&self, vaddr: Vaddr, len: usize) -> core::result::Result<Self::Mmio, OutOfBounds>;

    /// The time stamp counter: monotonic, one core.
    fn ticks(&self) -> u64;

    /// Ticks per second.
    fn ticks_per_second(&self) -> u64;

    /// Waits for the component's next signal or message. When nothing is ready the component's thread sleeps in
    /// the kernel.
    ///
    /// At most one message is open at a time: answer it with [`Kernel::reply`] or keep its caller with
    /// [`Kernel::cnode_save_caller`] before the next call.
    fn next_event(&self) -> impl Future<Output = Event>;

    /// [`Platform::next_event`] for a future whose task has no other future, or only futures that wake the task when they are to
    /// be polled. If possible, it sleeps in the kernel at once, without a round of the executor.
    #[inline(always)]
    fn sleep_for_event(&self) -> impl Future<Output = Event> {
        self.next_event()
    }

    /// The next signal or message if one is there already.
    fn poll_event(&self) -> Option<Event>;

    /// Lets other threads of the same priority run.
    fn yield_now(&self) -> impl Future<Output = ()>;

    /// Pauses between two polls that found nothing, while the device works on. Some hundred cycles.
    #[inline(always)]
    fn pause(&self) {
        for _ in 0..PAUSES {
            core::hint::spin_loop();
        }
    }

    /// Passes a record for the build machine, already encoded (`report::Report::encode`), to the console, with the time.
    /// Never blocks: when the log ring is full, the oldest records are overwritten, and the console counts their bytes.
    fn report(&self, bytes: &[u8]);

    /// A marker for counting instructions from outside (`cargo xtask bench`): a no-op to the program. For `id` see [`marker`].
    fn marker(&self, id: u8) {
        let _ = id;
    }
}

/// Pauses of the processor in one [`Platform::pause`].
const PAUSES: u8 = 16;

/// Lengths of the supervisor's alarms ([`Badge::alarm`]), microseconds.
pub mod alarm {
    /// An NVMe server's, each four times as long as the one before. All are shorter than a tick.
    pub const SERVER_US: [u32; 4] = [250, 1_000, 4_000, 16_000];
    /// A client's, each twice as long as the one before.
    pub const CLIENT_US: [u32; 4] = [20, 40, 80, 160];
    /// A control component's only one.
    pub const CONTROL_US: [u32; 1] = [250];
}

/// Ids of [`Platform::marker`].
pub mod marker {
    /// A measured part begins.
    pub const BEGIN: u8 = 1;
    /// The end of the marked section.
    pub const END: u8 = 2;
}
