//! Memory and registers as a component has them mapped: every access goes by its VSpace, so that what is no longer mapped is
//! no longer reached, and a component that reaches for it faults, as on the machine. Device memory that somebody takes for
//! ordinary memory reads as ones and forgets what is written.

use crate::coroutine;
use crate::trace::Kind;
use crate::watch::Place;
use crate::world::{State, World};
use platform::{Memory, Mmio, OutOfBounds, PAGE_BITS, PAGE_SIZE, Paddr, Region, RegionKind, Vaddr};
use sim_kernel::{Access, Fault, NotRam, ThreadId};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use zerocopy::{FromBytes, Immutable, IntoBytes};

type Result<T> = core::result::Result<T, OutOfBounds>;

/// A range of a component's memory.
#[derive(Clone)]
pub(crate) struct SimMemory {
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

/// Where the pages of a range lie, as long as no mapping changed.
struct Translations {
    generation: Cell<u64>,
    /// For reading and for writing.
    pages: RefCell<Vec<[Option<Paddr>; 2]>>,
}

impl Translations {
    fn new() -> Self {
        Self { generation: Cell::new(u64::MAX), pages: RefCell::default() }
    }

    #[inline]
    fn known(&self, state: &State, page: usize, access: Access) -> Option<Paddr> {
        if self.generation.get() != state.kernel.translation_generation() {
            return None;
        }
        self.pages.borrow().get(page).copied().unwrap_or_default()[usize::from(access == Access::Write)]
    }

    #[cold]
    fn learn(&self, state: &State, page: usize, access: Access, at: Paddr) {
        let generation = state.kernel.translation_generation();
        let mut pages = self.pages.borrow_mut();
        if self.generation.replace(generation) != generation {
            pages.clear();
        }
        if pages.len() <= page {
            pages.resize(page + 1, [None; 2]);
        }
        pages[page][usize::from(access == Access::Write)] = Some(at);
    }
}

impl Range {
    /// The physical address of a page, counted from the one the range begins in. One that is not mapped is a fault: then the thread
    /// is blocked and does not come back from its switch, unless its supervisor answers the fault; then it tries again.
    fn page(&self, state: &mut State, page: usize, access: Access) -> Option<Paddr> {
        if let Some(known) = self.translations.known(state, page, access) {
            return Some(known);
        }
        let first_page = self.base.bits() >> PAGE_BITS;
        let vaddr = Vaddr::new((first_page + page as u64) << PAGE_BITS);
        match state.kernel.translate(self.thread, vaddr, access) {
            Ok(at) => {
                state.watch.touched(self.thread, at, access, state.now_ns);
                self.translations.learn(state, page, access, at);
                Some(at)
            }
            Err(_) => {
                state.kernel.fault(self.thread, Fault::Vm { vaddr: vaddr.bits(), access });
                None
            }
        }
    }

    /// Does `act` on each piece of `len` bytes from `offset` that lies in one page: with the physical address, and where in
    /// the `len` bytes the piece begins and ends.
    fn each(
        &self,
        offset: usize,
        len: usize,
        access: Access,
        mut act: impl FnMut(&mut State, Paddr, usize, usize),
    ) -> Result<()> {
        let end = offset.checked_add(len).filter(|end| *end <= self.len).ok_or(OutOfBounds)?;
        if access == Access::Write && !self.writable {
            return Err(OutOfBounds);
        }
        if coroutine::is_dying() {
            return Ok(());
        }
        let costs = self.world.costs();
        // The base is at a page's start only for whole regions.
        let skew = self.base.page_offset();
        let mut at = offset;
        while at < end {
            let in_page = (skew + at) % PAGE_SIZE;
            let page = (skew + at) / PAGE_SIZE;
            let piece = (PAGE_SIZE - in_page).min(end - at);
            let cost = costs.access_ns + costs.page_ns * piece as u64 / PAGE_SIZE as u64;
            let mut state = self.world.enter(cost);
            let Some(frame) = self.page(&mut state, page, access) else {
                drop(state);
                self.fault_answered();
                if coroutine::is_dying() {
                    return Ok(());
                }
                continue;
            };
            act(&mut state, Paddr::new(frame.bits() + in_page as u64), at - offset, at - offset + piece);
            drop(state);
            self.world.leave(self.thread);
            at += piece;
        }
        Ok(())
    }

