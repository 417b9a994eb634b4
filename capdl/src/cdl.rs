//! The system in the capDL language: text that the seL4 project's capDL tools read.
//!
//! The text has the objects with their arrays and parameters, then the contents of each CNode, thread and paging structure. The
//! specification leaves two things to the root task, which the text states as the root task makes them: the fault endpoint, and
//! the guard that makes paths 64 bits long. A server decides the levels of IO page tables when it maps them; the text gives the
//! leaf's. Initial contents of frames are in the image, not in the text.

use crate::layout::rights::{GRANT, GRANT_REPLY, READ, WRITE};
use crate::layout::{LARGE_PAGE, PAGE};
use capdl_spec::{Component, Mapping, Object, ObjectId, ObjectKind, ROOT_BITS, Specification};
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// The supervisor's endpoint, to which faults go; not an object of the specification.
const FAULT_ENDPOINT: &str = "root-task.fault";
/// Slot of a thread's bound notification, by the capDL tools' numbering.
const BOUND_NOTIFICATION_SLOT: u64 = 8;

/// Returns the capDL text of a system.
#[must_use]
pub fn text(specification: &Specification) -> String {
    let mut text = String::new();
    // Writing to a string has no way to fail.
    let _infallible = write_all(&mut text, specification);
    text
}

fn write_all(out: &mut String, specification: &Specification) -> fmt::Result {
    writeln!(out, "-- {}", specification.name)?;
    writeln!(out, "arch {}\n\nobjects {{\n", specification.arch)?;
    writeln!(out, "  {FAULT_ENDPOINT} = ep")?;
    for (object, id) in specification.objects.iter().zip(0..) {
        write_object(out, specification, object, id)?;
    }
    writeln!(out, "\n}} caps {{\n")?;
    for component in &specification.components {
        write_thread(out, specification, component)?;
        write_cspace(out, specification, component)?;
        write_vspace(out, specification, component)?;
    }
    writeln!(out, "}}")
}

fn object(specification: &Specification, id: ObjectId) -> &Object {
    &specification.objects[id as usize]
}

/// Writes an object's declaration. Arrays at physical addresses are written element by element, because each element has its
/// own address.
fn write_object(out: &mut String, specification: &Specification, object: &Object, id: ObjectId) -> fmt::Result {
    let Object { name, kind, count, .. } = object;
    if let Some((paddr, bytes)) = device(*kind) {
        for index in 0..u64::from(*count) {
            let name = element(object, index);
            let paddr = paddr + index * bytes;
            match kind {
                ObjectKind::DeviceUntyped { size_bits, .. } => {
                    writeln!(out, "  {name} = ut ({size_bits} bits, paddr: {paddr:#x})")?
                }
                ObjectKind::SmallDeviceFrame { .. } => writeln!(out, "  {name} = frame (4k, paddr: {paddr:#x})")?,
                _ => writeln!(out, "  {name} = frame (2M, paddr: {paddr:#x})")?,
            }
        }
        return Ok(());
    }
    let kind = match *kind {
        // The language knows these two by name.
        ObjectKind::IrqControl | ObjectKind::IoSpaceMaster => return Ok(()),
        ObjectKind::Tcb => thread_type(specification, id),
        ObjectKind::Untyped { size_bits } => format!("ut ({size_bits} bits)"),
        ObjectKind::CNode { size_bits } => format!("cnode ({size_bits} bits)"),
        ObjectKind::IoPorts { first, last } => format!("io_ports (ports: [{first:#x}..{last:#x}])"),
        ObjectKind::Endpoint => "ep".into(),
        ObjectKind::Notification => "notification".into(),
        ObjectKind::VSpace => "pml4".into(),
        ObjectKind::TranslationTable { level: 1 } => "pdpt".into(),
        ObjectKind::TranslationTable { level: 2 } => "pd".into(),
        ObjectKind::TranslationTable { .. } => "pt".into(),
        ObjectKind::IoPageTable => "io_pt (level: 3)".into(),
        ObjectKind::SmallFrame | ObjectKind::SmallDeviceFrame { .. } => "frame (4k)".into(),
        ObjectKind::LargeFrame | ObjectKind::LargeDeviceFrame { .. } => "frame (2M)".into(),
        ObjectKind::DeviceUntyped { size_bits, .. } => format!("ut ({size_bits} bits)"),
    };
    let array = if *count > 1 { format!("[{count}]") } else { String::new() };
    writeln!(out, "  {name}{array} = {kind}")
}

/// Address and size of a device object.
fn device(kind: ObjectKind) -> Option<(u64, u64)> {
    match kind {
        ObjectKind::DeviceUntyped { paddr, size_bits } => Some((paddr, 1 << size_bits)),
        ObjectKind::SmallDeviceFrame { paddr } => Some((paddr, PAGE)),
        ObjectKind::LargeDeviceFrame { paddr } => Some((paddr, LARGE_PAGE)),
        _ => None,
    }
}

