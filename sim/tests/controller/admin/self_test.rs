//! Self-tests: short and extended ones, their ends, and their log.

use nvme_spec::admin::{self, FormatDw10, SanitizeAction, SanitizeDw10, SelfTestCode, self_test};
use nvme_spec::identify::Controller;
use nvme_spec::log::{LogPage, LogRead, SelfTestLog, SelfTestResult};
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::{Cid, DataPointer, Lba, Nsid, Sqe, Status, StatusCode};
use sim_nvme::{AdminConfig, Config, Health, MediaHealth, OptionalCommands};

use super::support::{Driver, PAGE, config};

const CID: Cid = Cid(0);
const SECOND_NS: u64 = 1_000_000_000;
const SHORT: Sqe = self_test(CID, SelfTestCode::Short, Nsid::ALL);
const EXTENDED: Sqe = self_test(CID, SelfTestCode::Extended, Nsid::ALL);
const ABORT: Sqe = self_test(CID, SelfTestCode::Abort, Nsid::ALL);

fn log(driver: &mut Driver) -> SelfTestLog {
    driver.succeed(LogRead::whole(LogPage::SelfTest, 564).sqe(CID, Nsid::ALL, PAGE));
    driver.data()
}

/// Codes and results of the tests that ended, the newest first.
fn results(driver: &mut Driver) -> Vec<(u8, SelfTestResult)> {
    let ended = log(driver).results.into_iter().map(|entry| (entry.code(), entry.result().unwrap()));
    ended.take_while(|(_, result)| *result != SelfTestResult::Unused).collect()
}

#[test]
fn tests_take_their_time_and_leave_a_result() {
    let mut driver = Driver::new(config());
    assert_eq!(results(&mut driver), []);
    driver.succeed(SHORT);
    driver.pass(SECOND_NS);
    let running = log(&mut driver);
    assert_eq!((running.current, running.percent), (1, 20));
    driver.pass(4 * SECOND_NS);
    assert_eq!(results(&mut driver), [(1, SelfTestResult::Passed)]);
    driver.succeed(EXTENDED);
    driver.pass(59 * SECOND_NS);
    let running = log(&mut driver);
    assert_eq!((running.current, running.percent), (2, 98));
    driver.pass(2 * SECOND_NS);
    assert_eq!(results(&mut driver), [(2, SelfTestResult::Passed), (1, SelfTestResult::Passed)]);
    assert_eq!((log(&mut driver).current, log(&mut driver).percent), (0, 0));
    driver.assert_clean();
}

#[test]
fn io_goes_on_beside_a_test_and_another_test_does_not_begin() {
    let mut driver = Driver::new(config());
    driver.make_io_queue();
    driver.succeed(EXTENDED);
    let read = nvm::read(CID, Nsid(1), Blocks::new(Lba(0), 1).unwrap(), PAGE);
    assert!(driver.io(read).status().is_success());
    for sqe in [SHORT, EXTENDED] {
        assert_eq!(driver.admin(sqe).status(), Status::new(StatusCode::SelfTestInProgress).with_more());
    }
    driver.succeed(ABORT);
    assert_eq!(results(&mut driver), [(2, SelfTestResult::AbortedByCommand)]);
    // Without a test there is nothing to abort.
    driver.succeed(ABORT);
    assert_eq!(results(&mut driver).len(), 1);
    driver.succeed(SHORT);
}

#[test]
fn a_reset_ends_a_short_test_and_not_an_extended_one() {
    let mut driver = Driver::new(config());
    driver.succeed(SHORT);
    driver.reset();
    assert_eq!(results(&mut driver), [(1, SelfTestResult::AbortedByReset)]);
    driver.succeed(EXTENDED);
    driver.pass(30 * SECOND_NS);
    driver.reset();
    driver.lose_power();
    assert_eq!((log(&mut driver).current, log(&mut driver).percent), (2, 50));
    driver.pass(30 * SECOND_NS);
    assert_eq!(results(&mut driver)[0], (2, SelfTestResult::Passed));
    // One that ended before the reset was not ended by it.
    driver.succeed(SHORT);
    driver.pass(6 * SECOND_NS);
    driver.reset();
    assert_eq!(results(&mut driver)[0], (1, SelfTestResult::Passed));
}

