use super::*;
use crate::testing::{FakeMemory, FakePlatform, FakeServices, IRQ_CONTROL, What, badge_of, machine};
use alloc::rc::Rc;
use alloc::string::ToString;
use capdl_spec::{CapRun, Component, Fill, Mapping, Object, ObjectKind, Role};
use core::pin::pin;
use core::task::{Context, Waker};
use platform::{CapData, Event, Message, ObjectType};

/// Objects of the test system, by position.
const CNODE: u32 = 0;
const VSPACE: u32 = 1;
const TCB: u32 = 2;
const IPC_BUFFER: u32 = 3;
const CODE: u32 = 4;
const EVENT: u32 = 5;
const ENDPOINT: u32 = 6;
const IRQS: u32 = 7;
const IO_TABLES: u32 = 8;
const RING: u32 = 9;
const CONSOLE_EVENT: u32 = 10;
const TABLES: u32 = 11;
/// Of the second component: as the first four.
const SECOND: u32 = 14;

fn object(name: &str, kind: ObjectKind, count: u32) -> Object {
    Object { name: name.into(), kind, count, fill: None }
}

fn mapping(vspace: u32, object: u32, vaddr: u64) -> Mapping {
    Mapping { vspace, object, vaddr, writable: false, executable: false }
}

fn run(cnode: u32, slot: u64, object: u32, badge: u64) -> CapRun {
    CapRun { cnode, slot, object, badge, rights: 3 }
}

fn component(id: u16, first: u32, priority: u8) -> Component {
    Component {
        id,
        name: alloc::format!("component-{id}"),
        role: Role::Client,
        program: "program".into(),
        server: None,
        priority,
        tcb: first + TCB,
        cnode: first + CNODE,
        vspace: first + VSPACE,
        ipc_buffer: first + IPC_BUFFER,
        ipc_buffer_vaddr: 0x40_0000,
        fault_slot: 1,
        bound_notification: (id == 1).then_some(EVENT),
        tick: (id == 1).then_some(EVENT),
        life: None,
        keeps: None,
        restart: None,
        driver: None,
        ends_with: None,
        blocked: None,
        burial: None,
        entry: 0x20_0000,
        stack_pointer: 0x30_0000,
        environment_vaddr: 0x10_0000,
    }
}

/// Two components: a server with interrupts and the console that reads the root task's ring.
fn system() -> Specification {
    let own = |n: u32| {
        [
            object(&alloc::format!("cnode-{n}"), ObjectKind::CNode { size_bits: 6 }, 1),
            object(&alloc::format!("vspace-{n}"), ObjectKind::VSpace, 1),
            object(&alloc::format!("tcb-{n}"), ObjectKind::Tcb, 1),
            object(&alloc::format!("ipc-buffer-{n}"), ObjectKind::SmallFrame, 1),
        ]
    };
    let mut objects = own(1).to_vec();
    objects.extend([
        Object { fill: Some(Fill { offset: 1, len: 5000, skip: 16 }), ..object("code", ObjectKind::SmallFrame, 3) },
        object("event", ObjectKind::Notification, 1),
        object("endpoint", ObjectKind::Endpoint, 1),
        object("irq-control", ObjectKind::IrqControl, 1),
        object("io-tables", ObjectKind::IoPageTable, 4),
        object("root-task.log", ObjectKind::SmallFrame, 5),
        object("console.event", ObjectKind::Notification, 1),
        object("page-tables", ObjectKind::TranslationTable { level: 3 }, 3),
        object("page-directory", ObjectKind::TranslationTable { level: 2 }, 1),
        object("pdpt", ObjectKind::TranslationTable { level: 1 }, 1),
    ]);
    objects.extend(own(2));
    objects.extend([
        object("page-table-2", ObjectKind::TranslationTable { level: 3 }, 1),
        object("page-directory-2", ObjectKind::TranslationTable { level: 2 }, 1),
        object("pdpt-2", ObjectKind::TranslationTable { level: 1 }, 1),
    ]);
    let second_tables = SECOND + 4;
    Specification {
        no_iommu: false,
        arch: capdl_spec::Arch::X86_64,
        name: "test".into(),
        objects,
        // Frames first: the order of levels is the root task's affair.
        mappings: vec![
            Mapping { executable: true, ..mapping(VSPACE, CODE, 0x20_0000) },
            Mapping { writable: true, ..mapping(VSPACE, IPC_BUFFER, 0x40_0000) },
            mapping(VSPACE, TABLES, 0),
            mapping(VSPACE, TABLES + 1, 0),
            mapping(VSPACE, TABLES + 2, 0),
            mapping(SECOND + VSPACE, RING, 0x1_0000),
            mapping(SECOND + VSPACE, CODE, 0x2_0000),
            mapping(SECOND + VSPACE, second_tables, 0),
            mapping(SECOND + VSPACE, second_tables + 1, 0),
            mapping(SECOND + VSPACE, second_tables + 2, 0),
        ],
        caps: vec![
            run(CNODE, 2, CNODE, 0),
            run(CNODE, 8, ENDPOINT, 0),
            run(CNODE, 9, IRQS, 0),
            run(CNODE, 10, IO_TABLES, 0),
            run(CNODE, 14, CODE, 0),
            // Which it calls, and does not receive at.
            CapRun { rights: 6, ..run(SECOND + CNODE, 8, ENDPOINT, 7) },
            run(SECOND + CNODE, 9, CONSOLE_EVENT, 0),
        ],
        kills: vec![],
        components: vec![component(1, 0, 100), component(2, SECOND, 150)],
        report_caps: true,
    }
}

