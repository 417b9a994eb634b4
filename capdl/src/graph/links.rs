//! The connections between components, found in the objects: memory that two share, and capabilities that one holds to
//! another's objects.

use crate::layout::frame_bytes;
use crate::layout::rights::{READ, WRITE};
use capdl_spec::{Object, ObjectId, ObjectKind, Specification};
use platform::Badge;

/// How two components are connected.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    /// `from` calls an endpoint on which `to` receives.
    Call,
    /// `from` signals a notification `to` waits on.
    Signal,
    /// `from` writes memory that `to` reads.
    Shared,
    /// `from` holds frames that `to` has mapped.
    Frames,
    /// `from` controls the VSpace, CSpace or thread of `to`.
    Control,
}

impl Kind {
    /// The kind's name in the picture's marks.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Signal => "signal",
            Self::Shared => "shared",
            Self::Frames => "frames",
            Self::Control => "control",
        }
    }
}

/// A connection. Components by index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Link {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) kind: Kind,
    pub(super) label: String,
}

impl Link {
    /// Whether the connection runs between these two.
    pub(super) const fn joins(&self, one: usize, other: usize) -> bool {
        (self.from == one && self.to == other) || (self.from == other && self.to == one)
    }
}

/// A device or a group of like ones, and its holder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Device {
    pub(super) holder: usize,
    pub(super) name: String,
    pub(super) detail: String,
}

/// How components reach an object.
struct Reach {
    /// By capability: component, rights, badge.
    held: Vec<(usize, u8, u64)>,
    /// By mapping: component, writable.
    mapped: Vec<(usize, bool)>,
}

fn reach(specification: &Specification, id: ObjectId) -> Reach {
    let index_by = |fits: &dyn Fn(&capdl_spec::Component) -> bool| specification.components.iter().position(fits);
    let held = specification.caps.iter().filter(|run| run.object == id);
    let held =
        held.filter_map(|run| Some((index_by(&|component| component.cnode == run.cnode)?, run.rights, run.badge)));
    let mapped = specification.mappings.iter().filter(|mapping| mapping.object == id);
    let mapped = mapped
        .filter_map(|mapping| Some((index_by(&|component| component.vspace == mapping.vspace)?, mapping.writable)));
    Reach { held: held.collect(), mapped: mapped.collect() }
}

/// All connections, sorted by kind.
pub(super) fn links(specification: &Specification) -> Vec<Link> {
    let mut links = Vec::new();
    for (object, id) in specification.objects.iter().zip(0..) {
        let reach = reach(specification, id);
        match object.kind {
            ObjectKind::Endpoint => messages(Kind::Call, object, &reach, &mut links),
            ObjectKind::Notification => messages(Kind::Signal, object, &reach, &mut links),
            kind if frame_bytes(kind).is_some() => memory(object, &reach, &mut links),
            ObjectKind::VSpace | ObjectKind::Tcb | ObjectKind::CNode { .. } => {
                control(specification, id, &reach, &mut links)
            }
            _ => {}
        }
    }
    for link in &mut links {
        // The picture shows whose it is.
        let owners = [link.from, link.to].map(|end| format!("{}.", specification.components[end].name));
        if let Some(rest) = owners.iter().find_map(|owner| link.label.strip_prefix(owner.as_str())) {
            link.label = rest.to_owned();
        }
    }
    links.sort_by_key(|link| link.kind);
    links
}

/// Adds links from senders to receivers.
fn messages(kind: Kind, object: &Object, reach: &Reach, links: &mut Vec<Link>) {
    for (from, _, badge) in reach.held.iter().filter(|(_, rights, _)| rights & WRITE != 0) {
        for (to, ..) in reach.held.iter().filter(|(to, rights, _)| rights & READ != 0 && to != from) {
            let label = match kind {
                Kind::Call => format!("call, badge {badge}"),
                _ => format!("{}, {}", object.name, bits(*badge)),
            };
            links.push(Link { from: *from, to: *to, kind, label });
        }
    }
}

