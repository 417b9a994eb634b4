//! The rights map: which blocks of its namespace each session has, and with which rights.
//!
//! Pure data: no kernel, no server. A session numbers its blocks from 0 through its extents in their order. That numbering
//! never changes; only the session's rights to the blocks change.

use alloc::string::String;
use alloc::vec::Vec;
use blk_api::extent::{Extent, ExtentMap};
use blk_api::policy::{Holder, READ, Record, WRITE, What};
use core::fmt;

/// The blocks and rights of all sessions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RightsMap {
    accounts: Vec<Account>,
}

/// The blocks and rights of one session.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Account {
    tenant: String,
    nsid: u32,
    writable: bool,
    /// The session's blocks from 0 on, ascending and without gaps.
    runs: Vec<Run>,
}

/// Consecutive blocks with the same rights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    first: u64,
    lba: u64,
    blocks: u64,
    rights: u32,
}

/// Consecutive blocks of a session's own numbering.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Numbers {
    pub(crate) first: u64,
    pub(crate) blocks: u64,
}

impl Run {
    const fn extent(&self) -> Extent {
        Extent { first: self.lba, blocks: self.blocks, writable: self.rights & WRITE != 0 }
    }
}

/// The reason why a specification has no rights map, or why a change is invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Unsound {
    /// An extent has no blocks, or its end is no number.
    Impossible {
        /// Whose.
        tenant: String,
    },
    /// A change is about a session that does not exist.
    NoSession(u32),
    /// A change is about blocks that the session does not number.
    NotNumbered {
        /// Whose.
        tenant: String,
        /// The first of them on the namespace.
        lba: u64,
        /// The number of blocks.
        blocks: u64,
    },
    /// Two sessions have the same block, and one of them may write it; or one session has a block twice.
    Overlaps {
        /// The tenant of the extent.
        tenant: String,
        /// The extent's first block on the namespace.
        lba: u64,
        /// The tenant of the other extent.
        other: String,
        /// The other extent's first block on the namespace.
        other_lba: u64,
    },
}

impl RightsMap {
    /// The rights map of these sessions.
    ///
    /// # Errors
    /// [`Unsound`].
    pub(crate) fn new(holders: &[Holder]) -> Result<Self, Unsound> {
        let mut rights_map = Self { accounts: Vec::new() };
        for holder in holders {
            let account = Account::new(holder)?;
            account.check_alone()?;
            rights_map.check_beside_others(&account, rights_map.sessions())?;
            rights_map.accounts.push(account);
        }
        Ok(rights_map)
    }

    /// Applies a change, and returns the blocks that it is about. A change may be applied again.
    ///
    /// # Errors
    /// [`Unsound`]; then nothing has changed.
    pub(crate) fn change(&mut self, session: u32, what: &What) -> Result<Vec<Numbers>, Unsound> {
        let index = usize::try_from(session).unwrap_or(usize::MAX);
        let mut account = self.accounts.get(index).ok_or(Unsound::NoSession(session))?.clone();
        let mut changed = Vec::new();
        match what {
            What::Revoke(all) => {
                for blocks in all {
                    changed.extend(account.allow(blocks.first, blocks.blocks, 0)?);
                }
            }
            What::Grant(all) => {
                for extent in all {
                    changed.extend(account.allow(extent.first, extent.blocks, account.rights(*extent))?);
                }
            }
            // Shares are not in the rights map.
            What::Entitle(_) => {}
        }
        self.check_beside_others(&account, index)?;
        if let Some(place) = self.accounts.get_mut(index) {
            *place = account;
        }
        Ok(changed)
    }

    /// Checks that no block of `account`, which is or becomes number `index`, is shared with another that may write it, or
    /// that `account` may write.
    fn check_beside_others(&self, account: &Account, index: usize) -> Result<(), Unsound> {
        let others = self.accounts.iter().enumerate().filter(|(number, _)| *number != index);
        others.map(|(_, other)| other).try_for_each(|other| account.check_beside(other))
    }

    /// The tenant of a session; empty for one that does not exist.
    pub(crate) fn tenant(&self, session: u32) -> &str {
        let index = usize::try_from(session).unwrap_or(usize::MAX);
        self.accounts.get(index).map_or("", |account| &account.tenant)
    }

    /// Sessions it knows.
    pub(crate) fn sessions(&self) -> usize {
        self.accounts.len()
    }

    /// Blocks that a session numbers; `None` for a session that does not exist.
    pub(crate) fn blocks(&self, session: usize) -> Option<u64> {
        let last = self.accounts.get(session)?.runs.last();
        Some(last.map_or(0, |run| run.first.saturating_add(run.blocks)))
    }

    /// Whether a session has any right to its first block.
    pub(crate) fn allows(&self, session: usize) -> bool {
        self.record(session, 0, 0).is_some_and(|record| record.rights != 0)
    }

