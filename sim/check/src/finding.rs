//! Reports of checkers. A broken law is one [`Finding`]. [`Findings`] collects them with a bound, so that a run in
//! which everything goes wrong stays as small as one with one error.
//!
//! Neighbours: all checkers add to it, the runner prints it. Left out: the reaction to a finding.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};

/// A request of a session: the session's number, and a number from the session's side. The second may be used
/// again, but not while the first request is still unanswered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RequestId {
    /// The session that submitted it.
    pub session: u32,
    /// The number of the request within the session.
    pub number: u64,
}

/// Both fields in one word: every checker looks requests up, and sessions are few.
impl Hash for RequestId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.number ^ u64::from(self.session).rotate_right(16));
    }
}

/// The subject of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Subject {
    /// A component, by the number that the simulator gave it.
    Component(u32),
    /// A session, by the number that the simulator gave it.
    Session(u32),
    /// A controller, by the number that the simulator gave it.
    Controller(u32),
    /// A PCI function, by its requester id.
    Requester(u16),
    /// The kernel.
    Kernel,
}

/// The law that was broken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Checker {
    /// Contents of reads: see [`crate::Data`].
    Data,
    /// Access rights: see [`crate::Authority`].
    Authority,
    /// Progress: see [`crate::Liveness`].
    Liveness,
    /// Sums: see [`crate::Accounting`].
    Accounting,
    /// Shares: see [`crate::Fairness`].
    Fairness,
    /// The invariants of the kernel's model, which checks them itself: nothing in this crate does.
    Kernel,
}

impl Checker {
    /// All checkers, in the order of their declaration.
    pub const ALL: [Self; 6] =
        [Self::Data, Self::Authority, Self::Liveness, Self::Accounting, Self::Fairness, Self::Kernel];
}

/// A broken law.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Time of its detection, in nanoseconds of virtual time.
    pub at_ns: u64,
    /// The law.
    pub checker: Checker,
    /// The subject.
    pub subject: Subject,
    /// A sentence without its subject and full stop: the event, and the state that should have been.
    pub text: String,
}

/// The findings of a run: the first ones in full, and the number of all.
#[derive(Debug)]
pub struct Findings {
    kept: Vec<Finding>,
    limit: usize,
    counts: [u64; Checker::ALL.len()],
    names: BTreeMap<Subject, String>,
}

impl Findings {
    /// Creates an empty collection that keeps at most `limit` findings.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { kept: Vec::new(), limit, counts: [0; Checker::ALL.len()], names: BTreeMap::new() }
    }

    /// Gives a subject a name to print; without one it is printed by its number.
    pub fn name(&mut self, subject: Subject, name: impl Into<String>) {
        self.names.insert(subject, name.into());
    }

    /// Counts a finding, and keeps it if there is room. The text is made only then.
    pub fn add(&mut self, at_ns: u64, checker: Checker, subject: Subject, text: impl FnOnce() -> String) {
        self.counts[checker as usize] += 1;
        if self.kept.len() < self.limit {
            self.kept.push(Finding { at_ns, checker, subject, text: text() });
        }
    }

    /// Returns the findings kept, in the order in which they were made.
    #[must_use]
    pub fn kept(&self) -> &[Finding] {
        &self.kept
    }

    /// Returns the number of all findings.
    #[must_use]
    pub fn counted(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the number of one checker's findings.
    #[must_use]
    pub fn counted_by(&self, checker: Checker) -> u64 {
        self.counts[checker as usize]
    }

    /// Whether there are no findings.
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

/// A line for each finding kept, and one with the number of the others.
impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Finding { at_ns, checker, subject, text } in &self.kept {
            let (ms, ns) = (at_ns / 1_000_000, at_ns % 1_000_000);
            writeln!(f, "{ms:>8}.{ns:06} ms  {checker:<10}  {}: {text}.", self.subject(*subject))?;
        }
        match self.counted() - self.kept.len() as u64 {
            0 => Ok(()),
            more => writeln!(f, "the checkers found {more} more"),
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
             0.000002 ms  accounting  component 4: keeps a page.\nthe checkers found 1 more\n"
        );
    }
}
