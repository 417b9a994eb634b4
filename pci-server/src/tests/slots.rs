//! Controllers that come and go in slots: they get addresses, and nothing of theirs stays.

use super::machine::{Act, Object};
use super::slot_system::{
    FIRST, FIXED, IN_SLOT, NEIGHBOUR, OnTree, SECOND, VIRTUAL, controller, slotted_config, with_virtual_functions,
};
use super::system::{DRIVER_VSPACE, NVME_CLASS_CODE};
use pci_api::presence::{Presence, Visit};
use pci_api::{Count, Match, RELEASE, Refusal, VIRTUAL_FUNCTIONS};
use pci_spec::bar::Prefetch;
use pci_spec::{BarKind, ClassCode};
use sim_pci::{BarConfig, Endpoint, FunctionConfig, SlotState};
use std::vec;
use std::vec::Vec;

/// Time for a controller to arrive, or to lose its power.
const SOON_MS: u64 = 500;
/// Time after which nobody can withdraw a removal.
const WITHDRAW_MS: u64 = 5100;
/// Time after which a removal is over whatever a driver does.
const OVER_MS: u64 = 20_000;

/// Both kinds of machine: with firmware, and without.
fn on_both(test: impl Fn(bool)) {
    [false, true].into_iter().for_each(test);
}

#[test]
fn a_controller_that_arrives_can_be_claimed_and_works() {
    on_both(|assigns| {
        let mut system = OnTree::with_slots(assigns, [None, None]);
        assert_eq!(system.run_driver(FIRST), Err(Refusal::NoSuchFunction));
        assert_eq!((system.presence(0), system.slot(0)), (Presence::Absent, SlotState::Empty));
        system.insert(0, vec![controller(5)]);
        system.wait(SOON_MS);
        assert_eq!(system.visit(0), Visit { arrivals: 1, presence: Presence::Present });
        let claimed = system.run_driver(FIRST).unwrap();
        assert_eq!(claimed.bdf, IN_SLOT[0].to_raw());
        assert_eq!(system.register(IN_SLOT[0]), 5);
        assert!(system.is_master(IN_SLOT[0]));
        assert!(!system.mapped(DRIVER_VSPACE).is_empty());
        assert_eq!(system.presence(1), Presence::Absent);
    });
}

#[test]
fn a_controller_that_is_there_at_the_start_is_present_at_once() {
    on_both(|assigns| {
        let mut system = OnTree::with_slots(assigns, [None, Some(6)]);
        assert_eq!([0, 1].map(|slot| system.presence(slot)), [Presence::Absent, Presence::Present]);
        system.run_driver(SECOND).unwrap();
        assert_eq!(system.register(IN_SLOT[1]), 6);
        // Those in slots do not change the number of the one that stays.
        assert_eq!(system.run_driver(NEIGHBOUR).unwrap().bdf, FIXED.to_raw());
    });
}

#[test]
fn a_slots_driver_gets_nothing_but_its_slot() {
    let mut system = OnTree::with_slots(false, [None, Some(6)]);
    assert_eq!(system.claim(FIRST, IN_SLOT[1], pci_api::INTERRUPTS_MSIX), Err(Refusal::NotAllowed));
    assert_eq!(system.claim(FIRST, FIXED, pci_api::INTERRUPTS_MSIX), Err(Refusal::NotAllowed));
    assert_eq!(system.claim(NEIGHBOUR, IN_SLOT[1], pci_api::INTERRUPTS_MSIX), Err(Refusal::NotAllowed));
}

