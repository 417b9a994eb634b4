//! All that is below the server, and the [`Platform`] made of it. Time passes when the server yields or a test lets it.

use super::bus::Bus;
use super::controller::Controller;
use super::memory::Ram;
use platform::fake::Start;
use platform::{Badge, Event, Message, Mmio, OutOfBounds, Platform, Region, Vaddr};
use report::Report;
use sim_nvme::AccessSize;
use std::cell::{RefCell, RefMut};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;

/// Slots of the server's CSpace.
pub(crate) const CNODE: u64 = 2;
pub(crate) const RECEIVE: u64 = 5;
pub(crate) const PCI: u64 = 8;
pub(crate) const EVENT: u64 = 9;
pub(crate) const TORN_DOWN: u64 = 11;
pub(crate) const POLICY: u64 = 12;
/// The signal to the component that administers the controller, and the frames of its window.
pub(crate) const ADMINISTRATOR: u64 = 13;
pub(crate) const ADMINISTRATION: u64 = 9000;
/// The first of its alarms.
pub(crate) const ALARM: u64 = 20;
pub(crate) const CLIENTS: u64 = 100;
pub(crate) const DMA: u64 = 1000;
pub(crate) const TABLES: u64 = 5000;
pub(crate) const WINDOWS: u64 = 10_000;
pub(crate) const WINDOW_STEP: u64 = 1000;
pub(crate) const FREE: u64 = 1_000_000;

/// Bytes of BAR 0, and the address at which it is mapped.
const BAR_BYTES: usize = 8192;
pub(crate) const ARENA: u64 = 0x5000_0000;

pub(crate) const TICKS_PER_SECOND: u64 = 1000;

/// Object in a slot that was empty at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Object {
    /// The server's notification with this badge.
    Notification(u64),
    IoSpace,
    /// The interrupt handler of this vector.
    Handler(u16),
    /// The signal to the PCI server that a shared pin may interrupt again.
    Resume,
    /// Sent along with a client's message.
    Sent,
    /// The right to answer this call.
    Caller(u64),
}

pub(crate) struct State {
    pub controller: Controller,
    pub bus: Bus,
    pub msix_vectors: u16,
    /// MSI vectors of the function, 0 for none.
    pub msi_vectors: u8,
    /// Time at which the virtual functions are there, once they were asked for.
    pub functions_at: Option<u64>,
    /// Withdrawals and restorations of virtual functions that the PCI server refuses from now on.
    pub refused_withdrawals: u32,
    /// The claim was released: registers are not mapped any more.
    pub is_released: bool,
    /// Interrupts of this kind the PCI server refuses.
    pub refused_interrupts: Option<u16>,
    pub start: Start,
    pub slots: BTreeMap<u64, Object>,
    /// Slot of a frame -> memory and offset in it.
    pub frames: BTreeMap<u64, (Ram, usize)>,
    pub tables_left: BTreeSet<u64>,
    /// IO page tables that the kernel refuses to map from now on.
    pub refused_tables: u32,
    /// Messages that wait for the server: badge, message, number of the call unless it was only sent.
    pub messages: VecDeque<(u64, Message, Option<u64>)>,
    /// Event that the kernel delivered to the sleeping server.
    pub delivered: Option<Event>,
    /// The call that is being handled.
    pub open_call: Option<u64>,
    pub answers: BTreeMap<u64, Message>,
    /// Times the supervisor was asked for its alarm.
    pub alarms: u64,
    /// Signals to clients, by slot.
    pub client_signals: BTreeMap<u64, u64>,
    pub reports: Vec<Report>,
    pub now: u64,
    /// Whether the server yielded and is to be polled again.
    pub yielded: bool,
}