fn thread_type(specification: &Specification, id: ObjectId) -> String {
    let Some(component) = specification.components.iter().find(|component| component.tcb == id) else {
        return "tcb".into();
    };
    let Component { priority, entry, stack_pointer, ipc_buffer_vaddr, environment_vaddr, .. } = component;
    format!(
        "tcb (addr: {ipc_buffer_vaddr:#x}, ip: {entry:#x}, sp: {stack_pointer:#x}, prio: {priority}, \
         fault_ep: {:#x}, init: [{environment_vaddr:#x}])",
        component.fault_path()
    )
}

/// Name of element `index` of an object's array.
fn element(object: &Object, index: u64) -> String {
    match object.count {
        1 => object.name.clone(),
        _ if device(object.kind).is_some() => format!("{}.{index}", object.name),
        _ => format!("{}[{index}]", object.name),
    }
}

fn write_thread(out: &mut String, specification: &Specification, component: &Component) -> fmt::Result {
    let name = |id: ObjectId| object(specification, id).name.as_str();
    writeln!(out, "  {} {{", name(component.tcb))?;
    let above = if component.root.is_some() {
        "guard: 0, guard_size: 0".into()
    } else {
        guard(specification, component.cnode, 0)
    };
    writeln!(out, "    cspace: {} ({above})", name(component.cspace()))?;
    writeln!(out, "    vspace: {}", name(component.vspace))?;
    writeln!(out, "    ipc_buffer_slot: {} (RW)", name(component.ipc_buffer))?;
    if let Some(notification) = component.bound_notification {
        writeln!(out, "    {BOUND_NOTIFICATION_SLOT:#x}: {} (R)", name(notification))?;
    }
    writeln!(out, "  }}\n")
}

/// The guard that makes paths through this CNode 64 bits, of which `above` select a slot in the one above it.
fn guard(specification: &Specification, cnode: ObjectId, above: u8) -> String {
    match object(specification, cnode).kind {
        ObjectKind::CNode { size_bits } => format!("guard: 0, guard_size: {}", (64 - above).saturating_sub(size_bits)),
        _ => "guard: 0, guard_size: 0".into(),
    }
}

fn write_cspace(out: &mut String, specification: &Specification, component: &Component) -> fmt::Result {
    writeln!(out, "  {} {{", object(specification, component.cspace()).name)?;
    if component.root.is_some() {
        let cnode = &object(specification, component.cnode).name;
        writeln!(out, "    0x0: {cnode} ({})", guard(specification, component.cnode, ROOT_BITS))?;
    }
    writeln!(out, "    {:#x}: {FAULT_ENDPOINT} (WP, badge: {:#x})", component.fault_slot, component.id)?;
    if component.root.is_some() {
        writeln!(out, "  }}\n\n  {} {{", object(specification, component.cnode).name)?;
    }
    for run in specification.caps.iter().filter(|run| run.cnode == component.cnode) {
        let target = object(specification, run.object);
        let params = cap_params(specification, run.object, run.badge, run.rights);
        write_references(out, run.cptr, target, 0..u64::from(target.count), &params)?;
    }
    writeln!(out, "  }}\n")
}

fn cap_params(specification: &Specification, id: ObjectId, badge: u64, rights: u8) -> String {
    match object(specification, id).kind {
        ObjectKind::Endpoint | ObjectKind::Notification if badge != 0 => {
            format!(" ({}, badge: {badge:#x})", letters(rights))
        }
        ObjectKind::Endpoint
        | ObjectKind::Notification
        | ObjectKind::SmallFrame
        | ObjectKind::LargeFrame
        | ObjectKind::SmallDeviceFrame { .. }
        | ObjectKind::LargeDeviceFrame { .. } => format!(" ({})", letters(rights)),
        ObjectKind::CNode { .. } => format!(" ({})", guard(specification, id, 0)),
        ObjectKind::IoPorts { first, last } => format!(" (ports: [{first:#x}..{last:#x}])"),
        _ => String::new(),
    }
}

fn letters(rights: u8) -> String {
    [(READ, 'R'), (WRITE, 'W'), (GRANT, 'G'), (GRANT_REPLY, 'P')]
        .iter()
        .filter(|(bit, _)| rights & bit != 0)
        .map(|(_, letter)| *letter)
        .collect()
}

