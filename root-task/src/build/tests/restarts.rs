//! Components that die and are restarted.

use super::*;
use capdl_spec::{RestartPolicy, TeardownAck};
use report::FaultKind;

/// Address of the first component's own memory, and its number among the objects.
const DATA_VADDR: u64 = 0x50_0000;
/// Address at which the second one has the first one's liveness page.
const LIVENESS_VADDR: u64 = 0x3_0000;

/// A system whose first component has data of its own, a liveness page that the second one watches, and may die twice.
pub(super) fn restartable() -> Specification {
    let mut specification = system();
    let data = specification.objects.len() as u32;
    let fill = Some(Fill { offset: 0, len: 100, skip: 8 });
    specification.objects.push(Object { fill, ..object("data", ObjectKind::SmallFrame, 1) });
    specification.objects.push(object("liveness", ObjectKind::SmallFrame, 1));
    specification.mappings.push(Mapping { writable: true, ..mapping(VSPACE, data, DATA_VADDR) });
    specification.mappings.push(mapping(SECOND + VSPACE, data + 1, LIVENESS_VADDR));
    specification.components[1].tick = Some(CONSOLE_EVENT);
    let first = &mut specification.components[0];
    first.liveness = Some(data + 1);
    first.restart = Some(RestartPolicy { times: 2, within_ms: 1000 });
    specification
}

pub(super) const fn dies(component: u16) -> Happens {
    Happens::Dies(component)
}

pub(super) fn reported<T>(platform: &TestPlatform, pick: impl Fn(&Report) -> Option<T>) -> Vec<T> {
    platform.reports.borrow().iter().filter_map(pick).collect()
}

pub(super) fn restarts(platform: &TestPlatform) -> Vec<u16> {
    reported(platform, |report| match report {
        Report::Restart(restart) => Some(restart.times),
        _ => None,
    })
}

#[test]
fn a_component_that_dies_is_made_as_it_was_and_started_again() {
    let booted = boot_system(&restartable(), &[23]);
    let platform = booted.platform.clone();
    let (before, contents) = (platform.cspace(1), platform.page(1, DATA_VADDR));
    // Before it dies it fills a cptr that was free, deletes a capability of its own, and writes memory.
    let first = platform.component(1);
    first.cnode_copy(own_cptr(40), own_cptr(8), Rights::ALL).unwrap();
    first.cnode_delete(own_cptr(14)).unwrap();
    platform.write(1, DATA_VADDR, &[0xaa; 4096]);
    first.kernel().borrow_mut().set_instruction_pointer(first.thread(), 7);
    let platform = booted.supervise([dies(1)]);
    assert_eq!((failures(&platform).len(), restarts(&platform)), (0, vec![1]));
    assert_eq!((platform.cspace(1), platform.page(1, DATA_VADDR)), (before, contents));
    let kernel = first.kernel().borrow();
    assert!(kernel.is_runnable(first.thread()));
    assert_eq!((kernel.registers(first.thread()).instruction_pointer, kernel.starts(first.thread())), (0x20_0000, 2));
    // At the death and at the new start, which the second one learns together.
    assert_eq!(*platform.signalled.borrow(), [(2, Badge::SIGNAL | Badge::TICK)]);
}

#[test]
fn peers_see_each_death_and_each_new_incarnation() {
    let booted = boot_system(&restartable(), &[23]);
    assert_eq!(
        (incarnation(&booted.platform), booted.platform.frame(2, LIVENESS_VADDR).1),
        (0, false),
        "its first incarnation"
    );
    // Two new incarnations and a death for good.
    assert_eq!(incarnation(&booted.supervise([dies(1), dies(1), dies(1)])), 5);
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
        booted.platform.calls(2);
        let platform = booted.supervise(vec![dies(1); deaths]);
        let first = platform.became_of_call(2);
        platform.calls(2);
        (platform.cspace(2), first, platform.became_of_call(2))
    };
    let (before, waits, _) = after(0);
    assert_eq!(waits, None);
    assert_eq!(after(2), (before.clone(), Some(Delivery::Restart), None), "who waits asks the next one");
    let (left, first, again) = after(3);
    assert_eq!((before.len(), first), (left.len() + 1, Some(Delivery::Restart)));
    assert!(left.iter().all(|(cptr, cap)| before.get(cptr) == Some(cap)));
    let Some(Delivery::Reply(reply)) = again else { panic!("the kernel answers: {again:?}") };
    assert_eq!(reply.label, Message::NO_CAPABILITY);
}

