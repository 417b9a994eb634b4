//! The policy component's calls: the records they install and remove, and their refusals.

use crate::support::{Setup, System, entry, open, session};
use blk_api::Status;
use blk_api::config::{Class, RateLimit, SchedulingPolicy};
use blk_api::extent::Extent;
use blk_api::policy::{
    self, BADGE, CLEAR, DONE, DRAINED, Entitlement, INSTALL, READ, REMOVE, Range, Record, Refusal, Removal, SET_SHARE,
    Share, WRITE,
};
use blk_api::request::{Entry, Opcode};
use blk_api::session;
use platform::Message;

/// A record of the first session.
fn record(first: u64, lba: u64, blocks: u64) -> Record {
    Record { session: 0, rights: READ | WRITE, first, lba, blocks }
}

fn install(system: &mut System, record: Record) -> Result<(), Refusal> {
    system.policy(Message::with(INSTALL, &record))
}

fn remove(first: u64, blocks: u64) -> Message {
    Message::with(REMOVE, &Range { session: 0, first, blocks })
}

/// Takes rights of the first session.
fn take(system: &mut System, message: Message) -> Removal {
    let call = system.begin(BADGE, message);
    let answer = system.answer(call).expect("an answer");
    assert_eq!(answer.label, DONE);
    let removal: Removal = answer.payload().unwrap();
    assert_eq!(removal.session, 0);
    removal
}

/// Asks whether that is in force.
fn drained(removal: &Removal) -> Message {
    Message::with(DRAINED, removal)
}

fn status(system: &mut System, opcode: Opcode, lba: u64, blocks: u32) -> Option<Status> {
    system.request(0, entry(opcode, lba, blocks, 0)).status()
}

#[test]
fn a_session_reaches_what_is_installed_and_nothing_else() {
    let mut system = open();
    system.policy(Message::with(CLEAR, &0u64)).unwrap();
    assert_eq!(status(&mut system, Opcode::Read, 0, 1), Some(Status::NotInstalled));
    install(&mut system, Record { rights: READ, ..record(10, 500, 10) }).unwrap();
    install(&mut system, Record { rights: 0, ..record(20, 510, 10) }).unwrap();
    assert_eq!(status(&mut system, Opcode::Read, 10, 10), Some(Status::Success));
    assert_eq!(status(&mut system, Opcode::Write, 10, 1), Some(Status::Forbidden));
    assert_eq!(status(&mut system, Opcode::Read, 20, 1), Some(Status::Forbidden));
    assert_eq!(status(&mut system, Opcode::Read, 9, 2), Some(Status::NotInstalled));
    // The neighbour has what it had.
    assert_eq!(system.request(1, entry(Opcode::Read, 0, 1, 0)).status(), Some(Status::Success));
}

#[test]
fn invalid_request_is_refused_and_changes_nothing() {
    let mut system = open();
    let cases = [
        (Record { session: 2, ..record(0, 0, 1) }, Refusal::NoSession(2)),
        (Record { session: u32::MAX, ..record(0, 0, 1) }, Refusal::NoSession(u64::from(u32::MAX))),
        (Record { rights: 4, ..record(0, 0, 1) }, Refusal::UnknownRights(4)),
        (record(7, 7, 0), Refusal::Empty { first: 7 }),
        (record(999, 0, 2), Refusal::BeyondSession { first: 999, blocks: 2, has: 1000 }),
        (record(u64::MAX, 0, 2), Refusal::BeyondSession { first: u64::MAX, blocks: 2, has: 1000 }),
        (record(0, 4090, 7), Refusal::BeyondNamespace { lba: 4090, blocks: 7, has: 4096 }),
        (record(0, u64::MAX, 7), Refusal::BeyondNamespace { lba: u64::MAX, blocks: 7, has: 4096 }),
        (record(5, 6, 1), Refusal::Contradicts { first: 0, lba: 0, blocks: 1000 }),
        (Record { rights: READ, ..record(5, 5, 1) }, Refusal::Contradicts { first: 0, lba: 0, blocks: 1000 }),
    ];
    for (record, refusal) in cases {
        assert_eq!(install(&mut system, record), Err(refusal));
        assert_eq!(status(&mut system, Opcode::Write, 0, 16), Some(Status::Success), "{refusal:?}");
    }
    assert_eq!(system.policy(Message::new(INSTALL)), Err(Refusal::BadRequest));
    assert_eq!(system.policy(Message::new(99)), Err(Refusal::BadRequest));
    assert_eq!(system.policy(remove(3, 0)), Err(Refusal::Empty { first: 3 }));
    let nobody = Range { session: 9, first: 0, blocks: 1 };
    assert_eq!(system.policy(Message::with(REMOVE, &nobody)), Err(Refusal::NoSession(9)));
    assert_eq!(system.policy(Message::with(CLEAR, &u64::MAX)), Err(Refusal::NoSession(u64::MAX)));
    let nothing = Removal { session: 2, since: 0 };
    assert_eq!(system.policy(drained(&nothing)), Err(Refusal::NoSession(2)));
    assert_eq!(system.policy(Message::new(DRAINED)), Err(Refusal::BadRequest));
}

