//! Traces: the events of single requests, which a component writes into a [ring](telemetry::ring) for the build machine.
//!
//! An NVMe server has a ring for each session, and a client one of its own. A client with a virtual function has one alone, with the
//! events that a server has of a session: its turn begins with the first submission after a doorbell. Most requests have one event when their command was
//! submitted, and one when it completed. What many requests have in common is one event for all of them: a turn, a doorbell, answers
//! that are published. A request is known by its number on the session's ring, which both sides count: a turn has the number of its
//! first request, and each request that is taken has an event. So no byte of an entry is for traces. Times are ticks of the machine's
//! clock, which is the same for all components.

use crate::operation::Kind;
use crate::request::Opcode;
use alloc::boxed::Box;
use platform::{Platform, Region};
use serde::{Deserialize, Serialize};
use telemetry::ring::Writer;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The kinds of requests that are traced: a bit for each [`Kind`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Kinds(pub u8);

impl Kinds {
    /// No request.
    pub const NONE: Self = Self(0);
    /// All requests.
    pub const ALL: Self = Self(Self::of(Kind::Read).0 | Self::of(Kind::Write).0 | Self::of(Kind::Other).0);

    /// Requests of one kind.
    #[must_use]
    pub const fn of(kind: Kind) -> Self {
        Self(1 << kind as u8)
    }

    /// The reader's word ([`telemetry::ring::WISH`]) that asks for these kinds from now on. A word of 0 leaves them as configured.
    #[must_use]
    pub const fn wish(self) -> u64 {
        WISHED | self.0 as u64
    }

    /// The kinds that a reader's word asks for, if it does.
    #[must_use]
    pub const fn of_wish(word: u64) -> Option<Self> {
        if word & WISHED != 0 { Some(Self(word as u8 & Self::ALL.0)) } else { None }
    }

    /// The operations of these kinds: a bit for each, at the place of its number.
    #[must_use]
    pub const fn operations(self) -> u32 {
        let (mut all, mut rest): (u32, &[Kind]) = (0, &[Kind::Read, Kind::Write, Kind::Other]);
        while let [first, others @ ..] = rest {
            if self.0 & Self::of(*first).0 != 0 {
                all |= Opcode::numbers_of(*first);
            }
            rest = others;
        }
        all
    }
}

/// In a reader's word: it asks for something.
const WISHED: u64 = 1 << 63;

/// The subject of an event, by its number in the lowest byte of [`Event::key`]. Layouts are of the bits of the key from bit 8 on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum What {
    /// A session begins: requests and answers are counted from 0. What came before has ended.
    Opened = 1,
    /// A session has its turn, with a queue pair. [`Event::word`] is the time of the server's pass, from which the statistics count
    /// latencies. 24 bits: ticks from then to the turn; 16: the queue pair; 16: number of the next request, modulo 2^16.
    Turn = 2,
    /// The next request was taken, checked, and submitted as one command. Word and operation as [`Event::at`] has them. 8 bits: the
    /// operation; 16: the command's identifier; 16: blocks minus 1; 16: the lower bits of the time at which its checks had ended.
    Whole = 3,
    /// The next request was taken and checked that is cut into commands. Word as above. 8 bits: the operation; 16: the request's place;
    /// 32: bytes.
    Taken = 4,
    /// A command of the request in a place was submitted. As [`What::Whole`], with the place in the last 16 bits.
    Part = 5,
    /// The next request was taken, and is not traced.
    Skipped = 6,
    /// The next request was taken and is answered without a command. As [`What::Ended`], without a place.
    Refused = 7,
    /// The doorbell was rung for the commands that were submitted so far. The word is the time.
    Rung = 8,
    /// Completions are taken from a queue pair. The word is the time of the pass, to which the statistics count latencies. 24 bits: 0;
    /// 16: the queue pair; 16: number of the next answer, modulo 2^16.
    Completions = 18,
    /// The commands of whole requests were completed with success, on that queue pair and at that time, and the requests are answered in
    /// this order. 8 bits: how many; from bit 16 of the key on, and then in the word: their identifiers.
    Commands = 19,
    /// A command failed. As the next event, but 16 bits: the status.
    Failed = 9,
    /// The command of a whole request was completed, and the request is answered. The word is the time of the pass. 8 bits: 0; 16: the
    /// command's identifier; 16: the queue pair; 16: number of the answer, modulo 2^16.
    Completed = 10,
    /// A command of the request in a place was completed. As above, with the place in the last 16 bits.
    PartCompleted = 11,
    /// A whole request's command waits for a retry, and its request is in a place now. As above.
    Kept = 12,
    /// A request is answered after its last command. The word is the time. 8 bits: 0; 16: its place; 16: number of the answer; 16: the
    /// status.
    Ended = 13,
    /// Commands in flight are lost with their queue pair. The word is the time.
    Cut = 14,
    /// The answers so far are published. The word is the time; the upper 32 bits are the number of the next answer.
    Answered = 15,
    /// The client published entries. As above, of requests.
    Published = 16,
    /// The client took answers. As above.
    Received = 17,
    /// The trace begins in the middle of a session, or is of other kinds from here on. As above, of the next request.
    Begun = 20,
}

