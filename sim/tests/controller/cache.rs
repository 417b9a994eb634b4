//! The volatile write cache: data that a power loss may take, and data that it may not.

use nvme_spec::admin::QueuePriority;
use nvme_spec::feature::{Feature, set_feature};
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::registers::{Arbitration, Register, ShutdownNotification};
use nvme_spec::{Cid, Lba, Nsid, Sqe, Status};
use proptest::prelude::*;
use sim_nvme::config::Cache;
use sim_nvme::{Config, Profile, profile::Media};

use crate::driver::{Driver, config};

const ONE: Nsid = Nsid(1);
const SECOND: u64 = 1_000_000_000;

/// A cache from which nothing goes to the media by itself for ten seconds.
fn lazy() -> Config {
    let cache = Some(Cache { bytes: 1 << 20, linger_ns: 10 * SECOND });
    Config { cache, profile: Profile::before(Media::FLASH), ..config() }
}

fn write(driver: &mut Driver, block: u64, value: u8) -> Sqe {
    let (address, data) = driver.buffer(512);
    driver.bytes_mut(address, 512).fill(value);
    nvm::write(Cid(0), ONE, Blocks::new(Lba(block), 1).unwrap(), data)
}

fn done(driver: &mut Driver, sqe: Sqe) -> u64 {
    let start = driver.now_ns;
    assert_eq!(driver.execute(1, sqe).status(), Status::SUCCESS);
    driver.now_ns - start
}

fn up(config: Config, seed: u64) -> Driver {
    let mut driver = Driver::seeded(config, seed);
    driver.enable(Arbitration::RoundRobin);
    driver.create_pair(1, 64, QueuePriority::Urgent);
    driver
}

fn block(driver: &Driver, number: u64) -> u8 {
    let mut bytes = [0; 512];
    driver.controller.read_contents(1, number * 512, &mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "no block is torn");
    bytes[0]
}

/// Returns how many of 64 blocks, written once each and changed by `after`, survive a power loss.
fn survivors(config: Config, seed: u64, after: impl FnOnce(&mut Driver)) -> usize {
    let mut driver = up(config, seed);
    for number in 0..64 {
        let sqe = write(&mut driver, number, 1);
        done(&mut driver, sqe);
    }
    after(&mut driver);
    driver.controller.power_loss(driver.now_ns);
    (0..64).filter(|&number| block(&driver, number) == 1).count()
}

#[test]
fn cached_writes_may_be_lost_and_flushed_ones_never() {
    let left: Vec<usize> = (0..20).map(|seed| survivors(lazy(), seed, |_| {})).collect();
    assert!(left.contains(&0) && left.contains(&64) && left.iter().any(|count| (1..64).contains(count)), "{left:?}");
    for nsid in [ONE, Nsid::ALL] {
        let flush = |driver: &mut Driver| assert!(done(driver, nvm::flush(Cid(0), nsid)) > 0);
        assert!((0..20).all(|seed| survivors(lazy(), seed, flush) == 64));
    }
}

#[test]
fn what_lingered_long_enough_is_durable() {
    let wait = |driver: &mut Driver| driver.advance_to(driver.now_ns + 11 * SECOND);
    assert!((0..20).all(|seed| survivors(lazy(), seed, wait) == 64));
}

#[test]
fn a_normal_shutdown_makes_everything_durable() {
    let shut_down = |driver: &mut Driver| {
        let cc = Driver::cc(Arbitration::RoundRobin).with_en(true).with_shn(ShutdownNotification::Normal);
        driver.set(Register::Cc, cc.into_bits());
        driver.run();
    };
    assert!((0..20).all(|seed| survivors(lazy(), seed, shut_down) == 64));
}

#[test]
fn a_controller_reset_loses_nothing() {
    let mut driver = Driver::with_queues(lazy(), 1);
    let sqe = write(&mut driver, 3, 9);
    done(&mut driver, sqe);
    driver.set(Register::Cc, 0);
    driver.run();
    assert_eq!(block(&driver, 3), 9);
}

#[test]
fn without_a_cache_every_completed_write_is_durable() {
    assert!((0..20).all(|seed| survivors(Config { cache: None, ..lazy() }, seed, |_| {}) == 64));
}

