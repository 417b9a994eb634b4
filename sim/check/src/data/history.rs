//! The history of one block, as short as the judgement of the next read allows.
//!
//! Each value that was written has two moments: when it was *last asked* (its write, or the latest finished read that
//! returned it, was submitted) and when it was *first known* (the earliest answer to any of those). A value that was
//! first known before another was last asked must come before it. Where no two writes have the same content, a
//! history is linearizable exactly when no two values must each come before the other (Gibbons and Korach, Testing
//! Shared Memories, 1997). So a finished read is judged against each other value, one comparison apiece. Writes with an
//! uncertain effect take part only after a read has returned them. A read that several equal values allow binds none of them,
//! so that nothing correct is refused.
//!
//! Neighbours: `place` keeps one for each block that needs more than its content. Left out: the number of the block.

use rapidhash::RapidHashMap;
use std::collections::VecDeque;

use super::{Hash, Persistence};

/// The moment that never comes. All others count the calls to the checker.
pub(super) const NEVER: u64 = u64::MAX;

/// Limit on the values of a block that a power loss may bring back; with more of them a read may return any value after a loss.
const PAST_LIMIT: usize = 16;

/// The end of an attempt to write, for one block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    /// The operation was done.
    Happened,
    /// The operation was done or not, and is over.
    Perhaps,
    /// The operation was done or not, and may still be done.
    Unknown,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Attempt {
    Open,
    Unknown,
    Over,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Claim {
    Perhaps,
    Certain,
}

#[derive(Clone, Copy, Debug)]
struct Value {
    hash: Hash,
    /// The moment of the request, by which its answer finds it.
    ticket: u64,
    last_asked: u64,
    first_known: u64,
    /// A flush submitted from this moment on covers it.
    flushable: u64,
    persistence: Persistence,
    attempt: Attempt,
    claim: Claim,
}

impl Value {
    const fn attempt(hash: Hash, ticket: u64, persistence: Persistence) -> Self {
        Self {
            hash,
            ticket,
            last_asked: ticket,
            first_known: NEVER,
            flushable: NEVER,
            persistence,
            attempt: Attempt::Open,
            claim: Claim::Perhaps,
        }
    }

    /// A value that was, or may have been, on the medium at `moment`.
    const fn stored(hash: Hash, moment: u64, claim: Claim) -> Self {
        Self {
            hash,
            ticket: NEVER,
            last_asked: moment,
            first_known: moment,
            flushable: 0,
            persistence: Persistence::Forced,
            attempt: Attempt::Over,
            claim,
        }
    }

    fn is_certain(&self) -> bool {
        self.claim == Claim::Certain
    }

    fn returned_by_read(mut self, asked: u64, answered: u64) -> Self {
        self.last_asked = self.last_asked.max(asked);
        self.first_known = self.first_known.min(answered);
        self.claim = Claim::Certain;
        self
    }
}

/// The values that a loss of power cannot take away.
#[derive(Clone, Copy, Debug)]
pub(super) enum Durable {
    /// All values that are certain to have been written.
    Certain,
    /// The values covered by a flush that was submitted at this moment.
    Flushed(u64),
}

impl Durable {
    fn holds(self, value: &Value) -> bool {
        value.is_certain()
            && match self {
                Self::Certain => true,
                Self::Flushed(moment) => value.flushable <= moment,
            }
    }
}

/// The judgement of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Possible,
    Impossible,
    /// Too much was forgotten to decide.
    Unjudged,
}

/// The values that a block may hold, and the knowledge about their order.
#[derive(Debug, Default)]
pub(super) struct History {
    values: Vec<Value>,
    /// Overwritten for readers, but still in flight, so that it may be repeated.
    lapsed: Vec<Value>,
    /// Overwritten for readers, but not for a loss of power. Empty without a volatile cache.
    past: VecDeque<Value>,
    /// The past overflowed: the latest moment at which a dropped value was first known.
    forgotten: Option<u64>,
    /// The moment of a loss after which the block may hold any content.
    anything: Option<u64>,
    /// The moments of the reads in flight, in order. The number of reads that are older than the history stands beside them.
    reads: Vec<u64>,
    old_reads: u32,
    flush_seen: u64,
}

impl History {
    /// Begins with the block's content, and with `old_reads` reads of it in flight.
    pub(super) fn begin(&mut self, content: Hash, old_reads: u32) {
        let Self { values, lapsed, past, forgotten, anything, reads, old_reads: old, flush_seen } = self;
        (*old, *forgotten, *anything, *flush_seen) = (old_reads, None, None, 0);
        lapsed.clear();
        past.clear();
        reads.clear();
        values.clear();
        values.push(Value::stored(content, 0, Claim::Certain));
    }

    pub(super) fn write(&mut self, hash: Hash, ticket: u64, persistence: Persistence) {
        self.values.push(Value::attempt(hash, ticket, persistence));
    }