/// Writes the elements `range` of an array into consecutive slots from `slot` on.
fn write_references(
    out: &mut String,
    slot: u64,
    target: &Object,
    range: std::ops::Range<u64>,
    params: &str,
) -> fmt::Result {
    match target.kind {
        ObjectKind::IrqControl => writeln!(out, "    {slot:#x}: irq_control"),
        ObjectKind::IoSpaceMaster => writeln!(out, "    {slot:#x}: io_space_master"),
        kind if device(kind).is_some() || target.count == 1 => {
            for (index, slot) in range.zip(slot..) {
                writeln!(out, "    {slot:#x}: {}{params}", element(target, index))?;
            }
            Ok(())
        }
        _ if range.end - range.start == 1 => writeln!(out, "    {slot:#x}: {}[{}]{params}", target.name, range.start),
        _ => writeln!(out, "    {slot:#x}: {}[{}..{}]{params}", target.name, range.start, range.end - 1),
    }
}

/// Contents of consecutive slots of a paging structure: elements of one array.
struct Entry<'a> {
    slot: u64,
    target: &'a Object,
    range: std::ops::Range<u64>,
    params: &'static str,
}

/// The levels of a VSpace: kind, and log2 of the bytes that one slot covers.
const LEVELS: [(ObjectKind, u32); 4] = [
    (ObjectKind::VSpace, 39),
    (ObjectKind::TranslationTable { level: 1 }, 30),
    (ObjectKind::TranslationTable { level: 2 }, 21),
    (ObjectKind::TranslationTable { level: 3 }, 12),
];

fn write_vspace(out: &mut String, specification: &Specification, component: &Component) -> fmt::Result {
    let own: Vec<&Mapping> =
        specification.mappings.iter().filter(|mapping| mapping.vspace == component.vspace).collect();
    for (level, slot_bits) in LEVELS {
        // The structures of this level, by the first address that each covers.
        let mut structures: BTreeMap<u64, String> = BTreeMap::new();
        if level == ObjectKind::VSpace {
            structures.insert(0, object(specification, component.vspace).name.clone());
        }
        for mapping in own.iter().filter(|mapping| object(specification, mapping.object).kind == level) {
            let target = object(specification, mapping.object);
            let covers = 1u64 << (slot_bits + 9);
            let elements =
                (0..u64::from(target.count)).map(|index| (mapping.vaddr + index * covers, element(target, index)));
            structures.extend(elements);
        }
        for (base, name) in structures {
            writeln!(out, "  {name} {{")?;
            for Entry { slot, target, range, params } in entries(specification, &own, base, slot_bits) {
                write_references(out, slot, target, range, params)?;
            }
            writeln!(out, "  }}\n")?;
        }
    }
    Ok(())
}

/// Returns the entries of the structure that covers 512 times 2^`slot_bits` bytes from `base` on.
fn entries<'a>(specification: &'a Specification, own: &[&Mapping], base: u64, slot_bits: u32) -> Vec<Entry<'a>> {
    let end = base.saturating_add(1 << (slot_bits + 9));
    let mut entries = Vec::new();
    for mapping in own {
        let target = object(specification, mapping.object);
        if covered_bits(target.kind) != Some(slot_bits) {
            continue;
        }
        let element_at =
            |address: u64| address.saturating_sub(mapping.vaddr).div_ceil(1 << slot_bits).min(u64::from(target.count));
        let range = element_at(base)..element_at(end);
        if !range.is_empty() {
            let slot = mapping.vaddr.saturating_sub(base) >> slot_bits;
            entries.push(Entry { slot, target, range, params: page_params(target.kind, mapping) });
        }
    }
    entries.sort_by_key(|entry| entry.slot);
    entries
}

/// log2 of the bytes that a mapped object covers.
const fn covered_bits(kind: ObjectKind) -> Option<u32> {
    match kind {
        ObjectKind::TranslationTable { level: 1 } => Some(39),
        ObjectKind::TranslationTable { level: 2 } => Some(30),
        ObjectKind::TranslationTable { level: 3 } | ObjectKind::LargeFrame | ObjectKind::LargeDeviceFrame { .. } => {
            Some(21)
        }
        ObjectKind::SmallFrame | ObjectKind::SmallDeviceFrame { .. } => Some(12),
        _ => None,
    }
}

const fn page_params(kind: ObjectKind, mapping: &Mapping) -> &'static str {
    match kind {
        ObjectKind::SmallDeviceFrame { .. } | ObjectKind::LargeDeviceFrame { .. } if mapping.writable => {
            " (RW, uncached)"
        }
        ObjectKind::SmallDeviceFrame { .. } | ObjectKind::LargeDeviceFrame { .. } => " (R, uncached)",
        ObjectKind::SmallFrame | ObjectKind::LargeFrame => match (mapping.writable, mapping.executable) {
            (true, true) => " (RWX)",
            (true, false) => " (RW)",
            (false, true) => " (RX)",
            (false, false) => " (R)",
        },
        _ => "",
    }
}

#[cfg(test)]
mod tests;
