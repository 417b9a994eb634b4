use super::*;
use crate::testing::{self, Happens, Machine, TICK, TestPlatform, TestServices, machine, page};
use alloc::string::ToString;
use alloc::vec::Vec;
use capdl_spec::{CapRun, Component, Fill, Mapping, Object, ObjectKind, Role};
use core::pin::pin;
use core::task::{Context, Waker};
use platform::{AbsoluteCPtr, Message, Paddr, Vaddr};
use sim_kernel::{Access, Capability, Delivery, Invoker, ThreadState};

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
/// First object of the second component, whose objects have the order of the first four.
const SECOND: u32 = 14;

fn object(name: &str, kind: ObjectKind, count: u32) -> Object {
    Object { name: name.into(), kind, count, fill: None }
}

fn mapping(vspace: u32, object: u32, vaddr: u64) -> Mapping {
    Mapping { vspace, object, vaddr, writable: false, executable: false }
}

fn run(cnode: u32, cptr: u64, object: u32, badge: u64) -> CapRun {
    CapRun { cnode, cptr, object, badge, rights: 3 }
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
        root: None,
        vspace: first + VSPACE,
        ipc_buffer: first + IPC_BUFFER,
        ipc_buffer_vaddr: 0x40_0000,
        fault_slot: 1,
        bound_notification: (id == 1).then_some(EVENT),
        tick: (id == 1).then_some(EVENT),
        liveness: None,
        keeps: None,
        restart: None,
        driver: None,
        alarm: None,
        ends_with: None,
        blocked: None,
        frames: None,
        presence: None,
        shown: Vec::new(),
        teardown_ack: None,
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
        // Frames first: the root task decides the order of levels.
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
            // An endpoint that it calls, and does not receive at.
            CapRun { rights: 6, ..run(SECOND + CNODE, 8, ENDPOINT, 7) },
            run(SECOND + CNODE, 9, CONSOLE_EVENT, 0),
        ],
        moments: vec![],
        kills: vec![],
        components: vec![component(1, 0, 100), component(2, SECOND, 150)],
        report_caps: true,
    }
}

fn data() -> Vec<u8> {
    (0..6000u32).map(|byte| byte as u8).collect()
}

struct Booted {
    platform: TestPlatform,
    services: TestServices,
    result: Result<Supervisor<TestPlatform, TestServices>, BuildError>,
}

fn boot_payload(image: &[u8], sizes: &[u8], services: TestServices) -> Booted {
    let Machine { root, boot, payload } = machine(sizes, image);
    let platform = TestPlatform::new(root);
    let result = super::boot(platform.clone(), services.clone(), &boot, &payload);
    if let Ok(supervisor) = &result {
        platform.endpoint.set(Some(supervisor.endpoint()));
        for component in &supervisor.build.specification.components {
            let tcb = supervisor.build.objects.cap(component.tcb).unwrap();
            let thread = platform.root.kernel().borrow().thread_of(platform.root.thread(), tcb).unwrap();
            // The first one waits at its endpoint with its notification bound, the second one at its notification.
            let polls = Some(CPtr::new(if component.id == 1 { 8 } else { 9 }));
            platform.components.borrow_mut().insert(component.id, testing::Component { thread, polls });
        }
    }
    Booted { platform, services, result }
}

fn boot_system(specification: &Specification, sizes: &[u8]) -> Booted {
    boot_payload(&specification.to_image(&data()), sizes, TestServices::default())
}

fn booted() -> Booted {
    let booted = boot_system(&system(), &[23]);
    assert_eq!(booted.result.as_ref().err(), None);
    booted
}

impl TestPlatform {
    /// The component's invocations of the kernel.
    fn component(&self, id: u16) -> Invoker {
        self.root.of(self.components.borrow()[&id].thread)
    }

    /// The capabilities that the component holds, by cptr.
    fn cspace(&self, id: u16) -> BTreeMap<u64, Capability> {
        let held = self.root.kernel().borrow().cspace(self.component(id).thread());
        held.into_iter().map(|held| (held.cptr, held.cap)).collect()
    }

    /// Physical address of a page of the component, and whether it may write there.
    fn frame(&self, id: u16, vaddr: u64) -> (Paddr, bool) {
        let (kernel, thread, vaddr) = (self.root.kernel().borrow(), self.component(id).thread(), Vaddr::new(vaddr));
        let at = kernel.translate(thread, vaddr, Access::Read).unwrap();
        (at, kernel.translate(thread, vaddr, Access::Write).is_ok())
    }

