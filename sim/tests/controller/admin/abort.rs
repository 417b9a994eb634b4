//! Abort: of commands under way, held, done and unknown.

use nvme_spec::admin::{self, CommandName, FormatDw10, was_aborted};
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::{Cid, Lba, Nsid, QueueId, Status, StatusCode};
use sim_fault::{CommandEffect, CommandFault, Fault, QueueKind};
use sim_nvme::{AdminConfig, Config};

use super::support::{Driver, PAGE, config};

const CID: Cid = Cid(0);

fn abort(sq: u16, cid: Cid) -> nvme_spec::Sqe {
    admin::abort(CID, CommandName { sq: QueueId(sq), cid })
}

/// Reads take a second.
fn slow_reads() -> Config {
    let fault = CommandFault {
        opcodes: vec![2],
        ..CommandFault::new(QueueKind::Io, CommandEffect::Delay { ns: 1_000_000_000 })
    };
    Config { faults: vec![Fault::Command(fault)], ..config() }
}

fn read(driver: &mut Driver) -> Cid {
    driver.submit(1, nvm::read(CID, Nsid(1), Blocks::new(Lba(0), 1).unwrap(), PAGE))
}

#[test]
fn a_command_under_way_is_aborted_before_the_abort_completes() {
    let mut driver = Driver::new(slow_reads());
    driver.make_io_queue();
    let [victim, other] = [read(&mut driver), read(&mut driver)];
    driver.pass(100_000);
    let start_ns = driver.now_ns;
    assert!(was_aborted(driver.succeed(abort(1, victim))));
    let entry = driver.completion(victim).expect("aborted first");
    assert_eq!(entry.status(), Status::new(StatusCode::AbortRequested));
    assert!(driver.now_ns - start_ns < 1_000_000);
    assert!(driver.wait(other).status().is_success());
}

#[test]
fn an_aborted_command_frees_its_identifier_and_is_answered_once() {
    let mut driver = Driver::new(slow_reads());
    driver.make_io_queue();
    let victim = read(&mut driver);
    driver.pass(100_000);
    assert!(was_aborted(driver.succeed(abort(1, victim))));
    driver.wait(victim);
    driver.pass(3_000_000_000);
    assert_eq!(driver.completion(victim), None);
    driver.assert_clean();
}

#[test]
fn commands_that_are_done_or_never_were_are_not_aborted() {
    let mut driver = Driver::new(config());
    driver.make_io_queue();
    let done = read(&mut driver);
    assert!(driver.wait(done).status().is_success());
    for (sq, cid) in [(1, done), (1, Cid(999)), (0, Cid(999)), (7, Cid(1))] {
        assert!(!was_aborted(driver.succeed(abort(sq, cid))));
    }
}

#[test]
fn a_held_event_request_is_aborted() {
    let mut driver = Driver::new(Config { admin: AdminConfig { event_requests: 1, ..Default::default() }, ..config() });
    let held = driver.submit(0, admin::async_event_request(CID));
    driver.pass(1_000_000);
    assert!(was_aborted(driver.succeed(abort(0, held))));
    assert_eq!(driver.wait(held).status(), Status::new(StatusCode::AbortRequested));
    // There is room for another.
    let again = driver.submit(0, admin::async_event_request(CID));
    driver.pass(1_000_000);
    assert_eq!(driver.completion(again), None);
}

#[test]
fn a_long_admin_command_is_aborted() {
    let mut driver = Driver::new(config());
    let format = driver.submit(0, admin::format_nvm(CID, Nsid(1), FormatDw10::new()));
    driver.pass(1_000_000);
    assert!(was_aborted(driver.succeed(abort(0, format))));
    assert_eq!(driver.wait(format).status().code(), StatusCode::AbortRequested);
}

#[test]
fn an_abort_cannot_abort_itself() {
    let mut driver = Driver::new(config());
    // The next identifier is the abort's own.
    let own = Cid(driver.submit(0, admin::identify_controller(CID, PAGE)).0 + 1);
    let cid = driver.submit(0, abort(0, own));
    assert_eq!(cid, own);
    let entry = driver.wait(cid);
    assert!(entry.status().is_success() && !was_aborted(entry.dw0));
}

#[test]
fn aborts_beyond_the_limit_are_refused() {
    let mut driver = Driver::new(Config { admin: AdminConfig { aborts: 2, ..Default::default() }, ..config() });
    let mut cids: Vec<Cid> = (0..4).map(|_| driver.enqueue(0, abort(1, Cid(999)))).collect();
    // The doorbell comes with the last of them.
    cids.push(driver.submit(0, abort(1, Cid(999))));
    let codes: Vec<StatusCode> = cids.into_iter().map(|cid| driver.wait(cid).status().code()).collect();
    let refused = codes.iter().filter(|&&code| code == StatusCode::AbortLimit).count();
    assert!(codes.iter().all(|code| matches!(code, StatusCode::AbortLimit | StatusCode::Success)));
    assert!((1..=3).contains(&refused), "{codes:?}");
    // Once they are over there is room again.
    assert!(!was_aborted(driver.succeed(abort(1, Cid(999)))));
}
