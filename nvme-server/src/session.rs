//! One session: from the entries on its ring to commands on its queue pairs, and back.
//!
//! [`Session::serve`] is the whole way. Everything a command needs, identifier, slot, list pages and the place of its
//! answer, is reserved before the request is touched, so that nothing on the way back can fail for want of room.

use crate::dma::Window;
use crate::fault::DeviceFault;
use crate::in_flight::{Command, InFlight, Reserved};
use crate::prp::{self, ListPages};
use crate::queue::QueuePair;
use crate::split::{self, CommandLimits, Cursor, Piece};
use alloc::vec::Vec;
use blk_api::Status;
use blk_api::config::SessionConfig;
use blk_api::request::{Limits, Opcode, Request};
use blk_api::ring::{Completed, RingError, ServerEnd};
use blk_api::session::Statistics;
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::{DataPointer, Lba, Nsid, Sqe};
use platform::{Cap, Kernel, Memory, Notification, Platform};

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

/// A queue pair with its commands and their list pages.
pub(crate) struct IoQueue<P: Platform> {
    pub pair: QueuePair<P::Memory, P::Mmio>,
    pub in_flight: InFlight,
    /// List pages of the command in place 0; those of the others follow.
    pub lists: ListPages<P::Memory>,
    /// The largest transfer, bytes, for which each place's list pages suffice.
    pub max_transfer: u64,
}

impl<P: Platform> IoQueue<P> {
    /// The list pages of the command in place `index`.
    #[inline]
    fn lists_of(&self, index: u16) -> Result<ListPages<P::Memory>, DeviceFault> {
        let bytes = self.lists.pages.wrapping_mul(platform::PAGE_SIZE as u64).wrapping_mul(u64::from(index));
        Ok(ListPages {
            memory: self.lists.memory.clone(),
            offset: self.lists.offset.wrapping_add(bytes as usize),
            iova: self.lists.iova.checked_add(bytes).ok_or(DeviceFault::OwnMemory)?,
            pages: self.lists.pages,
        })
    }
}

/// A request whose commands are on their way.
///
/// `open` counts the commands given and not completed, plus one while a cursor has more to give.
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
    /// How to answer a request at once: a discard is a hint and may be ignored, zeroes cannot be had without the command.
    const fn answer_now(self, opcode: Opcode) -> Option<Status> {
        match opcode {
            Opcode::Discard if !self.discard => Some(Status::Success),
            Opcode::WriteZeroes if !self.write_zeroes => Some(Status::DeviceError),
            _ => None,
        }
    }
}

/// Entries taken before the next session's turn.
const ENTRIES_A_VISIT: usize = 64;

/// What [`Session::take_request`] found.
enum Taken {
    /// No entry, or no room for its answer.
    Nothing,
    /// An entry that was answered at once, or given as one command.
    Whole,
    /// A request, and its place among the pending.
    Request(Cursor, u16),
}

/// What [`Session::serve`] came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// Entries or completions were handled; there may be more.
    Some,
    /// Nothing was there.
    None,
}

/// An open session.
pub(crate) struct Session<P: Platform> {
    pub config: SessionConfig,
    pub limits: Limits,
    pub window: Window,
    pub queues: Vec<IoQueue<P>>,
    pub statistics: Statistics,
    ring: ServerEnd<P::Memory>,
    client: Cap<Notification>,
    kernel: P::Kernel,
    command_limits: CommandLimits,
    abilities: Abilities,
    nsid: Nsid,
    /// The queue pair at which the next batch begins.
    turn: usize,
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
    pub queues: Vec<IoQueue<P>>,
    pub ring: ServerEnd<P::Memory>,
    pub client: Cap<Notification>,
    pub kernel: P::Kernel,
}

impl<P: Platform> Session<P> {
    /// An open session with nothing in flight.
    pub(crate) fn new(parts: Parts<P>) -> Self {
        let Parts { config, limits, command_limits, abilities, window, queues, ring, client, kernel } = parts;
        // A ring has at most 4096 entries (`blk_api::ring::MAX_ENTRIES`).
        let entries = config.ring_entries.min(blk_api::ring::MAX_ENTRIES) as u16;
        Self {
            nsid: Nsid(config.nsid),
            config,
            limits,
            window,
            queues,
            statistics: Statistics::default(),
            ring,
            client,
            kernel,
            command_limits,
            abilities,
            turn: 0,
            pending: (0..entries).map(|_| None).collect(),
            free: (0..entries).rev().collect(),
            current: None,
        }
    }

