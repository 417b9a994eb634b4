//! Doorbells: valid values, and the places and times of writes.

use nvme_spec::nvm;
use nvme_spec::registers::Arbitration;
use nvme_spec::{Cid, Nsid, Status};
use sim_nvme::config::Capabilities;
use sim_nvme::violation::Doorbell;
use sim_nvme::{AccessSize, Config, ViolationKind};

use crate::driver::{Driver, config};

const FLUSH: nvme_spec::Sqe = nvm::flush(Cid(0), Nsid(1));

fn write(driver: &mut Driver, offset: u64, value: u64) {
    driver.write(offset, AccessSize::Four, value);
}

#[test]
fn a_doorbell_before_ready_is_refused() {
    let mut driver = Driver::new(config());
    let offset = driver.tail_doorbell(0);
    write(&mut driver, offset, 1);
    assert_eq!(driver.violations(), [ViolationKind::DoorbellBeforeReady { offset }]);
}

#[test]
fn every_stride_finds_its_doorbells() {
    for doorbell_stride in 0..=10 {
        let capabilities = Capabilities { doorbell_stride, ..Capabilities::default() };
        let config = Config { capabilities, ..config() };
        let bar = config.bar_bytes();
        let mut driver = Driver::with_queues(config, 3);
        assert_eq!(driver.execute(3, FLUSH).status(), Status::SUCCESS);
        assert!(driver.head_doorbell(64) < bar, "the last doorbell is in the BAR");
        driver.assert_clean();
        if doorbell_stride > 0 {
            let between = driver.tail_doorbell(1) + 4;
            write(&mut driver, between, 1);
            assert_eq!(driver.violations(), [ViolationKind::DoorbellOfNoQueue { offset: between }]);
        }
    }
}

#[test]
fn values_that_no_queue_can_have_are_refused() {
    let mut driver = Driver::with_queues(config(), 1);
    let (tail, head) = (driver.tail_doorbell(1), driver.head_doorbell(1));
    write(&mut driver, tail, 64);
    write(&mut driver, tail, 0);
    write(&mut driver, head, 64);
    write(&mut driver, head, 0);
    write(&mut driver, head, 1);
    write(&mut driver, tail, 0x1_0001);
    let value = |doorbell, value| ViolationKind::DoorbellValue { doorbell, value };
    assert_eq!(
        driver.violations(),
        [
            value(Doorbell::Tail(1), 64),
            value(Doorbell::Tail(1), 0),
            value(Doorbell::Head(1), 64),
            value(Doorbell::Head(1), 0),
            ViolationKind::CompletionOverrun { cq: 1, head: 1 },
            ViolationKind::ReservedBits { offset: tail, value: 0x1_0001 },
        ]
    );
}

#[test]
fn doorbells_of_other_sizes_or_queues_are_refused() {
    let mut driver = Driver::with_queues(config(), 1);
    let offset = driver.tail_doorbell(2);
    write(&mut driver, offset, 1);
    let beyond = driver.tail_doorbell(1000);
    write(&mut driver, beyond, 1);
    let at = driver.tail_doorbell(1);
    driver.write(at, AccessSize::Two, 1);
    driver.write(at + 2, AccessSize::Four, 1);
    assert_eq!(
        driver.violations(),
        [
            ViolationKind::DoorbellOfNoQueue { offset },
            ViolationKind::DoorbellOfNoQueue { offset: beyond },
            ViolationKind::AccessSize { offset: at, bytes: 2 },
            ViolationKind::AccessSize { offset: at + 2, bytes: 4 },
        ]
    );
}

#[test]
fn slots_may_be_used_again_only_after_their_head_was_reported() {
    let mut driver = Driver::up(config());
    driver.create_pair(1, 4, nvme_spec::admin::QueuePriority::Urgent);
    for _ in 0..3 {
        driver.submit(1, FLUSH);
    }
    driver.ring(1);
    driver.submit(1, FLUSH);
    driver.ring(1);
    assert_eq!(driver.violations(), [ViolationKind::SubmissionOverrun { sq: 1, tail: 0 }]);
    driver.run();
    assert_eq!(driver.take_all(1).len(), 3, "what was rung before is done");
    driver.ring(1);
    driver.run();
    assert_eq!(driver.take_all(1).len(), 1);
}

#[test]
fn an_identifier_in_use_is_refused() {
    let mut driver = Driver::with_queues(config(), 1);
    driver.submit_as(1, FLUSH.with_cid(Cid(7)));
    driver.submit_as(1, FLUSH.with_cid(Cid(7)));
    driver.ring(1);
    driver.run();
    let codes: Vec<_> = driver.take_all(1).iter().map(|cqe| cqe.status().code()).collect();
    assert!(codes.contains(&nvme_spec::StatusCode::CidConflict), "{codes:?}");
    assert_eq!(driver.violations(), [ViolationKind::CommandId { sq: 1, cid: 7 }]);
}

#[test]
fn a_queue_that_cannot_be_read_is_fatal_until_reset() {
    let mut driver = Driver::with_queues(config(), 1);
    let sq = driver.pairs[1].sq;
    driver.machine.blocked = sq..sq + 1;
    driver.submit(1, FLUSH);
    driver.ring(1);
    driver.run();
    assert!(driver.csts().cfs());
    assert_eq!(driver.violations(), [ViolationKind::DmaBlocked { address: sq }]);
    driver.machine.blocked = 0..0;
    driver.set(nvme_spec::registers::Register::Cc, 0);
    driver.run();
    driver.enable(Arbitration::RoundRobin);
    driver.create_pair(1, 8, nvme_spec::admin::QueuePriority::Urgent);
    assert_eq!(driver.execute(1, FLUSH).status(), Status::SUCCESS);
}
