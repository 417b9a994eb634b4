//! Retries of commands that the controller asks for again later.
//!
//! A command that waits is not in flight: it holds no place in a queue pair, and nothing of it is in progress. At a tick after its
//! delay it goes the way of a request that is cut into commands: it passes the table of extents again, so a right that was revoked
//! meanwhile stops it, and the scheduler counts it as a new command. A session that closes, and a controller that is reset, end it
//! as they end a request that was not wholly submitted (`ending`). While [`ServerConfig::WAITING_RETRIES`] wait, or as many as the
//! ring has entries, no entry is taken. Neighbours: [`RetryDelays`] decides which commands wait and for how long.

use super::Session;
use crate::data_plane::in_flight::{Command, Served, Work};
use alloc::vec::Vec;
use blk_api::Status;
use blk_api::config::ServerConfig;
use blk_api::request::{Access, Ranges, Request, Segment};
use nvme_driver::retry::RetryDelays;
use platform::Platform;

/// The rules of retries, and the commands that wait.
pub(crate) struct Retries {
    pub delays: RetryDelays,
    ticks_per_second: u64,
    waiting: Vec<Waiting>,
    /// Whether some are due, and go on after the request that is being cut into commands.
    pub are_due: bool,
}

const _: () = assert!(size_of::<Waiting>() <= ServerConfig::HEAP_A_RETRY);

/// A command that waits.
#[derive(Clone, Copy)]
struct Waiting {
    work: Work,
    first: u64,
    offset: u32,
    /// The place of its request.
    place: u16,
    /// Time at which it is due, in ticks.
    due: u64,
}

impl Retries {
    /// Creates the rules for a controller with these delays, and nothing that waits.
    pub(crate) const fn new(delays: RetryDelays, ticks_per_second: u64) -> Self {
        Self { delays, ticks_per_second, waiting: Vec::new(), are_due: false }
    }

    /// Takes out a command that is due.
    fn take_due(&mut self, now: u64) -> Option<Waiting> {
        let due = self.waiting.iter().position(|one| one.due <= now)?;
        Some(self.waiting.swap_remove(due))
    }
}

impl<P: Platform> Session<P> {
    /// Keeps a command that the controller refused `now` for a retry, and returns the place of its request. Without one the command has
    /// failed.
    pub(super) fn keep(&mut self, command: &Command, status: nvme_spec::Status, now: u64) -> Option<u16> {
        let delay_ms = self.retries.delays.before_retry(status, command.work.retries())?;
        // Memory is taken when a controller first asks for retries, and not by sessions whose controller never does.
        self.retries.waiting.try_reserve(1).ok()?;
        let place = match command.request {
            Served::Part(place) => place,
            Served::Whole(user_data) => {
                let place = self.engine.pending.begin(user_data)?;
                if let Some(latencies) = &mut self.latencies {
                    latencies.taken(place, command.submitted);
                }
                place
            }
        };
        let ticks = self.retries.ticks_per_second.saturating_mul(delay_ms.into()) / 1000;
        let Command { work, first, offset, .. } = *command;
        self.retries.waiting.push(Waiting { work, first, offset, place, due: now.saturating_add(ticks) });
        if self.has_too_many_retries() {
            self.refusals_left = 0;
        }
        Some(place)
    }

    /// Whether entries are left on the ring because of commands that wait.
    pub(super) fn has_too_many_retries(&self) -> bool {
        self.retries.waiting.len() >= self.engine.pending.most().min(ServerConfig::WAITING_RETRIES)
    }

    /// Goes on with a command that is due, if there is one: at once, or after the request that is being cut into commands.
    pub(crate) fn go_on_with_retry(&mut self, now: u64) {
        self.retries.are_due = self.retries.waiting.iter().any(|one| one.due <= now);
        if self.engine.is_cutting() {
            return;
        }
        let due = self.retries.take_due(now);
        self.retrying = due.map_or(0, |due| due.work.retries().saturating_add(1));
        if let Some(due) = due {
            self.engine.resume(self.request_of(&due), due.place);
        }
    }

    /// The request for what a command did.
    fn request_of(&self, &Waiting { work, first, offset, .. }: &Waiting) -> Request {
        let (opcode, len) = (work.opcode(), work.bytes());
        let Some(right) = opcode.right() else { return Request::Flush };
        let access = Access { right, lba: first, blocks: len >> self.bounds.block_shift };
        if opcode.moves_data() {
            Request::Transfer { opcode, access, ranges: Ranges::one(Segment { offset, len }) }
        } else {
            Request::Named { opcode, access }
        }
    }

    /// Ends the commands that wait: their requests are answered with `status` after their commands in flight. Returns whether there
    /// were any.
    pub(super) fn end_retries(&mut self, status: Status) -> bool {
        self.retrying = 0;
        let mut ended = false;
        while let Some(Waiting { place, .. }) = self.retries.waiting.pop() {
            self.overrule(Served::Part(place), status);
            ended = true;
        }
        ended
    }
}
