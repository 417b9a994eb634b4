//! A session through the ecosystem's traits: contents, ends, errors, and dropped futures.

use aligned::{A1, Aligned};
use blk_client::{ByteStream, CopyingDevice, Device, Error, IoError, Status};
use block_device_driver::BlockDevice;
use embedded_io_async::{Error as _, ErrorKind, Read, ReadExactError, Seek, SeekFrom, Write};
use fake_platform::{FakePlatform, Order, Setup, block_on, open};
use proptest::collection::vec;
use proptest::prelude::*;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

const KIB: usize = 1024;

fn copying(setup: &Setup, bytes: usize) -> (FakePlatform, Device<FakePlatform>, CopyingDevice<FakePlatform>) {
    let (platform, device) = open(setup, false);
    let blocks = CopyingDevice::new(&device, bytes).unwrap();
    (platform, device, blocks)
}

fn stream(setup: &Setup, bytes: usize) -> (FakePlatform, Device<FakePlatform>, ByteStream<FakePlatform>) {
    let (platform, device, blocks) = copying(setup, bytes);
    (platform, device, ByteStream::new(blocks))
}

fn blocks_of<const SIZE: usize>(count: usize, seed: u8) -> Vec<Aligned<A1, [u8; SIZE]>> {
    (0..count).map(|n| Aligned(std::array::from_fn(|at| seed.wrapping_add((n * 7 + at / 3) as u8)))).collect()
}

#[test]
fn blocks_are_read_as_they_were_written_in_requests_that_fit_the_range() {
    let (platform, device, mut blocks) = copying(&Setup::default(), 5 * 512 + 100);
    let written = blocks_of::<512>(13, 1);
    let mut read = blocks_of::<512>(13, 2);
    block_on(device.run(async {
        blocks.write(3, &written).await.unwrap();
        blocks.read(3, &mut read).await.unwrap();
        let size = BlockDevice::<512>::size(&mut blocks).await;
        assert_eq!(size, Ok(4096 * 512));
    }));
    assert_eq!(written, read);
    platform.server(|server| {
        assert_eq!(&server.disk[3 * 512..4 * 512], &written[0][..]);
        assert!(server.disk[16 * 512..].iter().all(|byte| *byte == 0));
        assert_eq!(server.statistics().requests, 6, "three of five blocks at most, there and back");
    });
}

#[test]
fn requests_are_no_larger_than_the_session_permits() {
    let (platform, device, mut blocks) = copying(&Setup { max_blocks: 4, ..Setup::default() }, 64 * KIB);
    block_on(device.run(blocks.write(0, &blocks_of::<512>(16, 1)))).unwrap();
    assert_eq!(platform.server(|server| server.statistics().requests), 4);
}

#[test]
fn blocks_of_another_size_and_blocks_beyond_the_end_are_errors() {
    let (platform, device, mut blocks) = copying(&Setup::default(), 4 * KIB);
    block_on(device.run(async {
        let wrong = IoError::BlockSize { asked: 4096, has: 512 };
        assert_eq!(blocks.read(0, &mut blocks_of::<4096>(1, 0)).await, Err(wrong));
        assert_eq!(blocks.write(0, &blocks_of::<4096>(1, 0)).await, Err(wrong));
        assert_eq!(BlockDevice::<4096>::size(&mut blocks).await, Err(wrong));
        let empty: [Aligned<A1, [u8; 0]>; 1] = [Aligned([])];
        assert_eq!(blocks.write(0, &empty).await, Err(IoError::BlockSize { asked: 0, has: 512 }));
        for lba in [4095, 4096, u32::MAX] {
            assert_eq!(blocks.write(lba, &blocks_of::<512>(2, 9)).await, Err(IoError::BeyondEnd));
            assert_eq!(blocks.read(lba, &mut blocks_of::<512>(2, 9)).await, Err(IoError::BeyondEnd));
        }
        assert_eq!(blocks.write(4096, &blocks_of::<512>(0, 9)).await, Ok(()));
        assert_eq!(blocks.read_at(u64::MAX, &mut [0; 512]).await, Err(IoError::BeyondEnd));
        let odd = IoError::BlockSize { asked: 513, has: 512 };
        assert_eq!(blocks.read_at(0, &mut [0; 513]).await, Err(odd));
    }));
    assert_eq!(platform.server(|server| server.statistics().requests), 0);
}

#[test]
fn range_of_less_than_a_block_or_more_than_the_window_is_an_error() {
    let (_, device) = open(&Setup { window_bytes: 16 << 10, max_blocks: 4096, ..Setup::default() }, false);
    for bytes in [0, 511, 17 * KIB] {
        assert_eq!(CopyingDevice::new(&device, bytes).err(), Some(IoError::NoWindow));
    }
    let first = CopyingDevice::new(&device, 16 * KIB).unwrap();
    assert_eq!(CopyingDevice::new(&device, 512).err(), Some(IoError::NoWindow));
    drop(first);
    assert_eq!(device.window().free_bytes(), device.window().len());
}