#[test]
fn formats_deletions_and_sanitize_end_the_tests_of_their_namespaces() {
    let mut driver = Driver::new(config());
    let format = admin::format_nvm(CID, Nsid(1), FormatDw10::new());
    let of = |nsid| self_test(CID, SelfTestCode::Extended, Nsid(nsid));
    // The controller alone has no namespace to lose.
    driver.succeed(of(0));
    driver.succeed(format);
    assert_eq!(results(&mut driver), []);
    driver.succeed(ABORT);
    for nsid in [1, u32::MAX] {
        driver.succeed(of(nsid));
        driver.succeed(format);
        assert_eq!(results(&mut driver)[0], (2, SelfTestResult::AbortedByFormat));
    }
    driver.succeed(of(0));
    driver.succeed(admin::sanitize(CID, SanitizeDw10::new().with_action(SanitizeAction::BlockErase as u8), 0));
    driver.pass(10 * SECOND_NS);
    assert_eq!(results(&mut driver)[0], (2, SelfTestResult::AbortedBySanitize));
    driver.succeed(of(1));
    driver.succeed(admin::delete_namespace(CID, Nsid(1)));
    assert_eq!(results(&mut driver)[0], (2, SelfTestResult::AbortedByRemoval));
}

#[test]
fn media_that_are_not_reliable_fail_the_test() {
    let mut driver = Driver::new(config());
    driver.succeed(SHORT);
    let health = Health { media: MediaHealth::Degraded, ..Health::default() };
    driver.with_host(|controller, host| controller.set_health(health, host));
    driver.pass(6 * SECOND_NS);
    assert_eq!(results(&mut driver), [(1, SelfTestResult::FailedSomewhere)]);
}

#[test]
fn what_cannot_be_tested_is_refused() {
    let mut driver = Driver::new(config());
    for code in [0x0, 0x3, 0xe] {
        driver.refuse_field(Sqe { cdw10: code, ..SHORT }, 10);
    }
    driver.refuse_field(Sqe { cdw10: 0x11, ..SHORT }, 10);
    driver.refuse_field(Sqe { prp1: 0x1000, ..SHORT }, 6);
    driver.refuse(Sqe { nsid: 9, ..SHORT }, StatusCode::InvalidField);
    driver.refuse(Sqe { nsid: 257, ..SHORT }, StatusCode::InvalidNamespaceOrFormat);
    assert_eq!(log(&mut driver).current, 0);
}

#[test]
fn times_of_tests_are_those_of_the_configuration() {
    let admin =
        AdminConfig { short_test_ns: 7 * SECOND_NS, extended_test_ns: 61 * SECOND_NS, ..AdminConfig::default() };
    let mut driver = Driver::new(Config { admin, ..config() });
    driver.succeed(admin::identify_controller(CID, PAGE));
    let about: Controller = driver.data();
    assert!(about.optional_admin().self_test());
    assert_eq!((about.edstt.get(), about.dsto), (2, 0));
    driver.succeed(SHORT);
    driver.pass(6 * SECOND_NS);
    assert_eq!(log(&mut driver).percent, 85);
    let commands = OptionalCommands { self_test: false, ..AdminConfig::default().commands };
    let mut driver = Driver::new(Config { admin: AdminConfig { commands, ..AdminConfig::default() }, ..config() });
    driver.refuse(SHORT, StatusCode::InvalidOpcode);
    let page = LogRead::whole(LogPage::SelfTest, 4).sqe(CID, Nsid::ALL, DataPointer::page(0x8000));
    driver.refuse(page, StatusCode::InvalidLogPage);
}