    /// The bytes of a page of the component.
    fn page(&self, id: u16, vaddr: u64) -> Vec<u8> {
        page(&self.component(id), vaddr)
    }

    /// Writes into physical memory, as a component that has it mapped.
    fn write(&self, id: u16, vaddr: u64, bytes: &[u8]) {
        let (at, _) = self.frame(id, vaddr);
        self.root.kernel().borrow_mut().memory_mut().write(at, bytes).unwrap();
    }

    /// The component calls the other one's endpoint, or the object that its cptr for that names now. It polls for no signals
    /// after that.
    fn calls(&self, id: u16) {
        self.components.borrow_mut().get_mut(&id).unwrap().polls = None;
        self.root.kernel().borrow_mut().call(self.component(id).thread(), CPtr::new(8), &Message::new(1));
    }

    /// The end of the component's last call; `None` while it waits.
    fn became_of_call(&self, id: u16) -> Option<Delivery> {
        self.root.kernel().borrow_mut().take(self.component(id).thread())
    }

    fn state(&self, id: u16) -> Option<ThreadState> {
        self.root.kernel().borrow().thread_state(self.component(id).thread())
    }
}

impl Booted {
    /// The components in the order of their start.
    fn started(&self) -> Vec<u16> {
        let started = |report: &Report| match report {
            Report::Component(component) => Some(component.component),
            _ => None,
        };
        self.platform.reports.borrow().iter().filter_map(started).collect()
    }

