//! Components that die and are started again.

use super::*;
use crate::testing::Q35_HZ;
use capdl_spec::{Burial, Kill, RestartPolicy};
use report::FaultKind;

/// Where the first component has memory of its own, and its number among the objects.
const DATA_VADDR: u64 = 0x50_0000;

/// The first component has data of its own, a page of lives that the second one watches, and may die twice.
fn restartable() -> Specification {
    let mut specification = system();
    let data = specification.objects.len() as u32;
    let fill = Some(Fill { offset: 0, len: 100, skip: 8 });
    specification.objects.push(Object { fill, ..object("data", ObjectKind::SmallFrame, 1) });
    specification.objects.push(object("life", ObjectKind::SmallFrame, 1));
    specification.mappings.push(Mapping { writable: true, ..mapping(VSPACE, data, DATA_VADDR) });
    specification.mappings.push(mapping(SECOND + VSPACE, data + 1, 0x3_0000));
    specification.components[1].tick = Some(CONSOLE_EVENT);
    let first = &mut specification.components[0];
    first.life = Some(data + 1);
    first.restart = Some(RestartPolicy { times: 2, within_ms: 1000 });
    specification
}

/// The component is stopped once, so many microseconds after the start.
fn kill(component: u16, after_us: u64) -> Kill {
    Kill { component, after_us, times: 1, every_us: 0, spread_us: 0 }
}

fn dies(component: u64) -> Event {
    Event::Message(Badge(component), Message::from_words(1, &[0xdead, 0x20_0004]))
}

fn reported<T>(platform: &FakePlatform, pick: impl Fn(&Report) -> Option<T>) -> Vec<T> {
    platform.reports.borrow().iter().filter_map(pick).collect()
}

fn restarts(platform: &FakePlatform) -> Vec<u16> {
    reported(platform, |report| match report {
        Report::Restart(restart) => Some(restart.times),
        _ => None,
    })
}

fn failures(platform: &FakePlatform) -> Vec<alloc::string::String> {
    reported(platform, |report| match report {
        Report::Failure { reason, .. } => Some(reason.to_string()),
        _ => None,
    })
}

#[test]
fn a_component_that_dies_is_made_as_it_was_and_started_again() {
    let booted = boot_system(&restartable(), &[23]);
    let [second, first] = booted.threads()[..] else { panic!("two threads") };
    let kernel = booted.platform.kernel.clone();
    let (cspace, vspace) = (booted.told(first).cspace, booted.told(first).vspace);
    let before = kernel.cspace(cspace);
    let (data, _) = kernel.0.borrow().frames[&(vspace, DATA_VADDR)];
    let contents = kernel.contents(data);
    {
        // What it did in its life: something in a slot that was free, something of its own thrown away, memory written.
        let mut state = kernel.0.borrow_mut();
        let stray = state.slots[&(cspace, 8)].clone();
        state.slots.insert((cspace, 40), stray);
        state.slots.remove(&(cspace, 14));
        state.contents.get_mut(&data).unwrap().fill(0xaa);
        state.threads.get_mut(&first).unwrap().context.instruction_pointer = 7;
    }
    let platform = booted.supervise([dies(1)]);
    assert_eq!((failures(&platform).len(), restarts(&platform)), (0, vec![1]));
    assert_eq!(kernel.cspace(cspace), before);
    assert_eq!(kernel.contents(data), contents);
    let state = kernel.0.borrow();
    assert_eq!(state.threads[&first].context.instruction_pointer, 0x20_0000);
    // The second one, which calls it, is stopped for a moment, so that it asks again; and ticked at the death and after.
    assert_eq!(state.suspended, [first, second]);
    assert_eq!(state.resumed, [second, first, first, second]);
    assert_eq!(state.signalled.len(), 2);
}