#[test]
fn an_orderly_removal_waits_for_the_driver() {
    on_both(|assigns| {
        let mut system = OnTree::with_slots(assigns, [Some(5), None]);
        system.run_driver(FIRST).unwrap();
        system.press(0);
        system.wait(WITHDRAW_MS);
        assert_eq!((system.presence(0), system.slot(0)), (Presence::Leaving, SlotState::On));
        assert_eq!(system.register(IN_SLOT[0]), 5, "the driver shuts it down");
        system.ask(FIRST, RELEASE).unwrap();
        assert_eq!(system.run_driver(FIRST), Err(Refusal::NoSuchFunction), "it is on its way out");
        system.wait(SOON_MS);
        assert_eq!((system.presence(0), system.slot(0)), (Presence::Absent, SlotState::Off));
        system.wait(OVER_MS);
        assert_eq!(system.slot(0), SlotState::Off, "until somebody presses again");
        system.pull(0);
        system.wait(SOON_MS);
        system.insert(0, vec![controller(8)]);
        system.wait(SOON_MS);
        assert_eq!(system.visit(0), Visit { arrivals: 1, presence: Presence::Present });
        system.run_driver(FIRST).unwrap();
        assert_eq!(system.register(IN_SLOT[0]), 8);
    });
}

#[test]
fn a_driver_that_does_not_release_is_deprived_before_power_goes() {
    let mut system = OnTree::with_slots(false, [Some(5), None]);
    let before = system.passing_cptrs();
    system.run_driver(FIRST).unwrap();
    system.press(0);
    system.wait(WITHDRAW_MS);
    system.take_acts();
    system.wait(OVER_MS);
    let acts = system.take_acts();
    let master = acts.iter().position(|act| matches!(act, Act::Config(bdf, _) if *bdf == IN_SLOT[0]));
    let unmapped = acts.iter().position(|act| matches!(act, Act::Unmapped));
    let closed = acts.iter().position(|act| matches!(act, Act::Deleted(Object::IoSpace { .. })));
    assert!(master < unmapped && unmapped.is_some() && closed.is_some(), "{acts:?}");
    assert!(system.mapped(DRIVER_VSPACE).is_empty());
    assert_eq!((system.passing_cptrs(), system.slot(0)), (before, SlotState::Off));
    assert_eq!(system.ask(FIRST, RELEASE), Err(Refusal::NotClaimed));
}

#[test]
fn a_controller_that_returns_has_the_addresses_of_the_start() {
    on_both(|assigns| {
        let mut system = OnTree::with_slots(assigns, [Some(5), None]);
        system.run_driver(FIRST).unwrap();
        let at_start = system.mapped(DRIVER_VSPACE);
        system.pull(0);
        system.wait(100);
        system.ask(FIRST, RELEASE).unwrap();
        system.wait(OVER_MS);
        system.insert(0, vec![controller(5)]);
        system.wait(SOON_MS);
        system.run_driver(FIRST).unwrap();
        assert!(!at_start.is_empty());
        assert_eq!(system.mapped(DRIVER_VSPACE), at_start);
    });
}

#[test]
fn a_pulled_controller_leaves_its_driver_time_to_release() {
    on_both(|assigns| {
        let mut system = OnTree::with_slots(assigns, [Some(5), None]);
        let before = system.passing_cptrs();
        system.run_driver(FIRST).unwrap();
        let mapped = system.mapped(DRIVER_VSPACE);
        system.pull(0);
        system.wait(100);
        assert_eq!(system.visit(0), Visit { arrivals: 0, presence: Presence::Absent });
        assert_eq!(system.mapped(DRIVER_VSPACE), mapped, "an access is no fault");
        // Requests about a function that is gone have an answer.
        let _ = system.vector(FIRST, 1, 7);
        let _ = system.ask_index(FIRST, pci_api::INTERRUPTS, pci_api::INTERRUPTS_MSIX.into());
        system.ask(FIRST, RELEASE).unwrap();
        assert_eq!(system.passing_cptrs(), before);
        assert_eq!(system.run_driver(FIRST), Err(Refusal::NoSuchFunction));
        system.wait(OVER_MS);
        assert_eq!((system.presence(0), system.slot(0)), (Presence::Absent, SlotState::Empty));
    });
}

