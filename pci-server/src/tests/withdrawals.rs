//! Virtual functions that are withdrawn from their drivers while they run.

use super::bus::Effect;
use super::machine::{Act, Object};
use super::system::{DRIVER_VSPACE, NVME_CLASS_CODE};
use super::virtual_system::{BEYOND, FIRST, OnTree, SECOND, SERVER, virtual_at};
use pci_api::{BAR_FRAME, IO_SPACE, RELEASE, RESTORE, Refusal, START, WITHDRAW};
use platform::Badge;
use sim_pci::Blocked;

#[test]
fn withdrawn_function_is_silent_and_as_new_and_reaches_nothing() {
    let mut system = OnTree::enabled(2);
    system.run_driver(FIRST).unwrap();
    system.run_driver(SECOND).unwrap();
    let (pages, resets) = (system.mapped(DRIVER_VSPACE + 1), system.resets(0));
    system.take_acts();
    system.ask_index(SERVER, WITHDRAW, 0).unwrap();
    let acts = system.take_acts();
    let of_virtual = |effect| Act::Config(virtual_at(0), effect);
    assert_eq!(acts[..3], [Effect::BusMaster(false), Effect::Msix(false), Effect::Reset].map(of_virtual));
    assert!(acts.iter().any(|act| matches!(act, Act::Deleted(Object::IoSpace { domain: 2, .. }))), "{acts:?}");
    assert_eq!((system.resets(0), system.send(0)), (resets + 1, Err(Blocked::NotBusMaster)));
    assert_eq!(system.mapped(DRIVER_VSPACE + 1), pages, "an access to its registers would end the driver");
    for again in 0..2 {
        system.ask_index(SERVER, WITHDRAW, 0).unwrap();
        assert_eq!(system.take_acts(), [], "{again}");
    }
    // The neighbour noticed nothing.
    assert!(system.is_master(virtual_at(1)) && system.has_messages(virtual_at(1)));
}

#[test]
fn driver_of_a_withdrawn_function_can_release_it_and_nothing_else() {
    let mut system = OnTree::enabled(2);
    system.run_driver(FIRST).unwrap();
    system.ask_index(SERVER, WITHDRAW, 0).unwrap();
    assert_eq!(system.claim_class_code(FIRST, NVME_CLASS_CODE).unwrap_err(), Refusal::Withdrawn);
    assert_eq!(system.ask(FIRST, RELEASE).unwrap_err(), Refusal::NotReady, "it is under reset");
    system.pass(100);
    for label in [START, IO_SPACE] {
        assert_eq!(system.ask(FIRST, label).unwrap_err(), Refusal::Withdrawn);
    }
    assert_eq!(system.vector(FIRST, 0, 7).unwrap_err(), Refusal::Withdrawn);
    assert_eq!(system.ask_index(FIRST, BAR_FRAME, 0).unwrap_err(), Refusal::Withdrawn);
    // The claim from before stays withdrawn.
    system.ask_index(SERVER, RESTORE, 0).unwrap();
    assert_eq!(system.ask(FIRST, START).unwrap_err(), Refusal::Withdrawn);
    assert_eq!(system.claim_class_code(FIRST, NVME_CLASS_CODE).unwrap_err(), Refusal::Busy);
    system.ask(FIRST, RELEASE).unwrap();
    assert!(system.mapped(DRIVER_VSPACE + 1).is_empty());
    system.pass(100);
    system.run_driver(FIRST).unwrap();
    assert_eq!(system.send(0), Ok(()));
}

#[test]
fn functions_driver_alone_withdraws_its_virtual_ones() {
    let mut system = OnTree::enabled(2);
    system.run_driver(SECOND).unwrap();
    for (badge, number) in [(FIRST, 0), (SECOND, 1), (BEYOND, 1), (SERVER, 2), (SERVER, u64::MAX)] {
        for label in [WITHDRAW, RESTORE] {
            assert_eq!(system.ask_index(badge, label, number).unwrap_err(), Refusal::NoSuchFunction);
        }
    }
    assert!(system.is_master(virtual_at(1)));
}

#[test]
fn withdrawal_outlives_the_driver_that_it_was_from() {
    let mut system = OnTree::enabled(2);
    system.run_driver(FIRST).unwrap();
    system.ask_index(SERVER, WITHDRAW, 0).unwrap();
    system.set_incarnation(1, 1);
    assert!(!system.mapped(DRIVER_VSPACE + 1).is_empty(), "the function is under reset");
    system.tick(100);
    assert!(system.mapped(DRIVER_VSPACE + 1).is_empty());
    system.tick(100);
    assert_eq!(system.signalled(), [Badge::silenced(1)]);
    system.set_incarnation(1, 2);
    assert_eq!(system.claim_class_code(FIRST, NVME_CLASS_CODE).unwrap_err(), Refusal::Withdrawn);
    system.ask_index(SERVER, RESTORE, 0).unwrap();
    system.run_driver(FIRST).unwrap();
}
