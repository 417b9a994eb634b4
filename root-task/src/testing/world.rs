//! The rest of the world around the kernel that keeps books: memory, the HPET, events, reports.

use super::super::hpet::{self, Hpet};
use super::super::{BuildError, Fault, Services};
use super::{FakeKernel, HPET, OWN_VSPACE};
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::{Future, poll_fn};
use core::task::Poll;
use platform::{
    Badge, Cap, Event, Memory, Message, Mmio, Notification, OutOfBounds, PAGE_SIZE, Paddr, Platform, Region, Vaddr,
};
use report::Report;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Bytes of the payload, or what the root task has mapped at an address.
#[derive(Clone)]
pub(crate) enum FakeMemory {
    Payload(Rc<Vec<u8>>),
    Mapped(FakeKernel, Region),
}

impl Memory for FakeMemory {
    platform::checked_slots!();

    fn len(&self) -> usize {
        match self {
            Self::Payload(bytes) => bytes.len(),
            Self::Mapped(_, region) => region.len as usize,
        }
    }
    fn load_acquire_u32(&self, offset: usize) -> core::result::Result<u32, OutOfBounds> {
        let Self::Mapped(kernel, region) = self else { return Err(OutOfBounds) };
        let own = kernel.object(OWN_VSPACE);
        let state = kernel.0.borrow();
        let (object, _) = *state.frames.get(&(own, region.vaddr.bits())).expect("nothing is mapped here");
        let word = state.contents.get(&object).and_then(|bytes| bytes.get(offset..)?.first_chunk().copied());
        Ok(u32::from_le_bytes(word.unwrap_or_default()))
    }
    fn store_release_u32(&self, offset: usize, value: u32) -> core::result::Result<(), OutOfBounds> {
        self.write_bytes(offset, &value.to_le_bytes())
    }
    fn fence(&self) {}
    fn read<T: FromBytes>(&self, offset: usize) -> core::result::Result<T, OutOfBounds> {
        let Self::Mapped(kernel, region) = self else { return Err(OutOfBounds) };
        let own = kernel.object(OWN_VSPACE);
        let state = kernel.0.borrow();
        let (object, _) = *state.frames.get(&(own, region.vaddr.bits())).expect("nothing is mapped here");
        let bytes = state.contents.get(&object).and_then(|bytes| bytes.get(offset..)).ok_or(OutOfBounds)?;
        T::read_from_prefix(bytes).map(|(value, _)| value).map_err(|_| OutOfBounds)
    }
    fn write<T: IntoBytes + Immutable>(&self, _offset: usize, _value: &T) -> core::result::Result<(), OutOfBounds> {
        Err(OutOfBounds)
    }
    fn read_bytes(&self, offset: usize, bytes: &mut [u8]) -> core::result::Result<(), OutOfBounds> {
        let Self::Payload(payload) = self else { return Err(OutOfBounds) };
        let part = payload.get(offset..).and_then(|rest| rest.get(..bytes.len()));
        bytes.copy_from_slice(part.ok_or(OutOfBounds)?);
        Ok(())
    }
    fn write_bytes(&self, offset: usize, bytes: &[u8]) -> core::result::Result<(), OutOfBounds> {
        let Self::Mapped(kernel, region) = self else { return Err(OutOfBounds) };
        let own = kernel.object(OWN_VSPACE);
        let mut state = kernel.0.borrow_mut();
        let (object, writable) = *state.frames.get(&(own, region.vaddr.bits())).expect("nothing is mapped here");
        assert!(writable);
        let frame = state.contents.entry(object).or_insert_with(|| vec![0; PAGE_SIZE]);
        frame.get_mut(offset..offset + bytes.len()).ok_or(OutOfBounds)?.copy_from_slice(bytes);
        Ok(())
    }
}

/// Ticks a second of q35's HPET.
pub(crate) const Q35_HZ: u32 = 100_000_000;

/// An HPET like q35's.
#[derive(Clone, Debug, Default)]
pub(crate) struct FakeMmio {
    counter: Rc<Cell<u32>>,
    comparator: Rc<Cell<u32>>,
    /// The pin it interrupts at is masked until it is acknowledged.
    pub(crate) masked: Rc<Cell<bool>>,
}

impl FakeMmio {
    /// Time passes, in ticks of the counter.
    pub(crate) fn pass(&self, ticks: u32) {
        self.counter.set(self.counter.get().wrapping_add(ticks));
    }

