//! Faults of single commands.

use nvme_spec::feature::{Feature, HostBehavior, set_feature_by_data};
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::{Cid, Cqe, Lba, Nsid, Sqe, Status, StatusCode};
use sim_fault::{CommandEffect, CommandFault, Fault, PassingState, QueueKind};
use sim_nvme::{Config, Controller};

use zerocopy::IntoBytes;

use crate::driver::{Driver, config};

const ONE: Nsid = Nsid(1);

fn fault(effect: CommandEffect) -> CommandFault {
    CommandFault::new(QueueKind::Io, effect)
}

fn driver(fault: CommandFault) -> Driver {
    Driver::with_queues(Config { faults: vec![Fault::Command(fault)], ..config() }, 1)
}

fn hits(controller: &Controller) -> Vec<u64> {
    controller.faults_hit().collect()
}

fn verify(start: u64) -> Sqe {
    nvm::verify(Cid(0), ONE, Blocks::new(Lba(start), 1).unwrap())
}

/// Submits a command, lets everything happen, and returns the completions posted.
fn posted(driver: &mut Driver, sqe: Sqe) -> (Cid, Vec<Cqe>) {
    let cid = driver.submit(1, sqe);
    driver.ring(1);
    driver.run();
    (cid, driver.take_all(1))
}

const STATUS: CommandEffect = CommandEffect::Status { sct: 2, sc: 0x81, dnr: false };

fn is_hit(driver: &mut Driver, sqe: Sqe) -> bool {
    driver.execute(1, sqe).status().code() == StatusCode::UnrecoveredRead
}

#[test]
fn a_command_that_is_hit_is_not_done() {
    let mut driver = driver(CommandFault { opcodes: vec![nvm::Opcode::Write as u8], ..fault(STATUS) });
    let (address, data) = driver.buffer(512);
    driver.bytes_mut(address, 512).fill(1);
    let blocks = Blocks::new(Lba(0), 1).unwrap();
    assert!(is_hit(&mut driver, nvm::write(Cid(0), ONE, blocks, data)));
    assert!(!is_hit(&mut driver, nvm::read(Cid(0), ONE, blocks, data)));
    assert_eq!(driver.bytes(address, 512), [0; 512], "nothing was written");
    assert_eq!(hits(&driver.controller), [1]);
}

#[test]
fn fault_that_concerns_no_command_is_known_as_missed() {
    let missed = |fault: CommandFault| {
        let mut driver = driver(fault);
        driver.execute(1, verify(0));
        driver.controller.faults_missed().collect::<Vec<_>>()
    };
    assert_eq!(missed(fault(STATUS)), [false]);
    assert_eq!(missed(CommandFault { opcodes: vec![0x77], ..fault(STATUS) }), [true]);
    assert_eq!(missed(CommandFault { skip: 1, ..fault(STATUS) }), [true]);
    // By chance, it might have hit: once in a million, and never.
    assert_eq!(missed(CommandFault { per_million: 1, ..fault(STATUS) }), [false]);
    assert_eq!(missed(CommandFault { per_million: 1, skip: 1, ..fault(STATUS) }), [true]);
    assert_eq!(missed(CommandFault { per_million: 1, nsid: Some(2), ..fault(STATUS) }), [true]);
}