#[test]
fn policy_calls_by_a_client_are_refused() {
    let mut system = open();
    for (label, badge) in [(INSTALL, 1), (REMOVE, 1), (CLEAR, 2), (DRAINED, 1), (SET_SHARE, 1)] {
        let call = system.begin(badge, Message::with(label, &record(0, 1000, 1000)));
        let answer = system.answer(call).expect("an answer");
        assert_eq!(session::Refusal::from_label(answer.label), session::Refusal::PolicyAlone);
    }
    assert_eq!(status(&mut system, Opcode::Read, 0, 1), Some(Status::Success));
}

#[test]
fn a_closed_session_has_no_records_and_gets_none() {
    let mut system = open();
    system.close(0).unwrap();
    assert_eq!(install(&mut system, record(0, 0, 1000)), Err(Refusal::NotOpen(0)));
    assert_eq!(system.call(1, session::OPEN).map(drop), Ok(()));
    // A session that is opened again begins with no records.
    let mut system = open();
    system.close(0).unwrap();
    system.open(0).unwrap();
    system.policy(Message::with(CLEAR, &0u64)).unwrap();
    assert_eq!(status(&mut system, Opcode::Read, 0, 1), Some(Status::NotInstalled));
}

#[test]
fn rights_are_gone_once_no_command_can_use_them() {
    let mut system = open().holding();
    system.tick();
    let entries: Vec<_> = (0..4).map(|lba| Entry { user_data: lba, ..entry(Opcode::Write, lba, 1, 0) }).collect();
    system.submit(0, &entries);
    let removal = take(&mut system, remove(0, 500));
    assert_eq!(system.policy(drained(&removal)), Err(Refusal::Busy), "four commands can still reach the blocks");
    system.world.state().now += 1;
    // Requests for removed blocks are refused from now on, whatever is in flight. Blocks that the session keeps stay usable.
    system.submit(0, &[Entry { user_data: 10, ..entry(Opcode::Write, 0, 1, 0) }]);
    system.submit(0, &[Entry { user_data: 11, ..entry(Opcode::Write, 500, 1, 0) }]);
    let answered: Vec<_> = system.completions(0).iter().map(|done| (done.user_data, done.status())).collect();
    assert_eq!(answered, [(10, Some(Status::NotInstalled))]);
    system.controller(|controller, bus| controller.finish(bus, 3));
    assert_eq!(system.policy(drained(&removal)), Err(Refusal::Busy));
    assert_eq!(system.policy_signals(), 0);
    system.controller(|controller, bus| controller.finish(bus, 1));
    assert_eq!(system.policy_signals(), 1);
    assert_eq!(system.policy(drained(&removal)), Ok(()), "the one given later does not count");
}

#[test]
fn stuck_command_delays_no_other_removal() {
    let mut system = open().holding();
    system.submit(0, &[entry(Opcode::Write, 0, 1, 0)]);
    system.submit(1, &[entry(Opcode::Write, 0, 1, 0)]);
    let first = take(&mut system, Message::with(CLEAR, &0u64));
    assert_eq!(system.policy(drained(&first)), Err(Refusal::Busy));
    let range = Range { session: 1, first: 0, blocks: 8 };
    let call = system.begin(BADGE, Message::with(REMOVE, &range));
    let second: Removal = system.answer(call).unwrap().payload().unwrap();
    assert_eq!(system.policy(drained(&second)), Err(Refusal::Busy));
    assert_eq!(install(&mut system, record(0, 0, 8)), Ok(()));
    assert_eq!(status(&mut system, Opcode::Read, 8, 1), Some(Status::NotInstalled));
    system.controller(|controller, bus| controller.finish_newest(bus));
    assert_eq!((system.policy_signals(), system.policy(drained(&second))), (1, Ok(())));
    assert_eq!(system.policy(drained(&first)), Err(Refusal::Busy));
    system.controller(|controller, bus| controller.finish(bus, 1));
    assert_eq!((system.policy_signals(), system.policy(drained(&first))), (2, Ok(())));
}

#[test]
fn neighbours_commands_do_not_delay_a_removal() {
    let mut system = open().holding();
    system.tick();
    system.submit(1, &[entry(Opcode::Write, 0, 1, 0)]);
    let removal = take(&mut system, remove(0, 500));
    assert_eq!(system.policy(drained(&removal)), Ok(()));
    system.close(0).unwrap();
    let removal = take(&mut system, remove(0, 500));
    assert_eq!(system.policy(drained(&removal)), Ok(()));
}

