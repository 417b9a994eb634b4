//! Many resets, and resets in bad moments.

use crate::support::{Setup, System, entry};
use blk_api::Status;
use blk_api::request::{Entry, Opcode};
use blk_api::session::Refusal;
use sim_fault::ControllerEffect;

#[test]
fn a_thousand_resets_use_nothing_up() {
    // Exactly the pages that the server and two sessions need.
    let mut system = System::serving(Setup { dma_pages: 23, ..Setup::default() }, 1);
    for round in 0..1000u64 {
        system.controller(|controller, bus| controller.forge(bus, 1, |_| ()));
        system.tick();
        assert_eq!(system.request(0, entry(Opcode::Read, round % 900, 20, 0)).status, 0);
        system.take_failures();
        system.take_acts();
    }
    assert_eq!(system.world.state().controller.resets, 1001);
    system.open(1).unwrap();
    assert_eq!(system.request(1, entry(Opcode::Read, 0, 20, 0)).status, 0);
}

#[test]
fn a_reset_that_fails_once_is_tried_again() {
    let mut system = System::serving(Setup::default(), 1);
    system.controller(|controller, bus| {
        controller.refuse = Some((nvme_spec::admin::Opcode::Identify, 2));
        controller.forge(bus, 1, |_| ());
    });
    assert_eq!(system.world.state().controller.resets, 2, "a tick between two attempts");
    system.tick();
    assert_eq!(system.world.state().controller.resets, 3);
    system.tick();
    assert_eq!(system.request(0, entry(Opcode::Read, 1, 20, 0)).status, 0);
    assert_eq!(system.world.state().controller.resets, 4);
    system.take_failures();
    // The failed attempts count as well.
    system.controller(|controller, bus| controller.forge(bus, 1, |_| ()));
    assert!(system.take_failures()[0].ends_with("(fault 4)"));
}

#[test]
fn a_controller_that_is_away_for_half_a_second_is_used_again() {
    let mut system = System::serving(Setup::default(), 1).holding();
    let read = |n| Entry { user_data: n, ..entry(Opcode::Read, n, 1, 0) };
    system.submit(0, &[read(1)]);
    system.controller(|controller, _| controller.absent = true);
    system.tick();
    // Of two that come meanwhile one asks for a session and one for blocks: both wait.
    let opening = system.begin_call(2, blk_api::session::OPEN);
    system.submit(0, &[read(2)]);
    for _ in 0..9 {
        system.tick();
        assert!(system.completions(0).is_empty());
    }
    system.controller(|controller, _| (controller.absent, controller.hold) = (false, false));
    system.tick();
    let answers: Vec<_> = system.completions(0).iter().map(|c| (c.user_data, c.status().unwrap())).collect();
    assert_eq!(answers, [(1, Status::ControllerReset), (2, Status::Success)]);
    assert!(system.answer(opening).is_some_and(|answer| answer.label == blk_api::session::DONE));
    assert_eq!(system.take_failures(), ["controller reset: registers read as all ones (fault 1)"]);
    assert_eq!(system.request(0, entry(Opcode::Read, 3, 1, 0)).status, 0);
}

#[test]
fn a_controller_that_stays_away_is_given_up_after_a_second() {
    let mut system = System::serving(Setup::default(), 1);
    system.controller(|controller, _| (controller.hold, controller.absent) = (true, true));
    system.submit(0, &[entry(Opcode::Read, 1, 1, 0)]);
    let given_up = |system: &System| system.take_failures().iter().any(|it| it.contains("the controller is gone"));
    // Seen at the first tick, and 50 ms pass from one to the next.
    for _ in 0..20 {
        system.tick();
        assert!(!given_up(&system));
        assert!(system.completions(0).is_empty());
    }
    system.tick();
    system.tick();
    assert!(given_up(&system));
    let answers: Vec<_> = system.completions(0).iter().map(|c| c.status().unwrap()).collect();
    assert_eq!(answers, [Status::DeviceGone]);
    assert_eq!(system.open(1), Err(Refusal::DeviceGone));
}

#[test]
fn a_controller_that_was_away_has_three_attempts_from_there_on() {
    let mut system = System::serving(Setup::default(), 1);
    system.controller(|controller, _| controller.absent = true);
    system.pass(1);
    assert_eq!(system.world.state().controller.resets, 1);
    system.controller(|controller, _| {
        controller.absent = false;
        controller.refuse = Some((nvme_spec::admin::Opcode::Identify, 2));
    });
    for resets in 2..5 {
        system.tick();
        assert_eq!(system.world.state().controller.resets, resets);
    }
    assert_eq!(system.request(0, entry(Opcode::Read, 1, 20, 0)).status, 0);
}

#[test]
fn a_request_in_the_middle_of_being_split_is_answered_once() {
    let mut system = System::serving(Setup::default(), 1).holding();
    let requests = [1, 2].map(|n| Entry { user_data: n, ..entry(Opcode::Read, 0, 200, 0) });
    system.submit(0, &requests);
    system.controller(|controller, bus| {
        controller.finish(bus, 3);
        controller.forge(bus, 1, |_| ());
        controller.hold = false;
    });
    system.tick();
    // The first was cut short. The second still lay on the ring and is done afterwards.
    let answers: Vec<_> = system.completions(0).iter().map(|c| (c.user_data, c.status().unwrap())).collect();
    assert_eq!(answers, [(1, Status::ControllerReset), (2, Status::Success)]);
}

