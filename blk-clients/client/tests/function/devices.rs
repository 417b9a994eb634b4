//! The device with requests as futures, over a function.

use crate::support::{Machine, Setup, device, turn};
use blk_client::{Device, Error, FunctionFault, Status, WindowRange};
use fake_platform::block_on;
use sim_fault::{CommandEffect, CommandFault, ControllerEffect, Fault, QueueKind};

/// One second, in the machine's time.
const SECOND_NS: u64 = 1_000_000_000;

/// A device whose controller does not complete its first `times` commands, or none.
fn silent(polls: bool, times: Option<u64>) -> (Machine, Device<Machine>) {
    let lost =
        Fault::Command(CommandFault { times, ..CommandFault::new(QueueKind::Io, CommandEffect::DropCompletion) });
    let machine = Machine::new(Setup { polls, faults: vec![lost], ..Setup::default() });
    let device = device(&machine);
    machine.tick_who_waits();
    (machine, device)
}

#[test]
fn requests_are_futures_on_both_ways_to_wait() {
    for polls in [false, true] {
        let machine = Machine::new(Setup { polls, depth: 3, ..Setup::default() });
        let device = device(&machine);
        block_on(device.run(async {
            let ranges: Vec<_> = (0..40).map(|_| device.window().lease(4096).unwrap()).collect();
            for (n, range) in ranges.iter().enumerate() {
                range.write_bytes(0, &[n as u8 + 1; 4096]).unwrap();
            }
            let writes: Vec<_> =
                ranges.iter().enumerate().map(|(n, range)| device.write(n as u64 * 8, &[range.whole()])).collect();
            for write in writes {
                write.await.unwrap();
            }
            device.flush().await.unwrap();
            let big = device.window().lease(40 * 4096).unwrap();
            device.read(0, &[big.whole()]).await.unwrap();
            let mut bytes = vec![0; 40 * 4096];
            big.read_bytes(0, &mut bytes).unwrap();
            assert!(bytes.chunks(4096).zip(1u8..).all(|(chunk, n)| chunk.iter().all(|byte| *byte == n)));
            assert_eq!(device.read(4096, &[big.whole()]).await, Err(Error::status(Status::OutsideExtents)));
        }));
        assert_eq!(device.in_flight(), 0);
        assert_eq!(device.window().free_bytes(), device.window().len());
        block_on(device.close()).unwrap();
        assert_eq!(machine.complaints(), [""; 0]);
    }
}

#[test]
fn changes_of_the_same_blocks_keep_their_order() {
    let machine = Machine::new(Setup::default());
    let device = device(&machine);
    let ranges: Vec<_> = (0..6).map(|_| device.window().lease(512).unwrap()).collect();
    block_on(device.run(async {
        let writes: Vec<_> = ranges
            .iter()
            .zip(1u8..)
            .map(|(range, n)| {
                range.write_bytes(0, &[n; 512]).unwrap();
                device.write(7, &[range.whole()])
            })
            .collect();
        for write in writes {
            write.await.unwrap();
        }
    }));
    assert_eq!(machine.disk(7 * 512, 512), [6; 512]);
}

#[test]
fn closing_lets_requests_end() {
    for polls in [false, true] {
        let machine = Machine::new(Setup { polls, ..Setup::default() });
        let device = device(&machine);
        let range = device.window().lease(4096).unwrap();
        range.write_bytes(0, &[5; 4096]).unwrap();
        let write = device.write(8, &[range.whole()]);
        block_on(device.close()).unwrap();
        assert_eq!(block_on(device.run(write)), Ok(()));
        assert_eq!(machine.disk(8 * 512, 4096), [5; 4096]);
        assert_eq!(block_on(device.run(device.flush())), Err(Error::CLOSED));
    }
}

#[test]
fn removed_controller_ends_all_requests() {
    for polls in [false, true] {
        let (machine, device) = silent(polls, None);
        let range = device.window().lease(512).unwrap();
        let absent = Err(Error::Device(FunctionFault::Absent));
        block_on(device.run(async {
            let reads: Vec<_> = (0..20).map(|lba| device.read(lba, &[range.whole()])).collect();
            machine.strike(ControllerEffect::Removal);
            for read in reads {
                assert_eq!(read.await, absent);
            }
            assert_eq!(device.flush().await, absent);
        }));
    }
}

#[test]
fn requests_outlive_a_reset_of_the_controller() {
    for polls in [false, true] {
        // The reset comes while these are in flight.
        let (machine, device) = silent(polls, Some(8));
        let ranges: Vec<_> = (0..20u8).map(|_| device.window().lease(512).unwrap()).collect();
        block_on(device.run(async {
            let write = |(lba, range): (u64, &WindowRange<_>)| {
                range.write_bytes(0, &[lba as u8 + 1; 512]).unwrap();
                device.write(lba, &[range.whole()])
            };
            let writes: Vec<_> = (0..).zip(&ranges).map(write).collect();
            turn().await;
            machine.reset(SECOND_NS);
            for write in writes {
                assert_eq!(write.await, Ok(()));
            }
            assert_eq!(device.flush().await, Ok(()));
        }));
        for lba in 0..20 {
            assert_eq!(machine.disk(lba * 512, 512), [lba as u8 + 1; 512]);
        }
        assert_eq!(machine.complaints(), [""; 0]);
    }
}

#[test]
fn controller_that_stays_offline_ends_all_requests() {
    for polls in [false, true] {
        let (machine, device) = silent(polls, None);
        let range = device.window().lease(512).unwrap();
        let offline = Err(Error::Device(FunctionFault::Failed));
        block_on(device.run(async {
            let reads: Vec<_> = (0..20).map(|lba| device.read(lba, &[range.whole()])).collect();
            machine.reset(u64::MAX);
            for read in reads {
                assert_eq!(read.await, offline);
            }
            assert_eq!(device.flush().await, offline);
        }));
    }
}

#[test]
fn lost_command_is_made_again_after_the_controllers_silence() {
    for polls in [false, true] {
        let (machine, device) = silent(polls, Some(1));
        block_on(device.run(async {
            let range = device.window().lease(512).unwrap();
            assert_eq!(device.read(3, &[range.whole()]).await, Ok(()));
        }));
        assert!((10 * SECOND_NS..13 * SECOND_NS).contains(&machine.now_ns()), "{} ns", machine.now_ns());
        assert_eq!((device.retries(), device.in_flight()), (1, 0));
        block_on(device.close()).unwrap();
        assert_eq!(machine.complaints(), [""; 0]);
    }
}

#[test]
fn commands_that_are_lost_every_time_end_with_an_error() {
    let (machine, device) = silent(false, None);
    block_on(device.run(async {
        let range = device.window().lease(512).unwrap();
        assert_eq!(device.read(3, &[range.whole()]).await, Err(Error::status(Status::TimedOut)));
    }));
    assert_eq!(device.in_flight(), 0);
    assert_eq!(machine.complaints(), [""; 0]);
}

#[test]
fn long_commands_have_more_time() {
    let (machine, device) = silent(false, Some(1));
    block_on(device.run(async { assert_eq!(device.flush().await, Ok(())) }));
    assert!((60 * SECOND_NS..63 * SECOND_NS).contains(&machine.now_ns()), "{} ns", machine.now_ns());
}
