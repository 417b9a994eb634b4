//! Tests of the requests that events make.

use super::*;

const READ: Opcode = Opcode::Read;

fn marked(what: What, time: u64, number: u32) -> Event {
    Event::numbered(what, time, number)
}

fn whole(time: u64, id: u16, checked: u16) -> Event {
    Event::at(What::Whole, time, READ, 8, [id, 7, checked])
}

fn part(time: u64, id: u16, place: u16) -> Event {
    Event::at(What::Part, time, READ, 8, [id, 7, place])
}

fn completed(what: What, time: u64, id: u16, number: u16) -> Event {
    Event::of(what, time, [id, 1, number])
}

fn taken(events: &[Event], has_client: bool) -> Tenant {
    let clock = Clock { ticks_per_second: 1_000_000_000 };
    let mut tenant = Tenant::new(("alice", "nvme-server"), has_client, 512, clock);
    events.iter().for_each(|event| tenant.take(event));
    tenant
}

fn turn(time: u64, seen: u64, number: u16) -> Event {
    Event::turn(seen, time, 1, number)
}

/// Two reads of one tenant: one with every part of its own length, and one behind it.
pub(in super::super) fn two_reads() -> Vec<Request> {
    let events = [
        marked(What::Opened, 1, 0),
        marked(What::Published, 100, 2),
        turn(120, 110, 0),
        whole(130, 7, 126),
        whole(140, 8, 136),
        marked(What::Rung, 150, 0),
        completed(What::Completed, 200, 7, 0),
        marked(What::Answered, 210, 1),
        marked(What::Received, 230, 1),
        Event::of(What::Completions, 300, [0, 1, 1]),
        Event { key: Event::of(What::Commands, 0, [8, 0, 0]).key | 1 << 8, word: 0 },
        marked(What::Answered, 310, 2),
        marked(What::Received, 330, 2),
    ];
    let tenant = taken(&events, true);
    assert_eq!(tenant.incomplete, 0);
    tenant.complete
}

#[test]
fn a_request_is_followed_from_ring_to_reply() {
    let [first, second] = two_reads().try_into().unwrap();
    assert_eq!((first.number, first.published, first.received), (0, Some(100), Some(230)));
    assert_eq!((first.bytes, first.commands[0].cid, first.commands[0].queue), (4096, 7, 1));
    let parts = first.parts().map(|part| (part.name, part.ends));
    let expected =
        [("turn", 120), ("check", 126), ("submit", 130), ("doorbell", 150), ("device", 200), ("answer", 210)];
    assert_eq!((parts, first.latency()), (expected, 90));
    assert_eq!((second.number, second.taken, second.completed), (1, 130, 300), "it was taken after the first");
    for request in [first, second] {
        let sum: u64 = request.parts().iter().take(5).map(|part| part.ends - part.begins).sum();
        assert_eq!(sum, request.latency());
    }
}

#[test]
fn a_request_of_several_commands_ends_with_the_last() {
    let events = [
        turn(25, 10, 4),
        Event::at(What::Taken, 25, READ, 8, [3, 0, 1]),
        turn(30, 10, 5),
        part(30, 7, 3),
        marked(What::Rung, 35, 0),
        turn(45, 38, 5),
        part(45, 8, 3),
        marked(What::Rung, 50, 0),
        completed(What::PartCompleted, 60, 8, 3),
        Event::of(What::Failed, 70, [7, 1, 2]),
        completed(What::PartCompleted, 70, 7, 3),
        Event::of(What::Ended, 71, [3, 9, 0]),
        marked(What::Answered, 80, 10),
    ];
    let [request] = taken(&events, false).complete.try_into().unwrap();
    assert_eq!((request.number, request.bytes, request.commands.len()), (4, 65_536, 2));
    assert_eq!(request.commands.iter().map(|one| one.status).collect::<Vec<_>>(), [2, 0]);
    assert_eq!((request.seen, request.completed, request.answered, request.received), (10, 70, 80, None));
    assert_eq!(request.parts().map(|part| part.ends), [25, 25, 45, 50, 70, 80]);
}

