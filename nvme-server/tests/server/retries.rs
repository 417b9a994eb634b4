//! Commands that the controller asks for again later: done again within bounds, and ended by whatever ends their request.

use crate::support::{Act, Bytes, Setup, System, entry, session};
use blk_api::Status;
use blk_api::config::FunctionConfig;
use blk_api::policy::{self, BADGE, CLEAR, DRAINED, Removal, Share};
use blk_api::request::{Entry, Opcode};
use blk_api::ring::DO_NOT_RETRY;
use blk_api::session::{CLOSE, DONE};
use nvme_spec::admin;
use nvme_spec::feature::Feature;
use nvme_spec::{Status as Controllers, StatusCode};
use platform::Message;
use sim_fault::ControllerEffect;

const NOT_READY: Controllers = Controllers::new(StatusCode::NamespaceNotReady);
/// Ticks of a second.
const TICKS: u64 = 20;

fn open_with(retry_delays: [u16; 3]) -> System {
    let mut setup = Setup::default();
    setup.shape.retry_delays = retry_delays;
    System::serving(setup, 2)
}

fn open() -> System {
    open_with([0; 3])
}

fn fail(system: &mut System, status: Controllers, times: u32) {
    system.controller(|controller, _| controller.fails = Some((status, times)));
}

fn submitted(system: &mut System) -> usize {
    system.controller(|controller, _| controller.submitted.len())
}

/// A write of the first session that waits for its retry.
fn waiting() -> System {
    let mut system = open();
    fail(&mut system, NOT_READY, 1);
    system.submit(0, &[Entry { user_data: 7, ..entry(Opcode::Write, 3, 2, 0) }]);
    assert_eq!((submitted(&mut system), system.completions(0)), (1, vec![]));
    system
}

/// The one answer to it, and the number of commands for it.
fn answer(system: &mut System) -> (Option<Status>, usize) {
    match system.completions(0)[..] {
        [answer] => {
            assert_eq!(answer.user_data, 7);
            (answer.status(), submitted(system))
        }
        ref others => panic!("one answer, not {others:?}"),
    }
}

#[test]
fn request_of_each_kind_is_done_again_and_succeeds() {
    for opcode in Opcode::ALL.iter().copied() {
        let blocks = match opcode.right() {
            None => 0,
            Some(_) if opcode.moves_data() => 2,
            Some(_) => 9,
        };
        let mut system = open();
        let code = StatusCode::CommandInterrupted;
        fail(&mut system, code.into(), 2);
        let before = system.controller(|controller, _| controller.disk(5 * 512..7 * 512));
        system.clients[0].window.put(516, if opcode == Opcode::Compare { &before } else { &[0xa5; 1024] });
        let first = if blocks == 0 { 0 } else { 5 };
        system.submit(0, &[Entry { user_data: 7, ..entry(opcode, first, blocks, 516) }]);
        (0..4).for_each(|_| system.tick());
        assert_eq!(answer(&mut system), (Some(Status::Success), 3), "{opcode:?}");
        let sqes = system.controller(|controller, _| controller.submitted.clone());
        let words = |at: usize| (sqes[at].1.opcode(), sqes[at].1.cdw10, sqes[at].1.cdw12, sqes[at].1.nsid);
        assert_eq!([words(0), words(1)], [words(2); 2], "{opcode:?}");
        let disk = system.controller(|controller, _| controller.disk(5 * 512..7 * 512));
        match opcode {
            Opcode::Read => assert_eq!(system.clients[0].window.get(516..1540), disk),
            Opcode::Write => assert_eq!(disk, [0xa5; 1024]),
            Opcode::WriteZeroes | Opcode::Discard => assert_eq!(disk, [0; 1024]),
            Opcode::Flush | Opcode::Verify | Opcode::Compare => assert_eq!(disk, before),
        }
    }
}

#[test]
fn retries_are_bounded_and_the_controllers_status_reaches_the_client() {
    let mut system = open();
    fail(&mut system, NOT_READY, u32::MAX);
    system.submit(0, &[Entry { user_data: 7, ..entry(Opcode::Read, 3, 2, 0) }]);
    system.pass(9);
    assert_eq!(system.completions(0), []);
    system.pass(2);
    let [failed] = system.completions(0)[..] else { panic!("one answer") };
    assert_eq!((failed.status(), failed.device_status), (Some(Status::DeviceError), NOT_READY.to_raw()));
    assert_eq!(failed.device_status & DO_NOT_RETRY, 0, "it may be tried again");
    assert_eq!(submitted(&mut system), 11);
    // The session goes on, and the other one was never held up.
    fail(&mut system, NOT_READY, 0);
    assert_eq!(system.request(0, entry(Opcode::Read, 3, 2, 0)).status(), Some(Status::Success));
}

#[test]
fn command_that_must_not_be_retried_fails_at_once() {
    let mut system = open();
    fail(&mut system, NOT_READY.with_do_not_retry(), 1);
    let failed = system.request(0, entry(Opcode::Read, 3, 2, 0));
    assert_eq!((failed.status(), submitted(&mut system)), (Some(Status::DeviceError), 1));
    assert_ne!(failed.device_status & DO_NOT_RETRY, 0);
}

