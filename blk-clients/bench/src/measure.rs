//! Measuring: a bare loop between two markers, for whoever counts instructions from outside.
//!
//! Reads of one request size at random blocks, always the same number in flight, directly on the ring; or calls that do
//! nothing. The markers stand between batches, when the loop has long been running, and the number of operations
//! between them is reported as it was.

use crate::stamp::Generator;
use alloc::vec::Vec;
use blk_client::{Entry, Opcode, Refusal, RingError, Segment, Session, Status};
use core::fmt;
use platform::{PAGE_SIZE, Platform, marker};
use workload::Bench;

/// Calls before the measured ones.
const WARM_UP_CALLS: u64 = 16;
/// Batches' worth of reads before the measured ones.
const WARM_UP_DEPTHS: u64 = 4;
/// Random places, drawn beforehand and used in turn: a power of two.
const PLACES: usize = 1024;

/// What was measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Measured {
    pub(crate) operations: u64,
    pub(crate) doorbells: u64,
}

/// Why nothing was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unmeasured {
    Refused(Refusal),
    Failed(Option<Status>),
    Ring(RingError),
    /// The configuration cannot be: size, depth or blocks.
    Configuration,
}

impl fmt::Display for Unmeasured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => write!(f, "call refused: {refusal}"),
            Self::Failed(Some(status)) => write!(f, "read failed: {status}"),
            Self::Failed(None) => f.write_str("read failed with an unknown status"),
            Self::Ring(error) => write!(f, "{error}"),
            Self::Configuration => f.write_str("window, blocks or rings do not hold the configured requests"),
        }
    }
}

impl From<RingError> for Unmeasured {
    fn from(error: RingError) -> Self {
        Self::Ring(error)
    }
}

/// Measures what `bench.measure` names.
pub(crate) async fn run<P: Platform>(session: &mut Session<P>, bench: &Bench) -> Result<Measured, Unmeasured> {
    match bench.measure.as_str() {
        "ipc-call" => calls(session, bench.operations).await,
        _ => reads(session, bench).await,
    }
}

async fn calls<P: Platform>(session: &Session<P>, operations: u64) -> Result<Measured, Unmeasured> {
    let (platform, control) = (session.platform(), session.control());
    for _ in 0..WARM_UP_CALLS {
        control.ping().await.map_err(Unmeasured::Refused)?;
    }
    platform.marker(marker::BEGIN);
    for _ in 0..operations {
        control.ping().await.map_err(Unmeasured::Refused)?;
    }
    platform.marker(marker::END);
    Ok(Measured { operations, doorbells: 0 })
}

async fn reads<P: Platform>(session: &mut Session<P>, bench: &Bench) -> Result<Measured, Unmeasured> {
    let mut load = Reads::new(session, bench).ok_or(Unmeasured::Configuration)?;
    let depth = u64::from(bench.depth);
    load.begin()?;
    load.batches(depth.saturating_mul(WARM_UP_DEPTHS)).await?;
    let before = load.doorbells().await?;
    load.session.platform().marker(marker::BEGIN);
    let operations = load.batches(bench.operations).await?;
    load.session.platform().marker(marker::END);
    let doorbells = load.doorbells().await?.saturating_sub(before);
    load.end(depth).await?;
    Ok(Measured { operations, doorbells })
}

/// Reads in flight and those to come.
struct Reads<'a, P: Platform> {
    session: &'a mut Session<P>,
    /// One for each request in flight; the word handed back is the index.
    entries: Vec<Entry>,
    places: Vec<u64>,
    next: usize,
}

impl<'a, P: Platform> Reads<'a, P> {
    fn new(session: &'a mut Session<P>, bench: &Bench) -> Option<Self> {
        let geometry = *session.geometry();
        let blocks = bench.block_bytes.checked_div(geometry.block_bytes).filter(|blocks| *blocks > 0)?;
        let units = geometry.blocks.checked_div(u64::from(blocks)).filter(|units| *units > 0)?;
        let stride = (bench.block_bytes as usize).checked_next_multiple_of(PAGE_SIZE)?;
        let needed = stride.checked_mul(usize::from(bench.depth))? as u64;
        let fits = needed <= geometry.window_bytes && u32::from(bench.depth) <= session.options().ring_entries;
        (fits && bench.depth > 0).then_some(())?;
        let entry = |index: u16| {
            let mut entry = Entry { opcode: Opcode::Read as u8, segment_count: 1, blocks, ..Entry::default() };
            let offset = u32::try_from(stride.checked_mul(usize::from(index))?).ok()?;
            *entry.segments.first_mut()? = Segment { offset, len: bench.block_bytes };
            entry.user_data = u64::from(index);
            Some(entry)
        };
        let mut generator = Generator::new(bench.seed);
        let place = |_| generator.below(units).saturating_mul(u64::from(blocks));
        let places = (0..PLACES).map(place).collect();
        Some(Self { entries: (0..bench.depth).map(entry).collect::<Option<_>>()?, places, session, next: 0 })
    }

    /// Fills the depth.
    fn begin(&mut self) -> Result<(), Unmeasured> {
        for index in 0..self.entries.len() {
            self.submit(index as u64)?;
        }
        Ok(self.session.publish()?)
    }

    /// Submits the request with the word `index` at the next place.
    #[inline]
    fn submit(&mut self, index: u64) -> Result<(), Unmeasured> {
        self.next = self.next.wrapping_add(1) & (PLACES.wrapping_sub(1));
        let place = self.places.get(self.next).copied().unwrap_or(0);
        // A word that is none of ours: the server made it up.
        let entry = self.entries.get_mut(index as usize).ok_or(Unmeasured::Failed(None))?;
        entry.lba = place;
        let submitted = self.session.submit(entry)?;
        submitted.then_some(()).ok_or(Unmeasured::Configuration)
    }

    /// Batches until at least `operations` reads are done; how many were.
    async fn batches(&mut self, operations: u64) -> Result<u64, Unmeasured> {
        let mut done = 0u64;
        while done < operations {
            let before = done;
            while let Some(completed) = self.session.complete()? {
                if completed.status != Status::Success as u16 {
                    return Err(Unmeasured::Failed(completed.status()));
                }
                self.submit(completed.user_data)?;
                done = done.saturating_add(1);
            }
            if done != before {
                self.session.release()?;
                self.session.publish()?;
            }
            if done < operations {
                self.session.wait().await?;
            }
        }
        Ok(done)
    }

    /// Takes what is in flight and submits no more.
    async fn end(&mut self, mut in_flight: u64) -> Result<(), Unmeasured> {
        while in_flight > 0 {
            while self.session.complete()?.is_some() {
                in_flight = in_flight.saturating_sub(1);
            }
            self.session.release()?;
            if in_flight > 0 {
                self.session.wait().await?;
            }
        }
        Ok(())
    }

    async fn doorbells(&self) -> Result<u64, Unmeasured> {
        Ok(self.session.control().statistics().await.map_err(Unmeasured::Refused)?.doorbells)
    }
}
