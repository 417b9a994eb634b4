//! A controller that is removed from its slot. Every client gets an answer. No controller that is gone is reset. The server accesses no
//! register after it released the claim.

use crate::support::{self, Act, Setup, System, assert_ended, entry};
use blk_api::Status;
use blk_api::config::Interrupts;
use blk_api::policy;
use blk_api::request::{Entry, Opcode};
use blk_api::session::{CLOSE, DONE, OPEN, Refusal};
use nvme_spec::admin;
use pci_api::presence::{Presence, Visit};
use platform::Message;
use sim_fault::ControllerEffect;

const HERE: Visit = Visit { arrivals: 1, presence: Presence::Present };

fn in_slot() -> Setup {
    Setup { slot: Some(HERE), ..Setup::default() }
}

/// Both clients at work with a controller in a slot.
fn busy() -> System {
    let system = support::busy(in_slot());
    system.take_acts();
    system
}

fn show(system: &System, visit: Visit) {
    visit.store(&system.presence).unwrap();
}

/// The PCI server lets the server know of a removal that it saw.
fn pull(system: &mut System) {
    system.controller(|controller, _| controller.absent = true);
    show(system, HERE.with(Presence::Absent));
}

/// All requests are answered, the claim is released, and later requests and calls are answered as well.
fn assert_gone(system: &mut System) {
    assert!(system.world.state().is_released);
    assert_ended(system, Status::DeviceGone, Status::DeviceGone);
    for index in 0..2 {
        system.close(index).unwrap();
        assert_eq!(system.open(index), Err(Refusal::DeviceGone));
    }
    system.pass(60);
    assert_eq!(system.take_failures(), [""; 0]);
}

#[test]
fn a_pulled_controller_ends_requests_at_the_next_tick() {
    let mut system = busy();
    pull(&mut system);
    system.tick();
    assert!(!system.take_acts().contains(&Act::Reset), "nothing is reset");
    assert_gone(&mut system);
}

#[test]
fn all_ones_before_the_page_shows_it_reset_nothing() {
    let mut system = busy();
    system.controller(|controller, _| controller.absent = true);
    system.tick();
    show(&system, HERE.with(Presence::Absent));
    system.tick();
    assert!(!system.take_acts().contains(&Act::Reset));
    assert_eq!(system.take_failures(), ["controller reset: registers read as all ones (fault 1)"]);
    assert_gone(&mut system);
}

#[test]
fn another_controller_in_the_slot_is_not_taken_for_the_first() {
    let mut system = busy();
    // The registers answer, but they are another's.
    show(&system, HERE.with(Presence::Absent).next());
    system.tick();
    assert_gone(&mut system);
}

/// The controller was shut down, and then disabled and released.
fn assert_shut_down(system: &System) {
    let acts = system.take_acts();
    let at = |act| acts.iter().position(|one| *one == act).expect("it was done");
    assert!(at(Act::ShutDown) < at(Act::Reset) && at(Act::Reset) < at(Act::Returned), "{acts:?}");
}

#[test]
fn a_leaving_controller_completes_its_commands_before_it_is_shut_down() {
    let mut system = busy();
    show(&system, HERE.with(Presence::Leaving));
    system.tick();
    assert!(!system.take_acts().contains(&Act::ShutDown));
    // More is not submitted to it, neither a new request nor the rest of one.
    system.submit(0, &[Entry { user_data: 4, ..entry(Opcode::Read, 4, 1, 0) }]);
    system.controller(|controller, bus| controller.finish(bus, usize::MAX));
    system.tick();
    assert_shut_down(&system);
    let mut answers: Vec<_> = system.completions(0).iter().map(|c| (c.user_data, c.status().unwrap())).collect();
    answers.sort_by_key(|(user_data, _)| *user_data);
    let gone = |user_data| (user_data, Status::DeviceGone);
    assert_eq!(answers, [(1, Status::Success), (2, Status::Success), gone(3), gone(4)]);
}

#[test]
fn a_leaving_controller_that_completes_nothing_is_shut_down_all_the_same() {
    let mut system = busy();
    show(&system, HERE.with(Presence::Leaving));
    system.pass(2);
    assert_shut_down(&system);
    assert_gone(&mut system);
}

#[test]
fn a_controller_pulled_while_its_commands_complete_is_released() {
    let mut system = busy();
    show(&system, HERE.with(Presence::Leaving));
    system.tick();
    pull(&mut system);
    system.tick();
    assert!(!system.take_acts().contains(&Act::Reset), "nothing is reset");
    assert_gone(&mut system);
}

#[test]
fn a_controller_that_never_shuts_down_is_released_all_the_same() {
    let mut system = busy();
    system.controller(|controller, _| controller.never_shuts_down = true);
    show(&system, HERE.with(Presence::Leaving));
    system.pass(8);
    assert!(!system.world.state().is_released);
    system.pass(2);
    assert_gone(&mut system);
}

#[test]
fn a_controller_pulled_while_it_shuts_down_is_released() {
    let mut system = busy();
    system.controller(|controller, _| controller.never_shuts_down = true);
    show(&system, HERE.with(Presence::Leaving));
    system.pass(2);
    pull(&mut system);
    system.tick();
    system.tick();
    assert_gone(&mut system);
}

