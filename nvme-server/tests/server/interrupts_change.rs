//! A controller that changes its interrupt mode while sessions are open: their requests wait a moment and all are
//! answered, and an impossible mode changes nothing.

use crate::support::{Act, Setup, System, Wires, entry, reads};
use blk_api::Status;
use blk_api::config::Interrupts;
use blk_api::policy::{Refusal, SET_INTERRUPTS};
use blk_api::request::{Entry, Opcode};
use blk_api::session as door;
use nvme_spec::admin::Opcode as Admin;
use platform::Message;
use report::Report;
use sim_fault::ControllerEffect;

const PIN: Wires = Wires::Intx { masked: false };

fn with_wires(wires: Wires) -> System {
    let system = System::serving(Setup { wires, ..Setup::default() }, 2);
    system.take_acts();
    system
}

fn open() -> System {
    with_wires(Wires::Msix)
}

fn ask(system: &mut System, to: Interrupts) -> Result<(), Refusal> {
    system.policy(Message::with(SET_INTERRUPTS, &to.number()))
}

/// Retries until it is over; nothing is in flight.
fn change(system: &mut System, to: Interrupts) -> Result<(), Refusal> {
    assert_eq!(ask(system, to), Err(Refusal::Busy));
    ask(system, to)
}

/// Number of times that the controller was disabled, and the modes asked of the PCI server, since the last call.
fn disturbances(system: &System) -> (usize, Vec<u16>) {
    let acts = system.take_acts();
    let kinds = acts.iter().filter_map(|act| match act {
        Act::Interrupts(kind) => Some(*kind),
        _ => None,
    });
    (acts.iter().filter(|act| **act == Act::Reset).count(), kinds.collect())
}

#[test]
fn requests_wait_for_the_reconfiguration_and_none_is_lost() {
    let mut system = open().holding();
    system.submit(0, &reads(12));
    system.submit(1, &reads(3));
    assert_eq!(ask(&mut system, Interrupts::Intx), Err(Refusal::Busy));
    system.submit(1, &[Entry { user_data: 77, ..entry(Opcode::Write, 7, 1, 0) }]);
    system.pass(2);
    assert_eq!(disturbances(&system), (0, vec![]), "eleven commands are in flight");
    assert_eq!(ask(&mut system, Interrupts::Intx), Err(Refusal::Busy));
    let signals = system.policy_signals();
    system.controller(|controller, bus| controller.finish(bus, 10));
    assert_eq!(disturbances(&system).1, Vec::<u16>::new(), "one is");
    system.controller(|controller, _| {
        assert_eq!(controller.submitted.len(), 8 + 3, "and nothing was submitted meanwhile")
    });
    system.controller(|controller, bus| {
        controller.finish(bus, 1);
        controller.hold = false;
    });
    assert_eq!(system.policy_signals(), signals + 1);
    assert_eq!(ask(&mut system, Interrupts::Intx), Ok(()));
    assert_eq!(system.world.state().bus.wires, PIN);
    for (session, count) in [(0, 12), (1, 4)] {
        let answers = system.completions(session);
        assert_eq!(answers.len(), count);
        assert!(answers.iter().all(|answer| answer.status() == Some(Status::Success)));
    }
    system.controller(|controller, _| assert_eq!(controller.submitted.len(), 12 + 4, "each command once"));
    assert_eq!(system.take_failures(), Vec::<String>::new());
}

#[test]
fn a_request_that_was_submitted_in_part_goes_on_afterwards() {
    let mut system = open().holding();
    // Transfers of up to 8 KiB: 25 commands, of which the queue pair holds eight.
    system.submit(0, &[entry(Opcode::Read, 0, 400, 0)]);
    assert_eq!(ask(&mut system, Interrupts::Msi), Err(Refusal::Busy));
    system.controller(|controller, bus| {
        controller.finish(bus, usize::MAX);
        controller.hold = false;
    });
    assert_eq!(ask(&mut system, Interrupts::Msi), Ok(()));
    assert_eq!(
        system.completions(0).iter().filter_map(blk_api::ring::Completed::status).collect::<Vec<_>>(),
        [Status::Success]
    );
    system.controller(|controller, _| assert_eq!(controller.submitted.len(), 25, "none of them twice"));
}

#[test]
fn interrupt_modes_change_into_each_other() {
    let mut system = open();
    for to in [Interrupts::Intx, Interrupts::Msi, Interrupts::Msix, Interrupts::Msi, Interrupts::Intx, Interrupts::Msix]
    {
        assert_eq!(change(&mut system, to), Ok(()));
        for session in [0, 1] {
            assert_eq!(system.request(session, entry(Opcode::Read, 3, 1, 0)).status, 0, "by {}", to.name());
        }
    }
    system.close(0).unwrap();
    let reports = std::mem::take(&mut system.world.state().reports);
    let counted = reports.into_iter().find_map(|report| match report {
        Report::Session(session) => Some(session.interrupts),
        _ => None,
    });
    let counted = counted.unwrap();
    assert!(counted.msix >= 2 && counted.msi >= 2 && counted.intx >= 2, "{counted:?}");
}