#[test]
fn restarted_component_cannot_call_the_dead() {
    let mut specification = restartable();
    specification.components[1].restart = Some(RestartPolicy { times: 1, within_ms: 1000 });
    let booted = boot_system(&specification, &[23]);
    let before = booted.platform.cspace(2).len();
    let platform = booted.supervise([dies(1), dies(1), dies(1), dies(2)]);
    assert_eq!((restarts(&platform), platform.cspace(2).len()), (vec![1, 2, 1], before - 1));
}

#[test]
fn a_driver_waits_until_its_device_is_silent() {
    let mut specification = restartable();
    specification.components[0].driver = Some(3);
    let silent = |driver| Happens::Signal(Badge::silenced(driver));
    let waiting = boot_system(&specification, &[23]).supervise([dies(1), silent(2)]);
    assert!(restarts(&waiting).is_empty() && failures(&waiting).is_empty());
    let started = boot_system(&specification, &[23]).supervise([silent(3), dies(1), silent(3), silent(3)]);
    assert_eq!(restarts(&started), [1]);
}

/// A system whose second component silences the device that the first one drives.
pub(super) fn driven() -> Specification {
    let mut specification = restartable();
    let event = specification.objects.len() as u32;
    specification.objects.push(object("root-task.event", ObjectKind::Notification, 1));
    specification.caps.push(run(SECOND + CNODE, 10, event, Badge::silenced(3)));
    specification.components[0].driver = Some(3);
    specification.components[0].ends_with = Some(2);
    specification.components[1].restart = Some(RestartPolicy { times: 2, within_ms: 1000 });
    specification
}

pub(super) const DRIVER: u16 = 1;
const PCI_SERVER: u16 = 2;

pub(super) fn silent() -> Happens {
    Happens::Signal(Badge::silenced(3))
}

pub(super) fn started(platform: &TestPlatform) -> Vec<(alloc::string::String, u16)> {
    reported(platform, |report| match report {
        Report::Restart(restart) => Some((restart.name.to_string(), restart.times)),
        _ => None,
    })
}

pub(super) fn ended(platform: &TestPlatform) -> Vec<(u16, bool)> {
    reported(platform, |report| match report {
        Report::Fault(fault) => Some((fault.component, fault.kind == FaultKind::ServerDied)),
        _ => None,
    })
}

/// The first component's liveness page, as the second one sees it.
fn incarnation(platform: &TestPlatform) -> u32 {
    u32::from_le_bytes(*platform.page(2, LIVENESS_VADDR).first_chunk().unwrap())
}

#[test]
fn drivers_end_with_the_pci_server_and_restart_after_it() {
    let booted = boot_system(&driven(), &[23]);
    let driver_holds = booted.platform.cspace(DRIVER);
    let platform = booted.supervise([dies(PCI_SERVER)]);
    assert_eq!(ended(&platform), [(2, false), (1, true)]);
    assert_eq!(started(&platform), [("component-2".into(), 1)]);
    assert_eq!(incarnation(&platform), 1, "the new PCI server sees that its driver is dead");
    assert_eq!(platform.cspace(DRIVER), driver_holds, "until its device is silent");
    assert_eq!(platform.state(DRIVER), Some(ThreadState::Inactive));
    assert_ne!(platform.state(PCI_SERVER), Some(ThreadState::Inactive));

    let platform = boot_system(&driven(), &[23]).supervise([dies(PCI_SERVER), silent(), silent()]);
    assert_eq!(started(&platform), [("component-2".into(), 1), ("component-1".into(), 1)]);
    assert_eq!((failures(&platform).len(), incarnation(&platform)), (0, 2));
}

