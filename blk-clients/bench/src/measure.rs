//! Measuring: requests of one size between two markers, for the instruction counter outside.
//!
//! Three ways: calls that do nothing (`ipc-call`); reads and writes on the session's ring ([`mod@ring`]); reads and writes
//! through the library's device, for names that begin with `device-` ([`mod@device`]). Every request is at a random place,
//! and the number in flight is constant. A first part warms up; between the markers exactly the configured number is
//! submitted and completed.

mod device;
mod ring;

use crate::delay::after;
use crate::stamp::Generator;
use alloc::boxed::Box;
use blk_client::{Device, Error, Geometry, Opcode, OpenError, Options, Session, Status};
use core::fmt;
use platform::{Environment, Platform, marker};
use workload::Bench;

/// Calls before the measured ones.
const WARM_UP_CALLS: u64 = 16;
/// Requests before the measured ones, in batches as large as the depth.
const WARM_UP_DEPTHS: u64 = 4;
/// Random places, drawn beforehand and used in turn: a power of two.
const PLACES: usize = 1024;
/// The least pause before and after the measured part, in microseconds: see [`settle`].
const SETTLE_MICROSECONDS: u64 = 300_000;

/// A measured part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Measured {
    pub(crate) operations: u64,
    pub(crate) doorbells: u64,
}

/// Why a measurement failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unmeasured {
    /// The session could not be opened.
    Open(OpenError),
    /// A request or a call failed.
    Failed(Error),
    /// The server completed a request that was not submitted.
    Unknown,
    /// Size, depth, blocks or percentage of reads are impossible.
    Configuration,
}

impl fmt::Display for Unmeasured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => write!(f, "open: {error}"),
            Self::Failed(error) => write!(f, "request failed: {error}"),
            Self::Unknown => f.write_str("completion of a request that was not submitted"),
            Self::Configuration => f.write_str(
                "window, blocks or rings do not hold the configured requests, or not this percentage of reads",
            ),
        }
    }
}

impl From<Error> for Unmeasured {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Opens a session, measures what `bench.measure` names, and closes it.
pub(crate) async fn run<P: Platform>(
    platform: &P,
    environment: &Environment,
    options: Options,
    bench: &Bench,
) -> Result<Measured, Unmeasured> {
    if bench.measure.starts_with("device-") {
        let device = Device::open(platform.clone(), environment, options).await.map_err(Unmeasured::Open)?;
        let measured = device::run(platform, &device, bench).await;
        device.close().await?;
        return measured;
    }
    let mut session = Session::open(platform.clone(), environment, options).await.map_err(Unmeasured::Open)?;
    let measured = match bench.measure.as_str() {
        "ipc-call" => calls(&session, bench.operations).await,
        _ => ring::run(&mut session, bench).await,
    };
    session.close().await?;
    measured
}

async fn calls<P: Platform>(session: &Session<P>, operations: u64) -> Result<Measured, Unmeasured> {
    let (platform, control) = (session.platform(), session.control());
    for _ in 0..WARM_UP_CALLS {
        control.ping().await.map_err(Error::from)?;
    }
    platform.marker(marker::BEGIN);
    for _ in 0..operations {
        control.ping().await.map_err(Error::from)?;
    }
    platform.marker(marker::END);
    Ok(Measured { operations, doorbells: 0 })
}

/// Sleeps until a whole second of the clock. Earlier log output is written meanwhile, and all tenants that measure
/// together begin, and close their sessions, together. Nothing may be in flight. A client that polls returns at once,
/// because its server does not sleep.
async fn settle<P: Platform>(platform: &P, options: Options) {
    if options.polls {
        return;
    }
    let earliest = after(platform, SETTLE_MICROSECONDS);
    let end = earliest.checked_next_multiple_of(platform.ticks_per_second()).unwrap_or(earliest);
    while platform.ticks() < end {
        platform.next_event().await;
    }
}

/// The requests of a measurement.
struct Shape {
    /// Blocks of each.
    blocks: u32,
    /// In flight.
    depth: u16,
    /// First blocks, used in turn.
    places: Box<[u64; PLACES]>,
    read_percent: u8,
}

impl Shape {
    fn new(geometry: &Geometry, bench: &Bench) -> Option<Self> {
        let blocks = bench.block_bytes.checked_div(geometry.block_bytes).filter(|blocks| *blocks > 0)?;
        let units = geometry.blocks.checked_div(u64::from(blocks)).filter(|units| *units > 0)?;
        let reads = u32::from(bench.depth).saturating_mul(u32::from(bench.read_percent));
        (bench.depth > 0 && bench.read_percent <= 100 && reads.is_multiple_of(100)).then_some(())?;
        let mut generator = Generator::new(bench.seed);
        let place = |_| generator.below(units).saturating_mul(u64::from(blocks));
        let places = Box::<[u64]>::from_iter((0..PLACES).map(place)).try_into().ok()?;
        Some(Self { blocks, depth: bench.depth, places, read_percent: bench.read_percent })
    }

    /// The operation of the request `index` of those in flight: the first ones read, as many as the percentage says.
    fn opcode(&self, index: u16) -> Opcode {
        let is_read =
            u32::from(index).saturating_mul(100) < u32::from(self.depth).saturating_mul(u32::from(self.read_percent));
        if is_read { Opcode::Read } else { Opcode::Write }
    }

    /// The place of the request `number` of all.
    #[inline]
    fn place(&self, number: u64) -> u64 {
        // Always below the array's length.
        self.places.get(number as usize % PLACES).copied().unwrap_or(0)
    }

    fn warm_up(&self) -> u64 {
        u64::from(self.depth).saturating_mul(WARM_UP_DEPTHS)
    }
}

/// Converts a status to a request's result.
fn succeeded(status: Option<Status>, raw: u16) -> Result<(), Error> {
    match status {
        Some(Status::Success) => Ok(()),
        Some(status) => Err(Error::status(status)),
        None => Err(Error::UnknownStatus(raw)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(depth: u16, read_percent: u8) -> Option<Shape> {
        let (blocks, max_blocks, window_bytes) = (1 << 20, 256, 1 << 20);
        let geometry = Geometry {
            blocks,
            block_bytes: 512,
            max_blocks,
            window_bytes,
            queue_pairs: 1,
            depth: 32,
            writable: 1,
            media: 1,
        };
        Shape::new(&geometry, &Bench { depth, read_percent, ..Bench::default() })
    }

    #[test]
    fn as_many_requests_in_flight_read_as_the_percentage_says() {
        for (depth, percent, expected) in [(32, 100, 32), (32, 0, 0), (32, 50, 16), (10, 70, 7), (1, 100, 1)] {
            let shape = shape(depth, percent).unwrap();
            let reads = (0..depth).filter(|index| shape.opcode(*index) == Opcode::Read).count();
            assert_eq!(reads, expected, "{depth} {percent}");
        }
    }

    #[test]
    fn a_share_that_the_depth_cannot_have_is_refused() {
        assert!(shape(32, 70).is_none() && shape(0, 100).is_none() && shape(100, 101).is_none());
    }

    #[test]
    fn places_lie_on_whole_requests_and_are_used_in_turn() {
        let shape = shape(32, 100).unwrap();
        assert!((0..PLACES as u64).all(|number| shape.place(number).is_multiple_of(8)));
        assert_eq!(shape.place(3), shape.place(3 + PLACES as u64));
        assert_ne!(shape.place(3), shape.place(4));
    }
}