/// Adds links from writers to readers, and from holders of frames to the components that map them.
fn memory(object: &Object, reach: &Reach, links: &mut Vec<Link>) {
    let pages = format!("{} page{}", object.count, if object.count == 1 { "" } else { "s" });
    for (from, _) in reach.mapped.iter().filter(|(_, writable)| *writable) {
        for (to, _) in reach.mapped.iter().filter(|(to, _)| to != from) {
            let label = format!("{}, {pages}", object.name);
            links.push(Link { from: *from, to: *to, kind: Kind::Shared, label });
        }
    }
    for (from, ..) in &reach.held {
        for (to, _) in reach.mapped.iter().filter(|(to, _)| to != from) {
            let label = format!("{}, {} frames", object.name, object.count);
            links.push(Link { from: *from, to: *to, kind: Kind::Frames, label });
        }
    }
}

fn control(specification: &Specification, id: ObjectId, reach: &Reach, links: &mut Vec<Link>) {
    let owner = |component: &capdl_spec::Component| {
        [component.vspace, component.tcb, component.cnode, component.cspace()].contains(&id)
    };
    let Some(to) = specification.components.iter().position(owner) else { return };
    let label = match specification.objects[id as usize].kind {
        ObjectKind::VSpace => "VSpace, for BARs",
        ObjectKind::Tcb => "its thread",
        _ => "its CSpace",
    };
    for (from, ..) in reach.held.iter().filter(|(from, ..)| *from != to) {
        links.push(Link { from: *from, to, kind: Kind::Control, label: label.into() });
    }
}

/// A notification badge's bits, without the one they all have.
fn bits(badge: u64) -> String {
    let badge = badge & !Badge::SIGNAL;
    let numbers: Vec<String> = (0..63).filter(|bit| badge >> bit & 1 == 1).map(|bit| bit.to_string()).collect();
    if numbers.is_empty() { "no bit".into() } else { format!("bit {}", numbers.join(", ")) }
}

/// The devices by holder; like devices are one group.
pub(super) fn devices(specification: &Specification) -> Vec<Device> {
    let mut devices: Vec<(Device, u64, u64)> = Vec::new();
    for (object, id) in specification.objects.iter().zip(0..) {
        let Some((name, first, bytes)) = device(object) else { continue };
        let reach = reach(specification, id);
        let mut holders: Vec<usize> = reach
            .held
            .iter()
            .map(|(holder, ..)| *holder)
            .chain(reach.mapped.iter().map(|(holder, _)| *holder))
            .collect();
        holders.dedup();
        for holder in holders {
            let known = devices.iter_mut().find(|(device, ..)| device.holder == holder && device.name == name);
            match known {
                Some((_, _, end)) => *end = (*end).max(first + bytes),
                None => {
                    devices.push((Device { holder, name: name.clone(), detail: String::new() }, first, first + bytes))
                }
            }
        }
    }
    let detailed =
        devices.into_iter().map(|(device, first, end)| Device { detail: detail(&device.name, first, end), ..device });
    detailed.collect()
}

/// Name of the group, first address or port, and how many bytes or ports.
fn device(object: &Object) -> Option<(String, u64, u64)> {
    let count = u64::from(object.count);
    Some(match object.kind {
        ObjectKind::DeviceUntyped { paddr, size_bits } => ("PCI window".into(), paddr, count << size_bits),
        ObjectKind::SmallDeviceFrame { paddr } | ObjectKind::LargeDeviceFrame { paddr } => {
            let name = if object.name == "ecam" { "configuration" } else { &object.name };
            (name.into(), paddr, frame_bytes(object.kind)? * count)
        }
        ObjectKind::IoPorts { first, last } => ("serial port".into(), u64::from(first), u64::from(last - first) + 1),
        ObjectKind::IrqControl => ("interrupts".into(), 0, 0),
        ObjectKind::IoSpaceMaster => ("IOMMU".into(), 0, 0),
        _ => return None,
    })
}

fn detail(name: &str, first: u64, end: u64) -> String {
    match name {
        "interrupts" => "IRQControl".into(),
        "IOMMU" => "IOSpace master".into(),
        "serial port" => format!("I/O ports {first:#x} to {:#x}", end - 1),
        _ => format!("{first:#x}, {} MiB", (end - first) >> 20),
    }
}
