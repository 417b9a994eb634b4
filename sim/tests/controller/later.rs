//! A controller that is another one, or has less, after it was enabled again.

use crate::driver::{Driver, NAMESPACE_BYTES, config};
use nvme_spec::admin::{self, QueuePriority};
use nvme_spec::feature::NumberOfQueues;
use nvme_spec::identify;
use nvme_spec::registers::{Arbitration, Register};
use nvme_spec::{Cid, DataPointer, Nsid, Status};
use sim_nvme::{Config, Later, NamespaceConfig};
use zerocopy::FromBytes;

/// Address for the answers to Identify.
const PAGE: u64 = 0x10_0000;

fn driver(later: Vec<Later>) -> Driver {
    let base = |_: u64, bytes: &mut [u8]| bytes.fill(7);
    let named =
        |byte| NamespaceConfig { nguid: [byte; 16], base: Box::new(base), ..NamespaceConfig::zeroes(NAMESPACE_BYTES) };
    let mut driver = Driver::new(Config { later, namespaces: vec![named(1), named(2)], ..config() });
    driver.enable(Arbitration::RoundRobin);
    driver
}

fn enable_again(driver: &mut Driver) {
    driver.set(Register::Cc, 0);
    driver.run();
    driver.enable(Arbitration::RoundRobin);
}

fn identified<T: FromBytes>(driver: &mut Driver, sqe: nvme_spec::Sqe) -> T {
    assert_eq!(driver.execute(0, sqe).status(), Status::SUCCESS);
    T::read_from_prefix(&driver.machine.memory[PAGE as usize..]).unwrap().0
}

fn controller(driver: &mut Driver) -> identify::Controller {
    identified(driver, admin::identify_controller(Cid(0), DataPointer::page(PAGE)))
}

fn namespace(driver: &mut Driver, nsid: u32) -> identify::Namespace {
    identified(driver, admin::identify_namespace(Cid(0), Nsid(nsid), DataPointer::page(PAGE)))
}

#[test]
fn a_controller_changes_at_the_enabling_that_is_named_and_stays_so() {
    let other = Later { enabling: Some(3), serial: Some("OTHER".into()), mdts: Some(2), ..Later::default() };
    let mut driver = driver(vec![other]);
    let first = controller(&mut driver);
    enable_again(&mut driver);
    assert_eq!((controller(&mut driver).sn, controller(&mut driver).mdts), (first.sn, first.mdts));
    for _ in 0..2 {
        enable_again(&mut driver);
        let about = controller(&mut driver);
        assert_eq!((&about.sn[..6], about.mdts, about.mn), (&b"OTHER "[..], 2, first.mn));
    }
    driver.assert_clean();
}

#[test]
fn one_namespace_or_all_change() {
    let of = |nsid, nguid| Later { enabling: Some(2), nsid, nguid: Some([nguid; 16]), ..Later::default() };
    let larger = Later { enabling: Some(3), bytes: Some(2 * NAMESPACE_BYTES), eui64: Some([5; 8]), ..Later::default() };
    let mut driver = driver(vec![of(Some(2), 9), larger]);
    let blocks = namespace(&mut driver, 1).nsze.get();
    enable_again(&mut driver);
    assert_eq!([1, 2].map(|nsid| namespace(&mut driver, nsid).nguid[0]), [1, 9]);
    enable_again(&mut driver);
    for nsid in [1, 2] {
        let about = namespace(&mut driver, nsid);
        assert_eq!((about.nsze.get(), about.eui64), (2 * blocks, [5; 8]));
    }
}

#[test]
fn another_disks_blocks_are_zeroes() {
    let mut driver = driver(vec![Later { enabling: Some(2), nsid: Some(1), blank: true, ..Later::default() }]);
    enable_again(&mut driver);
    let first = |nsid| {
        let mut byte = [0; 1];
        driver.controller.read_contents(nsid, 0, &mut byte).unwrap();
        byte[0]
    };
    assert_eq!([1, 2].map(first), [0, 7]);
}

#[test]
fn fewer_queue_pairs_are_granted_until_more_are_again() {
    let grant = |enabling, granted| Later { enabling: Some(enabling), granted: Some(granted), ..Later::default() };
    let mut driver = driver(vec![grant(2, 1), grant(4, 3)]);
    let asked = NumberOfQueues::pairs(4).unwrap();
    for granted in [4, 1, 1, 3] {
        let answer = driver.execute(0, asked.set(Cid(0)));
        assert_eq!(NumberOfQueues::from_bits(answer.dw0).sqs(), granted);
        if granted == 1 {
            driver.create_pair(1, 8, QueuePriority::Urgent);
            driver.assert_clean();
        }
        enable_again(&mut driver);
    }
}
