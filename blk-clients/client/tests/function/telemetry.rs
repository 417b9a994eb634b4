//! Statistics and traces of a client with a function.

use crate::support::{Machine, Setup, entry, exchange, session};
use blk_api::request::Opcode;
use blk_api::telemetry::{FUNCTION_PAGE, FUNCTION_TRACE_PAGE, READS, Session as Page, WRITES};
use blk_api::trace::{Event, What};
use blk_client::{Entry, Session};
use fake_platform::block_on;
use platform::{Memory, PAGE_SIZE, Platform};
use sim_fault::{Blocks, CommandEffect, CommandFault, ControllerEffect, Fault, QueueKind};
use std::collections::BTreeMap;
use telemetry::page;
use telemetry::ring::Reader;

/// Pages of the ring of events.
const TRACE_PAGES: usize = 2;
/// A block that cannot be read.
const BAD: u64 = 200;

fn setup(polls: bool) -> Setup {
    let blocks = Some(Blocks { first: BAD, count: 1 });
    let effect = CommandEffect::Status { sct: 2, sc: 0x81, dnr: true };
    let fault = Fault::Command(CommandFault { blocks, ..CommandFault::new(QueueKind::Io, effect) });
    Setup { polls, telemetry_pages: FUNCTION_TRACE_PAGE + TRACE_PAGES, faults: vec![fault], ..Setup::default() }
}

/// Copies bytes of the telemetry from a page on.
fn copy(machine: &Machine, page: usize) -> impl Fn(usize, &mut [u8]) -> Option<()> {
    let region = machine.environment().region("telemetry").unwrap().clone();
    let memory = machine.memory(&region).unwrap();
    move |offset, bytes| memory.read_bytes(page * PAGE_SIZE + offset, bytes).ok()
}

fn shown(machine: &Machine) -> Page {
    page::read(copy(machine, FUNCTION_PAGE)).expect("a page")
}

fn events(machine: &Machine) -> Vec<Event> {
    let mut events = vec![];
    let mut reader = Reader::default();
    reader.read(TRACE_PAGES, copy(machine, FUNCTION_TRACE_PAGE), |event| events.push(event)).expect("a ring");
    assert_eq!(reader.lost, 0);
    events
}

/// Requests of all ways: short ones, one that is cut, one without blocks, one that is refused.
fn entries() -> [Entry; 7] {
    [
        entry(Opcode::Read, 0, 1, 0),
        entry(Opcode::Read, 0, 100, 0),
        entry(Opcode::Write, 3, 1, 0),
        entry(Opcode::Read, 3, 1, 0),
        entry(Opcode::Flush, 0, 0, 0),
        Entry { opcode: Opcode::UNUSED, ..Entry::default() },
        entry(Opcode::Read, 8, 2, 0),
    ]
}

/// The latencies of reads and writes by the events: from the beginning of a request's turn to the completions with its last command.
fn latencies(events: &[Event]) -> (u64, u64) {
    let (mut turn, mut found, mut whole, mut cut) = (0, 0, BTreeMap::new(), BTreeMap::new());
    let mut ends = vec![];
    for event in events {
        let [first, ..] = event.parts();
        match event.what().expect("an event") {
            What::Turn => turn = event.word,
            What::Whole => _ = whole.insert(first, turn),
            What::Taken => _ = cut.insert(first, (turn, event.opcode())),
            What::Completions => found = event.word,
            What::Commands => ends.extend(event.ids().map(|id| found - whole[&id])),
            What::Ended if cut[&first].1 != Some(Opcode::Flush) => ends.push(found - cut[&first].0),
            _ => {}
        }
    }
    (ends.len() as u64, ends.iter().sum())
}