#[test]
fn peers_see_each_death_and_each_new_life() {
    let booted = boot_system(&restartable(), &[23]);
    let kernel = booted.platform.kernel.clone();
    let [second, _] = booted.threads()[..] else { panic!("two threads") };
    let vspace = booted.told(second).vspace;
    let (page, writable) = kernel.0.borrow().frames[&(vspace, 0x3_0000)];
    assert!(!writable);
    let life = || u32::from_le_bytes(*kernel.contents(page).first_chunk().unwrap());
    assert_eq!(life(), 0, "it lives for the first time");
    booted.supervise([dies(1), dies(1), dies(1)]);
    // Two new lives and a death for good.
    assert_eq!(life(), 5);
}

#[test]
fn the_page_of_lives_says_when_the_system_began_whatever_dies_later() {
    let booted = boot_system(&restartable(), &[23]);
    let kernel = booted.platform.kernel.clone();
    let [second, _] = booted.threads()[..] else { panic!("two threads") };
    let (page, _) = kernel.0.borrow().frames[&(booted.told(second).vspace, 0x3_0000)];
    let began = || u64::from_le_bytes(*kernel.contents(page)[8..].first_chunk().unwrap());
    let first = began();
    assert_eq!(first, booted.platform.ticks());
    booted.supervise([dies(1), dies(1)]);
    assert_eq!(began(), first);
}

#[test]
fn a_component_that_keeps_dying_is_stopped_and_named() {
    let platform = boot_system(&restartable(), &[23]).supervise([dies(1), dies(1), dies(1), dies(1)]);
    assert_eq!(restarts(&platform), [1, 2]);
    assert_eq!(failures(&platform), ["stays dead: it died too often"]);
    let faults = reported(&platform, |report| matches!(report, Report::Fault(_)).then_some(()));
    assert_eq!(faults.len(), 3, "the dead die no more");
}

#[test]
fn nobody_calls_or_waits_for_a_component_that_stays_dead() {
    let after = |deaths: usize| {
        let booted = boot_system(&restartable(), &[23]);
        let [second, _] = booted.threads()[..] else { panic!("two threads") };
        let (kernel, cspace) = (booted.platform.kernel.clone(), booted.told(second).cspace);
        booted.supervise(vec![dies(1); deaths]);
        let state = kernel.0.borrow();
        let resumed = state.resumed.iter().filter(|thread| **thread == second).count();
        (kernel.cspace(cspace), resumed)
    };
    let (before, started) = after(0);
    assert_eq!(after(2), (before.clone(), started + 2), "who waits asks the next one");
    let (left, told) = after(3);
    assert_eq!((before.len(), told), (left.len() + 1, started + 3));
    assert!(left.iter().all(|(slot, held)| before.get(slot) == Some(held)));
}

#[test]
fn who_is_started_again_is_given_no_right_to_call_those_who_stay_dead() {
    let mut specification = restartable();
    specification.components[1].restart = Some(RestartPolicy { times: 1, within_ms: 1000 });
    let booted = boot_system(&specification, &[23]);
    let [second, _] = booted.threads()[..] else { panic!("two threads") };
    let (kernel, cspace) = (booted.platform.kernel.clone(), booted.told(second).cspace);
    let before = kernel.cspace(cspace).len();
    let platform = booted.supervise([dies(1), dies(1), dies(1), dies(2)]);
    assert_eq!((restarts(&platform), kernel.cspace(cspace).len()), (vec![1, 2, 1], before - 1));
}

#[test]
fn who_is_dead_when_its_time_comes_is_killed_in_its_next_life() {
    let mut specification = restartable();
    specification.components[0].driver = Some(3);
    specification.kills = vec![kill(1, 0)];
    let tick = || Event::Signal(Badge(Badge::SIGNAL | Badge::TICK));
    let silent = || Event::Signal(Badge(Badge::silenced(3)));
    let waiting = boot_system(&specification, &[23]).supervise([dies(1), tick()]);
    // The next tick, and no alarm, which would go off again and again until it lives.
    assert_eq!(waiting.hpet.armed(), 2 * Q35_HZ / 20);
    let platform = boot_system(&specification, &[23]).supervise([dies(1), tick(), silent(), tick(), silent()]);
    assert_eq!(restarts(&platform), [1, 2]);
}

