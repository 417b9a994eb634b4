use proptest::prelude::*;

use super::*;

const BOUNDS: LivenessBounds = LivenessBounds { answer_ns: 100, run_ns: 30 };

fn request(number: u64) -> RequestId {
    RequestId { session: 1, number }
}

#[test]
fn a_request_is_late_after_its_bound_and_reported_once() {
    let (mut liveness, mut findings) = (Liveness::new(BOUNDS), Findings::new(10));
    liveness.asked(request(1), 10);
    liveness.asked(request(2), 20);
    liveness.answered(request(1));
    liveness.check(120, &mut findings);
    assert!(findings.is_empty(), "{findings}");
    liveness.check(121, &mut findings);
    liveness.check(500, &mut findings);
    liveness.finish(501, &mut findings);
    assert_eq!(findings.counted_by(Checker::Liveness), 1);
    assert_eq!(findings.kept()[0].text, "request 2, asked at 20 ns, should have been answered within 100 ns");
}

#[test]
fn the_bound_counts_from_the_end_of_faults() {
    let (mut liveness, mut findings) = (Liveness::new(BOUNDS), Findings::new(10));
    liveness.faults_until(1_000);
    liveness.asked(request(1), 10);
    liveness.runnable(4, 10);
    liveness.check(1_030, &mut findings);
    liveness.waits(4);
    liveness.check(1_100, &mut findings);
    assert!(findings.is_empty(), "{findings}");
    liveness.check(1_101, &mut findings);
    assert_eq!(findings.counted(), 1);
    assert!(findings.kept()[0].text.ends_with("within 100 ns after faults stopped"), "{findings}");
}

#[test]
fn what_is_unanswered_at_the_end_is_reported() {
    let (mut liveness, mut findings) = (Liveness::new(BOUNDS), Findings::new(10));
    liveness.asked(request(1), 10);
    liveness.asked(request(2), 10);
    liveness.answered(request(2));
    liveness.finish(11, &mut findings);
    assert_eq!(findings.counted(), 1);
    assert_eq!(liveness.waiting(), 0);
}

#[test]
fn a_component_that_can_run_but_never_does_is_reported() {
    let (mut liveness, mut findings) = (Liveness::new(BOUNDS), Findings::new(10));
    liveness.runnable(4, 0);
    liveness.runnable(5, 0);
    liveness.runnable(6, 0);
    liveness.ran(5, 20);
    liveness.waits(6);
    liveness.runnable(4, 25);
    liveness.check(30, &mut findings);
    assert!(findings.is_empty(), "{findings}");
    liveness.check(31, &mut findings);
    liveness.check(40, &mut findings);
    assert_eq!(findings.kept()[0].subject, Subject::Component(4));
    assert_eq!(findings.counted(), 1);
    liveness.check(51, &mut findings);
    assert_eq!(findings.kept()[1].subject, Subject::Component(5));
    liveness.ran(4, 60);
    liveness.check(91, &mut findings);
    assert_eq!(findings.counted(), 3);
}

#[test]
fn memory_follows_what_waits_and_not_what_was_answered() {
    let mut liveness = Liveness::new(BOUNDS);
    liveness.faults_until(u64::MAX);
    liveness.asked(request(0), 0);
    for number in 1..100_000 {
        liveness.asked(request(number), number);
        liveness.answered(request(number));
    }
    assert!(liveness.order.len() < 100, "{}", liveness.order.len());
}

proptest! {
    #[test]
    fn exactly_the_late_are_reported(delays in prop::collection::vec(0..200_u64, 1..80), faults_until in 0..300_u64) {
        let (mut liveness, mut findings) = (Liveness::new(BOUNDS), Findings::new(100));
        liveness.faults_until(faults_until);
        let answers: Vec<u64> = delays.iter().enumerate().map(|(asked, delay)| asked as u64 + delay).collect();
        for now in 0..700 {
            // The check comes first in each moment: an answer in the very moment of the bound is in time.
            liveness.check(now, &mut findings);
            if now < answers.len() as u64 {
                liveness.asked(request(now), now);
            }
            for number in (0_u64..).zip(&answers).filter(|(_, at)| **at == now).map(|(number, _)| number) {
                liveness.answered(request(number));
            }
        }
        let late = |&(asked, answered): &(u64, u64)| answered > asked.max(faults_until) + BOUNDS.answer_ns;
        let expected = (0_u64..).zip(answers).filter(late).count();
        prop_assert_eq!(findings.counted(), expected as u64);
    }
}

#[test]
fn who_is_gone_waits_for_nothing() {
    let (mut liveness, mut findings) = (Liveness::new(LivenessBounds { answer_ns: 10, run_ns: 10 }), Findings::new(9));
    liveness.asked(RequestId { session: 1, number: 5 }, 0);
    liveness.asked(RequestId { session: 2, number: 5 }, 0);
    liveness.session_ended(1);
    liveness.finish(5, &mut findings);
    let text = findings.to_string();
    assert_eq!(text.lines().count(), 1, "{text}");
}
