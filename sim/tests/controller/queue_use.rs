//! Queues in use: every number, size and place in memory, and every command identifier.

use nvme_spec::admin::{self, CqInterrupt, CreateIoCq, CreateIoSq, QueueMemory, QueuePriority};
use nvme_spec::feature::{Feature, get_feature};
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::registers::{Aqa, Arbitration, Register};
use nvme_spec::{Cid, Lba, Nsid, QueueId, Sqe, Status, StatusCode};
use sim_nvme::Config;
use sim_nvme::config::{Capabilities, Contiguous};

use crate::driver::{Driver, PAGE, Pair, config};

const FLUSH: Sqe = nvm::flush(Cid(0), Nsid(1));

/// Creates a CQ and an SQ. The two have numbers of their own; each is in the pair of its number.
fn create(driver: &mut Driver, cqid: u16, sqid: u16) {
    let (cq, sq) = (driver.pairs[usize::from(cqid)], driver.pairs[usize::from(sqid)]);
    let [create_cq, _] = Driver::create(&cq, QueuePriority::Urgent);
    let [_, mut create_sq] = Driver::create(&sq, QueuePriority::Urgent);
    create_sq.cdw11 = create_sq.cdw11 & 0xffff | u32::from(cqid) << 16;
    assert_eq!(driver.execute(0, create_cq).status(), Status::SUCCESS);
    assert_eq!(driver.execute(0, create_sq).status(), Status::SUCCESS);
}

#[test]
fn every_queue_pair_works_and_one_more_is_refused() {
    let mut driver = Driver::with_queues(config(), 64);
    let (address, data) = driver.buffer(512);
    for id in 1..=64 {
        let block = Blocks::new(Lba(id.into()), 1).unwrap();
        driver.bytes_mut(address, 512).fill(id as u8);
        let cqe = driver.execute(id, nvm::write(Cid(0), Nsid(1), block, data));
        assert_eq!((cqe.status(), cqe.sq().0, cqe.sq_head()), (Status::SUCCESS, id, 1));
        driver.bytes_mut(address, 512).fill(0);
        let cqe = driver.execute(id, nvm::read(Cid(0), Nsid(1), block, data));
        assert_eq!((cqe.status(), cqe.sq().0, cqe.sq_head()), (Status::SUCCESS, id, 2));
        assert_eq!(driver.bytes(address, 512), [id as u8; 512]);
    }
    driver.assert_clean();
    let pair = driver.queue_memory(65, 2);
    for sqe in Driver::create(&pair, QueuePriority::Urgent) {
        assert_eq!(driver.execute(0, sqe).status().code(), StatusCode::InvalidQueueId);
    }
}

/// SQs from the first number to the last complete into CQs from the last to the first, and sizes go the same ways.
#[test]
fn queues_of_any_number_and_size_pair_up() {
    let count = 20;
    let mut driver = Driver::up(config());
    for id in 1..=count {
        let entries = [u32::from(id) + 1, u32::from(count) + 2 - u32::from(id)];
        let (sq, cq) = (driver.allocate(PAGE), driver.allocate(PAGE));
        driver.pairs.push(Pair::new(id, entries, sq, cq));
    }
    for cqid in 1..=count {
        create(&mut driver, cqid, count + 1 - cqid);
    }
    for sqid in 1..=count {
        let cqid = count + 1 - sqid;
        let full = driver.pairs[usize::from(sqid)].entries - 1;
        for _ in 0..full {
            driver.submit(sqid, FLUSH);
        }
        driver.ring(sqid);
        for _ in 0..full {
            let cqe = driver.wait(cqid);
            assert_eq!((cqe.status(), cqe.sq().0), (Status::SUCCESS, sqid));
        }
    }
    driver.assert_clean();
}

/// Creates pair 1 with queues on these pages, by lists.
fn create_listed(driver: &mut Driver, pair: &Pair) {
    let pages = |at: u64, bytes: u64| (at..at + bytes).step_by(PAGE as usize).collect::<Vec<_>>();
    let cq_list = driver.list(&pages(pair.cq, u64::from(pair.cq_entries) * 16));
    let sq_list = driver.list(&pages(pair.sq, u64::from(pair.entries) * 64));
    let cq = CreateIoCq {
        qid: QueueId(1),
        qsize_z: (pair.cq_entries - 1) as u16,
        interrupt: CqInterrupt::Disabled,
        memory: QueueMemory::Listed(cq_list),
    };
    let sq = CreateIoSq {
        qid: QueueId(1),
        qsize_z: (pair.entries - 1) as u16,
        cqid: QueueId(1),
        priority: QueuePriority::Low,
        memory: QueueMemory::Listed(sq_list),
    };
    for sqe in [cq.sqe(Cid(0)), sq.sqe(Cid(0))] {
        assert_eq!(driver.execute(0, sqe).status(), Status::SUCCESS);
    }
    driver.pairs.push(*pair);
}

