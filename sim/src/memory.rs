//! Memory and registers as a component has them mapped. Every access goes through its VSpace: memory that is not mapped any more
//! is out of reach, and a component that accesses it faults, as on the machine. Device memory that is mapped as ordinary
//! memory reads as ones and ignores writes.

use crate::coroutine;
use crate::observer::Place;
use crate::trace::Kind;
use crate::translations::Translations;
use crate::world::{State, World};
use platform::{Memory, Mmio, OutOfBounds, PAGE_BITS, PAGE_SIZE, Paddr, Region, RegionKind, Vaddr};
use sim_kernel::{Access, Fault, NotRam, ThreadId};
use std::rc::Rc;
use zerocopy::{FromBytes, Immutable, IntoBytes};

type Result<T> = core::result::Result<T, OutOfBounds>;

/// A range of a component's memory.
#[derive(Clone)]
pub struct SimMemory {
    range: Rc<Range>,
}

struct Range {
    world: Rc<World>,
    thread: ThreadId,
    base: Vaddr,
    len: usize,
    writable: bool,
    place: Option<Place>,
    translations: Translations,
}

impl Range {
    /// Returns the physical address of a page, counted from the one the range begins in. A page that is not mapped is a fault: the
    /// thread is blocked and does not return from its switch, unless its supervisor answers the fault; then it tries again.
    #[inline]
    fn page(&self, state: &mut State, page: usize, access: Access) -> Option<Paddr> {
        match self.translations.known(&state.kernel, page, access) {
            Some(known) => Some(known),
            None => self.walk(state, page, access),
        }
    }

    #[cold]
    fn walk(&self, state: &mut State, page: usize, access: Access) -> Option<Paddr> {
        let first_page = self.base.bits() >> PAGE_BITS;
        let vaddr = Vaddr::new((first_page + page as u64) << PAGE_BITS);
        match state.kernel.translate(self.thread, vaddr, access) {
            Ok(at) => {
                state.observer.touched(self.thread, at, access, state.now_ns);
                self.translations.learn(&state.kernel, page, access, at);
                Some(at)
            }
            Err(_) => {
                state.kernel.fault(self.thread, Fault::Vm { vaddr: vaddr.bits(), access });
                None
            }
        }
    }

    /// Accesses bytes at `offset` that lie in one page, at a cost of `cost_ns`. Returns the result of `act` for the physical
    /// address, or `None` when the component dies of the access.
    #[inline]
    fn once<R>(
        &self,
        offset: usize,
        cost_ns: u64,
        access: Access,
        act: impl FnOnce(&mut State, Paddr) -> R,
    ) -> Option<R> {
        // Only the base of a whole region is at the start of a page.
        let at = self.base.page_offset() + offset;
        while !coroutine::is_dying() {
            let mut state = self.world.enter(cost_ns);
            if let Some(frame) = self.page(&mut state, at / PAGE_SIZE, access) {
                let result = act(&mut state, Paddr::new(frame.bits() + (at % PAGE_SIZE) as u64));
                self.world.leave(state, self.thread);
                return Some(result);
            }
            drop(state);
            self.fault_answered();
        }
        None
    }

    /// Returns the time for copying `len` bytes of a page.
    fn cost_ns(&self, len: usize) -> u64 {
        let costs = self.world.costs();
        costs.access_ns + costs.page_ns * len as u64 / PAGE_SIZE as u64
    }

    /// Returns the number of bytes from `offset` to the end of its page.
    fn left_in_page(&self, offset: usize) -> usize {
        PAGE_SIZE - (self.base.page_offset() + offset) % PAGE_SIZE
    }