#[test]
fn the_cache_can_be_switched_off() {
    let mut driver = Driver::with_queues(lazy(), 1);
    let sqe = write(&mut driver, 0, 1);
    let cached_ns = done(&mut driver, sqe);
    let off = set_feature(Cid(0), Feature::VolatileWriteCache, 0);
    assert_eq!(driver.execute(0, off).status(), Status::SUCCESS);
    let sqe = write(&mut driver, 0, 2);
    let programmed_ns = done(&mut driver, sqe);
    assert!(cached_ns < 10_000 && programmed_ns > 300_000, "{cached_ns} {programmed_ns}");
    driver.controller.power_loss(driver.now_ns);
    assert_eq!(block(&driver, 0), 2);
}

#[test]
fn fua_write_is_not_undone_by_older_writes() {
    for round in 0..20 {
        let mut driver = up(lazy(), u64::from(round));
        for value in 1..=round {
            let sqe = write(&mut driver, 0, value);
            done(&mut driver, sqe);
        }
        let sqe = write(&mut driver, 0, 99).with_force_unit_access();
        assert!(done(&mut driver, sqe) > 300_000);
        driver.controller.power_loss(driver.now_ns);
        assert_eq!(block(&driver, 0), 99);
    }
}

#[test]
fn a_full_cache_slows_writes_down_to_the_media() {
    let cache = Some(Cache { bytes: 4096, linger_ns: 10 * SECOND });
    let mut driver = Driver::with_queues(Config { cache, ..lazy() }, 1);
    let times: Vec<u64> = (0..20)
        .map(|number| {
            let sqe = write(&mut driver, number, 1);
            done(&mut driver, sqe)
        })
        .collect();
    assert!(times[..8].iter().all(|&ns| ns < 10_000), "{times:?}");
    assert!(times.iter().any(|&ns| ns > 200_000), "{times:?}");
}

#[test]
fn the_registers_after_a_power_loss_are_those_after_power_on() {
    let mut driver = Driver::with_queues(lazy(), 1);
    driver.controller.power_loss(driver.now_ns);
    assert_eq!((driver.get(Register::Cc), driver.get(Register::Csts), driver.get(Register::Aqa)), (0, 0, 0));
    let counters = driver.controller.counters();
    assert_eq!((counters.power_cycles, counters.unsafe_shutdowns), (2, 1));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write(u64),
    Force(u64),
    Flush,
    Deallocate(u64),
    Lose,
}

fn step() -> impl Strategy<Value = Step> {
    let block = 0..8_u64;
    prop_oneof![
        6 => block.clone().prop_map(Step::Write),
        1 => block.clone().prop_map(Step::Force),
        1 => Just(Step::Flush),
        1 => block.prop_map(Step::Deallocate),
        1 => Just(Step::Lose),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// By block: after a loss it holds the last durable value or a later one, and that is then durable.
    #[test]
    fn a_power_loss_keeps_what_was_flushed(
        steps in proptest::collection::vec(step(), 1..60), seed in any::<u64>(),
    ) {
        let mut driver = up(lazy(), seed);
        let mut possible = vec![vec![0_u8]; 8];
        for (value, step) in (1..).zip(steps) {
            match step {
                Step::Write(block) => {
                    let sqe = write(&mut driver, block, value);
                    done(&mut driver, sqe);
                    possible[block as usize].push(value);
                }
                Step::Force(block) => {
                    let sqe = write(&mut driver, block, value).with_force_unit_access();
                    done(&mut driver, sqe);
                    possible[block as usize] = vec![value];
                }
                Step::Deallocate(block) => {
                    let blocks = Blocks::new(Lba(block), 1).unwrap();
                    done(&mut driver, nvm::write_zeroes(Cid(0), ONE, blocks).with_deallocate());
                    possible[block as usize].push(0);
                }
                Step::Flush => {
                    done(&mut driver, nvm::flush(Cid(0), ONE));
                    possible.iter_mut().for_each(|values| drop(values.drain(..values.len() - 1)));
                }
                Step::Lose => {
                    driver.controller.power_loss(driver.now_ns);
                    for (number, values) in (0..).zip(&mut possible) {
                        let left = block(&driver, number);
                        prop_assert!(values.contains(&left), "block {}: {} not of {:?}", number, left, values);
                        *values = vec![left];
                    }
                    driver.enable(Arbitration::RoundRobin);
                    driver.create_pair(1, 64, QueuePriority::Urgent);
                }
            }
        }
    }
}
