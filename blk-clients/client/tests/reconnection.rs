//! A server that dies and is restarted: unanswered requests are submitted again, and no others.

use blk_api::policy::Refusal;
use blk_api::request::Entry;
use blk_api::session;
use blk_client::{Device, Error, OpenError, Options, Session, Status};
use fake_platform::{FakePlatform, FakeServer, Lost, Order, Setup, block_on, open, turn};
use proptest::prelude::*;
use report::Report;

type Fake = Device<FakePlatform>;

fn opened(order: Order, polls: bool) -> (FakePlatform, Fake) {
    let setup = Setup { order, ..Setup::default() };
    open(&setup, polls)
}

fn reissued(platform: &FakePlatform) -> Vec<u32> {
    let reissued = |report| match report {
        Report::Reconnected(one) if one.tenant == "alice" => Some(one.reissued),
        _ => None,
    };
    platform.take_reports().into_iter().filter_map(reissued).collect()
}

#[test]
fn what_nobody_answered_is_asked_again_in_its_order() {
    for polls in [false, true] {
        let (platform, device) = opened(Order::Silent, polls);
        let ranges: Vec<_> = (0..6).map(|_| device.window().lease(512).unwrap()).collect();
        for (byte, range) in (1u8..).zip(&ranges) {
            range.write_bytes(0, &[byte; 512]).unwrap();
        }
        block_on(device.run(async {
            let lba = |n: usize| if n < 3 { n as u64 } else { 7 };
            // Half of them to one block: one at a time is at the server, and the last one's content stays.
            let writes: Vec<_> =
                ranges.iter().enumerate().map(|(n, range)| device.write(lba(n), &[range.whole()])).collect();
            platform.server(|server| server.order = Order::Submitted);
            platform.kill_server(3);
            for write in writes {
                assert_eq!(write.await, Ok(()));
            }
        }));
        let written = platform.server(|server| [0, 1, 2, 7].map(|lba| server.disk[lba * 512]));
        assert_eq!(written, [1, 2, 3, 6]);
        assert_eq!(reissued(&platform), [4], "polls: {polls}");
        assert_eq!(device.window().free_bytes(), device.window().len() - 6 * 4096, "the ranges', a page each");
    }
}

#[test]
fn what_the_dead_server_answered_is_not_asked_again() {
    let (platform, device) = opened(Order::Silent, false);
    let range = device.window().lease(512).unwrap();
    block_on(device.run(async {
        let done = device.write(1, &[range.whole()]);
        turn().await;
        platform.server(|server| {
            // Answered, but the answer is not polled yet.
            server.order = Order::Submitted;
            assert!(server.step());
        });
        let lost = device.write(2, &[range.whole()]);
        platform.kill_server(1);
        assert_eq!((done.await, lost.await), (Ok(()), Ok(())));
    }));
    assert_eq!(reissued(&platform), [1]);
}

#[test]
fn calls_outlive_the_server_as_well() {
    let (platform, device) = opened(Order::Submitted, false);
    platform.kill_server(2);
    assert!(block_on(device.run(device.statistics())).is_ok());
    platform.kill_server(2);
    assert_eq!(block_on(device.run(device.close())), Ok(()));
    assert_eq!(reissued(&platform), [0, 0]);
}

#[test]
fn a_server_that_stays_dead_ends_the_session() {
    let (platform, device) = opened(Order::Silent, false);
    let range = device.window().lease(512).unwrap();
    platform.kill_server(u32::MAX);
    let outcome = block_on(device.run(device.read(0, &[range.whole()])));
    assert_eq!(outcome, Err(Error::CLOSED));
    assert_eq!(outcome.unwrap_err().outcome(), Some(Status::Closed));
    assert!(reissued(&platform).is_empty());
    // Calls do not wait for ever either.
    assert!(matches!(block_on(device.run(device.statistics())), Err(Error::CLOSED)));
    assert_eq!(block_on(device.run(device.close())), Err(Error::CLOSED));
}

/// The controller is gone: requests end with that, done in part, until the server's next incarnation has it again.
fn lose_controller(platform: &FakePlatform) {
    platform.server(|server| {
        server.loses = Some(Box::new(|_| Some(Lost { blocks: 1, status: Status::DeviceGone })));
    });
}

#[test]
fn requests_wait_for_a_controller_that_comes_back() {
    for polls in [false, true] {
        let (platform, device) = open(&Setup { waits: true, ..Setup::default() }, polls);
        let range = device.window().lease(4 * 512).unwrap();
        range.write_bytes(0, &[9; 4 * 512]).unwrap();
        lose_controller(&platform);
        block_on(device.run(async {
            // Two of them change the same blocks: the second is held back.
            let writes: Vec<_> = [0, 8, 0].iter().map(|lba| device.write(*lba, &[range.whole()])).collect();
            for _ in 0..50 {
                turn().await;
            }
            assert_eq!((device.in_flight(), device.retries()), (3, 0), "polls: {polls}");
            platform.server(|server| server.loses = None);
            platform.kill_server(3);
            for write in writes {
                assert_eq!(write.await, Ok(()));
            }
        }));
        assert_eq!(platform.server(|server| [3, 11].map(|lba| server.disk[lba * 512])), [9, 9]);
        assert_eq!(reissued(&platform), [2], "polls: {polls}");
        drop(range);
        assert_eq!((device.in_flight(), device.window().free_bytes()), (0, device.window().len()));
    }
}

