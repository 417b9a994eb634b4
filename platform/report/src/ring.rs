//! The log ring, through which a component's log frames and records reach the console.
//!
//! The component maps the ring read-write, the console read-only: neither waits for the other, and the console has no
//! authority but to read. The price is that a component which writes faster than the console reads loses its *oldest*
//! records; the console counts them. The first page holds two indices, the rest, a power of two of bytes, the records: a
//! word of kind and length, the bytes, padding to 4. Indices count bytes without end and wrap at 2^32.

use platform::{Memory, OutOfBounds, PAGE_SIZE};

/// Offset of the index of the newest record's end.
const NEWEST: usize = 0;
/// Offset of the index of the oldest intact record's start.
const OLDEST: usize = 64;
/// Offset of the records.
const DATA: usize = PAGE_SIZE;
/// Bytes of a record's first word.
const HEADER: u32 = 4;

/// The largest record, bytes.
pub const MAX_RECORD: usize = 1024;

/// Bytes of a ring that keeps `data` bytes of records, a power of two.
#[must_use]
pub const fn region_bytes(data: u64) -> u64 {
    data.saturating_add(DATA as u64)
}

/// Kind of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A piece of the component's stream of defmt frames.
    Log,
    /// A [`crate::Stamped`].
    Report,
}

/// Bytes a record takes in the ring.
const fn footprint(len: u32) -> u32 {
    len.next_multiple_of(4).saturating_add(HEADER)
}

fn mask<M: Memory>(memory: &M) -> Result<u32, OutOfBounds> {
    let data = memory.len().checked_sub(DATA).filter(|data| data.is_power_of_two()).ok_or(OutOfBounds)?;
    let data = u32::try_from(data).map_err(|_| OutOfBounds)?;
    (data as usize >= 4 * MAX_RECORD).then(|| data.wrapping_sub(1)).ok_or(OutOfBounds)
}

/// Offset of an index in the region.
const fn place(index: u32, mask: u32) -> usize {
    ((index & mask) as usize).wrapping_add(DATA)
}

/// The component's end.
#[derive(Debug)]
pub struct Producer<M> {
    memory: M,
    mask: u32,
    newest: u32,
    oldest: u32,
}

impl<M: Memory> Producer<M> {
    /// Creates the component's end over its ring, which continues where an earlier incarnation of the component left it.
    ///
    /// # Errors
    /// [`OutOfBounds`] for a region that is not a page and a power of two of bytes, at least four records.
    pub fn new(memory: M) -> Result<Self, OutOfBounds> {
        let mask = mask(&memory)?;
        let (newest, oldest) = (memory.load_acquire_u32(NEWEST)?, memory.load_acquire_u32(OLDEST)?);
        // Impossible indices: the records kept by them are given up.
        let sound = newest.wrapping_sub(oldest) <= mask.wrapping_add(1);
        Ok(Self { memory, mask, newest, oldest: if sound { oldest } else { newest } })
    }

    /// Writes a record, over the oldest ones if necessary.
    ///
    /// # Errors
    /// [`OutOfBounds`] for a record longer than [`MAX_RECORD`]: nothing is written.
    pub fn push(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), OutOfBounds> {
        if bytes.len() > MAX_RECORD {
            return Err(OutOfBounds);
        }
        let len = bytes.len() as u32;
        let end = self.newest.wrapping_add(footprint(len));
        while end.wrapping_sub(self.oldest) > self.mask.wrapping_add(1) {
            let (_, oldest_len) = self.header(self.oldest)?;
            self.oldest = self.oldest.wrapping_add(footprint(oldest_len));
        }
        // Readers must see that the old records are gone before their bytes change.
        self.memory.store_release_u32(OLDEST, self.oldest)?;
        self.memory.fence();
        let header = len | if kind == Kind::Report { 1 << 31 } else { 0 };
        self.memory.write(place(self.newest, self.mask), &header)?;
        copy_in(&self.memory, self.newest.wrapping_add(HEADER), self.mask, bytes)?;
        self.newest = end;
        self.memory.store_release_u32(NEWEST, end)
    }

    /// Writes a report, made at `at_ns` of machine time: [`crate::Stamped`] reads it.
    ///
    /// # Errors
    /// As [`Producer::push`].
    pub fn push_report(&mut self, at_ns: u64, bytes: &[u8]) -> Result<(), OutOfBounds> {
        let mut record = heapless::Vec::<u8, MAX_RECORD>::new();
        record.extend_from_slice(&at_ns.to_le_bytes()).map_err(|_| OutOfBounds)?;
        record.extend_from_slice(bytes).map_err(|_| OutOfBounds)?;
        self.push(Kind::Report, &record)
    }