    /// Checks that the component may access `len` bytes at `offset` in this way.
    #[inline]
    fn check(&self, offset: usize, len: usize, access: Access) -> Result<()> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        if inside && (access != Access::Write || self.writable) { Ok(()) } else { Err(OutOfBounds) }
    }

    /// Calls `act` for each piece of `len` bytes from `offset` that lies in one page: with the physical address, and the
    /// piece's beginning and end in the `len` bytes.
    fn each(
        &self,
        offset: usize,
        len: usize,
        access: Access,
        mut act: impl FnMut(&mut State, Paddr, usize, usize),
    ) -> Result<()> {
        self.check(offset, len, access)?;
        let mut done = 0;
        while done < len {
            let piece = self.left_in_page(offset + done).min(len - done);
            let act = |state: &mut State, at| act(state, at, done, done + piece);
            if self.once(offset + done, self.cost_ns(piece), access, act).is_none() {
                return Ok(());
            }
            done += piece;
        }
        Ok(())
    }

    /// Writes `bytes`, which must be writable and lie in one page. Calls `then` before any other thread or device can act
    /// on them.
    #[inline]
    fn write(&self, offset: usize, bytes: &[u8], then: impl FnOnce(&mut State)) {
        self.once(offset, self.cost_ns(bytes.len()), Access::Write, |state, at| {
            let page = state.kernel.memory_mut().page_mut(at);
            if let Some(room) = page.and_then(|page| page[at.page_offset()..].get_mut(..bytes.len())) {
                room.copy_from_slice(bytes);
            }
            then(state);
        });
    }

    /// Waits until the thread's fault is answered, which few supervisors do. The caller then retries the access.
    fn fault_answered(&self) {
        self.world.block(self.thread, |state| state.kernel.take(self.thread));
    }

    fn aligned<T>(offset: usize) -> Result<usize> {
        let align = if size_of::<T>().is_multiple_of(8) { 8 } else { 4 };
        if offset.is_multiple_of(align) { Ok(offset) } else { Err(OutOfBounds) }
    }
}

impl SimMemory {
    pub(crate) fn new(world: &Rc<World>, thread: ThreadId, region: &Region, place: Option<Place>) -> Self {
        let range = Range {
            world: Rc::clone(world),
            thread,
            base: region.vaddr,
            len: region.len as usize,
            writable: region.kind == RegionKind::ReadWrite,
            place,
            translations: Translations::new(region.vaddr, region.len as usize),
        };
        Self { range: Rc::new(range) }
    }
}

impl Memory for SimMemory {
    platform::checked_slots!();

    fn len(&self) -> usize {
        self.range.len
    }

    fn load_acquire_u32(&self, offset: usize) -> Result<u32> {
        if !offset.is_multiple_of(4) {
            return Err(OutOfBounds);
        }
        self.read(offset)
    }

    fn store_release_u32(&self, offset: usize, value: u32) -> Result<()> {
        if !offset.is_multiple_of(4) {
            return Err(OutOfBounds);
        }
        // Publication and observation are one step: nobody can act on the value before the observer has seen it.
        let range = &self.range;
        range.check(offset, size_of::<u32>(), Access::Write)?;
        range.write(offset, &value.to_le_bytes(), |state| {
            if let Some(place) = &range.place {
                let State { observer, kernel, machine, now_ns, .. } = state;
                observer.published(place, &range.translations, offset, value, kernel, machine, *now_ns);
            }
        });
        Ok(())
    }

    fn fence(&self) {}

    fn read<T: FromBytes>(&self, offset: usize) -> Result<T> {
        let (offset, len) = (Range::aligned::<T>(offset)?, size_of::<T>());
        let range = &self.range;
        range.check(offset, len, Access::Read)?;
        if range.left_in_page(offset) < len {
            let mut bytes = vec![0; len];
            self.read_bytes(offset, &mut bytes)?;
            return T::read_from_bytes(&bytes).map_err(|_| OutOfBounds);
        }
        let read = range.once(offset, range.cost_ns(len), Access::Read, |state, at| {
            let page = state.kernel.memory().page(at);
            let found = page.and_then(|page| T::read_from_prefix(&page[at.page_offset()..]).ok());
            found.map_or_else(ones, |(value, _)| Ok(value))
        });
        read.unwrap_or_else(|| Ok(T::new_zeroed()))
    }

    fn write<T: IntoBytes + Immutable>(&self, offset: usize, value: &T) -> Result<()> {
        let (offset, bytes) = (Range::aligned::<T>(offset)?, value.as_bytes());
        self.range.check(offset, bytes.len(), Access::Write)?;
        if self.range.left_in_page(offset) < bytes.len() {
            return self.write_bytes(offset, bytes);
        }
        self.range.write(offset, bytes, |_| {});
        Ok(())
    }

