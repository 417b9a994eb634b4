//! Rings of events that one component writes and the build machine reads.
//!
//! A ring begins with its [`Head`], and the events follow. The writer overwrites the oldest events and never waits. The head says how
//! many events there are, and at most [`BATCH`] more are written before it says so. The reader compares the head before and after
//! its copy, so an event that was overwritten meanwhile is counted as lost and never shown.

use platform::{Memory, OutOfBounds, PAGE_SIZE, SlotWriter};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Offset of the reader's word, 8 bytes. Its meaning belongs to the component's interface, and the writer of events never writes it.
pub const WISH: usize = 32;
/// Offset of the first event.
pub const EVENTS: usize = 64;
/// Bytes of an event.
pub const EVENT_BYTES: usize = 16;
/// Events that are written before the head is, at most.
pub const BATCH: u32 = 64;
/// Events before the newest that a reader does not trust once the ring is full: the writer may be overwriting them.
pub const MARGIN: u64 = BATCH as u64 + 16;

/// The beginning of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Head {
    /// Events written since the memory was zero.
    pub written: u64,
    /// Ticks of the clock a second; 0 before the component first opened the ring.
    pub ticks_per_second: u64,
    /// The events that are written; the meaning belongs to the component's interface. 0 is none.
    pub switched_on: u64,
}

const _: () = assert!(
    size_of::<Head>() <= WISH && WISH + 8 <= EVENTS && PAGE_SIZE.is_multiple_of(EVENT_BYTES),
    "no event crosses a page"
);

/// Events in a ring of this number of pages.
#[must_use]
pub const fn events(pages: usize) -> u32 {
    (pages.saturating_mul(PAGE_SIZE).saturating_sub(EVENTS) / EVENT_BYTES) as u32
}

/// The writer of a ring of `E`.
pub struct Writer<M: Memory, E: IntoBytes + Immutable + 'static> {
    events: M::Writer<E>,
    head: M::Writer<u64>,
    count: u32,
    /// Events until the head is written, or the ring's end is reached.
    left: u32,
    /// The place after them.
    end: u32,
    /// The place of the first event that the head does not count yet, and the number that it counts.
    first: u32,
    written: u64,
}

impl<M: Memory, E: IntoBytes + Immutable + 'static> Writer<M, E> {
    /// The writer of the ring in `pages` pages from page `first` of a region on. A successor continues where its predecessor ended.
    ///
    /// # Errors
    /// [`OutOfBounds`] for pages that the region lacks.
    pub fn new(
        memory: &M,
        first: usize,
        pages: usize,
        ticks_per_second: u64,
        switched_on: u64,
    ) -> Result<Self, OutOfBounds> {
        const { assert!(size_of::<E>() == EVENT_BYTES, "events have one size") };
        let offset = first.checked_mul(PAGE_SIZE).ok_or(OutOfBounds)?;
        let count = events(pages);
        if count == 0 {
            return Err(OutOfBounds);
        }
        let written = memory.load_acquire_u64(offset)?;
        memory.write(offset, &Head { written, ticks_per_second, switched_on })?;
        // The remainder is less than `count`.
        let next = written.checked_rem(count.into()).unwrap_or_default() as u32;
        let events = memory.writer(offset.wrapping_add(EVENTS), count)?;
        Ok(Self { events, head: memory.writer(offset, 1)?, count, left: 0, end: next, first: next, written })
    }

    /// Writes an event, which readers see after [`Writer::publish`].
    #[inline(always)]
    pub fn write(&mut self, event: &E) {
        if self.left == 0 {
            self.publish();
        }
        self.events.write(self.end.wrapping_sub(self.left), event);
        self.left = self.left.wrapping_sub(1);
    }

    /// Shows readers the events so far.
    #[inline(never)]
    pub fn publish(&mut self) {
        let next = self.end.wrapping_sub(self.left);
        self.written = self.written.wrapping_add(next.wrapping_sub(self.first).into());
        self.head.write(0, &self.written);
        self.first = if next == self.count { 0 } else { next };
        self.left = self.count.wrapping_sub(self.first).min(BATCH);
        self.end = self.first.wrapping_add(self.left);
    }
}

/// A reader's place in a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reader {
    /// Events that were read or lost.
    position: u64,
    /// Events that were overwritten before they were read.
    pub lost: u64,
}

impl Reader {
    /// A place at the ring's oldest event that is still there: those before it do not count as lost.
    #[must_use]
    pub fn at_oldest(head: &Head, pages: usize) -> Self {
        Self { position: oldest(head.written, pages), lost: 0 }
    }

    /// Reads the events since the last reading, the oldest first. `copy` copies the ring's bytes from an offset on, which never
    /// cross a page. Returns the head, or `None` if `copy` fails.
    pub fn read<E: FromBytes>(
        &mut self,
        pages: usize,
        copy: impl Fn(usize, &mut [u8]) -> Option<()>,
        mut take: impl FnMut(E),
    ) -> Option<Head> {
        let head = || {
            let mut bytes = [0; size_of::<Head>()];
            copy(0, &mut bytes)?;
            Head::read_from_bytes(&bytes).ok()
        };
        let before = head()?;
        if before.written < self.position {
            // The memory was set to zero, with a new system.
            self.position = 0;
        }
        let mut bytes = [0; PAGE_SIZE];
        while self.position < before.written {
            let (offset, length) = run(self.position, before.written, pages)?;
            let part = bytes.get_mut(..length)?;
            copy(offset, part)?;
            let oldest = oldest(head()?.written, pages);
            for event in part.chunks_exact(EVENT_BYTES) {
                if self.position < oldest {
                    self.lost = self.lost.wrapping_add(1);
                } else if let Ok(event) = E::read_from_bytes(event) {
                    take(event);
                }
                self.position = self.position.wrapping_add(1);
            }
            if self.position < oldest {
                // They are gone: to copy them would only lose more.
                self.lost = self.lost.wrapping_add(oldest.wrapping_sub(self.position));
                self.position = oldest;
            }
        }
        Some(before)
    }
}

