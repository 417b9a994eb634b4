//! The blocks of one namespace. A quiet block is only its content. A block with writes in flight, or with contents
//! that a power loss could bring back, has a history. So memory depends on the blocks touched, and a read of a quiet
//! block costs a part of a look-up and a comparison.
//!
//! Neighbours: `Data` calls it, and `place` holds the blocks. Left out: requests.

use rapidhash::RapidHashMap;

use super::history::{Effect, Verdict};
use super::place::{Histories, Place};
use super::{BlockRange, Discard, Hash, NamespaceRules, Persistence, hash_block};

/// Number of blocks that share a look-up.
const CHUNK: u64 = 8;

type Chunk = [Option<Place>; CHUNK as usize];

/// Returns the content of a block that was never written.
pub(super) type Initial = Box<dyn Fn(u64) -> Hash>;

pub(super) struct Namespace {
    rules: NamespaceRules,
    zeroes: Hash,
    initial: Initial,
    chunks: RapidHashMap<u64, Chunk>,
    pub(super) histories: Histories,
}

/// A write to a namespace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt<'a> {
    pub(super) range: BlockRange,
    pub(super) contents: Contents<'a>,
    pub(super) ticket: u64,
    pub(super) persistence: Persistence,
}

/// The new content of blocks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Contents<'a> {
    /// A content for each block.
    Each(&'a [Hash]),
    /// Zeroes in all blocks.
    Zeroes,
}

impl Contents<'_> {
    fn at(self, index: u64, zeroes: Hash) -> Option<Hash> {
        match self {
            Self::Each(hashes) => hashes.get(usize::try_from(index).ok()?).copied(),
            Self::Zeroes => Some(zeroes),
        }
    }
}

/// The judgement of a read.
#[derive(Debug, Default)]
pub(super) struct Judgement {
    /// Number of blocks that cannot have held the content that was read.
    pub(super) wrong: u64,
    /// The first of them.
    pub(super) first: Option<Wrong>,
    /// Number of blocks that could not be judged.
    pub(super) unjudged: u64,
}

/// A block that cannot have held the content that was read.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) block: u64,
    pub(super) content: Hash,
    pub(super) allowed: Vec<Hash>,
}

impl Namespace {
    pub(super) fn new(rules: NamespaceRules, initial: Initial) -> Self {
        let zeroes = hash_block(&vec![0; rules.block_bytes]);
        Self { rules, zeroes, initial, chunks: RapidHashMap::default(), histories: Histories::new(rules.write_cache) }
    }

    pub(super) const fn zeroes(&self) -> Hash {
        self.zeroes
    }

    /// Returns the effect of a discard that succeeded.
    pub(super) const fn discarded(&self) -> Effect {
        match self.rules.discard {
            Discard::Zeroes => Effect::Happened,
            Discard::OldOrZeroes => Effect::Perhaps,
        }
    }

    pub(super) fn read_begins(&mut self, range: BlockRange, ticket: u64) {
        self.each(range, |histories, _, place| histories.read_begins(place, ticket));
    }

    /// Ends a read. Judges each block for which there is a content.
    pub(super) fn read_ends(&mut self, range: BlockRange, contents: &[Hash], asked: u64, now: u64) -> Judgement {
        let mut judgement = Judgement::default();
        self.each(range, |histories, block, place| {
            let content = usize::try_from(block - range.first).ok().and_then(|index| contents.get(index)).copied();
            let verdict = histories.read_ends(place, content, asked, now);
            judgement.unjudged += u64::from(verdict == Verdict::Unjudged);
            if let (Verdict::Impossible, Some(content)) = (verdict, content) {
                judgement.wrong += 1;
                judgement.first.get_or_insert_with(|| Wrong { block, content, allowed: histories.contents(place) });
            }
            histories.tidy(place, now);
        });
        judgement
    }

    pub(super) fn write_begins(&mut self, attempt: Attempt<'_>) {
        let Attempt { range, contents, ticket, persistence } = attempt;
        let zeroes = self.zeroes;
        self.each(range, |histories, block, place| {
            if let Some(content) = contents.at(block - range.first, zeroes) {
                histories.write_begins(place, content, ticket, persistence);
            }
        });
    }

    /// Repeats an attempt, because it is unknown whether the first one was done.
    pub(super) fn write_repeats(&mut self, range: BlockRange, ticket: u64, now: u64) {
        self.each(range, |histories, _, place| histories.write_repeats(place, ticket, now));
    }

    pub(super) fn write_ends(&mut self, range: BlockRange, ticket: u64, effect: Effect, now: u64) {
        self.each(range, |histories, _, place| {
            histories.write_ends(place, ticket, effect, now);
            histories.tidy(place, now);
        });
    }

    fn each(&mut self, range: BlockRange, mut visit: impl FnMut(&mut Histories, u64, &mut Place)) {
        let mut blocks = range.blocks();
        while blocks.start < blocks.end {
            let number = blocks.start / CHUNK;
            let end = blocks.end.min((number + 1).saturating_mul(CHUNK));
            let chunk = self.chunks.entry(number).or_default();
            for block in blocks.start..end {
                let place = chunk[(block % CHUNK) as usize]
                    .get_or_insert_with(|| Place::Quiet { reads: 0, content: (self.initial)(block) });
                visit(&mut self.histories, block, place);
            }
            blocks.start = end;
        }
    }
}
