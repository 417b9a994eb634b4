//! The state below the server: functions, memory, capabilities and acts, and the [`Platform`] made of it.

use super::bus::{Device, Effect};
use core::cell::{Cell, Ref, RefCell, RefMut};
use core::future::{Future, poll_fn, ready};
use core::task::Poll;
use pci_spec::Bdf;
use platform::fake::Ram;
use platform::{
    AbsoluteCPtr, Badge, CPtr, Cap, Event, IrqSource, Memory as _, Message, Mmio, OutOfBounds, PAGE_SIZE, Platform,
    Region, Vaddr,
};
use sim_kernel::{Access, Capability, Invoker, Mapping};
use std::boxed::Box;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::vec::Vec;

pub(super) const ECAM: u64 = 0x3000_0000;
pub(super) const ARENA: u64 = 0x4000_0000;
pub(super) const ARENA_LEN: u64 = 0x1_0000;
/// The server's own CNode.
pub(super) const OWN_CNODE: u64 = 2;
const TICKS_PER_SECOND: u64 = 1000;
/// The page that the server keeps.
pub(super) const SIZING: u64 = 0x6000_0000;
/// The drivers' pages of presence, from here on.
pub(super) const PRESENCE: u64 = 0x7800_0000;

/// Functions that are not a [`Device`] each.
pub(super) trait Bus: core::fmt::Debug {
    /// Reads a dword of configuration space.
    fn config_read(&mut self, bdf: Bdf, register: u16, now_ns: u64) -> u32;
    /// Writes a dword of configuration space.
    fn config_write(&mut self, bdf: Bdf, register: u16, value: u32, now_ns: u64) -> Vec<Effect>;
    /// Reads a dword of memory.
    fn memory_read(&mut self, paddr: u64, now_ns: u64) -> u32;
    /// Writes a dword of memory.
    fn memory_write(&mut self, paddr: u64, value: u32, now_ns: u64);
}

/// Something that happened, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Act {
    Config(Bdf, Effect),
    /// A page was unmapped.
    Unmapped,
    /// The server wrote a device register it had mapped.
    TableWrite {
        paddr: u64,
        value: u32,
    },
    IrqBound {
        irq: u8,
        badge: u64,
    },
    IrqCleared {
        irq: u8,
    },
    IrqAcked {
        irq: u8,
    },
    Deleted(Object),
}

/// An object that the server makes or gives. Frames are those of devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Object {
    Frame { paddr: u64, mapped: Option<Mapping> },
    IrqHandler { irq: u8, pin: Option<u8> },
    IoSpace { domain: u16, requester_id: u16 },
    Notification { badge: u64 },
}

impl Object {
    /// As the model has it.
    pub(super) fn of(kernel: &sim_kernel::Kernel, cap: Capability) -> Option<Self> {
        Some(match cap {
            Capability::Frame { paddr, mapping, is_device: true, .. } => {
                Self::Frame { paddr, mapped: Some(mapping).filter(|mapping| *mapping != Mapping::None) }
            }
            Capability::IrqHandler(irq) => {
                let source = kernel.irq_sources().find(|(one, _)| *one == irq);
                let line = source.and_then(|(_, source)| match source {
                    IrqSource::Line { line, .. } => Some(line),
                    IrqSource::Message { .. } => None,
                });
                Self::IrqHandler { irq, pin: line }
            }
            Capability::IoSpace { domain, requester_id } => Self::IoSpace { domain, requester_id },
            Capability::Notification { badge, .. } => Self::Notification { badge },
            _ => return None,
        })
    }
}

#[derive(Debug)]
pub(super) struct State {
    /// The server is this one's thread.
    pub(super) kernel: Invoker,
    pub(super) devices: BTreeMap<Bdf, Device>,
    /// Has all functions and their memory, where there is one.
    pub(super) bus: Option<Box<dyn Bus>>,
    pub(super) memory: BTreeMap<u64, u32>,
    pub(super) acts: Vec<Act>,
    pub(super) events: VecDeque<Event>,
    pub(super) replies: VecDeque<Message>,
    /// Cptrs that hold a caller.
    pub(super) callers: Vec<u64>,
    pub(super) reports: Vec<report::Report>,
    /// The drivers' liveness pages and pages of presence, and the page that the server keeps, by their address.
    pub(super) pages: BTreeMap<u64, Ram>,
    pub(super) fuse: Fuse,
    /// Badges of the notifications that were signalled.
    pub(super) signalled: Vec<u64>,
    /// The time, in milliseconds.
    pub(super) ticks: u64,
}

