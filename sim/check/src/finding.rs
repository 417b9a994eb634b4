//! What checkers say: one [`Finding`] for one broken law, collected in [`Findings`] with a bound, so that a run in
//! which everything goes wrong stays as small as one in which one thing does.
//!
//! Neighbours: all checkers add to it, the runner prints it. Left out: what to do about a finding.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};

/// A request of a session: the session's number and a number that the session's side gave to it. The second may come
/// again, but not while the first is still unanswered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RequestId {
    /// The session that asked.
    pub session: u32,
    /// The number of the request within the session.
    pub number: u64,
}

/// Both in one word: every checker looks requests up, and sessions are few.
impl Hash for RequestId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.number ^ u64::from(self.session).rotate_right(16));
    }
}

/// Whom a finding concerns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Subject {
    /// A component, by the number the world gave it.
    Component(u32),
    /// A session, by the number the world gave it.
    Session(u32),
    /// A controller, by the number the world gave it.
    Controller(u32),
    /// A PCI function, by its requester id.
    Requester(u16),
    /// The kernel.
    Kernel,
}

/// Which law was broken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Checker {
    /// What may be read: see [`crate::Data`].
    Data,
    /// Who may touch what: see [`crate::Authority`].
    Authority,
    /// What must happen: see [`crate::Liveness`].
    Liveness,
    /// What must add up: see [`crate::Accounting`].
    Accounting,
    /// Who must get how much: see [`crate::Fairness`].
    Fairness,
    /// What the model of the kernel finds out about itself: nothing in this crate checks it.
    Kernel,
}

impl Checker {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 6] =
        [Self::Data, Self::Authority, Self::Liveness, Self::Accounting, Self::Fairness, Self::Kernel];
}

/// One broken law.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// When it came to light, in nanoseconds of virtual time.
    pub at_ns: u64,
    /// Which law.
    pub checker: Checker,
    /// Whom it concerns.
    pub subject: Subject,
    /// One sentence without its subject and full stop: what happened, and what should have been.
    pub text: String,
}

/// The findings of a run: the first of them in full, all of them counted.
#[derive(Debug)]
pub struct Findings {
    kept: Vec<Finding>,
    limit: usize,
    counts: [u64; Checker::ALL.len()],
    names: BTreeMap<Subject, String>,
}

impl Findings {
    /// None yet; at most `limit` will be kept.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { kept: Vec::new(), limit, counts: [0; Checker::ALL.len()], names: BTreeMap::new() }
    }

    /// Gives a subject the name under which it is printed; without one it is printed by its number.
    pub fn name(&mut self, subject: Subject, name: impl Into<String>) {
        self.names.insert(subject, name.into());
    }

    /// Counts a finding, and keeps it if there is room. The text is made only in that case.
    pub fn add(&mut self, at_ns: u64, checker: Checker, subject: Subject, text: impl FnOnce() -> String) {
        self.counts[checker as usize] += 1;
        if self.kept.len() < self.limit {
            self.kept.push(Finding { at_ns, checker, subject, text: text() });
        }
    }

    /// The findings kept, in the order in which they were made.
    #[must_use]
    pub fn kept(&self) -> &[Finding] {
        &self.kept
    }

    /// How many there were in all.
    #[must_use]
    pub fn counted(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How many there were of one checker.
    #[must_use]
    pub fn counted_by(&self, checker: Checker) -> u64 {
        self.counts[checker as usize]
    }

    /// Whether the run was without fault.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counted() == 0
    }

    fn subject(&self, subject: Subject) -> String {
        match (self.names.get(&subject), subject) {
            (Some(name), _) => name.clone(),
            (None, Subject::Component(number)) => format!("component {number}"),
            (None, Subject::Session(number)) => format!("session {number}"),
            (None, Subject::Controller(number)) => format!("controller {number}"),
            (None, Subject::Kernel) => "kernel".to_owned(),
            (None, Subject::Requester(id)) => format!("function {:02x}:{:02x}.{}", id >> 8, id >> 3 & 0x1f, id & 7),
        }
    }
}

impl fmt::Display for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Data => "data",
            Self::Authority => "authority",
            Self::Liveness => "liveness",
            Self::Accounting => "accounting",
            Self::Fairness => "fairness",
            Self::Kernel => "kernel",
        })
    }
}

/// One line for each finding kept, and one that tells how many more there were.
impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Finding { at_ns, checker, subject, text } in &self.kept {
            let (ms, ns) = (at_ns / 1_000_000, at_ns % 1_000_000);
            writeln!(f, "{ms:>8}.{ns:06} ms  {checker:<10}  {}: {text}.", self.subject(*subject))?;
        }
        match self.counted() - self.kept.len() as u64 {
            0 => Ok(()),
            more => writeln!(f, "and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_kept_and_all_are_counted() {
        let mut findings = Findings::new(2);
        assert!(findings.is_empty());
        for at_ns in 0..5 {
            findings.add(at_ns, Checker::Liveness, Subject::Session(1), || format!("request {at_ns} is late"));
        }
        findings.add(9, Checker::Data, Subject::Session(1), || unreachable!("no text without room for it"));
        assert_eq!(findings.kept().iter().map(|finding| finding.at_ns).collect::<Vec<_>>(), [0, 1]);
        assert_eq!((findings.counted(), findings.counted_by(Checker::Liveness)), (6, 5));
        assert_eq!((findings.counted_by(Checker::Data), findings.counted_by(Checker::Fairness)), (1, 0));
        assert!(!findings.is_empty());
    }

    #[test]
    fn a_line_has_time_checker_subject_and_sentence() {
        let mut findings = Findings::new(3);
        findings.name(Subject::Session(7), "tenant-a");
        findings.add(12_000_345, Checker::Data, Subject::Session(7), || "read what was never written".into());
        findings.add(1, Checker::Authority, Subject::Requester(0x0418), || "wrote page 3".into());
        findings.add(2, Checker::Accounting, Subject::Component(4), || "keeps a page".into());
        findings.add(3, Checker::Accounting, Subject::Component(4), || "keeps a slot".into());
        assert_eq!(
            findings.to_string(),
            "      12.000345 ms  data        tenant-a: read what was never written.\n       \
             0.000001 ms  authority   function 04:03.0: wrote page 3.\n       \
             0.000002 ms  accounting  component 4: keeps a page.\nand 1 more\n"
        );
    }
}