    /// Takes completions, then entries, rings and replies: each doorbell and signal at most once.
    ///
    /// # Errors
    /// [`Trouble`]: the client's, and the session must end; or the device's, and it must be reset.
    pub(crate) fn serve(&mut self, now: u64) -> Result<Progress, Trouble> {
        let completed = self.take_completions()?;
        let taken = self.take_requests(now);
        // Even when the client broke the protocol: what was submitted before would never complete if it was not rung for.
        for queue in &mut self.queues {
            self.statistics.doorbells = self.statistics.doorbells.wrapping_add(u64::from(queue.pair.ring()?));
        }
        let taken = taken?;
        if completed || taken {
            self.publish()?;
            return Ok(Progress::Some);
        }
        Ok(Progress::None)
    }

    /// Whether a command is in flight.
    pub(crate) fn has_commands(&self) -> bool {
        self.queues.iter().any(|queue| queue.in_flight.len() > 0)
    }

    /// When the oldest command in flight was given.
    pub(crate) fn oldest_command(&self) -> Option<u64> {
        self.queues.iter().filter_map(|queue| queue.in_flight.oldest()).min()
    }

    /// Asks the client to signal; whether entries wait nevertheless.
    pub(crate) fn prepare_sleep(&mut self) -> Result<bool, RingError> {
        // Without room for commands or answers entries cannot be taken, and a completion wakes us anyway.
        Ok(self.ring.prepare_sleep()? && self.can_take()?)
    }

    /// Asks the client not to signal.
    pub(crate) fn awake(&mut self) -> Result<(), RingError> {
        self.ring.awake()
    }

    /// Takes new completions only: the session is being closed. A request not wholly given is answered as
    /// [`Status::Closed`] after its commands in flight.
    pub(crate) fn finish_commands(&mut self) -> Result<(), Trouble> {
        let cut_short = self.current.take();
        if let Some((_, place)) = cut_short {
            self.fail(place, Status::Closed)?;
        }
        if self.take_completions()? || cut_short.is_some() {
            self.publish()?;
        }
        Ok(())
    }

    /// Answers entries with [`Status::Closed`]: there is no controller any more. Whether more of them wait.
    pub(crate) fn turn_away(&mut self) -> Result<bool, RingError> {
        for _ in 0..self.pending.len() {
            if !self.ring.can_answer_one_more(self.outstanding())? {
                break;
            }
            let Some(entry) = self.ring.take()? else { break };
            let status = Status::Closed as u16;
            self.ring.reply(&Completed { user_data: entry.user_data, status, device_status: 0, reserved: 0 })?;
        }
        self.publish()?;
        self.prepare_sleep()
    }

    /// After a confirmed reset: everything in flight is answered with [`Status::ControllerReset`] and the queues start anew.
    pub(crate) fn abort(&mut self) -> Result<(), Trouble> {
        if let Some((_, place)) = self.current.take() {
            self.fail(place, Status::ControllerReset)?;
        }
        for index in 0..self.queues.len() {
            let Some(queue) = self.queues.get_mut(index) else { break };
            let commands: Vec<Command> = queue.in_flight.drain().collect();
            queue.pair.reset()?;
            for command in commands {
                self.fail(command.request, Status::ControllerReset)?;
            }
        }
        self.publish()?;
        Ok(())
    }

    fn fail(&mut self, place: u16, status: Status) -> Result<(), RingError> {
        if let Some(Some(pending)) = self.pending.get_mut(usize::from(place)) {
            pending.status = status;
        }
        self.close_one(place)
    }

    #[inline]
    fn take_completions(&mut self) -> Result<bool, Trouble> {
        let mut any = false;
        for index in 0..self.queues.len() {
            while let Some(queue) = self.queues.get_mut(index) {
                let Some(cqe) = queue.pair.complete()? else {
                    let rang = queue.pair.release()?;
                    self.statistics.doorbells = self.statistics.doorbells.wrapping_add(u64::from(rang));
                    any |= rang;
                    break;
                };
                let command = queue.in_flight.release(cqe.cid())?;
                self.completed(command, cqe.status())?;
            }
        }
        Ok(any)
    }