#[test]
fn driver_that_ends_with_its_pci_server_has_no_fault() {
    let mut specification = driven();
    specification.components[0].restart = Some(RestartPolicy { times: 1, within_ms: 1000 });
    let events = [dies(PCI_SERVER), silent(), dies(PCI_SERVER), silent(), dies(DRIVER), silent(), dies(DRIVER)];
    let platform = boot_system(&specification, &[23]).supervise(events);
    let of_driver = started(&platform).into_iter().filter(|(name, _)| name == "component-1");
    assert_eq!(of_driver.map(|(_, times)| times).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(failures(&platform), ["stays dead: it died too often"]);
}

#[test]
fn pci_server_may_die_twice_while_its_driver_waits() {
    let events = [dies(DRIVER), dies(PCI_SERVER), dies(PCI_SERVER), silent()];
    let platform = boot_system(&driven(), &[23]).supervise(events);
    assert_eq!(ended(&platform), [(1, false), (2, false), (2, false)], "the dead die no more");
    let names: Vec<_> = started(&platform).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["component-2", "component-2", "component-1"]);
}

#[test]
fn dead_pci_server_revokes_all_and_drivers_stay_dead() {
    let booted = boot_system(&driven(), &[23]);
    let happens = [dies(PCI_SERVER), silent(), dies(PCI_SERVER), silent(), dies(PCI_SERVER), silent(), dies(DRIVER)];
    let platform = booted.supervise(happens);
    let named = reported(&platform, |report| match report {
        Report::Failure { component, reason } => Some(alloc::format!("{component} {reason}")),
        _ => None,
    });
    let [pci_servers, drivers] = named.as_slice() else { panic!("{named:?}") };
    assert_eq!(pci_servers, "component-2 stays dead: it died too often");
    assert_eq!(drivers, "component-1 stays dead: a server that it needs stays dead");
    assert_eq!(started(&platform).len(), 4);
    assert!(platform.cspace(PCI_SERVER).is_empty());
    assert!(!platform.cspace(DRIVER).is_empty(), "for whoever looks");
}

/// A system whose second component is an IOMMU server, and whose first one is a PCI server that needs it.
fn served_by_an_iommu_server() -> Specification {
    let mut specification = restartable();
    specification.components[0].ends_with = Some(2);
    specification.components[1].restart = Some(RestartPolicy { times: 2, within_ms: 1000 });
    specification
}

#[test]
fn pci_server_restarts_right_after_its_iommu_server() {
    let platform = boot_system(&served_by_an_iommu_server(), &[23]).supervise([dies(2)]);
    assert_eq!(ended(&platform), [(2, false), (1, true)]);
    assert_eq!(started(&platform), [("component-2".into(), 1), ("component-1".into(), 1)]);
    assert!(failures(&platform).is_empty());
}

#[test]
fn pci_server_without_iommu_server_silences_devices() {
    let platform = boot_system(&served_by_an_iommu_server(), &[23]).supervise([dies(2), dies(2), dies(2)]);
    assert_eq!(failures(&platform), ["stays dead: it died too often"]);
    let names: Vec<_> = started(&platform).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["component-2", "component-1", "component-2", "component-1", "component-1"]);
}

#[test]
fn components_that_name_each_other_end_once() {
    let mut specification = driven();
    // Even if they name each other, no component ends twice.
    specification.components[1].ends_with = Some(1);
    let platform = boot_system(&specification, &[23]).supervise([dies(PCI_SERVER), silent()]);
    assert_eq!(ended(&platform), [(2, false), (1, true)]);
}