#[test]
fn three_hundred_changes_use_nothing_up() {
    let mut system = with_wires(PIN);
    let held = |system: &System| system.world.state().slots.len();
    let before = held(&system);
    for _ in 0..100 {
        for to in [Interrupts::Msix, Interrupts::Msi, Interrupts::Intx] {
            assert_eq!(change(&mut system, to), Ok(()));
        }
        assert_eq!(held(&system), before);
    }
    assert_eq!(system.request(0, entry(Opcode::Read, 3, 1, 0)).status, 0);
}

#[test]
fn unsupported_interrupts_are_refused_before_any_change() {
    let mut system = open();
    system.world.state().msi_vectors = 0;
    assert_eq!(change(&mut system, Interrupts::Msi), Err(Refusal::NoInterrupts(Interrupts::Msi)));
    assert_eq!(disturbances(&system), (0, vec![]));
    assert_eq!(ask(&mut system, Interrupts::Msix), Ok(()), "as it is");
    assert_eq!(system.request(0, entry(Opcode::Read, 3, 1, 0)).status, 0);
}

#[test]
fn what_the_pci_server_refuses_leaves_the_way_before() {
    let mut system = open();
    system.world.state().refused_interrupts = Some(pci_api::INTERRUPTS_MSI);
    assert_eq!(change(&mut system, Interrupts::Msi), Err(Refusal::NoInterrupts(Interrupts::Msi)));
    assert_eq!(disturbances(&system).1, [pci_api::INTERRUPTS_MSI, pci_api::INTERRUPTS_MSIX]);
    assert_eq!(system.world.state().bus.wires, Wires::Msix);
    assert_eq!(system.request(1, entry(Opcode::Read, 3, 1, 0)).status, 0);
    assert_eq!(system.take_failures(), Vec::<String>::new());
    // A retry tries it again.
    system.world.state().refused_interrupts = None;
    assert_eq!(change(&mut system, Interrupts::Msi), Ok(()));
}

#[test]
fn slow_controller_is_reset_with_its_new_interrupt_mode() {
    let mut system = open();
    system.controller(|controller, _| controller.refuse = Some((Admin::CreateIoCq, 1)));
    assert_eq!(ask(&mut system, Interrupts::Intx), Err(Refusal::Busy));
    system.pass(1);
    assert_eq!(ask(&mut system, Interrupts::Intx), Ok(()));
    assert_eq!(system.take_failures().len(), 1);
    assert_eq!(system.request(0, entry(Opcode::Read, 3, 1, 0)).status, 0);
    assert_eq!(system.world.state().bus.wires, PIN);
}

#[test]
fn a_controller_beyond_help_ends_the_change() {
    let mut system = open();
    system.controller(|controller, bus| {
        controller.hold = true;
        controller.strike(bus, ControllerEffect::NeverReady);
    });
    system.submit(0, &reads(1));
    assert_eq!(ask(&mut system, Interrupts::Intx), Err(Refusal::Busy));
    system.pass(200);
    assert_eq!(ask(&mut system, Interrupts::Intx), Err(Refusal::NoInterrupts(Interrupts::Intx)));
}

#[test]
fn stuck_commands_are_given_up_and_the_change_continues() {
    let mut system = open().holding();
    system.submit(0, &reads(1));
    assert_eq!(ask(&mut system, Interrupts::Intx), Err(Refusal::Busy));
    // The timeouts of commands, of an abort, and of a queue pair.
    system.pass(60);
    assert_eq!(ask(&mut system, Interrupts::Intx), Ok(()));
    assert_eq!(system.completions(0).len(), 1);
    system.controller(|controller, _| controller.hold = false);
    assert_eq!(system.request(0, entry(Opcode::Read, 3, 1, 0)).status, 0);
}

#[test]
fn a_session_that_opens_while_commands_drain_waits_and_works() {
    let mut system = System::serving(Setup::default(), 1).holding();
    system.submit(0, &reads(2));
    assert_eq!(ask(&mut system, Interrupts::Msi), Err(Refusal::Busy));
    system.open(1).unwrap();
    system.submit(1, &reads(2));
    system.controller(|controller, _| assert_eq!(controller.submitted.len(), 2));
    system.finish_held();
    assert_eq!(ask(&mut system, Interrupts::Msi), Ok(()));
    assert_eq!((system.completions(0).len(), system.completions(1).len()), (2, 2));
}

#[test]
fn only_the_policy_component_changes_interrupts() {
    let mut system = open();
    let call = system.begin(1, Message::with(SET_INTERRUPTS, &Interrupts::Intx.number()));
    let answer = system.answer(call).expect("an answer");
    assert_eq!(door::Refusal::from_label(answer.label), door::Refusal::PolicyAlone);
    for number in [3, u64::MAX] {
        let refused = system.policy(Message::with(SET_INTERRUPTS, &number));
        assert_eq!(refused, Err(Refusal::UnknownInterrupts(number)));
    }
    assert_eq!(system.policy(Message::new(SET_INTERRUPTS)), Err(Refusal::BadRequest));
    assert_eq!(disturbances(&system), (0, vec![]));
}
