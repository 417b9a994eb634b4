//! Impossible answers of a controller are counted and reported, and lead to a reset, after which all sessions continue.

use crate::support::{Setup, System, WINDOW, entry};
use blk_api::Status;
use blk_api::request::{Entry, Opcode};
use blk_api::session::CLOSE;
use nvme_spec::Cqe;
use nvme_spec::registers::{Cc, IOCQES_16, IOSQES_64, Register, ShutdownNotification};
use sim_fault::ControllerEffect;
use sim_nvme::AccessSize;

/// Two sessions with two requests each on their way.
fn busy() -> System {
    let mut system = System::start(Setup::default());
    for index in 0..2 {
        system.open(index).unwrap();
        // The identifiers of earlier commands are known to the table.
        assert_eq!(system.request(index, entry(Opcode::Read, 0, 40, 0)).status, 0);
    }
    system.controller(|controller, _| controller.hold = true);
    for index in 0..2 {
        let read = |lba| Entry { user_data: lba, ..entry(Opcode::Read, lba, 1, 0) };
        system.submit(index, &[read(1), read(2)]);
    }
    system.take_failures();
    system
}

/// The fault was reported once, requests were answered once, and the controller serves again.
fn assert_reset(system: &mut System, reason: &str) {
    system.controller(|controller, _| controller.hold = false);
    system.pass(1);
    let failures = system.take_failures();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].starts_with("controller reset: ") && failures[0].contains(reason), "{failures:?}");
    assert!(failures[0].ends_with("(fault 1)"), "{failures:?}");
    for index in 0..2 {
        let mut answers: Vec<_> =
            system.completions(index).iter().map(|c| (c.user_data, c.status().unwrap())).collect();
        answers.sort_by_key(|(user_data, _)| *user_data);
        assert_eq!(answers, [(1, Status::ControllerReset), (2, Status::ControllerReset)]);
        assert_eq!(system.mapped_pages(index), WINDOW / 4096);
        assert_eq!(system.request(index, entry(Opcode::Read, 3, 60, 0)).status, 0);
    }
    system.pass(12);
    assert_eq!(system.world.state().controller.resets, 2, "the first, and one for the fault");
    for index in 0..2 {
        assert_eq!(system.completions(index), []);
        system.close(index).unwrap();
        system.open(index).unwrap();
        assert_eq!(system.request(index, entry(Opcode::Read, 3, 60, 0)).status, 0);
    }
}

fn forged(change: impl FnOnce(&mut Cqe), reason: &str) {
    let mut system = busy();
    system.controller(|controller, bus| controller.forge(bus, 1, change));
    assert_reset(&mut system, reason);
}

#[test]
fn a_completion_of_a_command_nobody_gave_leads_to_a_reset() {
    for cid in [0x0008, 0x00ff, 0xfff0, 0xffff] {
        forged(|cqe| cqe.dw3.set_cid(cid), "which was not submitted");
    }
}

#[test]
fn a_completion_that_comes_twice_leads_to_a_reset() {
    let mut system = System::serving(Setup::default(), 2);
    assert_eq!(system.request(0, entry(Opcode::Read, 0, 1, 0)).status, 0);
    let repeated = system.world.state().controller.submitted[0].1.cid();
    system.controller(|controller, _| controller.hold = true);
    for index in 0..2 {
        let read = |lba| Entry { user_data: lba, ..entry(Opcode::Read, lba, 1, 0) };
        system.submit(index, &[read(1), read(2)]);
    }
    system.controller(|controller, bus| controller.forge(bus, 1, |cqe| cqe.dw3.set_cid(repeated.0)));
    assert_reset(&mut system, "which was not submitted");
}

#[test]
fn a_completion_for_another_queue_leads_to_a_reset() {
    forged(|cqe| cqe.dw2.set_sqid(2), "another queue");
}

#[test]
fn an_entry_of_a_stale_phase_is_no_completion() {
    let mut system = busy();
    system.controller(|controller, bus| controller.forge(bus, 1, |cqe| cqe.dw3.set_phase(!cqe.dw3.phase())));
    system.pass(1);
    assert_eq!((system.completions(0), system.take_failures()), (vec![], vec![]));
    system.controller(|controller, bus| controller.finish(bus, 4));
    assert_eq!((system.completions(0).len(), system.completions(1).len()), (2, 2));
}

#[test]
fn fatal_controller_status_leads_to_a_reset() {
    let mut system = busy();
    system.controller(|controller, bus| controller.strike(bus, ControllerEffect::FatalStatus));
    assert_reset(&mut system, "fatal controller status");
}

