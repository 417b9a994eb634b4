//! The record of a run: one number, and its last events. Two runs of a seed are the same when their hashes are equal.

use rapidhash::quality::RapidHasher;
use std::fmt;
use std::hash::Hasher;

/// Events that are kept, for a search after the cause of a failure.
const KEPT: usize = 64;

/// The kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A thread starts to run.
    Runs,
    /// An invocation: its name, whose letters enter the hash, and whether it was refused.
    Invoked {
        /// The invocation's name.
        name: Name,
        /// Whether the kernel refused it.
        refused: bool,
    },
    /// A wait or poll received something; the value is the badge.
    Received,
    /// A register was read; the value is the address.
    RegisterRead,
    /// A register was written; the value is the address.
    RegisterWritten,
    /// A device moved data; the value is the address.
    Transferred,
    /// A message-signalled interrupt; the value is its data.
    Message,
    /// An interrupt pin changed its level; the value is the pin.
    Pin,
    /// A component panicked; the value is the exception by which it ends.
    Ended,
}

/// The name of an invocation, with the part of it that enters the hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Name {
    text: &'static str,
    letters: u64,
}

impl Name {
    /// Creates a name. Used in constants wherever possible: the loop over the letters would cost time at each invocation.
    #[must_use]
    pub const fn new(text: &'static str) -> Self {
        let (mut letters, mut index) = (0u64, 0);
        while index < text.len() {
            letters = letters.wrapping_mul(31).wrapping_add(text.as_bytes()[index] as u64);
            index += 1;
        }
        Self { text, letters }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text)
    }
}

/// An event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Virtual time of the event.
    pub at_ns: u64,
    /// The thread that ran, by its number in the order of their starts.
    pub thread: u32,
    /// The kind of event.
    pub kind: Kind,
    /// A further number; its meaning depends on the kind.
    pub value: u64,
}

/// The hash so far, and the last events.
pub(crate) struct Trace {
    /// Hash of all pairs of events so far: words enter it two at a time, and an event has three.
    hasher: RapidHasher<'static>,
    /// A circular buffer of the last events.
    last: [Entry; KEPT],
    /// The number of events so far.
    count: usize,
}

impl Trace {
    pub(crate) fn new() -> Self {
        let nothing = Entry { at_ns: 0, thread: 0, kind: Kind::Runs, value: 0 };
        Self { hasher: RapidHasher::default(), last: [nothing; KEPT], count: 0 }
    }

    #[inline]
    pub(crate) fn note(&mut self, entry: Entry) {
        self.last[self.count % KEPT] = entry;
        self.count += 1;
        if self.count.is_multiple_of(2) {
            let first = self.last[(self.count - 2) % KEPT].words();
            let second = entry.words();
            for [low, high] in [[first[0], first[1]], [first[2], second[0]], [second[1], second[2]]] {
                self.hasher.write_u128(u128::from(high) << 64 | u128::from(low));
            }
        }
    }

    /// Returns the hash of all events so far.
    pub(crate) fn hash(&self) -> u64 {
        let mut hasher = self.hasher;
        if !self.count.is_multiple_of(2) {
            self.last[(self.count - 1) % KEPT].words().into_iter().for_each(|word| hasher.write_u64(word));
        }
        hasher.finish()
    }

    /// The last events, oldest first.
    pub(crate) fn last(&self) -> impl Iterator<Item = &Entry> {
        (self.count.saturating_sub(KEPT)..self.count).map(|number| &self.last[number % KEPT])
    }
}

impl Entry {
    /// Returns the words of the event that enter the hash.
    const fn words(&self) -> [u64; 3] {
        let Self { at_ns, thread, kind, value } = *self;
        [at_ns, (thread as u64) << 8 | kind.number(), value]
    }
}

impl Kind {
    /// Returns the kind's number in the hash; it includes the letters of an invocation's name.
    const fn number(self) -> u64 {
        match self {
            Self::Runs => 0,
            Self::Invoked { name, refused } => 1 | (refused as u64) << 7 | name.letters << 40,
            Self::Received => 2,
            Self::RegisterRead => 3,
            Self::RegisterWritten => 4,
            Self::Transferred => 5,
            Self::Message => 6,
            Self::Pin => 7,
            Self::Ended => 8,
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at_ns, thread, kind, value } = self;
        write!(f, "{at_ns:>14} ns  thread {thread:<3} ")?;
        match kind {
            Kind::Runs => f.write_str("runs"),
            Kind::Invoked { name, refused: false } => write!(f, "{name} ({value:#x})"),
            Kind::Invoked { name, refused: true } => write!(f, "{name} ({value:#x}) is refused"),
            Kind::Received => write!(f, "receives from {value:#x}"),
            Kind::RegisterRead => write!(f, "reads the register at {value:#x}"),
            Kind::RegisterWritten => write!(f, "writes the register at {value:#x}"),
            Kind::Transferred => write!(f, "a device moves data at {value:#x}"),
            Kind::Message => write!(f, "a device raises the message {value:#x}"),
            Kind::Pin => write!(f, "interrupt pin {value}"),
            Kind::Ended => f.write_str("ends"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(at_ns: u64, name: &'static str) -> Entry {
        Entry { at_ns, thread: 1, kind: Kind::Invoked { name: Name::new(name), refused: false }, value: 3 }
    }

    #[test]
    fn the_same_events_have_the_same_hash_and_others_another() {
        let of = |entries: &[Entry]| {
            let mut trace = Trace::new();
            entries.iter().for_each(|entry| trace.note(*entry));
            trace.hash()
        };
        let (a, b) = (entry(1, "signal"), entry(2, "call"));
        assert_eq!(of(&[a, b]), of(&[a, b]));
        assert_ne!(of(&[a, b]), of(&[b, a]));
        assert_ne!(of(&[a]), of(&[entry(1, "call")]));
        assert_ne!(of(&[a]), of(&[entry(2, "signal")]));
    }

    #[test]
    fn only_the_last_events_are_kept() {
        let mut trace = Trace::new();
        (0..1000).for_each(|at_ns| trace.note(entry(at_ns, "signal")));
        assert_eq!(trace.last().count(), KEPT);
        assert_eq!(trace.last().last().map(|entry| entry.at_ns), Some(999));
    }
}
