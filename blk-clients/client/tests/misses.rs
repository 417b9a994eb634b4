//! Requests that miss a record at the server: records asked for at the policy component, retries, and their limit.

use blk_api::policy::Refusal;
use blk_client::{Device, Error, Status};
use fake_platform::{FakePlatform, Order, Setup, block_on, open};

type Fake = Device<FakePlatform>;

fn opened(records: usize, order: Order, polls: bool) -> (FakePlatform, Fake) {
    let setup = Setup { records: Some(records), order, ..Setup::default() };
    open(&setup, polls)
}

fn asked(platform: &FakePlatform) -> u32 {
    platform.server(|server| server.asked)
}

#[test]
fn first_records_are_installed_at_opening() {
    let (platform, device) = opened(8, Order::Submitted, false);
    let range = device.window().lease(1024).unwrap();
    assert_eq!(block_on(device.run(device.read(0, &[range.whole()]))), Ok(()));
    assert_eq!(asked(&platform), 1);
}

#[test]
fn missed_request_is_resubmitted_with_its_records() {
    for (order, polls) in [(Order::Submitted, false), (Order::Reversed, true), (Order::Drawn(3), false)] {
        let (platform, device) = opened(64, order, polls);
        let ranges: Vec<_> = (0..6).map(|_| device.window().lease(5 * 512).unwrap()).collect();
        for (byte, range) in (1u8..).zip(&ranges) {
            range.write_bytes(0, &[byte; 5 * 512]).unwrap();
        }
        block_on(device.run(async {
            let lba = |n: usize| 100 + n as u64 * 5;
            let writes: Vec<_> =
                ranges.iter().enumerate().map(|(n, range)| device.write(lba(n), &[range.whole()])).collect();
            for write in writes {
                assert_eq!(write.await, Ok(()));
            }
        }));
        // Three calls for each of the five blocks, two at a time.
        assert_eq!(asked(&platform), 1 + 6 * 3);
        let written = platform
            .server(|server| server.disk[100 * 512..130 * 512].chunks(5 * 512).map(|five| five[0]).collect::<Vec<_>>());
        assert_eq!(written, [1, 2, 3, 4, 5, 6]);
        assert_eq!(device.in_flight(), 0);
    }
}

#[test]
fn a_request_whose_records_are_gone_each_time_ends_with_that() {
    let (platform, device) = opened(2, Order::Submitted, false);
    let range = device.window().lease(3 * 512).unwrap();
    let outcome = block_on(device.run(device.read(9, &[range.whole()])));
    assert_eq!(outcome, Err(Error::status(Status::NotInstalled)));
    assert_eq!(asked(&platform), 1 + 16 * 2, "sixteen times, two calls each");
    // The neighbour that asks for fewer records gets them.
    assert_eq!(block_on(device.run(device.read(9, &[range.part(0, 1024).unwrap()]))), Ok(()));
}

#[test]
fn a_refusal_is_reported_to_the_one_whose_blocks_they_are() {
    let (platform, device) = opened(64, Order::Submitted, false);
    let range = device.window().lease(512).unwrap();
    let refusal = Refusal::BeyondSession { first: 50, blocks: 1, has: 40 };
    platform.server(|server| server.refuses_records = Some(refusal));
    block_on(device.run(async {
        let (refused, good) = (device.read(50, &[range.whole()]), device.read(1, &[range.whole()]));
        assert_eq!((refused.await, good.await), (Err(Error::status(Status::NotInstalled)), Ok(())));
    }));
}

#[test]
fn whoever_asks_too_often_waits_for_the_tick() {
    let (platform, device) = opened(64, Order::Submitted, false);
    let range = device.window().lease(512).unwrap();
    platform.server(|server| server.refuses_records = Some(Refusal::Busy));
    assert_eq!(block_on(device.run(device.read(50, &[range.whole()]))), Ok(()));
    assert_eq!(asked(&platform), 3);
}

#[test]
fn only_the_tick_ends_the_wait_of_a_frequent_caller() {
    for polls in [false, true] {
        let (platform, device) = opened(64, Order::Submitted, polls);
        let ranges: Vec<_> = (0..8).map(|_| device.window().lease(512).unwrap()).collect();
        platform.server(|server| server.refuses_records = Some(Refusal::Busy));
        block_on(device.run(async {
            // The first misses, and the completions of the others come meanwhile.
            let reads: Vec<_> = ranges
                .iter()
                .zip([50, 0, 1, 0, 1, 0, 1, 0])
                .map(|(range, lba)| device.read(lba, &[range.whole()]))
                .collect();
            for read in reads {
                assert_eq!(read.await, Ok(()));
            }
        }));
        assert_eq!(asked(&platform), 3, "polls: {polls}");
    }
}

#[test]
fn restarted_policy_component_answers_waiting_calls() {
    for polls in [false, true] {
        let (platform, device) = opened(64, Order::Submitted, polls);
        let range = device.window().lease(512).unwrap();
        platform.kill_policy(4);
        assert_eq!(block_on(device.run(device.read(50, &[range.whole()]))), Ok(()));
        assert_eq!(asked(&platform), 2);
    }
}

#[test]
fn dead_policy_component_affects_only_requests_without_records() {
    let (platform, device) = opened(64, Order::Submitted, false);
    let range = device.window().lease(512).unwrap();
    platform.kill_policy(u32::MAX);
    assert_eq!(block_on(device.run(device.read(0, &[range.whole()]))), Ok(()));
    assert_eq!(block_on(device.run(device.read(50, &[range.whole()]))), Err(Error::status(Status::NotInstalled)));
}

#[test]
fn records_are_installed_at_the_restarted_server() {
    for polls in [false, true] {
        let (platform, device) = opened(64, Order::Silent, polls);
        let range = device.window().lease(512).unwrap();
        block_on(device.run(async {
            let writes: Vec<_> = (0..8).map(|lba| device.write(lba * 10, &[range.whole()])).collect();
            platform.server(|server| server.order = Order::Submitted);
            platform.kill_server(3);
            for write in writes {
                assert_eq!(write.await, Ok(()));
            }
        }));
        assert_eq!(device.in_flight(), 0);
    }
}

#[test]
fn detached_request_is_resubmitted_all_the_same() {
    let (platform, device) = opened(64, Order::Submitted, false);
    let range = device.window().lease(512).unwrap();
    range.write_bytes(0, &[7; 512]).unwrap();
    block_on(device.run(async {
        drop(device.write(50, &[range.whole()]));
        assert_eq!(device.read(60, &[range.whole()]).await, Ok(()));
        assert_eq!(device.flush().await, Ok(()));
    }));
    assert_eq!(platform.server(|server| server.disk[50 * 512]), 7);
}