#[test]
fn another_controller_in_the_same_slot_is_not_reached_by_the_old_claim() {
    on_both(|assigns| {
        let mut system = OnTree::with_slots(assigns, [Some(5), None]);
        system.run_driver(FIRST).unwrap();
        system.pull(0);
        system.insert(0, vec![Endpoint::new(FunctionConfig::nvme(0x4000, 8), controller(8).device)]);
        system.wait(100);
        assert_ne!(system.register(IN_SLOT[0]), 8, "it has no address while the driver has pages of the old one");
        assert!(!system.is_master(IN_SLOT[0]));
        system.wait(OVER_MS);
        assert!(system.mapped(DRIVER_VSPACE).is_empty());
        assert_eq!(system.visit(0), Visit { arrivals: 1, presence: Presence::Present });
        system.run_driver(FIRST).unwrap();
        assert_eq!(system.register(IN_SLOT[0]), 8);
    });
}

#[test]
fn both_slots_change_at_once_and_the_neighbour_notices_nothing() {
    on_both(|assigns| {
        let mut system = OnTree::with_slots(assigns, [Some(5), Some(6)]);
        for badge in [FIRST, SECOND, NEIGHBOUR] {
            system.run_driver(badge).unwrap();
        }
        let neighbours = system.mapped(DRIVER_VSPACE + 2);
        system.take_acts();
        system.pull(0);
        system.press(1);
        system.wait(OVER_MS);
        system.insert(0, vec![controller(6)]);
        system.press(1);
        system.wait(SOON_MS);
        for badge in [FIRST, SECOND] {
            system.run_driver(badge).unwrap();
        }
        assert_eq!(IN_SLOT.map(|bdf| system.register(bdf)), [6, 6]);
        assert_eq!((system.mapped(DRIVER_VSPACE + 2), system.register(FIXED)), (neighbours, 99));
        assert!(system.is_master(FIXED));
        let acts = system.take_acts();
        assert!(!acts.iter().any(|act| matches!(act, Act::Config(bdf, _) if *bdf == FIXED)), "{acts:?}");
    });
}

#[test]
fn a_dead_driver_of_a_pulled_controller_is_silent() {
    let mut system = OnTree::with_slots(false, [Some(5), None]);
    system.run_driver(FIRST).unwrap();
    system.pull(0);
    system.wait(50);
    system.set_incarnation(0, 1);
    assert_eq!(system.signalled(), [platform::Badge::silenced(0)]);
    assert!(system.mapped(DRIVER_VSPACE).is_empty());
}

#[test]
fn what_a_port_has_no_room_for_is_turned_off() {
    on_both(|assigns| {
        let mut system = OnTree::with_slots(assigns, [None, None]);
        let mut large = FunctionConfig::nvme(0x2000, 8);
        let kind = BarKind::Memory64(Prefetch::NonPrefetchable);
        large.bars[4] = Some(BarConfig { kind, bytes: 64 << 20 });
        system.insert(0, vec![Endpoint::new(large, controller(5).device)]);
        system.wait(OVER_MS);
        assert_eq!((system.presence(0), system.slot(0)), (Presence::Absent, SlotState::Off));
        assert_eq!(system.claim_class_code(FIRST, NVME_CLASS_CODE).err(), Some(Refusal::NoSuchFunction));
    });
}

#[test]
fn functions_of_one_device_arrive_together_and_go_together() {
    on_both(|assigns| {
        let mut system = OnTree::with_slots(assigns, [None, None]);
        let mut other = FunctionConfig::nvme(0x2000, 8);
        other.class = ClassCode { base: 2, sub: 0, interface: 0 };
        system.insert(0, vec![Endpoint::new(other, controller(4).device), controller(5)]);
        system.wait(SOON_MS);
        let claimed = system.run_driver(FIRST).unwrap();
        assert_eq!(claimed.bdf, IN_SLOT[0].to_raw() + 1, "the controller among them");
        system.pull(0);
        system.wait(OVER_MS);
        assert_eq!(system.slot(0), SlotState::Empty);
        assert_eq!(system.run_driver(FIRST), Err(Refusal::NoSuchFunction));
    });
}