#[test]
fn power_loss_is_noticed_at_the_tick() {
    let mut system = busy();
    system.controller(|controller, bus| controller.strike(bus, ControllerEffect::PowerLoss));
    assert_reset(&mut system, "not ready any more");
}

#[test]
fn shutdown_that_nobody_here_asked_for_leads_to_a_reset() {
    let mut system = busy();
    system.controller(|controller, bus| {
        let cc = Cc::new().with_iosqes(IOSQES_64).with_iocqes(IOCQES_16).with_en(true);
        let cc = cc.with_shn(ShutdownNotification::Normal).into_bits();
        controller.write(bus, Register::Cc.offset(), AccessSize::Four, cc.into());
    });
    assert_reset(&mut system, "not ready any more");
}

#[test]
fn a_command_without_an_answer_leads_to_a_reset() {
    let mut system = busy();
    system.pass(9);
    assert_eq!(system.take_failures(), Vec::<String>::new());
    system.pass(2);
    assert_reset(&mut system, "no answer in time");
}

#[test]
fn an_admin_completion_nobody_waits_for_leads_to_a_reset() {
    let mut system = busy();
    system.controller(|controller, bus| {
        controller.hold = false;
        controller.finish(bus, 4);
        controller.lies.wrong_cids = 1;
    });
    assert_eq!((system.completions(0).len(), system.completions(1).len()), (2, 2));
    // The answer to the first deletion is nonsense: only a reset can make sure that the queues are gone.
    system.close(0).unwrap();
    assert_eq!((system.mapped_pages(0), system.mapped_pages(1)), (0, WINDOW / 4096));
    let failures = system.take_failures();
    assert!(failures.len() == 1 && failures[0].contains("which was not submitted"), "{failures:?}");
    system.tick();
    assert_eq!(system.request(1, entry(Opcode::Read, 0, 1, 0)).status, 0);
    system.open(0).unwrap();
}

#[test]
fn an_admin_command_without_an_answer_leads_to_a_reset() {
    let mut system = busy();
    system.controller(|controller, bus| {
        controller.hold = false;
        controller.finish(bus, 4);
        controller.deaf = true;
    });
    let call = system.begin_call(1, CLOSE);
    system.pass(5);
    assert_eq!(system.answer(call), None);
    system.controller(|controller, _| controller.deaf = false);
    system.pass(6);
    assert!(system.answer(call).is_some());
    assert_eq!(system.mapped_pages(0), 0);
    let failures = system.take_failures();
    assert!(failures.len() == 1 && failures[0].contains("no answer in time"), "{failures:?}");
    system.completions(1);
    assert_eq!(system.request(1, entry(Opcode::Read, 0, 1, 0)).status, 0);
    system.open(0).unwrap();
}

#[test]
fn a_lie_while_a_session_closes_closes_it_by_the_reset() {
    let mut system = busy();
    let call = system.begin_call(1, CLOSE);
    system.controller(|controller, bus| {
        controller.forge(bus, 2, |_| ());
        controller.hold = false;
    });
    system.pass(1);
    assert!(system.answer(call).is_some());
    assert_eq!((system.mapped_pages(0), system.mapped_pages(1)), (0, WINDOW / 4096));
    assert_eq!(system.completions(0).len(), 2, "answered before it closed");
    assert_eq!(
        system.completions(1).iter().map(|c| c.status()).collect::<Vec<_>>(),
        [Some(Status::ControllerReset); 2]
    );
    assert_eq!(system.world.state().controller.resets, 2, "no second reset for the same fault");
    assert_eq!(system.take_failures().len(), 1);
    system.open(0).unwrap();
}

#[test]
fn a_call_that_comes_with_a_fault_is_answered_after_the_reset() {
    let mut system = busy();
    {
        let mut state = system.world.state();
        let crate::support::State { controller, bus, .. } = &mut *state;
        controller.forge(bus, 2, |_| ());
        controller.hold = false;
    }
    // Signals come before messages: the fault is seen, then the call.
    assert!(system.close(0).is_ok());
    assert_eq!(system.mapped_pages(0), 0);
    assert_eq!(system.world.state().controller.resets, 2);
    system.open(0).unwrap();
}

#[test]
fn every_fault_is_counted() {
    let mut system = busy();
    for count in 1..=5 {
        system.controller(|controller, bus| controller.forge(bus, 1, |_| ()));
        let failures = system.take_failures();
        assert!(failures.len() == 1 && failures[0].ends_with(&format!("(fault {count})")), "{failures:?}");
    }
}
