//! Rights to pages, in runs of pages with the same rights. Left out: whose they are.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// What is done to a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// It is read, or executed.
    Read,
    /// It is written.
    Write,
}

/// What may be done to a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rights {
    /// It may be read, and executed.
    pub read: bool,
    /// It may be written.
    pub write: bool,
}

impl Rights {
    /// Nothing.
    pub const NONE: Self = Self { read: false, write: false };
    /// To read and execute.
    pub const READ: Self = Self { read: true, write: false };
    /// To write only, as a device may.
    pub const WRITE: Self = Self { read: false, write: true };
    /// Everything.
    pub const READ_WRITE: Self = Self { read: true, write: true };

    /// Whether the access is among them.
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

/// The rights to all pages: none, but for the runs in here.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct PageRights {
    /// By first page: the page after the last, and the rights. Runs do not overlap, and neighbours differ.
    runs: BTreeMap<u64, (u64, Rights)>,
}

impl PageRights {
    pub(super) fn of(&self, page: u64) -> Rights {
        match self.runs.range(..=page).next_back() {
            Some((_, &(end, rights))) if page < end => rights,
            _ => Rights::NONE,
        }
    }

    /// Adds rights to those that there are.
    pub(super) fn add(&mut self, pages: Range<u64>, rights: Rights) {
        if rights == Rights::NONE || pages.is_empty() {
            return;
        }
        let before = self.take(pages.clone());
        let mut next = pages.start;
        for (run, old) in before {
            self.put(next..run.start, rights);
            self.put(run.clone(), rights.union(old));
            next = run.end;
        }
        self.put(next..pages.end, rights);
        self.join(pages.end);
    }

    /// Takes all rights away.
    pub(super) fn remove(&mut self, pages: Range<u64>) {
        if !pages.is_empty() {
            self.take(pages);
        }
    }

    /// Takes out what lies in the range, cutting runs at its ends.
    fn take(&mut self, pages: Range<u64>) -> Vec<(Range<u64>, Rights)> {
        self.cut(pages.start);
        self.cut(pages.end);
        let inside: Vec<_> = self.runs.range(pages).map(|(&start, &(end, rights))| (start..end, rights)).collect();
        for (run, _) in &inside {
            self.runs.remove(&run.start);
        }
        inside
    }

    /// Makes two runs of one that goes across the page.
    fn cut(&mut self, page: u64) {
        if let Some((_, (end, rights))) = self.runs.range_mut(..page).next_back()
            && *end > page
        {
            let tail = (*end, *rights);
            *end = page;
            self.runs.insert(page, tail);
        }
    }

    /// Puts a run where none is, as part of the one before if that has the same rights.
    fn put(&mut self, run: Range<u64>, rights: Rights) {
        if run.is_empty() {
            return;
        }
        self.runs.insert(run.start, (run.end, rights));
        self.join(run.start);
    }

    /// Makes one run of two that meet at the page and have the same rights.
    fn join(&mut self, page: u64) {
        let Some(&(end, rights)) = self.runs.get(&page) else { return };
        if let Some((_, (before, same))) = self.runs.range_mut(..page).next_back()
            && *before == page
            && *same == rights
        {
            *before = end;
            self.runs.remove(&page);
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
