//! More requests than a client may make between two ticks: it waits, and no other client does.

use crate::support::{Setup, System, entry, open};
use blk_api::policy::{CLEAR, INSTALL, READ, Record};
use blk_api::request::{Entry, Opcode};
use blk_api::session::{CLOSE, DONE, OPEN, PING, Refusal, STATISTICS, Statistics};
use platform::Message;
use report::Report;

/// Far more than any budget.
const MANY: usize = 6000;

/// Calls until a call is not answered; returns that call, and the number of answered ones.
fn exhaust(system: &mut System, label: u32) -> (u64, usize) {
    for answered in 0..MANY {
        let call = system.begin_call(1, label);
        if system.answer(call).is_none() {
            return (call, answered);
        }
    }
    panic!("{MANY} calls were answered within a tick")
}

fn session_reports(system: &System) -> usize {
    let reports = std::mem::take(&mut system.world.state().reports);
    reports.iter().filter(|report| matches!(report, Report::Session(_))).count()
}

#[test]
fn caller_beyond_its_budget_waits_for_the_tick() {
    let mut system = open();
    for _ in 0..3 {
        let (call, answered) = exhaust(&mut system, PING);
        assert!(answered > 1000, "{answered} calls are no flood");
        assert!(system.call(2, PING).is_ok());
        assert_eq!(system.request(1, entry(Opcode::Read, 1, 1, 0)).status, 0);
        // Its requests have no part in this.
        assert_eq!(system.request(0, entry(Opcode::Read, 1, 1, 0)).status, 0);
        assert_eq!(system.answer(call), None);
        system.tick();
        assert_eq!(system.answer(call).map(|answer| answer.label), Some(DONE));
    }
}

#[test]
fn a_call_that_was_put_off_is_answered_as_what_it_was() {
    let mut system = open();
    assert_eq!(system.request(0, entry(Opcode::Read, 1, 1, 0)).status, 0);
    exhaust(&mut system, STATISTICS);
    system.tick();
    let (call, _) = exhaust(&mut system, STATISTICS);
    system.tick();
    let statistics: Statistics = system.answer(call).unwrap().payload().unwrap();
    assert_eq!(statistics.requests, 1);
    exhaust(&mut system, 77);
    system.tick();
    let (call, _) = exhaust(&mut system, 77);
    system.tick();
    assert_eq!(system.answer(call).map(|answer| answer.label), Some(Refusal::BadRequest as u32));
    exhaust(&mut system, PING);
    system.tick();
    exhaust(&mut system, PING);
    system.tick();
    system.close(0).unwrap();
}

#[test]
fn sends_leave_room_for_calls_after_the_tick() {
    let mut system = open();
    for label in [PING, STATISTICS, OPEN, CLOSE, 77] {
        for _ in 0..MANY {
            system.send(1, label);
        }
        system.settle();
        assert!(system.call(2, PING).is_ok());
        system.tick();
        assert!(system.call(1, PING).is_ok());
    }
    assert_eq!(system.request(1, entry(Opcode::Read, 1, 1, 0)).status, 0);
}

#[test]
fn spurious_signals_are_not_polled_without_end() {
    let mut system = open();
    for _ in 0..MANY {
        system.ring(0);
    }
    system.submit(0, &[entry(Opcode::Read, 0, 1, 0)]);
    assert_eq!(system.completions(0), [], "nobody listens any more");
    assert_eq!(system.request(1, entry(Opcode::Read, 1, 1, 0)).status, 0, "but to its neighbour");
    system.tick();
    assert_eq!(system.completions(0).len(), 1);
    assert_eq!(system.request(0, entry(Opcode::Read, 1, 1, 0)).status, 0);
}

#[test]
fn a_client_that_works_is_heard_however_often_it_signals() {
    let mut system = open();
    for lba in 0..MANY as u64 {
        assert_eq!(system.request(0, entry(Opcode::Read, lba % 1000, 1, 0)).status, 0);
    }
}

