//! The content of a block: in the place itself while nothing happens, in a [`History`] otherwise.
//!
//! Neighbours: `namespace` finds the places. Left out: the number of the block that a place belongs to.

use super::history::{Durable, Effect, History, Verdict};
use super::{Hash, Persistence, WriteCache};

/// The knowledge of one block.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// Only reads are in flight, and all return this content.
    Quiet { reads: u32, content: Hash },
    /// The number of its history.
    Busy { history: u32 },
}

/// The histories of a namespace's busy places.
#[derive(Debug)]
pub(super) struct Histories {
    write_cache: WriteCache,
    all: Vec<History>,
    free: Vec<u32>,
    /// When the latest completed flush was submitted.
    flushed: u64,
    /// When the power failed last.
    power_lost: u64,
}

impl Histories {
    pub(super) const fn new(write_cache: WriteCache) -> Self {
        Self { write_cache, all: Vec::new(), free: Vec::new(), flushed: 0, power_lost: 0 }
    }

    pub(super) fn read_begins(&mut self, place: &mut Place, ticket: u64) {
        match place {
            Place::Quiet { reads, .. } => *reads = reads.saturating_add(1),
            Place::Busy { history } => self.all[*history as usize].read_begins(ticket),
        }
    }

    /// Ends a read, and judges it if it returned something.
    pub(super) fn read_ends(&mut self, place: &mut Place, content: Option<Hash>, asked: u64, now: u64) -> Verdict {
        match place {
            Place::Quiet { reads, content: own } => {
                *reads = reads.saturating_sub(1);
                if content.is_none_or(|content| content == *own) { Verdict::Possible } else { Verdict::Impossible }
            }
            Place::Busy { history } => {
                let history = &mut self.all[*history as usize];
                history.read_ends(asked);
                match content {
                    None => Verdict::Possible,
                    // It may have been read before the loss or after it, and the order from before is no longer known.
                    Some(_) if asked < self.power_lost => Verdict::Unjudged,
                    Some(content) => history.read(content, asked, now),
                }
            }
        }
    }

    pub(super) fn write_begins(&mut self, place: &mut Place, content: Hash, ticket: u64, persistence: Persistence) {
        self.of(place).write(content, ticket, persistence);
    }

    /// Repeats a write in flight at `now`.
    pub(super) fn write_repeats(&mut self, place: &mut Place, ticket: u64, now: u64) {
        self.of(place).write_again(ticket, now);
    }

    pub(super) fn write_ends(&mut self, place: &mut Place, ticket: u64, effect: Effect, now: u64) {
        if let Place::Busy { history } = place {
            self.all[*history as usize].close(ticket, effect, now);
        }
    }

    /// Drops knowledge that a place does not need any more, up to its whole history.
    pub(super) fn tidy(&mut self, place: &mut Place, now: u64) {
        let Place::Busy { history: index } = *place else { return };
        let durable = self.durable();
        let history = &mut self.all[index as usize];
        if let Some(content) = history.tidy(durable, now) {
            history.end();
            self.free.push(index);
            *place = Place::Quiet { reads: 0, content };
        }
    }

    /// Records the success of a flush that was submitted at `asked`. Histories take it into account when they are next used.
    pub(super) fn flushed(&mut self, asked: u64) {
        self.flushed = self.flushed.max(asked);
    }

    pub(super) fn end_unknown(&mut self, now: u64) {
        for history in &mut self.all {
            history.end_unknown(now);
        }
    }

    pub(super) fn power_lost(&mut self, now: u64) {
        self.power_lost = now;
        let durable = self.durable();
        for history in self.all.iter_mut().filter(|history| !history.is_over()) {
            history.power_lost(durable, now);
        }
    }

    /// Returns the contents that the block may hold.
    pub(super) fn contents(&self, place: &Place) -> Vec<Hash> {
        match place {
            Place::Quiet { content, .. } => vec![*content],
            Place::Busy { history } => self.all[*history as usize].contents().collect(),
        }
    }

    /// Returns the number of busy places.
    pub(super) fn busy(&self) -> usize {
        self.all.len() - self.free.len()
    }

    const fn durable(&self) -> Durable {
        match self.write_cache {
            WriteCache::None => Durable::Certain,
            WriteCache::Volatile => Durable::Flushed(self.flushed),
        }
    }

    /// Returns the history of a place, which begins now if there was none.
    fn of(&mut self, place: &mut Place) -> &mut History {
        let index = match *place {
            Place::Busy { history } => history,
            Place::Quiet { reads, content } => {
                let index = self.free.pop().unwrap_or_else(|| {
                    self.all.push(History::default());
                    u32::try_from(self.all.len() - 1).expect("memory ends before 2^32 blocks are busy")
                });
                self.all[index as usize].begin(content, reads);
                *place = Place::Busy { history: index };
                index
            }
        };
        &mut self.all[index as usize]
    }
}
