//! Interrupts: messages by vector, coalescing, masks, the pin.

use nvme_spec::admin::{self, CqInterrupt, CreateIoCq, QueueMemory, QueuePriority};
use nvme_spec::feature::{Feature, set_feature};
use nvme_spec::registers::Register;
use nvme_spec::{Cid, Nsid, QueueId, Sqe, Status, nvm};
use sim_nvme::Level;

use crate::driver::{Driver, config};

const CID: Cid = Cid(0);
const FLUSH: Sqe = nvm::flush(CID, Nsid(1));

fn messages(driver: &Driver, vector: u16) -> u32 {
    driver.machine.messages.get(&vector).copied().unwrap_or(0)
}

fn submit(driver: &mut Driver, queue: u16, count: usize) {
    for _ in 0..count {
        driver.submit(queue, FLUSH);
    }
    driver.ring(queue);
}

#[test]
fn each_completion_queue_has_its_vector() {
    let mut driver = Driver::with_queues(config(), 3);
    let before = messages(&driver, 0);
    submit(&mut driver, 2, 2);
    submit(&mut driver, 3, 1);
    driver.run();
    assert_eq!([0, 1, 2, 3].map(|vector| messages(&driver, vector)), [before, 0, 2, 1]);
}

fn coalesced(threshold_z: u32, time_100us: u32) -> Driver {
    let mut driver = Driver::with_queues(config(), 2);
    let value = threshold_z | time_100us << 8;
    let sqe = set_feature(CID, Feature::InterruptCoalescing, value);
    assert_eq!(driver.execute(0, sqe).status(), Status::SUCCESS);
    driver
}

#[test]
fn coalescing_waits_for_the_threshold() {
    let mut driver = coalesced(3, 255);
    submit(&mut driver, 1, 8);
    driver.advance_to(driver.now_ns + 1_000_000);
    assert_eq!(driver.take_all(1).len(), 8);
    assert_eq!(messages(&driver, 1), 2);
}

#[test]
fn coalescing_waits_no_longer_than_the_time() {
    let mut driver = coalesced(3, 2);
    let before = messages(&driver, 1);
    submit(&mut driver, 1, 1);
    while driver.peek(1).is_none() {
        assert!(driver.step());
    }
    let posted_ns = driver.now_ns;
    driver.advance_to(posted_ns + 199_999);
    assert_eq!(messages(&driver, 1), before);
    driver.advance_to(posted_ns + 200_000);
    assert_eq!(messages(&driver, 1), before + 1);
}

#[test]
fn coalescing_is_per_vector_and_never_of_the_admin_queue() {
    let mut driver = coalesced(9, 255);
    let sqe = set_feature(CID, Feature::InterruptVector, 1 << 16 | 2);
    assert_eq!(driver.execute(0, sqe).status(), Status::SUCCESS);
    let admin = messages(&driver, 0);
    submit(&mut driver, 1, 1);
    submit(&mut driver, 2, 1);
    driver.execute(0, nvme_spec::feature::get_feature(CID, Feature::InterruptCoalescing));
    driver.advance_to(driver.now_ns + 100_000);
    assert_eq!([0, 1, 2].map(|vector| messages(&driver, vector)), [admin + 1, 0, 1]);
}

#[test]
fn the_pin_is_asserted_until_every_completion_is_taken() {
    let mut driver = Driver::with_queues(config(), 1);
    assert_eq!(driver.machine.pin, Level::Deasserted);
    submit(&mut driver, 1, 2);
    driver.run();
    assert_eq!(driver.machine.pin, Level::Asserted);
    driver.peek(1).unwrap();
    driver.ring_head(1);
    assert_eq!(driver.machine.pin, Level::Asserted);
    driver.take_all(1);
    assert_eq!(driver.machine.pin, Level::Deasserted);
}

