//! The law of shares: sessions with equal shares that ask without pause are served alike.
//!
//! Virtual time is cut into slices. Eight of them make an interval, which slides by one. A session
//! *asks without pause* in an interval when it had at least [`Share::saturating`] requests in flight during 15/16 of it.
//! Of those sessions in one group, the bytes answered in the interval, divided by the weight, must not differ by
//! more than [`FairnessRules::factor`], plus [`FairnessRules::slack_bytes`] for requests in flight at the edges.
//! Besides, no session that asks without any pause may wait for an answer longer than [`Share::starvation_ns`] while others
//! are answered. A session that asks less is not judged, and neither is an interval with faults.
//!
//! Neighbours: [`crate::Liveness`] judges single requests. Left out: shares between groups, beyond
//! starvation. Policies are compared by those; they are not a law.

use std::collections::BTreeMap;

use crate::{Checker, Findings, Subject};

/// Slices in an interval.
const SLICES: usize = 8;
/// Divisor of an interval: for this part of it a session may ask too little and still be judged.
const PAUSE_PART: u64 = 16;

/// Limits on the difference between sessions with equal shares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FairnessRules {
    /// Length of an interval in nanoseconds of virtual time; long against the time of a request.
    pub interval_ns: u64,
    /// Upper limit on the ratio between the session that gets most and the one that gets least.
    pub factor: u64,
    /// Additional bytes that are allowed, for each unit of weight.
    pub slack_bytes: u64,
}

/// A session's share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// Sessions with the same number here are compared: those of one class on one controller, with requests of one
    /// size.
    pub group: u32,
    /// The session's weight against the others of the group; at least 1.
    pub weight: u32,
    /// The number of requests in flight that is enough for full speed. Half its depth, say, so that the moment
    /// between an answer and the next request does not count as a pause; at least 1.
    pub saturating: u32,
    /// Limit on its wait for an answer, in nanoseconds; `u64::MAX` where the policy lets others starve it.
    pub starvation_ns: u64,
}

/// The checker of shares.
#[derive(Debug)]
pub struct Fairness {
    rules: FairnessRules,
    sessions: BTreeMap<u32, Session>,
    /// Beginning of the current slice.
    slice_ns: u64,
    faults_until_ns: u64,
    /// Answers to all sessions so far.
    answers: u64,
    /// By group: no finding before this time, since the interval overlaps one that was reported.
    reported_until_ns: BTreeMap<u32, u64>,
}

#[derive(Debug)]
struct Session {
    share: Share,
    in_flight: u32,
    /// Time since which it asks too little.
    pause_ns: Option<u64>,
    slice: Slice,
    interval: [Slice; SLICES],
    /// Number of slices that it has seen in full, up to an interval.
    seen: usize,
    hunger: Hunger,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    bytes: u64,
    paused_ns: u64,
}

/// A wait for the next answer, without pause.
#[derive(Clone, Copy, Debug)]
struct Hunger {
    since_ns: u64,
    /// Answers to all sessions when the wait began.
    answers: u64,
    reported: bool,
}

impl Fairness {
    /// Creates a checker with these rules. Virtual time begins at 0.
    #[must_use]
    pub fn new(rules: FairnessRules) -> Self {
        let rules = FairnessRules { interval_ns: rules.interval_ns.max(SLICES as u64), ..rules };
        let (sessions, reported_until_ns) = (BTreeMap::new(), BTreeMap::new());
        Self { rules, sessions, slice_ns: 0, faults_until_ns: 0, answers: 0, reported_until_ns }
    }

    /// Adds a session, or changes its share from now on.
    pub fn session(&mut self, session: u32, share: Share, now_ns: u64) {
        let hunger = Hunger { since_ns: now_ns, answers: self.answers, reported: false };
        let share = Share { weight: share.weight.max(1), saturating: share.saturating.max(1), ..share };
        let (slice, interval) = (Slice::default(), [Slice::default(); SLICES]);
        let new = Session { share, in_flight: 0, pause_ns: Some(self.slice_ns), slice, interval, seen: 0, hunger };
        self.sessions.insert(session, new);
    }

    /// Removes a session.
    pub fn session_ended(&mut self, session: u32) {
        self.sessions.remove(&session);
    }

    /// Announces faults until `ns`; intervals that begin before are not judged. Later calls can only move it forward.
    pub fn faults_until(&mut self, ns: u64) {
        self.faults_until_ns = self.faults_until_ns.max(ns);
    }

    /// Records a session's request.
    pub fn asked(&mut self, session: u32, now_ns: u64, findings: &mut Findings) {
        self.check(now_ns, findings);
        let answers = self.answers;
        if let Some(session) = self.sessions.get_mut(&session) {
            session.asked(now_ns, answers);
        }
    }

    /// Records an answer to a session's request that moved `bytes` bytes.
    pub fn answered(&mut self, session: u32, bytes: u64, now_ns: u64, findings: &mut Findings) {
        self.check(now_ns, findings);
        self.answers += 1;
        let answers = self.answers;
        if let Some(session) = self.sessions.get_mut(&session) {
            session.answered(bytes, now_ns, answers);
        }
    }

