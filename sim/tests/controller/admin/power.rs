//! Power states and the keep alive timer.

use nvme_spec::admin;
use nvme_spec::feature::{
    AutonomousPower, Feature, IdleTransition, PowerManagement, Select, get_feature, get_feature_selected, set_feature,
};
use nvme_spec::identify::Controller;
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::{Cid, Lba, Nsid, Sqe, StatusCode};
use sim_nvme::{AdminConfig, Config, Operation, PowerLevel};

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

/// Sets the transitions of an idle controller: by state, to state, after milliseconds.
fn transitions(driver: &mut Driver, is_enabled: bool, table: &[(usize, u8, u32)]) -> Sqe {
    let mut data = [IdleTransition::default(); 32];
    table.iter().for_each(|&(from, to, idle_ms)| data[from] = IdleTransition::new(to, idle_ms));
    driver.put(&data);
    let value = AutonomousPower::new().with_enabled(is_enabled).into_bits();
    Sqe { prp1: PAGE.prp1, ..set_feature(CID, Feature::AutonomousPower, value) }
}

/// A controller with a further power state, which processes no I/O.
fn with_deeper_state() -> Driver {
    let mut admin = AdminConfig::default();
    let deeper =
        PowerLevel { max_power_10mw: 1, operation: Operation::NonOperational, entry_us: 3_000, exit_us: 9_000 };
    admin.power_states.push(deeper);
    Driver::new(Config { admin, ..config() })
}

#[test]
fn an_idle_controller_goes_to_rest_step_by_step_and_wakes_for_io() {
    let mut driver = with_deeper_state();
    driver.make_io_queue();
    let quick_ns = time_of_read(&mut driver);
    let sqe = transitions(&mut driver, true, &[(0, 2, 100), (2, 3, 50)]);
    driver.succeed(sqe);
    time_of_read(&mut driver);
    driver.pass(99_000_000);
    assert_eq!(state(&mut driver), 0);
    driver.pass(2_000_000);
    assert_eq!(state(&mut driver), 2);
    // From the end of the transition on, which takes 2 ms.
    driver.pass(49_000_000);
    assert_eq!(state(&mut driver), 2);
    driver.pass(3_000_000);
    assert_eq!(state(&mut driver), 3);
    driver.pass(1_000_000_000);
    assert_eq!(time_of_read(&mut driver) - quick_ns, 9_000_000);
    assert_eq!((state(&mut driver), time_of_read(&mut driver)), (0, quick_ns));
    // Both at once, when nobody looks in between.
    driver.pass(1_000_000_000);
    assert_eq!(time_of_read(&mut driver) - quick_ns, 9_000_000);
    let sqe = transitions(&mut driver, false, &[(0, 2, 100)]);
    driver.succeed(sqe);
    driver.pass(1_000_000_000);
    assert_eq!((state(&mut driver), time_of_read(&mut driver)), (0, quick_ns));
    driver.assert_clean();
}

#[test]
fn transitions_lead_to_states_of_rest_alone() {
    let mut driver = Driver::new(config());
    for (to, idle_ms) in [(0, 1), (1, 1), (3, 1), (31, 1)] {
        let sqe = transitions(&mut driver, true, &[(0, to, idle_ms)]);
        driver.refuse(sqe, StatusCode::InvalidField);
    }
    let sqe = transitions(&mut driver, true, &[]);
    driver.put(&[1_u8]);
    driver.refuse(sqe, StatusCode::InvalidField);
    driver.put(&[0_u8, 0, 0, 0, 1]);
    driver.refuse(sqe, StatusCode::InvalidField);
    // Without a time it is no transition.
    let sqe = transitions(&mut driver, true, &[(0, 1, 0)]);
    driver.succeed(sqe);
    driver.refuse_field(Sqe { cdw11: 2, ..sqe }, 11);
}

#[test]
fn transitions_are_read_back_and_can_be_saved() {
    let mut driver = Driver::new(config());
    let get = |select| Sqe { prp1: PAGE.prp1, ..get_feature_selected(CID, Feature::AutonomousPower, select) };
    let sqe = transitions(&mut driver, true, &[(1, 2, 7)]);
    driver.succeed(Sqe { cdw10: sqe.cdw10 | 1 << 31, ..sqe });
    let sqe = transitions(&mut driver, false, &[(0, 2, 9)]);
    driver.succeed(sqe);
    let read = |driver: &mut Driver, select| {
        driver.fill(0xee);
        let dw0 = driver.succeed(get(select));
        let table: [IdleTransition; 32] = driver.data();
        (dw0, [0, 1].map(|state: usize| (table[state].state(), table[state].idle_ms())))
    };
    assert_eq!(read(&mut driver, Select::Current), (0, [(2, 9), (0, 0)]));
    assert_eq!(read(&mut driver, Select::Saved), (1, [(0, 0), (2, 7)]));
    assert_eq!(read(&mut driver, Select::Default), (0, [(0, 0), (0, 0)]));
    driver.reset();
    assert_eq!(read(&mut driver, Select::Current), (1, [(0, 0), (2, 7)]));
}

#[test]
fn without_a_state_of_rest_there_are_no_transitions() {
    let mut admin = AdminConfig::default();
    admin.power_states.truncate(2);
    let mut driver = Driver::new(Config { admin, ..config() });
    let sqe = transitions(&mut driver, true, &[]);
    driver.refuse(sqe, StatusCode::InvalidField);
    driver.succeed(admin::identify_controller(CID, PAGE));
    assert_eq!(driver.data::<Controller>().apsta, 0);
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