    #[inline(always)]
    fn completed(&mut self, command: Command, status: nvme_spec::Status) -> Result<(), RingError> {
        let moved = if command.is_read { &mut self.statistics.read_bytes } else { &mut self.statistics.written_bytes };
        if status.is_success() {
            *moved = moved.wrapping_add(u64::from(command.bytes));
        } else {
            self.statistics.errors = self.statistics.errors.wrapping_add(1);
            if let Some(Some(pending)) = self.pending.get_mut(usize::from(command.request)) {
                // The first failure is the one to tell.
                if pending.status == Status::Success {
                    pending.status = if status.sct() == MEDIA_ERROR { Status::MediaError } else { Status::DeviceError };
                    pending.device_status = status.to_raw() & 0x7ff;
                }
            }
        }
        self.close_one(command.request)
    }

    /// One command less, or the last was given: replies when none is open.
    #[inline(always)]
    fn close_one(&mut self, place: u16) -> Result<(), RingError> {
        let Some(slot) = self.pending.get_mut(usize::from(place)) else { return Ok(()) };
        let Some(pending) = slot else { return Ok(()) };
        pending.open = pending.open.wrapping_sub(1);
        if pending.open > 0 {
            return Ok(());
        }
        let Pending { user_data, status, device_status, .. } = *pending;
        *slot = None;
        self.free.push(place);
        self.ring.reply(&Completed { user_data, status: status as u16, device_status, reserved: 0 })
    }

    #[inline]
    fn outstanding(&self) -> u32 {
        self.pending.len().wrapping_sub(self.free.len()) as u32
    }

    /// Whether an entry could be taken if one is there.
    fn can_take(&mut self) -> Result<bool, RingError> {
        let outstanding = self.outstanding();
        let has_place = self.queues.iter().any(|queue| queue.in_flight.has_room());
        Ok(has_place && !self.free.is_empty() && self.ring.can_answer_one_more(outstanding)?)
    }

    #[inline]
    fn take_requests(&mut self, now: u64) -> Result<bool, Trouble> {
        let mut any = false;
        // Refused entries take no place in flight and must not hold up the others' sessions.
        for _ in 0..ENTRIES_A_VISIT {
            let (cursor, place) = match self.current.take() {
                Some(stalled) => stalled,
                None => match self.take_request(now)? {
                    Taken::Nothing => break,
                    Taken::Whole => {
                        any = true;
                        continue;
                    }
                    Taken::Request(cursor, place) => (cursor, place),
                },
            };
            any = true;
            if !self.give_commands(cursor, place, now)? {
                break;
            }
        }
        Ok(any)
    }

    /// Takes an entry off the ring, past the door. A refused one is answered at once.
    #[inline(always)]
    fn take_request(&mut self, now: u64) -> Result<Taken, Trouble> {
        let Some(&place) = self.free.last() else { return Ok(Taken::Nothing) };
        if !self.ring.can_answer_one_more(self.outstanding())? {
            return Ok(Taken::Nothing);
        }
        let Some(entry) = self.ring.take()? else { return Ok(Taken::Nothing) };
        self.statistics.requests = self.statistics.requests.wrapping_add(1);
        let refusal = match entry.check(&self.limits) {
            Ok(request) => match self.abilities.answer_now(request.opcode) {
                None => {
                    self.free.pop();
                    return self.begin(request, place, now);
                }
                Some(answer) => answer,
            },
            Err(status) => {
                self.statistics.refused = self.statistics.refused.wrapping_add(1);
                status
            }
        };
        let user_data = entry.user_data;
        self.ring.reply(&Completed { user_data, status: refusal as u16, device_status: 0, reserved: 0 })?;
        Ok(Taken::Whole)
    }

    /// Begins a request at its reserved place: one command at once, or a cursor for many.
    #[inline(always)]
    fn begin(&mut self, request: Request, place: u16, now: u64) -> Result<Taken, Trouble> {
        let pending = Pending { user_data: request.user_data, open: 1, status: Status::Success, device_status: 0 };
        let slot = self.pending.get_mut(usize::from(place)).ok_or(DeviceFault::OwnMemory)?;
        *slot = Some(pending);
        let whole = split::whole(&request, &self.limits.extents, self.command_limits);
        if let Some((piece, index)) = whole.and_then(|piece| Some((piece, self.queue_with_room()?))) {
            self.give(index, request.opcode, piece, place, now)?;
            return Ok(Taken::Whole);
        }
        Ok(Taken::Request(Cursor::new(request), place))
    }