#[test]
fn a_driver_waits_until_its_device_is_silent() {
    let mut specification = restartable();
    specification.components[0].driver = Some(3);
    let silent = |driver| Event::Signal(Badge(Badge::silenced(driver)));
    let waiting = boot_system(&specification, &[23]).supervise([dies(1), silent(2)]);
    assert!(restarts(&waiting).is_empty() && failures(&waiting).is_empty());
    let started = boot_system(&specification, &[23]).supervise([silent(3), dies(1), silent(3), silent(3)]);
    assert_eq!(restarts(&started), [1]);
}

#[test]
fn whom_the_scenario_wants_dead_is_stopped_when_its_time_has_come() {
    let mut specification = restartable();
    specification.kills = vec![kill(1, 0), kill(2, 1_000_000_000)];
    let tick = Event::Signal(Badge(Badge::SIGNAL | Badge::TICK));
    let platform = boot_system(&specification, &[23]).supervise([tick.clone(), tick]);
    let killed = reported(&platform, |report| match report {
        Report::Fault(fault) => Some((fault.component, fault.kind)),
        _ => None,
    });
    assert_eq!((killed, restarts(&platform)), (vec![(1, FaultKind::Killed)], vec![1]));
}

/// The second component is what silences the device that the first one drives.
fn driven() -> Specification {
    let mut specification = restartable();
    let event = specification.objects.len() as u32;
    specification.objects.push(object("root-task.event", ObjectKind::Notification, 1));
    specification.caps.push(run(SECOND + CNODE, 10, event, Badge::silenced(3)));
    specification.components[0].driver = Some(3);
    specification.components[0].ends_with = Some(2);
    specification.components[1].restart = Some(RestartPolicy { times: 2, within_ms: 1000 });
    specification
}

const DRIVER: u64 = 1;
const PCI_SERVER: u64 = 2;

fn silent() -> Event {
    Event::Signal(Badge(Badge::silenced(3)))
}

fn started(platform: &FakePlatform) -> Vec<(alloc::string::String, u16)> {
    reported(platform, |report| match report {
        Report::Restart(restart) => Some((restart.name.to_string(), restart.times)),
        _ => None,
    })
}

fn ended(platform: &FakePlatform) -> Vec<(u16, bool)> {
    reported(platform, |report| match report {
        Report::Fault(fault) => Some((fault.component, fault.kind == FaultKind::ServerDied)),
        _ => None,
    })
}

/// What the driver's page of lives says.
fn lives(platform: &FakePlatform, pci_server: usize) -> u32 {
    let state = platform.kernel.0.borrow();
    let (page, _) = state.frames[&(state.threads[&pci_server].vspace, 0x3_0000)];
    drop(state);
    u32::from_le_bytes(*platform.kernel.contents(page).first_chunk().unwrap())
}

#[test]
fn the_pci_servers_drivers_end_with_it_and_are_started_after_it_when_it_says_so() {
    let booted = boot_system(&driven(), &[23]);
    let [pci_server, driver] = booted.threads()[..] else { panic!("two threads") };
    let kernel = booted.platform.kernel.clone();
    let driver_holds = kernel.cspace(booted.told(driver).cspace);
    let platform = booted.supervise([dies(PCI_SERVER)]);
    assert_eq!(ended(&platform), [(2, false), (1, true)]);
    assert_eq!(started(&platform), [("component-2".into(), 1)]);
    assert_eq!(lives(&platform, pci_server), 1, "the new PCI server sees that its driver is dead");
    assert_eq!(kernel.cspace(kernel.0.borrow().threads[&driver].cspace), driver_holds, "until its device is silent");
    {
        let state = kernel.0.borrow();
        assert_eq!((&state.suspended, &state.resumed[2..]), (&vec![pci_server, driver], &[pci_server][..]));
    }

    let platform = boot_system(&driven(), &[23]).supervise([dies(PCI_SERVER), silent(), silent()]);
    assert_eq!(started(&platform), [("component-2".into(), 1), ("component-1".into(), 1)]);
    assert_eq!((failures(&platform).len(), lives(&platform, pci_server)), (0, 2));
}

