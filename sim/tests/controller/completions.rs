//! Completions: once each, in order, with the right phase and head.

use std::collections::BTreeMap;

use nvme_spec::admin::{CreateIoSq, QueueMemory, QueuePriority};
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::{Cid, Lba, Nsid, QueueId, Sqe, Status};
use proptest::prelude::*;
use sim_nvme::{Config, Profile, profile::Media};

use crate::driver::{Driver, Pair, config};

const FLUSH: Sqe = nvm::flush(Cid(0), Nsid(1));

#[test]
fn the_head_reported_is_how_far_the_queue_was_fetched() {
    let mut driver = Driver::up(config());
    driver.create_pair(1, 5, QueuePriority::Urgent);
    let heads: Vec<u16> = (0..7).map(|_| driver.execute(1, FLUSH).sq_head()).collect();
    assert_eq!(heads, [1, 2, 3, 4, 0, 1, 2]);
}

#[test]
fn a_full_completion_queue_holds_completions_back() {
    let mut driver = Driver::up(config());
    let pair = Pair { cq_entries: 4, ..driver.queue_memory(1, 16) };
    driver.add_pair(pair, QueuePriority::Urgent);
    for _ in 0..10 {
        driver.submit(1, FLUSH);
    }
    driver.ring(1);
    driver.run();
    let mut batches = Vec::new();
    loop {
        let taken = driver.take_all(1).len();
        driver.run();
        if taken == 0 {
            break;
        }
        batches.push(taken);
    }
    assert_eq!(batches, [3, 3, 3, 1]);
    driver.assert_clean();
}

#[test]
fn several_queues_may_complete_into_one() {
    let mut driver = Driver::with_queues(config(), 1);
    let memory = driver.allocate(4096);
    let create = CreateIoSq {
        qid: QueueId(2),
        qsize_z: 7,
        cqid: QueueId(1),
        priority: QueuePriority::High,
        memory: QueueMemory::Contiguous(memory),
    };
    assert_eq!(driver.execute(0, create.sqe(Cid(0))).status(), Status::SUCCESS);
    let mut second = driver.pairs[1];
    (second.id, second.sq, second.entries) = (2, memory, 8);
    driver.pairs.push(second);
    driver.submit(1, FLUSH);
    driver.submit(2, FLUSH);
    driver.ring(1);
    driver.ring(2);
    driver.run();
    let from: Vec<u16> = driver.take_all(1).iter().map(|cqe| cqe.sq().0).collect();
    assert_eq!(from, [1, 2]);
}

fn command() -> impl Strategy<Value = (u16, u8, u64, u32)> {
    (1..=4_u16, 0..6_u8, 0..130_000_u64, 1..40_u32)
}

fn build(kind: u8, start: u64, count: u32, data: nvme_spec::DataPointer) -> Sqe {
    let blocks = Blocks::new(Lba(start), count).unwrap();
    match kind {
        0 => nvm::read(Cid(0), Nsid(1), blocks, data),
        1 => nvm::write(Cid(0), Nsid(2), blocks, data),
        2 => nvm::write_zeroes(Cid(0), Nsid(1), blocks),
        3 => nvm::verify(Cid(0), Nsid(2), blocks),
        4 => FLUSH,
        _ => nvm::read(Cid(0), Nsid(77), blocks, data),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_phase_tag_alternates_with_each_wrap(entries in 2..12_u32, count in 1..60_u32) {
        let mut driver = Driver::up(config());
        driver.create_pair(1, entries, QueuePriority::Urgent);
        for index in 0..count {
            driver.submit(1, FLUSH);
            driver.ring(1);
            driver.run();
            let entry = driver.pairs[1].cq + u64::from(index % entries) * 16;
            let phase = driver.bytes(entry, 16)[14] & 1;
            prop_assert_eq!(u32::from(phase), 1 - index / entries % 2);
            prop_assert_eq!(driver.take_all(1).len(), 1);
        }
    }

    /// Every command completes exactly once, for any commands, batches and media.
    #[test]
    fn every_command_completes_exactly_once(
        batches in proptest::collection::vec(proptest::collection::vec(command(), 1..20), 1..12),
        flash in any::<bool>(),
        outstanding in 1..20_u16,
        entries in 2..20_u32,
    ) {
        let media = if flash { Media::FLASH } else { Media::DRAM };
        let mut driver = Driver::up(Config { profile: Profile::before(media), outstanding, ..config() });
        for id in 1..=4 {
            driver.create_pair(id, entries, QueuePriority::Urgent);
        }
        let data = [4096, 8192, 20480].map(|bytes| driver.buffer(bytes).1);
        let mut outstanding = BTreeMap::<(u16, u16), u32>::new();
        let mut in_queue = [0_u32; 5];
        for batch in batches {
            for (queue, kind, start, count) in batch {
                if in_queue[usize::from(queue)] + 1 < entries {
                    let data = data[count.div_ceil(8).min(3) as usize - 1];
                    let cid = driver.submit(queue, build(kind, start, count, data));
                    in_queue[usize::from(queue)] += 1;
                    prop_assert_eq!(outstanding.insert((queue, cid.0), 1), None);
                }
            }
            for queue in 1..=4_u16 {
                if in_queue[usize::from(queue)] > 0 {
                    driver.ring(queue);
                }
            }
            while driver.step() {
                for queue in 1..=4_u16 {
                    for cqe in driver.take_all(queue) {
                        prop_assert_eq!(outstanding.remove(&(queue, cqe.cid().0)), Some(1));
                        in_queue[usize::from(queue)] -= 1;
                    }
                }
            }
            prop_assert!(outstanding.is_empty(), "{:?}", outstanding);
        }
        driver.assert_clean();
    }
}
