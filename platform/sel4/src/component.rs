//! A component's world: the seam's [`Platform`], over what its [`Environment`] grants.

use crate::executor::Inbox;
use crate::invocation::Sel4;
use crate::memory::{Access, Sel4Memory, Sel4Mmio};
use crate::{log, syscall};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::task::Poll;
use platform::{CPtr, Event, OutOfBounds, Platform, Region, RegionKind, Vaddr};

/// The seL4 side of the seam. Clones are the same component.
#[derive(Clone, Copy, Debug)]
pub struct Sel4Platform {
    world: &'static World,
}

#[derive(Debug)]
struct World {
    kernel: Sel4,
    regions: Vec<Region>,
    ticks_per_second: u64,
    inbox: Inbox,
}

impl Sel4Platform {
    /// The platform of a component with these regions, which listens to nothing yet.
    ///
    /// # Safety
    /// No region holds memory that Rust knows of: the program's image, heap, stack and IPC buffer lie outside of all.
    pub(crate) unsafe fn new(kernel: Sel4, regions: Vec<Region>, ticks_per_second: u64) -> Self {
        let world = World { kernel, regions, ticks_per_second, inbox: Inbox::default() };
        Self { world: Box::leak(Box::new(world)) }
    }

    pub(crate) fn listen(self, wait: Option<CPtr>) {
        self.world.inbox.listen(wait);
    }

    pub(crate) fn run<F: Future<Output = ()> + 'static>(self, main: F) -> ! {
        crate::executor::run(&self.world.kernel, &self.world.inbox, main)
    }

    /// The granted region that has `len` bytes at `vaddr`.
    fn granted(&self, vaddr: Vaddr, len: u64) -> Option<&Region> {
        self.world.regions.iter().find(|region| {
            let offset = vaddr.bits().checked_sub(region.vaddr.bits());
            let end = offset.and_then(|offset| offset.checked_add(len));
            end.is_some_and(|end| end <= region.len)
        })
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
        syscall::ticks()
    }

    #[inline]
    fn ticks_per_second(&self) -> u64 {
        self.world.ticks_per_second
    }

    #[inline]
    fn next_event(&self) -> impl Future<Output = Event> {
        let inbox = &self.world.inbox;
        poll_fn(|context| inbox.poll_next(context))
    }

    #[inline]
    fn poll_event(&self) -> Option<Event> {
        self.world.inbox.poll_kernel(&self.world.kernel)
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
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }

    fn report(&self, bytes: &[u8]) {
        log::report(bytes);
    }
}
