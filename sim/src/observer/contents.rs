//! Requests in the form that the checker of contents takes: blocks, hashes of their contents, and how far an answer can be
//! trusted.

use super::controllers::ControllerReports;
use super::session::{Flight, PARTS, Session};
use crate::disk::Disk;
use blk_api::Status;
use blk_api::operation::{Kind, Opcode, Right};
use sim_check::{Data, Findings, Hash, Operation, Outcome, Persistence, RequestId, hash_block};
use std::sync::Arc;

/// Returns the content of a disk before the run, block by block.
pub(super) fn initial(disk: &Disk, block_bytes: usize) -> Box<dyn Fn(u64) -> Hash> {
    let base = Arc::clone(&disk.base);
    if base.is_zeroes() {
        let zeroes = hash_block(&vec![0; block_bytes]);
        return Box::new(move |_| zeroes);
    }
    Box::new(move |block| {
        let mut bytes = vec![0; block_bytes];
        base.read(block * block_bytes as u64, &mut bytes);
        hash_block(&bytes)
    })
}

/// Returns the number of a part of a request.
pub(super) fn request_id(session: u32, flight: &Flight, part: u64) -> RequestId {
    RequestId { session, number: flight.number * PARTS + part }
}

/// Reports a session's request, with the content of each block that it writes.
pub(super) fn asked(
    data: &mut Data,
    session: &Session,
    number: u32,
    flight: &Flight,
    mut hashes: &[Hash],
    now_ns: u64,
) {
    let (controller, nsid) = (session.controller, session.nsid);
    let persistence = Persistence::Cached;
    if flight.opcode == Opcode::Flush {
        return data.submitted(request_id(number, flight, 0), now_ns, controller, nsid, Operation::Flush);
    }
    for (part, range) in (0..).zip(&flight.ranges) {
        let operation = match flight.opcode {
            Opcode::Read | Opcode::Compare => Operation::Read(*range),
            // It shows no content.
            Opcode::Verify => return,
            Opcode::Write => {
                let Some((own, rest)) = hashes.split_at_checked(range.count as usize) else { return };
                hashes = rest;
                Operation::Write { range: *range, hashes: own, persistence }
            }
            Opcode::WriteZeroes => Operation::Zeroes { range: *range, persistence },
            Opcode::Discard => Operation::Discard(std::slice::from_ref(range)),
            Opcode::Flush => Operation::Flush,
        };
        data.submitted(request_id(number, flight, part), now_ns, controller, nsid, operation);
    }
}

/// How a request ended, as far as its blocks are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// The request was done.
    Done,
    /// The request was done or not, and is over.
    Perhaps,
    /// The request was done or not, and may still be.
    Unknown,
}

impl End {
    /// Returns the end of a request that a server of this controller answered with `status`.
    pub(super) fn of(flight: &Flight, status: Option<Status>, controller: Option<&ControllerReports>) -> Self {
        let reset = controller.is_some_and(|controller| controller.was_reset_since(flight.asked_ns));
        let forgotten = controller.is_some_and(ControllerReports::may_have_forgotten);
        match status {
            Some(Status::Success) if forgotten && flight.opcode.right() != Some(Right::Read) => Self::Perhaps,
            Some(Status::Success) => Self::Done,
            // The server gave up on a controller that could not be reset.
            Some(Status::ControllerReset | Status::DeviceGone) if !reset => Self::Unknown,
            _ => Self::Perhaps,
        }
    }
}

/// Whether a success of this operation shows that its blocks have the content of the window.
pub(super) const fn shows(opcode: Opcode) -> bool {
    opcode.moves_data() && matches!(opcode.kind(), Kind::Read)
}

/// Reports how a request ended, with the content of each block that a success shows.
pub(super) fn answered(
    data: &mut Data,
    number: u32,
    flight: &Flight,
    end: End,
    mut hashes: &[Hash],
    now_ns: u64,
    findings: &mut Findings,
) {
    let reads = shows(flight.opcode) && end == End::Done;
    for part in 0..flight.ranges.len().max(1) {
        let outcome = match (flight.ranges.get(part).filter(|_| reads), end) {
            (Some(range), _) => {
                let Some((own, rest)) = hashes.split_at_checked(range.count as usize) else { return };
                hashes = rest;
                Outcome::Read(own)
            }
            (None, End::Done) => Outcome::Done,
            (None, End::Perhaps) => Outcome::Failed,
            (None, End::Unknown) => Outcome::Unknown,
        };
        data.answered(request_id(number, flight, part as u64), now_ns, outcome, findings);
    }
}