    fn header(&self, index: u32) -> Result<(Kind, u32), OutOfBounds> {
        read_header(&self.memory, index, self.mask)
    }
}

/// The console's end.
#[derive(Debug)]
pub struct Consumer<M> {
    memory: M,
    mask: u32,
    next: u32,
    lost_bytes: u64,
}

impl<M: Memory> Consumer<M> {
    /// The console's end over a component's ring.
    ///
    /// # Errors
    /// As [`Producer::new`].
    pub fn new(memory: M) -> Result<Self, OutOfBounds> {
        let mask = mask(&memory)?;
        Ok(Self { memory, mask, next: 0, lost_bytes: 0 })
    }

    /// Bytes of records that were overwritten before they were read.
    #[must_use]
    pub const fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }

    /// Copies the next record into `buffer`; returns its kind and length. `None` when there is none, or when the component
    /// writes so fast (or so wrongly) that none is available now.
    pub fn pop(&mut self, buffer: &mut [u8; MAX_RECORD]) -> Option<(Kind, usize)> {
        self.try_pop(buffer).ok().flatten()
    }

    fn try_pop(&mut self, buffer: &mut [u8; MAX_RECORD]) -> Result<Option<(Kind, usize)>, OutOfBounds> {
        self.skip_lost()?;
        let newest = self.memory.load_acquire_u32(NEWEST)?;
        // More than the ring holds: an impossible index of the component, or records that came just now. Polled again
        // when the component has published the start of its oldest.
        if newest == self.next || newest.wrapping_sub(self.next) > self.mask.wrapping_add(1) {
            return Ok(None);
        }
        let (kind, len) = read_header(&self.memory, self.next, self.mask)?;
        let place = buffer.get_mut(..len as usize).ok_or(OutOfBounds)?;
        copy_out(&self.memory, self.next.wrapping_add(HEADER), self.mask, place)?;
        self.memory.fence();
        // Overwritten during the copy: the copy is torn, and the next call resumes at the oldest.
        if self.skip_lost()? {
            return Ok(None);
        }
        self.next = self.next.wrapping_add(footprint(len));
        Ok(Some((kind, len as usize)))
    }

    /// Moves on to the oldest intact record if ours is gone; returns whether it was.
    fn skip_lost(&mut self) -> Result<bool, OutOfBounds> {
        let ahead = self.memory.load_acquire_u32(OLDEST)?.wrapping_sub(self.next);
        let lost = ahead != 0 && ahead < 1 << 31;
        if lost {
            self.lost_bytes = self.lost_bytes.saturating_add(u64::from(ahead));
            self.next = self.next.wrapping_add(ahead);
        }
        Ok(lost)
    }
}

fn read_header<M: Memory>(memory: &M, index: u32, mask: u32) -> Result<(Kind, u32), OutOfBounds> {
    let header: u32 = memory.read(place(index & !3, mask))?;
    let kind = if header >> 31 == 1 { Kind::Report } else { Kind::Log };
    let len = header & !(1 << 31);
    if len as usize > MAX_RECORD { Err(OutOfBounds) } else { Ok((kind, len)) }
}

/// Bytes from `index` to the end of the ring, where it wraps.
fn bytes_to_wrap(index: u32, mask: u32) -> usize {
    mask.wrapping_add(1).wrapping_sub(index & mask) as usize
}

fn copy_in<M: Memory>(memory: &M, index: u32, mask: u32, bytes: &[u8]) -> Result<(), OutOfBounds> {
    let (first, second) = bytes.split_at(bytes.len().min(bytes_to_wrap(index, mask)));
    memory.write_bytes(place(index, mask), first)?;
    memory.write_bytes(DATA, second)
}

