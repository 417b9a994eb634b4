//! Turns the entries on a session's ring into commands on its queue pairs.
//!
//! [`Session::take_turn`] submits as much as the scheduler's quantum lets it. Most requests go the short way; the general way decides
//! about all others. Left out: a queue pair's part (`io_queue`), and how requests are cut ([`nvme_driver::cursor`]).

use super::trace::Trace;
use super::{ServeError, Session};
use crate::data_plane::extents::Extents;
use crate::data_plane::extents::{self, CommandLimits, Piece};
use crate::data_plane::in_flight::{Accounting, Command, Served, Work};
use crate::data_plane::io_queue::IoQueue;
use crate::data_plane::queues::Queues;
use crate::data_plane::readiness::Readiness;
use crate::data_plane::schedule::Batch;
use blk_api::Status;
use blk_api::request::{Opcode, Segment, Simple};
use blk_api::ring::RingError;
use core::ops::Range;
use extent_table::Miss;
use nvme_driver::command::Target;
use nvme_driver::fault::DeviceFault;
use platform::Platform;
use scheduler::Quantum;

/// Outcome of [`Session::take_request`].
enum Taken {
    /// No entry, or no room for its answer.
    Nothing,
    /// An entry that was answered at once.
    Answered,
    /// A request, which is being cut.
    Request,
}

/// Rest of the ring after [`Session::submit_simple`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rest {
    /// No entry.
    None,
    /// Maybe an entry: it stopped for another reason.
    Unknown,
}

/// A session's turn: its quantum, with the queue pairs, extents and batch that it works on.
pub(crate) struct Turn<'a, P: Platform> {
    queues: &'a mut Queues<P>,
    extents: Extents<'a>,
    batch: Batch<'a>,
    /// Commands of the smallest piece that may still be submitted.
    left: u16,
    limits: CommandLimits,
    now: u64,
}

impl<P: Platform> Turn<'_, P> {
    /// A command was submitted.
    #[inline(always)]
    fn submitted(&mut self, command: &Command) {
        self.batch.submitted(command);
        self.left = self.left.saturating_sub(pieces(command.work.bytes()));
    }
}

/// Number of commands of the smallest piece that a command of `bytes` counts as.
#[inline(always)]
const fn pieces(bytes: u32) -> u16 {
    if bytes <= scheduler::MIN_PIECE {
        return 1;
    }
    let pieces = bytes.div_ceil(scheduler::MIN_PIECE);
    if pieces > u16::MAX as u32 { u16::MAX } else { pieces as u16 }
}

/// Submits the one command of a read or write of session `number`, at the time `now`. `None` for one that needs another way.
#[inline(always)]
fn submit_one<P: Platform>(
    queue: &mut IoQueue<P>,
    target: &Target,
    extents: &mut Extents<'_>,
    limits: CommandLimits,
    (number, now): (u8, u64),
    request: &Simple,
    trace: &mut impl Trace,
) -> Option<Command> {
    let piece = extents::simple(request, extents, limits)?;
    let checked = trace.now();
    let Simple { opcode, lba, user_data, segment: Segment { offset, len }, .. } = *request;
    let work = Work::new(number, opcode, len);
    let command = Command { work, submitted: now, first: lba, offset, request: Served::Whole(user_data) };
    let cid = queue.queue.submit(target, opcode, piece, len, command, Accounting::Counted).ok()?;
    trace.submitted(opcode, lba, cid, request.blocks, checked);
    Some(command)
}