/// The platform, and its kernel. Clones are the same one.
#[derive(Clone, Debug)]
pub(super) struct Machine(Rc<RefCell<State>>);

impl Machine {
    pub(super) fn new(state: State) -> Self {
        Self(Rc::new(RefCell::new(state)))
    }

    pub(super) fn state(&self) -> Ref<'_, State> {
        self.0.borrow()
    }

    pub(super) fn state_mut(&self) -> RefMut<'_, State> {
        self.0.borrow_mut()
    }

    pub(super) fn push(&self, badge: u64, message: Message) {
        self.state_mut().events.push_back(Event::Message(Badge(badge), message));
    }
}

impl State {
    pub(super) fn new(kernel: Invoker, devices: Vec<(Bdf, Device)>) -> Self {
        Self {
            kernel,
            devices: devices.into_iter().collect(),
            bus: None,
            memory: BTreeMap::new(),
            acts: Vec::new(),
            events: VecDeque::new(),
            replies: VecDeque::new(),
            callers: Vec::new(),
            reports: Vec::new(),
            pages: BTreeMap::new(),
            fuse: Fuse::default(),
            signalled: Vec::new(),
            ticks: 0,
        }
    }

    fn now_ns(&self) -> u64 {
        platform::ticks_to_ns(self.ticks, TICKS_PER_SECOND)
    }

    fn read(&mut self, target: Target) -> u32 {
        let now_ns = self.now_ns();
        match (&mut self.bus, target) {
            (Some(bus), Target::Config(bdf, register)) => bus.config_read(bdf, register, now_ns),
            (Some(bus), Target::Memory(paddr)) => bus.memory_read(paddr, now_ns),
            (None, Target::Config(bdf, register)) => {
                let register = u8::try_from(register).ok();
                register.zip(self.devices.get(&bdf)).map_or(u32::MAX, |(register, device)| device.read(register))
            }
            (None, Target::Memory(paddr)) => self.memory.get(&paddr).copied().unwrap_or(0),
        }
    }

    fn write(&mut self, target: Target, value: u32) {
        self.fuse.burn();
        let now_ns = self.now_ns();
        match target {
            Target::Config(bdf, register) => {
                let effects = match &mut self.bus {
                    Some(bus) => bus.config_write(bdf, register, value, now_ns),
                    None => {
                        let register = u8::try_from(register).ok();
                        let device = register.zip(self.devices.get_mut(&bdf));
                        device.map(|(register, device)| device.write(register, value)).unwrap_or_default()
                    }
                };
                self.acts.extend(effects.into_iter().map(|effect| Act::Config(bdf, effect)));
            }
            Target::Memory(paddr) => {
                match &mut self.bus {
                    Some(bus) => bus.memory_write(paddr, value, now_ns),
                    None => drop(self.memory.insert(paddr, value)),
                }
                self.acts.push(Act::TableWrite { paddr, value });
            }
        }
    }

    /// A cptr of the server's CNode.
    pub(super) const fn absolute(&self, index: u64) -> AbsoluteCPtr {
        AbsoluteCPtr { root: Cap::from_bits(OWN_CNODE), index, depth: 64 }
    }

    /// The capabilities in the server's CNode, by cptr.
    pub(super) fn caps(&self) -> Vec<(u64, Capability)> {
        let held = self.kernel.kernel().borrow().cspace(self.kernel.thread());
        held.into_iter().map(|held| (held.cptr, held.cap)).collect()
    }

    /// The objects that the server made, and those that drivers were given, by cptr.
    pub(super) fn objects(&self) -> Vec<(u64, Object)> {
        let object = |(cptr, cap)| Some((cptr, Object::of(&self.kernel.kernel().borrow(), cap)?));
        self.caps().into_iter().filter_map(object).collect()
    }

    /// Whether the server's cptr is filled.
    pub(super) fn holds(&self, cptr: u64) -> bool {
        let held = self.kernel.kernel().borrow().cap_at(self.kernel.thread(), CPtr::new(cptr));
        held != Some(Capability::Null)
    }

    /// The page at this address.
    pub(super) fn page(&mut self, vaddr: u64) -> Ram {
        self.pages.entry(vaddr).or_insert_with(|| Ram::new(PAGE_SIZE)).clone()
    }