#[test]
fn blocked_transactions_are_reported_before_reinstantiation() {
    let mut specification = restartable();
    let page = specification.objects.len() as u32;
    specification.objects.push(object("blocked", ObjectKind::SmallFrame, 1));
    specification.mappings.push(Mapping { writable: true, ..mapping(VSPACE, page, SHARED_VADDR) });
    specification.components[0].blocked = Some(page);
    let booted = boot_system(&specification, &[23]);
    booted.platform.write(1, SHARED_VADDR, &[1]);
    let record = [0x08, 1, 3, 0, 7, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0];
    booted.platform.write(1, SHARED_VADDR + 64, &record);
    let platform = booted.supervise([dies(1), dies(1)]);
    let blocked = reported(&platform, |report| match report {
        Report::Blocked(blocked) => Some(*blocked),
        _ => None,
    });
    let only = report::Blocked { requester_id: 0x0108, address: Some(0x5000), is_write: true, times: 7 };
    assert_eq!(blocked, [only]);
}

#[test]
fn driver_without_restarts_stays_dead_with_its_pci_server() {
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
    booted.platform.write(1, DATA_VADDR, &[0xaa; 4096]);
    assert_eq!(booted.supervise([dies(1)]).page(1, DATA_VADDR), [0xaa; 4096]);
}

/// A system whose first component is a client. The second one, its server, holds its window and acknowledges the teardown of
/// its session.
fn served() -> Specification {
    let mut specification = restartable();
    let page = specification.objects.len() as u32;
    let data = specification.objects.iter().position(|object| object.name == "data").unwrap() as u32;
    specification.objects.push(object("teardown-acks", ObjectKind::SmallFrame, 1));
    specification.mappings.push(Mapping { writable: true, ..mapping(SECOND + VSPACE, page, SHARED_VADDR) });
    specification.caps.push(run(SECOND + CNODE, 11, data, 0));
    specification.components[0].teardown_ack = Some(TeardownAck { page, session: 2 });
    specification
}

const SHARED_VADDR: u64 = 0x3_1000;

fn torn_down() -> Happens {
    Happens::Signal(Badge::SIGNAL | Badge::TORN_DOWN)
}

/// Boots the client's system with a server that has acknowledged the teardown after this death of its third client.
fn served_and_configured(specification: &Specification, death: u32) -> Booted {
    let booted = boot_system(specification, &[23]);
    booted.platform.write(2, SHARED_VADDR + 8, &death.to_le_bytes());
    booted
}

#[test]
fn client_restart_waits_for_the_teardown_acknowledgement() {
    let silent = served_and_configured(&served(), 0).supervise([dies(1), torn_down()]);
    assert!(restarts(&silent).is_empty() && failures(&silent).is_empty(), "whoever signalled");
    let unheard = served_and_configured(&served(), 1).supervise([dies(1)]);
    assert!(restarts(&unheard).is_empty());
    let reported = served_and_configured(&served(), 1).supervise([dies(1), torn_down(), torn_down()]);
    assert_eq!(restarts(&reported), [1]);
    assert_eq!(
        restarts(&served_and_configured(&served(), 1).supervise([dies(1), TICK])),
        [1],
        "a signal that was lost"
    );
}

#[test]
fn acknowledgement_of_one_death_is_none_of_the_next() {
    let platform =
        served_and_configured(&served(), 1).supervise([dies(1), torn_down(), dies(1), torn_down(), torn_down()]);
    assert_eq!(restarts(&platform), [1]);
    let early = served_and_configured(&served(), 3).supervise([dies(1), torn_down()]);
    assert!(restarts(&early).is_empty(), "a lie about a death to come");
}

#[test]
fn window_is_recreated_after_its_session_is_over() {
    let after = |death: u32| {
        let booted = served_and_configured(&served(), death);
        let before = booted.platform.page(1, DATA_VADDR);
        booted.platform.write(1, DATA_VADDR, &[0xaa; 4096]);
        booted.supervise([dies(1), torn_down()]).page(1, DATA_VADDR) == before
    };
    assert_eq!([0, 1].map(after), [false, true]);
}

#[test]
fn a_client_whose_server_stays_dead_stays_dead_too() {
    let platform = served_and_configured(&served(), 0).supervise([dies(1), dies(2), TICK, torn_down(), TICK]);
    assert!(restarts(&platform).is_empty());
    assert_eq!(failures(&platform), ["stays dead: nobody can end its session"]);
}

