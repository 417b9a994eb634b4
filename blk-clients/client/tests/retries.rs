//! Requests without the controller's verdict: their retries, the limit, and the order that makes retries safe.

use blk_client::{Completed, Error, Opcode, Status};
use fake_platform::{FakePlatform, Lost, Order, Setup, block_on, open, turn};

/// Tries of a request.
const TRIES: u64 = 4;

/// Loses the first `times` requests of `opcode` after `blocks` of their blocks are done.
fn lose_requests(platform: &FakePlatform, opcode: Opcode, mut times: u64, blocks: u32, status: Status) {
    platform.server(|server| {
        server.loses = Some(Box::new(move |request| {
            let is_lost = request.opcode() == opcode && times > 0;
            times -= u64::from(is_lost);
            is_lost.then_some(Lost { blocks, status })
        }));
    });
}

fn block(platform: &FakePlatform, lba: usize) -> u8 {
    platform.server(|server| server.disk[lba * 512])
}

#[test]
fn what_was_lost_is_made_again_and_its_user_waits_that_is_all() {
    for status in [Status::ControllerReset, Status::TimedOut] {
        for (opcode, polls) in [
            (Opcode::Read, false),
            (Opcode::Write, true),
            (Opcode::Flush, false),
            (Opcode::Discard, true),
            (Opcode::WriteZeroes, false),
            (Opcode::Verify, true),
            (Opcode::Compare, false),
        ] {
            let (platform, device) = open(&Setup::default(), polls);
            let range = device.window().lease(4 * 512).unwrap();
            // Blocks of zeroes are compared.
            range.write_bytes(0, &[if opcode == Opcode::Compare { 0 } else { 7 }; 4 * 512]).unwrap();
            lose_requests(&platform, opcode, TRIES - 1, 2, status);
            let request = match opcode {
                Opcode::Read => device.read(3, &[range.whole()]),
                Opcode::Write => device.write(3, &[range.whole()]),
                Opcode::Flush => device.flush(),
                Opcode::Discard => device.discard(3, 4),
                Opcode::WriteZeroes => device.write_zeroes(3, 4),
                Opcode::Verify => device.verify(3, 4),
                Opcode::Compare => device.compare(3, &[range.whole()]),
            };
            assert_eq!(block_on(device.run(request)), Ok(()), "{opcode:?}: {status}");
            assert_eq!(device.retries(), TRIES - 1);
            let last = block(&platform, 6);
            let expected = [(Opcode::Write, 7), (Opcode::Discard, 0xdd)].into_iter().find(|known| known.0 == opcode);
            assert_eq!(last, expected.map_or(0, |known| known.1), "{opcode:?}");
            drop(range);
            assert_eq!((device.in_flight(), device.window().free_bytes()), (0, device.window().len()));
        }
    }
}

#[test]
fn request_lost_each_time_fails_and_its_neighbour_succeeds() {
    for status in [Status::ControllerReset, Status::TimedOut] {
        let (platform, device) = open(&Setup { order: Order::Reversed, ..Setup::default() }, false);
        let range = device.window().lease(512).unwrap();
        lose_requests(&platform, Opcode::Write, TRIES, 0, status);
        block_on(device.run(async {
            let (write, read) = (device.write(1, &[range.whole()]), device.read(1, &[range.whole()]));
            assert_eq!((write.await, read.await), (Err(Error::status(status)), Ok(())));
            // The next one has as many tries of its own.
            lose_requests(&platform, Opcode::Write, TRIES - 1, 0, status);
            assert_eq!(device.write(1, &[range.whole()]).await, Ok(()));
        }));
        assert_eq!(device.retries(), 2 * (TRIES - 1));
    }
}

#[test]
fn what_the_device_says_is_not_asked_twice() {
    for status in [Status::MediaError, Status::DeviceError, Status::Forbidden, Status::Unsupported] {
        let (platform, device) = open(&Setup::default(), false);
        lose_requests(&platform, Opcode::WriteZeroes, 1, 0, status);
        let outcome = block_on(device.run(device.write_zeroes(1, 1))).unwrap_err();
        assert_eq!((outcome.outcome(), device.retries()), (Some(status), 0));
    }
}

#[test]
fn what_nobody_waits_for_is_made_again_as_well() {
    let (platform, device) = open(&Setup::default(), false);
    platform.server(|server| server.disk[..8 * 512].fill(9));
    lose_requests(&platform, Opcode::WriteZeroes, 2, 1, Status::ControllerReset);
    block_on(device.run(async {
        drop(device.write_zeroes(0, 8));
        while device.in_flight() > 0 {
            turn().await;
        }
    }));
    assert_eq!((block(&platform, 7), device.retries()), (0, 2));
}

