//! A controller that never comes back: no client is left waiting, and it reaches no window any more.

use crate::support::{Setup, System, assert_ended, busy, entry};
use blk_api::Status;
use blk_api::request::Opcode;
use blk_api::session::{OPEN, Refusal};
use sim_fault::ControllerEffect;

/// Both sessions busy, and the clients asleep, when the controller goes for good.
fn dies(kill: impl FnOnce(&mut System)) -> System {
    let mut system = busy(Setup::default());
    kill(&mut system);
    system.pass(7);
    system
}

/// A controller that failed for good.
fn assert_dead(system: &mut System) {
    assert_over(system, "cannot be brought up", Status::ControllerReset, Status::Closed, Refusal::Device);
}

/// A controller that is not there any more.
fn assert_gone(system: &mut System) {
    assert_over(system, "the controller is gone", Status::DeviceGone, Status::DeviceGone, Refusal::DeviceGone);
}

/// The reason that is reported, the status of requests in flight and of later ones, and the refusal of openings.
fn assert_over(system: &mut System, reported: &str, in_flight: Status, later: Status, refusal: Refusal) {
    let failures = system.take_failures();
    assert!(failures.iter().any(|reason| reason.starts_with("controller reset: ")), "{failures:?}");
    assert!(failures.iter().any(|reason| reason.contains(reported)), "{failures:?}");
    assert_ended(system, in_flight, later);
    for index in 0..2 {
        system.close(index).unwrap();
        assert_eq!(system.open(index), Err(refusal));
        assert_eq!(system.close(index), Err(Refusal::NotOpen));
    }
}

#[test]
fn registers_of_all_ones_end_every_session() {
    let mut system = dies(|system| system.controller(|controller, _| controller.absent = true));
    assert_gone(&mut system);
}

#[test]
fn controller_that_stays_unready_ends_every_session() {
    let mut system = dies(|system| {
        system.controller(|controller, bus| {
            controller.strike(bus, ControllerEffect::FatalStatus);
            controller.strike(bus, ControllerEffect::NeverReady);
        });
    });
    assert_dead(&mut system);
}

#[test]
fn silent_admin_queue_ends_every_session() {
    let mut system = dies(|system| {
        system.controller(|controller, bus| {
            controller.strike(bus, ControllerEffect::FatalStatus);
            controller.deaf = true;
        });
        // Three attempts, each of which waits a minute for Identify.
        system.pass(190);
    });
    assert_dead(&mut system);
}

#[test]
fn a_call_kept_while_the_controller_dies_is_answered() {
    let mut system = System::serving(Setup::default(), 1);
    system.controller(|controller, _| controller.deaf = true);
    let opening = system.begin_call(2, OPEN);
    system.controller(|controller, _| controller.absent = true);
    system.pass(12);
    assert_eq!(system.answer(opening).map(|answer| answer.label), Some(Refusal::DeviceGone as u32));
    // At once from now on.
    assert_eq!(system.open(1), Err(Refusal::DeviceGone));
    system.close(0).unwrap();
}

#[test]
fn closing_session_is_closed_when_the_controller_dies() {
    let mut system = System::serving(Setup::default(), 2).holding();
    system.submit(0, &[entry(Opcode::Read, 0, 1, 0)]);
    let closing = system.begin_call(1, blk_api::session::CLOSE);
    system.controller(|controller, _| controller.absent = true);
    system.pass(2);
    assert!(system.answer(closing).is_some_and(|answer| answer.label == blk_api::session::DONE));
    assert_eq!((system.mapped_pages(0), system.mapped_pages(1)), (0, 0));
    assert_eq!(system.completions(0).iter().map(|c| c.status()).collect::<Vec<_>>(), [Some(Status::DeviceGone)]);
    assert_eq!(system.open(0), Err(Refusal::DeviceGone));
}
