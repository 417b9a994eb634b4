//! The table of records: the server looks every command up in it, and the policy component installs and removes records.

#[cfg(test)]
mod tests;

use crate::places::Places;
use crate::record::{Located, Record, Right};
use crate::tree::{NOTHING, Nodes, Tree, most_nodes};
use alloc::boxed::Box;
use core::fmt;

/// The reason why a command may not go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Miss {
    /// No record holds the block: the client has to ask the policy component.
    NotInstalled,
    /// A record holds the block and does not give the right.
    Forbidden,
}

/// A record that was evicted for another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Evicted {
    /// The session that lost it.
    pub session: usize,
    /// The record that it lost.
    pub record: Record,
}

/// The result of [`ExtentTable::remove`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Removed {
    /// Blocks that were in a record and are in none now.
    pub blocks: u64,
    /// The eviction, if one was needed because a record was cut in two in a full table.
    pub evicted: Option<Evicted>,
}

/// Whether records become one where one record could replace them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Merging {
    /// Records become one when they touch: one ends where the other begins, in the session's numbers and on the namespace,
    /// and both give the same rights.
    On,
    /// Records stay as they were installed, for comparison (SEEDS M5). Those that overlap still become one, because a block
    /// is in one record only.
    Off,
}

/// The reason why a record was not installed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InstallError {
    /// The table has no such session.
    NoSession(usize),
    /// This record of the same session holds some of the blocks, at another place or with other rights.
    Contradicts(Record),
}

/// The reason why a table of this size is impossible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SizeError {
    /// So many sessions are more than records: then a fair share would be less than one.
    TooManySessions(usize),
    /// So many records are, with the sessions, more than [`ExtentTable::MOST`].
    TooManyRecords(usize),
}

/// The state of a session.
#[derive(Clone, Copy, Debug)]
struct Session {
    tree: Tree,
    /// The session's order of use.
    order: u16,
    records: usize,
}

/// The records of all sessions.
///
/// Sessions are numbered from 0. A number that does not exist has no records. The table never holds more than was installed
/// and not removed since; it may hold less, because a full table evicts.
#[derive(Debug)]
pub struct ExtentTable {
    sessions: Box<[Session]>,
    nodes: Nodes,
    places: Places,
    merging: Merging,
    /// Sessions that hold records.
    holders: usize,
    /// Among sessions that hold equally many, the next one after this loses a record.
    last_victim: usize,
}

impl ExtentTable {
    /// The most records and sessions together: links have 16 bits, and one value stands for no link.
    pub const MOST: usize = NOTHING as usize;

    /// A table for `records` records of `sessions` sessions. All memory it will ever need is allocated here: for 16,384
    /// records of 64 sessions about 1.2 MB.
    ///
    /// # Errors
    /// [`SizeError`] when there are too many of either.
    pub fn new(records: usize, sessions: usize, merging: Merging) -> Result<Self, SizeError> {
        if sessions > records {
            return Err(SizeError::TooManySessions(sessions));
        }
        if records.saturating_add(sessions) > Self::MOST {
            return Err(SizeError::TooManyRecords(records));
        }
        let places = Places::new(records, sessions);
        Ok(Self {
            sessions: places.orders().map(|order| Session { tree: Tree::EMPTY, order, records: 0 }).collect(),
            nodes: Nodes::new(most_nodes(records, sessions)),
            places,
            merging,
            holders: 0,
            last_victim: 0,
        })
    }

    /// Where the session's block `first` lies, and how many of the `blocks` from there on are in the same record. The
    /// record becomes the one used last.
    ///
    /// # Errors
    /// [`Miss`], which leaves everything as it was.
    #[inline]
    pub fn locate(&mut self, session: usize, first: u64, blocks: u64, right: Right) -> Result<Located, Miss> {
        let session = self.sessions.get(session).ok_or(Miss::NotInstalled)?;
        let place = self.nodes.at_or_before(&session.tree, first).ok_or(Miss::NotInstalled)?;
        let found = self.places.find(place, first, right).ok_or(Miss::NotInstalled)?;
        if !found.allowed {
            return Err(Miss::Forbidden);
        }
        self.places.touch(session.order, place);
        Ok(Located { lba: found.lba, blocks: blocks.min(found.left) })
    }