impl<P: Platform> Session<P> {
    /// A turn within a quantum of the scheduler.
    #[inline(always)]
    pub(crate) fn turn<'a>(
        &mut self,
        queues: &'a mut Queues<P>,
        extents: Extents<'a>,
        batch: Batch<'a>,
        quantum: Quantum,
        now: u64,
    ) -> Turn<'a, P> {
        // One block always goes.
        let CommandLimits { data_blocks, bare_blocks, block_shift } = self.command_limits;
        let data_blocks = (quantum.bytes >> block_shift).clamp(1, data_blocks);
        let bare_blocks = (quantum.named >> block_shift).clamp(1, bare_blocks);
        let limits = CommandLimits { data_blocks, bare_blocks, block_shift };
        if let Some(fastest) = quantum.fastest {
            // The first is the fastest. One that is full gives way to slower ones alone.
            let Range { start, end } = self.queues;
            self.next_queue = start.saturating_add(fastest).min(end.saturating_sub(1));
            self.usable = self.next_queue..end;
        }
        Turn { queues, extents, batch, left: quantum.commands, limits, now }
    }

    /// The session's readiness without a turn: [`Readiness::WaitsTurn`] if it has entries, or the rest of one, and room for their
    /// commands. Where it has none in queue pairs that it shares, it is polled again when there is some.
    ///
    /// # Errors
    /// The client broke the protocol, and the session must end.
    #[inline]
    pub(crate) fn wants(&mut self, queues: &mut Queues<P>) -> Result<Readiness, RingError> {
        if !self.engine.is_cutting() {
            if !self.ring.has_entries()? {
                return Ok(Readiness::Asleep);
            }
            if !self.can_answer()? {
                return Ok(Readiness::HeldBack);
            }
        }
        Ok(if self.has_room(queues) { Readiness::WaitsTurn } else { Readiness::NoRoom })
    }

    /// Submits commands until the turn's quantum is used, or there is nothing to submit or no room; reports to the batch whether
    /// the session wants another turn, and returns its readiness. Most requests go the short way ([`Session::submit_simple`]).
    ///
    /// # Errors
    /// [`ServeError`]: the client's, and the session must end; or the device's, and it must be reset.
    #[inline]
    pub(crate) fn take_turn(&mut self, turn: &mut Turn<'_, P>) -> Result<Readiness, ServeError> {
        let found = loop {
            if !self.engine.is_cutting() {
                // The code without a tracer has nothing of it.
                let rest =
                    if self.trace.is_some() { self.submit_traced(turn) } else { self.submit_simple(turn, &mut ()) };
                if rest? == Rest::None {
                    break Readiness::Asleep;
                }
            }
            let found = self.wants(turn.queues)?;
            if found != Readiness::WaitsTurn || turn.left == 0 {
                break found;
            }
            self.submit_next(turn)?;
        };
        turn.batch.set_waiting(self.number, found == Readiness::WaitsTurn);
        Ok(found)
    }

    /// [`Session::submit_simple`] with a tracer. Where some kinds of requests alone are traced, all go the general way.
    #[inline(never)]
    fn submit_traced(&mut self, turn: &mut Turn<'_, P>) -> Result<Rest, RingError> {
        let Some(mut trace) = self.trace.take_if(|trace| trace.has_all()) else { return Ok(Rest::Unknown) };
        let rest = self.submit_simple(turn, &mut *trace);
        self.trace = Some(trace);
        rest
    }

    /// Submits reads and writes that are one command each, until the ring's next entry is another request or none, the turn
    /// is over, or there is no room. An entry that meets any obstacle stays on the ring: [`Session::submit_next`] decides
    /// about it.
    ///
    /// # Errors
    /// As [`Session::wants`].
    #[inline(always)]
    fn submit_simple(&mut self, turn: &mut Turn<'_, P>, trace: &mut impl Trace) -> Result<Rest, RingError> {
        let Some(number) = self.queue_with_room(turn.queues) else { return Ok(Rest::Unknown) };
        let Turn { queues, extents, batch, limits, now, .. } = turn;
        let Some(queue) = queues.get_mut(number) else { return Ok(Rest::Unknown) };
        let (limits, now, mut left) = (*limits, *now, turn.left);
        trace.turn(now, queue.queue.pair.id(), self.ring.taken());
        let (mut count, mut answerable) = (0u32, 0);
        let ended = loop {
            if left == 0 || !queue.has_room() {
                break Ok(Rest::Unknown);
            }
            if answerable == 0 {
                answerable = match self.ring.answerable(self.outstanding.wrapping_add(count)) {
                    Ok(0) => break Ok(Rest::Unknown),
                    Ok(answerable) => answerable,
                    Err(error) => break Err(error),
                };
            }
            let head = match self.ring.peek() {
                Ok(Some(head)) => head,
                Ok(None) => break Ok(Rest::None),
                Err(error) => break Err(error),
            };
            let Some(request) = head.simple(&self.bounds) else { break Ok(Rest::Unknown) };
            let (number, target) = (self.number, &self.target);
            // Reads have code of their own, in which nothing is left of the table of operations.
            let submitted = match request {
                Simple { opcode: Opcode::Read, .. } => {
                    let read = Simple { opcode: Opcode::Read, ..request };
                    submit_one(queue, target, extents, limits, (number, now), &read, trace)
                }
                other => submit_one(queue, target, extents, limits, (number, now), &other, trace),
            };
            let Some(command) = submitted else { break Ok(Rest::Unknown) };
            self.ring.advance();
            batch.submitted(&command);
            left = left.saturating_sub(pieces(request.segment.len));
            (count, answerable) = (count.wrapping_add(1), answerable.wrapping_sub(1));
        };
        turn.left = left;
        self.in_flight = self.in_flight.wrapping_add(count);
        self.outstanding = self.outstanding.wrapping_add(count);
        self.statistics.requests = self.statistics.requests.wrapping_add(u64::from(count));
        self.statistics.commands = self.statistics.commands.wrapping_add(u64::from(count));
        ended
    }

    /// Goes on with the request that is being cut into commands, or with the ring's next entry, whatever that is.
    ///
    /// # Errors
    /// As [`Session::take_turn`].
    #[inline(never)]
    fn submit_next(&mut self, turn: &mut Turn<'_, P>) -> Result<(), ServeError> {
        if !self.engine.is_cutting() {
            match self.take_request(turn)? {
                Taken::Nothing | Taken::Answered => return Ok(()),
                Taken::Request => {}
            }
        }
        self.submit_commands(turn)
    }

    /// Whether a command could be submitted; if not, the session is polled again when one can.
    #[inline]
    pub(super) fn has_room(&self, queues: &mut Queues<P>) -> bool {
        let has_room = queues.with_room(&self.usable, self.next_queue).is_some();
        if !has_room {
            queues.note_waiter(self.usable.clone());
        }
        has_room
    }

    /// Returns whether one more entry may be taken: its request could be answered, and the session is within its refusals.
    #[inline]
    pub(super) fn can_answer(&mut self) -> Result<bool, RingError> {
        Ok(self.refusals_left > 0 && self.ring.answerable(self.outstanding)? > 0)
    }

    /// Takes an entry off the ring, past the door. A refused one is answered at once.
    fn take_request(&mut self, turn: &mut Turn<'_, P>) -> Result<Taken, ServeError> {
        if self.ring.answerable(self.outstanding)? == 0 {
            return Ok(Taken::Nothing);
        }
        let Some(entry) = self.ring.take()? else { return Ok(Taken::Nothing) };
        self.statistics.requests = self.statistics.requests.wrapping_add(1);
        self.outstanding = self.outstanding.wrapping_add(1);
        let refusal = match entry.check(&self.bounds) {
            Ok(request) => match self.abilities.answer_now(request.opcode()) {
                None => {
                    let place = self.engine.begin(request, entry.user_data)?;
                    if let Some(latencies) = &mut self.latencies {
                        latencies.taken(place, turn.now);
                    }
                    self.trace_taken(&request, place, turn.now);
                    return Ok(Taken::Request);
                }
                Some(answer) => answer,
            },
            Err(status) => {
                self.statistics.refused = self.statistics.refused.wrapping_add(1);
                status
            }
        };
        self.refuse(turn);
        self.trace_refused(refusal, turn.now);
        self.answer(entry.user_data, refusal, 0);
        Ok(Taken::Answered)
    }

    /// Submits commands for the request that is being cut until it is done, or the turn is over or places in flight have run out: then
    /// it waits. One that misses is answered so when those of its commands that were submitted are done. After a fault it stays for the
    /// reset, which answers it.
    fn submit_commands(&mut self, turn: &mut Turn<'_, P>) -> Result<(), ServeError> {
        let mut status = Status::Success;
        while let Some(opcode) = self.engine.to_submit() {
            let Some(queue) = self.queue_with_room(turn.queues).filter(|_| turn.left > 0) else { return Ok(()) };
            let (extents, limits) = (&mut turn.extents, self.abilities.limits(opcode, turn.limits));
            match self.engine.next(|right, first, blocks| extents.run(right, first, blocks), limits) {
                Ok(Some((piece, place))) => self.submit(turn, queue, opcode, piece, place)?,
                Ok(None) => return Err(DeviceFault::OwnMemory.into()),
                Err(miss) => {
                    status = self.miss(miss);
                    self.refuse(turn);
                    break;
                }
            }
        }
        let answer = self.engine.end(status);
        self.answer_if(answer);
        if self.retries.are_due || self.retrying > 0 {
            self.go_on_with_retry(turn.now);
        }
        Ok(())
    }

    /// Counts an entry that was answered without a command, against the turn and against the session's refusals until the
    /// tick. Beyond them the session waits, because refusals take the server's time, and so everybody's.
    #[cold]
    fn refuse(&mut self, turn: &mut Turn<'_, P>) {
        turn.batch.refused(self.number);
        self.refusals_left = self.refusals_left.saturating_sub(1);
        turn.left = if self.refusals_left == 0 { 0 } else { turn.left.saturating_sub(1) };
    }

    /// Counts a request that lacks the right to its next blocks, or the record of them. Returns its status.
    #[cold]
    fn miss(&mut self, miss: Miss) -> Status {
        let (status, count) = match miss {
            Miss::NotInstalled => (Status::NotInstalled, &mut self.statistics.not_installed),
            Miss::Forbidden => (Status::Forbidden, &mut self.statistics.forbidden),
        };
        *count = count.wrapping_add(1);
        status
    }

    /// The queue pair of this turn, or another if that is full: a batch stays together, so that one doorbell rings it.
    #[inline]
    fn queue_with_room(&mut self, queues: &Queues<P>) -> Option<u16> {
        self.next_queue = queues.with_room(&self.usable, self.next_queue)?;
        Some(self.next_queue)
    }

    fn submit(
        &mut self,
        turn: &mut Turn<'_, P>,
        queue: u16,
        opcode: Opcode,
        piece: Piece,
        place: u16,
    ) -> Result<(), DeviceFault> {
        let bytes = piece.blocks << self.bounds.block_shift;
        let work = Work::new(self.number, opcode, bytes).retried(self.retrying);
        // Windows are smaller than 4 GiB.
        let (first, offset, request) = (piece.first, piece.offset as u32, Served::Part(place));
        let command = Command { work, submitted: turn.now, first, offset, request };
        let Some(queue) = turn.queues.get_mut(queue) else { return Err(DeviceFault::OwnMemory) };
        let cid = queue.queue.submit(&self.target, opcode, piece, bytes, command, Accounting::Counted)?;
        let id = (queue.queue.pair.id(), cid);
        self.trace_part(opcode, &command, id, place);
        self.in_flight = self.in_flight.wrapping_add(1);
        turn.submitted(&command);
        self.statistics.commands = self.statistics.commands.wrapping_add(1);
        Ok(())
    }
}
