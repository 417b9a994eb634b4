//! Rights to pages, in runs of pages with the same rights. Left out: the holder of the rights.

use std::fmt;
use std::ops::Range;

/// A kind of access to a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reading or executing.
    Read,
    /// Writing.
    Write,
}

/// The kinds of access that are allowed to a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rights {
    /// Reading and executing.
    pub read: bool,
    /// Writing.
    pub write: bool,
}

impl Rights {
    /// No access.
    pub const NONE: Self = Self { read: false, write: false };
    /// Reading and executing only.
    pub const READ: Self = Self { read: true, write: false };
    /// Writing only, as a device may.
    pub const WRITE: Self = Self { read: false, write: true };
    /// All kinds of access.
    pub const READ_WRITE: Self = Self { read: true, write: true };

    /// Whether the rights allow the access.
    #[must_use]
    pub const fn allow(self, access: Access) -> bool {
        match access {
            Access::Read => self.read,
            Access::Write => self.write,
        }
    }

    const fn union(self, other: Self) -> Self {
        Self { read: self.read || other.read, write: self.write || other.write }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

/// The rights to all pages: none, except for the runs in here.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct PageRights {
    /// Ascending. Runs do not overlap, and neighbours differ.
    runs: Vec<Run>,
}

/// Pages with the same rights, from `start` to before `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    start: u64,
    end: u64,
    rights: Rights,
}

impl PageRights {
    pub(super) fn of(&self, page: u64) -> Rights {
        match self.runs.get(self.first_that_ends_after(page)) {
            Some(run) if run.start <= page => run.rights,
            _ => Rights::NONE,
        }
    }

    /// Adds rights to the existing ones.
    pub(super) fn add(&mut self, pages: Range<u64>, rights: Rights) {
        if rights == Rights::NONE || pages.is_empty() {
            return;
        }
        let (place, before) = self.take(pages.clone());
        let mut runs = Vec::new();
        let mut next = pages.start;
        for run in before {
            runs.push(Run { start: next, end: run.start, rights });
            runs.push(Run { rights: rights.union(run.rights), ..run });
            next = run.end;
        }
        runs.push(Run { start: next, end: pages.end, rights });
        let (count, runs) = (runs.len(), runs.into_iter().filter(|run| run.start < run.end));
        self.runs.splice(place..place, runs);
        self.join(place.saturating_sub(1)..place + count + 1);
    }

    /// Takes all rights away.
    pub(super) fn remove(&mut self, pages: Range<u64>) {
        if !pages.is_empty() {
            self.take(pages);
        }
    }

    fn first_that_ends_after(&self, page: u64) -> usize {
        self.runs.partition_point(|run| run.end <= page)
    }

    /// Removes the runs in the range, cutting those at its ends. Returns their place and them.
    fn take(&mut self, pages: Range<u64>) -> (usize, Vec<Run>) {
        self.cut(pages.start);
        self.cut(pages.end);
        let place = self.first_that_ends_after(pages.start);
        let end = self.runs.partition_point(|run| run.start < pages.end);
        (place, self.runs.drain(place..end).collect())
    }

    /// Splits the run that contains the page, unless it begins there.
    fn cut(&mut self, page: u64) {
        let place = self.first_that_ends_after(page);
        if let Some(run) = self.runs.get_mut(place).filter(|run| run.start < page) {
            let tail = Run { start: page, ..*run };
            run.end = page;
            self.runs.insert(place + 1, tail);
        }
    }

    /// Joins neighbouring runs at these places that meet and have the same rights.
    fn join(&mut self, places: Range<usize>) {
        let mut at = places.start;
        for _ in places {
            match (self.runs.get(at), self.runs.get(at + 1)) {
                (Some(one), Some(next)) if one.end == next.start && one.rights == next.rights => {
                    let end = next.end;
                    self.runs.remove(at + 1);
                    self.runs[at].end = end;
                }
                _ => at += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGES: u64 = 24;

    #[derive(Clone, Debug)]
    enum Step {
        Add(Range<u64>, Rights),
        Remove(Range<u64>),
    }

    fn step() -> impl Strategy<Value = Step> {
        let range = (0..PAGES, 0..PAGES).prop_map(|(a, b)| a.min(b)..a.max(b));
        let rights = prop::sample::select(vec![Rights::NONE, Rights::READ, Rights::WRITE, Rights::READ_WRITE]);
        prop_oneof![
            3 => (range.clone(), rights).prop_map(|(range, rights)| Step::Add(range, rights)),
            1 => range.prop_map(Step::Remove),
        ]
    }

    proptest! {
        #[test]
        fn runs_say_what_single_pages_would(steps in prop::collection::vec(step(), 0..40)) {
            let mut runs = PageRights::default();
            let mut pages = [Rights::NONE; PAGES as usize];
            for step in steps {
                match step {
                    Step::Add(range, rights) => {
                        runs.add(range.clone(), rights);
                        range.for_each(|page| pages[page as usize] = pages[page as usize].union(rights));
                    }
                    Step::Remove(range) => {
                        runs.remove(range.clone());
                        range.for_each(|page| pages[page as usize] = Rights::NONE);
                    }
                }
                for page in 0..PAGES {
                    prop_assert_eq!(runs.of(page), pages[page as usize], "page {}", page);
                }
                let edges = |pair: &[Rights]| u64::from(pair[0] != pair[1]);
                prop_assert!(runs.runs.len() as u64 <= 1 + pages.windows(2).map(edges).sum::<u64>());
            }
        }
    }
}