    /// The record that the session used last. Until the table changes, [`Record::locate`] returns the same for its blocks as
    /// [`Self::locate`], and leaves the order of use as it is.
    #[must_use]
    pub fn newest(&self, session: usize) -> Option<Record> {
        self.places.newest(self.sessions.get(session)?.order)
    }

    /// Installs a record of a session, as the one it used last.
    ///
    /// A record may repeat blocks that the session has already. Records that overlap this one and agree with it become one
    /// with it, and with [`Merging::On`] those that touch it.
    ///
    /// If there is no room, one record is evicted. A session's fair part is the capacity divided by the sessions that hold
    /// records, with the one that installs, rounded down. A session that holds its fair part loses its own record that was not
    /// used for longest. For one that holds less, the session that holds most loses one. So a session that holds no more than
    /// the fair part loses nothing when others install.
    ///
    /// # Errors
    /// [`InstallError`], which leaves everything as it was.
    pub fn install(&mut self, session: usize, record: Record) -> Result<Option<Evicted>, InstallError> {
        let joined = self.joined(session, record)?;
        // The records that became one with it lie inside it, and no others do.
        while let Some(place) = self.overlapping(session, joined.first(), joined.end()) {
            self.take(session, place);
        }
        Ok(self.put(session, joined))
    }

    /// Removes `blocks` blocks of a session from number `first` on, or all from there on if that end is beyond all
    /// numbers.
    ///
    /// The rest of a record that was cut becomes the one used last. If the rest is two pieces and there is no room for the
    /// second, one record is evicted by the rule of [`Self::install`]. The time of a call grows with the records removed.
    pub fn remove(&mut self, session: usize, first: u64, blocks: u64) -> Removed {
        let end = first.saturating_add(blocks);
        let mut removed = Removed::default();
        while let Some(record) = self.overlapping(session, first, end).and_then(|place| self.take(session, place)) {
            let (left, right) = (record.before(first), record.from(end));
            let kept = [left, right].into_iter().flatten();
            let gone = kept.clone().fold(record.blocks(), |blocks, part| blocks.saturating_sub(part.blocks()));
            removed.blocks = removed.blocks.saturating_add(gone);
            for part in kept {
                removed.evicted = self.put(session, part).or(removed.evicted);
            }
        }
        removed
    }

    /// Removes all records of a session, as quickly whether it has few or many: its nodes are visited, not its records.
    pub fn clear(&mut self, session: usize) {
        let Some(session) = self.sessions.get_mut(session) else { return };
        self.nodes.clear(&mut session.tree);
        self.places.clear(session.order);
        self.holders = self.holders.saturating_sub(usize::from(session.records > 0));
        session.records = 0;
    }

    /// Records that a session holds.
    #[must_use]
    pub fn records(&self, session: usize) -> usize {
        self.sessions.get(session).map_or(0, |session| session.records)
    }

    /// The record that holds a session's block. The order of use stays as it is.
    #[must_use]
    pub fn record_of(&self, session: usize, number: u64) -> Option<Record> {
        let record = self.places.record(self.nodes.at_or_before(&self.sessions.get(session)?.tree, number)?)?;
        (number < record.end()).then_some(record)
    }

    /// `record` joined with all records that become one with it.
    fn joined(&self, session: usize, record: Record) -> Result<Record, InstallError> {
        let tree = &self.sessions.get(session).ok_or(InstallError::NoSession(session))?.tree;
        let mut joined = record;
        let mut place = self.nodes.at_or_before(tree, record.first());
        let mut next = self.nodes.after(tree, record.first());
        loop {
            if let Some(other) = place.and_then(|place| self.places.record(place)) {
                let overlap = other.first() < record.end() && record.first() < other.end();
                let touch = other.first() == record.end() || record.first() == other.end();
                if overlap && !record.agrees(&other) {
                    return Err(InstallError::Contradicts(other));
                }
                if overlap || touch && self.merging == Merging::On && record.agrees(&other) {
                    joined = joined.joined(&other);
                }
            }
            let Some(number) = next.filter(|number| *number <= record.end()) else { return Ok(joined) };
            place = self.nodes.at_or_before(tree, number);
            next = self.nodes.after(tree, number);
        }
    }