    /// Judges all intervals that ended by now. Every call does so; one at the end of the run judges the rest.
    pub fn check(&mut self, now_ns: u64, findings: &mut Findings) {
        let length_ns = self.slice_length_ns();
        let mut left = 2 * SLICES;
        while now_ns.saturating_sub(self.slice_ns) >= length_ns {
            let end_ns = self.slice_ns + length_ns;
            self.end_slice(end_ns, findings);
            left -= 1;
            if left == 0 {
                // Nothing happened for longer than two intervals, so all further intervals are like the last one.
                self.slice_ns += (now_ns - self.slice_ns) / length_ns * length_ns;
                self.sessions.values_mut().for_each(|session| session.skip_to(self.slice_ns));
                return;
            }
        }
    }

    const fn slice_length_ns(&self) -> u64 {
        self.rules.interval_ns / SLICES as u64
    }

    fn end_slice(&mut self, end_ns: u64, findings: &mut Findings) {
        self.slice_ns = end_ns;
        for session in self.sessions.values_mut() {
            session.end_slice(end_ns);
        }
        self.judge_shares(end_ns, findings);
        self.judge_hunger(end_ns, findings);
    }

    fn judge_shares(&mut self, end_ns: u64, findings: &mut Findings) {
        let interval_ns = self.slice_length_ns() * SLICES as u64;
        if end_ns.saturating_sub(interval_ns) < self.faults_until_ns {
            return;
        }
        for (group, Extremes { least, most }) in self.extremes(interval_ns) {
            let FairnessRules { factor, slack_bytes, .. } = self.rules;
            let allowed = least.1.saturating_mul(factor).saturating_add(slack_bytes);
            let reported_until_ns = self.reported_until_ns.entry(group).or_default();
            if most.1 > allowed && end_ns >= *reported_until_ns {
                *reported_until_ns = end_ns + interval_ns;
                findings.add(end_ns, Checker::Fairness, Subject::Session(least.0), || {
                    let (other, much, little) = (most.0, most.1, least.1);
                    format!(
                        "it got {little} bytes per weight in the last {interval_ns} ns while session {other} got {much}, \
                         which should have been at most {allowed}"
                    )
                });
            }
        }
    }

    /// Returns each group's sessions that got least and most, among those that asked without pause.
    fn extremes(&self, interval_ns: u64) -> BTreeMap<u32, Extremes> {
        let mut groups: BTreeMap<u32, Extremes> = BTreeMap::new();
        for (&number, session) in &self.sessions {
            let Some(got) = session.got(interval_ns / PAUSE_PART) else { continue };
            let own = (number, got);
            let extremes = groups.entry(session.share.group).or_insert(Extremes { least: own, most: own });
            if got < extremes.least.1 {
                extremes.least = own;
            }
            if got > extremes.most.1 {
                extremes.most = own;
            }
        }
        groups
    }

    fn judge_hunger(&mut self, end_ns: u64, findings: &mut Findings) {
        for (&number, session) in &mut self.sessions {
            let Hunger { since_ns, answers, reported } = session.hunger;
            let since_ns = since_ns.max(self.faults_until_ns);
            let starved = end_ns.saturating_sub(since_ns) > session.share.starvation_ns;
            if session.pause_ns.is_none() && starved && !reported && self.answers > answers {
                session.hunger.reported = true;
                findings.add(end_ns, Checker::Fairness, Subject::Session(number), || {
                    let (others, bound_ns) = (self.answers - answers, session.share.starvation_ns);
                    format!(
                        "it has waited since {since_ns} ns while others got {others} answers, and should have waited \
                         {bound_ns} ns at most"
                    )
                });
            }
        }
    }
}

/// A session and its bytes in an interval, per weight.
type Got = (u32, u64);

#[derive(Clone, Copy, Debug)]
struct Extremes {
    least: Got,
    most: Got,
}

impl Session {
    fn asked(&mut self, now_ns: u64, answers: u64) {
        self.in_flight = self.in_flight.saturating_add(1);
        if self.in_flight >= self.share.saturating
            && let Some(since_ns) = self.pause_ns.take()
        {
            self.slice.paused_ns += now_ns.saturating_sub(since_ns);
            self.hunger = Hunger { since_ns: now_ns, answers, reported: false };
        }
    }

    fn answered(&mut self, bytes: u64, now_ns: u64, answers: u64) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.slice.bytes = self.slice.bytes.saturating_add(bytes);
        self.hunger = Hunger { since_ns: now_ns, answers, reported: false };
        if self.in_flight < self.share.saturating {
            self.pause_ns.get_or_insert(now_ns);
        }
    }

    fn end_slice(&mut self, end_ns: u64) {
        if let Some(since_ns) = &mut self.pause_ns {
            self.slice.paused_ns += end_ns.saturating_sub(*since_ns);
            *since_ns = end_ns;
        }
        self.interval.rotate_left(1);
        self.interval[SLICES - 1] = std::mem::take(&mut self.slice);
        self.seen = SLICES.min(self.seen + 1);
    }

    fn skip_to(&mut self, now_ns: u64) {
        if let Some(since_ns) = &mut self.pause_ns {
            *since_ns = now_ns;
        }
    }

    /// Returns its bytes in the interval per weight, if it asked without pause all the time.
    fn got(&self, pause_ns: u64) -> Option<u64> {
        let paused_ns: u64 = self.interval.iter().map(|slice| slice.paused_ns).sum();
        let bytes = self.interval.iter().fold(0_u64, |sum, slice| sum.saturating_add(slice.bytes));
        (self.seen == SLICES && paused_ns <= pause_ns).then(|| bytes / u64::from(self.share.weight))
    }
}

#[cfg(test)]
mod tests;
