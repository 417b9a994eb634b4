//! What must add up: every request is answered exactly once, and none that was never asked; every command of a
//! submission queue completes exactly once, and its CID is not used again before that; and at the end nothing is left
//! over.
//!
//! The world reports the commands as the controller took and did them. Completions that a fault spoiled on purpose
//! (posted twice, under another CID, not at all) are reported as they should have been: what is checked is the work, not
//! the fault.
//!
//! Neighbours: [`crate::Liveness`] says what is late, [`crate::Data`] what an answer may hold. Left out: both.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use rapidhash::RapidHashMap;

use crate::{Checker, Findings, RequestId, Subject};

/// A submission queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QueueId {
    /// The controller, by the number the world gave it.
    pub controller: u32,
    /// The queue's identifier; 0 is the admin queue.
    pub sq: u16,
}

/// A command, by its CID in its queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct CommandId {
    queue: QueueId,
    cid: u16,
}

/// All in one word.
impl Hash for CommandId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let QueueId { controller, sq } = self.queue;
        state.write_u64(u64::from(controller) << 32 | u64::from(sq) << 16 | u64::from(self.cid));
    }
}

/// The checker of sums.
#[derive(Debug, Default)]
pub struct Accounting {
    requests: RapidHashMap<RequestId, u64>,
    commands: RapidHashMap<CommandId, u64>,
    baseline: BTreeMap<(u32, String), u64>,
    finally: BTreeMap<(u32, String), u64>,
}

impl Accounting {
    /// A checker with nothing asked and nothing counted.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A session asks.
    pub fn asked(&mut self, request: RequestId, now_ns: u64, findings: &mut Findings) {
        if let Some(before_ns) = self.requests.insert(request, now_ns) {
            findings.add(now_ns, Checker::Accounting, Subject::Session(request.session), || {
                let number = request.number;
                format!("request {number} was asked while the one of {before_ns} ns should have been answered first")
            });
        }
    }

    /// A session has an answer.
    pub fn answered(&mut self, request: RequestId, now_ns: u64, findings: &mut Findings) {
        if self.requests.remove(&request).is_none() {
            findings.add(now_ns, Checker::Accounting, Subject::Session(request.session), || {
                format!("request {} was answered, and should have been asked and not answered yet", request.number)
            });
        }
    }

    /// A session is over: its requests need no answer any more.
    pub fn session_ended(&mut self, session: u32) {
        self.requests.retain(|request, _| request.session != session);
    }

    /// A controller took a command from a queue.
    pub fn command_submitted(&mut self, queue: QueueId, cid: u16, now_ns: u64, findings: &mut Findings) {
        if let Some(before_ns) = self.commands.insert(CommandId { queue, cid }, now_ns) {
            findings.add(now_ns, Checker::Accounting, Subject::Controller(queue.controller), || {
                let sq = queue.sq;
                format!("SQ {sq} got CID {cid:#06x} while the one of {before_ns} ns should have completed first")
            });
        }
    }

    /// A controller completed a command.
    pub fn command_completed(&mut self, queue: QueueId, cid: u16, now_ns: u64, findings: &mut Findings) {
        if self.commands.remove(&CommandId { queue, cid }).is_none() {
            findings.add(now_ns, Checker::Accounting, Subject::Controller(queue.controller), || {
                let sq = queue.sq;
                format!("SQ {sq} completed CID {cid:#06x}, which should have been in flight")
            });
        }
    }

    /// A submission queue was deleted: its commands are over.
    pub fn queue_gone(&mut self, queue: QueueId) {
        self.commands.retain(|command, _| command.queue != queue);
    }

    /// A controller was reset, or is gone: all its commands are over.
    pub fn controller_reset(&mut self, controller: u32) {
        self.commands.retain(|command, _| command.queue.controller != controller);
    }

    /// How many requests and how many commands are in flight.
    #[must_use]
    pub fn in_flight(&self) -> (usize, usize) {
        (self.requests.len(), self.commands.len())
    }

    /// A component holds so many of a resource (used slots of its CSpace, IO mappings, pages) when the system is up and
    /// nothing has been asked.
    pub fn baseline(&mut self, component: u32, resource: &str, count: u64) {
        self.baseline.insert((component, resource.to_owned()), count);
    }

    /// A component holds so many of a resource now that all is over. What was not reported to the baseline began with none.
    pub fn finally(&mut self, component: u32, resource: &str, count: u64) {
        self.finally.insert((component, resource.to_owned()), count);
    }

    /// A component's holdings are not judged: it attacks, or it died.
    pub fn uncounted(&mut self, component: u32) {
        self.baseline.retain(|(own, _), _| *own != component);
        self.finally.retain(|(own, _), _| *own != component);
    }

    /// The run is over, and nothing more will be answered: what is in flight is reported, and what does not match the
    /// baseline.
    pub fn finish(&mut self, now_ns: u64, findings: &mut Findings) {
        self.finish_requests(now_ns, findings);
        self.finish_commands(now_ns, findings);
        self.finish_resources(now_ns, findings);
    }

    fn finish_requests(&mut self, now_ns: u64, findings: &mut Findings) {
        let mut left: Vec<(RequestId, u64)> = self.requests.drain().collect();
        left.sort_unstable();
        for (request, asked_ns) in left {
            findings.add(now_ns, Checker::Accounting, Subject::Session(request.session), || {
                format!("request {} of {asked_ns} ns should have been answered by the end", request.number)
            });
        }
    }

    fn finish_commands(&mut self, now_ns: u64, findings: &mut Findings) {
        let mut left: Vec<(CommandId, u64)> = self.commands.drain().collect();
        left.sort_unstable();
        for (CommandId { queue, cid }, taken_ns) in left {
            findings.add(now_ns, Checker::Accounting, Subject::Controller(queue.controller), || {
                let sq = queue.sq;
                format!("SQ {sq}'s command with CID {cid:#06x} of {taken_ns} ns should have completed by the end")
            });
        }
    }

    /// Less than at the beginning is as wrong as more: then something was freed that was still needed, or freed twice.
    fn finish_resources(&mut self, now_ns: u64, findings: &mut Findings) {
        let mut counts: BTreeMap<(u32, String), (u64, u64)> = BTreeMap::new();
        for (key, count) in std::mem::take(&mut self.baseline) {
            counts.entry(key).or_default().0 = count;
        }
        for (key, count) in std::mem::take(&mut self.finally) {
            counts.entry(key).or_default().1 = count;
        }
        for ((component, resource), (before, after)) in counts {
            if before != after {
                findings.add(now_ns, Checker::Accounting, Subject::Component(component), || {
                    format!("it holds {after} {resource} at the end, and should have been back at {before}")
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;
