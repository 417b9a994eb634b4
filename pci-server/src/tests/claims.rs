//! Tests of claims: their contents, the drivers that may have them, and the return of all resources.

use super::bus::{Device, Effect, at};
use super::machine::{ARENA, Act, Object};
use super::system::{
    BEHIND_BRIDGES, BEHIND_PORT, DRIVER_ARENA, DRIVER_VSPACE, NVME_CLASS_CODE, ON_ROOT, OWN_VSPACE, System, config,
    devices, driver,
};
use pci_api::{BAR_FRAME, INTERRUPTS_INTX, INTERRUPTS_MSIX, IO_SPACE, Match, RELEASE, Refusal, START};
use std::vec;
use std::vec::Vec;

#[test]
fn claim_maps_the_bar_but_never_the_table_nor_the_pba() {
    let mut system = System::start();
    let claimed = system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX).unwrap();
    assert_eq!((claimed.bdf, claimed.requester_id, claimed.vectors), (0x0100, 0x0100, 3));
    assert_eq!(claimed.run_count, 1);
    let run = claimed.runs[0];
    assert_eq!((run.vaddr, run.first_page, run.pages, run.bar), (DRIVER_ARENA, 0, 2, 0));
    assert_eq!(system.mapped(DRIVER_VSPACE), [0xc000_0000, 0xc000_1000]);
    assert_eq!(system.mapped(OWN_VSPACE), [0xc000_2000]);
}

#[test]
fn no_capability_to_the_table_can_be_had() {
    let mut system = System::claimed();
    for (index, paddr) in [0xc000_0000, 0xc000_1000].into_iter().enumerate() {
        system.ask_index(1, BAR_FRAME, index as u64).unwrap();
        assert_eq!(system.last_given(), Object::Frame { paddr, mapped: None });
    }
    for index in [2, 3, 4, u64::MAX] {
        assert_eq!(system.ask_index(1, BAR_FRAME, index).unwrap_err(), Refusal::Unusable);
    }
}

#[test]
fn pages_around_a_table_in_the_middle_come_in_two_runs() {
    let here = at(0, 1, 0);
    let device = Device::endpoint(NVME_CLASS_CODE).bar64(0, 0xc000_0000, 0x8000).msix(4, 0x3000, 0x3800);
    let mut config = config();
    config.drivers = vec![driver("only", Match::Bdf(here.to_raw()), 1)];
    let claimed = System::with(vec![(here, device)], config).claim(1, here, INTERRUPTS_MSIX).unwrap();
    let runs: Vec<_> =
        claimed.runs[..2].iter().map(|run| (run.vaddr - DRIVER_ARENA, run.first_page, run.pages)).collect();
    assert_eq!((claimed.run_count, runs), (2, vec![(0, 0, 3), (0x3000, 4, 4)]));
}

#[test]
fn table_page_stays_here_without_messages_too() {
    let mut system = System::start();
    system.claim(1, BEHIND_PORT, INTERRUPTS_INTX).unwrap();
    assert_eq!(system.mapped(DRIVER_VSPACE), [0xc000_0000, 0xc000_1000]);
}

#[test]
fn claim_by_class_takes_the_one_the_driver_is_allowed() {
    let mut system = System::start();
    assert_eq!(system.claim_class_code(2, NVME_CLASS_CODE).unwrap().bdf, ON_ROOT.to_raw());
    assert_eq!(system.claim_class_code(1, NVME_CLASS_CODE).unwrap().bdf, BEHIND_PORT.to_raw());
    assert_eq!(system.claim_class_code(3, 0x02_00_00).unwrap_err(), Refusal::NotAllowed);
    assert_eq!(system.claim_class_code(3, 0x0c_03_30).unwrap_err(), Refusal::NoSuchFunction);
}

#[test]
fn foreign_function_is_forbidden_and_absent_one_not_there() {
    let mut system = System::start();
    assert_eq!(system.claim(1, ON_ROOT, INTERRUPTS_MSIX), Err(Refusal::NotAllowed));
    assert_eq!(system.claim(1, at(0, 2, 0), INTERRUPTS_MSIX), Err(Refusal::NotAllowed));
    assert_eq!(system.claim(1, at(7, 0, 0), INTERRUPTS_MSIX), Err(Refusal::NoSuchFunction));
    assert!(system.mapped(DRIVER_VSPACE).is_empty());
}