#[test]
fn masked_vector_sends_its_message_once_unmasked() {
    let mut driver = Driver::with_queues(config(), 2);
    driver.set(Register::Intms, 0b10);
    assert_eq!((driver.get(Register::Intms), driver.get(Register::Intmc)), (0b10, 0b10));
    submit(&mut driver, 1, 3);
    driver.run();
    assert_eq!((messages(&driver, 1), driver.machine.pin), (0, Level::Deasserted));
    submit(&mut driver, 2, 1);
    driver.run();
    assert_eq!((messages(&driver, 2), driver.machine.pin), (1, Level::Asserted));
    driver.take_all(2);
    driver.set(Register::Intmc, 0b10);
    assert_eq!((messages(&driver, 1), driver.machine.pin), (1, Level::Asserted));
    driver.take_all(1);
    assert_eq!(driver.machine.pin, Level::Deasserted);
}

#[test]
fn a_reset_lets_the_pin_fall() {
    let mut driver = Driver::with_queues(config(), 1);
    submit(&mut driver, 1, 1);
    driver.run();
    driver.set(Register::Cc, 0);
    assert_eq!(driver.machine.pin, Level::Deasserted);
}

/// Creates CQ `id` with this interrupt, and its SQ.
fn create(driver: &mut Driver, id: u16, interrupt: CqInterrupt) {
    let pair = driver.queue_memory(id, 8);
    let [_, sq] = Driver::create(&pair, QueuePriority::Urgent);
    let memory = QueueMemory::Contiguous(pair.cq);
    let cq = CreateIoCq { qid: QueueId(id), qsize_z: 7, interrupt, memory };
    assert_eq!(driver.execute(0, cq.sqe(CID)).status(), Status::SUCCESS);
    assert_eq!(driver.execute(0, sq).status(), Status::SUCCESS);
    driver.pairs.push(pair);
}

#[test]
fn polled_queues_stand_beside_interrupting_ones() {
    let mut driver = Driver::up(config());
    for id in 1..=64 {
        let interrupt = if id % 2 == 0 { CqInterrupt::Vector(id) } else { CqInterrupt::Disabled };
        create(&mut driver, id, interrupt);
    }
    for id in 1..=64 {
        for _ in 0..2 {
            assert_eq!(driver.execute(id, FLUSH).status(), Status::SUCCESS);
        }
    }
    let expected = (1..=64).map(|id| if id % 2 == 0 { 2 } else { 0 });
    assert!((1..=64).map(|vector| messages(&driver, vector)).eq(expected));
    // A polled queue that is created again with a vector interrupts.
    for delete in [admin::delete_io_sq, admin::delete_io_cq] {
        assert_eq!(driver.execute(0, delete(CID, QueueId(63))).status(), Status::SUCCESS);
    }
    driver.pairs.truncate(63);
    create(&mut driver, 63, CqInterrupt::Vector(63));
    assert_eq!(driver.execute(63, FLUSH).status(), Status::SUCCESS);
    assert_eq!(messages(&driver, 63), 1);
    driver.assert_clean();
}

#[test]
fn all_completion_queues_may_share_a_vector() {
    let mut driver = Driver::up(config());
    for id in 1..=64 {
        create(&mut driver, id, CqInterrupt::Vector(7));
    }
    for id in 1..=64 {
        assert_eq!(driver.execute(id, FLUSH).status(), Status::SUCCESS);
    }
    assert_eq!(messages(&driver, 7), 64);
    driver.assert_clean();
}

/// Taking some of several completions raises nothing, and leaves nothing behind.
#[test]
fn each_completion_is_one_message_however_they_are_taken() {
    let mut driver = Driver::with_queues(config(), 1);
    submit(&mut driver, 1, 10);
    driver.run();
    assert_eq!(messages(&driver, 1), 10);
    for _ in 0..10 {
        driver.peek(1).unwrap();
        driver.ring_head(1);
        driver.run();
        assert_eq!(messages(&driver, 1), 10);
    }
    submit(&mut driver, 1, 1);
    driver.run();
    assert_eq!(messages(&driver, 1), 11);
}
