//! A server with a disk in memory, which can be configured to misbehave.

use super::memory::LastWrite;
use blk_api::Status;
use blk_api::operation::Right;
use blk_api::policy::{self, Asked, Covered};
use blk_api::request::{Bounds, Entry, Opcode, Request, Segment};
use blk_api::ring::{Completed, ServerEnd};
use blk_api::session::{self, Geometry, Refusal, Statistics};
use platform::fake::Ram;
use platform::{Memory, Message};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

/// The server's parameters.
#[derive(Clone, Debug)]
pub struct Setup {
    /// log2 of the block size.
    pub block_shift: u8,
    /// Blocks of the disk; all are the session's.
    pub blocks: u64,
    /// Blocks a request may move.
    pub max_blocks: u32,
    /// Bytes of the window.
    pub window_bytes: u64,
    /// Entries of the rings.
    pub ring_entries: u32,
    /// Whether the session may write.
    pub writable: bool,
    /// Order of completions.
    pub order: Order,
    /// Number of records of one block that its table holds. `None`: it needs no records, and there is no policy component.
    pub records: Option<usize>,
    /// Whether the client may ask for alarms. The server then signals only a client that asked for it.
    pub alarm: bool,
    /// Whether the client waits for a controller that is gone.
    pub waits: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            block_shift: 9,
            blocks: 4096,
            max_blocks: 512,
            window_bytes: 1 << 20,
            ring_entries: 16,
            writable: true,
            order: Order::Submitted,
            records: None,
            alarm: false,
            waits: false,
        }
    }
}

/// Order of completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// As submitted.
    Submitted,
    /// The last first.
    Reversed,
    /// Random order, and not all at once, from this state.
    Drawn(u64),
    /// None comes.
    Silent,
}

/// Changes the data of a read, between the disk and the window.
pub type Tamper = Box<dyn FnMut(&Request, &mut [u8])>;

/// Takes words of a request from the other version of its entry, after the check.
pub type Refetch = fn(&mut Request, &Entry);

/// Effect of a request that the controller loses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost {
    /// Number of its blocks that are done, from the first one on.
    pub blocks: u32,
    /// How it ends.
    pub status: Status,
}

/// Whether a request is lost.
pub type Loses = Box<dyn FnMut(&Request) -> Option<Lost>>;

/// Whether a request is forbidden.
pub type Forbids = Box<dyn FnMut(&Request) -> bool>;

/// The server.
pub struct FakeServer {
    /// The disk.
    pub disk: Vec<u8>,
    /// Order of completions.
    pub order: Order,
    /// A block whose reads fail with a media error.
    pub bad_block: Option<u64>,
    /// A check that it omits: requests that it should refuse with this status are answered as done.
    pub forgets: Option<Status>,
    /// The words it fetches twice: once for the check, and once more to act on.
    pub refetch: Option<Refetch>,
    /// A corruption of reads.
    pub tamper: Option<Tamper>,
    /// The requests that its controller loses.
    pub loses: Option<Loses>,
    /// The requests that it forbids.
    pub forbids: Option<Forbids>,
    /// Whether the server has no controller, so that no session can be opened.
    pub is_empty: bool,
    /// Forged completions, published at the next step.
    pub forged: Vec<Completed>,
    /// The session broke the protocol and was closed.
    pub expelled: bool,
    /// The refusal that every call for records gets.
    pub refuses_records: Option<policy::Refusal>,
    /// Number of calls for records.
    pub asked: u32,
    /// Blocks with records, the oldest first.
    records: VecDeque<u64>,
    most_records: Option<usize>,
    signals_only_who_asks: bool,
    /// The disk's blocks, and what a request may ask for.
    pub bounds: Bounds,
    /// Number of the disk's media.
    pub media: u64,
    memories: [Ram; 3],
    written: Rc<RefCell<LastWrite>>,
    ring_entries: u32,
    ring: Option<ServerEnd<Ram>>,
    held: Vec<Completed>,
    statistics: Statistics,
}

impl FakeServer {
    /// Makes the server of these memories: the client's ring, its own, the window. `written` is the client's last write to the first.
    pub(crate) fn new(setup: &Setup, memories: [Ram; 3], written: Rc<RefCell<LastWrite>>) -> Self {
        let bounds = Bounds {
            block_shift: setup.block_shift,
            max_blocks: setup.max_blocks,
            window_bytes: setup.window_bytes,
            writable: setup.writable,
            blocks: setup.blocks,
        };
        Self {
            disk: vec![0; (setup.blocks as usize) << setup.block_shift],
            order: setup.order,
            bad_block: None,
            forgets: None,
            refetch: None,
            tamper: None,
            loses: None,
            forbids: None,
            is_empty: false,
            forged: vec![],
            expelled: false,
            refuses_records: None,
            asked: 0,
            records: VecDeque::new(),
            most_records: setup.records,
            signals_only_who_asks: setup.alarm,
            bounds,
            media: 1,
            memories,
            written,
            ring_entries: setup.ring_entries,
            ring: None,
            held: vec![],
            statistics: Statistics::default(),
        }
    }

