//! Sanitize: no data left, nothing else meanwhile, and a report at the end.

use nvme_spec::admin::{self, CommitAction, FormatDw10, SanitizeAction, SanitizeDw10, firmware_commit, sanitize};
use nvme_spec::event::AsyncEvent;
use nvme_spec::feature::{Feature, get_feature, set_feature};
use nvme_spec::identify::Controller;
use nvme_spec::log::{LogPage, LogRead, SanitizeLog, SanitizeState, Smart};
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::{Cid, Lba, Nsid, Sqe, Status, StatusCode};
use sim_nvme::config::Cache;
use sim_nvme::{AdminConfig, Config, NamespaceConfig, OptionalCommands};

use super::support::{Driver, PAGE, config};

const CID: Cid = Cid(0);
const SECOND_NS: u64 = 1_000_000_000;
const ERASE: SanitizeDw10 = SanitizeDw10::new().with_action(SanitizeAction::BlockErase as u8);
const OVERWRITE: SanitizeDw10 = SanitizeDw10::new().with_action(SanitizeAction::Overwrite as u8).with_passes(3);
const BUSY: Status = Status::new(StatusCode::SanitizeInProgress).with_more();

/// Two namespaces that hold 77h everywhere.
fn full() -> Driver {
    let namespace = || {
        let base = Box::new(|_: u64, bytes: &mut [u8]| bytes.fill(0x77));
        NamespaceConfig { base, ..NamespaceConfig::zeroes(1 << 20) }
    };
    let cache = Some(Cache { bytes: 1 << 20, linger_ns: 1_000_000_000_000 });
    let mut driver = Driver::new(Config { namespaces: vec![namespace(), namespace()], cache, ..config() });
    driver.make_io_queue();
    driver
}

fn log(driver: &mut Driver) -> SanitizeLog {
    driver.succeed(LogRead::whole(LogPage::Sanitize, 512).sqe(CID, Nsid::ALL, PAGE));
    driver.data()
}

fn state(driver: &mut Driver) -> SanitizeState {
    SanitizeState::from_raw(log(driver).status().state()).unwrap()
}

fn first_block() -> Blocks {
    Blocks::new(Lba(0), 1).unwrap()
}

fn write(driver: &mut Driver, nsid: u32) -> Status {
    driver.fill(0x5a);
    driver.io(nvm::write(CID, Nsid(nsid), first_block(), PAGE)).status()
}

/// The first bytes of a block that repeats them.
fn read(driver: &mut Driver, nsid: u32, lba: u64) -> [u8; 4] {
    driver.fill(0xee);
    let sqe = nvm::read(CID, Nsid(nsid), Blocks::new(Lba(lba), 1).unwrap(), PAGE);
    assert!(driver.io(sqe).status().is_success());
    let block: [u8; 512] = driver.data();
    let first = [block[0], block[1], block[2], block[3]];
    assert!(block.chunks(4).all(|dword| dword == first));
    first
}

#[test]
fn a_block_erase_leaves_no_data_in_any_namespace() {
    let mut driver = full();
    assert_eq!((state(&mut driver), log(&mut driver).progress.get()), (SanitizeState::Never, u16::MAX));
    assert!(write(&mut driver, 1).is_success());
    driver.succeed(sanitize(CID, ERASE, 0));
    assert_eq!(state(&mut driver), SanitizeState::Running);
    assert_eq!(log(&mut driver).cdw10.get(), 2);
    driver.pass(SECOND_NS);
    let progress = log(&mut driver).progress.get();
    assert!((0x8000..0x8010).contains(&progress), "{progress:#x}");
    driver.pass(SECOND_NS);
    assert_eq!((state(&mut driver), log(&mut driver).progress.get()), (SanitizeState::Succeeded, u16::MAX));
    assert!(log(&mut driver).status().erased());
    for nsid in [1, 2] {
        assert_eq!((read(&mut driver, nsid, 0), read(&mut driver, nsid, 2047)), ([0; 4], [0; 4]));
    }
    // The data written before do not come back with power.
    driver.lose_power();
    driver.make_io_queue();
    assert_eq!(read(&mut driver, 1, 0), [0; 4]);
    assert!(write(&mut driver, 1).is_success());
    assert!(!log(&mut driver).status().erased());
    driver.assert_clean();
}