    /// Waits until the thread's fault is answered, which few supervisors do: then the access is tried again.
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
            translations: Translations::new(),
        };
        Self { range: Rc::new(range) }
    }
}

impl Memory for SimMemory {
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
        // What is published is looked at before anybody can act on it: the write and the look are one.
        let range = &self.range;
        range.each(offset, 4, Access::Write, |state, at, from, to| {
            let _ = state.kernel.memory_mut().write(at, &value.to_le_bytes()[from..to]);
            if let Some(place) = &range.place {
                let State { watch, kernel, now_ns, .. } = state;
                watch.published(place, offset, value, kernel, *now_ns);
            }
        })
    }

    fn fence(&self) {}

    fn read<T: FromBytes>(&self, offset: usize) -> Result<T> {
        let offset = Range::aligned::<T>(offset)?;
        let mut bytes = [0; 256];
        if let Some(room) = bytes.get_mut(..size_of::<T>()) {
            self.read_bytes(offset, room)?;
            return T::read_from_bytes(room).map_err(|_| OutOfBounds);
        }
        let mut bytes = vec![0; size_of::<T>()];
        self.read_bytes(offset, &mut bytes)?;
        T::read_from_bytes(&bytes).map_err(|_| OutOfBounds)
    }

    fn write<T: IntoBytes + Immutable>(&self, offset: usize, value: &T) -> Result<()> {
        self.write_bytes(Range::aligned::<T>(offset)?, value.as_bytes())
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

/// A range of device registers mapped into a component.
#[derive(Clone)]
pub(crate) struct SimMmio {
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
            translations: Translations::new(),
        };
        Self { range: Rc::new(range) }
    }

    /// The physical address of `bytes` bytes at `offset`. Comes back without the state while the thread is in a fault.
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
        let (cost, kind) = match access {
            Access::Write => (costs.register_write_ns, Kind::RegisterWritten),
            Access::Read | Access::Execute => (costs.register_read_ns, Kind::RegisterRead),
        };
        loop {
            let mut state = range.world.enter(cost);
            let skewed = range.base.page_offset() + offset;
            if let Some(frame) = range.page(&mut state, skewed / PAGE_SIZE, access) {
                let paddr = Paddr::new(frame.bits() + (skewed % PAGE_SIZE) as u64);
                state.note(thread, kind, paddr.bits());
                let result = act(&mut state, paddr);
                state.look_at_devices();
                drop(state);
                range.world.leave(thread);
                return Ok(result);
            }
            drop(state);
            range.fault_answered();
            if coroutine::is_dying() {
                return Err(OutOfBounds);
            }
        }
    }

    fn read(&self, offset: usize, bytes: usize) -> Result<u64> {
        self.access(offset, bytes, Access::Read, |state, at| {
            // Somebody may have mapped ordinary memory as registers: a probe does.
            let mut word = [0; size_of::<u64>()];
            match state.kernel.memory().read(at, &mut word[..bytes]) {
                Ok(()) => u64::from_le_bytes(word),
                Err(NotRam) => state.machine.read(at, bytes as u8, state.now_ns),
            }
        })
    }

    fn write(&self, offset: usize, bytes: usize, value: u64) -> Result<()> {
        self.access(offset, bytes, Access::Write, |state, at| {
            let State { machine, kernel, trace, watch, now_ns, .. } = state;
            if kernel.memory_mut().write(at, &value.to_le_bytes()[..bytes]).is_err() {
                machine.write(at, bytes as u8, value, *now_ns, kernel, trace, watch);
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