#[test]
fn a_neighbour_with_the_same_badge_bit_is_heard() {
    let sessions = (0..31).map(|n| crate::support::session(&format!("tenant-{n}"), n * 100)).collect();
    let mut setup = Setup { sessions, dma_pages: 400, io_tables: 64, ..Setup::default() };
    setup.shape.queue_pairs = 31;
    let mut system = System::serving(setup, 1);
    system.open(30).unwrap();
    for _ in 0..MANY {
        system.ring(30);
    }
    assert_eq!(system.request(0, entry(Opcode::Read, 1, 1, 0)).status, 0);
}

#[test]
fn openings_beyond_a_few_wait_for_the_tick_and_fill_no_log() {
    let mut system = open();
    system.close(0).unwrap();
    session_reports(&system);
    let mut waiting = None;
    for _ in 0..100 {
        let call = waiting.take().unwrap_or_else(|| system.begin_call(1, OPEN));
        match system.answer(call) {
            Some(_) => system.close(0).unwrap(),
            None => waiting = Some(call),
        }
    }
    let call = waiting.expect("an opening that waits");
    assert!(session_reports(&system) <= 2);
    // A neighbour's do not.
    system.close(1).unwrap();
    system.open(1).unwrap();
    system.tick();
    assert_eq!(system.answer(call).map(|answer| answer.label), Some(DONE));
    assert_eq!(system.request(1, entry(Opcode::Read, 1, 1, 0)).status, 0);
}

#[test]
fn a_client_that_is_expelled_while_its_call_waits_is_reported() {
    let mut system = open();
    let (call, _) = exhaust(&mut system, STATISTICS);
    system.clients[0].break_tail();
    system.ring(0);
    assert_eq!(system.answer(call).map(|answer| answer.label), Some(Refusal::Expelled as u32));
    system.tick();
    assert_eq!(system.call(1, OPEN), Err(Refusal::Expelled));
}

/// Refusals of a session between two ticks, where there are two sessions.
const REFUSALS: usize = 32;

/// Submits `count` entries like this, some at a time; returns the number of answers.
fn answered_at_once(system: &mut System, refusable: Entry, count: usize) -> usize {
    let parts = vec![refusable; count];
    parts.chunks(8).fold(0, |answered, part| {
        system.submit(0, part);
        answered + system.completions(0).len()
    })
}

#[test]
fn refusable_entries_are_bounded_per_tick() {
    let nonsense = Entry { opcode: 99, ..Entry::default() };
    let foreign = entry(Opcode::Read, 1 << 40, 1, 0);
    for refusable in [nonsense, foreign] {
        let mut system = open();
        system.tick();
        for _ in 0..10 {
            assert_eq!(answered_at_once(&mut system, refusable, REFUSALS + 5), REFUSALS);
            // Even a signal has no more of them answered before the tick.
            system.ring(0);
            assert_eq!(system.completions(0).len(), 0);
            assert_eq!(system.request(1, entry(Opcode::Read, 1, 1, 0)).status, 0);
            system.tick();
            assert_eq!(system.completions(0).len(), 5);
            // Its own valid request waits for the tick at most, too.
            system.tick();
            assert_eq!(system.request(0, entry(Opcode::Read, 1, 1, 0)).status, 0);
        }
    }
}

#[test]
fn whose_record_is_installed_is_within_its_refusals_again() {
    let mut system = open();
    system.policy(Message::with(CLEAR, &0u64)).unwrap();
    let miss = entry(Opcode::Read, 1, 1, 0);
    assert_eq!(answered_at_once(&mut system, miss, REFUSALS + 5), REFUSALS);
    let record = Record { session: 0, rights: READ, first: 0, lba: 0, blocks: 8 };
    system.policy(Message::with(INSTALL, &record)).unwrap();
    let answers = system.completions(0);
    assert!(answers.len() == 5 && answers.iter().all(|one| one.status == 0));
}
