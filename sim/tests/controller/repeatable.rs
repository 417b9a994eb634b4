//! A seed and a sequence of calls give the same answers each time, and records report all events.

use nvme_spec::nvm::{self, Blocks};
use nvme_spec::{Cid, Lba, Nsid, Status};
use sim_fault::{CommandEffect, CommandFault, Fault, QueueKind};
use sim_nvme::config::Recording;
use sim_nvme::{Config, Direction, Record, Transfer};

use crate::driver::{Driver, PAGE, config};

fn faulty() -> Config {
    let fault = CommandFault {
        controller: String::new(),
        queues: QueueKind::Io,
        opcodes: Vec::new(),
        nsid: None,
        blocks: None,
        from_ns: 0,
        until_ns: None,
        skip: 0,
        per_million: 200_000,
        times: None,
        effect: CommandEffect::Delay { ns: 7_777 },
    };
    Config { faults: vec![Fault::Command(fault)], recording: Recording::On, ..config() }
}

fn run() -> (Vec<Record>, u64) {
    let mut driver = Driver::with_queues(faulty(), 2);
    for round in 0..50 {
        for queue in 1..=2 {
            let blocks = Blocks::new(Lba(round), 3).unwrap();
            driver.submit(queue, nvm::verify(Cid(0), Nsid(1), blocks));
            driver.ring(queue);
        }
        if round % 8 == 0 {
            driver.run();
            (1..=2).for_each(|queue| drop(driver.take_all(queue)));
        }
    }
    driver.run();
    (driver.take_records(), driver.now_ns)
}

#[test]
fn a_run_repeats_to_the_nanosecond() {
    assert_eq!(run(), run());
}

#[test]
fn records_report_commands_and_of_every_byte_moved() {
    let mut driver = Driver::with_queues(Config { faults: Vec::new(), ..faulty() }, 1);
    drop(driver.take_records());
    drop(driver.controller.take_transfers());
    let (far, near) = (driver.allocate(PAGE), driver.allocate(PAGE));
    let data = nvme_spec::DataPointer { prp1: near + 3584, prp2: far };
    let sqe = nvm::read(Cid(0), Nsid(2), Blocks::new(Lba(5), 3).unwrap(), data);
    let rung_ns = driver.now_ns;
    let cqe = driver.execute(1, sqe);
    let records: Vec<Record> = driver.take_records();
    let [record] = records[..] else { panic!("one command: {records:?}") };
    assert_eq!((record.sq, record.cid, record.opcode, record.nsid), (1, cqe.cid().0, 2, 2));
    assert_eq!((record.slba, record.blocks, record.status, record.postings), (5, 3, Status::SUCCESS, 1));
    assert!(rung_ns < record.fetched_ns && record.fetched_ns < record.completed_ns);
    let piece = |address, bytes| Transfer { sq: 1, cid: record.cid, address, bytes, direction: Direction::ToHost };
    let transfers: Vec<Transfer> = driver.controller.take_transfers().collect();
    assert_eq!(transfers, [piece(near + 3584, 512), piece(far, 1024)]);
    assert_eq!(driver.take_records().len(), 0, "taken once");
}

#[test]
fn nothing_is_recorded_unless_asked_for() {
    let mut driver = Driver::with_queues(config(), 1);
    driver.execute(1, nvm::flush(Cid(0), Nsid(1)));
    assert_eq!((driver.take_records().len(), driver.controller.take_transfers().count()), (0, 0));
    let counters = driver.controller.counters();
    assert_eq!((counters.fetched, counters.posted), (3, 3));
}
