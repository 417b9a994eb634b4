use proptest::prelude::*;

use super::*;

const QUEUE: QueueId = QueueId { controller: 3, sq: 1 };

fn request(session: u32, number: u64) -> RequestId {
    RequestId { session, number }
}

#[test]
fn a_second_answer_and_a_made_up_one_are_reported() {
    let (mut accounting, mut findings) = (Accounting::new(), Findings::new(10));
    accounting.asked(request(1, 7), 1, &mut findings);
    accounting.answered(request(1, 7), 2, &mut findings);
    assert!(findings.is_empty(), "{findings}");
    accounting.answered(request(1, 7), 3, &mut findings);
    accounting.answered(request(2, 7), 4, &mut findings);
    assert_eq!(findings.counted_by(Checker::Accounting), 2);
    assert_eq!(findings.kept()[1].subject, Subject::Session(2));
}

#[test]
fn a_number_in_flight_is_not_used_again() {
    let (mut accounting, mut findings) = (Accounting::new(), Findings::new(10));
    accounting.asked(request(1, 7), 1, &mut findings);
    accounting.asked(request(2, 7), 1, &mut findings);
    accounting.command_submitted(QUEUE, 9, 1, &mut findings);
    accounting.command_submitted(QueueId { sq: 2, ..QUEUE }, 9, 1, &mut findings);
    accounting.command_submitted(QueueId { controller: 4, ..QUEUE }, 9, 1, &mut findings);
    assert!(findings.is_empty(), "{findings}");
    accounting.asked(request(1, 7), 2, &mut findings);
    accounting.command_submitted(QUEUE, 9, 3, &mut findings);
    assert_eq!(findings.counted(), 2);
    assert_eq!(findings.kept()[1].text, "SQ 1 got CID 0x0009 while the one of 1 ns should have completed first");
}

#[test]
fn a_command_completes_once() {
    let (mut accounting, mut findings) = (Accounting::new(), Findings::new(10));
    accounting.command_submitted(QUEUE, 9, 1, &mut findings);
    accounting.command_completed(QUEUE, 9, 2, &mut findings);
    assert!(findings.is_empty(), "{findings}");
    accounting.command_completed(QUEUE, 9, 3, &mut findings);
    accounting.command_submitted(QUEUE, 9, 4, &mut findings);
    accounting.command_completed(QueueId { sq: 2, ..QUEUE }, 9, 5, &mut findings);
    assert_eq!(findings.counted(), 2);
}

#[test]
fn what_a_reset_or_a_closed_session_ended_is_not_missed() {
    let (mut accounting, mut findings) = (Accounting::new(), Findings::new(10));
    let (second, other) = (QueueId { sq: 2, ..QUEUE }, QueueId { controller: 4, ..QUEUE });
    for queue in [QUEUE, second, other] {
        accounting.command_submitted(queue, 9, 1, &mut findings);
    }
    accounting.asked(request(1, 7), 1, &mut findings);
    accounting.asked(request(2, 7), 1, &mut findings);
    accounting.queue_gone(QUEUE);
    assert_eq!(accounting.in_flight(), (2, 2));
    accounting.controller_reset(3);
    accounting.session_ended(1);
    assert_eq!(accounting.in_flight(), (1, 1));
    accounting.answered(request(2, 7), 2, &mut findings);
    accounting.command_completed(other, 9, 2, &mut findings);
    accounting.finish(3, &mut findings);
    assert!(findings.is_empty(), "{findings}");
}

#[test]
fn what_is_in_flight_at_the_end_is_reported() {
    let (mut accounting, mut findings) = (Accounting::new(), Findings::new(10));
    accounting.asked(request(1, 7), 1, &mut findings);
    accounting.command_submitted(QUEUE, 9, 1, &mut findings);
    accounting.finish(3, &mut findings);
    let reported = findings.kept().iter().map(|finding| finding.subject);
    assert!(reported.eq([Subject::Session(1), Subject::Controller(3)]), "{findings}");
}

#[test]
fn resources_return_to_their_baseline() {
    let (mut accounting, mut findings) = (Accounting::new(), Findings::new(10));
    for (resource, before, after) in [("slots", 12, 12), ("IO mappings", 0, 0), ("pages", 8, 9), ("leases", 4, 3)] {
        accounting.baseline(5, resource, before);
        accounting.finally(5, resource, after);
    }
    accounting.finally(6, "slots", 1);
    accounting.baseline(7, "slots", 2);
    accounting.baseline(8, "slots", 2);
    accounting.uncounted(8);
    accounting.finish(9, &mut findings);
    let reported: Vec<&str> = findings.kept().iter().map(|finding| finding.text.as_str()).collect();
    assert_eq!(
        reported,
        [
            "it holds 3 leases at the end, and should have been back at 4",
            "it holds 9 pages at the end, and should have been back at 8",
            "it holds 1 slots at the end, and should have been back at 0",
            "it holds 0 slots at the end, and should have been back at 2",
        ]
    );
}

proptest! {
    /// Any interleaving of proper pairs adds up. Removing or doubling any one event of it does not.
    #[test]
    fn every_missing_or_doubled_event_is_reported(
        order in prop::collection::vec(0..8_u64, 2..120),
        victim in any::<prop::sample::Index>(),
        doubled in any::<bool>(),
    ) {
        let mut events: Vec<(u64, bool)> = Vec::new();
        let mut flying = [false; 8];
        for number in order.into_iter().chain(0..8) {
            let asks = !flying[number as usize];
            flying[number as usize] = asks;
            events.push((number, asks));
        }
        events.extend((0..8).filter(|number| flying[*number as usize]).map(|number| (number, false)));
        prop_assert_eq!(run(&events), 0);

        let victim = victim.index(events.len());
        if doubled {
            events.insert(victim, events[victim]);
        } else {
            events.remove(victim);
        }
        prop_assert!(run(&events) > 0, "{:?}", events);
    }
}

/// Returns the number of findings of requests and of commands with these events.
fn run(events: &[(u64, bool)]) -> u64 {
    let (mut accounting, mut findings) = (Accounting::new(), Findings::new(0));
    for &(number, asks) in events {
        let cid = number as u16;
        if asks {
            accounting.asked(request(1, number), 0, &mut findings);
            accounting.command_submitted(QUEUE, cid, 0, &mut findings);
        } else {
            accounting.answered(request(1, number), 0, &mut findings);
            accounting.command_completed(QUEUE, cid, 0, &mut findings);
        }
    }
    accounting.finish(0, &mut findings);
    assert_eq!(findings.counted() % 2, 0, "requests and commands are judged alike");
    findings.counted()
}