#[test]
fn a_controller_may_go_again_before_all_is_done() {
    let (platform, device) = open(&Setup { waits: true, ..Setup::default() }, false);
    let range = device.window().lease(512).unwrap();
    lose_controller(&platform);
    block_on(device.run(async {
        let write = device.write(5, &[range.whole()]);
        for _ in 0..3 {
            platform.kill_server(2);
            for _ in 0..20 {
                turn().await;
            }
            assert_eq!(device.in_flight(), 1);
        }
        platform.server(|server| server.loses = None);
        platform.kill_server(2);
        assert_eq!(write.await, Ok(()));
    }));
    assert_eq!(reissued(&platform), [1; 4]);
}

/// A server without a controller leaves the rings as the dead server left them.
#[test]
fn rings_of_a_dead_server_are_not_read_while_the_controller_is_gone() {
    for (polls, records) in [(false, None), (true, None), (false, Some(4))] {
        let (platform, device) = open(&Setup { waits: true, records, ..Setup::default() }, polls);
        let range = device.window().lease(512).unwrap();
        let turns = async || {
            for _ in 0..20 {
                turn().await;
            }
        };
        block_on(device.run(async {
            // More than the rings have entries.
            for lba in 0..20 {
                assert_eq!(device.write(lba, &[range.whole()]).await, Ok(()));
            }
            lose_controller(&platform);
            let kept = device.write(5, &[range.whole()]);
            turns().await;
            for _ in 0..3 {
                platform.server(|server| server.is_empty = true);
                platform.kill_server(2);
                turns().await;
            }
            let (new, held_back) = (device.write(6, &[range.whole()]), device.write(5, &[range.whole()]));
            turns().await;
            assert_eq!((device.in_flight(), device.has_ended()), (3, false), "polls: {polls}");
            platform.server(|server| (server.is_empty, server.loses) = (false, None));
            platform.kill_server(2);
            for write in [kept, new, held_back] {
                assert_eq!(write.await, Ok(()), "polls: {polls}");
            }
        }));
        assert_eq!(reissued(&platform), [2], "polls: {polls}");
    }
}

#[test]
fn a_miss_waits_for_the_controller_as_well() {
    let (platform, device) = open(&Setup { waits: true, records: Some(4), ..Setup::default() }, false);
    let range = device.window().lease(512).unwrap();
    platform.server(|server| server.refuses_records = Some(Refusal::Busy));
    block_on(device.run(async {
        let write = device.write(900, &[range.whole()]);
        turn().await;
        platform.server(|server| {
            server.is_empty = true;
            server.refuses_records = Some(Refusal::NoSession(0));
        });
        platform.kill_server(2);
        for _ in 0..20 {
            turn().await;
        }
        assert_eq!(device.in_flight(), 1);
        platform.server(|server| (server.is_empty, server.refuses_records) = (false, None));
        platform.kill_server(2);
        assert_eq!(write.await, Ok(()));
    }));
}

/// Each successor has an empty table of records, so misses at its predecessors do not count.
#[test]
fn misses_do_not_add_up_over_deaths() {
    let (platform, device) = open(&Setup { waits: true, records: Some(4), ..Setup::default() }, false);
    let range = device.window().lease(512).unwrap();
    lose_controller(&platform);
    let outcome = block_on(device.run(async {
        let write = device.write(5, &[range.whole()]);
        for _ in 0..20 {
            for _ in 0..20 {
                turn().await;
            }
            platform.kill_server(2);
        }
        platform.server(|server| server.loses = None);
        platform.kill_server(2);
        write.await
    }));
    assert_eq!(outcome, Ok(()));
}

#[test]
fn a_session_that_was_not_opened_again_is_not_served() {
    let setup = Setup::default();
    let platform = FakePlatform::new(&setup);
    let options = Options { ring_entries: setup.ring_entries, polls: false, waits: false };
    let environment = platform.environment("alice", vec![]);
    let mut session = block_on(Session::open(platform.clone(), &environment, options)).unwrap();
    platform.server(|server| server.is_empty = true);
    platform.kill_server(2);
    for _ in 0..2 {
        let refused = block_on(session.open_again());
        assert_eq!(refused, Err(OpenError::Refused(session::Refusal::DeviceGone)));
        assert!(session.server_died());
        assert_eq!(session.submit(&Entry::default()), Err(Error::CLOSED));
        assert_eq!((session.publish(), session.complete()), (Ok(()), Ok(None)));
    }
    platform.server(|server| server.is_empty = false);
    assert_eq!(block_on(session.open_again()), Ok(()));
    assert_eq!((session.server_died(), session.submit(&Entry::default())), (false, Ok(true)));
}