#[test]
fn a_request_that_is_not_at_the_server_has_no_answer() {
    let (platform, device) = open(&Setup { order: Order::Silent, ..Setup::default() }, false);
    block_on(device.run(async {
        let (first, second) = (device.discard(0, 1), device.discard(0, 1));
        turn().await;
        // The second one waits for the first: its answer is forged.
        platform.server(|server| server.forged.push(Completed { user_data: 1, ..Completed::default() }));
        assert_eq!((first.await, second.await), (Err(Error::UnknownCompletion), Err(Error::UnknownCompletion)));
    }));
}

#[test]
fn only_changes_of_the_same_blocks_wait_for_the_reply() {
    let (platform, device) = open(&Setup { order: Order::Silent, ..Setup::default() }, false);
    let ranges = [1u8, 2, 3].map(|byte| {
        let range = device.window().lease(2 * 512).unwrap();
        range.write_bytes(0, &[byte; 2 * 512]).unwrap();
        range
    });
    block_on(device.run(async {
        let early = device.write(0, &[ranges[0].whole()]);
        let late = device.write(1, &[ranges[1].whole()]);
        let elsewhere = device.write(4, &[ranges[1].whole()]);
        let read = device.read(1, &[ranges[2].whole()]);
        turn().await;
        turn().await;
        let done = |lbas: [usize; 4]| lbas.map(|lba| block(&platform, lba));
        assert_eq!(done([0, 1, 2, 4]), [1, 1, 0, 2], "the late one is not at the server");
        platform.server(|server| server.order = Order::Submitted);
        assert_eq!((elsewhere.await, read.await), (Ok(()), Ok(())));
        assert_eq!((late.await, early.await), (Ok(()), Ok(())));
        assert_eq!(done([0, 1, 2, 4]), [1, 2, 2, 2]);
    }));
}

#[test]
fn waiting_change_is_submitted_without_being_polled() {
    // As many to one block as there are slots and more, the last one awaited first, some dropped.
    let (platform, device) = open(&Setup { ring_entries: 4, order: Order::Drawn(5), ..Setup::default() }, false);
    let ranges: Vec<_> = (1..=4u8)
        .map(|byte| {
            let range = device.window().lease(512).unwrap();
            range.write_bytes(0, &[byte; 512]).unwrap();
            range
        })
        .collect();
    lose_requests(&platform, Opcode::Write, 3, 1, Status::TimedOut);
    block_on(device.run(async {
        let mut writes: Vec<_> = ranges.iter().map(|range| device.write(3, &[range.whole()])).collect();
        drop(writes.remove(1));
        for write in writes.into_iter().rev() {
            assert_eq!(write.await, Ok(()));
        }
        assert_eq!(block(&platform, 3), 4);
        let discards: Vec<_> = (0..12).map(|_| device.discard(3, 2)).collect();
        for discard in discards {
            assert_eq!(discard.await, Ok(()));
        }
    }));
    assert_eq!((block(&platform, 4), device.in_flight()), (0xdd, 0));
}

#[test]
fn a_big_change_is_not_overtaken_by_small_ones() {
    let (platform, device) = open(&Setup { order: Order::Silent, ring_entries: 64, ..Setup::default() }, false);
    block_on(device.run(async {
        let first = device.write_zeroes(0, 2);
        let big = device.discard(0, 32);
        // None of them touches what the big one waits for.
        let small: Vec<_> = (2..32).map(|lba| device.write_zeroes(lba, 1)).collect();
        turn().await;
        platform.server(|server| server.order = Order::Submitted);
        assert_eq!(first.await, Ok(()));
        assert_eq!(big.await, Ok(()));
        for small in small {
            assert_eq!(small.await, Ok(()));
        }
    }));
    assert_eq!([1, 2, 31].map(|lba| block(&platform, lba)), [0xdd, 0, 0]);
}

#[test]
fn what_the_dead_server_left_waiting_goes_on_at_the_next_one() {
    for polls in [false, true] {
        let (platform, device) = open(&Setup { order: Order::Silent, ..Setup::default() }, polls);
        lose_requests(&platform, Opcode::Discard, 2, 1, Status::ControllerReset);
        block_on(device.run(async {
            let (early, late) = (device.discard(5, 2), device.write_zeroes(6, 2));
            turn().await;
            platform.kill_server(3);
            platform.server(|server| server.order = Order::Submitted);
            assert_eq!((late.await, early.await), (Ok(()), Ok(())));
        }));
        assert_eq!([5, 6, 7].map(|lba| block(&platform, lba)), [0xdd, 0, 0]);
        // Lost requests that were not resubmitted when the server died are submitted again with all others.
        lose_requests(&platform, Opcode::Discard, 1, 0, Status::ControllerReset);
        block_on(device.run(async {
            let discard = device.discard(9, 1);
            turn().await;
            platform.kill_server(3);
            assert_eq!(discard.await, Ok(()));
        }));
        assert_eq!((block(&platform, 9), device.in_flight()), (0xdd, 0));
    }
}