    /// Repeats an attempt at `now`. The first attempt's effect stays possible.
    pub(super) fn write_again(&mut self, ticket: u64, now: u64) {
        let lapsed = self.lapsed.iter().find(|value| value.ticket == ticket).copied();
        let Some(first) = lapsed.or_else(|| self.open(ticket).copied()) else { return };
        self.close(ticket, Effect::Perhaps, now);
        self.values.push(Value { last_asked: now, ..Value::attempt(first.hash, ticket, first.persistence) });
    }

    /// Ends an attempt with the answer to its write.
    pub(super) fn close(&mut self, ticket: u64, effect: Effect, now: u64) {
        self.lapsed.retain(|value| value.ticket != ticket);
        let Some(value) = self.open(ticket) else { return };
        value.attempt = if effect == Effect::Unknown { Attempt::Unknown } else { Attempt::Over };
        if effect != Effect::Unknown {
            value.first_known = value.first_known.min(now);
        }
        if effect == Effect::Happened {
            value.claim = Claim::Certain;
            value.flushable = if value.persistence == Persistence::Forced { 0 } else { now };
        }
    }

    fn open(&mut self, ticket: u64) -> Option<&mut Value> {
        self.values.iter_mut().find(|value| value.ticket == ticket && value.attempt == Attempt::Open)
    }

    /// Ends the attempts with an unknown result: they can have no further effect.
    pub(super) fn end_unknown(&mut self, now: u64) {
        for value in self.values.iter_mut().filter(|value| value.attempt == Attempt::Unknown) {
            value.attempt = Attempt::Over;
            value.first_known = value.first_known.min(now);
        }
    }

    pub(super) fn read_begins(&mut self, ticket: u64) {
        self.reads.push(ticket);
    }

    /// Ends a read, whatever it returned.
    pub(super) fn read_ends(&mut self, ticket: u64) {
        match self.reads.iter().position(|&read| read == ticket) {
            Some(index) => {
                self.reads.remove(index);
            }
            None => self.old_reads = self.old_reads.saturating_sub(1),
        }
    }

    /// Judges a read that was submitted at `asked` and returned `hash`, and records what it shows about the order.
    pub(super) fn read(&mut self, hash: Hash, asked: u64, now: u64) -> Verdict {
        let allowed = |&(index, value): &(usize, &Value)| {
            value.hash == hash && self.fits(&value.returned_by_read(asked, now), Some(index))
        };
        let mut candidates = self.values.iter().enumerate().filter(allowed).map(|(index, _)| index);
        match (candidates.next(), candidates.next()) {
            (Some(index), None) => self.values[index] = self.values[index].returned_by_read(asked, now),
            (Some(_), Some(_)) => {}
            (None, _) => return self.read_anything(hash, asked, now),
        }
        Verdict::Possible
    }

    fn read_anything(&mut self, hash: Hash, asked: u64, now: u64) -> Verdict {
        let Some(moment) = self.anything else { return Verdict::Impossible };
        let value = Value::stored(hash, moment, Claim::Perhaps).returned_by_read(asked, now);
        if !self.fits(&value, None) {
            return Verdict::Impossible;
        }
        self.anything = None;
        self.values.push(value);
        Verdict::Unjudged
    }

    /// Whether a value can have these moments: it and any other value must not each have to come before the other.
    fn fits(&self, value: &Value, own: Option<usize>) -> bool {
        let mut others =
            self.values.iter().enumerate().filter(|&(index, other)| Some(index) != own && other.is_certain());
        !others.any(|(_, other)| value.first_known < other.last_asked && other.first_known < value.last_asked)
    }

    /// Records a loss of power: the block holds one of the values that may have been on the medium. Open attempts stay open.
    pub(super) fn power_lost(&mut self, durable: Durable, now: u64) {
        let later = Later::than_these(self.values.iter().chain(&self.past), |value| durable.holds(value));
        let all = self.values.iter().chain(&self.past).enumerate();
        let mut left: Vec<Hash> = all
            .filter(|(index, value)| !later.overtakes(value.first_known, Some(*index)))
            .map(|(_, v)| v.hash)
            .collect();
        left.sort_unstable();
        left.dedup();
        let lost = [self.forgotten, self.anything].into_iter().flatten().max();
        self.anything = lost.filter(|&moment| !later.overtakes(moment, None)).map(|_| now);
        self.forgotten = None;
        self.past.clear();
        self.values.retain(|value| value.attempt == Attempt::Open);
        for value in &mut self.values {
            *value = Value { last_asked: now, ..Value::attempt(value.hash, value.ticket, value.persistence) };
        }
        let claim = if left.len() == 1 && self.anything.is_none() { Claim::Certain } else { Claim::Perhaps };
        self.values.extend(left.into_iter().map(|hash| Value::stored(hash, now, claim)));
    }

