//! Sessions that share hardware queue pairs: each gets its own answers, and its end does not affect the others.

use crate::support::{Act, Setup, System, entry, session};
use blk_api::Status;
use blk_api::queue_sharing::QueueSharing;
use blk_api::request::{Entry, Opcode};
use blk_api::session::{CLOSE, DONE, Refusal};
use nvme_spec::admin::Opcode as Admin;
use sim_fault::ControllerEffect;

const ONE: QueueSharing = QueueSharing::Shared { queue_pairs: 1, depth: 8 };

fn setup(queues: QueueSharing, sessions: u16) -> Setup {
    let numbered = (0..sessions).map(|number| {
        let mut session = session(&format!("tenant-{number}"), u64::from(number) * 1000);
        (session.config.queue_pairs, session.config.core) = (0, number);
        session
    });
    Setup { sessions: numbered.collect(), queues, ..Setup::default() }
}

/// Sessions, all of them open.
fn open(queues: QueueSharing, sessions: u16) -> System {
    let mut system = System::start(setup(queues, sessions));
    for index in 0..usize::from(sessions) {
        system.open(index).unwrap();
    }
    system
}

/// Reads of a block each, with numbers from `first` on.
fn reads(first: u64, count: u64) -> Vec<Entry> {
    (first..first + count).map(|n| Entry { user_data: n, ..entry(Opcode::Read, n, 1, 0) }).collect()
}

/// The answers' numbers and statuses.
fn answers(system: &mut System, index: usize) -> Vec<(u64, Status)> {
    system.completions(index).iter().map(|one| (one.user_data, one.status().unwrap())).collect()
}

fn numbers(system: &mut System, index: usize) -> Vec<u64> {
    let answers = answers(system, index);
    assert!(answers.iter().all(|(_, status)| *status == Status::Success), "{answers:?}");
    answers.into_iter().map(|(number, _)| number).collect()
}

/// The queues that the commands so far were submitted to, taken.
fn submitted(system: &System) -> Vec<u16> {
    std::mem::take(&mut system.world.state().controller.submitted).into_iter().map(|(queue, _)| queue).collect()
}

#[test]
fn shared_queue_pairs_exist_from_the_bring_up_on() {
    let mut system = System::start(setup(QueueSharing::Shared { queue_pairs: 2, depth: 8 }, 3));
    let both = (vec![1, 2], vec![1, 2]);
    assert_eq!(system.world.state().controller.queues(), both);
    let geometry = system.open(1).unwrap();
    assert_eq!((geometry.queue_pairs, geometry.depth), (2, 8));
    system.close(1).unwrap();
    assert_eq!(system.world.state().controller.queues(), both);
    system.open(0).unwrap();
    system.controller(|controller, bus| controller.strike(bus, ControllerEffect::FatalStatus));
    system.tick();
    let (queues, resets) = system.controller(|controller, _| (controller.queues(), controller.resets));
    assert_eq!((queues, resets), (both, 2));
    assert_eq!(system.request(0, entry(Opcode::Read, 3, 1, 0)).status, 0);
}

#[test]
fn a_session_submits_to_the_queue_pairs_of_its_core() {
    let mut system = open(QueueSharing::PerCore { cores: 2, depth: 8 }, 3);
    for (index, queue) in [(0, 1), (1, 2), (2, 1)] {
        system.submit(index, &reads(0, 2));
        assert_eq!(submitted(&system), [queue; 2]);
    }
    let mut system = open(QueueSharing::PoolPerCore { cores: 2, queue_pairs: 2, depth: 8 }, 2);
    for (index, queues) in [(0, [1, 2, 1]), (1, [3, 4, 3])] {
        // One batch stays together, the next goes to the next queue pair.
        queues.iter().for_each(|_| system.submit(index, &reads(0, 1)));
        assert_eq!(submitted(&system), queues);
    }
}

#[test]
fn completions_that_come_mixed_reach_those_who_asked() {
    let mut system = open(ONE, 3).holding();
    for round in 0..2 {
        (0..3).for_each(|index| system.submit(index, &reads(10 * index as u64 + round, 1)));
    }
    system.controller(|controller, bus| controller.finish(bus, 6));
    for index in 0..3 {
        assert_eq!(numbers(&mut system, index), [10 * index as u64, 10 * index as u64 + 1]);
    }
}

#[test]
fn who_finds_a_full_queue_pair_has_its_turn_when_there_is_room() {
    let mut system = open(ONE, 2).holding();
    system.submit(0, &reads(0, 8));
    system.submit(1, &reads(100, 2));
    assert_eq!(submitted(&system).len(), 8, "the queue pair holds no more");
    // Not a tick later: with the completion that makes room.
    system.controller(|controller, bus| controller.finish(bus, 1));
    assert_eq!(submitted(&system).len(), 1);
    system.controller(|controller, bus| controller.finish(bus, 8));
    system.controller(|controller, bus| controller.finish(bus, 1));
    assert_eq!((numbers(&mut system, 0).len(), numbers(&mut system, 1)), (8, vec![100, 101]));
}