#[test]
fn a_driver_that_ends_with_its_pci_server_has_no_fault_of_its_own() {
    let mut specification = driven();
    specification.components[0].restart = Some(RestartPolicy { times: 1, within_ms: 1000 });
    let events = [dies(PCI_SERVER), silent(), dies(PCI_SERVER), silent(), dies(DRIVER), silent(), dies(DRIVER)];
    let platform = boot_system(&specification, &[23]).supervise(events);
    let of_driver = started(&platform).into_iter().filter(|(name, _)| name == "component-1");
    assert_eq!(of_driver.map(|(_, times)| times).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(failures(&platform), ["stays dead: it died too often"]);
}

#[test]
fn a_pci_server_may_die_while_its_driver_waits_and_again_before_it_says_anything() {
    let events = [dies(DRIVER), dies(PCI_SERVER), dies(PCI_SERVER), silent()];
    let platform = boot_system(&driven(), &[23]).supervise(events);
    assert_eq!(ended(&platform), [(1, false), (2, false), (2, false)], "the dead die no more");
    let names: Vec<_> = started(&platform).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["component-2", "component-2", "component-1"]);
}

#[test]
fn a_pci_server_that_stays_dead_takes_back_what_it_gave_and_its_drivers_stay_dead_too() {
    let booted = boot_system(&driven(), &[23]);
    let [pci_server, driver] = booted.threads()[..] else { panic!("two threads") };
    let events = [dies(PCI_SERVER), silent(), dies(PCI_SERVER), silent(), dies(PCI_SERVER), silent(), dies(DRIVER)];
    let platform = booted.supervise(events);
    let named = reported(&platform, |report| match report {
        Report::Failure { component, reason } => Some(alloc::format!("{component} {reason}")),
        _ => None,
    });
    let [pci_servers, drivers] = named.as_slice() else { panic!("{named:?}") };
    assert_eq!(pci_servers, "component-2 stays dead: it died too often");
    assert_eq!(drivers, "component-1 stays dead: a server that it needs stays dead");
    assert_eq!(started(&platform).len(), 4);
    let state = platform.kernel.0.borrow();
    let (of_pci_server, of_driver) = (state.threads[&pci_server].cspace, state.threads[&driver].cspace);
    drop(state);
    assert!(platform.kernel.cspace(of_pci_server).is_empty());
    assert!(!platform.kernel.cspace(of_driver).is_empty(), "for whoever looks");
}

/// The second component is an IOMMU server, the first one a PCI server that needs it.
fn served_by_an_iommu_server() -> Specification {
    let mut specification = restartable();
    specification.components[0].ends_with = Some(2);
    specification.components[1].restart = Some(RestartPolicy { times: 2, within_ms: 1000 });
    specification
}

#[test]
fn a_pci_server_ends_with_its_iommu_server_and_is_started_right_after_it() {
    let platform = boot_system(&served_by_an_iommu_server(), &[23]).supervise([dies(2)]);
    assert_eq!(ended(&platform), [(2, false), (1, true)]);
    assert_eq!(started(&platform), [("component-2".into(), 1), ("component-1".into(), 1)]);
    assert!(failures(&platform).is_empty());
}

#[test]
fn a_pci_server_without_its_iommu_server_is_started_to_silence_devices() {
    let platform = boot_system(&served_by_an_iommu_server(), &[23]).supervise([dies(2), dies(2), dies(2)]);
    assert_eq!(failures(&platform), ["stays dead: it died too often"]);
    let names: Vec<_> = started(&platform).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["component-2", "component-1", "component-2", "component-1", "component-1"]);
}

#[test]
fn components_that_name_each_other_end_once() {
    let mut specification = driven();
    // Even if they name each other, nobody ends twice.
    specification.components[1].ends_with = Some(1);
    let platform = boot_system(&specification, &[23]).supervise([dies(PCI_SERVER), silent()]);
    assert_eq!(ended(&platform), [(2, false), (1, true)]);
}

