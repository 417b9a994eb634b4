//! One session: from the entries on its ring to commands on its queue pairs, and back.
//!
//! A visit is [`Session::completed`] for what came back, [`Session::take_turn`] when the scheduler says so, and
//! [`Session::end_visit`]. Everything a command needs, identifier, slot, list pages and the place of its answer, is reserved
//! before the request is touched, so that nothing on the way back can fail for want of room. A queue pair's part of the way
//! is `io_queue`, and whose queue pairs they are is `queues`; how a session ends, or goes through a reset, is `ending`.

mod ending;

use crate::dma::Window;
use crate::extents::Extents;
use crate::fault::DeviceFault;
use crate::in_flight::{Command, Served, Work};
use crate::io_queue::Target;
use crate::queues::Queues;
use crate::schedule::Ledger;
use crate::seat::Visit;
use crate::split::{self, CommandLimits, Cursor, Piece};
use alloc::vec::Vec;
use blk_api::Status;
use blk_api::config::{Interrupts, SessionConfig};
use blk_api::request::{Limits, Opcode, Request};
use blk_api::ring::{Completed, RingError, ServerEnd};
use blk_api::session::Statistics;
use core::ops::Range;
use extent_table::Miss;
use nvme_spec::nvm::Blocks;
use nvme_spec::{Nsid, StatusCode};
use platform::{Cap, Kernel, Notification, Platform};
use scheduler::{Budget, Kind};

/// Why serving a session came to an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trouble {
    /// Its client broke the protocol: this session ends.
    Client(RingError),
    /// The controller cannot be trusted: it is reset.
    Device(DeviceFault),
}

impl From<RingError> for Trouble {
    fn from(error: RingError) -> Self {
        Self::Client(error)
    }
}

impl From<DeviceFault> for Trouble {
    fn from(fault: DeviceFault) -> Self {
        Self::Device(fault)
    }
}

/// A request of several commands that are on their way.
///
/// `open` counts the commands submitted and not completed, plus one while a cursor has more to submit.
#[derive(Clone, Copy, Debug)]
struct Pending {
    user_data: u64,
    open: u32,
    status: Status,
    device_status: u16,
}

/// Which operations without data the controller knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Abilities {
    /// Write Zeroes.
    pub write_zeroes: bool,
    /// Dataset Management with deallocation.
    pub discard: bool,
}

impl Abilities {
    /// How to answer a request at once: a discard is a hint and may be ignored, zeroes cannot be had without the
    /// command.
    const fn answer_now(self, opcode: Opcode) -> Option<Status> {
        match opcode {
            Opcode::Discard if !self.discard => Some(Status::Success),
            Opcode::WriteZeroes if !self.write_zeroes => Some(Status::DeviceError),
            _ => None,
        }
    }
}

/// What [`Session::take_request`] found.
enum Taken {
    /// No entry, or no room for its answer.
    Nothing,
    /// An entry that was answered at once.
    Answered,
    /// A request, and its place among the pending.
    Request(Cursor, u16),
}

/// What a session may do now, and where it is written down.
pub(crate) struct Turn<'a, P: Platform> {
    queues: &'a mut Queues<P>,
    extents: Extents<'a>,
    ledger: Ledger<'a>,
    /// Commands of the smallest piece that may still be given.
    left: u16,
    limits: CommandLimits,
    now: u64,
}

impl<P: Platform> Turn<'_, P> {
    /// A command was submitted.
    #[inline(always)]
    fn submitted(&mut self, command: &Command) {
        self.ledger.submitted(command);
        self.left = self.left.saturating_sub(pieces(command.work.bytes()));
    }
}

/// Commands of the smallest piece as which a command of so many bytes counts.
#[inline(always)]
const fn pieces(bytes: u32) -> u16 {
    if bytes <= scheduler::MIN_PIECE {
        return 1;
    }
    let pieces = bytes.div_ceil(scheduler::MIN_PIECE);
    if pieces > u16::MAX as u32 { u16::MAX } else { pieces as u16 }
}