#[test]
fn the_page_has_the_sums_of_all_requests() {
    for polls in [false, true] {
        let machine = Machine::new(setup(polls));
        let mut session = session(&machine);
        assert_eq!((shown(&machine).is_open, shown(&machine).openings), (1, 1));
        for one in entries() {
            exchange(&mut session, &[one]).unwrap();
        }
        exchange(&mut session, &entries()).unwrap();
        exchange(&mut session, &[entry(Opcode::Read, BAD, 1, 0)]).unwrap();
        block_on(session.close()).unwrap();
        let page = shown(&machine);
        // A command moves 16 blocks.
        assert_eq!((page.sums.requests, page.sums.refused, page.sums.commands), (15, 2, 2 * (4 + 7 + 1) + 1));
        assert_eq!((page.sums.read_bytes, page.sums.written_bytes), (2 * (1 + 100 + 1 + 2) * 512, 2 * 512));
        assert_eq!((page.sums.errors, page.is_open, page.in_device, page.queue_pairs), (1, 0, 0, 1));
        assert!(page.sums.doorbells > 7 && (page.sums.interrupts == 0) == polls, "{:?}", page.sums);
        let counted = [READS, WRITES].map(|one| page.latencies[one].counts().iter().sum::<u32>());
        assert_eq!(counted, [8, 2], "what failed has no latency");
    }
}

#[test]
fn events_of_a_trace_are_those_of_all_requests_and_add_up_to_the_latencies() {
    for polls in [false, true] {
        let machine = Machine::new(setup(polls));
        let mut session = session(&machine);
        exchange(&mut session, &entries()).unwrap();
        exchange(&mut session, &entries()).unwrap();
        block_on(session.close()).unwrap();
        let (page, events) = (shown(&machine), events(&machine));
        let count = |what| events.iter().filter(|event| event.what() == Some(what)).count();
        assert_eq!([What::Opened, What::Refused, What::Failed].map(count), [1, 2, 0]);
        // Those behind a request that has no room go the general way, too.
        assert!(count(What::Taken) >= 4 && count(What::Whole) >= 2);
        assert_eq!((count(What::Whole) + count(What::Taken), count(What::Ended)), (12, count(What::Taken)));
        assert_eq!((count(What::Whole) + count(What::Part), count(What::PartCompleted)), (24, count(What::Part)));
        let (ended, sum) = latencies(&events);
        assert_eq!((ended, sum), (10, page.latency_sums.iter().sum()));
        assert_eq!(count(What::Rung) + count(What::Answered), page.sums.doorbells as usize + count(What::Refused));
    }
}

#[test]
fn a_function_that_is_brought_up_again_counts_from_zero() {
    let machine = Machine::new(setup(false));
    machine.tick_who_waits();
    let mut session = session(&machine);
    exchange(&mut session, &entries()).unwrap();
    let before = shown(&machine);
    machine.strike(ControllerEffect::PowerLoss);
    assert_eq!(exchange(&mut session, &[entry(Opcode::Read, 0, 1, 0)]), Ok(vec![]));
    block_on(session.open_again()).unwrap();
    exchange(&mut session, &[entry(Opcode::Read, 0, 1, 0)]).unwrap();
    block_on(session.close()).unwrap();
    let page = shown(&machine);
    assert_eq!((page.openings, page.sums.requests), (2, 1));
    assert!(page.opened_at > before.opened_at && page.written_at > page.opened_at);
    assert_eq!(events(&machine).iter().filter(|event| event.what() == Some(What::Opened)).count(), 2);
}

/// Writes of the page happen while the client waits, too.
#[test]
fn the_page_is_written_at_ticks() {
    let machine = Machine::new(setup(false));
    machine.tick_who_waits();
    let mut session: Session<Machine> = session(&machine);
    exchange(&mut session, &entries()).unwrap();
    let early = shown(&machine).sums.requests;
    while machine.ticks_sent() == 0 {
        block_on(session.wait()).unwrap();
        assert_eq!(session.complete(), Ok(None));
    }
    assert!(early < 7 && shown(&machine).sums.requests == 7, "{early}");
}
