//! The law of contents. Each block of each namespace is a register. A run is correct when some order of all reads
//! and writes that agrees with real time explains every read of every block.
//!
//! - A write that failed, or whose result is unknown, was done or not, block by block; it never leaves half a block.
//! - A discarded block holds the content that [`Discard`] names.
//! - After a loss of power a block holds a content that was not yet certainly replaced on the medium: by a write that was
//!   answered before a completed flush was submitted, by one with [`Persistence::Forced`], or by any if there is no
//!   volatile write cache.
//!
//! The simulator reports requests as their sessions see them: `submitted` before any component can act on the request,
//! `answered` after the session could know the answer. The work in between (splitting, retries, other queues) does not
//! matter here.
//!
//! Memory depends on the blocks touched and the requests in flight, not on the length of the run. To keep it so, some values
//! are forgotten (many overwrites without a flush before a loss of power). The first read of such a block after the loss
//! is then not judged, and [`Data::unjudged`] counts it.
//!
//! Neighbours: [`crate::Accounting`] reports missing and additional answers; here they are ignored. Left out:
//! that the blocks of one request change together (nothing promises that), and metadata.

mod hash;
mod history;
mod namespace;
mod operation;
mod place;

use std::collections::BTreeMap;

use rapidhash::RapidHashMap;

pub use self::hash::{Hash, hash_block};
use self::history::Effect;
use self::namespace::{Attempt, Contents, Namespace, Wrong};
pub use self::operation::{BlockRange, Discard, NamespaceRules, Operation, Outcome, Persistence, WriteCache};
use crate::{Checker, Findings, RequestId, Subject};

/// The NSID that stands for all namespaces of a controller (NVMe base specification 2.0, broadcast value).
const ALL_NAMESPACES: u32 = u32::MAX;

/// The checker of contents.
#[derive(Default)]
pub struct Data {
    namespaces: Vec<Namespace>,
    numbers: BTreeMap<(u32, u32), usize>,
    in_flight: RapidHashMap<RequestId, InFlight>,
    /// Counts calls. It gives the order of events, also while virtual time stands still.
    moment: u64,
    unjudged: u64,
}

/// A request that has not been answered.
struct InFlight {
    asked: u64,
    asked_ns: u64,
    controller: u32,
    nsid: u32,
    work: Work,
}

enum Work {
    Read(BlockRange),
    Write(BlockRange),
    Discard(Vec<BlockRange>),
    Flush,
}

impl Work {
    fn writes(&self) -> &[BlockRange] {
        match self {
            Self::Write(range) => std::slice::from_ref(range),
            Self::Discard(ranges) => ranges,
            Self::Read(_) | Self::Flush => &[],
        }
    }
}

impl Data {
    /// Creates a checker without namespaces.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a namespace, and the content of its blocks before the first write. A second declaration (after a format, or
    /// when it was recreated) forgets the knowledge of its content.
    pub fn namespace(&mut self, controller: u32, nsid: u32, rules: NamespaceRules, initial: Box<dyn Fn(u64) -> Hash>) {
        let namespace = Namespace::new(rules, initial);
        match self.numbers.get(&(controller, nsid)) {
            Some(&index) => self.namespaces[index] = namespace,
            None => {
                self.numbers.insert((controller, nsid), self.namespaces.len());
                self.namespaces.push(namespace);
            }
        }
    }

    /// Records a session's request. A flush may name all namespaces of the controller with `u32::MAX`.
    ///
    /// A request whose number is still in flight replaces the earlier one, whose result is then unknown.
    ///
    /// # Panics
    /// When a write does not come with one hash for each block, which is a mistake of the caller.
    pub fn submitted(&mut self, request: RequestId, now_ns: u64, controller: u32, nsid: u32, operation: Operation<'_>) {
        let asked = self.tick();
        let work = self.begin(asked, controller, nsid, operation);
        let entry = InFlight { asked, asked_ns: now_ns, controller, nsid, work };
        if let Some(replaced) = self.in_flight.insert(request, entry) {
            self.close(request, now_ns, &replaced, Outcome::Unknown, &mut Findings::new(0));
        }
    }

    /// Judges the answer to a session: what it read must be possible. Answers without a request are ignored.
    pub fn answered(&mut self, request: RequestId, now_ns: u64, outcome: Outcome<'_>, findings: &mut Findings) {
        self.tick();
        if let Some(entry) = self.in_flight.remove(&request) {
            self.close(request, now_ns, &entry, outcome, findings);
        }
    }

    /// Records that the server repeats a write (or a discard) in flight. It does not know the first attempt's result, only that
    /// the attempt has ended (the controller was reset in between). Without this call, the checker assumes that the write
    /// is done once.
    pub fn repeated(&mut self, request: RequestId) {
        let now = self.tick();
        let Some(entry) = self.in_flight.get(&request) else { return };
        let Some(&index) = self.numbers.get(&(entry.controller, entry.nsid)) else { return };
        for range in entry.work.writes() {
            self.namespaces[index].write_repeats(*range, entry.asked, now);
        }
    }

    /// Records a confirmed reset of the controller: requests answered with [`Outcome::Unknown`] can have no further effect.
    pub fn ended(&mut self, controller: u32) {
        let now = self.tick();
        for index in indices(&self.numbers, controller, ALL_NAMESPACES) {
            self.namespaces[index].histories.end_unknown(now);
        }
    }

    /// Records a loss of the controller's power: its volatile cache is gone, and requests in flight were done or not.
    pub fn power_lost(&mut self, controller: u32) {
        let now = self.tick();
        for index in indices(&self.numbers, controller, ALL_NAMESPACES) {
            self.namespaces[index].histories.power_lost(now);
        }
    }