impl State {
    /// Returns the next event as the kernel delivers it: signals first, all at once.
    pub(crate) fn receive(&mut self) -> Option<Event> {
        match std::mem::take(&mut self.bus.signals) {
            0 => {}
            signals => return Some(Event::Signal(Badge(signals))),
        }
        let (badge, mut message, call) = self.messages.pop_front()?;
        // A capability arrives if there is a place for it, and is lost otherwise.
        if message.cap.take().is_some() {
            let place = self.slots.entry(RECEIVE);
            message.cap_received = matches!(place, Entry::Vacant(_));
            place.or_insert(Object::Sent);
        }
        assert_eq!(self.open_call, None, "a caller was neither answered nor kept");
        self.open_call = call;
        Some(Event::Message(Badge(badge), message))
    }
}

/// The platform, its kernel, and BAR 0. Clones are the same one.
#[derive(Clone)]
pub(crate) struct World(Rc<RefCell<State>>);

impl World {
    pub(crate) fn new(state: State) -> Self {
        Self(Rc::new(RefCell::new(state)))
    }

    pub(crate) fn state(&self) -> RefMut<'_, State> {
        self.0.borrow_mut()
    }
}

impl Platform for World {
    type Kernel = Self;
    type Memory = Ram;
    type Mmio = Self;

    fn kernel(&self) -> &Self {
        self
    }

    fn memory(&self, region: &Region) -> Result<Ram, OutOfBounds> {
        self.state().start.at(region)
    }

    fn mmio(&self, vaddr: Vaddr, len: usize) -> Result<Self, OutOfBounds> {
        assert_eq!((vaddr.bits(), len), (ARENA, BAR_BYTES));
        Ok(self.clone())
    }

    fn ticks(&self) -> u64 {
        self.state().now
    }

    fn ticks_per_second(&self) -> u64 {
        TICKS_PER_SECOND
    }

    fn next_event(&self) -> impl Future<Output = Event> {
        poll_fn(|_| self.state().delivered.take().map_or(Poll::Pending, Poll::Ready))
    }

    fn poll_event(&self) -> Option<Event> {
        self.state().receive()
    }

    fn yield_now(&self) -> impl Future<Output = ()> {
        let mut yielded = false;
        poll_fn(move |context| {
            if yielded {
                return Poll::Ready(());
            }
            yielded = true;
            context.waker().wake_by_ref();
            let mut state = self.state();
            state.yielded = true;
            state.now += 1;
            Poll::Pending
        })
    }

    fn report(&self, bytes: &[u8]) {
        let report = Report::decode(bytes).expect("a record");
        self.state().reports.push(report);
    }
}

impl World {
    /// Accesses BAR 0.
    fn access<T>(
        &self,
        offset: usize,
        size: AccessSize,
        act: impl FnOnce(&mut Controller, &mut Bus) -> T,
    ) -> Result<T, OutOfBounds> {
        let bytes = size.bytes() as usize;
        if !offset.is_multiple_of(bytes) || offset + bytes > BAR_BYTES {
            return Err(OutOfBounds);
        }
        let State { controller, bus, is_released, .. } = &mut *self.state();
        assert!(!*is_released, "a fault: registers were accessed after the release");
        Ok(act(controller, bus))
    }

    fn read(&self, offset: usize, size: AccessSize) -> Result<u64, OutOfBounds> {
        self.access(offset, size, |controller, _| controller.read(offset, size))
    }

    fn write(&self, offset: usize, size: AccessSize, value: u64) -> Result<(), OutOfBounds> {
        self.access(offset, size, |controller, bus| controller.write(bus, offset, size, value))
    }
}

impl Mmio for World {
    fn len(&self) -> usize {
        BAR_BYTES
    }

    fn read32(&self, offset: usize) -> Result<u32, OutOfBounds> {
        Ok(self.read(offset, AccessSize::Four)? as u32)
    }

    fn write32(&self, offset: usize, value: u32) -> Result<(), OutOfBounds> {
        self.write(offset, AccessSize::Four, value.into())
    }

    fn read64(&self, offset: usize) -> Result<u64, OutOfBounds> {
        self.read(offset, AccessSize::Eight)
    }

    fn write64(&self, offset: usize, value: u64) -> Result<(), OutOfBounds> {
        self.write(offset, AccessSize::Eight, value)
    }
}