#[test]
fn a_controller_that_failed_is_released_when_it_goes() {
    for presence in [Presence::Leaving, Presence::Absent] {
        let mut system = System::serving(in_slot(), 1);
        system.controller(|controller, bus| {
            controller.strike(bus, ControllerEffect::FatalStatus);
            controller.strike(bus, ControllerEffect::NeverReady);
        });
        system.pass(120);
        assert!(system.take_failures().iter().any(|reason| reason.contains("cannot be brought up")));
        assert_eq!(system.open(1), Err(Refusal::Device));
        show(&system, HERE.with(presence));
        system.tick();
        assert!(system.world.state().is_released, "{presence:?}");
        assert_eq!(system.open(1), Err(Refusal::DeviceGone));
    }
}

#[test]
fn an_admin_command_does_not_hold_up_the_release() {
    let mut system = System::serving(in_slot(), 1);
    system.controller(|controller, _| controller.deaf = true);
    let opening = system.begin_call(2, OPEN);
    pull(&mut system);
    system.tick();
    system.tick();
    assert!(system.world.state().is_released);
    assert_eq!(system.answer(opening).map(|answer| answer.label), Some(Refusal::DeviceGone as u32));
}

#[test]
fn a_controller_pulled_while_it_is_brought_up_is_released() {
    let mut system = System::start_with(in_slot(), |controller, _| {
        controller.deaf_to = Some(admin::Opcode::Identify);
    });
    let opening = system.begin_call(1, OPEN);
    pull(&mut system);
    system.tick();
    system.tick();
    assert!(system.world.state().is_released);
    assert_eq!(system.answer(opening).map(|answer| answer.label), Some(Refusal::DeviceGone as u32));
    assert!(!system.take_failures().iter().any(|reason| reason.contains("cannot be brought up")));
}

#[test]
fn a_closing_session_is_closed_when_its_controller_is_pulled() {
    let mut system = System::serving(in_slot(), 1).holding();
    system.submit(0, &[entry(Opcode::Read, 0, 1, 0)]);
    let closing = system.begin_call(1, CLOSE);
    pull(&mut system);
    system.tick();
    system.tick();
    assert_eq!(system.answer(closing).map(|answer| answer.label), Some(DONE));
    assert_eq!(system.mapped_pages(0), 0);
}

#[test]
fn an_empty_slot_is_no_failure_and_refuses_openings() {
    for presence in [Presence::Absent, Presence::Leaving] {
        let mut system = System::start(Setup { slot: Some(HERE.with(presence)), ..Setup::default() });
        assert_eq!(system.open(0), Err(Refusal::DeviceGone));
        system.pass(5);
        assert_eq!(system.take_failures(), [""; 0]);
        assert_eq!(system.take_acts(), []);
        assert_eq!(system.open(1), Err(Refusal::DeviceGone));
    }
}

/// A policy component's change of the first session's share, and one of the interrupt mode.
fn changes() -> [Message; 2] {
    let entitlement = policy::Entitlement { depth: 2, ..support::session("first", 0).entitlement() };
    let share = Message::with(policy::SET_SHARE, &policy::Share::new(0, &entitlement));
    [share, Message::with(policy::SET_INTERRUPTS, &Interrupts::Intx.number())]
}

/// Rights that are taken while there is no controller are in force, and other changes wait for one.
fn assert_follows_the_policy_component(system: &mut System) {
    let range = policy::Range { session: 0, first: 0, blocks: 8 };
    let record = policy::Record { session: 0, rights: 0, first: 0, lba: 0, blocks: 8 };
    for (label, done) in [(policy::REMOVE, Ok(())), (policy::CLEAR, Ok(())), (policy::DRAINED, Ok(()))] {
        assert_eq!(system.policy(Message::with(label, &range)), done);
    }
    let installed = system.policy(Message::with(policy::INSTALL, &record));
    assert!(matches!(installed, Ok(()) | Err(policy::Refusal::NotOpen(0))), "{installed:?}");
    let signals = system.policy_signals();
    for change in changes() {
        for _ in 0..3 {
            assert_eq!(system.policy(change.clone()), Err(policy::Refusal::Busy));
            system.pass(1);
        }
    }
    assert_eq!(system.policy_signals(), signals, "it asks again at its ticks, and not at once");
    assert_eq!(system.policy(Message::new(policy::SET_SHARE)), Err(policy::Refusal::BadRequest));
}

#[test]
fn the_policy_component_is_followed_without_a_controller() {
    let mut system = System::start(Setup { slot: Some(HERE.with(Presence::Absent)), ..Setup::default() });
    assert_follows_the_policy_component(&mut system);
    for granted in [0, 1] {
        let right = policy::FunctionRight { function: 0, granted };
        let refused = if granted == 0 { Ok(()) } else { Err(policy::Refusal::Busy) };
        assert_eq!(system.policy(Message::with(policy::SET_FUNCTION, &right)), refused);
    }
    let mut system = busy();
    pull(&mut system);
    system.tick();
    assert_follows_the_policy_component(&mut system);
    assert_gone(&mut system);
}

#[test]
fn a_change_under_way_waits_for_a_controller_that_is_pulled() {
    for change in changes() {
        let mut system = System::serving(in_slot(), 1).holding();
        system.submit(0, &[entry(Opcode::Read, 0, 1, 0)]);
        assert_eq!(system.policy(change.clone()), Err(policy::Refusal::Busy));
        pull(&mut system);
        system.pass(2);
        assert!(system.world.state().is_released);
        assert_eq!(system.policy(change), Err(policy::Refusal::Busy));
    }
}