#[test]
fn delay_that_the_controller_names_is_kept() {
    let mut system = open_with([3, 0, 0]);
    let announced = system.take_acts();
    let set = Act::Admin(admin::Opcode::SetFeatures, Feature::HostBehavior as u16);
    assert!(announced.contains(&set), "the host says that it keeps delays");
    fail(&mut system, Controllers::new(StatusCode::InternalError).with_retry_delay_index(1), 1);
    system.submit(0, &[Entry { user_data: 7, ..entry(Opcode::Read, 3, 2, 0) }]);
    (0..5).for_each(|_| system.tick());
    assert_eq!(submitted(&mut system), 1, "a quarter of a second is too early");
    system.tick();
    assert_eq!(answer(&mut system), (Some(Status::Success), 2));
}

#[test]
fn nothing_is_announced_to_a_controller_without_delays() {
    let set = Act::Admin(admin::Opcode::SetFeatures, Feature::HostBehavior as u16);
    assert!(!open().take_acts().contains(&set));
}

#[test]
fn only_the_parts_of_a_request_that_were_refused_are_done_again() {
    let mut system = open().holding();
    system.submit(0, &[Entry { user_data: 7, ..entry(Opcode::Read, 0, 100, 0) }]);
    assert_eq!(submitted(&mut system), 7);
    fail(&mut system, NOT_READY, 3);
    system.finish_held();
    assert_eq!(system.completions(0), []);
    system.pass(1);
    assert_eq!(answer(&mut system), (Some(Status::Success), 10));
    let disk = system.controller(|controller, _| controller.disk(0..100 * 512));
    assert_eq!(system.clients[0].window.get(0..100 * 512), disk);
}

#[test]
fn many_requests_wait_and_all_are_answered_once() {
    let mut system = open();
    fail(&mut system, NOT_READY, 40);
    let entries: Vec<_> = (0..16).map(|n| Entry { user_data: n, ..entry(Opcode::Read, 40 * n, 40, 0) }).collect();
    system.submit(0, &entries);
    let mut answered = vec![];
    for _ in 0..4 * TICKS {
        system.tick();
        answered.extend(system.completions(0).iter().map(|one| (one.user_data, one.status().unwrap())));
    }
    answered.sort_unstable_by_key(|one| one.0);
    assert_eq!(answered, (0..16).map(|n| (n, Status::Success)).collect::<Vec<_>>());
    assert_eq!(submitted(&mut system), 16 * 3 + 40);
}

#[test]
fn retry_goes_before_the_next_large_request_of_its_session() {
    let mut system = waiting().holding();
    // The first is cut into more commands than are in flight at once, and so is never wholly submitted at a tick.
    let entries = [20, 330].map(|lba| Entry { user_data: lba, ..entry(Opcode::Read, lba, 300, 0) });
    system.submit(0, &entries);
    (0..3).for_each(|_| system.tick());
    let before = submitted(&mut system);
    assert!(before < 1 + 19, "{before} commands");
    system.finish_held();
    system.settle();
    let sqes = system.controller(|controller, _| controller.submitted.clone());
    let after = &sqes[before..];
    let position = |lba: u32| after.iter().position(|sqe| sqe.1.cdw10 == lba);
    assert!(position(3).is_some() && position(3) < position(330), "{:?} and {:?}", position(3), position(330));
}

#[test]
fn retry_that_waits_for_room_is_not_counted_against_the_next_request() {
    let mut system = waiting().holding();
    let entries: Vec<_> = (0..8).map(|n| Entry { user_data: n, ..entry(Opcode::Read, n, 1, 0) }).collect();
    system.submit(0, &entries);
    (0..3).for_each(|_| system.tick());
    assert_eq!(submitted(&mut system), 1 + 8, "the queue pair is full");
    system.finish_held();
    system.settle();
    assert_eq!((submitted(&mut system), system.completions(0).len()), (1 + 8 + 1, 9));
    fail(&mut system, NOT_READY, u32::MAX);
    system.submit(0, &[Entry { user_data: 7, ..entry(Opcode::Read, 0, 40, 0) }]);
    system.pass(12);
    assert_eq!(answer(&mut system), (Some(Status::DeviceError), 10 + 3 * 11));
}

#[test]
fn one_sessions_retries_hold_nobody_else_up() {
    let mut system = waiting();
    assert_eq!(system.request(1, entry(Opcode::Read, 0, 1, 0)).status(), Some(Status::Success));
    assert_eq!(system.completions(0), []);
}

#[test]
fn right_that_was_revoked_meanwhile_stops_a_retry() {
    let mut system = waiting();
    let call = system.begin(BADGE, Message::with(CLEAR, &0u64));
    let removal: Removal = system.answer(call).unwrap().payload().unwrap();
    assert_eq!(system.policy(Message::with(DRAINED, &removal)), Ok(()), "nothing of it can reach the blocks");
    system.pass(1);
    assert_eq!(answer(&mut system), (Some(Status::NotInstalled), 1));
}