#[test]
fn seek_counts_from_start_end_and_position_and_refuses_what_lies_before_the_start() {
    let (_, device, mut stream) = stream(&Setup::default(), 4 * KIB);
    let end = 4096 * 512;
    block_on(device.run(async {
        assert_eq!(stream.seek(SeekFrom::Start(700)).await, Ok(700));
        assert_eq!(stream.seek(SeekFrom::Current(-50)).await, Ok(650));
        assert_eq!(stream.seek(SeekFrom::Current(0)).await, Ok(650));
        assert_eq!(stream.seek(SeekFrom::End(-10)).await, Ok(end - 10));
        assert_eq!(stream.seek(SeekFrom::End(10)).await, Ok(end + 10));
        for wrong in [SeekFrom::Current(i64::MIN), SeekFrom::End(-(end as i64) - 1)] {
            assert_eq!(stream.seek(wrong).await, Err(IoError::BadSeek));
            assert_eq!(stream.seek(SeekFrom::Current(0)).await, Ok(end + 10), "the position is what it was");
        }
        assert_eq!(stream.seek(SeekFrom::Start(u64::MAX)).await, Ok(u64::MAX));
        assert_eq!(stream.seek(SeekFrom::Current(1)).await, Err(IoError::BadSeek));
    }));
}

#[test]
fn reads_end_and_writes_fail_at_the_end_of_the_session() {
    let (platform, device, mut stream) = stream(&Setup::default(), 4 * KIB);
    block_on(device.run(async {
        stream.seek(SeekFrom::End(-700)).await.unwrap();
        let mut bytes = [1; 1000];
        assert_eq!(stream.read_exact(&mut bytes).await, Err(ReadExactError::UnexpectedEof));
        assert_eq!(stream.read(&mut bytes).await, Ok(0));
        assert_eq!(stream.write(&[]).await, Ok(0));
        assert_eq!(stream.write(&[7]).await, Err(IoError::BeyondEnd));
        stream.seek(SeekFrom::End(-700)).await.unwrap();
        assert_eq!(stream.write_all(&[7; 1000]).await, Err(IoError::BeyondEnd));
        stream.flush().await.unwrap();
        stream.seek(SeekFrom::Start(u64::MAX)).await.unwrap();
        assert_eq!(stream.read(&mut bytes).await, Ok(0));
        assert_eq!(stream.write(&bytes).await, Err(IoError::BeyondEnd));
    }));
    platform.server(|server| {
        let (before, last) = server.disk.split_at(4096 * 512 - 700);
        assert!(before.iter().all(|byte| *byte == 0) && last.iter().all(|byte| *byte == 7));
    });
}

#[test]
fn bytes_are_on_the_session_after_a_flush_and_the_flush_goes_to_it() {
    let (platform, device, mut stream) = stream(&Setup::default(), 4 * KIB);
    block_on(device.run(async {
        stream.write_all(&[1, 2, 3]).await.unwrap();
        assert_eq!(platform.server(|server| server.disk[0]), 0);
        let before = platform.server(|server| server.statistics().requests);
        stream.flush().await.unwrap();
        assert_eq!(platform.server(|server| server.disk[..4].to_vec()), [1, 2, 3, 0]);
        assert_eq!(platform.server(|server| server.statistics().requests), before + 2, "a write and a flush");
        stream.flush().await.unwrap();
        assert_eq!(platform.server(|server| server.statistics().requests), before + 3, "nothing is written twice");
    }));
}

#[test]
fn failed_reads_and_writes_are_passed_on_and_bytes_that_were_not_written_are_kept() {
    let (platform, device, mut stream) = stream(&Setup::default(), 4 * KIB);
    platform.server(|server| server.bad_block = Some(9));
    let media = IoError::Request(Error::Failed { status: Status::MediaError, device_status: 0x281 });
    let forbidden = IoError::Request(Error::status(Status::Forbidden));
    block_on(device.run(async {
        let mut bytes = vec![0; 6 * KIB];
        assert_eq!(stream.read(&mut bytes).await, Err(media));
        assert_eq!(stream.last_error(), Some(media));
        assert_eq!(media.kind(), ErrorKind::Other);
        stream.seek(SeekFrom::Start(9 * 512 + 1)).await.unwrap();
        assert_eq!(stream.write(&[1]).await, Err(media), "the rest of its block is not known");
        stream.seek(SeekFrom::Start(10)).await.unwrap();
        stream.write_all(&[5; 20]).await.unwrap();
        platform.server(|server| server.forbids = Some(Box::new(|_| true)));
        assert_eq!(stream.flush().await, Err(forbidden));
        assert_eq!(forbidden.kind(), ErrorKind::PermissionDenied);
        platform.server(|server| server.forbids = None);
        stream.flush().await.unwrap();
    }));
    assert_eq!(platform.server(|server| server.disk[10..30].to_vec()), [5; 20]);
}