/// The oldest event that a reader may trust when this number was written.
fn oldest(written: u64, pages: usize) -> u64 {
    written.saturating_sub(u64::from(events(pages)).saturating_sub(MARGIN))
}

/// The offset and the bytes of the events from `position` on, up to `end` and to the end of their page.
fn run(position: u64, end: u64, pages: usize) -> Option<(usize, usize)> {
    let count = u64::from(events(pages));
    let slot = position.checked_rem(count)?;
    let offset = EVENTS.checked_add((slot as usize).checked_mul(EVENT_BYTES)?)?;
    let in_page = PAGE_SIZE.checked_sub(offset % PAGE_SIZE)? / EVENT_BYTES;
    let events = (in_page as u64).min(count.checked_sub(slot)?).min(end.checked_sub(position)?);
    Some((offset, (events as usize).checked_mul(EVENT_BYTES)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use core::cell::RefCell;
    use platform::fake::Ram;
    use proptest::prelude::*;

    type Event = [u64; 2];

    const PAGES: usize = 2;
    const COUNT: u64 = events(PAGES) as u64;

    fn ring() -> (Ram, Writer<Ram, Event>) {
        let ram = Ram::new((1 + PAGES) * PAGE_SIZE);
        let writer = Writer::new(&ram, 1, PAGES, 1_000, 7).unwrap();
        (ram, writer)
    }

    fn copy(ram: &Ram) -> impl Fn(usize, &mut [u8]) -> Option<()> {
        move |offset, bytes| {
            assert!(offset % PAGE_SIZE + bytes.len() <= PAGE_SIZE, "a page's bytes");
            ram.read_bytes(PAGE_SIZE + offset, bytes).ok()
        }
    }

    fn read(reader: &mut Reader, ram: &Ram) -> Vec<u64> {
        let mut numbers = Vec::new();
        let head = reader.read(PAGES, copy(ram), |event: Event| numbers.push(event[0])).unwrap();
        assert_eq!((head.ticks_per_second, head.switched_on), (1_000, 7));
        numbers
    }

    #[test]
    fn events_are_read_once_and_in_their_order() {
        let (ram, mut writer) = ring();
        let mut reader = Reader::default();
        (0..3).for_each(|number| writer.write(&[number; 2]));
        assert_eq!(read(&mut reader, &ram), [0_u64; 0], "they are not published");
        writer.publish();
        assert_eq!(read(&mut reader, &ram), [0, 1, 2]);
        assert_eq!(read(&mut reader, &ram), [0_u64; 0]);
        let mut writer = Writer::<Ram, Event>::new(&ram, 1, PAGES, 1_000, 7).unwrap();
        writer.write(&[3; 2]);
        writer.publish();
        assert_eq!(read(&mut reader, &ram), [3], "a successor continues");
        assert_eq!(reader.lost, 0);
        assert_eq!(ram.load_acquire_u64(0), Ok(0), "the page before the ring is untouched");
        assert!(Writer::<Ram, Event>::new(&ram, 2, PAGES, 1, 1).is_err());
    }

    #[test]
    fn events_that_are_overwritten_while_they_are_read_are_lost() {
        let (ram, mut writer) = ring();
        (0..10).for_each(|number| writer.write(&[number; 2]));
        writer.publish();
        let writer = RefCell::new(writer);
        let mut numbers = Vec::new();
        let mut reader = Reader::default();
        let copy = copy(&ram);
        let overtaken = |offset: usize, bytes: &mut [u8]| {
            if offset >= EVENTS {
                // The writer goes once around between the reader's two looks at the head.
                (10..COUNT + 5).for_each(|number| writer.borrow_mut().write(&[number; 2]));
                writer.borrow_mut().publish();
            }
            copy(offset, bytes)
        };
        reader.read(PAGES, overtaken, |event: Event| numbers.push(event[0])).unwrap();
        assert_eq!(numbers, [0_u64; 0]);
        assert_eq!(reader.lost, 5 + MARGIN);
        assert_eq!(ram.load_acquire_u64(PAGE_SIZE), Ok(COUNT + 5));
    }

    proptest! {
        #[test]
        fn every_event_is_read_or_lost(batches in proptest::collection::vec(0..2 * COUNT, 1..8)) {
            let (ram, mut writer) = ring();
            let mut reader = Reader::default();
            let (mut written, mut seen) = (0, 0);
            for batch in batches {
                (written..written + batch).for_each(|number| writer.write(&[number; 2]));
                writer.publish();
                written += batch;
                let lost = reader.lost;
                let numbers = read(&mut reader, &ram);
                let lost = reader.lost - lost;
                prop_assert_eq!(numbers.len() as u64 + lost, batch);
                prop_assert!(lost == 0 || batch > COUNT - MARGIN);
                prop_assert!(numbers.iter().copied().eq(seen + lost..written));
                seen = written;
            }
        }
    }
}
