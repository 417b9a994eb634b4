//! The table of the frames that each driver may have its function reach, in memory that the server only reads.
//!
//! The root task writes it at boot, from the specification: the small frames in a driver's CSpace, with the addresses that
//! they were made at. They stay the same frames as long as the system runs, also when a component is started again, so the
//! table never changes. A driver names a frame by its cptr; no capability goes to the server.
//!
//! The table is the number of runs and, 64 bytes after its start, the [`Run`]s.

use alloc::vec::Vec;
use platform::{Memory, OutOfBounds, PAGE_SIZE, Paddr};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Offset of the number of runs, a u32.
const COUNT: usize = 0;
/// Offset of the first run.
const FIRST: usize = 64;
/// Runs beyond those of the arrays: an array is not consecutive where the root task went on in the next of the kernel's untypeds,
/// and the kernel lists fewer at boot.
const BREAKS: u64 = 256;

/// Frames of a driver at consecutive cptrs, at consecutive addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Run {
    /// The cptr of the first in the driver's CSpace.
    pub cptr: u64,
    /// The address of the first.
    pub paddr: u64,
    /// Number of frames.
    pub frames: u32,
    /// The driver's domain.
    pub domain: u16,
    /// 1 when the driver's capabilities have the write right.
    pub writable: u16,
}

impl Run {
    /// The frame at `cptr`, if it is one of these.
    fn at(&self, cptr: u64) -> Option<Frame> {
        let index = cptr.checked_sub(self.cptr).filter(|index| *index < u64::from(self.frames))?;
        let offset = index.checked_mul(PAGE_SIZE as u64)?;
        Some(Frame { paddr: Paddr::new(self.paddr.checked_add(offset)?), is_writable: self.writable != 0 })
    }

    /// Adds the next frame to the run, if it follows in all respects.
    fn extend(&mut self, next: &Self) -> bool {
        let follows = (self.domain, self.writable) == (next.domain, next.writable)
            && self.cptr.checked_add(u64::from(self.frames)) == Some(next.cptr)
            && u64::from(self.frames).checked_mul(PAGE_SIZE as u64).and_then(|bytes| self.paddr.checked_add(bytes))
                == Some(next.paddr);
        match self.frames.checked_add(next.frames).filter(|_| follows) {
            Some(frames) => self.frames = frames,
            None => return false,
        }
        true
    }
}

/// A frame that a function may reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The frame's address.
    pub paddr: Paddr,
    /// Whether the function may also write it.
    pub is_writable: bool,
}

/// Runs under construction: each frame joins the last run or begins another.
#[derive(Debug, Default)]
pub struct Runs(Vec<Run>);

impl Runs {
    /// Adds the next frame: `Run::frames` is 1.
    pub fn add(&mut self, frame: Run) {
        if !self.0.last_mut().is_some_and(|last| last.extend(&frame)) {
            self.0.push(frame);
        }
    }

    /// The bytes of the table, `None` when they exceed `pages`.
    #[must_use]
    pub fn to_bytes(&self, pages: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::from(u32::try_from(self.0.len()).ok()?.as_bytes());
        bytes.resize(FIRST, 0);
        bytes.extend_from_slice(self.0.as_bytes());
        (bytes.len() as u64 <= pages.checked_mul(PAGE_SIZE as u64)?).then_some(bytes)
    }
}

/// Pages of a table of `arrays` arrays of frames.
#[must_use]
pub const fn table_pages(arrays: u64) -> u64 {
    let runs = arrays.saturating_add(BREAKS).saturating_mul(size_of::<Run>() as u64);
    runs.saturating_add(FIRST as u64).div_ceil(PAGE_SIZE as u64)
}

/// The server's private copy of the table.
#[derive(Clone, Debug, Default)]
pub struct Frames(Vec<Run>);

impl Frames {
    /// Reads the table.
    ///
    /// # Errors
    /// [`OutOfBounds`] when it is longer than its memory.
    pub fn read(memory: &impl Memory) -> Result<Self, OutOfBounds> {
        let count: u32 = memory.read(COUNT)?;
        let run = |index: u32| {
            let offset = size_of::<Run>().checked_mul(index as usize).and_then(|offset| offset.checked_add(FIRST));
            memory.read(offset.ok_or(OutOfBounds)?)
        };
        Ok(Self::of((0..count).map(run).collect::<Result<_, _>>()?))
    }

