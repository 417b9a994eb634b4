//! A component's side of the seam: [`Platform`] over the component's environment and the models.

use crate::coroutine;
use crate::inbox::Inbox;
use crate::invocations::SimKernel;
use crate::log::Logger;
use crate::memory::{SimMemory, SimMmio};
use crate::world::World;
use capdl::Arch;
use platform::{
    Abuse, CPtr, Cap, Event, Kernel, Notification, OutOfBounds, PAGE_SIZE, Platform, Region, RegionKind, Vaddr,
    ticks_to_ns,
};
use report::ring::Producer;
use sim_kernel::{Fault, ThreadId};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;

/// Ticks of the time stamp counter a second: a tick is a nanosecond of virtual time.
const TICKS_PER_SECOND: u64 = 1_000_000_000;
/// The exception of an instruction that user level must not execute (Intel SDM volume 3, section 6.15).
const GENERAL_PROTECTION: u32 = 13;

/// The simulator's side of the seam. Clones stand for the same component.
#[derive(Clone)]
pub struct SimPlatform {
    component: Rc<Component>,
}

struct Component {
    world: Rc<World>,
    thread: ThreadId,
    name: String,
    kernel: SimKernel,
    inbox: Inbox,
    regions: Vec<Region>,
    ring: RefCell<Option<Ring>>,
    /// Turns of its executor so far.
    awaits: Cell<u64>,
    /// The turn at which it dies.
    crash_at: Option<u64>,
}

/// The producing side of the component's log ring.
struct Ring {
    producer: Producer<SimMemory>,
    console: Option<Cap<Notification>>,
}

/// The component that a platform belongs to.
pub(crate) struct Identity {
    /// The component's thread.
    pub(crate) thread: ThreadId,
    /// The component's name.
    pub(crate) name: String,
    /// The component's memory.
    pub(crate) regions: Vec<Region>,
    /// The notification or endpoint that it waits on.
    pub(crate) wait: Option<CPtr>,
    /// The turn of its executor, in this incarnation, at which it dies.
    pub(crate) crash_at: Option<u64>,
}

impl SimPlatform {
    pub(crate) fn new(world: &Rc<World>, identity: Identity) -> Self {
        let Identity { thread, name, regions, wait, crash_at } = identity;
        let kernel = SimKernel::new(Rc::clone(world), thread);
        let inbox = Inbox::new(kernel.clone(), wait);
        let (ring, awaits) = (RefCell::default(), Cell::new(0));
        let world = Rc::clone(world);
        let component = Component { world, thread, name, kernel, inbox, regions, ring, awaits, crash_at };
        Self { component: Rc::new(component) }
    }

    pub(crate) fn inbox(&self) -> &Inbox {
        &self.component.inbox
    }

    pub(crate) fn listen(&self, wait: CPtr) {
        self.component.inbox.listen(wait);
    }

    /// The machine's architecture.
    pub(crate) fn arch(&self) -> Arch {
        self.component.world.view().machine.arch
    }

    /// The world, and the component's thread in it.
    pub(crate) fn place(&self) -> (Rc<World>, ThreadId) {
        (Rc::clone(&self.component.world), self.component.thread)
    }

    /// Writes the root task's panic message to the serial line, as its program does when there is no system.
    pub(crate) fn write_panic(&self, bytes: &[u8]) {
        self.component.world.outside().machine.board.send(bytes);
    }

    pub(crate) fn logger(&self) -> Rc<Logger> {
        Rc::new(Logger { world: Rc::downgrade(&self.component.world), name: self.component.name.clone() })
    }

    /// Sends further reports to the ring in `region`, and signals `console` for each.
    pub(crate) fn start_log(&self, region: &Region, console: Option<Cap<Notification>>) -> Result<(), OutOfBounds> {
        let producer = Producer::new(self.memory(region)?)?;
        *self.component.ring.borrow_mut() = Some(Ring { producer, console });
        Ok(())
    }

    /// Counts one more turn of the component's executor, which takes time. The component dies in the turn of its crash.
    pub(crate) fn turn(&self) {
        let Component { world, kernel, awaits, crash_at, .. } = &*self.component;
        awaits.set(awaits.get() + 1);
        if *crash_at == Some(awaits.get()) {
            kernel.die(Fault::Exception(6));
        }
        drop(world.enter(world.costs().turn_ns));
    }