    fn read_bytes(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        self.range.each(offset, bytes.len(), Access::Read, |state, at, from, to| {
            if state.kernel.memory().read(at, &mut bytes[from..to]).is_err() {
                bytes[from..to].fill(u8::MAX);
            }
        })
    }

    fn write_bytes(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.range.each(offset, bytes.len(), Access::Write, |state, at, from, to| {
            let _ = state.kernel.memory_mut().write(at, &bytes[from..to]);
        })
    }
}

/// The value of device memory that is mapped as ordinary memory.
#[cold]
fn ones<T: FromBytes>() -> Result<T> {
    T::read_from_bytes(&vec![u8::MAX; size_of::<T>()]).map_err(|_| OutOfBounds)
}

/// A range of device registers mapped into a component.
#[derive(Clone)]
pub struct SimMmio {
    range: Rc<Range>,
}

impl SimMmio {
    pub(crate) fn new(world: &Rc<World>, thread: ThreadId, vaddr: Vaddr, len: usize) -> Self {
        let range = Range {
            world: Rc::clone(world),
            thread,
            base: vaddr,
            len,
            writable: true,
            place: None,
            translations: Translations::new(vaddr, len),
        };
        Self { range: Rc::new(range) }
    }

    /// Returns the physical address of `bytes` bytes at `offset`; without the state while the thread is in a fault.
    fn access<R>(
        &self,
        offset: usize,
        bytes: usize,
        access: Access,
        act: impl FnOnce(&mut State, Paddr) -> R,
    ) -> Result<R> {
        let range = &self.range;
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= range.len);
        let at = range.base.bits().wrapping_add(offset as u64);
        if !inside || !at.is_multiple_of(bytes as u64) || coroutine::is_dying() {
            return Err(OutOfBounds);
        }
        let (costs, thread) = (range.world.costs(), range.thread);
        let (cost_ns, kind) = match access {
            Access::Write => (costs.register_write_ns, Kind::RegisterWritten),
            Access::Read | Access::Execute => (costs.register_read_ns, Kind::RegisterRead),
        };
        let done = range.once(offset, cost_ns, access, |state, at| {
            state.note(thread, kind, at.bits());
            let result = act(state, at);
            state.poll_devices();
            result
        });
        done.ok_or(OutOfBounds)
    }

    fn read(&self, offset: usize, bytes: usize) -> Result<u64> {
        self.access(offset, bytes, Access::Read, |state, at| {
            // Ordinary memory may be mapped as registers: a probe does so.
            let mut word = [0; size_of::<u64>()];
            match state.kernel.memory().read(at, &mut word[..bytes]) {
                Ok(()) => u64::from_le_bytes(word),
                Err(NotRam) => {
                    let State { machine, kernel, now_ns, .. } = state;
                    machine.read(at, bytes as u8, *now_ns, kernel)
                }
            }
        })
    }

    fn write(&self, offset: usize, bytes: usize, value: u64) -> Result<()> {
        self.access(offset, bytes, Access::Write, |state, at| {
            let State { machine, kernel, trace, observer, now_ns, .. } = state;
            if kernel.memory_mut().write(at, &value.to_le_bytes()[..bytes]).is_err() {
                machine.write(at, bytes as u8, value, *now_ns, kernel, trace, observer);
            }
        })
    }
}

impl Mmio for SimMmio {
    fn len(&self) -> usize {
        self.range.len
    }

    fn read32(&self, offset: usize) -> Result<u32> {
        self.read(offset, 4).map(|value| value as u32)
    }

    fn write32(&self, offset: usize, value: u32) -> Result<()> {
        self.write(offset, 4, u64::from(value))
    }

    fn read64(&self, offset: usize) -> Result<u64> {
        self.read(offset, 8)
    }

    fn write64(&self, offset: usize, value: u64) -> Result<()> {
        self.write(offset, 8, value)
    }
}