#[test]
fn fault_that_hits_commands_and_changes_nothing_is_missed() {
    use CommandEffect::{CorruptData, DropCompletion, LateSqhd, LoseInterrupt, WrongAddress};
    let missed = |fault: CommandFault, sqes: &[Sqe]| {
        let mut driver = driver(fault);
        sqes.iter().for_each(|sqe| drop(posted(&mut driver, *sqe)));
        driver.controller.faults_missed().collect::<Vec<_>>()
    };
    let (_, data) = driver(fault(STATUS)).buffer(4096);
    let read = nvm::read(Cid(0), ONE, Blocks::new(Lba(0), 8).unwrap(), data);
    let flush = nvm::flush(Cid(0), ONE);
    for effect in [CorruptData, WrongAddress] {
        assert_eq!(missed(fault(effect), &[flush, flush]), [true], "{effect:?}: no data is moved");
        assert_eq!(missed(fault(effect), &[flush, read]), [false], "{effect:?}");
        // By chance it hits all of them, or none.
        let often = CommandFault { per_million: 999_999, ..fault(effect) };
        assert_eq!(missed(often, &[flush]), [true], "{effect:?}");
    }
    for effect in [LateSqhd, LoseInterrupt, DropCompletion] {
        assert_eq!(missed(fault(effect), &[flush]), [false], "{effect:?}");
    }
    // Both are fetched before the first one is done, so both completions report the same head.
    let mut together = driver(CommandFault { skip: 1, ..fault(LateSqhd) });
    for _ in 0..2 {
        together.submit(1, flush);
    }
    together.ring(1);
    together.run();
    assert_eq!(together.take_all(1).iter().map(Cqe::sq_head).collect::<Vec<_>>(), [2, 2]);
    assert_eq!(together.controller.faults_missed().collect::<Vec<_>>(), [true]);
}

#[test]
fn of_two_faults_with_one_effect_each_hits_a_command_of_its_own() {
    use CommandEffect::{CorruptData, Delay, DropCompletion, DuplicateCompletion, LateSqhd, LoseInterrupt, NotNow};
    use CommandEffect::{StalePhase, WrongAddress, WrongCid, WrongSqhd};
    let not_now = NotNow { status: PassingState::CommandInterrupted, crd: 0, dnr: false };
    let apart = [
        STATUS,
        not_now,
        DropCompletion,
        DuplicateCompletion,
        WrongCid,
        WrongSqhd,
        LateSqhd,
        StalePhase,
        LoseInterrupt,
        CorruptData,
        WrongAddress,
    ];
    let pairs = apart.map(|effect| ([effect; 2], 0)).into_iter();
    let delay = Delay { ns: 5 };
    for (effects, second) in pairs.chain([([not_now, STATUS], 0), ([delay, delay], 1), ([delay, DropCompletion], 1)]) {
        let faults = effects.map(|effect| Fault::Command(CommandFault { skip: 1, times: Some(1), ..fault(effect) }));
        let mut driver = Driver::with_queues(Config { faults: faults.into(), ..config() }, 1);
        let (_, data) = driver.buffer(4096);
        let read = nvm::read(Cid(0), ONE, Blocks::new(Lba(0), 8).unwrap(), data);
        for count in [[0, 0], [1, second], [1, 1], [1, 1]] {
            posted(&mut driver, read);
            assert_eq!(hits(&driver.controller), count, "{effects:?}");
        }
        assert_eq!(driver.controller.faults_missed().collect::<Vec<_>>(), [false; 2], "{effects:?}");
    }
}

#[test]
fn do_not_retry_is_reported() {
    let mut driver = driver(fault(CommandEffect::Status { sct: 2, sc: 0x81, dnr: true }));
    assert!(driver.execute(1, verify(0)).status().do_not_retry());
}

#[test]
fn state_that_passes_names_a_delay_to_a_host_that_keeps_it() {
    let effect = CommandEffect::NotNow { status: PassingState::CommandInterrupted, crd: 2, dnr: false };
    let faults = vec![Fault::Command(fault(effect))];
    for (retry_delays_100ms, named) in [([1, 2, 3], 2), ([0; 3], 0)] {
        let config = Config { faults: faults.clone(), retry_delays_100ms, ..config() };
        let mut driver = Driver::with_queues(config, 1);
        assert_eq!(driver.execute(1, verify(0)).status().retry_delay_index(), 0, "nobody has said that it keeps them");
        let (address, data) = driver.buffer(512);
        driver.bytes_mut(address, 512).copy_from_slice(HostBehavior::RETRIES_LATER.as_bytes());
        let set = driver.execute(0, set_feature_by_data(Cid(0), Feature::HostBehavior, data)).status();
        assert_eq!(set.is_success(), named != 0, "without delays it has no such feature");
        let status = driver.execute(1, verify(0)).status();
        assert_eq!((status.code(), status.retry_delay_index()), (StatusCode::CommandInterrupted, named));
    }
}