#[test]
fn an_overwrite_leaves_its_pattern_where_blocks_stay_allocated() {
    let mut driver = full();
    driver.succeed(sanitize(CID, OVERWRITE.with_keep_allocated(true), 0x0403_0201));
    driver.pass(3 * SECOND_NS);
    assert_eq!((state(&mut driver), log(&mut driver).status().passes()), (SanitizeState::Running, 1));
    driver.pass(3 * SECOND_NS);
    assert_eq!((state(&mut driver), log(&mut driver).status().passes()), (SanitizeState::Succeeded, 3));
    assert_eq!((read(&mut driver, 1, 5), read(&mut driver, 2, 2047)), ([1, 2, 3, 4], [1, 2, 3, 4]));
    driver.succeed(sanitize(CID, OVERWRITE, 0x0403_0201));
    driver.pass(6 * SECOND_NS);
    assert_eq!(read(&mut driver, 1, 5), [0; 4]);
}

#[test]
fn io_and_most_admin_commands_wait_for_the_end() {
    let mut driver = full();
    driver.succeed(sanitize(CID, ERASE, 0));
    assert_eq!(write(&mut driver, 1), BUSY);
    assert_eq!(driver.io(nvm::read(CID, Nsid(2), first_block(), PAGE)).status(), BUSY);
    assert_eq!(driver.io(nvm::flush(CID, Nsid(1))).status(), BUSY);
    for sqe in [
        admin::format_nvm(CID, Nsid(1), FormatDw10::new()),
        admin::delete_namespace(CID, Nsid(1)),
        firmware_commit(CID, CommitAction::Activate, 1),
        admin::self_test(CID, admin::SelfTestCode::Short, Nsid::NONE),
        sanitize(CID, ERASE, 0),
        LogRead::whole(LogPage::FirmwareSlots, 512).sqe(CID, Nsid::ALL, PAGE),
        LogRead::whole(LogPage::CommandEffects, 512).sqe(CID, Nsid::ALL, PAGE),
    ] {
        assert_eq!(driver.admin(sqe).status(), BUSY, "{sqe:?}");
    }
    driver.succeed(admin::identify_controller(CID, PAGE));
    driver.succeed(get_feature(CID, Feature::Arbitration));
    driver.succeed(set_feature(CID, Feature::Arbitration, 1));
    driver.log::<Smart>(LogPage::Smart);
    driver.log::<[u8; 64]>(LogPage::ErrorInformation);
    driver.log::<[u8; 4096]>(LogPage::ChangedNamespaces);
    driver.pass(2 * SECOND_NS);
    assert!(write(&mut driver, 1).is_success());
    driver.assert_clean();
}

#[test]
fn a_write_that_was_on_its_way_leaves_nothing() {
    let mut driver = full();
    driver.fill(0x5a);
    let sanitize = driver.submit(0, sanitize(CID, ERASE, 0));
    // Fetched after the Sanitize and before it is executed, and moved after it.
    let write = driver.submit(1, nvm::write(CID, Nsid(1), Blocks::new(Lba(0), 64).unwrap(), driver_buffer()));
    driver.wait(sanitize);
    let status = driver.wait(write).status();
    assert!(status.is_success() || status == BUSY, "{status:?}");
    driver.pass(2 * SECOND_NS);
    assert_eq!(read(&mut driver, 1, 0), [0; 4]);
}

/// Eight pages by a list, which are the commands' data throughout.
fn driver_buffer() -> nvme_spec::DataPointer {
    nvme_spec::DataPointer { prp1: super::support::BUFFER, prp2: super::support::BUFFER + 0x7000 }
}

#[test]
fn the_end_is_reported_to_the_host_that_asked_for_it() {
    let mut driver = full();
    let [first, second] = [(); 2].map(|()| driver.submit(0, admin::async_event_request(CID)));
    driver.succeed(sanitize(CID, ERASE, 0));
    driver.pass(SECOND_NS);
    assert_eq!(driver.completion(first), None);
    driver.pass(SECOND_NS);
    let event = AsyncEvent::SANITIZE_COMPLETED.into_bits();
    assert_eq!(driver.completion(first).map(|entry| entry.dw0), Some(event));
    // The same again is masked, until the log is read or another operation begins.
    driver.succeed(sanitize(CID, ERASE, 0));
    driver.pass(2 * SECOND_NS);
    assert_eq!(driver.completion(second).map(|entry| entry.dw0), Some(event));
}

