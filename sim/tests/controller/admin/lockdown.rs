//! Lockdown: commands and features that are prohibited, until they are allowed again or power is lost.

use nvme_spec::admin::{self, FormatDw10, Lock, LockdownDw10, LockdownScope, Opcode, lock_command, lock_feature};
use nvme_spec::feature::{Feature, get_feature, set_feature};
use nvme_spec::log::{LockdownContents, LockdownLog, LockdownSelector, get_lockdown_log};
use nvme_spec::registers::{NSSR_RESET, Register};
use nvme_spec::{Cid, Nsid, Sqe, StatusCode};
use sim_nvme::config::Capabilities;
use sim_nvme::{AdminConfig, Config, OptionalCommands};

use super::support::{Driver, PAGE, config};

const CID: Cid = Cid(0);
const FORMAT: Sqe = admin::format_nvm(CID, Nsid(1), FormatDw10::new());

fn list(driver: &mut Driver, scope: LockdownScope, contents: LockdownContents) -> Vec<u8> {
    driver.succeed(get_lockdown_log(CID, scope, contents, PAGE));
    let log: LockdownLog = driver.data();
    let selector = LockdownSelector::new().with_scope(scope as u8).with_contents(contents as u8);
    assert_eq!(log.attributes, selector.into_bits());
    log.listed().to_vec()
}

fn prohibited(driver: &mut Driver) -> (Vec<u8>, Vec<u8>) {
    let mut of = |scope| list(driver, scope, LockdownContents::ByAdminQueue);
    (of(LockdownScope::Commands), of(LockdownScope::Features))
}

#[test]
fn a_prohibited_command_is_refused_until_it_is_allowed_again() {
    let mut driver = Driver::new(config());
    driver.succeed(lock_command(CID, Lock::Prohibit, Opcode::FormatNvm));
    driver.refuse(FORMAT, StatusCode::CommandProhibited);
    // A wrong command is prohibited as well.
    driver.refuse(Sqe { cdw2: 1, ..FORMAT }, StatusCode::CommandProhibited);
    assert_eq!(prohibited(&mut driver), (vec![0x80], vec![]));
    // Once more changes nothing.
    driver.succeed(lock_command(CID, Lock::Prohibit, Opcode::FormatNvm));
    for _ in 0..2 {
        driver.succeed(lock_command(CID, Lock::Allow, Opcode::FormatNvm));
    }
    driver.succeed(FORMAT);
    assert_eq!(prohibited(&mut driver), (vec![], vec![]));
    driver.assert_clean();
}

#[test]
fn a_prohibited_feature_can_be_read_and_not_set() {
    let mut driver = Driver::new(config());
    driver.succeed(lock_feature(CID, Lock::Prohibit, Feature::Arbitration));
    driver.refuse(set_feature(CID, Feature::Arbitration, 1), StatusCode::CommandProhibited);
    assert_eq!(driver.succeed(get_feature(CID, Feature::Arbitration)), 0);
    driver.succeed(set_feature(CID, Feature::WriteAtomicity, 1));
    assert_eq!(prohibited(&mut driver), (vec![], vec![1]));
    driver.succeed(lock_feature(CID, Lock::Allow, Feature::Arbitration));
    driver.succeed(set_feature(CID, Feature::Arbitration, 1));
}

#[test]
fn resets_keep_a_prohibition_and_a_loss_of_power_ends_it() {
    let capabilities = Capabilities { subsystem_reset: true, ..Capabilities::default() };
    let mut driver = Driver::new(Config { capabilities, ..config() });
    driver.succeed(lock_command(CID, Lock::Prohibit, Opcode::FormatNvm));
    // Not even the host that prohibited it can allow it.
    driver.succeed(lock_command(CID, Lock::Prohibit, Opcode::Lockdown));
    let allow = lock_command(CID, Lock::Allow, Opcode::FormatNvm);
    let still = |driver: &mut Driver| {
        driver.refuse(allow, StatusCode::CommandProhibited);
        driver.refuse(FORMAT, StatusCode::CommandProhibited);
    };
    still(&mut driver);
    driver.reset();
    still(&mut driver);
    driver.controller.function_level_reset();
    driver.enable();
    still(&mut driver);
    driver.set(Register::Nssr, NSSR_RESET);
    driver.enable();
    still(&mut driver);
    driver.lose_power();
    driver.succeed(FORMAT);
    assert_eq!(prohibited(&mut driver), (vec![], vec![]));
}