    /// A place of a record that has some of the session's numbers from `first` to before `end`.
    fn overlapping(&self, session: usize, first: u64, end: u64) -> Option<u16> {
        let tree = &self.sessions.get(session)?.tree;
        let before = self.nodes.at_or_before(tree, first);
        let reaches = |place: &u16| first < end && self.places.record(*place).is_some_and(|one| first < one.end());
        before.filter(reaches).or_else(|| {
            let next = self.nodes.after(tree, first).filter(|next| *next < end)?;
            self.nodes.at_or_before(tree, next)
        })
    }

    /// Takes a session's record out.
    fn take(&mut self, session: usize, place: u16) -> Option<Record> {
        let session = self.sessions.get_mut(session)?;
        let record = self.places.take(place)?;
        self.nodes.remove(&mut session.tree, record.first());
        session.records = session.records.saturating_sub(1);
        self.holders = self.holders.saturating_sub(usize::from(session.records == 0));
        Some(record)
    }

    /// Puts a session's record in; none of the session's overlaps it.
    fn put(&mut self, session: usize, record: Record) -> Option<Evicted> {
        let evicted = if self.places.are_full() { self.evict_for(session) } else { None };
        let session = self.sessions.get_mut(session)?;
        let place = self.places.put(session.order, &record);
        self.nodes.insert(&mut session.tree, record.first(), place);
        self.holders = self.holders.saturating_add(usize::from(session.records == 0));
        session.records = session.records.saturating_add(1);
        evicted
    }

    /// Takes one record out for another of `session`.
    fn evict_for(&mut self, session: usize) -> Option<Evicted> {
        let victim = self.victim(session)?;
        let place = self.places.oldest(self.sessions.get(victim)?.order)?;
        self.last_victim = victim;
        let record = self.take(victim, place)?;
        Some(Evicted { session: victim, record })
    }

    /// The session that loses a record for one of `session`, in a full table. That is `session` itself, without a search, if it
    /// holds its fair part. Otherwise the sessions are searched for the one that holds most, which happens only while `session`
    /// grows to its fair part.
    ///
    /// If `session` holds less than the fair part, the one that holds most holds more than that: else all together would hold
    /// less than the capacity.
    fn victim(&self, session: usize) -> Option<usize> {
        let held = self.records(session);
        let holders = self.holders.saturating_add(usize::from(held == 0));
        if held >= self.places.capacity().checked_div(holders)? {
            return Some(session);
        }
        let in_turn = self.sessions.iter().enumerate().cycle().skip(self.last_victim.saturating_add(1));
        let most = in_turn
            .take(self.sessions.len())
            .reduce(|most, one| if one.1.records > most.1.records { one } else { most });
        most.map(|(victim, _)| victim)
    }
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotInstalled => "no record is installed for the block",
            Self::Forbidden => "the block's record does not give the right",
        })
    }
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSession(session) => write!(f, "there is no session {session}"),
            Self::Contradicts(record) => {
                let (first, lba, blocks) = (record.first(), record.lba(), record.blocks());
                write!(f, "another record has {blocks} blocks from number {first} on, at LBA {lba}, ")?;
                write!(f, "with {:?}", record.rights())
            }
        }
    }
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyRecords(records) => {
                write!(f, "{records} records and the sessions are more than {}", ExtentTable::MOST)
            }
            Self::TooManySessions(sessions) => write!(f, "{sessions} sessions are more than there are records"),
        }
    }
}

impl core::error::Error for Miss {}
impl core::error::Error for InstallError {}
impl core::error::Error for SizeError {}