#[test]
fn only_commands_that_name_the_blocks_are_hit() {
    let blocks = Some(sim_fault::Blocks { first: 10, count: 2 });
    let mut driver = driver(CommandFault { blocks, ..fault(STATUS) });
    let hit: Vec<u64> = (8..14).filter(|&start| is_hit(&mut driver, verify(start))).collect();
    assert_eq!(hit, [10, 11]);
    let across = nvm::verify(Cid(0), ONE, Blocks::new(Lba(0), 11).unwrap());
    assert!(is_hit(&mut driver, across));
    assert!(!is_hit(&mut driver, nvm::flush(Cid(0), ONE)));
}

#[test]
fn namespaces_queues_and_opcodes_are_conditions() {
    let mut other = driver(CommandFault { nsid: Some(2), ..fault(STATUS) });
    assert!(!is_hit(&mut other, verify(0)));
    assert!(is_hit(&mut other, nvm::flush(Cid(0), Nsid(2))));
    let mut admin = driver(CommandFault { opcodes: vec![0x0a], queues: QueueKind::Admin, ..fault(STATUS) });
    assert!(!is_hit(&mut admin, verify(0)));
    let get = nvme_spec::feature::get_feature(Cid(0), nvme_spec::feature::Feature::Arbitration);
    assert_eq!(admin.execute(0, get).status().code(), StatusCode::UnrecoveredRead);
}

#[test]
fn counts_let_pass_then_hit_then_stop() {
    let mut driver = driver(CommandFault { skip: 2, times: Some(3), ..fault(STATUS) });
    let hit: Vec<bool> = (0..8).map(|_| is_hit(&mut driver, verify(0))).collect();
    assert_eq!(hit, [false, false, true, true, true, false, false, false]);
    assert_eq!(hits(&driver.controller), [3]);
}

#[test]
fn times_bound_a_fault_on_both_sides() {
    let mut driver = driver(CommandFault { from_ns: 5_000_000, until_ns: Some(6_000_000), ..fault(STATUS) });
    assert!(!is_hit(&mut driver, verify(0)));
    driver.advance_to(5_000_000);
    assert!(is_hit(&mut driver, verify(0)));
    driver.advance_to(6_000_000);
    assert!(!is_hit(&mut driver, verify(0)));
}

#[test]
fn chances_hit_as_often_as_they_say() {
    let mut driver = driver(CommandFault { per_million: 300_000, ..fault(STATUS) });
    let count = (0..2_000).filter(|_| is_hit(&mut driver, verify(0))).count();
    assert!((500..700).contains(&count), "{count}");
    assert_eq!(hits(&driver.controller), [count as u64]);
}

#[test]
fn a_delay_is_added_to_what_the_command_takes() {
    let time = |effect| {
        let mut driver = driver(fault(effect));
        let start = driver.now_ns;
        driver.execute(1, verify(0));
        driver.now_ns - start
    };
    assert_eq!(time(CommandEffect::Delay { ns: 123_456 }), time(CommandEffect::LoseInterrupt) + 123_456);
}

#[test]
fn a_dropped_completion_never_comes_though_the_command_was_done() {
    let mut driver = driver(CommandFault { times: Some(1), ..fault(CommandEffect::DropCompletion) });
    let (address, data) = driver.buffer(512);
    driver.bytes_mut(address, 512).fill(7);
    let write = nvm::write(Cid(0), ONE, Blocks::new(Lba(0), 1).unwrap(), data);
    assert_eq!(posted(&mut driver, write).1, []);
    let mut bytes = [0; 512];
    driver.controller.read_contents(1, 0, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 512]);
    assert_eq!(driver.execute(1, verify(0)).status(), Status::SUCCESS);
}

#[test]
fn a_duplicated_completion_comes_twice() {
    let mut driver = driver(fault(CommandEffect::DuplicateCompletion));
    let (cid, cqes) = posted(&mut driver, verify(0));
    assert_eq!(cqes.iter().map(Cqe::cid).collect::<Vec<_>>(), [cid, cid]);
}

