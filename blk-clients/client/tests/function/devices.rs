//! The device with requests as futures, over a function.

use crate::support::{Machine, Setup, device, try_session, turn};
use blk_client::{Device, DeviceFault, Error, FunctionFault, OpenError, Status, WindowRange};
use fake_platform::block_on;
use nvme_spec::admin::Opcode as Admin;
use nvme_spec::feature::Feature;
use nvme_spec::identify::CommandSetId;
use nvme_spec::registers::Vs;
use sim_fault::{CommandEffect, CommandFault, ControllerEffect, Fault, PassingState, QueueKind};
use sim_nvme::config::{CommandLimits, Config};
use sim_nvme::{Later, NamespaceConfig};

/// A second in the machine's time.
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
    }
}

#[test]
fn another_namespace_after_a_reset_is_not_the_one_that_was_there() {
    let adapt = |config: &mut Config| {
        config.later = vec![Later { enabling: Some(2), nguid: Some([7; 16]), ..Later::default() }]
    };
    let machine = Machine::new(Setup { adapt, ..Setup::default() });
    let device = device(&machine);
    machine.tick_who_waits();
    machine.reset(SECOND_NS);
    assert_eq!(block_on(device.run(device.flush())), Err(Error::DEVICE_GONE));
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
    }
}

#[test]
fn commands_that_are_lost_every_time_end_with_an_error() {
    let (_machine, device) = silent(false, None);
    block_on(device.run(async {
        let range = device.window().lease(512).unwrap();
        assert_eq!(device.read(3, &[range.whole()]).await, Err(Error::status(Status::TimedOut)));
    }));
    assert_eq!(device.in_flight(), 0);
}

#[test]
fn long_commands_have_more_time() {
    let (machine, device) = silent(false, Some(1));
    block_on(device.run(async { assert_eq!(device.flush().await, Ok(())) }));
    assert!((60 * SECOND_NS..63 * SECOND_NS).contains(&machine.now_ns()), "{} ns", machine.now_ns());
}

/// A device whose controller fails the first `times` commands of this kind with a state that passes.
fn not_now(queues: QueueKind, opcodes: &[u8], times: u64, (crd, dnr): (u8, bool)) -> Machine {
    let adapt = |config: &mut Config| config.retry_delays_100ms = [7, 0, 0];
    Machine::new(Setup { faults: vec![passing(queues, opcodes, times, (crd, dnr))], adapt, ..Setup::default() })
}

fn passing(queues: QueueKind, opcodes: &[u8], times: u64, (crd, dnr): (u8, bool)) -> Fault {
    let effect = CommandEffect::NotNow { status: PassingState::NamespaceNotReady, crd, dnr };
    Fault::Command(CommandFault { times: Some(times), opcodes: opcodes.into(), ..CommandFault::new(queues, effect) })
}

#[test]
fn command_that_the_controller_asks_for_again_is_made_again_later() {
    for (crd, times, least_ms, most_ms) in [(0, 3, 350, 700), (1, 2, 1400, 1700)] {
        let machine = not_now(QueueKind::Io, &[], times, (crd, false));
        let device = device(&machine);
        machine.tick_who_waits();
        let before = machine.now_ns();
        block_on(device.run(async {
            let range = device.window().lease(8192).unwrap();
            range.write_bytes(0, &[5; 8192]).unwrap();
            assert_eq!(device.write(8, &[range.whole()]).await, Ok(()));
        }));
        let waited_ms = (machine.now_ns() - before) / 1_000_000;
        assert!((least_ms..most_ms).contains(&waited_ms), "{waited_ms} ms");
        assert_eq!(machine.disk(8 * 512, 8192), [5; 8192]);
        assert_eq!(device.in_flight(), 0);
        assert!(device.retries() >= 1);
    }
}

#[test]
fn command_that_must_not_be_retried_fails_at_once_and_others_after_all_retries() {
    for (dnr, commands) in [(true, 1), (false, 11)] {
        let machine = not_now(QueueKind::Io, &[], u64::MAX, (0, dnr));
        let device = device(&machine);
        machine.tick_who_waits();
        let failed = block_on(device.run(device.flush())).unwrap_err();
        assert_eq!((failed.outcome(), failed.must_not_be_retried()), (Some(Status::DeviceError), dnr));
        assert_eq!((machine.commands(), device.in_flight()), (commands, 0));
    }
}

#[test]
fn refused_discard_is_no_failure_and_limits_cut_it() {
    let machine = Machine::new(Setup {
        faults: vec![Fault::Command(CommandFault {
            times: Some(1),
            ..CommandFault::new(QueueKind::Io, CommandEffect::Status { sct: 0, sc: 2, dnr: true })
        })],
        adapt: |config| {
            config.capabilities.version = Vs::new().with_mjr(2);
            config.limits = CommandLimits { vsl: 0, wzsl: 1, dmrl: 1, dmrsl: 10, dmsl: 0 };
        },
        ..Setup::default()
    });
    let device = device(&machine);
    block_on(device.run(async {
        assert_eq!(device.discard(0, 5).await, Ok(()));
        assert_eq!(device.discard(0, 100).await, Ok(()));
        assert_eq!(device.write_zeroes(0, 100).await, Ok(()));
        assert_eq!(device.verify(0, 100).await, Ok(()));
    }));
    assert_eq!(machine.commands(), 1 + 10 + 7 + 7);
}

