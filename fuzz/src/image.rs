//! Specification images: any bytes behind the root task's program, and a sound specification with any changes.
//!
//! The law: the root task builds the system and supervises it through ticks, faults and signals, or reports in a sentence
//! why it does not; then no thread was started. It never makes a call at which the kernel stops the machine, and never
//! accesses memory that is not mapped. The machine is that of the root task's own tests, on the kernel's model.

#[expect(dead_code, unused_imports, reason = "the root task's tests use more of their machine than this target")]
#[path = "../../root-task/src/testing/mod.rs"]
mod testing;

use self::testing::{Component as Running, Happens, Machine, TICK, TestPlatform, TestServices, machine};
use crate::target::{Subject, Target};
use arbitrary::{Result, Unstructured};
use capdl_spec::{
    CapRun, Component, Counted, Fill, Kill, Mapping, Moment, Need, Object, ObjectKind, RestartPolicy, Role,
    Specification,
};
use platform::{Badge, Message};
use root_task::{BootInfo, BuildError, Fault, Services, UntypedInfo, hpet};
use sim_kernel::ThreadId;
use std::pin::pin;
use std::task::{Context, Waker};

/// The target.
pub const TARGET: Target = Target { name: "image", law, seeds };

/// log2 of the machine's memory.
const MEMORY_BITS: u8 = 22;
const EVENTS: usize = 24;
/// The first byte of an input: an image as it is; a specification in postcard; or changes of the sound one, and events.
const IMAGE: u8 = 0;
const SPECIFICATION: u8 = 1;

fn law(input: &[u8], subject: Subject) {
    let Some((kind, rest)) = input.split_first() else { return };
    match *kind {
        IMAGE => boot(rest, &mut Unstructured::new(&[]), subject),
        SPECIFICATION => {
            let mut image = Vec::from((rest.len() as u64).to_le_bytes());
            image.extend_from_slice(rest);
            image.resize(image.len().next_multiple_of(4096), 0);
            image.extend_from_slice(&data());
            boot(&image, &mut Unstructured::new(&[]), subject);
        }
        _ => {
            let (mut rest, mut specification) = (Unstructured::new(rest), system());
            let changes = rest.int_in_range(0..=6).unwrap_or(0);
            let _ = (0..changes).try_for_each(|_| change(&mut specification, &mut rest));
            boot(&specification.to_image(&data()), &mut rest, subject);
        }
    }
}

fn boot(image: &[u8], events: &mut Unstructured<'_>, subject: Subject) {
    let Machine { root, boot, payload } = machine(&[MEMORY_BITS], image);
    let mut platform = TestPlatform::new(root);
    // A component that has the root task's notification takes its ticks, and the pin stays masked. The authority checker refuses that.
    platform.hpet.kernel = None;
    let booted = root_task::boot(platform.clone(), TestServices::default(), &boot, &payload);
    assert_works(&platform);
    let supervisor = match booted {
        Ok(supervisor) => supervisor,
        Err(error) => {
            let started = running(&platform).len();
            // The planted defect: it is as if a system that lacks memory were started in part.
            let started =
                started + usize::from(subject == Subject::Planted && error.to_string().contains("bytes of memory"));
            assert_eq!(started, 0, "threads run of a system that was not built: {error}");
            assert!(!error.to_string().is_empty(), "{error:?} has no words");
            return;
        }
    };
    platform.endpoint.set(Some(supervisor.endpoint()));
    let components = (1..).zip(running(&platform)).map(|(id, thread)| (id, Running { thread, polls: None }));
    platform.components.borrow_mut().extend(components);
    for _ in 0..EVENTS {
        let Ok(next) = happens(events) else { break };
        platform.coming.borrow_mut().push_back(next);
    }
    let ended = pin!(supervisor.run()).poll(&mut Context::from_waker(Waker::noop()));
    assert!(ended.is_pending(), "the supervisor ended");
    assert_works(&platform);
}

