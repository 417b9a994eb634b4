//! The events of a session's requests, where they are traced.

use super::Session;
use crate::data_plane::in_flight::{Command, Served};
use blk_api::Status;
use blk_api::request::{Opcode, Request};
use blk_api::trace::{Event, Tracer, What};
use nvme_spec::{Cid, QueueId};
use platform::Platform;

/// The events of requests of one command, of which there are most: by a [`Tracer`], or none.
pub(super) trait Trace {
    /// The time in ticks, or any number.
    fn now(&self) -> u64;

    /// The session begins to submit to this queue pair, in the pass of the time `seen`. The next request has this number.
    fn turn(&mut self, seen: u64, queue: QueueId, number: u32);

    /// A request of so many blocks from `first` on was submitted, whose checks had ended at `checked`.
    fn submitted(&mut self, opcode: Opcode, first: u64, cid: Cid, blocks: u32, checked: u64);
}

impl Trace for () {
    #[inline(always)]
    fn now(&self) -> u64 {
        0
    }

    #[inline(always)]
    fn turn(&mut self, _: u64, _: QueueId, _: u32) {}

    #[inline(always)]
    fn submitted(&mut self, _: Opcode, _: u64, _: Cid, _: u32, _: u64) {}
}

impl<P: Platform> Trace for Tracer<P> {
    #[inline(always)]
    fn now(&self) -> u64 {
        Self::now(self)
    }

    #[inline(never)]
    fn turn(&mut self, seen: u64, queue: QueueId, number: u32) {
        self.write(&Event::turn(seen, Self::now(self), queue.0, number as u16));
    }

    #[inline(always)]
    fn submitted(&mut self, opcode: Opcode, first: u64, cid: Cid, blocks: u32, checked: u64) {
        let parts = [cid.0, blocks.wrapping_sub(1) as u16, checked as u16];
        Self::submitted(self, &Event::at(What::Whole, Self::now(self), opcode, first, parts));
    }
}

impl<P: Platform> Session<P> {
    /// The session is open.
    pub(crate) fn trace_opened(&mut self) {
        self.trace_of_all(What::Opened);
    }

    /// The trace begins in the middle of the session.
    pub(crate) fn trace_begun(&mut self) {
        if let Some(trace) = &mut self.trace {
            trace.mark(What::Begun, self.ring.taken());
        }
    }

    /// An event of all requests so far: the doorbell, or answers that are about to be published, or commands that are lost.
    #[inline]
    pub(super) fn trace_of_all(&mut self, what: What) {
        if let Some(trace) = &mut self.trace {
            trace.mark(what, self.ring.answered());
        }
    }

    /// Completions of this queue pair follow, taken `now`.
    pub(crate) fn trace_completions(&mut self, queue: QueueId, now: u64) {
        let number = self.ring.answered() as u16;
        if let Some(trace) = &mut self.trace {
            trace.write(&Event::of(What::Completions, now, [0, queue.0, number]));
        }
    }

    /// A command was completed, of the request in this place or with this number of its answer.
    #[inline(always)]
    pub(super) fn trace_completed(&mut self, what: What, (queue, cid): (QueueId, Cid), number: u16, now: u64) {
        if let Some(trace) = &mut self.trace {
            trace.write(&Event::of(what, now, [cid.0, queue.0, number]));
        }
    }

    /// A command failed, and waits for a retry if its request is in a place for that.
    pub(super) fn trace_failed(
        &mut self,
        command: &Command,
        status: nvme_spec::Status,
        id: (QueueId, Cid),
        kept: Option<u16>,
        now: u64,
    ) {
        let (what, number) = match (command.request, kept) {
            (Served::Part(place), _) => (What::PartCompleted, place),
            (Served::Whole(_), Some(place)) => (What::Kept, place),
            (Served::Whole(_), None) => (What::Completed, self.ring.answered() as u16),
        };
        self.trace_completed(What::Failed, id, status.to_raw(), now);
        self.trace_completed(what, id, number, now);
    }

    /// A request was taken, for several commands, in the pass of the time `now`.
    pub(super) fn trace_taken(&mut self, request: &Request, place: u16, now: u64) {
        let (first, blocks) = request.access().map_or((0, 0), |access| (access.lba, access.blocks));
        let bytes = blocks.wrapping_shl(self.bounds.block_shift.into());
        let number = self.ring.taken().wrapping_sub(1) as u16;
        let Some(trace) = &mut self.trace else { return };
        let time = trace.now();
        trace.write(&Event::turn(now, time, 0, number));
        trace.write(&if trace.has(request.opcode()) {
            let bytes = [bytes as u16, bytes.wrapping_shr(16) as u16];
            Event::at(What::Taken, time, request.opcode(), first, [place, bytes[0], bytes[1]])
        } else {
            Event::of(What::Skipped, 0, [0; 3])
        });
    }

    /// A command of the request in `place` was submitted, in the pass of the time `now`.
    pub(super) fn trace_part(&mut self, opcode: Opcode, command: &Command, (queue, cid): (QueueId, Cid), place: u16) {
        let blocks = command.work.bytes().wrapping_shr(self.bounds.block_shift.into());
        let number = self.ring.taken() as u16;
        let Some(trace) = self.trace.as_mut().filter(|trace| trace.has(opcode)) else { return };
        let time = trace.now();
        trace.write(&Event::turn(command.submitted, time, queue.0, number));
        let blocks_z = blocks.wrapping_sub(1) as u16;
        trace.write(&Event::at(What::Part, time, opcode, command.first, [cid.0, blocks_z, place]));
    }

    /// The request in a place is about to be answered.
    pub(super) fn trace_ended(&mut self, place: u16, status: Status) {
        let number = self.ring.answered() as u16;
        if let Some(trace) = &mut self.trace {
            trace.write(&Event::of(What::Ended, trace.now(), [place, number, status as u16]));
        }
    }

    /// The last request that was taken is about to be answered without a command, in the pass of the time `now`.
    pub(super) fn trace_refused(&mut self, status: Status, now: u64) {
        let (number, answer) = (self.ring.taken().wrapping_sub(1) as u16, self.ring.answered() as u16);
        if let Some(trace) = &mut self.trace {
            let time = trace.now();
            trace.write(&Event::turn(now, time, 0, number));
            trace.write(&Event::of(What::Refused, time, [0, answer, status as u16]));
        }
    }
}