    /// What the comparator is armed for.
    pub(crate) fn armed(&self) -> u32 {
        self.comparator.get()
    }
}

impl Mmio for FakeMmio {
    fn len(&self) -> usize {
        PAGE_SIZE
    }
    fn read32(&self, offset: usize) -> core::result::Result<u32, OutOfBounds> {
        Ok(match offset {
            0x000 => 0x8086_a201,
            0x004 => 10_000_000,
            0x0f0 => self.counter.get(),
            0x100 => 0x30,
            0x104 => 0x00ff_0104,
            _ => 0,
        })
    }
    fn write32(&self, offset: usize, value: u32) -> core::result::Result<(), OutOfBounds> {
        match offset {
            0x0f0 => self.counter.set(value),
            0x108 => {
                assert!(!self.masked.get(), "an edge at a masked pin would be lost");
                self.comparator.set(value);
            }
            _ => {}
        }
        Ok(())
    }
    fn read64(&self, _offset: usize) -> core::result::Result<u64, OutOfBounds> {
        Err(OutOfBounds)
    }
    fn write64(&self, _offset: usize, _value: u64) -> core::result::Result<(), OutOfBounds> {
        Err(OutOfBounds)
    }
}

#[derive(Clone, Default)]
pub(crate) struct FakePlatform {
    pub(crate) kernel: FakeKernel,
    pub(crate) reports: Rc<RefCell<Vec<Report>>>,
    pub(crate) events: Rc<RefCell<VecDeque<Event>>>,
    pub(crate) hpet: FakeMmio,
    /// Ticks that have passed, fifty milliseconds each.
    pub(crate) passed: Rc<Cell<u64>>,
}

impl Platform for FakePlatform {
    type Kernel = FakeKernel;
    type Memory = FakeMemory;
    type Mmio = FakeMmio;

    fn kernel(&self) -> &FakeKernel {
        &self.kernel
    }
    fn memory(&self, region: &Region) -> core::result::Result<FakeMemory, OutOfBounds> {
        Ok(FakeMemory::Mapped(self.kernel.clone(), region.clone()))
    }
    fn mmio(&self, vaddr: Vaddr, _len: usize) -> core::result::Result<FakeMmio, OutOfBounds> {
        let own = self.kernel.object(OWN_VSPACE);
        assert!(self.kernel.0.borrow().frames.contains_key(&(own, vaddr.bits())));
        self.kernel.0.borrow_mut().pin_masked = Rc::clone(&self.hpet.masked);
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
            let Some(event) = self.events.borrow_mut().pop_front() else { return Poll::Pending };
            if let Event::Signal(badge) = event
                && badge.has(Badge::TICK)
            {
                self.hpet.pass(Q35_HZ / 20);
                self.hpet.masked.set(true);
                self.passed.set(self.passed.get() + 1);
            }
            Poll::Ready(event)
        })
    }
    fn poll_event(&self) -> Option<Event> {
        self.events.borrow_mut().pop_front()
    }
    async fn yield_now(&self) {}
    fn report(&self, bytes: &[u8]) {
        self.reports.borrow_mut().push(Report::decode(bytes).unwrap());
    }
}

/// Takes messages with label 1 for the kernel's, two words each.
#[derive(Clone, Default)]
pub(crate) struct FakeServices {
    pub(crate) ring: Rc<RefCell<Option<(Region, u64)>>>,
    pub(crate) has_no_timer: bool,
}

impl Services<FakePlatform> for FakeServices {
    type Timer = Hpet<FakeMmio>;

    fn timer(
        &self,
        registers: impl FnOnce(Paddr) -> core::result::Result<FakeMmio, BuildError>,
    ) -> core::result::Result<Hpet<FakeMmio>, BuildError> {
        if self.has_no_timer {
            return Err(BuildError::specification("timer", "is not there, and components are to be ticked by it"));
        }
        hpet::at(Paddr::new(HPET), registers)
    }

    fn fault(&self, message: &Message) -> Option<Fault> {
        match (message.label, message.words()) {
            (1, &[address, instruction]) => Some(Fault { kind: report::FaultKind::Write, address, instruction }),
            _ => None,
        }
    }
    fn start_log(&self, region: &Region, console: Cap<Notification>) -> core::result::Result<(), OutOfBounds> {
        *self.ring.borrow_mut() = Some((region.clone(), console.bits()));
        Ok(())
    }
}