    /// Takes submitted requests and completes those that are due. Returns whether completions were published.
    pub fn step(&mut self) -> bool {
        let Some(mut ring) = self.ring.take() else { return false };
        loop {
            let outstanding = self.held.len() as u32;
            let entry =
                match ring.answerable(outstanding).and_then(|room| if room > 0 { ring.take() } else { Ok(None) }) {
                    Ok(Some(entry)) => entry,
                    Ok(None) => break,
                    Err(_) => {
                        self.expelled = true;
                        return false;
                    }
                };
            self.statistics.requests += 1;
            let status = match entry.check(&self.bounds) {
                Ok(mut request) => {
                    if let (Some(refetch), Some(again)) = (self.refetch, self.written.borrow().flipped()) {
                        refetch(&mut request, &again);
                    }
                    self.perform(&request)
                }
                Err(status) if self.forgets == Some(status) => Status::Success,
                Err(status) => {
                    self.statistics.refused += 1;
                    status
                }
            };
            let device_status = match status {
                Status::MediaError => 0x281,
                Status::CompareFailed => 0x285,
                _ => 0,
            };
            let completed = Completed { user_data: entry.user_data, status: status as u16, device_status, reserved: 0 };
            self.held.push(completed);
        }
        ring.publish_taken().expect("own memory");
        let due = self.due();
        for completed in &due {
            ring.reply(completed);
        }
        let asks = ring.publish().expect("own memory");
        self.ring = Some(ring);
        !due.is_empty() && (asks || !self.signals_only_who_asks)
    }

    /// Drops all state of the session, including pending answers.
    pub(crate) fn forget(&mut self) {
        self.records.clear();
        self.ring = None;
        self.held.clear();
        self.expelled = false;
    }

    /// Statistics of the session, over all its openings.
    #[must_use]
    pub const fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Number of records in its table.
    #[must_use]
    pub fn records(&self) -> usize {
        self.records.len()
    }

    /// Whether the client needs records.
    pub(crate) const fn has_records(&self) -> bool {
        self.most_records.is_some()
    }

    /// Ends the policy component's refusal of calls. Returns whether it was refusing.
    pub(crate) fn policy_rests(&mut self) -> bool {
        self.refuses_records.take_if(|refusal| *refusal == policy::Refusal::Busy).is_some()
    }

    /// Returns the policy component's answer: records for the first two blocks.
    pub(crate) fn ask(&mut self, message: &Message) -> Message {
        self.asked += 1;
        if let Some(refusal) = self.refuses_records {
            return refusal.message();
        }
        let Asked { first, blocks } = message.payload().expect("a call of the interface");
        assert_eq!(message.label, policy::ASK, "a call of the interface");
        let has = self.bounds.blocks;
        if blocks == 0 {
            return policy::Refusal::Empty { first }.message();
        }
        if first.checked_add(blocks).is_none_or(|end| end > has) {
            return policy::Refusal::BeyondSession { first, blocks, has }.message();
        }
        let covered = blocks.min(2);
        for block in first..first + covered {
            self.records.retain(|known| *known != block);
            self.records.push_back(block);
        }
        let surplus = self.records.len().saturating_sub(self.most_records.unwrap_or(0));
        self.records.drain(..surplus);
        Message::with(policy::DONE, &Covered { blocks: covered })
    }

    pub(crate) fn answer(&mut self, message: &Message) -> Message {
        let refused = |refusal: Refusal| Message::new(refusal as u32);
        match (message.label, self.ring.is_some()) {
            _ if self.expelled => refused(Refusal::Expelled),
            _ if self.is_empty => refused(Refusal::DeviceGone),
            (session::OPEN, false) => self.open(),
            (session::OPEN, true) => refused(Refusal::AlreadyOpen),
            (session::CLOSE, true) => {
                self.step();
                self.ring = None;
                Message::new(session::DONE)
            }
            (session::STATISTICS, true) => Message::with(session::DONE, &self.statistics),
            (policy::INSTALL | policy::REMOVE | policy::CLEAR | policy::DRAINED | policy::SET_SHARE, _) => {
                refused(Refusal::PolicyAlone)
            }
            (session::PING, _) => Message::new(session::DONE),
            (session::CLOSE | session::STATISTICS, false) => refused(Refusal::NotOpen),
            _ => refused(Refusal::BadRequest),
        }
    }

