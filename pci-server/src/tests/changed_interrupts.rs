//! A claimed function whose interrupt mode changes.

use super::bus::Device;
use super::machine::Object;
use super::system::{BEHIND_PORT, ON_ROOT, System, WINDOW, config, devices};
use pci_api::{
    BY_HANDLER, BY_SERVER, Bound, Count, INTERRUPTS, INTERRUPTS_INTX, INTERRUPTS_MSI, INTERRUPTS_MSIX, RELEASE,
    Refusal, START, ServerConfig,
};
use pci_spec::Bdf;
use proptest::prelude::*;
use std::vec::Vec;

/// Eight vectors, 64-bit address, mask bits.
const MSI_CONTROL: u16 = 0x0186;

/// The usual functions; the controller behind the port and the one on the root bus have MSI as well.
fn functions() -> Vec<(Bdf, Device)> {
    let mut all = devices();
    for (bdf, device) in &mut all {
        if *bdf == BEHIND_PORT || *bdf == ON_ROOT {
            *device = device.clone().msi(MSI_CONTROL);
        }
    }
    all
}

fn system(irqs: (u8, u8)) -> System {
    System::with(functions(), ServerConfig { irqs, ..config() })
}

fn change(system: &mut System, driver: u64, kind: u16) -> Result<u64, Refusal> {
    let answer = system.ask_index(driver, INTERRUPTS, kind.into())?;
    let Count(count) = answer.payload().unwrap();
    Ok(count)
}

/// MSI-X, MSI, pin.
fn on(system: &System, bdf: Bdf) -> [bool; 3] {
    let device = system.device(bdf);
    [device.interrupts_by_messages(), device.interrupts_by_msi(), device.interrupts_by_pin()]
}

fn handlers(system: &System) -> usize {
    system.given().iter().filter(|object| matches!(object, Object::IrqHandler { .. })).count()
}

#[test]
fn a_change_ends_the_old_vectors_and_leaves_all_else() {
    let mut system = system((20, 8));
    system.claim(1, BEHIND_PORT, INTERRUPTS_INTX).unwrap();
    system.vector(1, 0, 7).unwrap();
    system.io_space(1).unwrap();
    system.ask(1, START).unwrap();
    let (registers, io_spaces) = (system.mapped(super::system::DRIVER_VSPACE), system.given());
    for (kind, count, ways) in [
        (INTERRUPTS_MSIX, 3, [true, false, false]),
        (INTERRUPTS_MSI, 2, [false, true, false]),
        (INTERRUPTS_INTX, 1, [false, false, true]),
        (INTERRUPTS_MSI, 2, [false, true, false]),
        (INTERRUPTS_MSIX, 3, [true, false, false]),
    ] {
        assert_eq!(change(&mut system, 1, kind), Ok(count));
        assert_eq!(handlers(&system), 0, "the vectors before have ended");
        assert!(!on(&system, BEHIND_PORT)[2], "a pin is let through when it is bound");
        for index in 0..count {
            assert_eq!(system.vector(1, index, 7).unwrap().payload(), Ok(Bound { by: BY_HANDLER }));
        }
        assert_eq!(system.vector(1, count, 7).unwrap_err(), Refusal::NoSuchVector);
        assert_eq!(on(&system, BEHIND_PORT), ways);
        assert_eq!(system.mapped(super::system::DRIVER_VSPACE), registers);
        assert!(system.device(BEHIND_PORT).is_master());
        assert!(
            io_spaces
                .iter()
                .filter(|one| matches!(one, Object::IoSpace { .. }))
                .all(|one| system.given().contains(one))
        );
    }
    system.ask(1, RELEASE).unwrap();
    assert_eq!(on(&system, BEHIND_PORT), [false; 3]);
}