impl What {
    /// All kinds of events, by their numbers.
    const ALL: [Self; 20] = [
        Self::Opened,
        Self::Turn,
        Self::Whole,
        Self::Taken,
        Self::Part,
        Self::Skipped,
        Self::Refused,
        Self::Rung,
        Self::Failed,
        Self::Completed,
        Self::PartCompleted,
        Self::Kept,
        Self::Ended,
        Self::Cut,
        Self::Answered,
        Self::Published,
        Self::Received,
        Self::Completions,
        Self::Commands,
        Self::Begun,
    ];
}

/// An event. The layout of both words is [`What`]'s.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Event {
    /// A time in ticks; or a first block and the lower bits of one.
    pub word: u64,
    /// The kind, and its other parts.
    pub key: u64,
}

/// Bits of the time beside a block's number, and the blocks that have one.
const TIME_BITS: u32 = 24;

impl Event {
    /// An event at this time, with up to three numbers of 16 bits.
    #[must_use]
    #[inline(always)]
    pub const fn of(what: What, time: u64, [first, second, third]: [u16; 3]) -> Self {
        let key = what as u64 | (first as u64) << 16 | (second as u64) << 32 | (third as u64) << 48;
        Self { word: time, key }
    }

    /// An event at this time, with a number.
    #[must_use]
    #[inline(always)]
    pub const fn numbered(what: What, time: u64, number: u32) -> Self {
        Self { word: time, key: what as u64 | (number as u64) << 32 }
    }

    /// A turn that begins at `time` in the pass of the time `seen`.
    #[must_use]
    pub const fn turn(seen: u64, time: u64, queue: u16, number: u16) -> Self {
        let (ticks, most) = (time.wrapping_sub(seen), (1 << TIME_BITS) - 1);
        let ticks = if ticks > most { most } else { ticks };
        let key = What::Turn as u64 | ticks << 8 | (queue as u64) << 32 | (number as u64) << 48;
        Self { word: seen, key }
    }

    /// A submission from block `first` on at `time`. Blocks from 2^40 on are shown modulo that.
    #[must_use]
    #[inline(always)]
    pub const fn at(what: What, time: u64, opcode: Opcode, first: u64, [id, second, third]: [u16; 3]) -> Self {
        let word = first << TIME_BITS | time & ((1 << TIME_BITS) - 1);
        let key = what as u64 | (opcode as u64) << 8 | (id as u64) << 16 | (second as u64) << 32 | (third as u64) << 48;
        Self { word, key }
    }

    /// The kind, if this is one.
    #[must_use]
    pub fn what(&self) -> Option<What> {
        What::ALL.into_iter().find(|one| *one as u8 == self.key as u8)
    }

    /// The operation, if it is one.
    #[must_use]
    pub const fn opcode(&self) -> Option<Opcode> {
        Opcode::from_raw((self.key >> 8) as u8)
    }

    /// The three numbers of 16 bits.
    #[must_use]
    pub const fn parts(&self) -> [u16; 3] {
        [(self.key >> 16) as u16, (self.key >> 32) as u16, (self.key >> 48) as u16]
    }

    /// The number of 32 bits.
    #[must_use]
    pub const fn number(&self) -> u32 {
        (self.key >> 32) as u32
    }

    /// The time of a turn.
    #[must_use]
    pub const fn turn_time(&self) -> u64 {
        self.word.wrapping_add((self.key >> 8) & ((1 << TIME_BITS) - 1))
    }

    /// The identifiers of [`What::Commands`].
    pub fn ids(&self) -> impl Iterator<Item = u16> {
        let all = u128::from(self.key) | u128::from(self.word) << 64;
        let ids = (1..=IDS as u32).map(move |place| all.wrapping_shr(place.wrapping_mul(16)) as u16);
        ids.take(usize::from((self.key >> 8) as u8))
    }

    /// The first block of a submission.
    #[must_use]
    pub const fn first(&self) -> u64 {
        self.word >> TIME_BITS
    }

    /// The time of a submission, which is not before `last`.
    #[must_use]
    pub const fn time_after(&self, last: u64) -> u64 {
        last.wrapping_add(self.word.wrapping_sub(last) & ((1 << TIME_BITS) - 1))
    }

    /// The time in ticks of events that have one by themselves.
    #[must_use]
    pub fn time(&self) -> Option<u64> {
        match self.what()? {
            What::Whole | What::Taken | What::Part | What::Skipped | What::Commands => None,
            What::Turn => Some(self.turn_time()),
            _ => Some(self.word),
        }
    }
}

/// Most identifiers of one event.
const IDS: usize = 7;