/// An open session.
pub(crate) struct Session<P: Platform> {
    pub config: SessionConfig,
    pub limits: Limits,
    /// Its number.
    number: u8,
    /// The numbers of its queue pairs.
    pub queues: Range<u16>,
    pub statistics: Statistics,
    /// Its interrupts by mode; the sum is among the statistics.
    pub interrupts: report::Interrupts,
    pub target: Target,
    /// Blocks of the namespace when the session was opened.
    pub namespace_blocks: u64,
    ring: ServerEnd<P::Memory>,
    client: Cap<Notification>,
    kernel: P::Kernel,
    command_limits: CommandLimits,
    abilities: Abilities,
    /// Entries that may be answered without a command between two ticks, and how many of them are left.
    refusals: u16,
    refusals_left: u16,
    /// The queue pair at which the next batch begins.
    turn: u16,
    /// The client was asked to signal when it submits.
    is_signalled: bool,
    /// Its commands in flight.
    in_flight: u32,
    /// Its requests that were taken and not answered.
    outstanding: u32,
    /// Those of them that were not submitted as one command.
    pending: Vec<Option<Pending>>,
    free: Vec<u16>,
    /// The request that is being cut into commands, and its place in `pending`.
    current: Option<(Cursor, u16)>,
}

/// What a session is made of.
pub(crate) struct Parts<P: Platform> {
    pub config: SessionConfig,
    pub limits: Limits,
    pub command_limits: CommandLimits,
    pub abilities: Abilities,
    pub window: Window,
    pub namespace_blocks: u64,
    pub refusals: u16,
    pub number: u8,
    pub queues: Range<u16>,
    pub ring: ServerEnd<P::Memory>,
    pub client: Cap<Notification>,
    pub kernel: P::Kernel,
}

impl<P: Platform> Session<P> {
    /// An open session with nothing in flight.
    pub(crate) fn new(parts: Parts<P>) -> Self {
        let Parts { config, limits, command_limits, abilities, window, namespace_blocks, refusals, .. } = parts;
        let Parts { number, queues, ring, client, kernel, .. } = parts;
        // A ring has at most 4096 entries (`blk_api::ring::MAX_ENTRIES`).
        let entries = config.ring_entries.min(blk_api::ring::MAX_ENTRIES) as u16;
        Self {
            target: Target { nsid: Nsid(config.nsid), window },
            namespace_blocks,
            config,
            limits,
            number,
            refusals,
            refusals_left: refusals,
            turn: queues.start,
            queues,
            is_signalled: true,
            in_flight: 0,
            outstanding: 0,
            statistics: Statistics::default(),
            interrupts: report::Interrupts::default(),
            ring,
            client,
            kernel,
            command_limits,
            abilities,
            pending: (0..entries).map(|_| None).collect(),
            free: (0..entries).rev().collect(),
            current: None,
        }
    }

    /// Counts an interrupt by its mode.
    pub(crate) fn count_interrupt(&mut self, by: Interrupts) {
        self.statistics.interrupts = self.statistics.interrupts.wrapping_add(1);
        let count = match by {
            Interrupts::Msix => &mut self.interrupts.msix,
            Interrupts::Msi => &mut self.interrupts.msi,
            Interrupts::Intx => &mut self.interrupts.intx,
        };
        *count = count.wrapping_add(1);
    }

    /// Has these queue pairs from now on, whose list pages suffice for so many bytes. Nothing is in flight on those that it
    /// has no more.
    pub(crate) fn set_queues(&mut self, queues: Range<u16>, max_transfer: u64) {
        let data_blocks = u32::try_from(max_transfer >> self.limits.block_shift).unwrap_or(Blocks::MAX);
        self.command_limits.data_blocks = self.command_limits.data_blocks.min(data_blocks);
        if !queues.contains(&self.turn) {
            self.turn = queues.start;
        }
        self.queues = queues;
    }