#[test]
fn closing_ends_a_retry() {
    let mut system = waiting();
    let call = system.begin_call(1, CLOSE);
    system.tick();
    assert!(system.answer(call).is_some_and(|answer| answer.label == DONE));
    system.pass(1);
    assert_eq!(answer(&mut system), (Some(Status::Closed), 1));
}

#[test]
fn command_that_is_refused_while_its_session_closes_is_not_waited_for() {
    let mut system = open().holding();
    system.submit(0, &[Entry { user_data: 7, ..entry(Opcode::Read, 3, 2, 0) }]);
    let call = system.begin_call(1, CLOSE);
    fail(&mut system, NOT_READY, 1);
    system.controller(|controller, bus| controller.finish(bus, 1));
    system.tick();
    assert!(system.answer(call).is_some_and(|answer| answer.label == DONE));
    assert_eq!(answer(&mut system), (Some(Status::Closed), 1));
}

#[test]
fn death_of_the_client_ends_a_retry() {
    let mut system = waiting();
    system.advance_client(0);
    assert!(system.teardown_ack(0).0, "nothing is left of the session");
    system.pass(1);
    assert_eq!(submitted(&mut system), 1);
}

#[test]
fn reset_of_the_controller_ends_a_retry() {
    let mut system = waiting();
    system.controller(|controller, bus| controller.strike(bus, ControllerEffect::FatalStatus));
    system.pass(2);
    assert_eq!(answer(&mut system), (Some(Status::ControllerReset), 1));
    assert_eq!(system.request(0, entry(Opcode::Read, 3, 2, 0)).status(), Some(Status::Success));
}

#[test]
fn loss_of_the_controller_ends_a_retry() {
    let mut system = waiting();
    system.controller(|controller, _| controller.absent = true);
    system.pass(10);
    assert_eq!(system.completions(0).len(), 1);
    assert_eq!(submitted(&mut system), 1);
}

#[test]
fn recreated_queue_pairs_take_a_retry() {
    let mut setup = Setup::default();
    let first = &mut setup.sessions[0].config;
    (first.most_queue_pairs, first.most_depth, first.ring_entries) = (3, 16, 64);
    setup.dma_pages = 128;
    let mut system = System::serving(setup, 1);
    fail(&mut system, NOT_READY, 1);
    system.submit(0, &[Entry { user_data: 7, ..entry(Opcode::Write, 3, 2, 0) }]);
    let entitlement = policy::Entitlement { queue_pairs: 2, depth: 4, ..session("first", 0).entitlement() };
    assert_eq!(system.set_share(&Share::new(0, &entitlement)), Ok(()));
    system.pass(1);
    assert_eq!(answer(&mut system), (Some(Status::Success), 2));
}

#[test]
fn administrative_commands_are_done_again_too() {
    use admin::Opcode::{CreateIoCq, CreateIoSq, Identify, SetFeatures};
    for opcode in [Identify, SetFeatures] {
        let mut system = System::start_with(Setup::default(), |controller, _| {
            controller.refusal = NOT_READY;
            controller.refuse = Some((opcode, 3));
        });
        let call = system.begin_call(1, blk_api::session::OPEN);
        system.pass(1);
        assert!(system.answer(call).is_some_and(|answer| answer.label == DONE), "{opcode:?}");
        assert_eq!(system.controller(|controller, _| controller.resets), 1, "{opcode:?}");
    }
    for opcode in [CreateIoCq, CreateIoSq] {
        let mut system = System::start(Setup::default());
        system.controller(|controller, _| {
            controller.refusal = NOT_READY;
            controller.refuse = Some((opcode, 2));
        });
        let call = system.begin_call(1, blk_api::session::OPEN);
        system.pass(1);
        assert!(system.answer(call).is_some_and(|answer| answer.label == DONE), "{opcode:?}");
    }
}

#[test]
fn administrative_command_that_waits_ends_with_a_fault() {
    let mut system = System::start(Setup::default());
    system.controller(|controller, _| {
        controller.refusal = NOT_READY;
        controller.refuse = Some((admin::Opcode::CreateIoCq, u32::MAX));
    });
    let call = system.begin_call(1, blk_api::session::OPEN);
    system.tick();
    assert!(system.answer(call).is_none());
    system.controller(|controller, bus| {
        controller.refuse = None;
        controller.strike(bus, ControllerEffect::FatalStatus);
    });
    system.pass(2);
    assert!(system.answer(call).is_some(), "it did not wait for ten seconds");
}

#[test]
fn functions_are_enabled_after_a_status_that_passes() {
    for opcode in [admin::Opcode::Identify, admin::Opcode::VirtualizationManagement] {
        let function = FunctionConfig { tenant: "frida".into(), nsid: 2, queue_pairs: 1 };
        let mut setup = Setup { functions: vec![function], ..Setup::default() };
        (setup.shape.functions, setup.shape.flexible) = (1, 2);
        let mut system = System::start_with(setup, |controller, _| {
            controller.refusal = StatusCode::CommandInterrupted.into();
            controller.refuse = Some((opcode, 1));
        });
        system.pass(2);
        assert_eq!(system.take_failures(), [""; 0]);
        assert!(system.world.state().functions_at.is_some());
    }
}
