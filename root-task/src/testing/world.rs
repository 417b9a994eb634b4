//! The surroundings of the kernel: the HPET, the events while the root task waits, reports.

use super::super::hpet::{self, Hpet};
use super::super::{BuildError, Fault, Services};
use super::HPET;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::{Future, poll_fn};
use core::task::Poll;
use platform::{
    Badge, CPtr, Cap, Event, Message, Mmio, Notification, OutOfBounds, PAGE_SIZE, Paddr, Platform, Region, Vaddr,
};
use report::Report;
use sim_kernel::{Access, Delivery, FaultReport, Invoker, Level, MappedMemory, ThreadId};

type Result<T> = core::result::Result<T, OutOfBounds>;

/// Ticks a second of q35's HPET.
pub(crate) const Q35_HZ: u32 = 100_000_000;
/// The pin of the I/O APIC that the root task chooses of those that q35's HPET has.
pub(crate) const HPET_PIN: u8 = 8;

/// An HPET like q35's.
#[derive(Clone, Debug, Default)]
pub(crate) struct TestHpet {
    counter: Rc<Cell<u32>>,
    comparator: Rc<Cell<u32>>,
    /// The kernel that masks its pin, if it is to be checked that the pin is not masked when the comparator is set.
    pub(crate) kernel: Option<Invoker>,
}

impl TestHpet {
    /// Lets time pass, in ticks of the counter.
    pub(crate) fn pass(&self, ticks: u32) {
        self.counter.set(self.counter.get().wrapping_add(ticks));
    }

    /// The time that the comparator is armed for.
    pub(crate) fn armed(&self) -> u32 {
        self.comparator.get()
    }
}

impl Mmio for TestHpet {
    fn len(&self) -> usize {
        PAGE_SIZE
    }
    fn read32(&self, offset: usize) -> Result<u32> {
        Ok(match offset {
            0x000 => 0x8086_a201,
            0x004 => 10_000_000,
            0x0f0 => self.counter.get(),
            0x100 => 0x30,
            0x104 => 0x00ff_0104,
            _ => 0,
        })
    }
    fn write32(&self, offset: usize, value: u32) -> Result<()> {
        match offset {
            0x0f0 => self.counter.set(value),
            0x108 => {
                let masked = self.kernel.as_ref().is_some_and(|one| one.kernel().borrow().is_line_masked(HPET_PIN));
                assert!(!masked, "an edge at a masked pin would be lost");
                self.comparator.set(value);
            }
            _ => {}
        }
        Ok(())
    }
}

/// An event that the root task waits for.
#[derive(Clone, Debug)]
pub(crate) enum Happens {
    /// Fifty milliseconds pass, and the HPET interrupts.
    Tick {
        /// The badge of signals that come with it.
        also: u64,
    },
    /// A signal to the root task.
    Signal(u64),
    /// A component writes where nothing is mapped.
    Dies(u16),
    /// A component writes a word to its memory, which the root task does not notice.
    Writes {
        /// The component.
        component: u16,
        /// The address.
        vaddr: u64,
        /// The word.
        word: u32,
    },
    /// A component with this badge sends a message of its own to its fault endpoint.
    Says(u64, Message),
}

/// A tick, and nothing else.
pub(crate) const TICK: Happens = Happens::Tick { also: 0 };

/// A component of the system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Component {
    pub(crate) thread: ThreadId,
    /// The cptr of its CSpace in which it polls for signals, if it does.
    pub(crate) polls: Option<CPtr>,
}

/// The root task's surroundings on a machine.
#[derive(Clone)]
pub(crate) struct TestPlatform {
    pub(crate) root: Invoker,
    pub(crate) reports: Rc<RefCell<Vec<Report>>>,
    pub(crate) coming: Rc<RefCell<VecDeque<Happens>>>,
    pub(crate) hpet: TestHpet,
    /// Ticks that have passed, fifty milliseconds each.
    pub(crate) passed: Rc<Cell<u64>>,
    /// The endpoint at which the root task waits.
    pub(crate) endpoint: Rc<Cell<Option<CPtr>>>,
    pub(crate) components: Rc<RefCell<BTreeMap<u16, Component>>>,
    /// The signals they found there so far, with those that came together as one.
    pub(crate) signalled: Rc<RefCell<Vec<(u16, u64)>>>,
}

impl TestPlatform {
    pub(crate) fn new(root: Invoker) -> Self {
        let hpet = TestHpet { kernel: Some(root.clone()), ..TestHpet::default() };
        Self {
            root,
            reports: Rc::default(),
            coming: Rc::default(),
            hpet,
            passed: Rc::default(),
            endpoint: Rc::default(),
            components: Rc::default(),
            signalled: Rc::default(),
        }
    }