    /// Writes the first word of the page at this address, as the supervisor does.
    pub(super) fn set_word(&mut self, vaddr: u64, word: u32) {
        self.page(vaddr).store_release_u32(0, word).expect("a word");
    }
}

/// The writes after which a server is stopped, when it is. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct Fuse(Rc<Cell<Option<u32>>>);

/// Payload of the unwinding of a stopped server.
struct Stopped;

impl Fuse {
    /// Counts a write of the server, at which it may be stopped.
    pub(super) fn burn(&self) {
        let burnt = |left: u32| left.checked_sub(1).unwrap_or_else(|| resume_unwind(Box::new(Stopped)));
        self.0.set(self.0.get().map(burnt));
    }

    /// Lets a server act, and stops it after `writes` writes, if they come before. Returns `None` then.
    pub(super) fn limit<T>(&self, writes: Option<u32>, act: impl FnOnce() -> T) -> Option<T> {
        self.0.set(writes);
        let done = catch_unwind(AssertUnwindSafe(act));
        self.0.set(None);
        match done {
            Ok(done) => Some(done),
            Err(payload) if payload.is::<Stopped>() => None,
            Err(payload) => resume_unwind(payload),
        }
    }
}

impl Platform for Machine {
    type Kernel = Self;
    type Memory = Ram;
    type Mmio = Registers;

    fn kernel(&self) -> &Self {
        self
    }

    fn memory(&self, region: &Region) -> Result<Ram, OutOfBounds> {
        let page = self.state_mut().page(region.vaddr.bits());
        Ok(match region.vaddr.bits() {
            SIZING => {
                let fuse = self.state().fuse.clone();
                page.watched(move |_, _| fuse.burn())
            }
            PRESENCE.. => page,
            _ => page.read_only(),
        })
    }

    fn mmio(&self, vaddr: Vaddr, len: usize) -> Result<Registers, OutOfBounds> {
        Ok(Registers { machine: self.clone(), vaddr: vaddr.bits(), len })
    }

    fn ticks(&self) -> u64 {
        self.state().ticks
    }

    fn ticks_per_second(&self) -> u64 {
        TICKS_PER_SECOND
    }

    fn next_event(&self) -> impl Future<Output = Event> {
        poll_fn(|_| self.poll_event().map_or(Poll::Pending, Poll::Ready))
    }

    fn poll_event(&self) -> Option<Event> {
        self.state_mut().events.pop_front()
    }

    fn yield_now(&self) -> impl Future<Output = ()> {
        // Others run for a tick.
        self.state_mut().ticks += 1;
        ready(())
    }

    fn report(&self, bytes: &[u8]) {
        let record = report::Report::decode(bytes).expect("a record");
        self.state_mut().reports.push(record);
    }
}

/// Configuration space, or device pages the server has mapped for itself.
#[derive(Clone, Debug)]
pub(super) struct Registers {
    machine: Machine,
    vaddr: u64,
    len: usize,
}

#[derive(Clone, Copy)]
enum Target {
    Config(Bdf, u16),
    Memory(u64),
}

impl Registers {
    fn target(&self, offset: usize) -> Result<Target, OutOfBounds> {
        if !offset.is_multiple_of(4) || offset + 4 > self.len {
            return Err(OutOfBounds);
        }
        if self.vaddr == ECAM {
            let bdf = Bdf::from_raw(u16::try_from(offset >> 12).map_err(|_| OutOfBounds)?);
            return Ok(Target::Config(bdf, u16::try_from(offset & 0xfff).map_err(|_| OutOfBounds)?));
        }
        let vaddr = self.vaddr + offset as u64;
        let invoker = self.machine.state().kernel.clone();
        let at = invoker.kernel().borrow().translate(invoker.thread(), Vaddr::new(vaddr), Access::Write);
        Ok(Target::Memory(at.expect("a mapped page").bits()))
    }
}

impl Mmio for Registers {
    fn len(&self) -> usize {
        self.len
    }

    fn read32(&self, offset: usize) -> Result<u32, OutOfBounds> {
        let target = self.target(offset)?;
        Ok(self.machine.state_mut().read(target))
    }

    fn write32(&self, offset: usize, value: u32) -> Result<(), OutOfBounds> {
        let target = self.target(offset)?;
        self.machine.state_mut().write(target, value);
        Ok(())
    }
}