#[test]
fn completions_taken_before_a_lie_in_the_same_batch_count() {
    let mut system = System::serving(Setup::default(), 1).holding();
    let requests = [1, 2, 3].map(|n| Entry { user_data: n, ..entry(Opcode::Read, n, 1, 0) });
    system.submit(0, &requests);
    system.controller(|controller, bus| {
        controller.finish(bus, 2);
        controller.forge(bus, 1, |_| ());
    });
    let answers: Vec<_> = system.completions(0).iter().map(|c| (c.user_data, c.status().unwrap())).collect();
    assert_eq!(answers, [(1, Status::Success), (2, Status::Success), (3, Status::ControllerReset)]);
}

#[test]
fn larger_transfers_after_a_reset_change_nothing() {
    let mut system = System::serving(Setup::default(), 1);
    system.close(0).unwrap();
    system.open(1).unwrap();
    system.controller(|controller, bus| {
        controller.lies.shape.mdts = 0;
        controller.forge(bus, 2, |_| ());
    });
    system.take_failures();
    system.open(0).unwrap();
    // Page lists were laid out for what it allowed first: 8 KiB.
    for index in 0..2 {
        assert_eq!(system.request(index, entry(Opcode::Read, 0, 160, 4)).status, 0);
        assert_eq!(system.world.state().controller.submitted.len(), 10 * (index + 1));
    }
    assert!(system.take_failures().is_empty());
}

#[test]
fn opening_session_is_opened_after_the_reset() {
    let mut system = System::start(Setup::default());
    system.controller(|controller, _| controller.deaf = true);
    let opening = system.begin_call(1, blk_api::session::OPEN);
    system.controller(|controller, bus| {
        controller.deaf = false;
        controller.strike(bus, ControllerEffect::FatalStatus);
    });
    // Seen at the next tick, without waiting for the command that never completes.
    system.tick();
    assert!(system.answer(opening).is_some_and(|answer| answer.label == blk_api::session::DONE));
    assert_eq!(system.take_failures().len(), 1);
    system.install(0).unwrap();
    assert_eq!(system.request(0, entry(Opcode::Read, 0, 20, 0)).status, 0);
}

#[test]
fn session_whose_openings_all_end_in_resets_is_refused() {
    let mut system = System::start(Setup::default());
    system.open(1).unwrap();
    system.controller(|controller, _| controller.deaf_to = Some(nvme_spec::admin::Opcode::CreateIoSq));
    let opening = system.begin_call(1, blk_api::session::OPEN);
    // The first attempt's command is given up; the neighbour's queue pair cannot be recreated either.
    system.pass(60);
    assert!(system.answer(opening).is_some_and(|answer| answer.label == Refusal::Device as u32));
    assert!(system.take_failures().iter().any(|reason| reason.contains("cannot be brought up")));
}

#[test]
fn opening_that_keeps_failing_is_refused() {
    let mut system = System::start(Setup::default());
    system.controller(|controller, _| controller.deaf_to = Some(nvme_spec::admin::Opcode::CreateIoSq));
    let opening = system.begin_call(1, blk_api::session::OPEN);
    system.pass(60);
    assert!(system.answer(opening).is_some_and(|answer| answer.label == Refusal::Device as u32));
    assert_eq!(system.take_failures().len(), 3);
    system.controller(|controller, _| controller.deaf_to = None);
    system.open(0).unwrap();
    assert_eq!(system.request(0, entry(Opcode::Read, 0, 20, 0)).status, 0);
}

#[test]
fn flood_of_openings_delays_nobody_for_ever() {
    let mut system = System::start(Setup::default());
    system.controller(|controller, _| controller.deaf = true);
    for _ in 0..600 {
        system.send(1, blk_api::session::OPEN);
    }
    system.settle();
    let neighbour = system.begin_call(2, blk_api::session::OPEN);
    system.controller(|controller, _| controller.deaf = false);
    system.pass(12);
    let answer = system.answer(neighbour).expect("an answer");
    assert!(answer.label == 0 || answer.label == Refusal::Device as u32);
    assert_eq!(system.take_failures().len(), 1);
    if answer.label != 0 {
        system.open(1).unwrap();
    }
    system.install(1).unwrap();
    assert_eq!(system.request(1, entry(Opcode::Read, 0, 1, 0)).status, 0);
}

#[test]
fn missing_list_pages_refuse_the_opening_without_reset() {
    // Memory is missing at a command's list pages: behind the server's own three pages and the queues of the session.
    let mut system = System::start(Setup { dma_pages: 13, lost_dma_pages: 7, ..Setup::default() });
    for _ in 0..20 {
        assert_eq!(system.open(0).unwrap_err(), Refusal::Device);
        system.tick();
    }
    assert!(system.take_failures().is_empty(), "the controller is not at fault");
}
