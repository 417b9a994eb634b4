//! The device over a server in memory: order, drops, lies, backpressure.

use blk_client::{Completed, Device, Error, Status, WindowRange};
use fake_platform::{FakePlatform, Order, Setup, block_on, open};
use platform::fake::Ram;
use proptest::prelude::*;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

type Fake = Device<FakePlatform>;

/// A range filled with `byte`.
fn filled(device: &Fake, bytes: usize, byte: u8) -> WindowRange<Ram> {
    let range = device.window().lease(bytes).unwrap();
    range.write_bytes(0, &vec![byte; bytes]).unwrap();
    range
}

fn first_byte(range: &WindowRange<Ram>) -> u8 {
    let mut byte = [0];
    range.read_bytes(0, &mut byte).unwrap();
    byte[0]
}

fn write_then_read_everywhere(order: Order, polls: bool) {
    let (_, device) = open(&Setup { order, ..Setup::default() }, polls);
    block_on(device.run(async {
        let ranges: Vec<_> = (0..40u8).map(|n| filled(&device, 4096, n + 1)).collect();
        let lba = |n: usize| n as u64 * 8;
        let writes: Vec<_> = ranges.iter().enumerate().map(|(n, r)| device.write(lba(n), &[r.whole()])).collect();
        for write in writes {
            write.await.unwrap();
        }
        device.flush().await.unwrap();
        for range in &ranges {
            range.write_bytes(0, &[0; 4096]).unwrap();
        }
        // Finished requests hold their slots until they are polled: at most one a slot when the last is awaited first.
        for chunk in [0..16usize, 16..32, 32..40] {
            let reads: Vec<_> = chunk.clone().map(|n| device.read(lba(n), &[ranges[n].whole()])).collect();
            for (n, read) in chunk.zip(reads).rev() {
                read.await.unwrap();
                assert_eq!(first_byte(&ranges[n]), n as u8 + 1);
            }
        }
    }));
    assert_eq!(device.in_flight(), 0);
    assert_eq!(device.window().free_bytes(), device.window().len());
}

#[test]
fn requests_complete_in_whatever_order_the_server_chooses() {
    for order in [Order::Submitted, Order::Reversed, Order::Drawn(7)] {
        write_then_read_everywhere(order, false);
        write_then_read_everywhere(order, true);
    }
}

#[test]
fn a_compare_changes_nothing_and_reports_a_difference() {
    let (platform, device) = open(&Setup::default(), false);
    let range = filled(&device, 2048, 7);
    block_on(device.run(async {
        device.write(3, &[range.whole()]).await.unwrap();
        assert_eq!(device.compare(3, &[range.whole()]).await, Ok(()));
        range.write_bytes(1500, &[6]).unwrap();
        let failed = device.compare(3, &[range.whole()]).await.unwrap_err();
        assert_eq!((failed.outcome(), first_byte(&range)), (Some(Status::CompareFailed), 7));
        assert_eq!(device.verify(3, 4).await, Ok(()));
        platform.server(|server| server.bad_block = Some(5));
        let failed = device.verify(3, 4).await.unwrap_err();
        assert_eq!(failed.outcome(), Some(Status::MediaError));
    }));
    assert_eq!((platform.server(|server| server.disk[3 * 512 + 1500]), device.retries()), (7, 0));
}

#[test]
fn more_requests_than_the_ring_holds_wait_for_room() {
    write_then_read_everywhere(Order::Drawn(3), false);
    let (platform, device) = open(&Setup { ring_entries: 2, ..Setup::default() }, false);
    let range = filled(&device, 512, 1);
    block_on(device.run(async {
        let requests: Vec<_> = (0..9).map(|lba| device.write(lba, &[range.whole()])).collect();
        assert_eq!(device.in_flight(), 2);
        for request in requests {
            request.await.unwrap();
        }
    }));
    assert_eq!(platform.server(|server| server.disk[8 * 512]), 1);
}

#[test]
fn one_batch_rings_once() {
    let (platform, device) = open(&Setup::default(), false);
    let range = filled(&device, 512, 1);
    block_on(device.run(async {
        let requests: Vec<_> = (0..16).map(|lba| device.write(lba, &[range.whole()])).collect();
        for request in requests {
            request.await.unwrap();
        }
    }));
    assert_eq!(platform.doorbells(), 1);
}

#[test]
fn dropped_request_keeps_range_and_slot_until_done() {
    let (platform, device) = open(&Setup { order: Order::Silent, ring_entries: 2, ..Setup::default() }, true);
    let all = device.window().len();
    let range = device.window().lease(8192).unwrap();
    let mut work = pin!(device.run(async {
        drop(device.read(0, &[range.whole()]));
        drop(range);
        std::future::pending::<()>().await;
    }));
    let poll_once = |work: std::pin::Pin<&mut dyn Future<Output = ()>>| {
        let mut work = Some(work);
        block_on(poll_fn(move |context| {
            if let Some(work) = work.take() {
                assert!(work.poll(context).is_pending());
            }
            Poll::Ready(())
        }));
    };
    poll_once(work.as_mut());
    assert_eq!(device.in_flight(), 1);
    assert_eq!(device.window().free_bytes(), all - 8192, "the device may still write there");
    platform.server(|server| server.order = Order::Submitted);
    poll_once(work.as_mut());
    assert_eq!(device.in_flight(), 0);
    assert_eq!(device.window().free_bytes(), all);
}