#[test]
fn long_request_continues_when_other_completions_make_room() {
    let mut system = open(ONE, 2).holding();
    system.submit(0, &reads(0, 7));
    // 4 commands, of which there is room for 1.
    system.submit(1, &[Entry { user_data: 100, ..entry(Opcode::Read, 0, 64, 0) }]);
    system.controller(|controller, bus| controller.finish(bus, 7));
    system.controller(|controller, bus| controller.finish(bus, 4));
    assert_eq!((numbers(&mut system, 0).len(), numbers(&mut system, 1)), (7, vec![100]));
}

#[test]
fn session_ends_after_its_own_commands() {
    let mut system = open(ONE, 2).holding();
    system.submit(0, &reads(0, 2));
    system.submit(1, &reads(10, 2));
    let call = system.begin_call(1, CLOSE);
    assert_eq!(system.answer(call), None, "its commands are in flight");
    system.take_acts();
    system.controller(|controller, bus| controller.finish(bus, 2));
    assert!(system.answer(call).is_some_and(|answer| answer.label == DONE));
    assert_eq!((system.mapped_pages(0), system.mapped_pages(1) > 0), (0, true));
    let is_admin = |act: &Act| matches!(act, Act::Admin(..));
    assert!(!system.take_acts().iter().any(is_admin), "no queue pair is deleted");
    system.controller(|controller, bus| controller.finish(bus, 2));
    assert_eq!((numbers(&mut system, 0), numbers(&mut system, 1)), (vec![0, 1], vec![10, 11]));
    system.controller(|controller, _| controller.hold = false);
    system.open(0).unwrap();
    assert_eq!(system.request(0, entry(Opcode::Read, 5, 1, 0)).status, 0);
}

#[test]
fn dead_client_keeps_its_window_until_its_commands_end() {
    let mut system = open(ONE, 2).holding();
    system.submit(0, &reads(0, 2));
    system.submit(1, &reads(10, 1));
    system.advance_client(0);
    assert!(system.mapped_pages(0) > 0, "the device may still write there");
    system.controller(|controller, bus| controller.finish(bus, 3));
    system.tick();
    assert_eq!((system.mapped_pages(0), numbers(&mut system, 1)), (0, vec![10]));
}

#[test]
fn a_client_that_breaks_the_protocol_ends_alone() {
    let mut system = open(ONE, 2);
    system.clients[0].break_tail();
    system.ring(0);
    system.tick();
    assert_eq!(system.open(0), Err(Refusal::Expelled));
    assert_eq!(system.request(1, entry(Opcode::Read, 3, 1, 0)).status, 0);
}

#[test]
fn a_late_queue_pair_is_made_again_for_all_who_share_it() {
    let mut system = open(ONE, 2);
    system.controller(|controller, _| (controller.hold, controller.lets_go) = (true, true));
    system.submit(0, &reads(0, 2));
    system.submit(1, &reads(10, 1));
    system.take_acts();
    system.pass(11);
    assert_eq!(system.take_failures(), ["QueuePair given up: queue pair 1 of 2 tenants: no answer in time"]);
    let admin: Vec<_> = system.take_acts().into_iter().filter(|act| matches!(act, Act::Admin(..))).collect();
    let expected = [Admin::Abort, Admin::DeleteIoSq, Admin::DeleteIoCq, Admin::CreateIoCq, Admin::CreateIoSq];
    assert_eq!(admin, expected.map(|opcode| Act::Admin(opcode, 1)));
    let given_up = |numbers: &[u64]| numbers.iter().map(|number| (*number, Status::TimedOut)).collect::<Vec<_>>();
    assert_eq!((answers(&mut system, 0), answers(&mut system, 1)), (given_up(&[0, 1]), given_up(&[10])));
    system.controller(|controller, _| controller.hold = false);
    (0..2).for_each(|index| assert_eq!(system.request(index, entry(Opcode::Read, 3, 1, 0)).status, 0));
    assert_eq!(system.world.state().controller.resets, 1);
}

#[test]
fn a_reset_answers_what_each_of_them_had_in_flight() {
    let mut system = open(ONE, 2).holding();
    system.submit(0, &reads(0, 2));
    system.submit(1, &reads(10, 1));
    system.controller(|controller, bus| {
        controller.hold = false;
        controller.strike(bus, ControllerEffect::FatalStatus);
    });
    system.tick();
    let reset = |numbers: &[u64]| numbers.iter().map(|number| (*number, Status::ControllerReset)).collect::<Vec<_>>();
    assert_eq!((answers(&mut system, 0), answers(&mut system, 1)), (reset(&[0, 1]), reset(&[10])));
    (0..2).for_each(|index| assert_eq!(system.request(index, entry(Opcode::Read, 3, 1, 0)).status, 0));
}

#[test]
fn too_many_shared_queue_pairs_are_refused() {
    let mut system = System::start(setup(QueueSharing::PerCore { cores: 6, depth: 4 }, 2));
    // The controller has four, so those of the first cores are there.
    assert_eq!(system.world.state().controller.queues().0, [1, 2, 3, 4]);
    system.open(0).unwrap();
    let mut setup = setup(QueueSharing::PerCore { cores: 6, depth: 4 }, 2);
    setup.sessions[1].config.core = 5;
    let mut system = System::start(setup);
    assert_eq!(system.open(1), Err(Refusal::NoQueuePairs));
}