/// 64 entries of an SQ, and 256 of a CQ, are a page.
#[test]
fn queues_end_before_at_and_behind_a_page() {
    for more in 0..3 {
        for contiguous in [Contiguous::Required, Contiguous::Optional] {
            let capabilities = Capabilities { contiguous, ..Capabilities::default() };
            let mut driver = Driver::up(Config { capabilities, ..config() });
            let (sq, cq) = (driver.allocate(2 * PAGE), driver.allocate(2 * PAGE));
            let pair = Pair::new(1, [63 + more, 255 + more], sq, cq);
            match contiguous {
                Contiguous::Required => driver.add_pair(pair, QueuePriority::Low),
                Contiguous::Optional => create_listed(&mut driver, &pair),
            }
            for index in 1..=600 {
                let cqe = driver.execute(1, FLUSH);
                assert_eq!((cqe.status(), u32::from(cqe.sq_head())), (Status::SUCCESS, index % (63 + more)));
            }
            for delete in [admin::delete_io_sq, admin::delete_io_cq] {
                assert_eq!(driver.execute(0, delete(Cid(0), QueueId(1))).status(), Status::SUCCESS);
            }
            driver.assert_clean();
        }
    }
}

#[test]
fn the_largest_queues_wrap() {
    let capabilities = Capabilities { queue_entries: 65_536, ..Capabilities::default() };
    let mut driver = Driver::up(Config { capabilities, ..config() });
    driver.create_pair(1, 65_536, QueuePriority::Urgent);
    for index in 1..65_539_u32 {
        let cqe = driver.execute(1, FLUSH);
        assert_eq!((cqe.status(), cqe.sq_head()), (Status::SUCCESS, index as u16));
    }
    driver.assert_clean();
}

/// The driver counts identifiers up, so that each is used here.
#[test]
fn every_identifier_is_accepted() {
    let mut driver = Driver::with_queues(config(), 1);
    for _ in 0..=u16::MAX {
        assert_eq!(driver.execute(0, get_feature(Cid(0), Feature::Arbitration)).status(), Status::SUCCESS);
    }
    for _ in 0..=u16::MAX {
        assert_eq!(driver.execute(1, FLUSH).status(), Status::SUCCESS);
    }
    driver.assert_clean();
}

/// Both complete into one CQ, where only SQID distinguishes them.
#[test]
fn two_queues_may_use_the_same_identifier_at_once() {
    let mut driver = Driver::with_queues(config(), 1);
    let second = driver.queue_memory(2, 64);
    let [_, mut create_sq] = Driver::create(&second, QueuePriority::Urgent);
    create_sq.cdw11 = create_sq.cdw11 & 0xffff | 1 << 16;
    assert_eq!(driver.execute(0, create_sq).status(), Status::SUCCESS);
    driver.pairs.push(second);
    for cid in [0, 1, 0x7fff, u16::MAX].map(Cid) {
        driver.submit_as(1, FLUSH.with_cid(cid));
        driver.submit_as(2, FLUSH.with_cid(cid));
        driver.ring(1);
        driver.ring(2);
        driver.run();
        let taken = driver.take_all(1);
        let mut from: Vec<u16> = taken.iter().map(|cqe| cqe.sq().0).collect();
        from.sort_unstable();
        assert_eq!(from, [1, 2]);
        assert!(taken.iter().all(|cqe| (cqe.status(), cqe.cid()) == (Status::SUCCESS, cid)));
    }
    driver.assert_clean();
}

#[test]
fn every_number_of_commands_is_rung_for_at_once() {
    let mut driver = Driver::up(config());
    driver.create_pair(1, 50, QueuePriority::Urgent);
    for count in 1..50 {
        for _ in 0..count {
            driver.submit(1, FLUSH);
        }
        driver.ring(1);
        driver.run();
        let taken = driver.take_all(1);
        assert_eq!(taken.len(), count);
        assert!(taken.iter().all(|cqe| cqe.status() == Status::SUCCESS));
    }
    driver.assert_clean();
}

#[test]
fn admin_queues_of_different_sizes_fill_up_and_wrap() {
    for [entries, cq_entries] in [[2, 2], [3, 2], [17, 16], [2, 4096], [4096, 2]] {
        let mut driver = Driver::new(config());
        let (sq, cq) = (driver.allocate(u64::from(entries) * 64), driver.allocate(u64::from(cq_entries) * 16));
        let sizes = Aqa::new().with_asqs_z((entries - 1) as u16).with_acqs_z((cq_entries - 1) as u16);
        driver.set(Register::Aqa, sizes.into_bits());
        driver.write(Register::Asq as u64, sim_nvme::AccessSize::Eight, sq);
        driver.write(Register::Acq as u64, sim_nvme::AccessSize::Eight, cq);
        driver.pairs = vec![Pair::new(0, [entries, cq_entries], sq, cq)];
        driver.set(Register::Cc, Driver::cc(Arbitration::RoundRobin).with_en(true).into_bits());
        driver.run();
        let room = (cq_entries - 1).min(entries - 1) as usize;
        for _ in 1..entries {
            driver.submit(0, get_feature(Cid(0), Feature::Arbitration));
            driver.ring(0);
            driver.run();
        }
        let first: Vec<_> = std::iter::from_fn(|| driver.peek(0)).collect();
        assert_eq!(first.len(), room, "{entries} and {cq_entries}");
        driver.ring_head(0);
        for _ in room..entries as usize - 1 {
            driver.wait(0);
        }
        for index in entries..2 * entries.max(cq_entries) {
            let cqe = driver.execute(0, get_feature(Cid(0), Feature::Arbitration));
            assert_eq!((cqe.sq().0, u32::from(cqe.sq_head())), (0, index % entries));
        }
        driver.assert_clean();
    }
}
