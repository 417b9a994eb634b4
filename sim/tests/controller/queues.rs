//! Creating and deleting I/O queues.

use nvme_spec::admin::{self, CqInterrupt, CreateIoCq, CreateIoSq, QueueMemory, QueuePriority};
use nvme_spec::feature::NumberOfQueues;
use nvme_spec::{Cid, Cqe, Nsid, QueueId, Sqe, Status, StatusCode, nvm};
use sim_nvme::config::{Capabilities, Contiguous};
use sim_nvme::{Config, Profile, ViolationKind, profile::Media};

use crate::driver::{Driver, Pair, config};

const CID: Cid = Cid(0);

fn cq(change: impl FnOnce(&mut CreateIoCq)) -> Sqe {
    let mut create = CreateIoCq {
        qid: QueueId(1),
        qsize_z: 7,
        interrupt: CqInterrupt::Vector(1),
        memory: QueueMemory::Contiguous(0x10_0000),
    };
    change(&mut create);
    create.sqe(CID)
}

fn sq(change: impl FnOnce(&mut CreateIoSq)) -> Sqe {
    let mut create = CreateIoSq {
        qid: QueueId(1),
        qsize_z: 7,
        cqid: QueueId(1),
        priority: QueuePriority::Low,
        memory: QueueMemory::Contiguous(0x20_0000),
    };
    change(&mut create);
    create.sqe(CID)
}

#[track_caller]
fn refused(driver: &mut Driver, sqe: Sqe, code: StatusCode) {
    let before = driver.violations().len();
    let status = driver.execute(0, sqe).status();
    assert_eq!(status.code(), code);
    assert!(status.do_not_retry());
    let status = Status::new(code).with_do_not_retry();
    let kind = ViolationKind::QueueCommand { opcode: sqe.opcode(), queue: sqe.cdw10 as u16, status };
    assert_eq!(driver.violations()[before..], [kind]);
}

#[test]
fn impossible_completion_queues_are_refused() {
    let mut driver = Driver::up(config());
    refused(&mut driver, cq(|cq| cq.qid = QueueId(0)), StatusCode::InvalidQueueId);
    refused(&mut driver, cq(|cq| cq.qid = QueueId(65)), StatusCode::InvalidQueueId);
    refused(&mut driver, cq(|cq| cq.qsize_z = 0), StatusCode::InvalidQueueSize);
    refused(&mut driver, cq(|cq| cq.qsize_z = 2048), StatusCode::InvalidQueueSize);
    refused(&mut driver, cq(|cq| cq.interrupt = CqInterrupt::Vector(65)), StatusCode::InvalidInterruptVector);
    refused(&mut driver, cq(|cq| cq.memory = QueueMemory::Contiguous(0x10_0010)), StatusCode::PrpOffset);
    refused(&mut driver, cq(|cq| cq.memory = QueueMemory::Listed(0x10_0000)), StatusCode::InvalidField);
    assert_eq!(driver.execute(0, cq(|_| {})).status(), Status::SUCCESS);
    refused(&mut driver, cq(|_| {}), StatusCode::InvalidQueueId);
}

#[test]
fn impossible_submission_queues_are_refused() {
    let mut driver = Driver::up(config());
    refused(&mut driver, sq(|_| {}), StatusCode::CqInvalid);
    assert_eq!(driver.execute(0, cq(|_| {})).status(), Status::SUCCESS);
    refused(&mut driver, sq(|sq| sq.cqid = QueueId(0)), StatusCode::InvalidQueueId);
    refused(&mut driver, sq(|sq| sq.cqid = QueueId(65)), StatusCode::InvalidQueueId);
    refused(&mut driver, sq(|sq| sq.cqid = QueueId(2)), StatusCode::CqInvalid);
    refused(&mut driver, sq(|sq| sq.qid = QueueId(0)), StatusCode::InvalidQueueId);
    refused(&mut driver, sq(|sq| sq.qsize_z = 0), StatusCode::InvalidQueueSize);
    refused(&mut driver, sq(|sq| sq.memory = QueueMemory::Contiguous(0x20_0100)), StatusCode::PrpOffset);
    refused(&mut driver, sq(|sq| sq.memory = QueueMemory::Listed(0x20_0000)), StatusCode::InvalidField);
    assert_eq!(driver.execute(0, sq(|_| {})).status(), Status::SUCCESS);
    refused(&mut driver, sq(|_| {}), StatusCode::InvalidQueueId);
}

#[test]
fn a_grant_of_fewer_queues_is_the_limit() {
    let mut driver = Driver::up(config());
    assert_eq!(driver.execute(0, NumberOfQueues::pairs(2).unwrap().set(CID)).status(), Status::SUCCESS);
    refused(&mut driver, cq(|cq| cq.qid = QueueId(3)), StatusCode::InvalidQueueId);
    assert_eq!(driver.execute(0, cq(|cq| cq.qid = QueueId(2))).status(), Status::SUCCESS);
}

