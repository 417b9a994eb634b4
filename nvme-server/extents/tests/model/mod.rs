//! A model of the table, written without regard to time: a list of records, each with the moment of its last use.
//! Draws for its tests.

use extent_table::{Evicted, InstallError, Located, Merging, Miss, Record, Removed, Right};
use std::vec::Vec;

/// Draws that are the same in every run.
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A record of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) session: usize,
    pub(crate) record: Record,
    used: u64,
}

/// The list.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) entries: Vec<Entry>,
    capacity: usize,
    sessions: usize,
    merging: Merging,
    now: u64,
    last_victim: usize,
}

fn overlap(one: &Record, other: &Record) -> bool {
    one.first() < other.end() && other.first() < one.end()
}

/// Whether two records that overlap have the same place and rights for every block of both.
fn say_the_same(one: &Record, other: &Record) -> bool {
    let common = one.first().max(other.first());
    let lba = |record: &Record| record.lba() + (common - record.first());
    lba(one) == lba(other) && one.rights() == other.rights()
}

/// Whether `next` continues `one` in both numberings, with the same rights.
fn continues(one: &Record, next: &Record) -> bool {
    one.end() == next.first() && one.lba() + one.blocks() == next.lba() && one.rights() == next.rights()
}

impl Model {
    pub(crate) fn new(capacity: usize, sessions: usize, merging: Merging) -> Self {
        Self { entries: Vec::new(), capacity, sessions, merging, now: 0, last_victim: 0 }
    }

    pub(crate) fn held(&self, session: usize) -> usize {
        self.entries.iter().filter(|entry| entry.session == session).count()
    }

    /// The capacity divided by the sessions that hold records, `session` counted in any case.
    pub(crate) fn fair_share(&self, session: usize) -> usize {
        let holders = (0..self.sessions).filter(|one| *one == session || self.held(*one) > 0).count();
        self.capacity / holders
    }

    pub(crate) fn install(&mut self, session: usize, record: Record) -> Result<Option<Evicted>, InstallError> {
        if session >= self.sessions {
            return Err(InstallError::NoSession(session));
        }
        let merging = self.merging == Merging::On;
        let own = self.entries.iter().filter(|entry| entry.session == session).map(|entry| entry.record);
        let contradicting = own.clone().filter(|one| overlap(one, &record) && !say_the_same(one, &record));
        if let Some(other) = contradicting.min_by_key(Record::first) {
            return Err(InstallError::Contradicts(other));
        }
        let joins =
            |one: &Record| overlap(one, &record) || merging && (continues(one, &record) || continues(&record, one));
        let joining: Vec<Record> = own.filter(joins).chain([record]).collect();
        self.entries.retain(|entry| entry.session != session || !joining.contains(&entry.record));
        let first = joining.iter().min_by_key(|one| one.first()).expect("the record itself");
        let end = joining.iter().map(Record::end).max().expect("the record itself");
        let whole = Record::new(first.first(), first.lba(), end - first.first(), record.rights());
        Ok(self.put(session, whole.expect("pieces that are records")))
    }

    pub(crate) fn remove(&mut self, session: usize, first: u64, blocks: u64) -> Removed {
        let end = first.saturating_add(blocks);
        let mut removed = Removed::default();
        let cut = |entry: &Entry| {
            entry.session == session && blocks > 0 && entry.record.first() < end && first < entry.record.end()
        };
        let mut gone: Vec<Record> = self.entries.iter().filter(|entry| cut(entry)).map(|entry| entry.record).collect();
        gone.sort_by_key(Record::first);
        self.entries.retain(|entry| !cut(entry));
        for record in gone {
            removed.blocks += record.end().min(end) - record.first().max(first);
            let lba = |number| record.lba() + (number - record.first());
            let part =
                |from, to| (from < to).then(|| Record::new(from, lba(from), to - from, record.rights()).unwrap());
            for part in [part(record.first(), first), part(end, record.end())].into_iter().flatten() {
                removed.evicted = self.put(session, part).or(removed.evicted);
            }
        }
        removed
    }

    pub(crate) fn locate(&mut self, session: usize, first: u64, blocks: u64, right: Right) -> Result<Located, Miss> {
        self.now += 1;
        let holds = |record: &Record| record.first() <= first && first < record.end();
        let mut entries = self.entries.iter_mut();
        let entry = entries.find(|entry| entry.session == session && holds(&entry.record)).ok_or(Miss::NotInstalled)?;
        if !entry.record.rights().allow(right) {
            return Err(Miss::Forbidden);
        }
        entry.used = self.now;
        let lba = entry.record.lba() + (first - entry.record.first());
        Ok(Located { lba, blocks: blocks.min(entry.record.end() - first) })
    }

    pub(crate) fn clear(&mut self, session: usize) {
        self.entries.retain(|entry| entry.session != session);
    }

    fn put(&mut self, session: usize, record: Record) -> Option<Evicted> {
        let evicted = (self.entries.len() == self.capacity).then(|| self.evict_for(session));
        self.now += 1;
        self.entries.push(Entry { session, record, used: self.now });
        evicted
    }

    fn evict_for(&mut self, session: usize) -> Evicted {
        let victim = if self.held(session) >= self.fair_share(session) { session } else { self.holds_most() };
        self.last_victim = victim;
        let own = self.entries.iter().enumerate().filter(|(_, entry)| entry.session == victim);
        let (oldest, _) = own.min_by_key(|(_, entry)| entry.used).expect("a victim has records");
        Evicted { session: victim, record: self.entries.remove(oldest).record }
    }

    /// Of the sessions that hold most, the first after the last victim.
    fn holds_most(&self) -> usize {
        let most = (0..self.sessions).map(|session| self.held(session)).max().expect("a session");
        let in_turn = (1..=self.sessions).map(|step| (self.last_victim + step) % self.sessions);
        in_turn.into_iter().find(|session| self.held(*session) == most).expect("one holds most")
    }
}