#[test]
fn claimed_function_is_busy_and_so_is_its_driver() {
    let mut config = config();
    config.drivers[1].allowed = Match::Bdf(BEHIND_PORT.to_raw());
    let mut system = System::with(devices(), config);
    system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX).unwrap();
    assert_eq!(system.claim(2, BEHIND_PORT, INTERRUPTS_MSIX), Err(Refusal::Busy));
    assert_eq!(system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX), Err(Refusal::Busy));
    system.ask(1, RELEASE).unwrap();
    system.claim(2, BEHIND_PORT, INTERRUPTS_MSIX).unwrap();
}

#[test]
fn bridge_cannot_be_claimed() {
    let mut config = config();
    config.drivers[0].allowed = Match::Bdf(at(0, 2, 0).to_raw());
    let mut system = System::with(devices(), config);
    assert_eq!(system.claim(1, at(0, 2, 0), INTERRUPTS_MSIX), Err(Refusal::Unusable));
}

#[test]
fn nothing_is_had_without_a_claim() {
    let mut system = System::start();
    for label in [IO_SPACE, START, RELEASE] {
        assert_eq!(system.ask(1, label).unwrap_err(), Refusal::NotClaimed);
    }
    assert_eq!(system.ask_index(1, BAR_FRAME, 0).unwrap_err(), Refusal::NotClaimed);
    assert_eq!(system.vector(1, 0, 7).unwrap_err(), Refusal::NotClaimed);
}

#[test]
fn io_space_has_its_domain_and_requester_id() {
    let mut system = System::claimed();
    assert_eq!(system.io_space(1), Ok(Object::IoSpace { domain: 1, requester_id: 0x0100 }));
    // Behind conventional bridges requests carry the id of the topmost.
    let claimed = system.claim(3, BEHIND_BRIDGES, INTERRUPTS_MSIX).unwrap();
    assert_eq!(claimed.requester_id, at(0, 4, 0).to_raw());
    assert_eq!(system.io_space(3), Ok(Object::IoSpace { domain: 3, requester_id: at(0, 4, 0).to_raw() }));
}

#[test]
fn without_an_iommu_a_driver_is_reported() {
    let mut config = config();
    config.iommu = false;
    let mut system = System::with(devices(), config);
    system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX).unwrap();
    assert_eq!(system.io_space(1), Err(Refusal::NoIommu));
    system.ask(1, RELEASE).unwrap();
}

#[test]
fn released_function_goes_without_the_first_io_space() {
    let mut config = config();
    config.drivers[1].allowed = Match::Bdf(BEHIND_PORT.to_raw());
    let mut system = System::with(devices(), config);
    system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX).unwrap();
    // Asked for twice, so that the driver has two copies.
    system.io_space(1).unwrap();
    system.io_space(1).unwrap();
    system.ask(1, RELEASE).unwrap();
    assert!(system.given().is_empty());
    system.claim(2, BEHIND_PORT, INTERRUPTS_MSIX).unwrap();
    assert_eq!(system.io_space(2), Ok(Object::IoSpace { domain: 2, requester_id: 0x0100 }));
    assert_eq!(system.given().len(), 1);
    assert_eq!(system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX), Err(Refusal::Busy));
    system.ask(2, RELEASE).unwrap();
    system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX).unwrap();
}

#[test]
fn release_leaves_other_drivers_their_io_spaces() {
    let mut system = System::claimed();
    system.io_space(1).unwrap();
    system.claim(2, ON_ROOT, INTERRUPTS_MSIX).unwrap();
    let others = system.io_space(2).unwrap();
    system.ask(1, RELEASE).unwrap();
    assert_eq!(system.given(), [others]);
    // The master that IOSpaces are minted from still exists.
    system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX).unwrap();
    system.io_space(1).unwrap();
}

#[test]
fn functions_with_one_requester_id_go_to_one_driver_at_a_time() {
    let neighbour = at(3, 2, 0);
    let mut all = devices();
    all.push((neighbour, Device::nvme(0xc111_0000)));
    let mut config = config();
    config.drivers[0].allowed = Match::Bdf(neighbour.to_raw());
    let mut system = System::with(all, config);
    system.claim(3, BEHIND_BRIDGES, INTERRUPTS_MSIX).unwrap();
    assert_eq!(system.claim(1, neighbour, INTERRUPTS_MSIX), Err(Refusal::Busy));
}

