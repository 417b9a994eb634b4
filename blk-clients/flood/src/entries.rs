//! Entries on the ring: valid ones, and those that the server refuses.

use crate::counts::count;
use crate::flooder::{Flooder, Step};
use blk_client::{Entry, Error, Geometry, Opcode, Segment, Status};
use platform::Platform;
use workload::{Flood, FloodKind};

/// The result of taking completions.
#[derive(Default)]
struct Taken {
    completions: u32,
    /// A block whose record is missing.
    missed: Option<u64>,
    /// The server has ended the session.
    is_over: bool,
}

impl<P: Platform> Flooder<'_, P> {
    /// Publishes requests while there is room, and takes the completions.
    pub(crate) async fn request(&mut self, kind: FloodKind) -> Step {
        self.request_bytes = self.session.as_ref().map_or(0, |session| {
            let entry = entry(kind, self.flood, session.geometry(), 0);
            u64::from(entry.blocks).saturating_mul(session.geometry().block_bytes.into())
        });
        if self.session.is_none() {
            self.signal();
            return Ok(());
        }
        match self.exchange(kind).await {
            Ok(Taken { is_over: true, .. }) | Err(_) => self.close().await,
            Ok(Taken { missed: Some(block), .. }) if matches!(kind, FloodKind::Requests | FloodKind::Zeroes) => {
                self.ask(block, 1).await;
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }

    async fn exchange(&mut self, kind: FloodKind) -> Result<Taken, Error> {
        if self.flood.waits {
            while self.submit(kind)? {}
            self.publish()?;
        } else if self.submit(kind)? {
            self.publish()?;
        } else {
            // Polling for signals lets a server of the same priority run; it never sleeps.
            self.signal();
            self.platform.poll_event();
        }
        let taken = self.take()?;
        if self.flood.waits
            && taken.completions == 0
            && let Some(session) = &mut self.session
        {
            session.wait().await?;
        }
        Ok(taken)
    }

    /// Puts the next entry on the ring; `false` when there is no room for it.
    fn submit(&mut self, kind: FloodKind) -> Result<bool, Error> {
        let most = match self.flood.depth {
            0 => u32::MAX,
            depth => u32::from(depth),
        };
        let Some(session) = self.session.as_mut().filter(|_| self.in_flight < most) else { return Ok(false) };
        let entry = entry(kind, self.flood, session.geometry(), self.counts.requests);
        let submitted = session.submit(&entry)?;
        if submitted {
            count(&mut self.counts.requests);
            self.in_flight = self.in_flight.saturating_add(1);
        }
        Ok(submitted)
    }

    fn publish(&mut self) -> Result<(), Error> {
        self.session.as_mut().map_or(Ok(()), |session| session.publish())
    }

    fn take(&mut self) -> Result<Taken, Error> {
        let mut taken = Taken::default();
        let Some(session) = &mut self.session else { return Ok(taken) };
        while let Some(completed) = session.complete()? {
            taken.completions = taken.completions.saturating_add(1);
            match completed.status() {
                Some(Status::Success) => {
                    count(&mut self.counts.done);
                    self.counts.bytes = self.counts.bytes.saturating_add(self.request_bytes);
                }
                status => {
                    count(&mut self.counts.refused);
                    taken.is_over |= matches!(status, Some(Status::Closed | Status::DeviceGone));
                    if status == Some(Status::NotInstalled) {
                        taken.missed = Some(completed.user_data >> COUNT_BITS);
                    }
                }
            }
        }
        session.publish_taken()?;
        self.in_flight = self.in_flight.saturating_sub(taken.completions);
        Ok(taken)
    }
}

/// Bits of a request's word that count requests; above them stands the block.
const COUNT_BITS: u32 = 24;

/// Makes request number `number` of a flood.
fn entry(kind: FloodKind, flood: &Flood, geometry: &Geometry, number: u64) -> Entry {
    let number = number.wrapping_add(flood.seed);
    let valid = valid(flood, geometry, number);
    match kind {
        FloodKind::Invalid => invalid(valid, geometry, number),
        FloodKind::Forbidden => Entry { lba: geometry.blocks.saturating_add(number & 0xff), ..valid },
        FloodKind::TooLarge => too_large(valid, geometry),
        FloodKind::Zeroes => zeroes(valid, geometry, number),
        // The kinds below make no requests.
        FloodKind::Requests
        | FloodKind::NotInstalled
        | FloodKind::PolicyCalls
        | FloodKind::Evictions
        | FloodKind::OpenClose
        | FloodKind::Signals
        | FloodKind::Calls => valid,
    }
}

/// Makes a valid request of one block.
fn valid(flood: &Flood, geometry: &Geometry, number: u64) -> Entry {
    let blocks = if flood.blocks == 0 { geometry.blocks } else { flood.blocks.min(geometry.blocks) };
    let lba = number.checked_rem(blocks).unwrap_or(0);
    let reads = number.checked_rem(100).unwrap_or(0) < u64::from(flood.read_percent);
    let opcode = if reads { Opcode::Read } else { Opcode::Write };
    let counted = number & (1u64 << COUNT_BITS).wrapping_sub(1);
    let mut entry = Entry {
        opcode: opcode as u8,
        segment_count: 1,
        blocks: 1,
        lba,
        user_data: lba << COUNT_BITS | counted,
        ..Entry::default()
    };
    first(&mut entry, |segment| segment.len = geometry.block_bytes);
    entry
}

/// Makes an entry with one impossible word.
fn invalid(mut entry: Entry, geometry: &Geometry, number: u64) -> Entry {
    // A window is below 4 GiB: the session checked this at opening.
    let window_bytes = geometry.window_bytes as u32;
    match number.checked_rem(8).unwrap_or(0) {
        0 => entry.opcode = u8::MAX,
        1 => entry.segment_count = u8::MAX,
        2 => entry.segment_count = 0,
        3 => entry.reserved = 1,
        4 => first(&mut entry, |segment| segment.offset = window_bytes),
        5 => first(&mut entry, |segment| segment.offset = 2),
        6 => first(&mut entry, |segment| segment.len = 0),
        _ => first(&mut entry, |segment| segment.len = geometry.block_bytes.saturating_mul(2)),
    }
    entry
}

/// Makes a request of the maximum number of blocks that moves no data.
fn zeroes(entry: Entry, geometry: &Geometry, number: u64) -> Entry {
    let opcode = if number.is_multiple_of(2) { Opcode::WriteZeroes } else { Opcode::Discard };
    let blocks = u32::try_from(geometry.blocks).unwrap_or(u32::MAX).min(geometry.max_blocks);
    Entry { opcode: opcode as u8, segment_count: 0, segments: Default::default(), blocks, lba: 0, ..entry }
}

/// Makes a request of one block more than the maximum.
fn too_large(mut entry: Entry, geometry: &Geometry) -> Entry {
    let blocks = geometry.max_blocks.saturating_add(1);
    (entry.blocks, entry.lba) = (blocks, 0);
    first(&mut entry, |segment| segment.len = geometry.block_bytes.saturating_mul(blocks));
    entry
}

/// Changes the first range.
fn first(entry: &mut Entry, change: impl FnOnce(&mut Segment)) {
    if let Some(segment) = entry.segments.first_mut() {
        change(segment);
    }
}
