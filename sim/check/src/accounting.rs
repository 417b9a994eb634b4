//! The law of sums: every request is answered exactly once, and no answer lacks a request. Every command of a submission queue
//! completes exactly once, and its CID is not used again before that. At the end nothing is left over.
//!
//! The simulator reports the commands as the controller fetched and executed them. Completions that a fault spoiled on purpose
//! (posted twice, under another CID, not at all) are reported as they should have been: the checker judges the work, not
//! the fault.
//!
//! Neighbours: [`crate::Liveness`] reports late answers, [`crate::Data`] judges the content of answers. Left out: both.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use rapidhash::RapidHashMap;

use crate::{Checker, Findings, RequestId, Subject};

/// A submission queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QueueId {
    /// The controller, by the number that the simulator gave it.
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

/// All fields in one word.
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
    /// Creates a checker without requests, commands and counts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records a session's request.
    pub fn asked(&mut self, request: RequestId, now_ns: u64, findings: &mut Findings) {
        if let Some(before_ns) = self.requests.insert(request, now_ns) {
            findings.add(now_ns, Checker::Accounting, Subject::Session(request.session), || {
                let number = request.number;
                format!("request {number} was asked while the one of {before_ns} ns should have been answered first")
            });
        }
    }

    /// Records an answer to a session.
    pub fn answered(&mut self, request: RequestId, now_ns: u64, findings: &mut Findings) {
        if self.requests.remove(&request).is_none() {
            findings.add(now_ns, Checker::Accounting, Subject::Session(request.session), || {
                format!("request {} was answered, and should have been asked and not answered yet", request.number)
            });
        }
    }

    /// Records the end of a session: its requests need no answer any more.
    pub fn session_ended(&mut self, session: u32) {
        self.requests.retain(|request, _| request.session != session);
    }

    /// Records that a controller fetched a command from a queue.
    pub fn command_submitted(&mut self, queue: QueueId, cid: u16, now_ns: u64, findings: &mut Findings) {
        if let Some(before_ns) = self.commands.insert(CommandId { queue, cid }, now_ns) {
            findings.add(now_ns, Checker::Accounting, Subject::Controller(queue.controller), || {
                let sq = queue.sq;
                format!("SQ {sq} got CID {cid:#06x} while the one of {before_ns} ns should have completed first")
            });
        }
    }

    /// Records that a controller completed a command.
    pub fn command_completed(&mut self, queue: QueueId, cid: u16, now_ns: u64, findings: &mut Findings) {
        if self.commands.remove(&CommandId { queue, cid }).is_none() {
            findings.add(now_ns, Checker::Accounting, Subject::Controller(queue.controller), || {
                let sq = queue.sq;
                format!("SQ {sq} completed CID {cid:#06x}, which should have been in flight")
            });
        }
    }

    /// Records the deletion of a submission queue, which ends its commands.
    pub fn queue_gone(&mut self, queue: QueueId) {
        self.commands.retain(|command, _| command.queue != queue);
    }

    /// Records that a controller was reset, or removed, which ends all its commands.
    pub fn controller_reset(&mut self, controller: u32) {
        self.commands.retain(|command, _| command.queue.controller != controller);
    }

    /// Returns the number of requests and of commands in flight.
    #[must_use]
    pub fn in_flight(&self) -> (usize, usize) {
        (self.requests.len(), self.commands.len())
    }

    /// Records the amount of a resource (used slots of its CSpace, IO mappings, pages) that a component holds when the system is
    /// up and before its first request.
    pub fn baseline(&mut self, component: u32, resource: &str, count: u64) {
        self.baseline.insert((component, resource.to_owned()), count);
    }

    /// Records the amount that a component holds at the end. A resource without a baseline began with none.
    pub fn finally(&mut self, component: u32, resource: &str, count: u64) {
        self.finally.insert((component, resource.to_owned()), count);
    }

    /// Excludes a component's holdings from the judgement: it attacks, or it died.
    pub fn uncounted(&mut self, component: u32) {
        self.baseline.retain(|(own, _), _| *own != component);
        self.finally.retain(|(own, _), _| *own != component);
    }

    /// Ends the run: nothing more will be answered. Reports requests and commands in flight, and holdings that differ from the
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

    /// Less than at the beginning is as wrong as more: a resource was freed that was still needed, or freed twice.
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
