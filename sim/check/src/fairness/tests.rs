use proptest::prelude::*;

use super::*;

const RULES: FairnessRules = FairnessRules { interval_ns: 80_000, factor: 2, slack_bytes: 8192 };
const SHARE: Share = Share { group: 0, weight: 1, saturating: 1, starvation_ns: 30_000 };
const BLOCK: u64 = 4096;

/// Two sessions with two requests in flight each. Every microsecond the session that `next` names gets one answer;
/// its next request follows `think_ns` later.
struct Bench {
    fairness: Fairness,
    findings: Findings,
    now_ns: u64,
}

impl Bench {
    fn new(shares: &[Share]) -> Self {
        let mut bench = Self { fairness: Fairness::new(RULES), findings: Findings::new(100), now_ns: 0 };
        for (number, share) in (0..).zip(shares) {
            bench.fairness.session(number, *share, 0);
            bench.fairness.asked(number, 0, &mut bench.findings);
            bench.fairness.asked(number, 0, &mut bench.findings);
        }
        bench
    }

    fn serve(&mut self, answers: u64, next: impl Fn(u64) -> u32) {
        for answer in 0..answers {
            self.now_ns += 1_000;
            let session = next(answer);
            self.fairness.answered(session, BLOCK, self.now_ns, &mut self.findings);
            self.fairness.asked(session, self.now_ns, &mut self.findings);
        }
    }
}

#[test]
fn alike_sessions_served_in_turn_are_fair() {
    let mut bench = Bench::new(&[SHARE, SHARE]);
    bench.serve(1_000, |answer| (answer % 2) as u32);
    assert!(bench.findings.is_empty(), "{}", bench.findings);
}

#[test]
fn a_session_that_gets_a_fifth_is_reported_once_per_interval() {
    let mut bench = Bench::new(&[SHARE, SHARE]);
    bench.serve(320, |answer| u32::from(answer % 5 != 0));
    assert_eq!(bench.findings.counted_by(Checker::Fairness), 4, "{}", bench.findings);
    assert_eq!(bench.findings.kept()[0].subject, Subject::Session(0));
    assert_eq!(bench.findings.kept()[0].at_ns, 80_000);
}

#[test]
fn weights_are_part_of_the_measure() {
    let heavy = Share { weight: 4, ..SHARE };
    let mut bench = Bench::new(&[SHARE, heavy]);
    bench.serve(320, |answer| u32::from(answer % 5 != 0));
    assert!(bench.findings.is_empty(), "{}", bench.findings);
    let mut bench = Bench::new(&[SHARE, heavy]);
    bench.serve(320, |answer| (answer % 2) as u32);
    assert!(!bench.findings.is_empty());
    assert_eq!(bench.findings.kept()[0].subject, Subject::Session(1));
}

#[test]
fn groups_are_not_compared() {
    let mut bench = Bench::new(&[SHARE, Share { group: 1, ..SHARE }]);
    bench.serve(320, |answer| u32::from(answer % 20 != 0));
    assert!(bench.findings.is_empty(), "{}", bench.findings);
}

#[test]
fn a_session_that_asks_too_little_is_not_judged() {
    let mut bench = Bench::new(&[SHARE, SHARE, Share { saturating: 3, ..SHARE }]);
    bench.serve(320, |answer| (answer % 2) as u32);
    assert!(bench.findings.is_empty(), "{}", bench.findings);
    bench.fairness.asked(2, bench.now_ns, &mut bench.findings);
    bench.serve(320, |answer| (answer % 2) as u32);
    assert!(!bench.findings.is_empty());
    assert!(bench.findings.kept().iter().all(|finding| finding.subject == Subject::Session(2)));
}

#[test]
fn intervals_with_faults_are_not_judged() {
    let mut bench = Bench::new(&[SHARE, SHARE]);
    bench.fairness.faults_until(200_000);
    bench.serve(279, |_| 1);
    let shares =
        |bench: &Bench| bench.findings.kept().iter().filter(|finding| finding.text.starts_with("it got")).count();
    assert_eq!(shares(&bench), 0, "{}", bench.findings);
    bench.serve(1, |_| 1);
    assert_eq!(shares(&bench), 1, "{}", bench.findings);
}

#[test]
fn starvation_is_reported_once_across_groups() {
    let starved = Share { group: 1, ..SHARE };
    let mut bench = Bench::new(&[starved, SHARE, Share { group: 2, starvation_ns: u64::MAX, ..SHARE }]);
    bench.serve(200, |_| 1);
    assert_eq!(bench.findings.counted(), 1, "{}", bench.findings);
    assert_eq!((bench.findings.kept()[0].subject, bench.findings.kept()[0].at_ns), (Subject::Session(0), 40_000));
}

#[test]
fn nobody_starves_while_nothing_is_answered() {
    let mut bench = Bench::new(&[SHARE, SHARE]);
    bench.fairness.check(10_000_000, &mut bench.findings);
    assert!(bench.findings.is_empty(), "{}", bench.findings);
}

#[test]
fn a_session_is_compared_only_after_a_whole_interval() {
    let mut bench = Bench::new(&[SHARE]);
    bench.serve(500, |_| 0);
    bench.fairness.session(1, SHARE, bench.now_ns);
    bench.fairness.asked(1, bench.now_ns, &mut bench.findings);
    bench.fairness.asked(1, bench.now_ns, &mut bench.findings);
    bench.serve(300, |answer| (answer % 2) as u32);
    bench.fairness.session_ended(1);
    bench.serve(300, |_| 0);
    assert!(bench.findings.is_empty(), "{}", bench.findings);
}

#[test]
fn a_long_silence_costs_little_and_changes_nothing() {
    let mut bench = Bench::new(&[SHARE, SHARE]);
    bench.serve(100, |answer| (answer % 2) as u32);
    bench.now_ns += 1 << 60;
    bench.serve(300, |answer| (answer % 2) as u32);
    let reported = bench.findings.kept().iter().filter(|finding| finding.text.starts_with("it got")).count();
    assert_eq!(reported, 0, "{}", bench.findings);
}

proptest! {
    /// A server that draws the session it serves next, with equal chances, stays within a factor of two in intervals of 80
    /// answers, except for bad luck that the slack covers. One that draws one session six times as often never does.
    #[test]
    fn even_draws_are_fair_and_uneven_draws_are_not(draws in prop::collection::vec(0..7_u32, 400)) {
        let even = |answer: u64| (draws[answer as usize] + answer as u32) % 2;
        let uneven = |answer: u64| u32::from(draws[answer as usize] > 0);
        let rules = FairnessRules { slack_bytes: 30 * BLOCK, ..RULES };
        for (expected, next) in [(true, &even as &dyn Fn(u64) -> u32), (false, &uneven)] {
            let patient = Share { starvation_ns: u64::MAX, ..SHARE };
            let mut bench = Bench::new(&[patient, patient]);
            bench.fairness.rules = if expected { rules } else { RULES };
            bench.serve(400, next);
            prop_assert_eq!(bench.findings.is_empty(), expected, "{}", bench.findings);
        }
    }
}