#[test]
fn a_completion_queue_goes_only_after_its_submission_queues() {
    let mut driver = Driver::with_queues(config(), 1);
    refused(&mut driver, admin::delete_io_cq(CID, QueueId(1)), StatusCode::InvalidQueueDeletion);
    refused(&mut driver, admin::delete_io_sq(CID, QueueId(2)), StatusCode::InvalidQueueId);
    refused(&mut driver, admin::delete_io_sq(CID, QueueId(0)), StatusCode::InvalidQueueId);
    assert_eq!(driver.execute(0, admin::delete_io_sq(CID, QueueId(1))).status(), Status::SUCCESS);
    refused(&mut driver, admin::delete_io_sq(CID, QueueId(1)), StatusCode::InvalidQueueId);
    assert_eq!(driver.execute(0, admin::delete_io_cq(CID, QueueId(1))).status(), Status::SUCCESS);
    refused(&mut driver, admin::delete_io_cq(CID, QueueId(1)), StatusCode::InvalidQueueId);
    refused(&mut driver, admin::delete_io_cq(CID, QueueId(0)), StatusCode::InvalidQueueId);
}

#[test]
fn deleting_a_submission_queue_aborts_what_was_fetched_from_it() {
    let mut driver = Driver::with_queues(Config { profile: Profile::before(Media::FLASH), ..config() }, 1);
    let blocks = nvm::Blocks::new(nvme_spec::Lba(0), 8).unwrap();
    let sqe = nvm::verify(CID, Nsid(1), blocks);
    let cids = [driver.submit(1, sqe), driver.submit(1, sqe)];
    driver.ring(1);
    driver.advance_to(driver.now_ns + 5_000);
    assert_eq!(driver.execute(0, admin::delete_io_sq(CID, QueueId(1))).status(), Status::SUCCESS);
    let aborted = driver.take_all(1);
    let codes: Vec<_> = aborted.iter().map(|cqe| (cqe.cid(), cqe.status().code())).collect();
    assert_eq!(codes, cids.map(|cid| (cid, StatusCode::SqDeleted)));
    driver.run();
    assert_eq!(driver.take_all(1), [], "each command completes once");
}

#[test]
fn queues_may_lie_on_scattered_pages_where_that_is_offered() {
    let capabilities = Capabilities { contiguous: Contiguous::Optional, ..Capabilities::default() };
    let mut driver = Driver::up(Config { capabilities, ..config() });
    let sq_pages = [0x30_0000_u64, 0x50_0000];
    let list = driver.list(&sq_pages);
    assert_eq!(driver.execute(0, cq(|cq| cq.qsize_z = 127)).status(), Status::SUCCESS);
    let create = sq(|sq| {
        sq.qsize_z = 127;
        sq.memory = QueueMemory::Listed(list);
    });
    assert_eq!(driver.execute(0, create).status(), Status::SUCCESS);
    for index in 0..100_u16 {
        let page = sq_pages[usize::from(index / 64)];
        let sqe = nvm::flush(Cid(index), Nsid(1));
        let at = page + u64::from(index % 64) * 64;
        driver.bytes_mut(at, 64).copy_from_slice(zerocopy::IntoBytes::as_bytes(&sqe));
    }
    driver.write(driver.tail_doorbell(1), sim_nvme::AccessSize::Four, 100);
    driver.run();
    let last = driver.bytes(0x10_0000 + 99 * 16, 16);
    assert_eq!(last[12..14], 99_u16.to_le_bytes());
    driver.assert_clean();
}

#[test]
fn every_priority_is_accepted_and_changes_nothing_without_weights() {
    let mut driver = Driver::up(config());
    assert_eq!(driver.execute(0, cq(|_| {})).status(), Status::SUCCESS);
    for priority in [QueuePriority::Urgent, QueuePriority::High, QueuePriority::Medium, QueuePriority::Low] {
        assert_eq!(driver.execute(0, sq(|sq| sq.priority = priority)).status(), Status::SUCCESS, "{priority:?}");
        assert_eq!(driver.execute(0, admin::delete_io_sq(CID, QueueId(1))).status(), Status::SUCCESS);
    }
    driver.assert_clean();
}

#[test]
fn numbers_without_a_queue_are_refused_by_every_command() {
    let mut driver = Driver::with_queues(config(), 1);
    for beyond in [65, 255, 256, 1000, 0x7fff, 0x8000, u16::MAX] {
        refused(&mut driver, cq(|cq| cq.qid = QueueId(beyond)), StatusCode::InvalidQueueId);
        refused(&mut driver, sq(|sq| sq.qid = QueueId(beyond)), StatusCode::InvalidQueueId);
        refused(&mut driver, admin::delete_io_cq(CID, QueueId(beyond)), StatusCode::InvalidQueueId);
        refused(&mut driver, admin::delete_io_sq(CID, QueueId(beyond)), StatusCode::InvalidQueueId);
        let unmapped = cq(|cq| (cq.qid, cq.interrupt) = (QueueId(2), CqInterrupt::Vector(beyond)));
        refused(&mut driver, unmapped, StatusCode::InvalidInterruptVector);
    }
    refused(&mut driver, admin::delete_io_cq(CID, QueueId(2)), StatusCode::InvalidQueueId);
    assert_eq!(driver.execute(1, nvm::flush(CID, Nsid(1))).status(), Status::SUCCESS, "the one queue is left");
}

