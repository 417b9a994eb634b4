//! Arbitration seen from outside: the order of service while the controller has room for one command at a time.

use std::collections::BTreeMap;

use nvme_spec::admin::QueuePriority;
use nvme_spec::feature::ArbitrationWeights;
use nvme_spec::registers::Arbitration;
use nvme_spec::{Cid, Nsid, Status, nvm};
use sim_nvme::config::Recording;
use sim_nvme::{Config, Record};

use crate::driver::{Driver, config};

/// Returns the SQs in the order in which commands were fetched. Each queue has one of these priorities and 60 commands,
/// rung at once.
fn fetched(mechanism: Arbitration, priorities: &[QueuePriority], weights: ArbitrationWeights) -> Vec<u16> {
    let mut driver = Driver::new(Config { outstanding: 1, recording: Recording::On, ..config() });
    driver.enable(mechanism);
    for (id, &priority) in (1..).zip(priorities) {
        driver.create_pair(id, 64, priority);
    }
    assert_eq!(driver.execute(0, weights.set(Cid(0))).status(), Status::SUCCESS);
    drop(driver.take_records());
    for id in 1..=priorities.len() as u16 {
        for _ in 0..60 {
            driver.submit(id, nvm::flush(Cid(0), Nsid(1)));
        }
        driver.ring(id);
    }
    driver.run();
    driver.assert_clean();
    let mut records: Vec<Record> = driver.take_records();
    records.sort_by_key(|record| record.fetched_ns);
    records.iter().map(|record| record.sq).collect()
}

fn counts(sqs: &[u16]) -> BTreeMap<u16, usize> {
    let mut counts = BTreeMap::new();
    sqs.iter().for_each(|&sq| *counts.entry(sq).or_default() += 1);
    counts
}

#[test]
fn round_robin_serves_all_alike() {
    let priorities = [QueuePriority::Urgent, QueuePriority::Low, QueuePriority::High];
    let order = fetched(Arbitration::RoundRobin, &priorities, ArbitrationWeights::new());
    assert_eq!(counts(&order[..90]), BTreeMap::from([(1, 30), (2, 30), (3, 30)]));
    assert_eq!(order.len(), 180);
}

#[test]
fn a_burst_is_taken_from_one_queue_at_a_time() {
    let priorities = [QueuePriority::Urgent, QueuePriority::Urgent];
    let order = fetched(Arbitration::RoundRobin, &priorities, ArbitrationWeights::new().with_burst(2));
    assert_eq!(order[..13], [1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 1, 1, 2], "the first was alone when it was rung");
}

#[test]
fn weights_divide_what_urgent_leaves() {
    let priorities = [QueuePriority::Urgent, QueuePriority::High, QueuePriority::Medium, QueuePriority::Low];
    let weights = ArbitrationWeights::new().with_high_z(5).with_medium_z(2).with_low_z(0);
    let order = fetched(Arbitration::WeightedUrgent, &priorities, weights);
    let (urgent, rest) = order.split_at(60);
    assert_eq!(urgent, [1; 60]);
    assert_eq!(counts(&rest[..100]), BTreeMap::from([(2, 60), (3, 30), (4, 10)]));
}

#[test]
fn the_admin_queue_comes_before_all_others() {
    let mut driver = Driver::with_queues(Config { outstanding: 1, recording: Recording::On, ..config() }, 1);
    drop(driver.take_records());
    for _ in 0..20 {
        driver.submit(1, nvm::flush(Cid(0), Nsid(1)));
    }
    driver.ring(1);
    driver.submit(0, nvme_spec::feature::get_feature(Cid(0), nvme_spec::feature::Feature::Arbitration));
    driver.ring(0);
    driver.run();
    let first = driver.take_records().into_iter().min_by_key(|record| record.fetched_ns);
    assert_eq!(first.map(|record| record.sq), Some(0));
}
