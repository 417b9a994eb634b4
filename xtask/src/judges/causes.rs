//! Reasons for which a run failed, the first cause first.
//!
//! Where a component failed, much follows that says nothing more: its tenant does not finish, its session ends. Such consequences are
//! folded into one line behind their cause. Causes that differ in numbers alone are of one kind: the first one stays, with the number of
//! the others. Before the first cause of all stands the last injected fault before it, if there is one:
//! it need not be the cause, but it is where the search begins. Left out: finding the reasons, which the other judges do.

use crate::records::results::Results;
use crate::records::timeline::{Event, Timeline, What};
use std::collections::BTreeMap;

/// Beginning of the line about what was injected.
const BEFORE: &str = "the last injected fault before it";
/// Hexadecimal digits from which a word is a hash, not one of a language.
const HASH: usize = 8;

/// A reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reason {
    /// Sentence without a full stop.
    text: String,
    /// The component or tenant that it is about, if it is about one.
    of: Option<String>,
    /// Whether the reason is folded where a cause of the same component is known.
    follows: bool,
    /// Time in nanoseconds of the machine's clock, if it is known.
    at_ns: Option<u64>,
}

/// An injected fault that hit something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Injected {
    /// Time in nanoseconds of the machine's clock.
    pub at_ns: u64,
    /// The fault and what it hit, in a phrase.
    pub words: String,
}

impl Injected {
    /// The faults of controllers, and the kills, of a run.
    pub fn of(timeline: &Timeline) -> Vec<Self> {
        let words = |event: &Event| match event.what {
            What::Broken => Some(format!("the controller of {}: {}", event.who, event.words)),
            What::Killed => Some(format!("{} was killed", event.who)),
            _ => None,
        };
        let one = |event: &Event| Some(Self { at_ns: event.at_ns, words: words(event)? });
        timeline.events.iter().filter_map(one).collect()
    }
}

impl Reason {
    /// A failure of a component, which may be the cause of others.
    pub fn cause(of: &str, text: String) -> Self {
        Self { text, of: Some(of.to_owned()), follows: false, at_ns: None }
    }

    /// A state of a component that every failure of it brings about.
    pub(crate) fn consequence(of: &str, text: String) -> Self {
        Self { text, of: Some(of.to_owned()), follows: true, at_ns: None }
    }

    /// This reason with its time, if that is known.
    pub fn at(self, at_ns: Option<u64>) -> Self {
        Self { at_ns, ..self }
    }
}

#[cfg(test)]
impl PartialEq<&str> for Reason {
    fn eq(&self, text: &&str) -> bool {
        self.text == *text
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self { text, of: None, follows: false, at_ns: None }
    }
}

/// Time of the first failure, in nanoseconds of the machine's clock; of those without a time, nothing is known.
pub fn first_ns(reasons: &[Reason]) -> Option<u64> {
    reasons.iter().filter_map(|reason| reason.at_ns).min()
}

/// The first cause in these lines.
pub fn first(lines: &[String]) -> &str {
    lines.iter().find(|line| !line.starts_with(BEFORE)).map_or("", String::as_str)
}

/// A cause with each number and each hash as `#`: failures of many runs that have it in common are of one kind.
pub fn kind(cause: &str) -> String {
    let words = cause.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric());
    let masked = words.map(|word| {
        let end = word.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric());
        let plain = word.strip_suffix(end).unwrap_or(word);
        let is_hash = plain.len() >= HASH && plain.chars().all(|letter| letter.is_ascii_hexdigit());
        match plain.starts_with(|letter: char| letter.is_ascii_digit()) || is_hash {
            true => format!("#{end}"),
            false => word.to_owned(),
        }
    });
    masked.collect()
}

/// Causes of one kind, with all their consequences.
struct Kind {
    first: String,
    others: usize,
    folded: Vec<String>,
}

/// The kinds of causes, in the order of the first of each.
fn kinds(causes: impl Iterator<Item = (Reason, Vec<String>)>) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = Vec::new();
    let mut places = BTreeMap::new();
    for (cause, folded) in causes {
        let place = *places.entry((cause.of, kind(&cause.text))).or_insert(kinds.len());
        match kinds.get_mut(place) {
            Some(kind) => {
                kind.others += 1;
                kind.folded.extend(folded);
            }
            None => kinds.push(Kind { first: cause.text, others: 0, folded }),
        }
    }
    kinds
}