fn copy_out<M: Memory>(memory: &M, index: u32, mask: u32, bytes: &mut [u8]) -> Result<(), OutOfBounds> {
    let (first, second) = bytes.split_at_mut(bytes.len().min(bytes_to_wrap(index, mask)));
    memory.read_bytes(place(index, mask), first)?;
    memory.read_bytes(DATA, second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use platform::fake::Ram;

    fn ring() -> (Producer<Ram>, Consumer<Ram>, Ram) {
        let memory = Ram::new(region_bytes(4096) as usize);
        (Producer::new(memory.clone()).unwrap(), Consumer::new(memory.clone()).unwrap(), memory)
    }

    fn pop(consumer: &mut Consumer<Ram>) -> Option<(Kind, Vec<u8>)> {
        let mut buffer = [0; MAX_RECORD];
        consumer.pop(&mut buffer).map(|(kind, len)| (kind, buffer[..len].to_vec()))
    }

    #[test]
    fn records_arrive_in_order_across_the_end_of_the_ring() {
        let (mut producer, mut consumer, _) = ring();
        for round in 0..100u8 {
            let bytes = vec![round; usize::from(round) * 7];
            producer.push(Kind::Log, &bytes).unwrap();
            producer.push(Kind::Report, &[round]).unwrap();
            assert_eq!(pop(&mut consumer), Some((Kind::Log, bytes)));
            assert_eq!(pop(&mut consumer), Some((Kind::Report, vec![round])));
            assert_eq!(pop(&mut consumer), None);
        }
        assert_eq!(consumer.lost_bytes(), 0);
    }

    #[test]
    fn report_keeps_its_time_or_is_refused_whole() {
        let (mut producer, mut consumer, _) = ring();
        let report = crate::Report::Opened { tenant: crate::clip("a"), pages_left: 1, io_tables_left: 2 };
        producer.push_report(0x0123_4567_89ab_cdef, &report.encode()).unwrap();
        assert_eq!(producer.push_report(1, &[0; MAX_RECORD - 7]), Err(OutOfBounds));
        let (kind, bytes) = pop(&mut consumer).unwrap();
        let stamped = crate::Stamped { at_ns: 0x0123_4567_89ab_cdef, report };
        assert_eq!((kind, crate::Stamped::decode(&bytes)), (Kind::Report, Some(stamped.clone())));
        assert_eq!((stamped.encode(), pop(&mut consumer)), (bytes, None));
        assert_eq!(crate::Stamped::decode(&[0; 7]), None);
    }

    #[test]
    fn a_component_that_starts_again_goes_on_in_its_ring() {
        let (mut producer, mut consumer, memory) = ring();
        producer.push(Kind::Report, b"before").unwrap();
        assert_eq!(pop(&mut consumer), Some((Kind::Report, b"before".to_vec())));
        producer.push(Kind::Report, b"unread").unwrap();
        let mut again = Producer::new(memory).unwrap();
        again.push(Kind::Report, b"after").unwrap();
        assert_eq!(pop(&mut consumer), Some((Kind::Report, b"unread".to_vec())));
        assert_eq!(pop(&mut consumer), Some((Kind::Report, b"after".to_vec())));
        assert_eq!((pop(&mut consumer), consumer.lost_bytes()), (None, 0));
    }

    #[test]
    fn a_slow_console_loses_the_oldest_and_counts_them() {
        let (mut producer, mut consumer, _) = ring();
        for round in 0..10u8 {
            producer.push(Kind::Log, &[round; 996]).unwrap();
        }
        let first = pop(&mut consumer).unwrap();
        assert_eq!(first.1[0], 6, "four records of 1000 bytes fit");
        assert_eq!(consumer.lost_bytes(), 6000);
    }

    #[test]
    fn a_component_that_writes_nonsense_gives_no_records() {
        let (_, mut consumer, memory) = ring();
        memory.store_release_u32(NEWEST, 64).unwrap();
        memory.write(DATA, &0x7fff_ffffu32).unwrap();
        assert_eq!(pop(&mut consumer), None);
        memory.store_release_u32(OLDEST, 0x1234_5677).unwrap();
        assert!(pop(&mut consumer).is_none_or(|(_, bytes)| bytes.len() <= MAX_RECORD));
    }

    #[test]
    fn an_end_beyond_the_ring_gives_no_records() {
        let (_, mut consumer, memory) = ring();
        for beyond in [4097, 1 << 31, u32::MAX] {
            memory.store_release_u32(NEWEST, beyond).unwrap();
            assert_eq!(pop(&mut consumer), None);
        }
    }

    #[test]
    fn too_long_a_record_is_refused_whole() {
        let (mut producer, mut consumer, _) = ring();
        assert_eq!(producer.push(Kind::Log, &[0; MAX_RECORD + 1]), Err(OutOfBounds));
        assert_eq!(pop(&mut consumer), None);
    }
}