#[test]
fn queues_have_two_entries_to_mqes() {
    let mut driver = Driver::up(config());
    for too_large in [2048, 2049, 4095, u16::MAX] {
        refused(&mut driver, cq(|cq| cq.qsize_z = too_large), StatusCode::InvalidQueueSize);
    }
    assert_eq!(driver.execute(0, cq(|cq| cq.qsize_z = 2047)).status(), Status::SUCCESS);
    for too_large in [2048, 2049, 4095, u16::MAX] {
        refused(&mut driver, sq(|sq| sq.qsize_z = too_large), StatusCode::InvalidQueueSize);
    }
    assert_eq!(driver.execute(0, sq(|sq| sq.qsize_z = 2047)).status(), Status::SUCCESS);
    let smallest = cq(|cq| (cq.qid, cq.qsize_z) = (QueueId(2), 1));
    assert_eq!(driver.execute(0, smallest).status(), Status::SUCCESS);
}

#[test]
fn a_full_completion_queue_is_deleted_like_another() {
    let mut driver = Driver::up(config());
    let pair = Pair { cq_entries: 2, ..driver.queue_memory(1, 4) };
    for _ in 0..3 {
        driver.add_pair(pair, QueuePriority::Urgent);
        for _ in 0..3 {
            driver.submit(1, nvm::flush(CID, Nsid(1)));
        }
        driver.ring(1);
        driver.run();
        assert!(driver.peek(1).is_some(), "one has room, and two wait");
        assert_eq!(driver.execute(0, admin::delete_io_sq(CID, QueueId(1))).status(), Status::SUCCESS);
        assert_eq!(driver.execute(0, admin::delete_io_cq(CID, QueueId(1))).status(), Status::SUCCESS);
        driver.bytes_mut(pair.cq, 32).fill(0);
        driver.pairs.truncate(1);
    }
    driver.assert_clean();
}

/// Rings once for all commands, and returns their completions in order.
fn all_at_once(driver: &mut Driver, commands: impl Iterator<Item = Sqe>) -> Vec<Cqe> {
    let cids: Vec<Cid> = commands.map(|sqe| driver.submit(0, sqe)).collect();
    driver.ring(0);
    driver.run();
    let taken = driver.take_all(0);
    assert_eq!(taken.iter().map(Cqe::cid).collect::<Vec<_>>(), cids);
    taken
}

#[test]
fn many_queues_are_deleted_with_one_doorbell() {
    let mut driver = Driver::with_queues(config(), 30);
    let succeeded = |taken: Vec<Cqe>| taken.iter().all(|cqe| cqe.status() == Status::SUCCESS);
    let sqs = (1..=30).map(|id| admin::delete_io_sq(CID, QueueId(id)));
    assert!(succeeded(all_at_once(&mut driver, sqs)));
    let cqs = (1..=30).map(|id| admin::delete_io_cq(CID, QueueId(id)));
    assert!(succeeded(all_at_once(&mut driver, cqs)));
    refused(&mut driver, admin::delete_io_cq(CID, QueueId(30)), StatusCode::InvalidQueueId);
}

#[test]
fn a_shared_completion_queue_goes_after_the_last_of_its_submission_queues() {
    let mut driver = Driver::up(config());
    for id in 1..=2 {
        let create = cq(|cq| (cq.qid, cq.interrupt) = (QueueId(id), CqInterrupt::Vector(id)));
        assert_eq!(driver.execute(0, create).status(), Status::SUCCESS);
    }
    for (id, cqid) in [(1, 2), (2, 2), (3, 2), (4, 1)] {
        let create = sq(|sq| (sq.qid, sq.cqid) = (QueueId(id), QueueId(cqid)));
        assert_eq!(driver.execute(0, create).status(), Status::SUCCESS);
    }
    for id in [1, 2, 3] {
        refused(&mut driver, admin::delete_io_cq(CID, QueueId(2)), StatusCode::InvalidQueueDeletion);
        assert_eq!(driver.execute(0, admin::delete_io_sq(CID, QueueId(id))).status(), Status::SUCCESS);
    }
    assert_eq!(driver.execute(0, admin::delete_io_cq(CID, QueueId(2))).status(), Status::SUCCESS);
    refused(&mut driver, admin::delete_io_cq(CID, QueueId(1)), StatusCode::InvalidQueueDeletion);
    assert_eq!(driver.execute(0, admin::delete_io_sq(CID, QueueId(4))).status(), Status::SUCCESS);
    assert_eq!(driver.execute(0, admin::delete_io_cq(CID, QueueId(1))).status(), Status::SUCCESS);
}
