//! A controller with the queueing model and the constants of the simulator's (`sim/nvme`), without its data and its registers.
//!
//! Fetch engine, link, channels and throttle are the simulator's own (`sim_nvme::Timing`). Commands go through them as they do there:
//! they wait in the queue of their session, are fetched in turn, and then are read from the media and sent, or are received and
//! programmed. The write cache follows `sim/nvme/src/write_log.rs`: a write completes when the cache has room, and the media are busy
//! with it afterwards.

use crate::model::{Asked, Operation};
use sim_nvme::config::Cache;
use sim_nvme::{MediaAccess, NOTED_BYTES, Profile, Timing};
use std::collections::VecDeque;

/// Commands that it holds at once, as a scenario's controller by default.
const OUTSTANDING: usize = 256;
/// Bytes of a range of Dataset Management.
const DSM_RANGE_BYTES: u64 = 16;

/// The controller.
#[derive(Debug)]
pub struct Controller {
    profile: Profile,
    cache: Option<Cache>,
    timing: Timing,
    /// By session: commands that it has not fetched.
    queues: Vec<VecDeque<Asked>>,
    /// The queue from which it fetched last.
    last: usize,
    is_fetching: bool,
    /// Commands that it holds, and free places among them.
    slots: Vec<Asked>,
    free: Vec<usize>,
    held: usize,
    /// Data in the cache, in order of writing.
    cached: VecDeque<Written>,
    cached_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Written {
    bytes: u64,
    programmed_ns: u64,
    durable_ns: u64,
}

impl Written {
    fn hurry(&mut self, now: u64) -> u64 {
        self.durable_ns = self.durable_ns.min(self.programmed_ns.max(now));
        self.durable_ns
    }
}

/// A step of its work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Step {
    Fetch,
    Transfer(usize),
    Complete(usize),
}

impl Clone for Controller {
    /// A controller of the same kind that does nothing yet.
    fn clone(&self) -> Self {
        Self::new(self.profile, self.cache)
    }
}

impl Controller {
    pub fn new(profile: Profile, cache: Option<Cache>) -> Self {
        Self {
            profile,
            cache,
            timing: Timing::new(profile),
            queues: Vec::new(),
            last: 0,
            is_fetching: false,
            slots: Vec::new(),
            free: Vec::new(),
            held: 0,
            cached: VecDeque::new(),
            cached_bytes: 0,
        }
    }

    /// A command is in the queue of `session`. Returns the next step, if it did nothing until now.
    pub fn submit(&mut self, session: usize, asked: Asked, now: u64) -> Option<(u64, Step)> {
        while self.queues.len() <= session {
            self.queues.push(VecDeque::new());
        }
        self.queues[session].push_back(asked);
        self.wake(now)
    }

    /// Does a step. Returns the command that completed, if one did, and the steps that follow.
    pub fn step(&mut self, step: Step, now: u64) -> (Option<Asked>, [Option<(u64, Step)>; 2]) {
        match step {
            Step::Fetch => {
                self.is_fetching = false;
                let fetched = self.fetch(now);
                (None, [fetched, self.wake(now)])
            }
            Step::Transfer(slot) => {
                let done = self.transfer(self.slots[slot], now) + self.profile.front_end.completion_ns;
                (None, [Some((done, Step::Complete(slot))), None])
            }
            Step::Complete(slot) => {
                self.held -= 1;
                self.free.push(slot);
                (Some(self.slots[slot]), [None, self.wake(now)])
            }
        }
    }

    fn wake(&mut self, now: u64) -> Option<(u64, Step)> {
        let waits = self.held < OUTSTANDING && self.queues.iter().any(|queue| !queue.is_empty());
        if self.is_fetching || !waits {
            return None;
        }
        self.is_fetching = true;
        Some((self.timing.fetch(now), Step::Fetch))
    }

    fn fetch(&mut self, now: u64) -> Option<(u64, Step)> {
        if self.held >= OUTSTANDING {
            return None;
        }
        let count = self.queues.len();
        let next = (1..=count).map(|step| (self.last + step) % count).find(|queue| !self.queues[*queue].is_empty())?;
        self.last = next;
        let asked = self.queues[next].pop_front()?;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(asked);
            self.slots.len() - 1
        });
        self.slots[slot] = asked;
        self.held += 1;
        let decoded = now + self.profile.front_end.decode_ns;
        let bytes = u64::from(asked.bytes);
        let at = match asked.operation {
            Operation::Read => self.timing.media(MediaAccess::Read, asked.at..asked.at + bytes, decoded),
            Operation::Write => self.timing.inbound(decoded, bytes),
            Operation::Discard => self.timing.inbound(decoded, DSM_RANGE_BYTES),
            Operation::Zeroes | Operation::Flush => decoded,
        };
        Some((at, Step::Transfer(slot)))
    }

    /// When a command whose data can move is done.
    fn transfer(&mut self, asked: Asked, now: u64) -> u64 {
        let bytes = u64::from(asked.bytes);
        match asked.operation {
            Operation::Read => self.timing.outbound(now, bytes),
            Operation::Write => self.write(asked.at..asked.at + bytes, now),
            // The media note it in one place.
            Operation::Zeroes | Operation::Discard => self.write(asked.at..asked.at + NOTED_BYTES, now),
            Operation::Flush => {
                self.settle(now);
                self.cached.iter_mut().map(|one| one.hurry(now)).fold(now, u64::max)
            }
        }
    }

    fn write(&mut self, range: std::ops::Range<u64>, now: u64) -> u64 {
        let bytes = range.end - range.start;
        let programmed_ns = self.timing.media(MediaAccess::Program, range, now);
        let (room, durable_ns) = match self.cache {
            Some(cache) => (self.room(bytes, cache.bytes, now), programmed_ns + cache.linger_ns),
            None => (programmed_ns, programmed_ns),
        };
        self.cached.push_back(Written { bytes, programmed_ns, durable_ns });
        self.cached_bytes += bytes;
        room
    }

    fn room(&mut self, bytes: u64, capacity: u64, now: u64) -> u64 {
        self.settle(now);
        let mut excess = (self.cached_bytes + bytes).saturating_sub(capacity);
        let mut ready = now;
        for one in &mut self.cached {
            if excess == 0 {
                break;
            }
            ready = ready.max(one.hurry(now));
            excess = excess.saturating_sub(one.bytes);
        }
        ready
    }

    fn settle(&mut self, now: u64) {
        while let Some(one) = self.cached.front().copied().filter(|one| one.durable_ns <= now) {
            self.cached.pop_front();
            self.cached_bytes -= one.bytes;
        }
    }
}