    /// Gives commands for a request. Whether all were given; otherwise places in flight have run out, and the request
    /// waits for them.
    #[inline(never)]
    fn give_commands(&mut self, mut cursor: Cursor, place: u16, now: u64) -> Result<bool, Trouble> {
        while !cursor.finished() {
            let Some(index) = self.queue_with_room() else {
                self.current = Some((cursor, place));
                return Ok(false);
            };
            let opcode = cursor.opcode();
            let Some(piece) = cursor.next(&self.limits.extents, self.command_limits) else { break };
            if let Some(Some(pending)) = self.pending.get_mut(usize::from(place)) {
                pending.open = pending.open.wrapping_add(1);
            }
            self.give(index, opcode, piece, place, now)?;
        }
        self.close_one(place)?;
        Ok(true)
    }

    /// The queue pair of this turn, or another if that is full: a batch stays together, so that one doorbell rings it.
    #[inline]
    fn queue_with_room(&mut self) -> Option<usize> {
        let count = self.queues.len();
        for _ in 0..count {
            if self.queues.get(self.turn)?.in_flight.has_room() {
                return Some(self.turn);
            }
            self.next_turn();
        }
        None
    }

    #[inline]
    fn next_turn(&mut self) {
        self.turn = self.turn.wrapping_add(1);
        if self.turn >= self.queues.len() {
            self.turn = 0;
        }
    }

    #[inline(always)]
    fn give(&mut self, index: usize, opcode: Opcode, piece: Piece, place: u16, now: u64) -> Result<(), DeviceFault> {
        let bytes = if opcode.moves_data() { piece.blocks << self.limits.block_shift } else { 0 };
        let command = Command { request: place, bytes, is_read: opcode == Opcode::Read, submitted: now };
        let Some(queue) = self.queues.get_mut(index) else { return Err(DeviceFault::OwnMemory) };
        let reserved = queue.in_flight.reserve(command).ok_or(DeviceFault::OwnMemory)?;
        self.statistics.commands = self.statistics.commands.wrapping_add(1);
        let sqe = build(queue, self.nsid, &self.window, opcode, piece, bytes, reserved)?;
        queue.pair.submit(&sqe)
    }

    /// Shows the client what was answered and how far its entries were taken.
    fn publish(&mut self) -> Result<(), RingError> {
        self.next_turn();
        self.ring.release()?;
        if self.ring.publish()? {
            self.statistics.notifications = self.statistics.notifications.wrapping_add(1);
            self.kernel.signal(self.client);
        }
        Ok(())
    }
}

/// Status code type of media and data integrity errors (section 4.6.1.2.3).
const MEDIA_ERROR: u8 = 2;

/// The command for a piece.
#[inline(always)]
fn build<P: Platform>(
    queue: &IoQueue<P>,
    nsid: Nsid,
    window: &Window,
    opcode: Opcode,
    piece: Piece,
    bytes: u32,
    reserved: Reserved,
) -> Result<Sqe, DeviceFault> {
    let Reserved { index, cid } = reserved;
    if opcode == Opcode::Flush {
        return Ok(nvm::flush(cid, nsid));
    }
    let blocks = Blocks::new(Lba(piece.lba), piece.blocks).ok_or(DeviceFault::OwnMemory)?;
    Ok(match opcode {
        Opcode::Read | Opcode::Write => {
            let start = window.iova.checked_add(piece.offset).ok_or(DeviceFault::OwnMemory)?;
            let data = match prp::without_list(start, bytes) {
                Some(data) => data,
                None => queue.lists_of(index)?.build(start, bytes)?,
            };
            if opcode == Opcode::Read {
                nvm::read(cid, nsid, blocks, data)
            } else {
                nvm::write(cid, nsid, blocks, data)
            }
        }
        Opcode::WriteZeroes => nvm::write_zeroes(cid, nsid, blocks),
        Opcode::Discard => {
            let range = nvm::Range::new(Lba(piece.lba), piece.blocks).ok_or(DeviceFault::OwnMemory)?;
            let lists = queue.lists_of(index)?;
            lists.memory.write(lists.offset, &range)?;
            nvm::deallocate(cid, nsid, 0, DataPointer::page(lists.iova.bits()))
        }
        Opcode::Flush => nvm::flush(cid, nsid),
    })
}