#[test]
fn transactions_that_were_blocked_are_reported_before_the_page_is_made_anew() {
    let mut specification = restartable();
    let page = specification.objects.len() as u32;
    specification.objects.push(object("blocked", ObjectKind::SmallFrame, 1));
    specification.mappings.push(Mapping { writable: true, ..mapping(VSPACE, page, SHARED_VADDR) });
    specification.components[0].blocked = Some(page);
    let booted = boot_system(&specification, &[23]);
    let [_, first] = booted.threads()[..] else { panic!("two threads") };
    let vspace = booted.told(first).vspace;
    let (page, _) = booted.platform.kernel.0.borrow().frames[&(vspace, SHARED_VADDR)];
    let mut contents = vec![0; 4096];
    contents[0] = 1;
    contents[64..80].copy_from_slice(&[0x08, 1, 3, 0, 7, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0]);
    booted.platform.kernel.0.borrow_mut().contents.insert(page, contents);
    let platform = booted.supervise([dies(1), dies(1)]);
    let blocked = reported(&platform, |report| match report {
        Report::Blocked(blocked) => Some(*blocked),
        _ => None,
    });
    let only = report::Blocked { requester_id: 0x0108, address: Some(0x5000), is_write: true, times: 7 };
    assert_eq!(blocked, [only]);
}

#[test]
fn a_driver_that_is_never_started_again_is_not_with_its_pci_server_either() {
    let mut specification = driven();
    specification.components[0].restart = Some(RestartPolicy { times: 0, within_ms: 1000 });
    let platform = boot_system(&specification, &[23]).supervise([dies(PCI_SERVER), silent()]);
    assert_eq!(started(&platform), [("component-2".into(), 1)]);
    assert_eq!(failures(&platform), ["stays dead: it is never started again"]);
}

#[test]
fn what_a_component_keeps_is_as_its_predecessor_left_it() {
    let mut specification = restartable();
    let data = specification.objects.iter().position(|object| object.name == "data").unwrap() as u32;
    specification.components[0].keeps = Some(data);
    let booted = boot_system(&specification, &[23]);
    let [_, first] = booted.threads()[..] else { panic!("two threads") };
    let kernel = booted.platform.kernel.clone();
    let (page, _) = kernel.0.borrow().frames[&(booted.told(first).vspace, DATA_VADDR)];
    kernel.0.borrow_mut().contents.get_mut(&page).unwrap().fill(0xaa);
    booted.supervise([dies(1)]);
    assert!(kernel.contents(page).iter().all(|byte| *byte == 0xaa));
}

#[test]
fn a_signal_is_heard_before_the_same_moments_kill() {
    // The driver's device is silent, and in the same moment the PCI server that said so is stopped.
    let mut specification = driven();
    specification.kills = vec![kill(2, 0)];
    let both = Event::Signal(Badge(Badge::silenced(3) | Badge::TICK));
    let platform = boot_system(&specification, &[23]).supervise([dies(DRIVER), both, silent()]);
    assert_eq!(ended(&platform), [(1, false), (2, false), (1, true)]);
    let names: Vec<_> = started(&platform).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["component-1", "component-2", "component-1"]);
}

/// The first component is a client, whose window the second one, its server, holds and of whose session it says when nothing
/// is left.
fn served() -> Specification {
    let mut specification = restartable();
    let page = specification.objects.len() as u32;
    let data = specification.objects.iter().position(|object| object.name == "data").unwrap() as u32;
    specification.objects.push(object("burials", ObjectKind::SmallFrame, 1));
    specification.mappings.push(Mapping { writable: true, ..mapping(SECOND + VSPACE, page, SHARED_VADDR) });
    specification.caps.push(run(SECOND + CNODE, 11, data, 0));
    specification.components[0].burial = Some(Burial { page, session: 2 });
    specification
}

const SHARED_VADDR: u64 = 0x3_1000;

fn buried() -> Event {
    Event::Signal(Badge(Badge::SIGNAL | Badge::BURIED))
}