fn data() -> Vec<u8> {
    (0..6000u32).map(|byte| byte as u8).collect()
}

struct Booted {
    platform: FakePlatform,
    services: FakeServices,
    result: Result<Supervisor<FakePlatform, FakeServices>, BuildError>,
}

fn boot_system(specification: &Specification, sizes: &[u8]) -> Booted {
    let (kernel, boot_info) = machine(sizes);
    let platform = FakePlatform { kernel, ..FakePlatform::default() };
    let services = FakeServices::default();
    let payload = FakeMemory::Payload(Rc::new(specification.to_image(&data())));
    let result = boot(platform.clone(), services.clone(), &boot_info, &payload);
    Booted { platform, services, result }
}

fn booted() -> Booted {
    let booted = boot_system(&system(), &[23]);
    assert_eq!(booted.result.as_ref().err(), None);
    booted
}

impl Booted {
    /// Object numbers of the components' threads in the order of their start.
    fn threads(&self) -> Vec<usize> {
        self.platform.kernel.0.borrow().resumed.clone()
    }

    fn told(&self, thread: usize) -> crate::testing::Told {
        self.platform.kernel.0.borrow().threads[&thread].clone()
    }

    /// Gives the supervisor events until none is left.
    fn supervise(self, events: impl IntoIterator<Item = Event>) -> FakePlatform {
        self.platform.events.borrow_mut().extend(events);
        let mut supervising = pin!(self.result.unwrap().run());
        assert!(supervising.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        self.platform
    }
}

#[test]
fn threads_start_by_priority_with_what_they_need() {
    let booted = booted();
    let [second, first] = booted.threads()[..] else { panic!("two threads") };
    let told = booted.told(first);
    assert_eq!((told.priority, told.fault_slot, told.guard_bits), (100, 1, 58));
    assert_eq!(told.context.arguments, [0x10_0000, 1_000_000, 0]);
    assert_eq!((told.context.instruction_pointer, told.context.stack_pointer), (0x20_0000, 0x30_0000));
    assert!(told.bound.is_some());
    assert_eq!(booted.told(second).priority, 150);
    assert_eq!(booted.told(second).bound, None);
}

#[test]
fn cspaces_hold_what_the_specification_says_and_a_fault_endpoint() {
    let booted = booted();
    let [second, first] = booted.threads()[..] else { panic!("two threads") };
    let server = booted.platform.kernel.cspace(booted.told(first).cspace);
    let slots: Vec<u64> = server.keys().copied().collect();
    assert_eq!(slots, [1, 2, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
    assert_eq!((badge_of(&server[&1]), server[&1].rights), (Some(1), Rights::CALL));
    assert_eq!(server[&2].data, Some(CapData::Guard { size: 58, value: 0 }));
    assert_eq!((server[&8].data, server[&8].rights), (None, Rights::READ_WRITE));
    assert_eq!(server[&9].what, What::IrqControl);
    assert_eq!(server[&13].what, What::Object(ObjectType::IoPageTable));
    let console = booted.platform.kernel.cspace(booted.told(second).cspace);
    assert_eq!(badge_of(&console[&8]), Some(7));
    assert_eq!(console[&8].object, server[&8].object);
    assert_eq!(badge_of(&console[&1]), Some(2));
}

#[test]
fn the_right_to_make_interrupt_handlers_is_given_away_after_the_timer_has_its_own() {
    let booted = booted();
    let state = booted.platform.kernel.0.borrow();
    assert!(!state.slots.contains_key(&(0, IRQ_CONTROL)));
    let handlers = state.slots.values().filter(|held| held.what == What::IrqHandler);
    assert_eq!((handlers.count(), state.acked), (1, 1));
}

#[test]
fn frames_hold_their_contents_and_appear_in_every_vspace() {
    let booted = booted();
    let [second, first] = booted.threads()[..] else { panic!("two threads") };
    let (one, two) = (booted.told(first).vspace, booted.told(second).vspace);
    let frame = |vspace, vaddr| booted.platform.kernel.0.borrow().frames.get(&(vspace, vaddr)).copied();
    let (code, writable) = frame(one, 0x20_0000).unwrap();
    assert!(!writable);
    assert_eq!(frame(two, 0x2_0000), Some((code, false)));
    assert_eq!(frame(one, 0x40_0000).map(|mapped| mapped.1), Some(true));
    let (head, tail) = (booted.platform.kernel.contents(code), frame(one, 0x20_1000).unwrap().0);
    assert_eq!((&head[..16], &head[16..20]), (&[0; 16][..], &[1, 2, 3, 4][..]));
    let tail = booted.platform.kernel.contents(tail);
    let end = 5000 - (4096 - 16);
    assert_eq!(tail[..end], data()[1 + 4080..1 + 5000]);
    assert!(tail[end..].iter().all(|byte| *byte == 0));
}

#[test]
fn the_root_task_writes_the_ring_that_the_console_reads() {
    let booted = booted();
    let [second, _] = booted.threads()[..] else { panic!("two threads") };
    let (ring, console) = booted.services.ring.borrow().clone().unwrap();
    let state = booted.platform.kernel.0.borrow();
    let own = state.slots[&(0, 3)].object;
    let (frame, writable) = state.frames[&(own, ring.vaddr.bits() + 4096)];
    assert_eq!((ring.len, writable), (5 * 4096, true));
    drop(state);
    let vspace = booted.told(second).vspace;
    let state = booted.platform.kernel.0.borrow();
    assert_eq!(state.frames[&(vspace, 0x1_1000)], (frame, false));
    let signal = &state.slots[&(0, console)];
    assert_eq!((badge_of(signal), signal.rights), (Some(1 << 63 | 1), Rights::WRITE));
}

#[test]
fn what_was_made_is_reported() {
    let booted = booted();
    let reports = booted.platform.reports.borrow();
    let installed = reports.iter().filter(|report| matches!(report, Report::Installed(_)));
    assert_eq!(installed.count(), 7 + 2, "the runs, and the fault endpoints");
    let machine = reports.iter().find_map(|report| match report {
        Report::Machine(machine) => Some(machine.clone()),
        _ => None,
    });
    let machine = machine.unwrap();
    assert_eq!((machine.memory_bytes, machine.started_at_ns, machine.iommu_levels), (1 << 23, 3_000_000, 3));
    let last: Vec<_> = reports.iter().rev().take(2).collect();
    let [Report::Component(first), Report::Component(second)] = last[..] else { panic!("components come last") };
    assert_eq!((first.component, first.capabilities, first.pages), (1, 11, 4));
    assert_eq!((second.component, second.capabilities, second.pages), (2, 3, 8));
}

#[test]
fn a_slot_that_is_not_as_specified_is_told() {
    let whole = booted();
    let failed = |platform: &FakePlatform| {
        let failure = |report: &Report| match report {
            Report::Failure { reason, .. } => Some(reason.to_string()),
            _ => None,
        };
        platform.reports.borrow().iter().find_map(failure)
    };
    assert_eq!(failed(&whole.platform), None);
    let code = |(cnode, slot): &&(usize, u64)| *cnode != 0 && *slot == 14;
    let place = *whole.platform.kernel.0.borrow().slots.keys().find(code).unwrap();
    let (kernel, boot_info) = machine(&[23]);
    kernel.0.borrow_mut().lossy = Some(place);
    let platform = FakePlatform { kernel, ..FakePlatform::default() };
    let payload = FakeMemory::Payload(Rc::new(system().to_image(&data())));
    boot(platform.clone(), FakeServices::default(), &boot_info, &payload).unwrap();
    let reason = failed(&platform).unwrap();
    assert!(reason.ends_with("slot 14 lacks a capability of the specification"), "{reason}");
}

#[test]
fn a_capability_that_nobody_specified_is_told() {
    let whole = booted();
    let [_, first] = whole.threads()[..] else { panic!("two threads") };
    let place = (whole.told(first).cspace, 40);
    let stray = whole.platform.kernel.0.borrow().slots[&(place.0, 8)].clone();
    let (kernel, boot_info) = machine(&[23]);
    kernel.0.borrow_mut().slots.insert(place, stray);
    let platform = FakePlatform { kernel, ..FakePlatform::default() };
    let payload = FakeMemory::Payload(Rc::new(system().to_image(&data())));
    boot(platform.clone(), FakeServices::default(), &boot_info, &payload).unwrap();
    let reports = platform.reports.borrow();
    let failures: Vec<_> = reports.iter().filter(|report| matches!(report, Report::Failure { .. })).collect();
    let [Report::Failure { reason, .. }] = failures[..] else { panic!("one slot too many") };
    assert_eq!(reason, "component-1: slot 40 holds a capability that is not in the specification");
}

#[test]
fn a_capability_that_stays_where_it_was_received_is_told_once() {
    let tick = || Event::Signal(Badge(Badge::SIGNAL | Badge::TICK));
    let told = |component: usize, ticks: usize| {
        let booted = booted();
        // The second component, which does not hold its own CNode, receives nothing there.
        let thread = booted.threads()[component];
        let cspace = booted.told(thread).cspace;
        let kernel = booted.platform.kernel.clone();
        let sent = kernel.0.borrow().slots[&(cspace, 8)].clone();
        kernel.0.borrow_mut().slots.insert((cspace, capdl_spec::RECEIVE_SLOT), sent);
        let platform = booted.supervise((0..ticks).map(|_| tick()));
        let reports = platform.reports.borrow();
        let failure = |report: &Report| match report {
            Report::Failure { reason, .. } => Some(reason.to_string()),
            _ => None,
        };
        reports.iter().filter_map(failure).collect::<Vec<_>>()
    };
    assert_eq!(told(1, 3), [""; 0], "it may be about to be moved");
    assert_eq!(told(1, 9), ["component-1: slot 3 holds a capability that is not in the specification"]);
    assert_eq!(told(0, 9), [""; 0]);
}

#[test]
fn a_fault_ends_its_component_and_ticks_go_on_for_the_others() {
    let booted = booted();
    let [second, _] = booted.threads()[..] else { panic!("two threads") };
    let fault = Event::Message(Badge(2), Message::from_words(1, &[0xdead, 0x20_0004]));
    let tick = Event::Signal(Badge(Badge::SIGNAL | Badge::TICK));
    let platform = booted.supervise([fault, tick.clone(), tick]);
    let state = platform.kernel.0.borrow();
    assert_eq!(state.suspended, [second]);
    assert_eq!((state.signalled.len(), state.acked), (2, 3));
    let reports = platform.reports.borrow();
    let Some(Report::Fault(fault)) = reports.last() else { panic!("a fault") };
    assert_eq!((fault.component, fault.address, fault.instruction), (2, 0xdead, 0x20_0004));
    assert_eq!(fault.name, "component-2");
}

#[test]
fn a_component_that_uses_its_fault_endpoint_itself_is_ended_and_named() {
    let booted = booted();
    let [second, first] = booted.threads()[..] else { panic!("two threads") };
    let platform =
        booted.supervise([Event::Message(Badge(1), Message::new(9)), Event::Message(Badge(77), Message::new(1))]);
    let suspended = platform.kernel.0.borrow().suspended.clone();
    assert_eq!(suspended, [first, second], "and who calls it is told so");
    let reports = platform.reports.borrow();
    let faults: Vec<_> = reports.iter().filter(|report| matches!(report, Report::Fault(_))).collect();
    let [Report::Fault(fault)] = faults[..] else { panic!("one fault: nobody has the other badge") };
    assert_eq!((fault.component, fault.kind), (1, report::FaultKind::OwnFaultEndpoint));
    assert_eq!(fault.name, "component-1");
}

#[test]
fn an_ended_component_is_ticked_no_more() {
    let fault = Event::Message(Badge(1), Message::from_words(1, &[0, 0]));
    let platform = booted().supervise([fault, Event::Signal(Badge(Badge::SIGNAL | Badge::TICK))]);
    assert!(platform.kernel.0.borrow().signalled.is_empty());
}

fn refusal(change: impl FnOnce(&mut Specification)) -> alloc::string::String {
    let mut specification = system();
    change(&mut specification);
    let booted = boot_system(&specification, &[23]);
    assert!(booted.threads().is_empty());
    booted.result.err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn writable_code_is_refused() {
    let sentence = refusal(|specification| specification.mappings[0].writable = true);
    assert_eq!(sentence, "specification: `code` is mapped both writable and executable");
}

#[test]
fn contents_beyond_their_frames_are_refused() {
    let sentence = refusal(|specification| {
        specification.objects[CODE as usize].fill = Some(Fill { offset: 0, len: 3 * 4096, skip: 1 });
    });
    assert_eq!(sentence, "specification: `code` has contents longer than itself");
}

#[test]
fn data_that_is_not_there_is_refused() {
    let sentence = refusal(|specification| {
        specification.objects[CODE as usize].fill = Some(Fill { offset: 5990, len: 11, skip: 0 });
    });
    assert_eq!(sentence, "specification: `code` is filled with data that the payload does not have");
}

#[test]
fn a_table_of_a_level_that_is_not_there_is_refused() {
    for level in [0, 4] {
        let sentence = refusal(|specification| {
            specification.objects[TABLES as usize].kind = ObjectKind::TranslationTable { level };
        });
        assert_eq!(sentence, "specification: `page-tables` is of a kind that cannot be made");
    }
}

#[test]
fn a_table_that_the_kernel_cannot_copy_is_refused() {
    let sentence = refusal(|specification| specification.caps[0].object = TABLES + 2);
    assert_eq!(sentence, "specification: `pdpt` is a table the kernel cannot copy");
}

#[test]
fn a_page_of_lives_that_is_no_frame_is_refused_before_it_is_copied() {
    let sentence = refusal(|specification| {
        specification.components[0].life = Some(TABLES + 2);
        specification.components[1].life = Some(TABLES + 2);
    });
    assert_eq!(sentence, "specification: `pdpt` is mapped but is of a kind that cannot be");
}

#[test]
fn two_runs_in_one_slot_are_the_kernels_to_refuse() {
    let sentence = refusal(|specification| specification.caps[1].slot = 2);
    assert_eq!(sentence, "the kernel refuses to install `endpoint`: destination in use");
}

#[test]
fn only_what_takes_a_badge_is_signalled() {
    let sound = system();
    let table =
        sound.objects.iter().position(|object| object.kind == ObjectKind::TranslationTable { level: 1 }).unwrap();
    let refusal =
        BuildError::specification(&sound.objects[table].name, "is signalled and is nothing that takes a badge");
    for index in 0..sound.components.len() {
        let mut specification = system();
        specification.components[index].tick = Some(table as u32);
        assert_eq!(boot_system(&specification, &[23]).result.err(), Some(refusal.clone()));
    }
}

#[test]
fn an_array_of_no_objects_is_refused() {
    for index in 0..system().objects.len() {
        let mut specification = system();
        specification.objects[index].count = 0;
        let name = specification.objects[index].name.clone();
        let refused = boot_system(&specification, &[23]).result.err();
        assert_eq!(refused, Some(BuildError::specification(&name, "is an array of no objects")));
    }
}

#[test]
fn objects_that_are_not_there_are_refused() {
    let sentence = refusal(|specification| specification.mappings[0].object = 1000);
    assert_eq!(sentence, "specification: it names an object that it does not have");
}

#[test]
fn a_machine_that_is_too_small_is_said_to_be() {
    let booted = boot_system(&system(), &[14]);
    let sentence = booted.result.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(sentence.ends_with("bytes of memory, and the machine has 16384 for it"), "{sentence}");
}

#[test]
fn a_machine_that_cannot_tick_runs_no_system_that_needs_ticks() {
    let (kernel, boot_info) = machine(&[23]);
    let platform = FakePlatform { kernel, ..FakePlatform::default() };
    let services = FakeServices { has_no_timer: true, ..FakeServices::default() };
    let boot_with = |specification: &Specification| {
        let payload = FakeMemory::Payload(Rc::new(specification.to_image(&data())));
        boot(platform.clone(), services.clone(), &boot_info, &payload).err().map(|error| error.to_string())
    };
    let sentence = boot_with(&system()).unwrap_or_default();
    assert_eq!(sentence, "specification: `timer` is not there, and components are to be ticked by it");
    assert!(platform.kernel.0.borrow().resumed.is_empty());
}

#[test]
fn a_cut_payload_is_refused() {
    let (kernel, boot_info) = machine(&[23]);
    let platform = FakePlatform { kernel, ..FakePlatform::default() };
    for len in [0, 7, 8, 100] {
        let image = system().to_image(&data());
        let payload = FakeMemory::Payload(Rc::new(image[..len].to_vec()));
        let refused = boot(platform.clone(), FakeServices::default(), &boot_info, &payload);
        assert!(matches!(refused.err(), Some(BuildError::Specification { .. })), "{len}");
    }
}

#[test]
fn last_words_are_a_frame_with_the_reason() {
    let mut heard = Vec::new();
    report::frame::Reader::new().feed(&crate::last_words("no memory"), &mut |piece| {
        if let report::frame::Piece::Frame { component: 0, bytes, .. } = piece {
            heard.extend(report::Stamped::decode(bytes).map(|stamped| stamped.report));
        }
    });
    let expected = Report::Failure { component: report::clip("root-task"), reason: report::clip("no memory") };
    assert_eq!(heard, [expected]);
}

mod restarts;

#[test]
fn a_driver_that_asks_is_woken_before_the_next_tick_and_nobody_else() {
    let mut specification = system();
    specification.components[0].driver = Some(5);
    let tick = Event::Signal(Badge(Badge::SIGNAL | Badge::TICK));
    let badges = |events: Vec<Event>| {
        let platform = boot_system(&specification, &[23]).supervise(events);
        let state = platform.kernel.0.borrow();
        let badge = |slot: &u64| badge_of(&state.slots[&(0, *slot)]);
        state.signalled.iter().filter_map(badge).collect::<Vec<_>>()
    };
    let (ticked, woken) = (Badge::SIGNAL | Badge::TICK, Badge::SIGNAL | Badge::ALARM);
    let asks = |driver| Event::Signal(Badge(Badge::alarm(driver)));
    assert_eq!(badges(vec![asks(5)]), [0; 0], "not at once");
    assert_eq!(badges(vec![asks(5), tick.clone()]), [woken, ticked]);
    assert_eq!(badges(vec![asks(5), tick.clone(), tick.clone()]), [woken, ticked, ticked], "once");
    assert_eq!(badges(vec![asks(4), tick]), [ticked], "nobody else");
}