#[test]
fn closed_session_is_an_error_of_every_transfer() {
    let (_, device, mut stream) = stream(&Setup::default(), 4 * KIB);
    let closed = IoError::Request(Error::CLOSED);
    block_on(device.run(async {
        device.close().await.unwrap();
        assert_eq!(stream.read(&mut [0; 512]).await, Err(closed));
        assert_eq!(stream.write(&[0; 512]).await, Err(closed));
        assert_eq!(stream.flush().await, Err(closed));
        assert_eq!(closed.kind(), ErrorKind::NotConnected);
    }));
}

/// Polls `future` once and drops it.
async fn begin_and_drop<F: Future>(future: F) {
    let mut future = pin!(future);
    poll_fn(|context| {
        assert!(future.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

#[test]
fn range_of_a_dropped_transfer_is_not_used_before_the_transfer_is_done() {
    let (platform, device, mut blocks) = copying(&Setup { order: Order::Silent, ..Setup::default() }, 4 * KIB);
    block_on(device.run(async {
        begin_and_drop(blocks.write_at(0, &[1; 512])).await;
        assert_eq!(device.in_flight(), 1);
        begin_and_drop(blocks.write_at(8, &[2; 512])).await;
        assert_eq!(device.in_flight(), 1, "the second waits for the first");
        platform.server(|server| server.order = Order::Submitted);
        blocks.write_at(16, &[3; 512]).await.unwrap();
    }));
    let first_bytes = platform.server(|server| [0, 8, 16].map(|lba| server.disk[lba * 512]));
    assert_eq!(first_bytes, [1, 0, 3]);
}

#[derive(Clone, Debug)]
enum Step {
    Seek(u64),
    Read(usize),
    Write(usize, u8),
    Flush,
}

fn steps(bytes: u64) -> impl Strategy<Value = Vec<Step>> {
    let length = || prop_oneof![3 => 1usize..40, 2 => 1usize..3000, 1 => (1usize..6).prop_map(|blocks| blocks * 512)];
    let position = prop_oneof![2 => 0..bytes, 1 => (0..bytes / 512).prop_map(|block| block * 512)];
    let step = prop_oneof![
        3 => position.prop_map(Step::Seek),
        3 => length().prop_map(Step::Read),
        4 => (length(), 1u8..).prop_map(|(length, byte)| Step::Write(length, byte)),
        1 => Just(Step::Flush),
    ];
    vec(step, 1..60)
}

proptest! {
    #[test]
    fn bytes_at_any_position_and_of_any_length_are_as_in_memory(
        steps in steps(32 << 10),
        block_shift in 9u8..=12,
        buffer_blocks in 1usize..4,
        seed in any::<u64>(),
    ) {
        let setup = Setup { block_shift, blocks: (32 << 10) >> block_shift, order: Order::Drawn(seed), ..Setup::default() };
        let (platform, device, mut stream) = stream(&setup, buffer_blocks << block_shift);
        let mut model = vec![0u8; 32 << 10];
        platform.server(|server| {
            for (at, byte) in server.disk.iter_mut().enumerate() {
                *byte = (at / 5) as u8;
            }
            model.copy_from_slice(&server.disk);
        });
        let mut at = 0;
        let outcome: Result<(), TestCaseError> = block_on(device.run(async {
            for step in steps {
                match step {
                    Step::Seek(position) => {
                        at = position as usize;
                        prop_assert_eq!(stream.seek(SeekFrom::Start(position)).await, Ok(position));
                    }
                    Step::Read(length) => {
                        let length = length.min(model.len() - at);
                        let mut bytes = vec![0; length];
                        prop_assert_eq!(stream.read_exact(&mut bytes).await, Ok(()));
                        prop_assert_eq!(&bytes, &model[at..at + length]);
                        at += length;
                    }
                    Step::Write(length, first) => {
                        let length = length.min(model.len() - at);
                        let bytes: Vec<_> = (0..length).map(|n| first.wrapping_add((n / 3) as u8)).collect();
                        prop_assert_eq!(stream.write_all(&bytes).await, Ok(()));
                        model[at..at + length].copy_from_slice(&bytes);
                        at += length;
                    }
                    Step::Flush => prop_assert_eq!(stream.flush().await, Ok(())),
                }
            }
            prop_assert_eq!(stream.flush().await, Ok(()));
            Ok(())
        }));
        outcome?;
        prop_assert!(platform.server(|server| server.disk == model));
    }
}