/// Checks that nothing stopped the machine, and that the kernel's data agree with each other.
fn assert_works(platform: &TestPlatform) {
    let kernel = platform.root.kernel().borrow();
    assert_eq!((kernel.halted(), kernel.check_invariants()), (None, Ok(())));
}

/// The threads that run or could run, except the root task's.
fn running(platform: &TestPlatform) -> Vec<ThreadId> {
    let kernel = platform.root.kernel().borrow();
    kernel.threads().filter(|thread| *thread != platform.root.thread() && kernel.is_runnable(*thread)).collect()
}

/// A tick, a fault, or any event that may come.
fn happens(input: &mut Unstructured<'_>) -> Result<Happens> {
    if input.is_empty() {
        return Err(arbitrary::Error::NotEnoughData);
    }
    Ok(match input.int_in_range(0..=3u8)? {
        0 => TICK,
        1 => {
            // Two words that earlier were a part of the fault: kept inputs still have them.
            let (component, _) = (input.int_in_range(0..=3u16)?, input.arbitrary::<[u64; 2]>()?);
            Happens::Dies(component)
        }
        2 => Happens::Signal(Badge::SIGNAL | input.arbitrary::<u64>()?),
        _ => {
            Happens::Says(input.arbitrary()?, Message::from_words(input.arbitrary()?, &input.arbitrary::<[u64; 3]>()?))
        }
    })
}

/// A number that code may fail on.
fn number(input: &mut Unstructured<'_>) -> Result<u64> {
    let edges = [0, 1, 0xfff, 0x1000, 0x10_0000, 1 << 31, u64::from(u32::MAX), 1 << 47, u64::MAX - 0xfff, u64::MAX];
    Ok(match input.int_in_range(0..=2u8)? {
        0 => u64::from(input.int_in_range(0..=31u8)?),
        1 => *input.choose(&edges)?,
        _ => input.arbitrary()?,
    })
}

fn kind(input: &mut Unstructured<'_>) -> Result<ObjectKind> {
    let size_bits = input.int_in_range(0..=70)?;
    Ok(match input.int_in_range(0..=13u8)? {
        0 => ObjectKind::Untyped { size_bits },
        1 => ObjectKind::DeviceUntyped { paddr: number(input)?, size_bits },
        2 => ObjectKind::Endpoint,
        3 => ObjectKind::Notification,
        4 => ObjectKind::CNode { size_bits },
        5 => ObjectKind::Tcb,
        6 => ObjectKind::SmallFrame,
        7 => ObjectKind::LargeFrame,
        8 => ObjectKind::VSpace,
        9 => ObjectKind::TranslationTable { level: 1 },
        10 => ObjectKind::TranslationTable { level: 3 },
        11 => ObjectKind::IrqControl,
        12 => ObjectKind::IoPorts { first: input.arbitrary()?, last: input.arbitrary()? },
        _ => ObjectKind::IoSpaceMaster,
    })
}

