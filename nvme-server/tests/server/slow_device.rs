//! A slow controller, and one that is not alive any more.

use crate::support::{Act, Setup, System, entry, reads};
use blk_api::Status;
use blk_api::request::{Entry, Opcode};
use nvme_spec::admin::Opcode as Admin;

fn held() -> System {
    System::serving(Setup::default(), 2).holding()
}

#[test]
fn completing_queue_is_never_a_fault() {
    let mut system = held();
    system.submit(0, &reads(8));
    for _ in 0..8 {
        system.pass(9);
        system.controller(|controller, bus| controller.finish(bus, 1));
        assert_eq!(system.completions(0).len(), 1);
    }
    assert_eq!(system.take_failures(), Vec::<String>::new());
    assert_eq!(system.world.state().controller.resets, 1, "the one of bring-up");
}

#[test]
fn completions_of_one_tenant_do_not_excuse_anothers_queue() {
    let mut system = held();
    system.submit(1, &reads(1));
    for _ in 0..2 {
        system.submit(0, &reads(1));
        system.pass(4);
        system.controller(|controller, bus| controller.finish_newest(bus));
    }
    assert_eq!(system.take_failures(), Vec::<String>::new());
    system.pass(3);
    let failures = system.take_failures();
    assert!(failures.len() == 1 && failures[0].contains("no answer in time"), "{failures:?}");
}

#[test]
fn a_queue_that_was_idle_has_its_whole_time() {
    let mut system = held();
    system.pass(100);
    system.submit(0, &reads(1));
    system.pass(9);
    assert_eq!(system.take_failures(), Vec::<String>::new());
    system.pass(2);
    assert_eq!(system.take_failures().len(), 1);
}

#[test]
fn commands_without_data_are_waited_for_longer() {
    for opcode in [Opcode::Flush, Opcode::WriteZeroes, Opcode::Discard] {
        let mut system = held();
        let slow = if opcode == Opcode::Flush {
            Entry { opcode: opcode as u8, ..Entry::default() }
        } else {
            entry(opcode, 0, 100, 0)
        };
        system.submit(0, &[slow]);
        // Requests behind it wait with it.
        system.submit(0, &reads(1));
        system.pass(59);
        assert_eq!(system.take_failures(), Vec::<String>::new());
        system.pass(2);
        assert_eq!(system.take_failures().len(), 1);
    }
}

#[test]
fn a_command_that_is_passed_over_for_ever_is_a_fault_in_the_end() {
    let mut system = held();
    system.submit(0, &[Entry { user_data: 99, ..entry(Opcode::Read, 9, 1, 0) }]);
    for second in (0..116).step_by(4) {
        system.submit(0, &reads(1));
        system.controller(|controller, bus| controller.finish_newest(bus));
        assert_eq!(system.completions(0).len(), 1);
        system.pass(4);
        assert_eq!(system.take_failures(), Vec::<String>::new(), "after {second} seconds");
    }
    system.submit(0, &reads(1));
    system.controller(|controller, bus| controller.finish_newest(bus));
    system.completions(0);
    system.pass(5);
    assert_eq!(system.take_failures().len(), 1);
    let answers: Vec<_> = system.completions(0).iter().map(|c| (c.user_data, c.status().unwrap())).collect();
    assert_eq!(answers, [(99, Status::ControllerReset)]);
}

/// Statuses of what was answered, with its numbers.
fn answers(system: &mut System, index: usize) -> Vec<(u64, Status)> {
    system.completions(index).iter().map(|c| (c.user_data, c.status().unwrap())).collect()
}

#[test]
fn oldest_command_of_a_late_queue_is_aborted() {
    let mut system = held();
    system.controller(|controller, _| controller.aborts = true);
    system.submit(0, &reads(3));
    system.pass(8);
    system.submit(1, &reads(2));
    system.pass(3);
    assert_eq!(answers(&mut system, 0), [(0, Status::TimedOut)]);
    assert_eq!(system.take_failures(), ["Command given up: queue pair 1 of first: no answer in time"]);
    system.pass(6);
    system.controller(|controller, bus| controller.finish(bus, 4));
    let done = |numbers: &[u64]| numbers.iter().map(|number| (*number, Status::Success)).collect::<Vec<_>>();
    assert_eq!((answers(&mut system, 0), answers(&mut system, 1)), (done(&[1, 2]), done(&[0, 1])));
    assert_eq!((system.take_failures().len(), system.world.state().controller.resets), (0, 1));
}

#[test]
fn queue_pair_is_recreated_when_abort_does_not_help() {
    let mut system = held();
    system.controller(|controller, _| controller.lets_go = true);
    system.submit(0, &reads(3));
    system.pass(8);
    system.submit(1, &reads(2));
    system.take_acts();
    system.pass(3);
    assert_eq!(answers(&mut system, 0), [0, 1, 2].map(|number| (number, Status::TimedOut)));
    assert_eq!(system.take_failures(), ["QueuePair given up: queue pair 1 of first: no answer in time"]);
    let admin: Vec<_> = system.take_acts().into_iter().filter(|act| matches!(act, Act::Admin(..))).collect();
    let on_queue = |opcode| Act::Admin(opcode, 1);
    let expected = [Admin::Abort, Admin::DeleteIoSq, Admin::DeleteIoCq, Admin::CreateIoCq, Admin::CreateIoSq];
    assert_eq!(admin, expected.map(on_queue));
    // Its later requests complete, and so do those that the neighbour had in flight.
    system.submit(0, &reads(8));
    system.controller(|controller, bus| controller.finish(bus, 10));
    assert_eq!((answers(&mut system, 0).len(), answers(&mut system, 1).len()), (8, 2));
    assert_eq!(system.world.state().controller.resets, 1);
}

#[test]
fn requests_wait_while_a_queue_pair_is_recreated() {
    let mut system = held();
    system.controller(|controller, _| {
        controller.lets_go = true;
        controller.deaf_to = Some(Admin::DeleteIoSq);
    });
    system.submit(0, &reads(3));
    system.pass(11);
    system.submit(0, &reads(4));
    let submitted = system.world.state().controller.submitted.len();
    assert_eq!(submitted, 3, "nothing is submitted to a queue that is being deleted");
    // The deletion is never answered: the controller is reset, and waiting requests complete.
    system.controller(|controller, _| controller.hold = false);
    system.pass(11);
    let statuses: Vec<_> = answers(&mut system, 0).into_iter().map(|(_, status)| status).collect();
    assert_eq!(statuses[..3], [Status::ControllerReset; 3]);
    assert_eq!(statuses[3..], [Status::Success; 4]);
    assert_eq!(system.take_failures().len(), 1);
}

#[test]
fn a_controller_that_does_not_answer_an_abort_is_reset() {
    let mut system = held();
    system.controller(|controller, _| controller.deaf_to = Some(Admin::Abort));
    system.submit(0, &reads(2));
    system.pass(15);
    assert_eq!(system.take_failures(), Vec::<String>::new());
    system.pass(7);
    let failures = system.take_failures();
    assert!(failures.len() == 1 && failures[0].starts_with("controller reset: no answer in time"), "{failures:?}");
    assert_eq!(answers(&mut system, 0), [0, 1].map(|number| (number, Status::ControllerReset)));
}