#[test]
fn bus_mastering_goes_on_last_and_off_first() {
    let mut system = System::start();
    system.take_acts();
    system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX).unwrap();
    system.vector(1, 0, 7).unwrap();
    system.io_space(1).unwrap();
    let mastering = |act: &Act| matches!(act, Act::Config(BEHIND_PORT, Effect::BusMaster(_)));
    assert!(!system.take_acts().iter().any(mastering));
    system.ask(1, START).unwrap();
    assert_eq!(system.take_acts(), [Act::Config(BEHIND_PORT, Effect::BusMaster(true))]);
    assert!(system.device(BEHIND_PORT).is_master());

    system.ask(1, RELEASE).unwrap();
    let acts = system.take_acts();
    assert_eq!(acts[0], Act::Config(BEHIND_PORT, Effect::BusMaster(false)));
    assert_eq!(acts[1], Act::Config(BEHIND_PORT, Effect::Msix(false)));
    let at_most = |wanted: fn(&Act) -> bool| acts.iter().rposition(wanted).unwrap();
    let unmapped = at_most(|act| matches!(act, Act::Unmapped));
    let cleared = at_most(|act| matches!(act, Act::IrqCleared { .. }));
    let io_space = at_most(|act| matches!(act, Act::Deleted(Object::IoSpace { .. })));
    assert!(unmapped < cleared && cleared < io_space);
    assert_eq!(acts.last(), Some(&Act::Config(BEHIND_PORT, Effect::Memory(false))));
}

#[test]
fn start_lets_every_bridge_above_forward() {
    let mut all = devices();
    let unforwarding = all.iter_mut().find(|(bdf, _)| *bdf == at(0, 2, 0)).unwrap();
    unforwarding.1.write(0x04, 0);
    let mut system = System::with(all, config());
    system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX).unwrap();
    assert!(!system.device(at(0, 2, 0)).is_master());
    system.ask(1, START).unwrap();
    assert!(system.device(at(0, 2, 0)).is_master());
}

#[test]
fn release_takes_every_mapping_and_capability() {
    let mut system = System::claimed();
    system.ask_index(1, BAR_FRAME, 0).unwrap();
    system.vector(1, 0, 7).unwrap();
    system.vector(1, 2, 7).unwrap();
    system.io_space(1).unwrap();
    system.ask(1, START).unwrap();
    system.ask(1, RELEASE).unwrap();
    assert!(system.mapped(DRIVER_VSPACE).is_empty());
    assert!(system.mapped(OWN_VSPACE).is_empty());
    assert!(system.given().is_empty());
    assert_eq!(system.passing_cptrs(), 0);
    assert_eq!(system.ask(1, RELEASE).unwrap_err(), Refusal::NotClaimed);
}

#[test]
fn claims_can_follow_each_other_without_end() {
    let mut system = System::start();
    for _ in 0..200 {
        system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX).unwrap();
        for index in 0..3 {
            system.vector(1, index, 7).unwrap();
        }
        system.io_space(1).unwrap();
        system.ask(1, START).unwrap();
        system.ask(1, RELEASE).unwrap();
    }
}

#[test]
fn claim_that_fails_halfway_leaves_nothing() {
    // Two pages for the driver, one for the table: each mapping fails once.
    let (driver, own) = (DRIVER_VSPACE, OWN_VSPACE);
    for (vspace, vaddr) in [(driver, DRIVER_ARENA), (driver, DRIVER_ARENA + 0x1000), (own, ARENA)] {
        let mut system = System::start();
        system.occupy(vspace, vaddr);
        assert_eq!(system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX), Err(Refusal::Kernel));
        system.vacate();
        assert!(system.mapped(DRIVER_VSPACE).is_empty() && system.mapped(OWN_VSPACE).is_empty());
        assert_eq!(system.passing_cptrs(), 0);
        system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX).unwrap();
    }
}

#[test]
fn claim_larger_than_the_arena_is_refused_whole() {
    let mut config = config();
    config.drivers[0].arena_len = 0x1000;
    let mut system = System::with(devices(), config);
    assert_eq!(system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX), Err(Refusal::Exhausted));
    assert!(system.mapped(DRIVER_VSPACE).is_empty());
}
