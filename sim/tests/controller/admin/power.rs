//! Power states and the keep alive timer.

use nvme_spec::admin;
use nvme_spec::feature::{Feature, PowerManagement, get_feature, set_feature};
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::{Cid, Lba, Nsid};
use sim_nvme::{AdminConfig, Config};

use super::support::{Driver, PAGE, config};

const CID: Cid = Cid(0);
const IDLE: u8 = 2;

fn enter(driver: &mut Driver, state: u8) -> u64 {
    let start_ns = driver.now_ns;
    let value = PowerManagement::new().with_state(state).into_bits();
    driver.succeed(set_feature(CID, Feature::PowerManagement, value));
    driver.now_ns - start_ns
}

fn state(driver: &mut Driver) -> u8 {
    PowerManagement::from_bits(driver.succeed(get_feature(CID, Feature::PowerManagement))).state()
}

fn time_of_read(driver: &mut Driver) -> u64 {
    let start_ns = driver.now_ns;
    let read = nvm::read(CID, Nsid(1), Blocks::new(Lba(0), 1).unwrap(), PAGE);
    assert!(driver.io(read).status().is_success());
    driver.now_ns - start_ns
}

#[test]
fn entering_a_state_takes_its_latency() {
    let mut driver = Driver::new(config());
    assert!(enter(&mut driver, 0) < 100_000);
    assert!((2_000_000..2_100_000).contains(&enter(&mut driver, IDLE)));
    assert_eq!(state(&mut driver), IDLE);
    assert!((5_010_000..5_110_000).contains(&enter(&mut driver, 1)));
}

#[test]
fn an_io_command_wakes_the_controller_into_the_state_before() {
    let mut driver = Driver::new(config());
    driver.make_io_queue();
    enter(&mut driver, 1);
    let quick_ns = time_of_read(&mut driver);
    enter(&mut driver, IDLE);
    // Admin commands are processed in it.
    assert_eq!(state(&mut driver), IDLE);
    let slow_ns = time_of_read(&mut driver);
    // Leaving the idle state, entering the one before.
    assert_eq!(slow_ns - quick_ns, 5_010_000);
    assert_eq!(state(&mut driver), 1);
    assert_eq!(time_of_read(&mut driver), quick_ns);
}

#[test]
fn a_reset_brings_the_first_state_back() {
    let mut driver = Driver::new(config());
    enter(&mut driver, IDLE);
    driver.reset();
    assert_eq!(state(&mut driver), 0);
    driver.make_io_queue();
    assert!(time_of_read(&mut driver) < 1_000_000);
}

fn with_keep_alive() -> Driver {
    Driver::new(Config { admin: AdminConfig { keep_alive_100ms: 1, ..AdminConfig::default() }, ..config() })
}

#[test]
fn a_silent_host_counts_as_gone() {
    let mut driver = with_keep_alive();
    driver.succeed(set_feature(CID, Feature::KeepAliveTimer, 1));
    // Rounded up to the granularity of the timer.
    assert_eq!(driver.succeed(get_feature(CID, Feature::KeepAliveTimer)), 100);
    driver.pass(99_000_000);
    assert!(!driver.csts().cfs());
    driver.pass(2_000_000);
    assert!(driver.csts().cfs());
    driver.reset();
    driver.pass(10_000_000_000);
    assert!(!driver.csts().cfs());
}

#[test]
fn keep_alive_starts_the_timer_again() {
    let mut driver = with_keep_alive();
    driver.succeed(set_feature(CID, Feature::KeepAliveTimer, 100));
    for _ in 0..5 {
        driver.pass(90_000_000);
        driver.succeed(admin::keep_alive(CID));
    }
    assert!(!driver.csts().cfs());
    driver.succeed(set_feature(CID, Feature::KeepAliveTimer, 0));
    driver.pass(10_000_000_000);
    assert!(!driver.csts().cfs());
}

#[test]
fn other_commands_do_not_keep_the_host_alive() {
    let mut driver = with_keep_alive();
    driver.succeed(set_feature(CID, Feature::KeepAliveTimer, 100));
    driver.pass(90_000_000);
    driver.succeed(admin::identify_controller(CID, PAGE));
    driver.pass(20_000_000);
    assert!(driver.csts().cfs());
}

#[test]
fn every_command_waits_until_the_controller_is_awake() {
    let mut driver = Driver::new(config());
    driver.make_io_queue();
    enter(&mut driver, IDLE);
    let start_ns = driver.now_ns;
    let read = nvm::read(CID, Nsid(1), Blocks::new(Lba(0), 1).unwrap(), PAGE);
    let [first, second] = [driver.submit(1, read), driver.submit(1, read)];
    driver.wait(second);
    assert!(driver.now_ns - start_ns >= 5_000_000);
    driver.wait(first);
}
