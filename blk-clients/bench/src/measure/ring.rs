//! Measures requests directly on the session's ring, in a loop that does as little else as possible.

use super::{Measured, Shape, Unmeasured, settle, succeeded};
use alloc::vec::Vec;
use blk_client::{Entry, Segment, Session, Status};
use platform::{PAGE_SIZE, Platform, marker};
use workload::Bench;

/// Measures requests on `session`.
pub(super) async fn run<P: Platform>(session: &mut Session<P>, bench: &Bench) -> Result<Measured, Unmeasured> {
    let mut load = Load::new(session, bench).ok_or(Unmeasured::Configuration)?;
    load.run(load.shape.warm_up()).await?;
    let before = load.doorbells().await?;
    settle(load.session.platform(), load.session.options()).await;
    load.session.platform().marker(marker::BEGIN);
    load.run(bench.operations).await?;
    load.session.platform().marker(marker::END);
    settle(load.session.platform(), load.session.options()).await;
    let doorbells = load.doorbells().await?.saturating_sub(before);
    Ok(Measured { operations: bench.operations, doorbells })
}

struct Load<'a, P: Platform> {
    session: &'a mut Session<P>,
    /// A range for each request in flight; a request's user data is the index.
    entries: Vec<Entry>,
    shape: Shape,
    /// Submitted so far.
    submitted: u64,
}

impl<'a, P: Platform> Load<'a, P> {
    fn new(session: &'a mut Session<P>, bench: &Bench) -> Option<Self> {
        let geometry = *session.geometry();
        let shape = Shape::new(&geometry, bench)?;
        let stride = (bench.block_bytes as usize).checked_next_multiple_of(PAGE_SIZE)?;
        let needed = stride.checked_mul(usize::from(bench.depth))? as u64;
        let fits = needed <= geometry.window_bytes && u32::from(bench.depth) <= session.options().ring_entries;
        fits.then_some(())?;
        let entry = |index: u16| {
            let opcode = shape.opcode(index) as u8;
            let mut entry = Entry { opcode, segment_count: 1, blocks: shape.blocks, ..Entry::default() };
            let offset = u32::try_from(stride.checked_mul(usize::from(index))?).ok()?;
            *entry.segments.first_mut()? = Segment { offset, len: bench.block_bytes };
            entry.user_data = u64::from(index);
            Some(entry)
        };
        let entries = (0..bench.depth).map(entry).collect::<Option<_>>()?;
        Some(Self { session, entries, shape, submitted: 0 })
    }

    /// Submits the request with the word `index` at the next place.
    #[inline(always)]
    fn submit(&mut self, index: u64) -> Result<(), Unmeasured> {
        let place = self.shape.place(self.submitted);
        // Not a word of ours: the server invented it.
        let entry = self.entries.get_mut(index as usize).ok_or(Unmeasured::Unknown)?;
        entry.lba = place;
        self.submitted = self.submitted.wrapping_add(1);
        let submitted = self.session.submit(entry)?;
        submitted.then_some(()).ok_or(Unmeasured::Configuration)
    }

    /// Submits `operations` requests, as many at a time as the depth, until all are completed.
    async fn run(&mut self, operations: u64) -> Result<(), Unmeasured> {
        let end = self.submitted.saturating_add(operations);
        let mut in_flight = operations.min(self.entries.len() as u64);
        for index in 0..in_flight {
            self.submit(index)?;
        }
        self.session.publish()?;
        while in_flight > 0 {
            let before = self.submitted;
            let ended = self.turn(end)?;
            in_flight = in_flight.saturating_sub(ended);
            if ended > 0 || self.submitted != before {
                self.session.publish_taken()?;
                self.session.publish()?;
            }
            if in_flight > 0 {
                self.session.wait().await?;
            }
        }
        Ok(())
    }

    /// Takes the completions that are there, and submits another request for each, until `end` were submitted. Returns the number
    /// of completions without one. Apart from the loop that waits, whose variables lie in memory.
    #[inline(never)]
    fn turn(&mut self, end: u64) -> Result<u64, Unmeasured> {
        let mut ended = 0u64;
        while let Some(completed) = self.session.complete()? {
            if completed.status != Status::Success as u16 {
                succeeded(completed.status(), completed.status)?;
            }
            if self.submitted < end {
                self.submit(completed.user_data)?;
            } else {
                ended = ended.wrapping_add(1);
            }
        }
        Ok(ended)
    }

    async fn doorbells(&self) -> Result<u64, Unmeasured> {
        Ok(self.session.doorbells().await?)
    }
}