    /// What a budget of the scheduler lets it do.
    #[inline]
    pub(crate) fn turn<'a>(
        &self,
        queues: &'a mut Queues<P>,
        extents: Extents<'a>,
        ledger: Ledger<'a>,
        budget: Budget,
        now: u64,
    ) -> Turn<'a, P> {
        // One block always goes.
        let CommandLimits { data_blocks, bare_blocks, block_shift } = self.command_limits;
        let data_blocks = (budget.bytes >> block_shift).clamp(1, data_blocks);
        let bare_blocks = (budget.named >> block_shift).clamp(1, bare_blocks);
        let limits = CommandLimits { data_blocks, bare_blocks, block_shift };
        Turn { queues, extents, ledger, left: budget.commands, limits, now }
    }

    /// Whether it has entries, or the rest of one, and room for their commands. Where it has none in queue pairs that it
    /// shares, it is looked at again when there is some.
    ///
    /// # Errors
    /// The client broke the protocol, and the session must end.
    #[inline]
    pub(crate) fn wants_turn(&mut self, queues: &mut Queues<P>) -> Result<bool, RingError> {
        let has_work = self.current.is_some() || (self.can_answer()? && self.ring.has_entries()?);
        Ok(has_work && self.has_room(queues))
    }

    /// Submits commands until the turn's budget is used, or there is nothing to submit or no room, and says whether it wants
    /// another turn. Most requests go the short way ([`Session::submit_simple`]).
    ///
    /// # Errors
    /// [`Trouble`]: the client's, and the session must end; or the device's, and it must be reset.
    #[inline]
    pub(crate) fn take_turn(&mut self, turn: &mut Turn<'_, P>) -> Result<(), Trouble> {
        let waits = loop {
            if self.current.is_none() {
                self.submit_simple(turn)?;
            }
            if !self.wants_turn(turn.queues)? {
                break false;
            }
            if turn.left == 0 {
                break true;
            }
            self.submit_next(turn)?;
        };
        turn.ledger.set_waiting(self.number, waits);
        Ok(())
    }

    /// Submits reads and writes that are one command each, until the ring's next entry is another request or none, the turn
    /// is over, or there is no room. An entry that meets any obstacle stays on the ring: [`Session::submit_next`] decides
    /// about it.
    ///
    /// # Errors
    /// As [`Session::wants_turn`].
    #[inline(always)]
    fn submit_simple(&mut self, turn: &mut Turn<'_, P>) -> Result<(), RingError> {
        let Some(number) = self.queue_with_room(turn.queues) else { return Ok(()) };
        let Turn { queues, extents, ledger, left, limits, now } = turn;
        let Some(queue) = queues.get_mut(number) else { return Ok(()) };
        let (mut count, mut answerable) = (0u32, 0);
        let ended = loop {
            if *left == 0 || !queue.has_room() {
                break Ok(());
            }
            if answerable == 0 {
                answerable = match self.ring.answerable(self.outstanding.wrapping_add(count)) {
                    Ok(0) => break Ok(()),
                    Ok(answerable) => answerable,
                    Err(error) => break Err(error),
                };
            }
            let head = match self.ring.peek() {
                Ok(Some(head)) => head,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            let Some(request) = head.simple(&self.limits) else { break Ok(()) };
            let Some(piece) = split::simple(&request, extents, *limits) else { break Ok(()) };
            let kind = if request.opcode == Opcode::Read { Kind::Read } else { Kind::Write };
            let bytes = piece.blocks << limits.block_shift;
            let served = Served::Whole(request.user_data);
            let work = Work::new(self.number, kind, bytes);
            let command = Command { work, submitted: *now, request: served };
            if queue.submit(&self.target, request.opcode, piece, command).is_err() {
                break Ok(());
            }
            self.ring.advance();
            ledger.submitted(&command);
            *left = left.saturating_sub(pieces(bytes));
            (count, answerable) = (count.wrapping_add(1), answerable.wrapping_sub(1));
        };
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
    fn submit_next(&mut self, turn: &mut Turn<'_, P>) -> Result<(), Trouble> {
        let (cursor, place) = match self.current.take() {
            Some(stalled) => stalled,
            None => match self.take_request(turn)? {
                Taken::Nothing | Taken::Answered => return Ok(()),
                Taken::Request(cursor, place) => (cursor, place),
            },
        };
        self.submit_commands(turn, cursor, place)
    }

    /// Rings for what was submitted and shows the client what was answered: each doorbell and signal at most once.
    ///
    /// # Errors
    /// As [`Session::take_turn`].
    #[inline]
    pub(crate) fn end_visit(&mut self, queues: &mut Queues<P>, visit: Visit) -> Result<(), Trouble> {
        if visit == Visit::Turn {
            self.ring(queues)?;
        }
        if visit != Visit::Looked {
            self.publish()?;
        }
        Ok(())
    }

    /// Rings for what was submitted in this visit.
    #[inline]
    fn ring(&mut self, queues: &mut Queues<P>) -> Result<(), DeviceFault> {
        for number in self.queues.clone() {
            let Some(queue) = queues.get_mut(number) else { continue };
            let rung = queue.pair.ring()?;
            self.statistics.doorbells = self.statistics.doorbells.wrapping_add(u64::from(rung));
            if rung && number == self.turn {
                self.next_turn();
            }
        }
        Ok(())
    }

    /// Whether a command is in flight.
    pub(crate) const fn has_commands(&self) -> bool {
        self.in_flight > 0
    }

    /// Whether a command is in flight that was given before or at `then`, in ticks of the clock.
    pub(crate) fn has_commands_of(&self, queues: &Queues<P>, then: u64) -> bool {
        queues.of(self.queues.clone()).any(|queue| queue.in_flight.has_any_of(self.number, then))
    }

    /// Commands that were completed.
    pub(crate) fn completed_commands(&self) -> u64 {
        self.statistics.commands.wrapping_sub(u64::from(self.in_flight))
    }

    /// Asks the client to signal; whether entries wait nevertheless that can be taken.
    pub(crate) fn prepare_sleep(&mut self, queues: &mut Queues<P>) -> Result<bool, RingError> {
        if core::mem::replace(&mut self.is_signalled, true) {
            // It was asked before the ring was looked at.
            return Ok(false);
        }
        // Without room for commands or answers entries cannot be taken, and a completion wakes us anyway.
        Ok(self.ring.prepare_sleep()? && self.can_answer()? && self.has_room(queues))
    }

    /// Asks the client not to signal.
    pub(crate) fn awake(&mut self) -> Result<(), RingError> {
        self.is_signalled = false;
        self.ring.awake()
    }

    /// A command came back.
    #[inline(always)]
    pub(crate) fn completed(&mut self, command: &Command, status: nvme_spec::Status) {
        self.in_flight = self.in_flight.wrapping_sub(1);
        if status.is_success() {
            let Statistics { read_bytes, written_bytes, .. } = &mut self.statistics;
            let bytes = u64::from(command.work.bytes());
            match command.work.kind() {
                Kind::Read => *read_bytes = read_bytes.wrapping_add(bytes),
                Kind::Write => *written_bytes = written_bytes.wrapping_add(bytes),
                Kind::Other => {}
            }
            match command.request {
                Served::Whole(user_data) => self.answer(user_data, Status::Success, 0),
                Served::Part(place) => self.close_one(place),
            }
        } else {
            self.statistics.errors = self.statistics.errors.wrapping_add(1);
            self.fail(command.request, failure(status), status.to_raw() & 0x7ff);
        }
    }

    /// A command failed.
    #[cold]
    fn fail(&mut self, request: Served, status: Status, device_status: u16) {
        match request {
            Served::Whole(user_data) => self.answer(user_data, status, device_status),
            Served::Part(place) => {
                if let Some(Some(pending)) = self.pending.get_mut(usize::from(place))
                    && pending.status == Status::Success
                {
                    // The first failure is the one to report.
                    (pending.status, pending.device_status) = (status, device_status);
                }
                self.close_one(place)
            }
        }
    }

    /// Answers a request that was taken off the ring.
    #[inline(always)]
    fn answer(&mut self, user_data: u64, status: Status, device_status: u16) {
        self.outstanding = self.outstanding.wrapping_sub(1);
        self.ring.reply(&Completed { user_data, status: status as u16, device_status, reserved: 0 });
    }

    /// One command less, or the last was submitted: replies when none is open.
    #[inline]
    fn close_one(&mut self, place: u16) {
        let Some(slot) = self.pending.get_mut(usize::from(place)) else { return };
        let Some(pending) = slot else { return };
        pending.open = pending.open.wrapping_sub(1);
        if pending.open > 0 {
            return;
        }
        let Pending { user_data, status, device_status, .. } = *pending;
        *slot = None;
        self.free.push(place);
        self.answer(user_data, status, device_status);
    }

    /// Whether a command could be submitted; if not, it is looked at again when one can.
    #[inline]
    fn has_room(&self, queues: &mut Queues<P>) -> bool {
        let has_room = queues.with_room(&self.queues, self.turn).is_some();
        if !has_room {
            queues.turn_away(self.queues.clone());
        }
        has_room
    }

    /// Whether one more entry may be taken: its request could be answered, and the session is within its refusals.
    #[inline]
    fn can_answer(&mut self) -> Result<bool, RingError> {
        Ok(self.refusals_left > 0 && self.ring.answerable(self.outstanding)? > 0)
    }

    /// Takes an entry off the ring, past the door. A refused one is answered at once.
    fn take_request(&mut self, turn: &mut Turn<'_, P>) -> Result<Taken, Trouble> {
        if self.ring.answerable(self.outstanding)? == 0 {
            return Ok(Taken::Nothing);
        }
        let Some(entry) = self.ring.take()? else { return Ok(Taken::Nothing) };
        self.statistics.requests = self.statistics.requests.wrapping_add(1);
        self.outstanding = self.outstanding.wrapping_add(1);
        let refusal = match entry.check(&self.limits) {
            Ok(request) => match self.abilities.answer_now(request.opcode) {
                None => return self.begin(request),
                Some(answer) => answer,
            },
            Err(status) => {
                self.statistics.refused = self.statistics.refused.wrapping_add(1);
                status
            }
        };
        self.refuse(turn);
        self.answer(entry.user_data, refusal, 0);
        Ok(Taken::Answered)
    }

    /// Begins a request. As many places as the ring has entries are enough for all that are outstanding.
    fn begin(&mut self, request: Request) -> Result<Taken, Trouble> {
        let place = self.free.pop().ok_or(DeviceFault::OwnMemory)?;
        let slot = self.pending.get_mut(usize::from(place)).ok_or(DeviceFault::OwnMemory)?;
        *slot = Some(Pending { user_data: request.user_data, open: 1, status: Status::Success, device_status: 0 });
        Ok(Taken::Request(Cursor::new(request), place))
    }

    /// Submits commands for a request until it is done, or the turn is over or places in flight have run out: then it waits.
    /// One that misses is answered so when those of its commands that were submitted are done.
    fn submit_commands(&mut self, turn: &mut Turn<'_, P>, mut cursor: Cursor, place: u16) -> Result<(), Trouble> {
        while !cursor.finished() {
            let Some(queue) = self.queue_with_room(turn.queues).filter(|_| turn.left > 0) else {
                self.current = Some((cursor, place));
                return Ok(());
            };
            let opcode = cursor.opcode();
            let submitted = match cursor.next(&mut turn.extents, turn.limits) {
                Ok(Some(piece)) => self.submit(turn, queue, opcode, piece, place),
                Ok(None) => Err(DeviceFault::OwnMemory),
                Err(miss) => {
                    self.miss(place, miss);
                    self.refuse(turn);
                    break;
                }
            };
            if let Err(fault) = submitted {
                return Err(self.stall(cursor, place, fault));
            }
            if let Some(Some(pending)) = self.pending.get_mut(usize::from(place)) {
                pending.open = pending.open.wrapping_add(1);
            }
        }
        self.close_one(place);
        Ok(())
    }

    /// An entry was answered without a command, which takes of the turn and of what the session may have refused until the
    /// tick. Beyond that it waits: refusals are the server's time, and so everybody's.
    #[cold]
    fn refuse(&mut self, turn: &mut Turn<'_, P>) {
        turn.ledger.refused(self.number);
        self.refusals_left = self.refusals_left.saturating_sub(1);
        turn.left = if self.refusals_left == 0 { 0 } else { turn.left.saturating_sub(1) };
    }

    /// A tick has passed, or a record was installed for which requests were refused. Whether entries waited for that.
    pub(crate) const fn renew_refusals(&mut self) -> bool {
        core::mem::replace(&mut self.refusals_left, self.refusals) == 0
    }

    /// A request that may not go on, or of which nobody knows where it leads.
    #[cold]
    fn miss(&mut self, place: u16, miss: Miss) {
        let (status, count) = match miss {
            Miss::NotInstalled => (Status::NotInstalled, &mut self.statistics.not_installed),
            Miss::Forbidden => (Status::Forbidden, &mut self.statistics.forbidden),
        };
        *count = count.wrapping_add(1);
        if let Some(Some(pending)) = self.pending.get_mut(usize::from(place))
            && pending.status == Status::Success
        {
            pending.status = status;
        }
    }

    /// A request of which a command could not be submitted waits for what the reset makes of it: its client gets an answer.
    #[cold]
    fn stall(&mut self, cursor: Cursor, place: u16, fault: DeviceFault) -> Trouble {
        self.current = Some((cursor, place));
        Trouble::Device(fault)
    }

    /// The queue pair of this turn, or another if that is full: a batch stays together, so that one doorbell rings it.
    #[inline]
    fn queue_with_room(&mut self, queues: &Queues<P>) -> Option<u16> {
        self.turn = queues.with_room(&self.queues, self.turn)?;
        Some(self.turn)
    }

    #[inline]
    fn next_turn(&mut self) {
        self.turn = self.turn.wrapping_add(1);
        if self.turn >= self.queues.end {
            self.turn = self.queues.start;
        }
    }

    fn submit(
        &mut self,
        turn: &mut Turn<'_, P>,
        queue: u16,
        opcode: Opcode,
        piece: Piece,
        place: u16,
    ) -> Result<(), DeviceFault> {
        let kind = match opcode {
            Opcode::Read => Kind::Read,
            Opcode::Write => Kind::Write,
            Opcode::Flush | Opcode::WriteZeroes | Opcode::Discard => Kind::Other,
        };
        let bytes = piece.blocks << self.limits.block_shift;
        let request = Served::Part(place);
        let command = Command { work: Work::new(self.number, kind, bytes), submitted: turn.now, request };
        let Some(queue) = turn.queues.get_mut(queue) else { return Err(DeviceFault::OwnMemory) };
        queue.submit(&self.target, opcode, piece, command)?;
        self.in_flight = self.in_flight.wrapping_add(1);
        turn.submitted(&command);
        self.statistics.commands = self.statistics.commands.wrapping_add(1);
        Ok(())
    }

    /// Shows the client what was answered and how far its entries were taken.
    pub(crate) fn publish(&mut self) -> Result<(), RingError> {
        self.ring.release()?;
        if self.ring.publish()? {
            self.statistics.notifications = self.statistics.notifications.wrapping_add(1);
            self.kernel.signal(self.client);
        }
        Ok(())
    }
}

/// What a command's status says to its client.
fn failure(status: nvme_spec::Status) -> Status {
    let given_up = [StatusCode::AbortRequested, StatusCode::SqDeleted].map(nvme_spec::Status::new);
    if given_up.iter().any(|one| (one.sct(), one.sc()) == (status.sct(), status.sc())) {
        Status::TimedOut
    } else if status.sct() == MEDIA_ERROR {
        Status::MediaError
    } else {
        Status::DeviceError
    }
}

/// Status code type of media and data integrity errors (section 4.6.1.2.3).
const MEDIA_ERROR: u8 = 2;