    /// The table of these runs.
    #[must_use]
    pub fn of(mut runs: Vec<Run>) -> Self {
        runs.sort_unstable_by_key(|run| (run.domain, run.cptr));
        Self(runs)
    }

    /// The frame at `cptr` of the CSpace of the driver of `domain`, if that is a frame its function may reach.
    #[must_use]
    pub fn find(&self, domain: u64, cptr: u64) -> Option<Frame> {
        let domain = u16::try_from(domain).ok()?;
        let after = self.0.partition_point(|run| (run.domain, run.cptr) <= (domain, cptr));
        let run = after.checked_sub(1).and_then(|index| self.0.get(index))?;
        if run.domain == domain { run.at(cptr) } else { None }
    }

    /// The number of frames of the driver of `domain`.
    #[must_use]
    pub fn count(&self, domain: u16) -> u64 {
        let own = self.0.iter().filter(|run| run.domain == domain);
        own.map(|run| u64::from(run.frames)).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::fake::Ram;

    const BASE: u64 = 0x4000_0000;

    fn frame(domain: u16, cptr: u64, page: u64, writable: u16) -> Run {
        Run { cptr, paddr: BASE + page * PAGE_SIZE as u64, frames: 1, domain, writable }
    }

    fn written(frames: impl IntoIterator<Item = Run>) -> (Frames, usize) {
        let mut runs = Runs::default();
        frames.into_iter().for_each(|frame| runs.add(frame));
        let memory = Ram::new(PAGE_SIZE);
        memory.write_bytes(0, &runs.to_bytes(1).unwrap()).unwrap();
        (Frames::read(&memory).unwrap(), runs.0.len())
    }

    #[test]
    fn a_driver_finds_its_own_frames_with_their_rights_and_nothing_else() {
        let (frames, runs) = written([
            frame(2, 10, 0, 1),
            frame(2, 11, 1, 1),
            frame(2, 12, 7, 1),
            frame(1, 10, 20, 0),
            frame(1, 11, 21, 0),
            frame(1, 12, 22, 1),
        ]);
        assert_eq!(runs, 4, "a gap, another driver and other rights begin a run");
        let found = |domain, cptr| {
            let frame = frames.find(domain, cptr)?;
            Some(((frame.paddr.bits() - BASE) / PAGE_SIZE as u64, frame.is_writable))
        };
        assert_eq!([10, 11, 12].map(|cptr| found(2, cptr)), [Some((0, true)), Some((1, true)), Some((7, true))]);
        assert_eq!([10, 11, 12].map(|cptr| found(1, cptr)), [Some((20, false)), Some((21, false)), Some((22, true))]);
        for (domain, cptr) in [(1, 9), (1, 13), (2, 9), (2, 13), (0, 10), (3, 10), (1 << 16 | 1, 10), (1, u64::MAX)] {
            assert_eq!(found(domain, cptr), None, "{domain} {cptr}");
        }
        assert_eq!([0, 1, 2, 3].map(|domain| frames.count(domain)), [0, 3, 3, 0]);
    }

    #[test]
    fn a_run_at_the_end_of_all_numbers_overflows_nowhere() {
        let last = Run { cptr: u64::MAX, paddr: !0xfff, frames: u32::MAX, domain: u16::MAX, writable: 1 };
        let frames = Frames::of(alloc::vec![Run { cptr: u64::MAX - 1, ..last }]);
        assert_eq!(frames.find(u16::MAX.into(), u64::MAX), None, "beyond the last address");
        let mut runs = Runs::default();
        [last, last].into_iter().for_each(|frame| runs.add(frame));
        assert_eq!(runs.0.len(), 2);
    }

    #[test]
    fn a_table_that_does_not_fit_is_refused_at_both_ends() {
        let room = (PAGE_SIZE - FIRST) / size_of::<Run>();
        let mut runs = Runs::default();
        (0..=room as u64).for_each(|cptr| runs.add(frame(1, 2 * cptr, 0, 1)));
        assert_eq!(runs.to_bytes(1), None);
        assert_eq!(runs.to_bytes(2).map(|bytes| bytes.len()), Some(FIRST + (room + 1) * size_of::<Run>()));
        let memory = Ram::new(PAGE_SIZE);
        Memory::write(&memory, COUNT, &(room as u32 + 1)).unwrap();
        assert!(Frames::read(&memory).is_err());
        assert!(table_pages(0) * PAGE_SIZE as u64 >= BREAKS * size_of::<Run>() as u64);
    }
}
