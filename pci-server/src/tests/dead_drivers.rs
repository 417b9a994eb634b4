//! Drivers that die: their claims are taken back, and then the supervisor is notified.

use super::machine::Act;
use super::system::{BEHIND_PORT, DRIVER_VSPACE, LIVENESS, ON_ROOT, System};
use pci_api::{INTERRUPTS_MSIX, START};
use platform::Badge;

#[test]
fn dead_drivers_device_is_silent_before_the_notification() {
    let mut system = System::start();
    system.claim(2, ON_ROOT, INTERRUPTS_MSIX).unwrap();
    let before = system.passing_cptrs();
    system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX).unwrap();
    system.work(1).unwrap();
    let others = system.mapped(DRIVER_VSPACE + 1);
    assert!(system.device(BEHIND_PORT).is_master());
    system.set_incarnation(0, 1);
    assert!(!system.device(BEHIND_PORT).is_master());
    assert!(system.mapped(DRIVER_VSPACE).is_empty());
    assert_eq!(system.passing_cptrs(), before);
    assert_eq!(system.signalled(), [Badge::silenced(0)]);
    assert_eq!(system.mapped(DRIVER_VSPACE + 1), others, "the neighbour's");
    // Its next incarnation claims it again.
    system.set_incarnation(0, 2);
    assert!(system.signalled().is_empty());
    system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX).unwrap();
}

#[test]
fn a_driver_that_died_without_a_claim_is_reported_all_the_same() {
    let mut system = System::start();
    system.set_incarnation(2, 1);
    assert_eq!(system.signalled(), [Badge::silenced(2)]);
    system.set_incarnation(2, 1);
    assert!(system.signalled().is_empty(), "once for each death");
}

#[test]
fn a_missed_death_is_seen_with_the_next_incarnation() {
    let mut system = System::claimed();
    system.ask(1, START).unwrap();
    system.take_acts();
    system.machine.state_mut().set_word(LIVENESS, 2);
    // No tick: the claim of the next incarnation itself.
    system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX).unwrap();
    let unmapped = system.take_acts().iter().filter(|act| matches!(act, Act::Unmapped)).count();
    assert_eq!(unmapped, 3, "two pages of the driver's, one of the table");
    assert!(!system.device(BEHIND_PORT).is_master());
}