/// The reasons as lines: causes in the order of their times, each with its consequences, then those without a time.
pub fn told(reasons: Vec<Reason>, injected: &[Injected], results: &Results) -> Vec<String> {
    let first_ns = first_ns(&reasons);
    let (follow, mut causes): (Vec<_>, Vec<_>) = reasons.into_iter().partition(|reason| reason.follows);
    causes.sort_by_key(|cause| cause.at_ns.unwrap_or(u64::MAX));
    // A tenant's server is the cause of its troubles, too.
    let is_of = |cause: &Reason, reason: &Reason| {
        let (Some(cause), Some(of)) = (&cause.of, &reason.of) else { return false };
        cause == of || results.servers.get(of).is_some_and(|server| server == cause)
    };
    let mut folded = vec![Vec::new(); causes.len()];
    let mut alone = Vec::new();
    for reason in follow {
        let place = causes.iter().position(|cause| is_of(cause, &reason));
        match place.and_then(|place| folded.get_mut(place)) {
            Some(list) => list.push(reason.text),
            None => alone.push(reason.text),
        }
    }
    let is_before = |fault: &&Injected| match first_ns {
        Some(first) => fault.at_ns <= first,
        // A tenant stands still.
        None => !alone.is_empty(),
    };
    let last = injected.iter().filter(is_before).max_by_key(|fault| fault.at_ns);
    let before = last.map(|fault| {
        let (ms, ns) = (fault.at_ns / 1_000_000, fault.at_ns % 1_000_000);
        format!("{BEFORE}, at {ms}.{ns:06} ms: {}", fault.words)
    });
    let lines = kinds(causes.into_iter().zip(folded)).into_iter().flat_map(|Kind { first, others, folded }| {
        let others = (others > 0).then(|| format!("  and {others} more that differ in numbers alone"));
        let so = (!folded.is_empty()).then(|| format!("  so {}", folded.join("; ")));
        std::iter::once(first).chain(others).chain(so)
    });
    before.into_iter().chain(lines).chain(alone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let mut results = Results::default();
        results.servers.insert("alice".into(), "nvme-server".into());
        results
    }

    #[test]
    fn the_first_cause_comes_first_and_has_its_consequences() {
        let reasons = vec![
            Reason::consequence("alice", "alice has not finished".into()),
            Reason::consequence("carol", "carol has not finished".into()),
            Reason::from("it took too long".to_owned()),
            Reason::cause("bob", "bob: no".into()).at(Some(2)),
            Reason::cause("nvme-server", "nvme-server: no".into()).at(Some(1)),
            Reason::consequence("alice", "alice's session was ended".into()),
        ];
        let told = told(reasons, &[], &results());
        assert_eq!(
            told,
            [
                "nvme-server: no",
                "  so alice has not finished; alice's session was ended",
                "bob: no",
                "it took too long",
                "carol has not finished",
            ]
        );
    }

    #[test]
    fn causes_that_differ_in_numbers_alone_are_counted() {
        let read = |at_ns: u64, of: &str, block: u32, hash: &str| {
            let text = format!("{of}: read {hash} for block {block}, which should have been {hash}");
            Reason::cause(of, text).at(Some(at_ns))
        };
        let reasons = vec![
            read(1, "alice", 7, "8cded475b08a036a"),
            read(2, "bob", 7, "8cded475b08a036a"),
            read(3, "alice", 90, "afb1285b605c8efa"),
            read(4, "alice", 8, "deadbeefdeadbeef"),
            Reason::consequence("alice", "alice has not finished".into()),
        ];
        assert_eq!(
            told(reasons, &[], &results()),
            [
                "alice: read 8cded475b08a036a for block 7, which should have been 8cded475b08a036a",
                "  and 2 more that differ in numbers alone",
                "  so alice has not finished",
                "bob: read 8cded475b08a036a for block 7, which should have been 8cded475b08a036a",
            ]
        );
    }

    #[test]
    fn the_last_fault_before_the_first_cause_is_named() {
        let fault = |at_ns, words: &str| Injected { at_ns, words: words.into() };
        let injected = [fault(1_000_000, "one"), fault(2_500_000, "two"), fault(9_000_000, "three")];
        let reasons = vec![Reason::cause("x", "x: no".into()).at(Some(3_000_000))];
        assert_eq!(
            told(reasons, &injected, &results()),
            ["the last injected fault before it, at 2.500000 ms: two", "x: no"]
        );
        assert_eq!(told(Vec::new(), &injected, &results()), [""; 0]);
    }

    #[test]
    fn failures_that_differ_in_numbers_are_of_one_kind() {
        let one = kind("55.994817 ms  data  t1: read 6120328396800");
        for other in ["7.1 ms  data  t1: read 0950cb3219a60d1f", "7.1 ms  data  t1: read a594162725a29eeb"] {
            assert_eq!(kind(other), one);
        }
        assert_eq!(one, "#.# ms  data  t1: read #");
        assert_ne!(one, kind("7.1 ms  data  t2: read 4"));
        let lines = ["the last injected fault before it, at 2.5 ms: two", "t1: no", "t2: no"].map(str::to_owned);
        assert_eq!(first(&lines), "t1: no");
    }
}