#[test]
fn a_shared_line_is_left_and_joined_again() {
    let mut system = system((20, 8));
    system.claim(2, ON_ROOT, INTERRUPTS_INTX).unwrap();
    assert_eq!(system.vector(2, 0, 7).unwrap().payload(), Ok(Bound { by: BY_SERVER }));
    let with_share = system.passing_cptrs();
    assert_eq!(change(&mut system, 2, INTERRUPTS_MSI), Ok(2));
    assert_eq!(system.vector(2, 1, 7).unwrap().payload(), Ok(Bound { by: BY_HANDLER }));
    assert_eq!(change(&mut system, 2, INTERRUPTS_INTX), Ok(1));
    assert_eq!(system.vector(2, 0, 7).unwrap().payload(), Ok(Bound { by: BY_SERVER }));
    assert_eq!(system.passing_cptrs(), with_share);
}

#[test]
fn what_the_function_lacks_is_refused_and_nothing_changes() {
    let mut system = System::claimed();
    system.vector(1, 1, 7).unwrap();
    assert_eq!(change(&mut system, 1, INTERRUPTS_MSI), Err(Refusal::Unusable));
    assert_eq!((on(&system, BEHIND_PORT), handlers(&system)), ([true, false, false], 1));
}

#[test]
fn failed_reservation_restores_the_old_interrupts() {
    // One interrupt, which a neighbour's vector takes when this one's line has returned it.
    let mut system = system((20, 2));
    system.claim(1, BEHIND_PORT, INTERRUPTS_INTX).unwrap();
    system.claim(2, ON_ROOT, INTERRUPTS_MSIX).unwrap();
    system.vector(2, 0, 8).unwrap();
    system.vector(2, 1, 8).unwrap();
    assert_eq!(change(&mut system, 1, INTERRUPTS_MSI), Err(Refusal::Exhausted));
    assert_eq!(system.vector(1, 0, 7).unwrap_err(), Refusal::Exhausted, "as before");
    system.ask(2, RELEASE).unwrap();
    assert!(system.vector(1, 0, 7).is_ok());
    assert_eq!(on(&system, BEHIND_PORT), [false, false, true]);
}

#[test]
fn who_claimed_nothing_and_kinds_there_are_not_are_refused() {
    let mut system = system((20, 8));
    assert_eq!(change(&mut system, 1, INTERRUPTS_MSIX), Err(Refusal::NotClaimed));
    system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX).unwrap();
    for number in [3, 0xffff, 0x1_0000, u64::MAX] {
        assert_eq!(system.ask_index(1, INTERRUPTS, number).unwrap_err(), Refusal::BadRequest);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// However two drivers change and bind, at most one interrupt mode is on, and at the end nothing is left over.
    #[test]
    fn no_two_ways_are_on_and_nothing_is_lost(steps in prop::collection::vec((1u64..=2, 0u16..=4, 0u64..=3), 1..40)) {
        let mut system = system((20, 8));
        system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX).unwrap();
        system.claim(2, ON_ROOT, INTERRUPTS_INTX).unwrap();
        for (driver, kind, index) in steps {
            if kind <= INTERRUPTS_MSI {
                // Refusals are as good as grants here.
                let _ = change(&mut system, driver, kind);
            } else {
                let _ = system.vector(driver, index, 7);
            }
            for bdf in [BEHIND_PORT, ON_ROOT] {
                prop_assert!(on(&system, bdf).iter().filter(|on| **on).count() <= 1);
            }
        }
        system.ask(1, RELEASE).unwrap();
        system.ask(2, RELEASE).unwrap();
        prop_assert_eq!(system.passing_cptrs(), 0);
        // All eight interrupts are there again.
        system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX).unwrap();
        system.claim(2, ON_ROOT, INTERRUPTS_MSIX).unwrap();
        for (driver, index) in [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)] {
            prop_assert!(system.vector(driver, index, 7).is_ok());
        }
        prop_assert!(system.mapped(super::system::DRIVER_VSPACE).iter().all(|page| *page >= WINDOW));
    }
}