/// Boots the client's system with a server that has said of this death of its third client that nothing is left.
fn served_and_told(specification: &Specification, death: u32) -> Booted {
    let booted = boot_system(specification, &[23]);
    let [second, _] = booted.threads()[..] else { panic!("two threads") };
    let vspace = booted.told(second).vspace;
    let (page, _) = booted.platform.kernel.0.borrow().frames[&(vspace, SHARED_VADDR)];
    booted.platform.kernel.0.borrow_mut().contents.entry(page).or_insert_with(|| vec![0; 4096])[8..12]
        .copy_from_slice(&death.to_le_bytes());
    booted
}

#[test]
fn a_client_waits_until_its_server_says_that_nothing_is_left_of_its_session() {
    let silent = served_and_told(&served(), 0).supervise([dies(1), buried()]);
    assert!(restarts(&silent).is_empty() && failures(&silent).is_empty(), "whoever signalled");
    let unheard = served_and_told(&served(), 1).supervise([dies(1)]);
    assert!(restarts(&unheard).is_empty());
    let told = served_and_told(&served(), 1).supervise([dies(1), buried(), buried()]);
    assert_eq!(restarts(&told), [1]);
    let tick = Event::Signal(Badge(Badge::SIGNAL | Badge::TICK));
    assert_eq!(restarts(&served_and_told(&served(), 1).supervise([dies(1), tick])), [1], "a signal that was lost");
}

#[test]
fn what_a_server_said_of_one_death_of_a_client_is_nothing_for_the_next() {
    let platform = served_and_told(&served(), 1).supervise([dies(1), buried(), dies(1), buried(), buried()]);
    assert_eq!(restarts(&platform), [1]);
    let early = served_and_told(&served(), 3).supervise([dies(1), buried()]);
    assert!(restarts(&early).is_empty(), "a lie about a death to come");
}

#[test]
fn a_clients_window_is_made_anew_and_not_before_its_session_is_over() {
    let after = |death: u32| {
        let booted = served_and_told(&served(), death);
        let [_, first] = booted.threads()[..] else { panic!("two threads") };
        let (kernel, vspace) = (booted.platform.kernel.clone(), booted.told(first).vspace);
        let (window, _) = kernel.0.borrow().frames[&(vspace, DATA_VADDR)];
        let before = kernel.contents(window);
        kernel.0.borrow_mut().contents.get_mut(&window).unwrap().fill(0xaa);
        booted.supervise([dies(1), buried()]);
        kernel.contents(window) == before
    };
    assert_eq!([0, 1].map(after), [false, true]);
}

#[test]
fn a_client_whose_server_stays_dead_stays_dead_too() {
    let tick = || Event::Signal(Badge(Badge::SIGNAL | Badge::TICK));
    let platform = served_and_told(&served(), 0).supervise([dies(1), dies(2), tick(), buried(), tick()]);
    assert!(restarts(&platform).is_empty());
    assert_eq!(failures(&platform), ["stays dead: nobody can end its session"]);
}

#[test]
fn a_client_whose_server_never_ends_its_session_stays_dead_and_is_named() {
    let late = |seconds: usize| {
        let tick = || Event::Signal(Badge(Badge::SIGNAL | Badge::TICK));
        let ticks = core::iter::repeat_with(tick).take(seconds * 20);
        let platform = served_and_told(&served(), 0).supervise(core::iter::once(dies(1)).chain(ticks));
        assert!(restarts(&platform).is_empty());
        failures(&platform)
    };
    assert!(late(180).is_empty());
    assert_eq!(late(181), ["stays dead: its session was not ended in time"]);
}

#[test]
fn who_is_to_be_killed_several_times_is_killed_in_each_next_life() {
    let mut specification = restartable();
    specification.components[0].restart = Some(RestartPolicy { times: 9, within_ms: 1000 });
    specification.kills = vec![Kill { times: 3, ..kill(1, 0) }];
    let tick = || Event::Signal(Badge(Badge::SIGNAL | Badge::TICK));
    let platform = boot_system(&specification, &[23]).supervise([tick(), tick(), tick(), tick(), tick()]);
    assert_eq!(restarts(&platform), [1, 2, 3]);
    specification.kills[0].every_us = 1_000_000;
    let platform = boot_system(&specification, &[23]).supervise([tick(), tick(), tick()]);
    assert_eq!(restarts(&platform), [1], "its next life has its time");
}
