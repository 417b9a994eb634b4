//! Drivers of hot-plug slots' devices, which are started again for each arrival.

use super::restarts::{dies, reported, restartable, restarts};
use super::*;
use pci_api::presence::{Presence, Visit};

/// Address at which the second component, in the PCI server's place, has the first one's page of presence.
const PRESENCE_VADDR: u64 = 0x4_0000;

/// A system whose first component drives the device in a slot, and may die twice.
fn in_slot() -> Specification {
    let mut specification = restartable();
    let page = specification.objects.len() as u32;
    specification.objects.push(object("presence", ObjectKind::SmallFrame, 1));
    specification.mappings.push(Mapping { writable: true, ..mapping(SECOND + VSPACE, page, PRESENCE_VADDR) });
    specification.components[0].driver = Some(3);
    specification.components[0].presence = Some(page);
    specification
}

/// The PCI server shows this, and a tick passes.
fn shows(arrivals: u32, presence: Presence) -> [Happens; 2] {
    let page = platform::fake::Ram::new(4096);
    Visit { arrivals, presence }.store(&page).unwrap();
    let word = platform::Memory::load_acquire_u32(&page, 0).unwrap();
    [Happens::Writes { component: 2, vaddr: PRESENCE_VADDR, word }, TICK]
}

fn is_silent() -> [Happens; 1] {
    [Happens::Signal(Badge::silenced(3))]
}

fn after(happens: &[&[Happens]]) -> TestPlatform {
    boot_system(&in_slot(), &[23]).supervise(happens.concat())
}

fn faults(platform: &TestPlatform) -> usize {
    reported(platform, |report| matches!(report, Report::Fault(_)).then_some(())).len()
}

#[test]
fn a_device_that_is_there_at_the_start_restarts_nothing() {
    let platform = after(&[&shows(0, Presence::Present), &shows(0, Presence::Leaving), &shows(0, Presence::Absent)]);
    assert!(restarts(&platform).is_empty() && failures(&platform).is_empty());
    let kernel = platform.root.kernel().borrow();
    assert!(kernel.is_runnable(platform.component(1).thread()));
}

#[test]
fn an_arrival_restarts_the_driver_once_its_device_is_silent() {
    let arrives = shows(1, Presence::Present);
    let waiting = after(&[&arrives]);
    assert!(restarts(&waiting).is_empty());
    assert!(!waiting.root.kernel().borrow().is_runnable(waiting.component(1).thread()), "it is suspended");
    let started = after(&[&arrives, &is_silent(), &[TICK, TICK]]);
    assert_eq!((restarts(&started), faults(&started), failures(&started).len()), (vec![1], 0, 0));
    assert!(started.root.kernel().borrow().is_runnable(started.component(1).thread()));
}

#[test]
fn arrivals_do_not_count_as_deaths() {
    let mut happens = Vec::new();
    for arrivals in 1..=9 {
        happens.extend(shows(arrivals, Presence::Present));
        happens.extend(is_silent());
        happens.extend(shows(arrivals, Presence::Absent));
    }
    let platform = after(&[&happens]);
    assert_eq!(restarts(&platform), (1..=9).collect::<Vec<u16>>());
    assert_eq!((faults(&platform), failures(&platform).len()), (0, 0));
}

#[test]
fn a_driver_that_died_meanwhile_knows_what_arrived() {
    let platform = after(&[&[dies(1)], &shows(1, Presence::Present), &is_silent(), &[TICK, TICK]]);
    assert_eq!((restarts(&platform), faults(&platform)), (vec![1], 1), "its restart is enough");
}

#[test]
fn a_driver_that_stays_dead_is_not_revived_by_an_arrival() {
    let deaths: Vec<Happens> = (0..3).flat_map(|_| core::iter::once(dies(1)).chain(is_silent())).collect();
    let platform = after(&[&deaths, &shows(1, Presence::Present), &is_silent()]);
    assert_eq!(restarts(&platform), [1, 2]);
    assert_eq!(failures(&platform), ["stays dead: it died too often"]);
}