#[test]
fn function_is_brought_up_after_states_that_pass() {
    for opcode in [Admin::Identify, Admin::GetFeatures, Admin::SetFeatures, Admin::CreateIoCq, Admin::CreateIoSq] {
        let machine = not_now(QueueKind::Admin, &[opcode as u8], 2, (0, false));
        let device = device(&machine);
        assert_eq!(block_on(device.run(device.flush())), Ok(()), "{opcode:?}");
    }
}

#[test]
fn interrupts_that_an_earlier_driver_delayed_come_at_once() {
    for opcode in [None, Some(Admin::GetFeatures), Some(Admin::SetFeatures)] {
        let opcodes: Vec<u8> = opcode.into_iter().map(|opcode| opcode as u8).collect();
        let faults = if opcodes.is_empty() { vec![] } else { vec![passing(QueueKind::Admin, &opcodes, 2, (0, false))] };
        // Eight completions, or 25 ms.
        let adapt = |config: &mut Config| config.saved = vec![(Feature::InterruptCoalescing as u8, 0xff07)];
        let machine = Machine::new(Setup { faults, adapt, ..Setup::default() });
        let device = device(&machine);
        let begin_ns = machine.now_ns();
        assert_eq!(block_on(device.run(device.flush())), Ok(()));
        assert!(machine.now_ns() - begin_ns < 1_000_000, "{opcode:?}: {} ns", machine.now_ns() - begin_ns);
    }
}

#[test]
fn function_whose_identify_takes_most_of_a_minute_is_used() {
    let effect = CommandEffect::Delay { ns: 55 * SECOND_NS };
    let opcodes = vec![Admin::Identify as u8];
    let slow = CommandFault { times: Some(1), opcodes, ..CommandFault::new(QueueKind::Admin, effect) };
    let machine = Machine::new(Setup { faults: vec![Fault::Command(slow)], ..Setup::default() });
    let device = device(&machine);
    assert!(machine.now_ns() > 55 * SECOND_NS);
    assert_eq!(block_on(device.run(device.flush())), Ok(()));
}

#[test]
fn function_without_a_list_of_namespaces_is_used() {
    let adapt = |config: &mut Config| config.capabilities.version = Vs::new().with_mjr(1);
    let machine = Machine::new(Setup { adapt, ..Setup::default() });
    let device = device(&machine);
    assert_eq!(block_on(device.run(device.flush())), Ok(()));
}

#[test]
fn first_namespace_that_can_be_used_is_used() {
    let adapt = |config: &mut Config| {
        config.capabilities.version = Vs::new().with_mjr(2);
        config.capabilities.other_command_sets = true;
        let zoned = NamespaceConfig { command_set: CommandSetId::Zoned, ..NamespaceConfig::zeroes(1 << 20) };
        let with_metadata = NamespaceConfig { metadata: 8, ..NamespaceConfig::zeroes(1 << 20) };
        config.namespaces.splice(0..0, [zoned, with_metadata]);
    };
    let machine = Machine::new(Setup { blocks: 4000, adapt, ..Setup::default() });
    let device = device(&machine);
    assert_eq!(device.geometry().blocks, 4000);
    assert_eq!(block_on(device.run(device.flush())), Ok(()));
}

/// A machine that refuses Identify for namespace 1, of blocks of its own, this often.
fn unidentified(times: Option<u64>, dnr: bool, adapt: fn(&mut Config)) -> Machine {
    let refused = CommandFault {
        opcodes: vec![Admin::Identify as u8],
        nsid: Some(1),
        times,
        ..CommandFault::new(QueueKind::Admin, CommandEffect::Status { sct: 0, sc: 6, dnr })
    };
    let machine =
        Machine::new(Setup { blocks: 4000, faults: vec![Fault::Command(refused)], adapt, ..Setup::default() });
    machine.tick_who_waits();
    machine
}

#[test]
fn namespace_that_is_refused_leaves_the_others_as_they_are() {
    let blocks = |machine: &Machine| device(machine).geometry().blocks;
    assert_eq!(blocks(&unidentified(Some(1), false, |_| ())), 4000, "a refusal that passes");
    let with_another = |config: &mut Config| config.namespaces.push(NamespaceConfig::zeroes(1 << 20));
    for dnr in [false, true] {
        assert_eq!(blocks(&unidentified(None, dnr, with_another)), 2048);
    }
    let refused = try_session(&unidentified(None, true, |_| ())).err();
    // Internal Error, with More and DNR.
    let status = nvme_spec::Status::from_raw(0x6006);
    assert_eq!(refused, Some(OpenError::Device(DeviceFault::Refused(status))));
}