/// The writer of a component's events, with the clock.
pub struct Tracer<P: Platform> {
    /// Identifiers of completed commands that are not written yet.
    ids: [u16; IDS],
    id_count: usize,
    clock: P,
    ring: Writer<P::Memory, Event>,
    /// The operations that are traced ([`Kinds::operations`]).
    operations: u32,
}

impl<P: Platform> Tracer<P> {
    /// The tracer of these kinds of requests, with its ring in `pages` pages from page `first` of the region on. `None` without such
    /// pages. Without kinds the ring says that it is switched off.
    #[must_use]
    pub fn new(clock: &P, region: &Region, first: usize, pages: usize, kinds: Kinds) -> Option<Box<Self>> {
        let memory = clock.memory(region).ok()?;
        let ring = Writer::new(&memory, first, pages, clock.ticks_per_second(), kinds.0.into()).ok()?;
        let tracer = Self { ids: [0; IDS], id_count: 0, clock: clock.clone(), ring, operations: kinds.operations() };
        (kinds != Kinds::NONE).then(|| Box::new(tracer))
    }

    /// The time, in ticks.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.clock.ticks()
    }

    /// Returns whether requests of this operation are traced.
    #[inline(always)]
    pub const fn has(&self, opcode: Opcode) -> bool {
        self.operations & 1u32.wrapping_shl(opcode as u32) != 0
    }

    /// Returns whether all requests are traced.
    #[inline(always)]
    pub const fn has_all(&self) -> bool {
        self.operations == Kinds::ALL.operations()
    }

    /// Writes a submission, which follows the event of its turn.
    #[inline(always)]
    pub fn submitted(&mut self, event: &Event) {
        self.ring.write(event);
    }

    /// Writes that a command of a whole request was completed with success.
    #[inline(always)]
    pub fn completed(&mut self, id: u16) {
        if self.id_count >= IDS {
            self.write_ids();
        }
        if let Some(place) = self.ids.get_mut(self.id_count) {
            *place = id;
        }
        self.id_count = self.id_count.wrapping_add(1);
    }

    #[inline(never)]
    fn write_ids(&mut self) {
        let [first, second, third, rest @ ..] = self.ids;
        let key = Event::of(What::Commands, 0, [first, second, third]).key | (self.id_count as u64) << 8;
        let word = rest.iter().rev().fold(0, |word: u64, id| word << 16 | u64::from(*id));
        self.id_count = 0;
        self.ring.write(&Event { word, key });
    }

    /// Writes an event, which readers see after [`Tracer::mark`].
    #[inline]
    pub fn write(&mut self, event: &Event) {
        if self.id_count > 0 {
            self.write_ids();
        }
        self.ring.write(event);
    }

    /// Writes an event of many requests, which happens now, and shows readers all events so far.
    #[inline(never)]
    pub fn mark(&mut self, what: What, number: u32) {
        let event = Event::numbered(what, self.now(), number);
        self.write(&event);
        self.ring.publish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_those_of_their_operations() {
        for opcode in Opcode::ALL {
            let only = Kinds::of(opcode.kind());
            assert!(only.operations() & 1 << *opcode as u8 != 0 && Kinds::ALL.operations() & 1 << *opcode as u8 != 0);
            let others = Kinds(Kinds::ALL.0 & !only.0);
            assert_eq!(others.operations() & 1 << *opcode as u8, 0);
        }
        assert_eq!(Kinds::NONE.operations(), 0);
    }

    #[test]
    fn an_event_has_the_parts_that_it_was_made_of() {
        for (number, what) in What::ALL.into_iter().map(|what| (what as u8, what)) {
            let event = Event::of(what, 5, [7, 8, 9]);
            assert_eq!((what as u8, event.what(), event.parts()), (number, Some(what), [7, 8, 9]));
        }
        let event = Event::numbered(What::Answered, 6, u32::MAX);
        assert_eq!((event.time(), event.number()), (Some(6), u32::MAX));
        let event = Event::turn(100, 130, 4, 5);
        assert_eq!((event.word, event.time(), event.parts()[1..].to_vec()), (100, Some(130), [4, 5].to_vec()));
        assert_eq!(Event::turn(100, 1 << 40, 4, 5).time(), Some(100 + (1 << 24) - 1), "the longest");
        assert_eq!(Event::default().what(), None);
        let event = Event { word: 4 | 5 << 16, key: Event::of(What::Commands, 0, [1, 2, 3]).key | 5 << 8 };
        assert!(event.ids().eq(1..=5));
    }

    #[test]
    fn a_submission_has_its_block_and_its_time_after_another() {
        let time = (7 << 24) + 3;
        let event = Event::at(What::Whole, time, Opcode::Write, 1 << 39, [1, 2, 3]);
        assert_eq!((event.first(), event.opcode(), event.parts()), (1 << 39, Some(Opcode::Write), [1, 2, 3]));
        assert_eq!((event.time_after(time - 5), event.time_after(time)), (time, time));
        assert_eq!(event.time(), None);
    }
}