#[test]
fn only_commands_that_no_driver_needs_can_be_prohibited() {
    let mut driver = Driver::new(config());
    let commands = list(&mut driver, LockdownScope::Commands, LockdownContents::Supported);
    assert!(commands.is_sorted());
    let features = list(&mut driver, LockdownScope::Features, LockdownContents::Supported);
    for opcode in 0..=u8::MAX {
        let sqe = lock_by_number(LockdownScope::Commands, opcode);
        check(&mut driver, sqe, commands.contains(&opcode));
    }
    for fid in 0..=u8::MAX {
        let sqe = lock_by_number(LockdownScope::Features, fid);
        check(&mut driver, sqe, features.contains(&fid));
    }
    assert!([0x0d, 0x15, 0x24, 0x80].iter().all(|opcode| commands.contains(opcode)));
    assert!([0x02, 0x06, 0x09, 0x0a, 0x0c].iter().all(|opcode| !commands.contains(opcode)));
    assert!(features.contains(&0x02) && !features.contains(&0x06), "there is no write cache");
    driver.assert_clean();
}

/// A Lockdown that allows what is allowed already.
fn lock_by_number(scope: LockdownScope, id: u8) -> Sqe {
    let dw10 = LockdownDw10::new().with_scope(scope as u8).with_id(id);
    Sqe { cdw10: dw10.into_bits(), ..lock_command(CID, Lock::Allow, Opcode::FormatNvm) }
}

fn check(driver: &mut Driver, sqe: Sqe, is_possible: bool) {
    if is_possible {
        driver.succeed(sqe);
    } else {
        driver.refuse(sqe, StatusCode::ProhibitionNotSupported);
    }
}

#[test]
fn scopes_and_interfaces_that_are_not_there_are_refused() {
    let mut driver = Driver::new(config());
    let lock = lock_command(CID, Lock::Prohibit, Opcode::FormatNvm);
    let dw10 = LockdownDw10::from_bits(lock.cdw10);
    let with = |dw10: LockdownDw10| Sqe { cdw10: dw10.into_bits(), ..lock };
    // No management endpoint.
    for interface in [1, 2] {
        driver.refuse(with(dw10.with_interface(interface)), StatusCode::InvalidField);
    }
    driver.refuse(with(dw10.with_scope(LockdownScope::Pcie as u8)), StatusCode::InvalidField);
    driver.refuse(with(dw10.with_scope(LockdownScope::Management as u8)), StatusCode::ProhibitionNotSupported);
    driver.assert_clean();
    driver.refuse_field(with(dw10.with_interface(3)), 10);
    driver.refuse_field(with(dw10.with_scope(1)), 10);
    driver.refuse_field(Sqe { cdw10: lock.cdw10 | 1 << 16, ..lock }, 10);
    driver.refuse_field(Sqe { nsid: 1, ..lock }, 1);
    let log = get_lockdown_log(CID, LockdownScope::Commands, LockdownContents::Supported, PAGE);
    for lsp in [0x01, 0x30, 0x40] {
        driver.refuse_field(Sqe { cdw10: log.cdw10 | lsp << 8, ..log }, 10);
    }
    assert!(list(&mut driver, LockdownScope::Commands, LockdownContents::ByEndpoint).is_empty());
    assert!(list(&mut driver, LockdownScope::Management, LockdownContents::Supported).is_empty());
    driver.succeed(FORMAT);
}

#[test]
fn a_controller_without_lockdown_has_neither_command_nor_log() {
    let commands = OptionalCommands { lockdown: false, ..AdminConfig::default().commands };
    let mut driver = Driver::new(Config { admin: AdminConfig { commands, ..AdminConfig::default() }, ..config() });
    driver.refuse(lock_command(CID, Lock::Prohibit, Opcode::FormatNvm), StatusCode::InvalidOpcode);
    let log = get_lockdown_log(CID, LockdownScope::Commands, LockdownContents::Supported, PAGE);
    driver.refuse(log, StatusCode::InvalidLogPage);
}