#[test]
fn virtual_functions_go_with_their_controller() {
    on_both(|assigns| {
        let mut system = OnTree::with_slots(assigns, [None, None]);
        let before = system.passing_cptrs();
        for arrivals in 1..4 {
            system.insert(0, vec![with_virtual_functions()]);
            system.wait(SOON_MS);
            assert_eq!(system.visit(0).arrivals, arrivals);
            system.run_driver(FIRST).unwrap();
            while system.ask_index(FIRST, VIRTUAL_FUNCTIONS, 2).unwrap().payload() != Ok(Count(2)) {
                system.wait(50);
            }
            assert_eq!(system.run_driver(VIRTUAL).unwrap().bdf, IN_SLOT[0].to_raw() + 1);
            system.pull(0);
            system.wait(OVER_MS);
            assert_eq!((system.passing_cptrs(), system.slot(0)), (before, SlotState::Empty));
            assert_eq!(system.run_driver(VIRTUAL), Err(Refusal::NoSuchFunction));
        }
    });
}

/// A reset that a removal cuts short holds up nobody: not the slot, and not the resets of others.
#[test]
fn a_controller_pulled_under_reset_leaves_no_note() {
    let mut system = OnTree::with_slots(false, [None, None]);
    for slot in [0, 1] {
        system.insert(slot, vec![with_virtual_functions()]);
    }
    system.wait(SOON_MS);
    system.run_driver(FIRST).unwrap();
    system.run_driver(SECOND).unwrap();
    system.ask_index(FIRST, VIRTUAL_FUNCTIONS, 2).unwrap();
    assert_eq!(system.ask(FIRST, RELEASE), Err(Refusal::NotReady), "it is under reset");
    system.pull(0);
    system.wait(OVER_MS);
    assert_eq!(system.slot(0), SlotState::Empty);
    while system.ask_index(SECOND, VIRTUAL_FUNCTIONS, 2).unwrap().payload() != Ok(Count(2)) {
        system.wait(50);
    }
}

#[test]
fn a_slot_that_no_port_has_disturbs_nobody() {
    let mut config = slotted_config(false);
    config.drivers[0].allowed = Match::Slot(1234);
    let mut system = OnTree::with_slots_of(&config, [Some(5), Some(6)]);
    system.wait(SOON_MS);
    assert_eq!(system.presence(0), Presence::Absent);
    assert_eq!(system.run_driver(FIRST), Err(Refusal::NoSuchFunction));
    system.run_driver(SECOND).unwrap();
    // The controller in the slot that nobody named is the first of its class, and stays where it is.
    assert_eq!(system.run_driver(NEIGHBOUR).unwrap().bdf, IN_SLOT[0].to_raw());
}

/// A server that dies while a controller arrives, whatever write was its last, leaves a slot that its successor starts.
#[test]
fn server_death_during_an_arrival_is_made_up_for() {
    on_both(|assigns| {
        let mut stopped = 0;
        for writes in 0.. {
            let mut system = OnTree::with_slots(assigns, [None, None]);
            system.insert(0, vec![controller(5)]);
            let done = system.wait_until(SOON_MS, writes);
            stopped += u32::from(!done);
            let mut next = system.successor(None).unwrap();
            next.wait(OVER_MS);
            assert_eq!(next.presence(0), Presence::Present, "after {writes} writes");
            next.set_incarnation(0, 2);
            next.run_driver(FIRST).unwrap();
            assert_eq!(next.register(IN_SLOT[0]), 5);
            if done {
                break;
            }
        }
        assert!(stopped > 20, "{stopped}");
    });
}

/// A server that dies during a removal, whatever write was its last, leaves the rest of it to its successor.
#[test]
fn server_death_during_a_removal_is_made_up_for() {
    on_both(|assigns| {
        let mut stopped = 0;
        for writes in 0.. {
            let mut system = OnTree::with_slots(assigns, [Some(5), None]);
            system.run_driver(FIRST).unwrap();
            system.press(0);
            let done = system.wait_until(OVER_MS, writes);
            stopped += u32::from(!done);
            for _ in 0..2 {
                system = system.successor(None).unwrap();
                system.wait(OVER_MS);
                assert_eq!((system.presence(0), system.slot(0)), (Presence::Absent, SlotState::Off), "{writes} writes");
            }
            system.press(0);
            system.wait(SOON_MS);
            assert_eq!(system.presence(0), Presence::Present, "after {writes} writes");
            if done {
                break;
            }
        }
        assert!(stopped > 5, "{stopped}");
    });
}

