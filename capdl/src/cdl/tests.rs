use super::*;
use crate::build::tests::system_of;
use capdl_spec::{Arch, CapRun, Role};
use std::collections::BTreeSet;

fn tiny() -> Specification {
    let mut objects = Vec::new();
    let mut add = |name: &str, kind, count| {
        objects.push(Object { name: name.into(), kind, count, fill: None });
        objects.len() as ObjectId - 1
    };
    let tcb = add("a.tcb", ObjectKind::Tcb, 1);
    let cnode = add("a.cnode", ObjectKind::CNode { size_bits: 5 }, 1);
    let vspace = add("a.vspace", ObjectKind::VSpace, 1);
    let ipc_buffer = add("a.ipc-buffer", ObjectKind::SmallFrame, 1);
    let pdpt = add("a.pdpt", ObjectKind::TranslationTable { level: 1 }, 1);
    let directory = add("a.pd", ObjectKind::TranslationTable { level: 2 }, 1);
    let tables = add("a.pt", ObjectKind::TranslationTable { level: 3 }, 2);
    let data = add("a.data", ObjectKind::SmallFrame, 4);
    let registers = add("registers", ObjectKind::LargeDeviceFrame { paddr: 0xB000_0000 }, 2);
    let event = add("a.event", ObjectKind::Notification, 1);
    let ports = add("serial", ObjectKind::IoPorts { first: 0x3f8, last: 0x3ff }, 1);
    let irq = add("irq-control", ObjectKind::IrqControl, 1);
    let map = |object, vaddr, writable| Mapping { vspace, object, vaddr, writable, executable: false };
    let cap = |cptr, object, badge, rights| CapRun { cnode, cptr, object, badge, rights };
    Specification {
        arch: Arch::X86_64,
        no_iommu: false,
        name: "tiny".into(),
        mappings: vec![
            map(pdpt, 0, false),
            map(directory, 0, false),
            map(tables, 0x40_0000, false),
            map(ipc_buffer, 0x40_0000, true),
            map(data, 0x5F_E000, false),
            map(registers, 0x80_0000, true),
        ],
        caps: vec![
            cap(2, cnode, 0, 7),
            cap(8, event, 1 << 63, 2),
            cap(9, data, 0, 3),
            cap(13, ports, 0, 7),
            cap(14, irq, 0, 7),
        ],
        moments: vec![],
        kills: vec![],
        components: vec![Component {
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
            id: 1,
            name: "a".into(),
            role: Role::Client,
            program: "a".into(),
            server: None,
            priority: 100,
            tcb,
            cnode,
            vspace,
            ipc_buffer,
            ipc_buffer_vaddr: 0x40_0000,
            fault_slot: 1,
            root: None,
            bound_notification: Some(event),
            tick: None,
            entry: 0x100,
            stack_pointer: 0x200,
            environment_vaddr: 0x300,
        }],
        objects,
        report_caps: false,
    }
}

#[test]
fn a_tiny_system_reads_as_the_language_has_it() {
    let expected = "\
-- tiny
arch x86_64

objects {

  root-task.fault = ep
  a.tcb = tcb (addr: 0x400000, ip: 0x100, sp: 0x200, prio: 100, fault_ep: 0x1, init: [0x300])
  a.cnode = cnode (5 bits)
  a.vspace = pml4
  a.ipc-buffer = frame (4k)
  a.pdpt = pdpt
  a.pd = pd
  a.pt[2] = pt
  a.data[4] = frame (4k)
  registers.0 = frame (2M, paddr: 0xb0000000)
  registers.1 = frame (2M, paddr: 0xb0200000)
  a.event = notification
  serial = io_ports (ports: [0x3f8..0x3ff])

} caps {

  a.tcb {
    cspace: a.cnode (guard: 0, guard_size: 59)
    vspace: a.vspace
    ipc_buffer_slot: a.ipc-buffer (RW)
    0x8: a.event (R)
  }

  a.cnode {
    0x1: root-task.fault (WP, badge: 0x1)
    0x2: a.cnode (guard: 0, guard_size: 59)
    0x8: a.event (W, badge: 0x8000000000000000)
    0x9: a.data[0..3] (RW)
    0xd: serial (ports: [0x3f8..0x3ff])
    0xe: irq_control
  }

  a.vspace {
    0x0: a.pdpt
  }

  a.pdpt {
    0x0: a.pd
  }

  a.pd {
    0x2: a.pt[0..1]
    0x4: registers.0 (RW, uncached)
    0x5: registers.1 (RW, uncached)
  }

  a.pt[0] {
    0x0: a.ipc-buffer (RW)
    0x1fe: a.data[0..1] (R)
  }

  a.pt[1] {
    0x0: a.data[2..3] (R)
  }

}
";
    assert_eq!(text(&tiny()), expected);
}

/// The words of a line, without the punctuation of the language.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || "-_.@".contains(c))).filter(|word| !word.is_empty())
}

#[test]
fn whole_systems_only_refer_to_objects_they_declare() {
    let text = text(&system_of("bridge-two-controllers").specification);
    let (objects, caps) = text.split_once("} caps {").unwrap();
    let mut declared: BTreeSet<&str> =
        objects.lines().filter_map(|line| line.split_once(" = ")).filter_map(|(name, _)| names(name).next()).collect();
    declared.extend(["irq_control", "io_space_master"]);
    let mut references = 0;
    for line in caps.lines() {
        let reference = match line.trim().strip_suffix(" {") {
            Some(holder) => names(holder).next(),
            None => line.split_once(": ").and_then(|(_, target)| names(target).next()),
        };
        if let Some(reference) = reference {
            assert!(declared.contains(reference), "{line}");
            references += 1;
        }
    }
    assert!(references > 200, "only {references}");
}

#[test]
fn brackets_are_balanced_and_names_are_identifiers() {
    let text = text(&system_of("demo").specification);
    for (open, close) in [('{', '}'), ('(', ')'), ('[', ']')] {
        assert_eq!(text.matches(open).count(), text.matches(close).count());
    }
    let declared = text.lines().filter_map(|line| line.strip_prefix("  ")?.split_once(" = "));
    for (name, _) in declared {
        assert!(name.starts_with(|c: char| c.is_ascii_alphabetic()), "{name}");
    }
}

#[test]
fn every_page_that_is_mapped_stands_in_a_page_table() {
    let specification = system_of("boot").specification;
    let text = text(&specification);
    let frames: u32 = specification
        .mappings
        .iter()
        .map(|mapping| &specification.objects[mapping.object as usize])
        .filter(|object| object.kind == ObjectKind::SmallFrame)
        .map(|object| object.count)
        .sum();
    let mut written = 0;
    let mut inside = false;
    for line in text.lines() {
        if line.ends_with('{') {
            inside = line.contains(".table-3-");
        } else if inside && line.contains(": ") {
            let range = line.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(range, _)| range);
            let bounds = range.and_then(|range| range.split_once(".."));
            written +=
                bounds.map_or(1, |(first, last)| last.parse::<u32>().unwrap() - first.parse::<u32>().unwrap() + 1);
        }
    }
    assert_eq!(written, frames);
}
