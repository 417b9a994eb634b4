//! Doorbells kept in memory.

use nvme_spec::admin::doorbell_buffer_config;
use nvme_spec::{Cid, Nsid, Sqe, Status, nvm};
use sim_nvme::violation::Doorbell;
use sim_nvme::{AccessSize, ViolationKind};

use crate::driver::{Driver, config};

const FLUSH: Sqe = nvm::flush(Cid(0), Nsid(1));

struct Shadows {
    doorbells: u64,
    event_indexes: u64,
}

fn with_shadows() -> (Driver, Shadows) {
    let mut driver = Driver::with_queues(config(), 1);
    let shadows = Shadows { doorbells: driver.allocate(4096), event_indexes: driver.allocate(4096) };
    let sqe = doorbell_buffer_config(Cid(0), shadows.doorbells, shadows.event_indexes);
    assert_eq!(driver.execute(0, sqe).status(), Status::SUCCESS);
    (driver, shadows)
}

impl Shadows {
    fn set_tail(&self, driver: &mut Driver, value: u32) {
        driver.bytes_mut(self.doorbells + 8, 4).copy_from_slice(&value.to_le_bytes());
    }

    fn set_head(&self, driver: &mut Driver, value: u32) {
        driver.bytes_mut(self.doorbells + 12, 4).copy_from_slice(&value.to_le_bytes());
    }

    fn tail_event(&self, driver: &Driver) -> u32 {
        u32::from_le_bytes(driver.bytes(self.event_indexes + 8, 4).try_into().unwrap())
    }
}

#[test]
fn while_the_controller_is_busy_new_tails_need_no_doorbell() {
    let (mut driver, shadows) = with_shadows();
    for _ in 0..5 {
        driver.submit(1, FLUSH);
    }
    shadows.set_tail(&mut driver, 2);
    driver.write(driver.tail_doorbell(1), AccessSize::Four, 2);
    shadows.set_tail(&mut driver, 5);
    driver.run();
    let taken = std::iter::from_fn(|| driver.peek(1)).count();
    assert_eq!(taken, 5, "those beyond what was rung too");
    assert_eq!(shadows.tail_event(&driver), 5, "the driver must ring for the next");
    driver.submit(1, FLUSH);
    shadows.set_tail(&mut driver, 6);
    driver.run();
    assert!(driver.peek(1).is_none(), "a controller at rest does not look");
    driver.write(driver.tail_doorbell(1), AccessSize::Four, 6);
    driver.run();
    assert!(driver.peek(1).is_some());
    driver.assert_clean();
}

#[test]
fn a_full_completion_queue_looks_for_the_head_in_memory() {
    let (mut driver, shadows) = with_shadows();
    let mut tail = 0;
    let mut taken = 0;
    for _ in 0..4 {
        for _ in 0..60 {
            driver.submit(1, FLUSH);
        }
        tail = (tail + 60) % 64;
        shadows.set_tail(&mut driver, tail);
        driver.write(driver.tail_doorbell(1), AccessSize::Four, u64::from(tail));
        driver.run();
        taken += std::iter::from_fn(|| driver.peek(1)).count();
        let head = driver.pairs[1].head;
        shadows.set_head(&mut driver, head);
    }
    assert_eq!(taken, 240, "no head doorbell was written");
    driver.assert_clean();
}

#[test]
fn a_tail_in_memory_is_checked_like_one_that_is_rung() {
    let (mut driver, shadows) = with_shadows();
    shadows.set_tail(&mut driver, 64);
    driver.write(driver.tail_doorbell(1), AccessSize::Four, 1);
    driver.run();
    assert_eq!(driver.violations(), [ViolationKind::DoorbellValue { doorbell: Doorbell::Tail(1), value: 64 }]);
}

#[test]
fn a_reset_ends_the_use_of_memory() {
    let (mut driver, shadows) = with_shadows();
    driver.set(nvme_spec::registers::Register::Cc, 0);
    driver.run();
    driver.enable(nvme_spec::registers::Arbitration::RoundRobin);
    driver.create_pair(1, 8, nvme_spec::admin::QueuePriority::Urgent);
    shadows.set_tail(&mut driver, 7);
    assert_eq!(driver.execute(1, FLUSH).status(), Status::SUCCESS);
    driver.assert_clean();
}