    /// Number `index` of the records of a session's rights to its blocks from `first` on. Record 0 holds `first`.
    pub(crate) fn record(&self, session: usize, first: u64, index: usize) -> Option<Record> {
        let runs = &self.accounts.get(session)?.runs;
        let start = runs.partition_point(|run| run.first.saturating_add(run.blocks) <= first);
        let Run { first, lba, blocks, rights } = *runs.get(start.checked_add(index)?)?;
        Some(Record { session: u32::try_from(session).ok()?, rights, first, lba, blocks })
    }
}

impl Account {
    fn new(holder: &Holder) -> Result<Self, Unsound> {
        let Holder { tenant, nsid, extents, writable } = holder;
        let map = ExtentMap::new(extents).ok_or_else(|| Unsound::Impossible { tenant: tenant.clone() })?;
        let mut account = Self { tenant: tenant.clone(), nsid: *nsid, writable: *writable, runs: Vec::new() };
        for (first, extent) in map.runs() {
            let run = Run { first, lba: extent.first, blocks: extent.blocks, rights: account.rights(extent) };
            account.runs.push(run);
        }
        Ok(account)
    }

    /// The session's rights to the blocks of `extent`.
    const fn rights(&self, extent: Extent) -> u32 {
        if self.writable && extent.writable { READ | WRITE } else { READ }
    }

    /// Sets exactly these rights to `blocks` blocks from `lba` on. Returns their numbers.
    fn allow(&mut self, lba: u64, blocks: u64, rights: u32) -> Result<Vec<Numbers>, Unsound> {
        let not_numbered = || Unsound::NotNumbered { tenant: self.tenant.clone(), lba, blocks };
        let end = lba.checked_add(blocks).filter(|end| *end > lba).ok_or_else(not_numbered)?;
        let (mut runs, mut numbers, mut found) = (Vec::new(), Vec::new(), 0u64);
        for run in &self.runs {
            let run_end = run.lba.saturating_add(run.blocks);
            let inside = (lba.clamp(run.lba, run_end), end.clamp(run.lba, run_end));
            let parts =
                [(run.lba, inside.0, run.rights), (inside.0, inside.1, rights), (inside.1, run_end, run.rights)];
            for (from, to, rights) in parts {
                let part = to.saturating_sub(from);
                if part > 0 {
                    let first = run.first.saturating_add(from.saturating_sub(run.lba));
                    runs.push(Run { first, lba: from, blocks: part, rights });
                }
            }
            let part = inside.1.saturating_sub(inside.0);
            if part > 0 {
                numbers
                    .push(Numbers { first: run.first.saturating_add(inside.0.saturating_sub(run.lba)), blocks: part });
                found = found.saturating_add(part);
            }
        }
        if found < blocks {
            return Err(not_numbered());
        }
        self.runs = runs;
        Ok(numbers)
    }

    /// Checks that no block of its namespace has two numbers.
    fn check_alone(&self) -> Result<(), Unsound> {
        let mut runs = self.runs.clone();
        runs.sort_unstable_by_key(|run| run.lba);
        for (one, other) in runs.iter().zip(runs.iter().skip(1)) {
            if one.extent().overlaps(other.extent()) {
                return Err(self.overlaps(other, self, one));
            }
        }
        Ok(())
    }

    /// Checks that neither of the two may write a block that both have.
    fn check_beside(&self, other: &Self) -> Result<(), Unsound> {
        if self.nsid != other.nsid {
            return Ok(());
        }
        let allows = |run: &&Run| run.rights != 0;
        for own in self.runs.iter().filter(allows) {
            let meets =
                |theirs: &&Run| own.extent().overlaps(theirs.extent()) && (own.rights | theirs.rights) & WRITE != 0;
            if let Some(theirs) = other.runs.iter().filter(allows).find(meets) {
                return Err(self.overlaps(own, other, theirs));
            }
        }
        Ok(())
    }

    fn overlaps(&self, own: &Run, other: &Self, theirs: &Run) -> Unsound {
        let (tenant, other) = (self.tenant.clone(), other.tenant.clone());
        Unsound::Overlaps { tenant, lba: own.lba, other, other_lba: theirs.lba }
    }
}

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Impossible { tenant } => write!(f, "{tenant} has an extent that is empty or beyond all numbers"),
            Self::NoSession(session) => write!(f, "a change is about session {session}, which is not there"),
            Self::NotNumbered { tenant, lba, blocks } => {
                write!(f, "a change is about {blocks} blocks at block {lba}, which {tenant} does not number")
            }
            Self::Overlaps { tenant, lba, other, other_lba } => {
                write!(f, "{tenant} has an extent at block {lba} that overlaps one of {other} at block {other_lba}")
            }
        }
    }
}

#[cfg(test)]
mod tests;