#[test]
fn resets_and_losses_of_power_do_not_end_it() {
    let mut driver = full();
    driver.succeed(sanitize(CID, ERASE, 0));
    driver.reset();
    driver.make_io_queue();
    assert_eq!(write(&mut driver, 1), BUSY);
    driver.lose_power();
    driver.make_io_queue();
    assert_eq!((write(&mut driver, 1), state(&mut driver)), (BUSY, SanitizeState::Running));
    let event = driver.submit(0, admin::async_event_request(CID));
    driver.pass(2 * SECOND_NS);
    assert!(write(&mut driver, 1).is_success());
    assert_eq!(driver.completion(event).map(|entry| entry.dw0), Some(AsyncEvent::SANITIZE_COMPLETED.into_bits()));
}

#[test]
fn an_end_while_the_controller_is_disabled_is_not_reported() {
    let mut driver = full();
    driver.succeed(sanitize(CID, ERASE, 0));
    driver.set(nvme_spec::registers::Register::Cc, 0);
    driver.pass(3 * SECOND_NS);
    driver.enable();
    let event = driver.submit(0, admin::async_event_request(CID));
    driver.pass(SECOND_NS);
    assert_eq!((driver.completion(event), state(&mut driver)), (None, SanitizeState::Succeeded));
}

#[test]
fn firmware_that_waits_for_a_reset_comes_first() {
    let mut driver = full();
    driver.succeed(firmware_commit(CID, CommitAction::Activate, 1));
    driver.refuse(sanitize(CID, ERASE, 0), StatusCode::FirmwareNeedsControllerReset);
    driver.reset();
    driver.succeed(sanitize(CID, ERASE, 0));
}

#[test]
fn operations_that_are_not_offered_are_refused() {
    let mut driver = full();
    driver.refuse(sanitize(CID, SanitizeDw10::new().with_action(4), 0), StatusCode::InvalidField);
    // Nothing failed that could be left.
    driver.succeed(sanitize(CID, SanitizeDw10::new().with_action(SanitizeAction::ExitFailure as u8), 0));
    assert_eq!(state(&mut driver), SanitizeState::Never);
    driver.assert_clean();
    for action in [0, 5, 7] {
        driver.refuse_field(sanitize(CID, SanitizeDw10::new().with_action(action), 0), 10);
    }
    let erase = sanitize(CID, ERASE, 0);
    driver.refuse_field(Sqe { cdw10: erase.cdw10 | 1 << 10, ..erase }, 10);
    driver.refuse_field(Sqe { nsid: 1, ..erase }, 1);
}

#[test]
fn capabilities_and_estimates_are_those_of_the_configuration() {
    let admin = AdminConfig { sanitize_ns: 3 * SECOND_NS, ..AdminConfig::default() };
    let mut driver = Driver::new(Config { admin, ..config() });
    driver.succeed(admin::identify_controller(CID, PAGE));
    assert_eq!(driver.data::<Controller>().sanicap.get(), 0x4000_0006);
    let log = log(&mut driver);
    assert_eq!((log.erase_seconds.get(), log.overwrite_seconds.get(), log.crypto_seconds.get()), (3, 48, u32::MAX));
    let commands = OptionalCommands { sanitize: false, ..AdminConfig::default().commands };
    let mut driver = Driver::new(Config { admin: AdminConfig { commands, ..AdminConfig::default() }, ..config() });
    driver.succeed(admin::identify_controller(CID, PAGE));
    assert_eq!(driver.data::<Controller>().sanicap.get(), 0);
    driver.refuse(sanitize(CID, ERASE, 0), StatusCode::InvalidOpcode);
    let page = LogRead::whole(LogPage::Sanitize, 4).sqe(CID, Nsid::ALL, PAGE);
    driver.refuse(page, StatusCode::InvalidLogPage);
}