/// A driver that was started before an arrival is started again, because the number of arrivals is another.
#[test]
fn arrivals_are_counted_across_server_death() {
    let mut system = OnTree::with_slots(false, [None, None]);
    for arrivals in 1..5 {
        system.insert(0, vec![controller(5)]);
        system.wait(SOON_MS);
        assert_eq!(system.visit(0), Visit { arrivals, presence: Presence::Present });
        if arrivals % 2 == 0 {
            system = system.successor(None).unwrap();
            assert_eq!(system.visit(0), Visit { arrivals, presence: Presence::Present });
        }
        system.pull(0);
        if arrivals % 2 == 1 {
            system = system.successor(None).unwrap();
            assert_eq!(system.visit(0), Visit { arrivals, presence: Presence::Absent });
        }
        system.wait(OVER_MS);
        assert_eq!(system.visit(0), Visit { arrivals, presence: Presence::Absent });
    }
}

/// A server's death at any write is made up for after the press that withdraws a removal, too.
#[test]
fn server_death_during_a_withdrawal_is_made_up_for() {
    for writes in 0.. {
        let mut system = OnTree::with_slots(false, [Some(5), None]);
        system.press(0);
        system.wait(WITHDRAW_MS / 2);
        system.press(0);
        let done = system.wait_until(100, writes);
        let mut next = system.successor(None).unwrap();
        next.wait(OVER_MS);
        assert_eq!((next.presence(0), next.slot(0)), (Presence::Present, SlotState::On), "after {writes} writes");
        if done {
            break;
        }
    }
}

#[test]
fn a_button_pressed_while_no_server_runs_counts() {
    on_both(|assigns| {
        let mut system = OnTree::with_slots(assigns, [Some(5), None]);
        system.press(0);
        let mut next = system.successor(None).unwrap();
        next.run_driver(FIRST).unwrap();
        next.wait(WITHDRAW_MS);
        assert_eq!(next.presence(0), Presence::Leaving);
        next.ask(FIRST, RELEASE).unwrap();
        next.wait(SOON_MS);
        assert_eq!(next.slot(0), SlotState::Off);
        // Another device is no device that was turned off.
        next.pull(0);
        next.insert(0, vec![controller(8)]);
        let mut last = next.successor(None).unwrap();
        last.wait(2000);
        last.set_incarnation(0, 2);
        last.run_driver(FIRST).unwrap();
        assert_eq!((last.presence(0), last.register(IN_SLOT[0])), (Presence::Present, 8));
    });
}

#[test]
fn nothing_stays_of_a_thousand_removals() {
    on_both(|assigns| {
        let mut system = OnTree::with_slots(assigns, [Some(1), None]);
        let mut kept: Vec<(usize, usize)> = Vec::new();
        for cycle in 0..1000u64 {
            let claimed = system.run_driver(FIRST).unwrap();
            assert_eq!((claimed.vectors, system.register(IN_SLOT[0])), (3, cycle + 1));
            let is_surprise = cycle % 2 == 0;
            if is_surprise {
                system.pull(0);
                system.wait(100);
            } else {
                system.press(0);
                system.wait(WITHDRAW_MS);
                assert_eq!(system.presence(0), Presence::Leaving);
            }
            // Every third driver is slow.
            if cycle % 3 != 0 {
                system.ask(FIRST, RELEASE).unwrap();
            }
            system.wait(OVER_MS / 2 + 2000);
            if !is_surprise {
                system.pull(0);
            }
            system.wait(100);
            assert_eq!(system.slot(0), SlotState::Empty);
            kept.push((system.passing_cptrs(), system.machine.state().caps().len()));
            let given = system.given().len();
            assert_eq!(given, 0, "what the driver had");
            system.insert(0, vec![controller(cycle + 2)]);
            system.wait(SOON_MS);
            system.take_acts();
        }
        assert!(kept.iter().all(|one| *one == kept[0]), "{:?}", &kept[..8]);
    });
}