    /// Supervises while these things happen.
    fn supervise(self, happens: impl IntoIterator<Item = Happens>) -> TestPlatform {
        self.platform.coming.borrow_mut().extend(happens);
        let mut supervising = pin!(self.result.unwrap().run());
        assert!(supervising.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        self.platform.root.kernel().borrow().check_invariants().unwrap();
        self.platform
    }
}

#[test]
fn threads_start_by_priority_with_what_they_need() {
    let booted = booted();
    assert_eq!(booted.started(), [2, 1]);
    let kernel = booted.platform.root.kernel().borrow();
    let (first, second) = (booted.platform.component(1).thread(), booted.platform.component(2).thread());
    assert_eq!((kernel.priority(first), kernel.priority(second)), (100, 150));
    let context = kernel.registers(first);
    assert_eq!(context.arguments, [0x10_0000, 1_000_000, 0]);
    assert_eq!((context.instruction_pointer, context.stack_pointer), (0x20_0000, 0x30_0000));
    assert!(kernel.is_runnable(first) && kernel.is_runnable(second));
}

#[test]
fn cspaces_hold_the_specification_and_a_fault_endpoint() {
    let booted = booted();
    let server = booted.platform.cspace(1);
    let cptrs: Vec<u64> = server.keys().copied().collect();
    assert_eq!(cptrs, [1, 2, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
    assert!(matches!(server[&1], Capability::Endpoint { badge: 1, rights: Rights::CALL, .. }));
    assert!(matches!(server[&2], Capability::CNode { guard_bits: 58, guard: 0, radix: 6, .. }));
    let Capability::Endpoint { endpoint, badge: 0, rights: Rights::READ_WRITE } = server[&8] else {
        panic!("{server:?}")
    };
    assert_eq!(server[&9], Capability::IrqControl);
    assert!(matches!(server[&13], Capability::IoTable { .. }));
    let console = booted.platform.cspace(2);
    assert!(matches!(console[&8], Capability::Endpoint { endpoint: same, badge: 7, .. } if same == endpoint));
    assert!(matches!(console[&1], Capability::Endpoint { badge: 2, .. }));
}

#[test]
fn irq_control_is_moved_after_the_timer_has_its_handler() {
    let booted = booted();
    let held = booted.platform.root.kernel().borrow().cspace(booted.platform.root.thread());
    assert!(held.iter().all(|held| held.cap != Capability::IrqControl));
    assert_eq!(held.iter().filter(|held| matches!(held.cap, Capability::IrqHandler(_))).count(), 1);
}

#[test]
fn frames_hold_their_contents_and_appear_in_every_vspace() {
    let platform = booted().platform;
    let (code, writable) = platform.frame(1, 0x20_0000);
    assert!(!writable);
    assert_eq!(platform.frame(2, 0x2_0000), (code, false));
    assert!(platform.frame(1, 0x40_0000).1);
    let (head, tail) = (platform.page(1, 0x20_0000), platform.page(1, 0x20_1000));
    assert_eq!((&head[..16], &head[16..20]), (&[0; 16][..], &[1, 2, 3, 4][..]));
    let end = 5000 - (4096 - 16);
    assert_eq!(tail[..end], data()[1 + 4080..1 + 5000]);
    assert!(tail[end..].iter().all(|byte| *byte == 0));
}

#[test]
fn the_root_task_writes_the_ring_that_the_console_reads() {
    let Booted { platform, services, .. } = booted();
    let (ring, console) = services.ring.borrow().clone().unwrap();
    assert_eq!(ring.len, 5 * 4096);
    let second = ring.part(4096, 4096).unwrap();
    platform.memory(&second).unwrap().write_bytes(0, b"a log").unwrap();
    assert_eq!((&platform.page(2, 0x1_1000)[..5], platform.frame(2, 0x1_1000).1), (&b"a log"[..], false));
    let signal = platform.root.kernel().borrow().cap_at(platform.root.thread(), console).unwrap();
    assert!(matches!(signal, Capability::Notification { badge: 0x8000_0000_0000_0001, rights: Rights::WRITE, .. }));
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

/// The failures that a sweep of every cptr reports.
fn swept(booted: Booted) -> Vec<alloc::string::String> {
    let supervisor = booted.result.unwrap();
    assert_eq!(failures(&booted.platform).len(), 0, "at the boot all is as specified");
    let is_whole = supervisor.build.sweep().unwrap();
    let failures = failures(&booted.platform);
    assert_eq!(is_whole, failures.is_empty());
    failures
}

fn failures(platform: &TestPlatform) -> Vec<alloc::string::String> {
    let failure = |report: &Report| match report {
        Report::Failure { reason, .. } => Some(reason.to_string()),
        _ => None,
    };
    platform.reports.borrow().iter().filter_map(failure).collect()
}

/// A cptr of the first component's CNode, which it holds itself.
const fn own_cptr(index: u64) -> AbsoluteCPtr {
    AbsoluteCPtr { root: platform::Cap::from_bits(2), index, depth: 64 }
}

#[test]
fn a_cptr_that_is_not_as_specified_is_reported() {
    assert!(swept(booted()).is_empty());
    let booted = booted();
    booted.platform.component(1).cnode_delete(own_cptr(14)).unwrap();
    let [reason] = &swept(booted)[..] else { panic!("one cptr is empty") };
    assert!(reason.ends_with("cptr 14 lacks a capability of the specification"), "{reason}");
}

#[test]
fn a_capability_that_nobody_specified_is_reported() {
    let booted = booted();
    booted.platform.component(1).cnode_copy(own_cptr(40), own_cptr(8), Rights::ALL).unwrap();
    assert_eq!(swept(booted), ["component-1: cptr 40 holds a capability that is not in the specification"]);
}

#[test]
fn a_capability_left_in_a_receive_cptr_is_reported_once() {
    let reported = |component: u16, ticks: usize| {
        let booted = booted();
        // The second component, which does not hold its own CNode, receives nothing there.
        let build = &booted.result.as_ref().unwrap().build;
        let cnode = build.specification.components[usize::from(component) - 1].cnode;
        let cptr = |cptr| build.component_cptr(cnode, cptr).unwrap();
        let (dest, src) = (cptr(capdl_spec::RECEIVE_CPTR), cptr(8));
        booted.platform.root.cnode_copy(dest, src, Rights::ALL).unwrap();
        failures(&booted.supervise(vec![TICK; ticks]))
    };
    let most = usize::from(crate::sweep::TICKS_TAKEN);
    assert_eq!(reported(1, most - 1), [""; 0], "it may be about to be moved");
    assert_eq!(reported(1, most + 5), ["component-1: cptr 3 holds a capability that is not in the specification"]);
    assert_eq!(reported(2, most + 5), [""; 0]);
}

#[test]
fn a_fault_ends_its_component_and_ticks_go_on_for_the_others() {
    let platform = booted().supervise([Happens::Dies(2), TICK, TICK]);
    assert_eq!((platform.state(1), platform.state(2)), (Some(ThreadState::Running), Some(ThreadState::Inactive)));
    assert_eq!(*platform.signalled.borrow(), [(1, Badge::SIGNAL | Badge::TICK); 2]);
    let reports = platform.reports.borrow();
    let Some(Report::Fault(fault)) = reports.last() else { panic!("a fault") };
    assert_eq!((fault.component, fault.address, fault.instruction), (2, 0xdead, 0x20_0000));
    assert_eq!(fault.name, "component-2");
}

#[test]
fn component_that_calls_its_fault_endpoint_is_stopped() {
    let booted = booted();
    booted.platform.calls(2);
    let says = [Happens::Says(1, Message::new(9)), Happens::Says(77, Message::new(1))];
    let platform = booted.supervise(says);
    assert_eq!(platform.state(1), Some(ThreadState::Inactive));
    assert_eq!(platform.became_of_call(2), Some(Delivery::Restart), "who calls it asks again");
    let reports = platform.reports.borrow();
    let faults: Vec<_> = reports.iter().filter(|report| matches!(report, Report::Fault(_))).collect();
    let [Report::Fault(fault)] = faults[..] else { panic!("one fault: nobody has the other badge") };
    assert_eq!((fault.component, fault.kind), (1, report::FaultKind::OwnFaultEndpoint));
    assert_eq!(fault.name, "component-1");
}

#[test]
fn an_ended_component_is_ticked_no_more() {
    let booted = booted();
    let event = booted.result.as_ref().unwrap().build.objects.cap::<Notification>(EVENT).unwrap();
    let platform = booted.supervise([Happens::Dies(1), TICK]);
    // The root task polls for itself, and finds no signal.
    let mut kernel = platform.root.kernel().borrow_mut();
    kernel.nb_receive(platform.component(1).thread(), event.cptr());
    assert_eq!((kernel.take(platform.component(1).thread()), platform.signalled.borrow().len()), (None, 0));
}

fn refusal(change: impl FnOnce(&mut Specification)) -> alloc::string::String {
    let mut specification = system();
    change(&mut specification);
    let booted = boot_system(&specification, &[23]);
    assert!(booted.started().is_empty());
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
fn liveness_page_that_is_no_frame_is_refused() {
    let sentence = refusal(|specification| {
        specification.components[0].liveness = Some(TABLES + 2);
        specification.components[1].liveness = Some(TABLES + 2);
    });
    assert_eq!(sentence, "specification: `pdpt` is mapped but is of a kind that cannot be");
}

#[test]
fn two_runs_in_one_cptr_are_the_kernels_to_refuse() {
    let sentence = refusal(|specification| specification.caps[1].cptr = 2);
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
    let services = TestServices { has_no_timer: true, ..TestServices::default() };
    let booted = boot_payload(&system().to_image(&data()), &[23], services);
    assert!(booted.started().is_empty());
    let sentence = booted.result.err().map(|error| error.to_string()).unwrap_or_default();
    assert_eq!(sentence, "specification: `timer` is not there, and components are to be ticked by it");
}

#[test]
fn a_cut_payload_is_refused() {
    for len in [0, 7, 8, 100] {
        let image = system().to_image(&data());
        let refused = boot_payload(&image[..len], &[23], TestServices::default()).result;
        assert!(matches!(refused.err(), Some(BuildError::Specification { .. })), "{len}");
    }
}

#[test]
fn panic_is_a_frame_with_the_reason() {
    let mut heard = Vec::new();
    report::frame::Reader::new().feed(&crate::panic_frame("no memory"), &mut |piece| {
        if let report::frame::Piece::Frame { component: 0, bytes, .. } = piece {
            heard.extend(report::Stamped::decode(bytes).map(|stamped| stamped.report));
        }
    });
    let expected = Report::Failure { component: report::clip("root-task"), reason: report::clip("no memory") };
    assert_eq!(heard, [expected]);
}

mod arrivals;
mod frames;
#[cfg(feature = "fault-injection")]
mod kills;
mod restarts;
mod roots;

#[test]
fn only_the_component_with_an_alarm_is_woken_early() {
    let mut specification = system();
    (specification.components[0].driver, specification.components[0].alarm) = (Some(9), Some(5));
    let signals = |happens: Vec<Happens>| boot_system(&specification, &[23]).supervise(happens).signalled.take();
    let (ticked, woken) = (Badge::SIGNAL | Badge::TICK, Badge::SIGNAL | Badge::ALARM);
    let asks = |number| Happens::Signal(Badge::alarm(number));
    assert_eq!(signals(vec![asks(5)]), [], "not at once");
    assert_eq!(signals(vec![asks(5), TICK]), [(1, woken | ticked)]);
    let both = [(1, woken | ticked), (1, ticked)];
    assert_eq!(signals(vec![asks(5), TICK, TICK]), both, "once");
    assert_eq!(signals(vec![asks(8), TICK]), [(1, woken | ticked)], "the last of its lengths");
    for others in [4, 9] {
        assert_eq!(signals(vec![asks(others), TICK]), [(1, ticked)], "nobody else");
    }
}