#[test]
fn a_controller_with_other_blocks_or_media_is_not_the_one_waited_for() {
    let exchanges: [fn(&mut FakeServer); 2] = [|server| server.bounds.blocks = 2048, |server| server.media = 2];
    for (waits, exchange) in [true, false].into_iter().flat_map(|waits| exchanges.map(|exchange| (waits, exchange))) {
        let (platform, device) = open(&Setup { waits, order: Order::Silent, ..Setup::default() }, false);
        let range = device.window().lease(512).unwrap();
        let outcome = block_on(device.run(async {
            let write = device.write(5, &[range.whole()]);
            turn().await;
            platform.server(exchange);
            platform.kill_server(2);
            write.await
        }));
        assert_eq!(outcome, Err(if waits { Error::DEVICE_GONE } else { Error::CLOSED }));
    }
}

#[test]
fn requests_that_do_not_wait_fail_as_the_controller_is_gone() {
    let (platform, device) = open(&Setup::default(), false);
    let range = device.window().lease(512).unwrap();
    lose_controller(&platform);
    assert_eq!(block_on(device.run(device.write(5, &[range.whole()]))), Err(Error::DEVICE_GONE));
    assert!(reissued(&platform).is_empty());
}

#[test]
fn server_death_during_reopening_costs_one_more_opening() {
    for polls in [false, true] {
        let (platform, device) = opened(Order::Silent, polls);
        let range = device.window().lease(512).unwrap();
        block_on(device.run(async {
            let writes: Vec<_> = (0..5).map(|lba| device.write(lba, &[range.whole()])).collect();
            turn().await;
            platform.server(|server| server.order = Order::Submitted);
            platform.kill_server(3);
            // The call that waits for the successor, and then the opening.
            platform.kill_server_after(1, 3);
            for write in writes {
                assert_eq!(write.await, Ok(()), "polls: {polls}");
            }
        }));
        assert_eq!(reissued(&platform), [5], "polls: {polls}");
    }
}

#[test]
fn server_death_while_an_earlier_opening_is_closed_costs_one_more_opening() {
    let setup = Setup::default();
    let platform = FakePlatform::new(&setup);
    // The client sees the server dead, and the successor answers its opening. So it opens the session there again.
    platform.kill_server(2);
    let options = Options { ring_entries: setup.ring_entries, polls: false, waits: false };
    let device = block_on(Device::open(platform.clone(), &platform.environment("alice", vec![]), options)).unwrap();
    // The opening that finds a session, and then the call that closes that.
    platform.kill_server_after(1, 3);
    let range = device.window().lease(512).unwrap();
    assert_eq!(block_on(device.run(async { device.write(0, &[range.whole()]).await })), Ok(()));
    assert_eq!(reissued(&platform), [0]);
}

/// An event between two turns of a client that waits.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Write(u64),
    Turn,
    /// The controller is gone, and the server reports it.
    Gone,
    /// The server dies, and its successor has the controller or not.
    Death {
        has_controller: bool,
    },
    /// The server dies after so many turns.
    DeathAfter(u32),
    Policy,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = prop_oneof![
        6 => (0u64..8).prop_map(Deed::Write),
        6 => Just(Deed::Turn),
        2 => Just(Deed::Gone),
        3 => any::<bool>().prop_map(|has_controller| Deed::Death { has_controller }),
        1 => (0u32..6).prop_map(Deed::DeathAfter),
        1 => Just(Deed::Policy),
    ];
    prop::collection::vec(deed, 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whenever the controller comes and goes and the server dies, a session that waits goes on, and no request fails.
    #[test]
    fn a_session_that_waits_outlives_any_history(
        deeds in deeds(), polls in any::<bool>(), records in prop::option::of(2usize..5)
    ) {
        let (platform, device) = open(&Setup { waits: true, records, ..Setup::default() }, polls);
        platform.tick_who_waits();
        let range = device.window().lease(512).unwrap();
        let outcomes = block_on(device.run(async {
            let mut writes = vec![];
            for deed in deeds {
                match deed {
                    Deed::Write(lba) if writes.len() < 12 => writes.push(device.write(lba, &[range.whole()])),
                    Deed::Write(_) | Deed::Turn => turn().await,
                    Deed::Gone => lose_controller(&platform),
                    Deed::Death { has_controller } => {
                        platform.server(|server| server.is_empty = !has_controller);
                        if has_controller {
                            platform.server(|server| server.loses = None);
                        }
                        platform.kill_server(2);
                    }
                    Deed::DeathAfter(turns) => platform.kill_server_after(turns, 2),
                    Deed::Policy => platform.kill_policy(2),
                }
            }
            platform.server(|server| (server.is_empty, server.loses) = (false, None));
            platform.kill_server(2);
            let mut outcomes = vec![];
            for write in writes {
                outcomes.push(write.await);
            }
            outcomes
        }));
        prop_assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        prop_assert!(!device.has_ended());
    }
}