    /// Drops values that no read can return any more and no loss can bring back. Returns the content if nothing else is
    /// left to know.
    pub(super) fn tidy(&mut self, durable: Durable, now: u64) -> Option<Hash> {
        let horizon = if self.old_reads > 0 { 0 } else { self.reads.first().copied().unwrap_or(now.saturating_add(1)) };
        if self.values.len() > 1 {
            self.forget_overwritten(durable, horizon);
        }
        if let Durable::Flushed(moment) = durable
            && moment > self.flush_seen
        {
            self.flush_seen = moment;
            self.forget_flushed(durable);
        }
        self.content()
    }

    /// Returns the content, if it is certain and nothing is in flight.
    fn content(&self) -> Option<Hash> {
        let quiet = self.reads.is_empty() && self.old_reads == 0 && self.lapsed.is_empty() && self.past.is_empty();
        let whole = self.forgotten.is_none() && self.anything.is_none();
        let hash = self.values.first()?.hash;
        let one = self.values.iter().all(|value| value.hash == hash && value.attempt == Attempt::Over);
        (quiet && whole && one).then_some(hash)
    }

    /// Drops values that are overwritten for all reads from the horizon on: another value comes after them, and was known
    /// before those reads. A value is dropped when its own moments lie before the horizon too: it can then refuse no other
    /// value that is not overwritten itself.
    fn forget_overwritten(&mut self, durable: Durable, horizon: u64) {
        let later = Later::than_these(self.values.iter(), |value| value.is_certain() && value.first_known < horizon);
        self.anything = self.anything.filter(|&moment| !later.overtakes(moment, None));
        let mut index = 0;
        let (lapsed, past, forgotten) = (&mut self.lapsed, &mut self.past, &mut self.forgotten);
        self.values.retain(|value| {
            let before = value.first_known < horizon && value.last_asked < horizon;
            let gone = before && later.overtakes(value.first_known, Some(index));
            index += 1;
            if gone && value.attempt == Attempt::Open {
                lapsed.push(*value);
            }
            if gone && matches!(durable, Durable::Flushed(_)) {
                if past.len() == PAST_LIMIT {
                    *forgotten = (*forgotten).max(past.pop_front().map(|oldest| oldest.first_known));
                }
                past.push_back(*value);
            }
            !gone
        });
        self.forget_doubles(horizon);
    }

    /// Drops equal attempts that were perhaps done and are over: the latest one allows all that the others do.
    fn forget_doubles(&mut self, horizon: u64) {
        let idle = |value: &Value| !value.is_certain() && value.first_known < horizon && value.last_asked < horizon;
        let mut latest = RapidHashMap::default();
        for value in self.values.iter().filter(|value| idle(value)) {
            let moment: &mut u64 = latest.entry(value.hash).or_default();
            *moment = value.first_known.max(*moment);
        }
        self.values.retain(|value| !idle(value) || latest.get(&value.hash) == Some(&value.first_known));
    }

    fn forget_flushed(&mut self, durable: Durable) {
        let later = Later::than_these(self.values.iter().chain(&self.past), |value| durable.holds(value));
        let mut index = self.values.len();
        self.past.retain(|value| {
            index += 1;
            !later.overtakes(value.first_known, Some(index - 1))
        });
        self.forgotten = self.forgotten.filter(|&moment| !later.overtakes(moment, None));
    }

    /// Whether the history is not in use: it holds no value.
    pub(super) fn is_over(&self) -> bool {
        self.values.is_empty()
    }

    /// Ends the history, but keeps its memory for the next one.
    pub(super) fn end(&mut self) {
        self.values.clear();
    }

    /// Returns the contents that the block may hold, for people to read. Some that are already overwritten may be among them.
    pub(super) fn contents(&self) -> impl Iterator<Item = Hash> {
        self.values.iter().map(|value| value.hash)
    }
}

/// The latest moments at which chosen values were last asked: of all of them, and of all without the one that holds the latest.
#[derive(Clone, Copy, Debug)]
struct Later {
    holder: Option<usize>,
    latest: Option<u64>,
    second: Option<u64>,
}

impl Later {
    fn than_these<'a>(values: impl Iterator<Item = &'a Value>, chosen: impl Fn(&Value) -> bool) -> Self {
        let mut later = Self { holder: None, latest: None, second: None };
        for (index, value) in values.enumerate().filter(|(_, value)| chosen(value)) {
            if later.latest < Some(value.last_asked) {
                (later.second, later.latest, later.holder) = (later.latest, Some(value.last_asked), Some(index));
            } else {
                later.second = later.second.max(Some(value.last_asked));
            }
        }
        later
    }

    /// Whether a chosen one, other than the value itself, must come after a value first known at this moment.
    fn overtakes(&self, first_known: u64, own: Option<usize>) -> bool {
        let latest = if own.is_some() && own == self.holder { self.second } else { self.latest };
        latest.is_some_and(|moment| first_known < moment)
    }
}