#[test]
fn a_reset_ends_what_a_removal_waits_for() {
    let mut system = open().holding();
    system.tick();
    system.submit(0, &[entry(Opcode::Write, 0, 1, 0)]);
    let removal = take(&mut system, remove(0, 500));
    assert_eq!(system.policy(drained(&removal)), Err(Refusal::Busy));
    // It never completes.
    system.pass(15);
    assert_eq!((system.policy_signals(), system.policy(drained(&removal))), (1, Ok(())));
}

#[test]
fn a_read_only_extent_is_read_and_not_written() {
    let extents = vec![Extent { writable: false, ..Extent::new(100, 8) }, Extent::new(200, 8)];
    let setup = Setup { sessions: vec![session("only", 0).with(extents)], ..Setup::default() };
    let mut system = System::serving(setup, 1);
    for opcode in [Opcode::Read, Opcode::Verify, Opcode::Compare] {
        assert_eq!(status(&mut system, opcode, 0, 16), Some(Status::Success), "{opcode:?}");
    }
    for opcode in [Opcode::Write, Opcode::Discard, Opcode::WriteZeroes] {
        assert_eq!(status(&mut system, opcode, 0, 8), Some(Status::Forbidden), "{opcode:?}");
        assert_eq!(status(&mut system, opcode, 8, 8), Some(Status::Success), "{opcode:?}");
    }
    let statistics: session::Statistics = system.call(1, session::STATISTICS).unwrap().payload().unwrap();
    assert_eq!((statistics.forbidden, statistics.not_installed, statistics.refused), (3, 0, 0));
    assert_eq!(policy::Refusal::of(&Message::new(0xff)), Refusal::BadRequest);
}

const NO_LIMIT: Option<RateLimit> = None;

/// A share of the first session, whose queue pairs stay as they are.
fn share(class: Class, weight: u16, iops: Option<RateLimit>, bandwidth: Option<RateLimit>) -> Share {
    Share::new(0, &Entitlement { class, weight, iops, bandwidth, ..session("first", 0).entitlement() })
}

#[test]
fn invalid_share_is_refused_and_changes_nothing() {
    let mut setup = Setup { policy: SchedulingPolicy::Dedicated, ..Setup::default() };
    setup.sessions[0].config.highest = Class::High;
    let mut system = System::serving(setup, 1).holding();
    let good = share(Class::Medium, 1, NO_LIMIT, NO_LIMIT);
    let limited = |iops, bandwidth| share(Class::Medium, 1, iops, bandwidth);
    let limit = |per_second, burst| Some(RateLimit { per_second, burst });
    let cases = [
        (Share { session: 2, ..good }, Refusal::NoSession(2)),
        (Share { class: 4, ..good }, Refusal::UnknownClass(4)),
        (Share { weight: 0, ..good }, Refusal::Weight(0)),
        (Share { weight: 65_536, ..good }, Refusal::Weight(65_536)),
        (Share { limits: 4, ..good }, Refusal::UnknownLimits(4)),
        (limited(limit(0, 5), None), Refusal::BelowOneRequest { per_second: 0, burst: 5, request: 1 }),
        (
            limited(limit(1, 1), limit(4096, 4095)),
            Refusal::BelowOneRequest { per_second: 4096, burst: 4095, request: 4096 },
        ),
        (
            share(Class::Urgent, 1, limit(1, 1), NO_LIMIT),
            Refusal::ClassNotAllowed { asked: Class::Urgent, highest: Class::High },
        ),
    ];
    for (share, refusal) in cases {
        assert_eq!(system.set_share(&share), Err(refusal));
    }
    assert_eq!(system.policy(Message::new(SET_SHARE)), Err(Refusal::BadRequest));
    // None of the refused limits is in force.
    let reads: Vec<_> = (0..8).map(|lba| Entry { user_data: lba, ..entry(Opcode::Read, lba, 1, 0) }).collect();
    system.submit(0, &reads);
    assert_eq!(system.world.state().controller.submitted.len(), 8);
}

#[test]
fn a_share_counts_from_the_moment_it_is_set() {
    for policy in
        [SchedulingPolicy::RoundRobin, SchedulingPolicy::Dedicated, SchedulingPolicy::Weighted, SchedulingPolicy::Paced]
    {
        let mut system = System::serving(Setup { policy, ..Setup::default() }, 1).holding();
        system.set_share(&share(Class::Low, 3, Some(RateLimit { per_second: 1, burst: 2 }), NO_LIMIT)).unwrap();
        let reads: Vec<_> = (0..6).map(|lba| Entry { user_data: lba, ..entry(Opcode::Read, lba, 1, 0) }).collect();
        system.submit(0, &reads);
        assert_eq!(system.world.state().controller.submitted.len(), 2, "{policy:?}");
        // Waiting requests are submitted as soon as the limit is lifted.
        system.set_share(&share(Class::Medium, 1, NO_LIMIT, NO_LIMIT)).unwrap();
        assert_eq!(system.world.state().controller.submitted.len(), 6, "{policy:?}");
    }
}