    /// The component's work is finished. If its crash was due at a later turn, the component dies now.
    pub(crate) fn ended(&self) {
        let Component { kernel, awaits, crash_at, .. } = &*self.component;
        if crash_at.is_some_and(|at| at > awaits.get()) && !coroutine::is_dying() {
            kernel.die(Fault::Exception(6));
        }
    }

    /// Returns the granted region that has `len` bytes at `vaddr`.
    fn granted(&self, vaddr: Vaddr, len: u64) -> Option<&Region> {
        self.component.regions.iter().find(|region| region.holds(vaddr, len))
    }
}

impl Platform for SimPlatform {
    type Kernel = SimKernel;
    type Memory = SimMemory;
    type Mmio = SimMmio;

    fn kernel(&self) -> &SimKernel {
        &self.component.kernel
    }

    fn memory(&self, region: &Region) -> Result<SimMemory, OutOfBounds> {
        let granted = self.granted(region.vaddr, region.len).ok_or(OutOfBounds)?;
        if !matches!(granted.kind, RegionKind::ReadWrite | RegionKind::ReadOnly)
            || !region.vaddr.bits().is_multiple_of(8)
        {
            return Err(OutOfBounds);
        }
        let Component { world, thread, name, .. } = &*self.component;
        let region = Region { kind: granted.kind, ..region.clone() };
        let place = world.view().observer.place(name, *thread, granted, &region);
        Ok(SimMemory::new(world, *thread, &region, place))
    }

    fn mmio(&self, vaddr: Vaddr, len: usize) -> Result<SimMmio, OutOfBounds> {
        match self.granted(vaddr, len as u64).map(|granted| granted.kind) {
            Some(RegionKind::Device | RegionKind::Arena) => {
                Ok(SimMmio::new(&self.component.world, self.component.thread, vaddr, len))
            }
            Some(RegionKind::ReadWrite | RegionKind::ReadOnly) | None => Err(OutOfBounds),
        }
    }

    fn ticks(&self) -> u64 {
        self.component.world.view().now_ns
    }

    fn ticks_per_second(&self) -> u64 {
        TICKS_PER_SECOND
    }

    fn next_event(&self) -> impl Future<Output = Event> {
        poll_fn(|context| self.component.inbox.poll_next(context))
    }

    fn poll_event(&self) -> Option<Event> {
        self.component.inbox.poll_kernel()
    }

    fn yield_now(&self) -> impl Future<Output = ()> {
        let mut yielded = false;
        poll_fn(move |context| {
            if yielded {
                return Poll::Ready(());
            }
            yielded = true;
            self.component.kernel.yield_now();
            // Another future of this component may wait for what arrived meanwhile, and the executor does not sleep.
            self.component.inbox.poll_waiter();
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }

    fn pause(&self) {
        let Component { world, thread, .. } = &*self.component;
        world.leave(world.enter(world.costs().pause_ns), *thread);
    }

    fn report(&self, bytes: &[u8]) {
        let at_ns = ticks_to_ns(self.ticks(), self.ticks_per_second());
        let mut ring = self.component.ring.borrow_mut();
        let Some(Ring { producer, console }) = &mut *ring else { return };
        // A report that is too long is an error of its author; nobody could be notified here.
        if producer.push_report(at_ns, bytes).is_ok()
            && let Some(console) = console
        {
            self.component.kernel.signal(*console);
        }
    }

    fn marker(&self, id: u8) {
        self.component.world.outside().mark(id);
    }
}

impl Abuse for SimPlatform {
    /// Dies with a general protection fault: user level must not execute the instruction.
    fn execute_forbidden(&self, _index: usize) -> Result<(), OutOfBounds> {
        self.component.kernel.die(Fault::Exception(GENERAL_PROTECTION));
        Ok(())
    }

    fn poke(&self, vaddr: Vaddr, write: Option<u8>) -> Result<u8, OutOfBounds> {
        let page = Vaddr::new(vaddr.bits() / PAGE_SIZE as u64 * PAGE_SIZE as u64);
        let kind = if write.is_some() { RegionKind::ReadWrite } else { RegionKind::ReadOnly };
        let name = platform::Name::new();
        let region = Region { name, vaddr: page, len: PAGE_SIZE as u64, kind };
        let memory = SimMemory::new(&self.component.world, self.component.thread, &region, None);
        match write {
            Some(value) => platform::Memory::write_bytes(&memory, vaddr.page_offset(), &[value]).map(|()| 0),
            None => {
                let mut byte = [0];
                platform::Memory::read_bytes(&memory, vaddr.page_offset(), &mut byte)?;
                Ok(byte[0])
            }
        }
    }
}
