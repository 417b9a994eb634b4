//! Clients that break the protocol: the consequences for them, and none for their neighbours.

use crate::support::{Setup, System, WINDOW, entry, open, session};
use blk_api::Status;
use blk_api::policy;
use blk_api::request::{Entry, Opcode};
use blk_api::ring::{CONSUMED, PRODUCED};
use blk_api::session::{CLOSE, DONE, OPEN, PING, Refusal, STATISTICS};
use platform::Memory;
use report::Report;

fn assert_expelled(system: &mut System) {
    assert_eq!(system.mapped_pages(0), 0, "the window of an expelled session");
    for label in [OPEN, CLOSE] {
        assert_eq!(system.call(1, label), Err(Refusal::Expelled));
    }
    let reports = std::mem::take(&mut system.world.state().reports);
    let ended = reports.iter().find_map(|report| match report {
        Report::Session(session) if session.tenant == "first" => Some(!session.ended_by.is_empty()),
        _ => None,
    });
    assert_eq!(ended, Some(true));
    assert!(!reports.iter().any(|report| matches!(report, Report::Failure { .. })), "{reports:?}");
    assert_eq!(system.mapped_pages(1), WINDOW / 4096);
    assert_eq!(system.request(1, entry(Opcode::Read, 1, 2, 0)).status, 0, "the neighbour's");
}

#[test]
fn unwanted_capability_is_deleted_after_every_call() {
    const STRANGER: u64 = 77;
    const UNKNOWN: u32 = 0xffff;
    let mut system = open();
    for calls in [true, false] {
        // Answered, refused, of no session, of the policy component, handed to the control plane.
        for badge in [1, 2, STRANGER, policy::BADGE] {
            for label in [PING, STATISTICS, UNKNOWN, policy::INSTALL, OPEN, CLOSE, OPEN] {
                assert!(!system.send_capability(badge, label, calls), "{label} of {badge}, calls: {calls}");
            }
        }
    }
    // Deferred until the tick, and still waiting.
    for _ in 0..5000 {
        assert!(!system.send_capability(1, PING, true));
    }
}

#[test]
fn a_server_without_a_controller_keeps_no_capability_either() {
    let mut system = System::start(Setup { msix_vectors: 0, ..Setup::default() });
    assert_eq!(system.call(1, OPEN), Err(Refusal::Device));
    assert!(!system.send_capability(1, OPEN, true));
    assert!(!system.send_capability(1, OPEN, false));
}

#[test]
fn a_tail_beyond_the_ring_ends_the_session_and_no_other() {
    for tail in [17, 1000, u32::MAX] {
        let mut system = open();
        system.clients[0].ring_client.write(PRODUCED, &tail).unwrap();
        system.ring(0);
        assert_expelled(&mut system);
    }
}

#[test]
fn a_head_beyond_what_was_answered_ends_the_session() {
    let mut system = open();
    system.submit(0, &vec![entry(Opcode::Read, 0, 1, 0); 16]);
    system.clients[0].ring_client.write(CONSUMED, &17u32).unwrap();
    system.submit(0, &[entry(Opcode::Read, 0, 1, 0)]);
    assert_expelled(&mut system);
}

#[test]
fn requests_before_a_protocol_error_reach_the_controller() {
    // Otherwise closing waits for commands that were not rung, and ends in a reset of everybody's controller.
    let mut system = open();
    system.submit(0, &vec![entry(Opcode::Read, 0, 1, 0); 12]);
    system.clients[0].ring_client.write(CONSUMED, &13u32).unwrap();
    // Four fit; for the fifth the server has to read how many answers were taken.
    system.submit(0, &vec![entry(Opcode::Read, 0, 1, 0); 5]);
    system.pass(12);
    assert_eq!(system.world.state().controller.resets, 1, "the one of bring-up");
    assert_expelled(&mut system);
}

#[test]
fn commands_in_flight_hold_the_window_of_an_expelled_session() {
    let mut system = open().holding();
    system.submit(0, &[entry(Opcode::Read, 0, 1, 0)]);
    system.clients[0].ring_client.write(PRODUCED, &100u32).unwrap();
    system.ring(0);
    system.pass(1);
    assert_eq!(system.mapped_pages(0), WINDOW / 4096);
    system.finish_held();
    system.pass(1);
    assert_expelled(&mut system);
}

#[test]
fn bad_entries_are_refused_one_by_one() {
    let mut system = open();
    let mut beyond = entry(Opcode::Read, 0, 1, WINDOW as u32);
    beyond.user_data = 3;
    let attempts = [
        (Entry { opcode: 99, ..Entry::default() }, Status::InvalidRequest),
        (entry(Opcode::Read, 1000, 1, 0), Status::OutsideExtents),
        (entry(Opcode::Write, u64::MAX, 1, 0), Status::OutsideExtents),
        (beyond, Status::OutsideWindow),
        (Entry { blocks: 2, ..entry(Opcode::Read, 0, 1, 0) }, Status::LengthMismatch),
    ];
    for (entry, expected) in attempts {
        system.submit(0, &[entry]);
        assert_eq!(system.completions(0).iter().map(|c| c.status()).collect::<Vec<_>>(), [Some(expected)]);
    }
    assert!(system.world.state().controller.submitted.is_empty());
}