/// Makes one change.
fn change(specification: &mut Specification, input: &mut Unstructured<'_>) -> Result<()> {
    let Specification {
        name: _,
        arch: _,
        objects,
        mappings,
        caps,
        components,
        moments,
        kills,
        report_caps,
        no_iommu: _,
    } = specification;
    let place = usize::from(input.arbitrary::<u8>()?);
    match input.int_in_range(0..=6u8)? {
        0 => {
            let count = objects.len();
            let Some(object) = objects.get_mut(place % count.max(1)) else { return Ok(()) };
            match input.int_in_range(0..=3u8)? {
                0 => object.kind = kind(input)?,
                1 => object.count = number(input)? as u32,
                2 => object.fill = Some(Fill { offset: number(input)?, len: number(input)?, skip: input.arbitrary()? }),
                _ => object.name = "event".into(),
            }
        }
        1 => {
            let count = mappings.len();
            let Some(mapping) = mappings.get_mut(place % count.max(1)) else { return Ok(()) };
            match input.int_in_range(0..=3u8)? {
                0 => mapping.vspace = number(input)? as u32,
                1 => mapping.object = number(input)? as u32,
                2 => mapping.vaddr = number(input)?,
                _ => mapping.writable = !mapping.writable,
            }
        }
        2 => {
            let count = caps.len();
            let Some(cap) = caps.get_mut(place % count.max(1)) else { return Ok(()) };
            match input.int_in_range(0..=4u8)? {
                0 => cap.cnode = number(input)? as u32,
                1 => cap.cptr = number(input)?,
                2 => cap.object = number(input)? as u32,
                3 => cap.badge = number(input)?,
                _ => cap.rights = input.arbitrary()?,
            }
        }
        3 => {
            let count = components.len();
            let Some(component) = components.get_mut(place % count.max(1)) else { return Ok(()) };
            let value = number(input)?;
            match input.int_in_range(0..=13u8)? {
                0 => component.id = value as u16,
                1 => component.tcb = value as u32,
                2 if value >> 60 == 1 => component.root = Some(value as u32),
                2 => component.cnode = value as u32,
                3 => component.vspace = value as u32,
                4 => component.ipc_buffer = value as u32,
                5 => component.ipc_buffer_vaddr = value,
                6 => component.fault_slot = value,
                7 => component.bound_notification = Some(value as u32),
                8 => component.tick = Some(value as u32),
                9 => component.liveness = Some(value as u32),
                10 => component.keeps = Some(value as u32),
                11 => component.restart = Some(RestartPolicy { times: value as u16, within_ms: input.arbitrary()? }),
                12 => match value >> 60 {
                    1 => component.ends_with = Some(value as u16),
                    2 => component.blocked = Some(value as u32),
                    _ => component.driver = Some(value as u8),
                },
                _ => {
                    component.teardown_ack =
                        Some(capdl_spec::TeardownAck { page: value as u32, session: input.arbitrary()? })
                }
            }
        }
        4 => {
            let (component, after_us, times) = (input.int_in_range(0..=3)?, number(input)?, number(input)? as u32);
            let moment = if input.ratio(1, 16)? { input.arbitrary()? } else { moments.len() as u16 };
            kills.push(Kill { component, moment, times, every_us: number(input)?, spread_us: input.arbitrary()? });
            let counted = match input.int_in_range(0..=2u8)? {
                0 => Counted::Milestone(input.arbitrary()?),
                1 => Counted::Deaths,
                _ => Counted::Restarts,
            };
            let need = Need { component: input.int_in_range(0..=3)?, counted, at_least: input.int_in_range(0..=3)? };
            let needs = if input.arbitrary()? { vec![need] } else { vec![] };
            moments.push(Moment { needs, after_us });
        }
        5 => drop((place < objects.len()).then(|| objects.swap_remove(place))),
        _ => *report_caps = !*report_caps,
    }
    Ok(())
}

fn data() -> Vec<u8> {
    (0..6000u32).map(|byte| byte as u8).collect()
}

/// Objects of a component in [`system`], by their place behind its first: CNode, VSpace, thread, IPC buffer, liveness page, the
/// page that it keeps, and paging structures.
const OBJECTS: u32 = 9;