#[test]
fn a_wrong_identifier_is_that_of_no_command() {
    let mut driver = driver(CommandFault { times: Some(1), ..fault(CommandEffect::WrongCid) });
    let cids = [driver.submit(1, verify(0)), driver.submit(1, verify(1)), driver.submit(1, verify(2))];
    driver.ring(1);
    driver.run();
    let cqes = driver.take_all(1);
    let wrong = cqes[0].cid();
    assert!(cids.iter().all(|cid| cid.0.abs_diff(wrong.0) > 1024), "nor of one that waits unread: {cqes:?}");
    assert_eq!(cqes[1..].iter().map(Cqe::cid).collect::<Vec<_>>(), cids[1..]);
}

#[test]
fn a_wrong_head_is_where_nothing_was_submitted() {
    let mut driver = driver(CommandFault { times: Some(1), ..fault(CommandEffect::WrongSqhd) });
    let (_, cqes) = posted(&mut driver, verify(0));
    assert_eq!(cqes[0].sq_head(), 2, "the tail is 1");
    assert_eq!(driver.execute(1, verify(0)).sq_head(), 2);
}

#[test]
fn a_late_head_is_the_one_that_was_reported_before() {
    let late = CommandFault { skip: 1, times: Some(1), ..fault(CommandEffect::LateSqhd) };
    let mut driver = driver(late);
    let heads: Vec<u16> = (0..3).map(|_| driver.execute(1, verify(0)).sq_head()).collect();
    assert_eq!(heads, [1, 1, 3]);
}

#[test]
fn a_stale_phase_hides_the_completion() {
    let mut driver = driver(CommandFault { times: Some(1), ..fault(CommandEffect::StalePhase) });
    let (cid, cqes) = posted(&mut driver, verify(0));
    assert_eq!(cqes, []);
    let entry = driver.bytes(driver.pairs[1].cq, 16);
    assert_eq!(entry[12..14], cid.0.to_le_bytes(), "it is there all the same");
    assert_eq!(entry[14] & 1, 0);
}

#[test]
fn a_lost_interrupt_is_lost_and_the_completion_is_there() {
    let mut driver = driver(CommandFault { times: Some(1), ..fault(CommandEffect::LoseInterrupt) });
    assert_eq!(posted(&mut driver, verify(0)).1.len(), 1);
    assert_eq!(driver.machine.messages.get(&1), None);
    posted(&mut driver, verify(0));
    assert_eq!(driver.machine.messages.get(&1), Some(&1));
}

#[test]
fn corrupted_data_differ_in_one_bit_and_complete_with_success() {
    let mut driver = driver(CommandFault { opcodes: vec![2], times: Some(1), ..fault(CommandEffect::CorruptData) });
    let (address, data) = driver.buffer(8192);
    let blocks = Blocks::new(Lba(0), 16).unwrap();
    let flipped = |driver: &mut Driver| {
        assert_eq!(driver.execute(1, nvm::read(Cid(0), ONE, blocks, data)).status(), Status::SUCCESS);
        driver.bytes(address, 8192).iter().map(|byte| byte.count_ones()).sum::<u32>()
    };
    assert_eq!(flipped(&mut driver), 1);
    assert_eq!(flipped(&mut driver), 0, "the media are as they were");
}

#[test]
fn misplaced_data_go_one_page_further_and_succeed() {
    let mut driver = driver(CommandFault { opcodes: vec![2], times: Some(1), ..fault(CommandEffect::WrongAddress) });
    let (address, data) = driver.buffer(8192);
    driver.bytes_mut(address, 8192).fill(7);
    let blocks = Blocks::new(Lba(0), 8).unwrap();
    let read = |driver: &mut Driver| {
        assert_eq!(driver.execute(1, nvm::read(Cid(0), ONE, blocks, data)).status(), Status::SUCCESS);
        let bytes = driver.bytes(address, 8192);
        [&bytes[..4096], &bytes[4096..]].map(|page| page.iter().all(|byte| *byte == 0))
    };
    assert_eq!(read(&mut driver), [false, true]);
    assert_eq!(read(&mut driver), [true, true]);
}