#[test]
fn completion_of_an_unknown_request_ends_the_session() {
    for user_data in [u64::MAX, 5, 1 << 32, 0xffff] {
        let (platform, device) = open(&Setup { order: Order::Silent, ..Setup::default() }, false);
        let range = filled(&device, 512, 1);
        platform.server(|server| server.forged.push(Completed { user_data, ..Completed::default() }));
        let outcome = block_on(device.run(device.read(0, &[range.whole()])));
        assert_eq!(outcome, Err(Error::UnknownCompletion));
        assert_eq!(block_on(device.run(device.flush())), Err(Error::UnknownCompletion), "and stays ended");
    }
}

#[test]
fn second_completion_of_one_request_is_not_believed() {
    let (platform, device) = open(&Setup::default(), false);
    let range = filled(&device, 512, 1);
    block_on(device.run(device.read(0, &[range.whole()]))).unwrap();
    platform.server(|server| {
        server.order = Order::Silent;
        server.forged.push(Completed::default());
    });
    assert_eq!(block_on(device.run(device.read(0, &[range.whole()]))), Err(Error::UnknownCompletion));
}

#[test]
fn ended_session_ends_everybody_who_waits() {
    for (status, error) in [(Status::Closed, Error::CLOSED), (Status::DeviceGone, Error::DEVICE_GONE)] {
        let (platform, device) = open(&Setup { order: Order::Silent, ..Setup::default() }, false);
        let range = filled(&device, 512, 1);
        let ended = Completed { user_data: 1, status: status as u16, ..Completed::default() };
        block_on(device.run(async {
            let requests: Vec<_> = (0..40).map(|lba| device.read(lba, &[range.whole()])).collect();
            platform.server(|server| server.forged.push(ended));
            for request in requests {
                assert_eq!(request.await, Err(error));
            }
        }));
        assert_eq!(device.retries(), 0, "{status}");
        // And later ones.
        assert_eq!(block_on(device.run(device.read(0, &[range.whole()]))), Err(error));
        assert_eq!(block_on(device.run(device.flush())), Err(error));
    }
}

#[test]
fn refusals_reach_the_request_they_are_about() {
    let (platform, device) = open(&Setup::default(), false);
    platform.server(|server| server.bad_block = Some(3));
    let range = filled(&device, 1024, 1);
    block_on(device.run(async {
        let bad = device.read(2, &[range.whole()]);
        let beyond = device.read(4095, &[range.whole()]);
        let good = device.read(4, &[range.whole()]);
        let expected = Error::Failed { status: Status::MediaError, device_status: 0x281 };
        assert_eq!(bad.await, Err(expected));
        assert_eq!(beyond.await, Err(Error::status(Status::OutsideExtents)));
        assert_eq!(good.await, Ok(()));
    }));
}

#[test]
fn ranges_of_another_window_or_too_many_are_refused_here() {
    let (_, device) = open(&Setup::default(), false);
    let (_, other) = open(&Setup::default(), false);
    let (ours, theirs) = (device.window().lease(512).unwrap(), other.window().lease(512).unwrap());
    assert_eq!(block_on(device.run(device.read(0, &[theirs.whole()]))), Err(Error::BadParts));
    assert_eq!(block_on(device.run(device.read(0, &[ours.whole(); 6]))), Err(Error::BadParts));
    assert_eq!(block_on(device.run(device.read(0, &[ours.whole(); 5]))), Ok(()));
}

#[test]
fn vectored_data_goes_where_it_belongs() {
    let (platform, device) = open(&Setup::default(), false);
    let range = device.window().lease(8192).unwrap();
    for (offset, byte) in [(4, 1), (1024, 2), (5000, 3)] {
        range.write_bytes(offset, &[byte; 512]).unwrap();
    }
    let parts = [(5000, 512), (4, 512), (1024, 512)].map(|(offset, len)| range.part(offset, len).unwrap());
    block_on(device.run(device.write(1, &parts))).unwrap();
    let disk = platform.server(|server| [512, 1024, 1536].map(|at| server.disk[at]));
    assert_eq!(disk, [3, 1, 2]);
    assert!(range.part(8000, 512).is_none());
    assert!(range.part(usize::MAX, 2).is_none());
}

#[test]
fn close_lets_everything_end_and_ends_the_rest() {
    let (_, device) = open(&Setup::default(), false);
    let range = filled(&device, 512, 9);
    let write = device.write(5, &[range.whole()]);
    block_on(device.close()).unwrap();
    assert_eq!(block_on(device.run(write)), Ok(()));
    assert_eq!(block_on(device.run(device.flush())), Err(Error::CLOSED));
    assert_eq!(block_on(device.close()), Err(Error::Refused(blk_client::Refusal::NotOpen)));
}

proptest! {
    /// For any order of leasing and returning, leases never overlap and all pages are free in the end.
    #[test]
    fn leases_never_overlap(steps in prop::collection::vec((1usize..40_000, any::<bool>()), 1..60)) {
        let (_, device) = open(&Setup::default(), false);
        let mut held: Vec<WindowRange<_>> = vec![];
        for (bytes, give_back) in steps {
            if give_back && !held.is_empty() {
                held.swap_remove(bytes % held.len());
            } else if let Some(new) = device.window().lease(bytes) {
                for old in &held {
                    let apart = new.offset() >= old.offset() + old.len() || old.offset() >= new.offset() + new.len();
                    prop_assert!(apart);
                }
                prop_assert!(new.offset() + new.len() <= device.window().len());
                held.push(new);
            }
        }
        held.clear();
        prop_assert_eq!(device.window().free_bytes(), device.window().len());
    }
}