    fn open(&mut self) -> Message {
        let [client, server, _] = self.memories.clone();
        self.ring = Some(ServerEnd::new(client, server, self.ring_entries).expect("own memory"));
        let geometry = Geometry {
            blocks: self.bounds.blocks,
            block_bytes: 1 << self.bounds.block_shift,
            max_blocks: self.bounds.max_blocks,
            window_bytes: self.bounds.window_bytes,
            queue_pairs: 1,
            depth: 64,
            writable: u32::from(self.bounds.writable),
            media: self.media,
        };
        Message::with(session::DONE, &geometry)
    }

    /// Returns the completions to publish now, in order.
    fn due(&mut self) -> Vec<Completed> {
        let mut due = std::mem::take(&mut self.forged);
        match &mut self.order {
            Order::Submitted => due.append(&mut self.held),
            Order::Reversed => due.extend(self.held.drain(..).rev()),
            Order::Drawn(state) => {
                for _ in 0..self.held.len().div_ceil(2) {
                    *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                    due.push(self.held.swap_remove((*state >> 33) as usize % self.held.len()));
                }
            }
            Order::Silent => {}
        }
        due
    }

    fn perform(&mut self, request: &Request) -> Status {
        self.statistics.commands += 1;
        self.statistics.doorbells += 1;
        let count = request.access().map_or(0, |access| access.blocks);
        let blocks = blocks(request, count);
        let missing = blocks.clone().position(|block| self.has_records() && !self.records.contains(&block));
        if let Some(before) = missing {
            self.transfer(request, before as u32);
            return Status::NotInstalled;
        }
        if self.forbids.as_mut().is_some_and(|forbids| forbids(request)) {
            return Status::Forbidden;
        }
        if request.opcode().right() == Some(Right::Read) && self.bad_block.is_some_and(|bad| blocks.contains(&bad)) {
            return Status::MediaError;
        }
        if let Some(lost) = self.loses.as_mut().and_then(|loses| loses(request)) {
            self.transfer(request, lost.blocks.min(count));
            return lost.status;
        }
        self.transfer(request, count);
        if request.opcode() == Opcode::Compare && !self.compares(request, self.bytes(blocks)) {
            return Status::CompareFailed;
        }
        Status::Success
    }

    /// Whether the request's blocks have the content of its segments.
    fn compares(&self, request: &Request, bytes: Range<usize>) -> bool {
        let mut data = vec![0; bytes.len()];
        gather(&self.memories[2], request.ranges(), &mut data);
        self.disk[bytes] == data
    }

    /// The bytes of these blocks on the disk.
    fn bytes(&self, blocks: Range<u64>) -> Range<usize> {
        (blocks.start as usize) << self.bounds.block_shift..(blocks.end as usize) << self.bounds.block_shift
    }

    /// Does the first `blocks` blocks of the request.
    fn transfer(&mut self, request: &Request, count: u32) {
        let (bytes, segments) = (self.bytes(blocks(request, count)), request.ranges());
        match request.opcode() {
            Opcode::Read => {
                let mut data = self.disk[bytes].to_vec();
                if let Some(tamper) = &mut self.tamper {
                    tamper(request, &mut data);
                }
                scatter(&self.memories[2], segments, &data);
            }
            Opcode::Write => gather(&self.memories[2], segments, &mut self.disk[bytes]),
            Opcode::Discard => self.disk[bytes].fill(0xdd),
            Opcode::WriteZeroes => self.disk[bytes].fill(0),
            Opcode::Flush | Opcode::Verify | Opcode::Compare => {}
        }
    }
}

/// The first `count` blocks of the request.
fn blocks(request: &Request, count: u32) -> Range<u64> {
    let first = request.access().map_or(0, |access| access.lba);
    first..first + u64::from(count)
}

fn scatter(window: &Ram, segments: &[Segment], mut data: &[u8]) {
    for segment in segments {
        let (now, later) = data.split_at(data.len().min(segment.len as usize));
        // Bytes behind the window go to memory that no client reads.
        let fits = now.len().min(window.len().saturating_sub(segment.offset as usize));
        window.write_bytes(segment.offset as usize, &now[..fits]).expect("a checked range");
        data = later;
    }
}

fn gather(window: &Ram, segments: &[Segment], mut data: &mut [u8]) {
    for segment in segments {
        let (now, later) = data.split_at_mut(data.len().min(segment.len as usize));
        window.read_bytes(segment.offset as usize, now).expect("a checked range");
        data = later;
    }
}