/// Two components that are restarted when they fault, a console's notification and the root task's log.
fn system() -> Specification {
    let object = |name: String, kind, count| Object { name, kind, count, fill: None };
    let mut objects = Vec::new();
    for n in 1..=2 {
        let kinds = [
            ("cnode", ObjectKind::CNode { size_bits: 6 }),
            ("vspace", ObjectKind::VSpace),
            ("tcb", ObjectKind::Tcb),
            ("ipc-buffer", ObjectKind::SmallFrame),
            ("liveness", ObjectKind::SmallFrame),
            ("keeps", ObjectKind::SmallFrame),
            ("pdpt", ObjectKind::TranslationTable { level: 1 }),
            ("page-directory", ObjectKind::TranslationTable { level: 2 }),
            ("page-tables", ObjectKind::TranslationTable { level: 3 }),
        ];
        objects.extend(
            kinds.map(|(name, kind)| object(format!("{name}-{n}"), kind, if name == "page-tables" { 3 } else { 1 })),
        );
    }
    let shared = objects.len() as u32;
    objects.extend([
        Object {
            fill: Some(Fill { offset: 1, len: 5000, skip: 16 }),
            ..object("code".into(), ObjectKind::SmallFrame, 3)
        },
        object("event".into(), ObjectKind::Notification, 1),
        object("endpoint".into(), ObjectKind::Endpoint, 1),
        object("irq-control".into(), ObjectKind::IrqControl, 1),
        object("root-task.log".into(), ObjectKind::SmallFrame, 5),
        object("console.event".into(), ObjectKind::Notification, 1),
    ]);
    let mapping = |vspace, object, vaddr, writable| Mapping { vspace, object, vaddr, writable, executable: false };
    let run = |cnode, cptr, object, badge| CapRun { cnode, cptr, object, badge, rights: 3 };
    let (mut mappings, mut caps, mut components) = (Vec::new(), Vec::new(), Vec::new());
    for (id, first) in [(1u16, 0), (2, OBJECTS)] {
        mappings.extend((6..9).map(|table| mapping(first + 1, first + table, 0, false)));
        mappings.extend([
            Mapping { executable: true, ..mapping(first + 1, shared, 0x20_0000, false) },
            mapping(first + 1, first + 3, 0x40_0000, true),
            mapping(first + 1, first + 4, 0x40_1000, false),
            mapping(first + 1, first + 5, 0x40_2000, true),
        ]);
        caps.extend([
            run(first, 2, first, 0),
            run(first, 8, shared + 2, u64::from(id) - 1),
            run(first, 9, shared + 1, 0),
        ]);
        components.push(Component {
            id,
            name: format!("component-{id}"),
            role: Role::Client,
            program: "program".into(),
            server: None,
            priority: 100,
            tcb: first + 2,
            cnode: first,
            root: None,
            vspace: first + 1,
            ipc_buffer: first + 3,
            ipc_buffer_vaddr: 0x40_0000,
            fault_slot: 1,
            bound_notification: (id == 1).then_some(shared + 1),
            tick: Some(shared + 1),
            liveness: Some(first + 4),
            keeps: Some(first + 5),
            restart: Some(RestartPolicy { times: 2, within_ms: 1000 }),
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
        });
    }
    caps.push(run(0, 10, shared + 3, 0));
    mappings.push(mapping(OBJECTS + 1, shared + 4, 0x1_0000, false));
    Specification { name: "fuzzed".into(), objects, mappings, caps, components, ..Specification::default() }
}

/// The sound image, the sound specification, and its supervision through faults.
fn seeds() -> Vec<Vec<u8>> {
    let (image, specification) = (system().to_image(&data()), postcard::to_allocvec(&system()).unwrap_or_default());
    // No change; ticks and a fault of each component.
    let fault = |component: u8| [&[1, component][..], &[0; 16]].concat();
    let supervised = [&[2, 0, 0, 0][..], &fault(1), &[0], &fault(2), &[0, 0, 0]].concat();
    vec![[&[IMAGE], &image[..]].concat(), [&[SPECIFICATION], &specification[..]].concat(), supervised]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sound_system_boots() {
        let Machine { root, boot, payload } = machine(&[MEMORY_BITS], &system().to_image(&data()));
        let platform = TestPlatform::new(root);
        let booted = root_task::boot(platform.clone(), TestServices::default(), &boot, &payload);
        assert_eq!(booted.err(), None);
        assert_eq!(running(&platform).len(), 2);
    }
}