#[test]
fn client_without_teardown_acknowledgement_stays_dead() {
    let late = |seconds: usize| {
        let ticks = core::iter::repeat_n(TICK, seconds * 20);
        let platform = served_and_configured(&served(), 0).supervise(core::iter::once(dies(1)).chain(ticks));
        assert!(restarts(&platform).is_empty());
        failures(&platform)
    };
    assert!(late(180).is_empty());
    assert_eq!(late(181), ["stays dead: its session was not ended in time"]);
}

/// A system whose first component is a client with a function of its own. The second one stands for both servers: it silences
/// the function and acknowledges the teardown.
fn with_function() -> Specification {
    let mut specification = served();
    specification.components[0].driver = Some(3);
    specification
}

/// The server acknowledges the teardown after this death of its third client. The signal is one of its own.
const fn acknowledges(death: u32) -> Happens {
    Happens::Writes { component: 2, vaddr: SHARED_VADDR + 8, word: death }
}

#[test]
fn function_client_restarts_after_silence_and_acknowledgement_in_either_order() {
    let after = |happens: &[Happens]| {
        let happens = core::iter::once(dies(1)).chain(happens.iter().cloned());
        let platform = boot_system(&with_function(), &[23]).supervise(happens);
        assert!(failures(&platform).is_empty());
        restarts(&platform).len()
    };
    // Neither alone is enough, however often it is reported.
    assert_eq!(after(&[silent(), silent(), torn_down(), TICK]), 0);
    assert_eq!(after(&[acknowledges(1), torn_down(), torn_down(), TICK]), 0);
    assert_eq!(
        after(&[Happens::Signal(Badge::silenced(2)), acknowledges(1), torn_down(), TICK]),
        0,
        "another's device"
    );
    assert_eq!(after(&[silent(), acknowledges(2), torn_down(), TICK]), 0, "no death has this number");
    // Both are, and it is restarted once.
    assert_eq!(after(&[silent(), acknowledges(1), torn_down(), silent(), torn_down(), TICK]), 1);
    assert_eq!(after(&[acknowledges(1), torn_down(), silent(), torn_down(), silent(), TICK]), 1);
    // The signal of the acknowledgement was lost, or comes last.
    assert_eq!(after(&[silent(), acknowledges(1), TICK]), 1);
    assert_eq!(after(&[acknowledges(1), silent(), torn_down()]), 1);
}

#[test]
fn silence_and_acknowledgement_of_one_death_are_none_of_the_next() {
    let first = [dies(1), silent(), acknowledges(1), torn_down(), dies(1)];
    let after = |happens: &[Happens]| {
        let happens = first.iter().chain(happens).cloned();
        restarts(&boot_system(&with_function(), &[23]).supervise(happens))
    };
    assert_eq!(after(&[torn_down(), TICK]), [1]);
    assert_eq!(after(&[silent(), torn_down(), TICK]), [1]);
    assert_eq!(after(&[acknowledges(3), torn_down(), TICK]), [1]);
    assert_eq!(after(&[silent(), acknowledges(3), torn_down()]), [1, 2]);
    assert_eq!(after(&[acknowledges(3), torn_down(), silent()]), [1, 2]);
}

#[test]
fn window_of_a_function_client_is_recreated_after_both() {
    let is_recreated = |happens: &[Happens]| {
        let booted = boot_system(&with_function(), &[23]);
        let before = booted.platform.page(1, DATA_VADDR);
        booted.platform.write(1, DATA_VADDR, &[0xaa; 4096]);
        let happens = core::iter::once(dies(1)).chain(happens.iter().cloned());
        booted.supervise(happens).page(1, DATA_VADDR) == before
    };
    assert!(!is_recreated(&[silent(), TICK]));
    assert!(!is_recreated(&[acknowledges(1), torn_down(), TICK]));
    assert!(is_recreated(&[silent(), acknowledges(1), torn_down()]));
}
