//! The law of progress. Every request is answered within a bound, from its submission or from the end of faults if that is
//! later. Every component that can run does run, within a bound.
//!
//! Neighbours: the simulator reports requests and the components that run. It calls [`Liveness::check`] now and then (each
//! tenth of the bound is enough) and [`Liveness::finish`] at the end. Left out: the content of an answer, and answers
//! without a request.

use std::collections::{BTreeMap, VecDeque};

use rapidhash::RapidHashMap;

use crate::{Checker, Findings, RequestId, Subject};

/// The bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LivenessBounds {
    /// From the request to its answer, in nanoseconds of virtual time.
    pub answer_ns: u64,
    /// From being ready to run to running, in nanoseconds of virtual time.
    pub run_ns: u64,
}

/// The checker of progress.
#[derive(Debug)]
pub struct Liveness {
    bounds: LivenessBounds,
    faults_until_ns: u64,
    /// Unanswered requests, and the times at which they were submitted.
    waiting: RapidHashMap<RequestId, u64>,
    /// Unanswered requests in the order of submission; answered requests are among them until they are cleared away.
    order: VecDeque<(u64, RequestId)>,
    /// Components that can run: since when, and whether that was reported already.
    runnable: BTreeMap<u32, (u64, Reported)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reported {
    No,
    Yes,
}

impl Liveness {
    /// Creates a checker with these bounds.
    #[must_use]
    pub fn new(bounds: LivenessBounds) -> Self {
        let (waiting, order) = (RapidHashMap::default(), VecDeque::new());
        Self { bounds, faults_until_ns: 0, waiting, order, runnable: BTreeMap::new() }
    }

    /// Announces faults until `ns`; the bounds count from there. Later calls can only move it forward.
    pub fn faults_until(&mut self, ns: u64) {
        self.faults_until_ns = self.faults_until_ns.max(ns);
    }

    /// Records a session's request. Virtual time never runs backwards from call to call.
    pub fn asked(&mut self, request: RequestId, now_ns: u64) {
        self.waiting.insert(request, now_ns);
        if self.order.len() > 64 + 2 * self.waiting.len() {
            self.order.retain(|(asked_ns, request)| self.waiting.get(request) == Some(asked_ns));
        }
        self.order.push_back((now_ns, request));
    }

    /// Records the answer to a request, or that none is needed since the session is gone.
    pub fn answered(&mut self, request: RequestId) {
        self.waiting.remove(&request);
    }

    /// Records that a session's client is gone: its requests need no answer.
    pub fn session_ended(&mut self, session: u32) {
        self.waiting.retain(|request, _| request.session != session);
    }

    /// Records that a component can run and waits for its turn.
    pub fn runnable(&mut self, component: u32, now_ns: u64) {
        self.runnable.entry(component).or_insert((now_ns, Reported::No));
    }

    /// Records that a component had its turn, and can run on.
    pub fn ran(&mut self, component: u32, now_ns: u64) {
        self.runnable.insert(component, (now_ns, Reported::No));
    }

    /// Records that a component cannot run: it waits for something, or has ended.
    pub fn waits(&mut self, component: u32) {
        self.runnable.remove(&component);
    }

    /// Returns the number of unanswered requests, without those that were reported as late.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Reports each request and component that is late by now, only once.
    pub fn check(&mut self, now_ns: u64, findings: &mut Findings) {
        while let Some(&(asked_ns, request)) = self.order.front() {
            let waits = self.waiting.get(&request) == Some(&asked_ns);
            if waits && !exceeds(asked_ns, self.faults_until_ns, self.bounds.answer_ns, now_ns) {
                break;
            }
            self.order.pop_front();
            if waits {
                self.waiting.remove(&request);
                self.late(request, asked_ns, now_ns, findings);
            }
        }
        self.check_components(now_ns, findings);
    }

    /// Ends the run: nothing more will be answered, so every request that still waits is reported. A run that is cut
    /// off while sessions ask ends with [`Liveness::check`] instead.
    pub fn finish(&mut self, now_ns: u64, findings: &mut Findings) {
        self.check(now_ns, findings);
        while let Some((asked_ns, request)) = self.order.pop_front() {
            if self.waiting.get(&request) == Some(&asked_ns) {
                self.waiting.remove(&request);
                findings.add(now_ns, Checker::Liveness, Subject::Session(request.session), || {
                    format!(
                        "request {}, asked at {asked_ns} ns, should have been answered before the end",
                        request.number
                    )
                });
            }
        }
    }

    fn check_components(&mut self, now_ns: u64, findings: &mut Findings) {
        let (bound_ns, faults_until_ns) = (self.bounds.run_ns, self.faults_until_ns);
        for (&component, (since_ns, reported)) in &mut self.runnable {
            if *reported == Reported::No && exceeds(*since_ns, faults_until_ns, bound_ns, now_ns) {
                *reported = Reported::Yes;
                findings.add(now_ns, Checker::Liveness, Subject::Component(component), || {
                    format!("it can run since {since_ns} ns, and should have run within {bound_ns} ns")
                });
            }
        }
    }

    fn late(&self, request: RequestId, asked_ns: u64, now_ns: u64, findings: &mut Findings) {
        let (bound_ns, faults_until_ns) = (self.bounds.answer_ns, self.faults_until_ns);
        findings.add(now_ns, Checker::Liveness, Subject::Session(request.session), || {
            let from = if faults_until_ns > asked_ns { " after faults stopped" } else { "" };
            format!(
                "request {}, asked at {asked_ns} ns, should have been answered within {bound_ns} ns{from}",
                request.number
            )
        });
    }
}

/// Whether the bound has passed, counted from the later of the first two times.
fn exceeds(since_ns: u64, faults_until_ns: u64, bound_ns: u64, now_ns: u64) -> bool {
    since_ns.max(faults_until_ns).saturating_add(bound_ns) < now_ns
}

#[cfg(test)]
mod tests;
