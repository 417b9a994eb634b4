//! A controller that takes its time: what is only slow, and what is not alive any more.

use crate::support::{Setup, System, entry};
use blk_api::Status;
use blk_api::request::{Entry, Opcode};

fn held() -> System {
    let mut system = System::start(Setup::default());
    system.open(0).unwrap();
    system.open(1).unwrap();
    system.controller(|controller, _| controller.hold = true);
    system
}

fn reads(count: u64) -> Vec<Entry> {
    (0..count).map(|n| Entry { user_data: n, ..entry(Opcode::Read, n, 1, 0) }).collect()
}

#[test]
fn a_queue_that_goes_on_completing_is_never_a_fault_however_long_it_is() {
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
fn one_tenants_completions_do_not_excuse_the_silence_of_anothers_queue() {
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
        // What is behind it waits with it.
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