#[test]
fn a_session_without_the_right_cannot_write() {
    let mut setup = Setup { sessions: vec![session("reader", 0)], ..Setup::default() };
    setup.sessions[0].config.writable = false;
    let mut system = System::serving(setup, 1);
    for opcode in [Opcode::Write, Opcode::WriteZeroes, Opcode::Discard] {
        assert_eq!(system.request(0, entry(opcode, 0, 1, 0)).status(), Some(Status::ReadOnly));
    }
    for opcode in [Opcode::Read, Opcode::Verify, Opcode::Compare] {
        assert_eq!(system.request(0, entry(opcode, 0, 1, 0)).status(), Some(Status::Success), "{opcode:?}");
    }
}

#[test]
fn a_flood_of_sent_openings_takes_nothing_from_others() {
    let mut system = System::start(Setup { dma_pages: 48, ..Setup::default() });
    for _ in 0..20 {
        for _ in 0..400 {
            system.send(1, OPEN);
        }
        let call = system.begin_call(1, OPEN);
        assert!(system.answer(call).is_some());
        system.send(1, CLOSE);
        system.settle();
        system.pass(1);
    }
    system.open(1).unwrap();
    assert_eq!(system.request(1, entry(Opcode::Read, 1, 2, 0)).status, 0);
    assert!(system.take_failures().is_empty());
}

#[test]
fn a_client_may_be_asked_for_while_its_opening_is_under_way() {
    let mut system = System::start(Setup::default());
    system.controller(|controller, _| controller.deaf = true);
    let opening = system.begin_call(1, OPEN);
    assert_eq!(system.answer(opening), None);
    assert!(system.call(1, PING).is_ok());
    assert_eq!(system.call(1, OPEN), Err(Refusal::BadRequest));
    system.controller(|controller, _| controller.deaf = false);
    system.pass(11);
    assert_eq!(system.answer(opening).unwrap().label, DONE, "after a reset");
    system.install(0).unwrap();
    assert_eq!(system.request(0, entry(Opcode::Read, 0, 1, 0)).status, 0);
}

#[test]
fn ring_broken_during_opening_ends_the_session_after_the_reply() {
    let mut system = System::start(Setup::default());
    system.open(1).unwrap();
    system.controller(|controller, _| controller.deaf = true);
    let opening = system.begin_call(1, OPEN);
    system.clients[0].break_tail();
    system.ring(0);
    for label in [OPEN, CLOSE, PING, 77] {
        system.send(1, label);
    }
    system.settle();
    assert_eq!(system.answer(opening), None);
    system.controller(|controller, _| controller.deaf = false);
    system.pass(11);
    assert_eq!(system.answer(opening).unwrap().label, DONE, "the controller was deaf and is reset");
    assert_expelled(&mut system);
}

#[test]
fn a_client_that_breaks_its_ring_while_it_closes_is_answered() {
    let mut system = open().holding();
    system.submit(0, &vec![entry(Opcode::Read, 0, 1, 0); 12]);
    let closing = system.begin_call(1, CLOSE);
    system.clients[0].break_tail();
    system.clients[0].ring_client.write(CONSUMED, &u32::MAX).unwrap();
    system.ring(0);
    system.pass(1);
    assert_eq!(system.answer(closing), None, "commands are in flight");
    system.finish_held();
    system.pass(1);
    assert_eq!(system.answer(closing).unwrap().label, DONE);
    assert_eq!((system.mapped_pages(0), system.mapped_pages(1)), (0, WINDOW / 4096));
}

#[test]
fn a_client_that_calls_while_it_is_being_expelled_is_answered() {
    let mut system = open().holding();
    system.submit(0, &[entry(Opcode::Read, 0, 1, 0)]);
    system.clients[0].break_tail();
    system.ring(0);
    for label in [OPEN, CLOSE] {
        assert_eq!(system.call(1, label), Err(Refusal::Expelled));
    }
    system.finish_held();
    system.pass(1);
    assert_expelled(&mut system);
}

#[test]
fn neighbours_proceed_while_an_expelled_session_drains() {
    let mut system = open().holding();
    system.submit(0, &[entry(Opcode::Read, 0, 1, 0)]);
    system.clients[0].break_tail();
    system.ring(0);
    system.close(1).unwrap();
    system.open(1).unwrap();
    // It never answers: the reset ends the expelled session, and the neighbour goes on.
    system.pass(12);
    system.controller(|controller, _| controller.hold = false);
    assert_eq!(system.mapped_pages(0), 0);
    assert_eq!(system.request(1, entry(Opcode::Read, 1, 2, 0)).status, 0);
    assert_eq!(system.take_failures().len(), 1);
}