    /// Returns the number of requests that wait for their answer.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns the number of blocks with a history at the moment.
    #[must_use]
    pub fn busy_blocks(&self) -> usize {
        self.namespaces.iter().map(|namespace| namespace.histories.busy()).sum()
    }

    /// Returns the number of blocks that were read but could not be judged: a loss of power came after too many overwrites
    /// without a flush, or in the middle of the read.
    #[must_use]
    pub const fn unjudged(&self) -> u64 {
        self.unjudged
    }

    const fn tick(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    fn begin(&mut self, ticket: u64, controller: u32, nsid: u32, operation: Operation<'_>) -> Work {
        let namespace = self.numbers.get(&(controller, nsid)).map(|&index| &mut self.namespaces[index]);
        let (work, contents, persistence) = match operation {
            Operation::Flush => return Work::Flush,
            Operation::Read(range) => {
                if let Some(namespace) = namespace {
                    namespace.read_begins(range, ticket);
                }
                return Work::Read(range);
            }
            Operation::Write { range, hashes, persistence } => {
                assert_eq!(hashes.len() as u64, range.count, "a write has one hash for each block");
                (Work::Write(range), Contents::Each(hashes), persistence)
            }
            Operation::Zeroes { range, persistence } => (Work::Write(range), Contents::Zeroes, persistence),
            Operation::Discard(ranges) => (Work::Discard(ranges.to_vec()), Contents::Zeroes, Persistence::Cached),
        };
        if let Some(namespace) = namespace {
            for &range in work.writes() {
                namespace.write_begins(Attempt { range, contents, ticket, persistence });
            }
        }
        work
    }

    fn close(
        &mut self,
        request: RequestId,
        now_ns: u64,
        entry: &InFlight,
        outcome: Outcome<'_>,
        findings: &mut Findings,
    ) {
        match (&entry.work, outcome) {
            (Work::Flush, Outcome::Done | Outcome::Read(_)) => {
                for index in indices(&self.numbers, entry.controller, entry.nsid) {
                    self.namespaces[index].histories.flushed(entry.asked);
                }
            }
            (Work::Flush, Outcome::Failed | Outcome::Unknown) => {}
            (Work::Read(range), _) => self.close_read(request, now_ns, entry, *range, outcome, findings),
            (Work::Write(_) | Work::Discard(_), _) => self.close_write(entry, outcome),
        }
    }

    fn close_write(&mut self, entry: &InFlight, outcome: Outcome<'_>) {
        let Some(&index) = self.numbers.get(&(entry.controller, entry.nsid)) else { return };
        let namespace = &mut self.namespaces[index];
        let effect = match (outcome, &entry.work) {
            (Outcome::Done | Outcome::Read(_), Work::Discard(_)) => namespace.discarded(),
            (Outcome::Done | Outcome::Read(_), _) => Effect::Happened,
            (Outcome::Failed, _) => Effect::Perhaps,
            (Outcome::Unknown, _) => Effect::Unknown,
        };
        for &range in entry.work.writes() {
            namespace.write_ends(range, entry.asked, effect, self.moment);
        }
    }

    fn close_read(
        &mut self,
        request: RequestId,
        now_ns: u64,
        entry: &InFlight,
        range: BlockRange,
        outcome: Outcome<'_>,
        findings: &mut Findings,
    ) {
        let contents = match outcome {
            Outcome::Read(contents) => contents,
            Outcome::Done | Outcome::Failed | Outcome::Unknown => &[],
        };
        let mut add = |text: &dyn Fn() -> String| {
            findings.add(now_ns, Checker::Data, Subject::Session(request.session), text);
        };
        if matches!(outcome, Outcome::Done | Outcome::Read(_)) && contents.len() as u64 != range.count {
            add(&|| {
                let (number, given, count) = (request.number, contents.len(), range.count);
                format!("read {number} succeeded with {given} blocks and should have returned {count}")
            });
        }
        let Some(&index) = self.numbers.get(&(entry.controller, entry.nsid)) else { return };
        let namespace = &mut self.namespaces[index];
        let judgement = namespace.read_ends(range, contents, entry.asked, self.moment);
        self.unjudged += judgement.unjudged;
        if let Some(wrong) = &judgement.first {
            add(&|| sentence(request, entry, judgement.wrong, wrong, namespace.zeroes()));
        }
    }
}

fn indices(numbers: &BTreeMap<(u32, u32), usize>, controller: u32, nsid: u32) -> impl Iterator<Item = usize> {
    let range = if nsid == ALL_NAMESPACES {
        (controller, 0)..=(controller, nsid)
    } else {
        (controller, nsid)..=(controller, nsid)
    };
    numbers.range(range).map(|(_, &index)| index)
}

fn sentence(request: RequestId, entry: &InFlight, blocks: u64, wrong: &Wrong, zeroes: Hash) -> String {
    const NAMED: usize = 4;
    let name = |hash: Hash| if hash == zeroes { "zeroes".to_owned() } else { hash.to_string() };
    let (number, asked_ns, block, content) = (request.number, entry.asked_ns, wrong.block, name(wrong.content));
    let (nsid, controller) = (entry.nsid, entry.controller);
    let named = wrong.allowed.iter().take(NAMED).copied().map(name).collect::<Vec<_>>().join(" or ");
    let others = if wrong.allowed.len() > NAMED { " or others" } else { "" };
    let more = if blocks > 1 { format!("; {} more of its blocks are wrong", blocks - 1) } else { String::new() };
    format!(
        "read {number}, submitted at {asked_ns} ns, returned {content} for block {block} of namespace {nsid} on \
         controller {controller}, which should have been {named}{others}{more}"
    )
}
