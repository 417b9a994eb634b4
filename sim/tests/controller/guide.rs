//! Actions of the controller that a test of a driver requests.

use crate::driver::{Driver, config};
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::registers::{Cc, IOCQES_16, IOSQES_64, Register};
use nvme_spec::{Cid, Lba, Nsid, QueueId, Status, StatusCode};
use sim_fault::{CommandEffect, CommandFault, ControllerEffect, Fault, QueueKind};
use sim_nvme::Config;

const PAIR: QueueId = QueueId(1);

/// Commands wait for an hour before they are done.
fn waiting() -> Driver {
    let fault = CommandFault::new(QueueKind::Io, CommandEffect::Delay { ns: 3_600_000_000_000 });
    Driver::with_queues(Config { faults: vec![Fault::Command(fault)], ..config() }, 1)
}

/// Writes of ones to blocks 0 and 1, fetched.
fn writes(driver: &mut Driver) -> [Cid; 2] {
    let (address, data) = driver.buffer(512);
    driver.bytes_mut(address, 512).fill(1);
    let write = |lba| nvm::write(Cid(0), Nsid(1), Blocks::new(Lba(lba), 1).unwrap(), data);
    let given = [0, 1].map(|lba| driver.submit(1, write(lba)));
    driver.ring(1);
    driver.advance_to(driver.now_ns + 1_000_000);
    given
}

fn first_byte(driver: &Driver, lba: u64) -> u8 {
    let mut byte = [0];
    driver.controller.read_contents(1, lba * 512, &mut byte).unwrap();
    byte[0]
}

#[test]
fn a_command_that_is_hurried_is_done_before_older_ones() {
    let mut driver = waiting();
    let [_, newer] = writes(&mut driver);
    assert_eq!([0, 1].map(|lba| first_byte(&driver, lba)), [0, 0], "a delay comes before the data move");
    driver.controller.hurry(PAIR, newer);
    driver.advance_to(driver.now_ns + 1_000_000);
    assert_eq!([0, 1].map(|lba| first_byte(&driver, lba)), [0, 1]);
    let taken = driver.take_all(1);
    assert!(matches!(taken[..], [cqe] if cqe.cid() == newer && cqe.status().is_success()), "{taken:?}");
}

#[test]
fn a_command_that_is_ended_is_not_done() {
    let mut driver = waiting();
    let [older, newer] = writes(&mut driver);
    driver.controller.end(PAIR, older, Status::new(StatusCode::WriteFault), &mut driver.machine);
    driver.controller.end(PAIR, Cid(newer.0 + 1), Status::SUCCESS, &mut driver.machine);
    let taken = driver.take_all(1);
    assert!(
        matches!(taken[..], [cqe] if cqe.cid() == older && cqe.status().code() == StatusCode::WriteFault),
        "{taken:?}"
    );
    driver.run();
    assert_eq!([0, 1].map(|lba| first_byte(&driver, lba)), [0, 1]);
}

#[test]
fn forged_entry_takes_a_place_unless_its_phase_is_stale() {
    let mut driver = waiting();
    let stale = |cqe: &mut nvme_spec::Cqe| cqe.dw3.set_phase(!cqe.dw3.phase());
    driver.controller.forge(PAIR, stale, &mut driver.machine);
    assert!(driver.take_all(1).is_empty());
    driver.controller.forge(PAIR, |cqe| cqe.dw3.set_cid(77), &mut driver.machine);
    driver.controller.forge(QueueId(2), |_| (), &mut driver.machine);
    let taken = driver.take_all(1);
    assert!(matches!(taken[..], [cqe] if cqe.cid() == Cid(77)), "{taken:?}");
    driver.assert_clean();
}

#[test]
fn a_controller_that_is_struck_suffers_at_once() {
    let mut driver = waiting();
    driver.controller.strike(ControllerEffect::FatalStatus, &mut driver.machine);
    assert!(driver.csts().cfs());
}

#[test]
fn a_controller_that_never_gets_ready_can_be_disabled() {
    let mut driver = Driver::new(config());
    driver.controller.strike(ControllerEffect::NeverReady, &mut driver.machine);
    driver.set_admin_queues();
    let cc = Cc::new().with_iosqes(IOSQES_64).with_iocqes(IOCQES_16);
    driver.set(Register::Cc, cc.with_en(true).into_bits());
    driver.run();
    assert!(!driver.csts().rdy());
    driver.set(Register::Cc, cc.into_bits());
    driver.assert_clean();
}
