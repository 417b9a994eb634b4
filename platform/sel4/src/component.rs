//! The seam's [`Platform`] for a component, over the memory and capabilities that its [`Environment`] grants.

use crate::executor::{Inbox, NextEvent};
use crate::invocation::Sel4;
use crate::marker::marker;
use crate::memory::{Access, Sel4Memory, Sel4Mmio};
use crate::{arch, log, syscall};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::task::Poll;
use platform::{Abuse, CPtr, Event, OutOfBounds, Platform, ProcessorState, Region, RegionKind, Vaddr, ticks_to_ns};

/// No program's image starts lower (see the conventions in `docs`), and nothing else is mapped there.
const LOWEST_IMAGE: u64 = 0x40_0000;
/// Addresses from here on are never a component's.
const KERNEL_HALF: u64 = 0x8000_0000_0000;

/// The seL4 side of the seam. Clones are the same component.
#[derive(Clone, Copy)]
pub struct Sel4Platform {
    world: &'static World,
}

struct World {
    kernel: Sel4,
    regions: Vec<Region>,
    ticks_per_second: u64,
    inbox: Inbox,
}

impl Sel4Platform {
    /// Creates the platform of a component with these regions, which waits at no object yet.
    ///
    /// # Safety
    /// No region holds memory that Rust knows of: the program's image, heap, stack and IPC buffer lie outside of all.
    pub(crate) unsafe fn new(kernel: Sel4, regions: Vec<Region>, ticks_per_second: u64) -> Self {
        let inbox = Inbox::new(kernel.clone());
        let world = World { kernel, regions, ticks_per_second, inbox };
        Self { world: Box::leak(Box::new(world)) }
    }

    pub(crate) fn listen(self, wait: Option<CPtr>) {
        self.world.inbox.listen(wait);
    }

    pub(crate) fn run<F: Future<Output = ()> + 'static>(self, main: F) -> ! {
        crate::executor::run(&self.world.inbox, main)
    }

    /// The granted region that has `len` bytes at `vaddr`.
    fn granted(&self, vaddr: Vaddr, len: u64) -> Option<&Region> {
        self.world.regions.iter().find(|region| region.holds(vaddr, len))
    }
}

impl Platform for Sel4Platform {
    type Kernel = Sel4;
    type Memory = Sel4Memory;
    type Mmio = Sel4Mmio;

    #[inline]
    fn kernel(&self) -> &Sel4 {
        &self.world.kernel
    }

    fn memory(&self, region: &Region) -> Result<Sel4Memory, OutOfBounds> {
        let access = match self.granted(region.vaddr, region.len).map(|granted| granted.kind) {
            Some(RegionKind::ReadWrite) => Access::ReadWrite,
            Some(RegionKind::ReadOnly) => Access::ReadOnly,
            Some(RegionKind::Device | RegionKind::Arena) | None => return Err(OutOfBounds),
        };
        // SAFETY: the range lies inside a region of the environment, and by `new`'s contract those hold nothing of
        // Rust's.
        unsafe { Sel4Memory::new(region.vaddr.bits(), region.len, access) }
    }

    fn mmio(&self, vaddr: Vaddr, len: usize) -> Result<Sel4Mmio, OutOfBounds> {
        match self.granted(vaddr, len as u64).map(|granted| granted.kind) {
            // SAFETY: as in `memory`. In an arena the range may not be mapped yet: a fault, nothing worse.
            Some(RegionKind::Device | RegionKind::Arena) => unsafe { Sel4Mmio::new(vaddr.bits(), len as u64) },
            Some(RegionKind::ReadWrite | RegionKind::ReadOnly) | None => Err(OutOfBounds),
        }
    }

    #[inline]
    fn ticks(&self) -> u64 {
        arch::syscall::ticks()
    }

    #[inline]
    fn ticks_per_second(&self) -> u64 {
        self.world.ticks_per_second
    }

    #[inline(always)]
    fn next_event(&self) -> impl Future<Output = Event> {
        NextEvent(&self.world.inbox)
    }

    #[inline(always)]
    fn sleep_for_event(&self) -> impl Future<Output = Event> {
        poll_fn(|context| self.world.inbox.poll_or_sleep(context))
    }

    #[inline(always)]
    fn poll_event(&self) -> Option<Event> {
        self.world.inbox.poll_kernel()
    }

    /// Other components of the same priority run first, then the other futures of this component.
    fn yield_now(&self) -> impl Future<Output = ()> {
        let mut yielded = false;
        poll_fn(move |context| {
            if yielded {
                return Poll::Ready(());
            }
            yielded = true;
            syscall::yield_now();
            // Another future of this component may wait for an event that arrived meanwhile, and the executor does not sleep.
            self.world.inbox.poll_waiter();
            self.world.inbox.poll_again(context);
            Poll::Pending
        })
    }

    fn report(&self, bytes: &[u8]) {
        log::report(ticks_to_ns(self.ticks(), self.ticks_per_second()), bytes);
    }

    #[inline(always)]
    fn marker(&self, id: u8) {
        // The id is part of the instruction.
        match id {
            platform::marker::BEGIN => marker::<{ platform::marker::BEGIN }>(),
            platform::marker::END => marker::<{ platform::marker::END }>(),
            _ => {}
        }
    }
}

impl Abuse for Sel4Platform {
    /// Accesses the component's read-only regions, its arenas for registers, addresses below every image, and the kernel's half.
    /// The rest is refused, because Rust may use it.
    fn poke(&self, vaddr: Vaddr, write: Option<u8>) -> Result<u8, OutOfBounds> {
        let not_rusts = |region: &Region| matches!(region.kind, RegionKind::ReadOnly | RegionKind::Arena);
        let is_no_rusts = self.granted(vaddr, 1).is_some_and(not_rusts);
        // Not the null pointer either, which Rust does not follow, fault or not.
        if vaddr.bits() == 0 || !is_no_rusts && (LOWEST_IMAGE..KERNEL_HALF).contains(&vaddr.bits()) {
            return Err(OutOfBounds);
        }
        let byte = core::ptr::with_exposed_provenance_mut::<u8>(vaddr.bits() as usize);
        match write {
            // SAFETY: nothing writable lies at such an address but registers, in which nothing of Rust's lies: otherwise a
            // fault, after which nothing of this program runs.
            Some(value) => unsafe { byte.write_volatile(value) },
            // SAFETY: a byte of a region that holds nothing of Rust's, or a fault.
            None => return Ok(unsafe { byte.read_volatile() }),
        }
        Ok(0)
    }

    fn enter_state(&self, index: usize) -> Result<ProcessorState, OutOfBounds> {
        let wait = self.world.inbox.source().ok_or(OutOfBounds)?;
        let (state, received) = arch::abuse::enter_state(index, wait.bits()).ok_or(OutOfBounds)?;
        self.world.inbox.put(received);
        Ok(state)
    }

    fn execute_forbidden(&self, index: usize) -> Result<(), OutOfBounds> {
        arch::abuse::execute_forbidden(index).ok_or(OutOfBounds)
    }
}