    fn happens(&self, next: Happens) -> Option<Event> {
        match next {
            Happens::Tick { also } => {
                self.hpet.pass(Q35_HZ / 20);
                self.passed.set(self.passed.get() + 1);
                let mut kernel = self.root.kernel().borrow_mut();
                kernel.line_interrupt(HPET_PIN, Level::Asserted);
                kernel.line_interrupt(HPET_PIN, Level::Deasserted);
                drop(kernel);
                // Without a timer, or when its last interrupt was not acknowledged, nothing arrives.
                match self.arrived() {
                    Some(Event::Signal(Badge(ticked))) => Some(Event::Signal(Badge(ticked | also))),
                    other => other,
                }
            }
            Happens::Dies(component) => {
                let Component { thread, .. } = *self.components.borrow().get(&component)?;
                let fault = sim_kernel::Fault::Vm { vaddr: 0xdead, access: Access::Write };
                self.root.kernel().borrow_mut().fault(thread, fault);
                self.arrived()
            }
            Happens::Writes { component, vaddr, word } => {
                let Component { thread, .. } = *self.components.borrow().get(&component)?;
                let mut kernel = self.root.kernel().borrow_mut();
                let at = kernel.translate(thread, Vaddr::new(vaddr), Access::Write).expect("memory to write");
                kernel.memory_mut().write(at, &word.to_le_bytes()).expect("memory to write");
                None
            }
            Happens::Signal(badge) => Some(Event::Signal(Badge(badge))),
            Happens::Says(badge, message) => Some(Event::Message(Badge(badge), message)),
        }
    }

    /// The signal or message at the root task's endpoint.
    fn arrived(&self) -> Option<Event> {
        let (mut kernel, thread) = (self.root.kernel().borrow_mut(), self.root.thread());
        kernel.nb_receive(thread, self.endpoint.get()?);
        match kernel.take(thread)? {
            Delivery::Signal(badge) => Some(Event::Signal(badge)),
            Delivery::Message(badge, message) => Some(Event::Message(badge, *message)),
            _ => None,
        }
    }

    /// Has every component that runs and is in no call poll for signals.
    fn poll_signals(&self) {
        for (id, component) in &*self.components.borrow() {
            let mut kernel = self.root.kernel().borrow_mut();
            if let Some(cptr) = component.polls.filter(|_| kernel.is_runnable(component.thread)) {
                kernel.nb_receive(component.thread, cptr);
                if let Some(Delivery::Signal(Badge(badge))) = kernel.take(component.thread) {
                    self.signalled.borrow_mut().push((*id, badge));
                }
            }
        }
    }
}

impl Platform for TestPlatform {
    type Kernel = Invoker;
    type Memory = MappedMemory;
    type Mmio = TestHpet;

    fn kernel(&self) -> &Invoker {
        &self.root
    }
    fn memory(&self, region: &Region) -> Result<MappedMemory> {
        Ok(MappedMemory::new(self.root.clone(), region.clone()))
    }
    fn mmio(&self, vaddr: Vaddr, _len: usize) -> Result<TestHpet> {
        let at = self.root.kernel().borrow().translate(self.root.thread(), vaddr, Access::Write);
        assert_eq!(at, Ok(Paddr::new(HPET)));
        Ok(self.hpet.clone())
    }
    fn ticks(&self) -> u64 {
        3_000 + self.passed.get() * self.ticks_per_second() / 20
    }
    fn ticks_per_second(&self) -> u64 {
        1_000_000
    }
    fn next_event(&self) -> impl Future<Output = Event> {
        poll_fn(|_| {
            self.poll_signals();
            let event = core::iter::from_fn(|| self.coming.borrow_mut().pop_front());
            match { event }.find_map(|next| self.happens(next)) {
                Some(event) => Poll::Ready(event),
                None => Poll::Pending,
            }
        })
    }
    fn poll_event(&self) -> Option<Event> {
        None
    }
    async fn yield_now(&self) {}
    fn report(&self, bytes: &[u8]) {
        self.reports.borrow_mut().push(Report::decode(bytes).unwrap());
    }
}

#[derive(Clone, Default)]
pub(crate) struct TestServices {
    pub(crate) ring: Rc<RefCell<Option<(Region, CPtr)>>>,
    pub(crate) has_no_timer: bool,
}

impl Services<TestPlatform> for TestServices {
    type Timer = Hpet<TestHpet>;

    fn timer(
        &self,
        registers: impl FnOnce(Paddr) -> core::result::Result<TestHpet, BuildError>,
    ) -> core::result::Result<Hpet<TestHpet>, BuildError> {
        if self.has_no_timer {
            return Err(BuildError::specification("timer", "is not there, and components are to be ticked by it"));
        }
        hpet::at(Paddr::new(HPET), registers)
    }

    /// Decodes a fault, which is always a write here.
    fn fault(&self, message: &Message) -> Option<Fault> {
        match FaultReport::decode(message)? {
            FaultReport { fault: sim_kernel::Fault::Vm { vaddr, .. }, instruction } => {
                Some(Fault { kind: report::FaultKind::Write, address: vaddr, instruction })
            }
            _ => None,
        }
    }
    fn start_log(&self, region: &Region, console: Cap<Notification>) -> Result<()> {
        *self.ring.borrow_mut() = Some((region.clone(), console.cptr()));
        Ok(())
    }
}