#[test]
fn a_retried_request_goes_on_in_a_place() {
    let events = [
        turn(20, 10, 0),
        whole(25, 7, 22),
        Event::of(What::Failed, 60, [7, 1, 2]),
        completed(What::Kept, 60, 7, 5),
        turn(75, 70, 1),
        part(75, 8, 5),
        completed(What::PartCompleted, 90, 8, 5),
        Event::of(What::Ended, 91, [5, 0, 0]),
        marked(What::Answered, 95, 1),
    ];
    let [request] = taken(&events, false).complete.try_into().unwrap();
    assert_eq!((request.commands.len(), request.seen, request.completed), (2, 10, 90));
}

#[test]
fn requests_without_their_beginning_or_end_are_left_out() {
    let events = [
        whole(5, 7, 4),
        completed(What::Completed, 6, 7, 0),
        turn(20, 10, 1),
        whole(25, 8, 24),
        marked(What::Cut, 30, 0),
        whole(35, 9, 34),
    ];
    let mut tenant = taken(&events, false);
    tenant.cut();
    assert_eq!((tenant.complete.len(), tenant.incomplete), (0, 2));
}

#[test]
fn a_refused_request_has_no_command() {
    let events = [turn(22, 10, 3), Event::of(What::Refused, 22, [0, 0, 5]), marked(What::Answered, 30, 1)];
    let [request] = taken(&events, false).complete.try_into().unwrap();
    assert_eq!((request.opcode, request.commands.len(), request.latency()), (None, 0, 12));
    assert_eq!(request.parts().map(|part| part.ends), [22, 22, 22, 22, 22, 30]);
}

#[test]
fn requests_that_are_not_traced_are_counted() {
    let skipped = Event::of(What::Skipped, 0, [0; 3]);
    let events = [
        marked(What::Published, 5, 1),
        marked(What::Published, 8, 2),
        turn(20, 10, 0),
        skipped,
        whole(25, 7, 22),
        completed(What::Completed, 60, 7, 1),
        marked(What::Answered, 95, 2),
    ];
    let [request] = taken(&events, false).complete.try_into().unwrap();
    assert_eq!((request.number, request.published), (1, Some(8)));
}

#[test]
fn entries_are_merged_by_their_times() {
    let at = |time| Entry::Event(marked(What::Rung, time, 0));
    let server = [at(1), at(3), Entry::Lost, at(5)];
    let client = [Entry::Event(marked(What::Published, 3, 0)), at(4)];
    let all: Vec<_> = merged(server.into_iter(), client.into_iter()).collect();
    assert_eq!(all, [server[0], client[0], server[1], Entry::Lost, client[1], server[3]]);
}

#[test]
fn numbers_wrap() {
    assert!(is_before(u32::MAX, 0) && is_before(1, 2) && !is_before(2, 2) && !is_before(3, 2));
}

#[test]
fn a_trace_that_begins_in_a_session_knows_the_numbers_of_its_requests() {
    let events = [
        marked(What::Opened, 1, 0),
        turn(25, 10, 0),
        whole(26, 7, 20),
        // Switched off and on again, with the first request under way.
        marked(What::Begun, 1000, 200_000),
        Event::of(What::Completions, 1100, [0, 1, 5]),
        Event { key: Event::of(What::Commands, 0, [7, 0, 0]).key | 1 << 8, word: 0 },
        marked(What::Answered, 1110, 199_999),
        turn(1200, 1190, (200_001 % 65_536) as u16),
        whole(1210, 8, 1205),
        completed(What::Completed, 1300, 8, 0),
        marked(What::Answered, 1310, 200_002),
    ];
    let tenant = taken(&events, false);
    let numbers: Vec<_> = tenant.complete.iter().map(|request| (request.number, request.opening)).collect();
    assert_eq!((numbers, tenant.incomplete), (vec![(200_001, 1)], 1));
}
