//! The error log: its entries about commands that failed.

use nvme_spec::log::{ErrorEntry, LogPage, LogRead, Smart};
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::{Cid, DataPointer, Lba, Nsid, Sqe, StatusCode, admin};

use sim_nvme::{AdminConfig, Config};

use super::support::{Driver, PAGE, config};

const CID: Cid = Cid(0);

#[test]
fn failed_commands_of_all_queues_are_reported_newest_first() {
    let mut driver = Driver::new(config());
    driver.make_io_queue();
    driver.refuse(Sqe::new(0x7f, CID, Nsid(1), DataPointer::NONE), StatusCode::InvalidOpcode);
    let beyond = Blocks::new(Lba(2048), 1).unwrap();
    let failed = driver.io(nvm::read(CID, Nsid(1), beyond, PAGE));
    assert_eq!(failed.status().code(), StatusCode::LbaOutOfRange);
    assert!(failed.status().more());
    let [io, other, none]: [ErrorEntry; 3] = driver.log(LogPage::ErrorInformation);
    assert_eq!((io.count.get(), io.sqid.get(), io.cid.get()), (2, 1, failed.cid().0));
    assert_eq!((io.lba.get(), io.nsid.get()), (2048, 1));
    assert_eq!(io.status(), failed.status());
    assert_eq!((other.count.get(), other.sqid.get(), other.lba.get()), (1, 0, 0));
    assert_eq!(other.status().code(), StatusCode::InvalidOpcode);
    assert_eq!(none.count.get(), 0);
    let smart: Smart = driver.log(LogPage::Smart);
    assert_eq!(smart.error_log_entries.get(), 2);
}

#[test]
fn the_log_outlives_resets_and_power_losses() {
    let mut driver = Driver::new(config());
    let unknown = Sqe::new(0x7f, CID, Nsid::NONE, DataPointer::NONE);
    driver.refuse(unknown, StatusCode::InvalidOpcode);
    driver.reset();
    driver.lose_power();
    driver.refuse(unknown, StatusCode::InvalidOpcode);
    let entries: [ErrorEntry; 3] = driver.log(LogPage::ErrorInformation);
    assert_eq!(entries.map(|entry| entry.count.get()), [2, 1, 0]);
}

#[test]
fn an_entry_names_the_field_that_was_wrong() {
    let mut driver = Driver::new(config());
    let identify = admin::identify_controller(CID, PAGE);
    driver.refuse_field(Sqe { cdw11: 1, ..identify }, 11);
    driver.refuse(Sqe::new(0x7f, CID, Nsid::NONE, DataPointer::NONE), StatusCode::InvalidOpcode);
    let [other, field]: [ErrorEntry; 2] = driver.log(LogPage::ErrorInformation);
    assert_eq!((field.location.get(), other.location.get()), (44, u16::MAX));
}

#[test]
fn more_entries_than_fit_push_the_oldest_out_and_parts_can_be_read() {
    let mut driver =
        Driver::new(Config { admin: AdminConfig { error_entries: 3, ..AdminConfig::default() }, ..config() });
    for _ in 0..5 {
        driver.refuse(Sqe::new(0x7f, CID, Nsid::NONE, DataPointer::NONE), StatusCode::InvalidOpcode);
    }
    let entries: [ErrorEntry; 4] = driver.log(LogPage::ErrorInformation);
    assert_eq!(entries.map(|entry| entry.count.get()), [5, 4, 3, 0]);
    // The second entry alone.
    let second = LogRead { offset: 64, ..LogRead::whole(LogPage::ErrorInformation, 64) };
    driver.succeed(second.sqe(CID, Nsid::ALL, PAGE));
    assert_eq!(driver.data::<ErrorEntry>().count.get(), 4);
}

#[test]
fn success_leaves_no_entry() {
    let mut driver = Driver::new(config());
    driver.succeed(admin::identify_controller(CID, PAGE));
    let [entry]: [ErrorEntry; 1] = driver.log(LogPage::ErrorInformation);
    assert_eq!(entry.count.get(), 0);
}
