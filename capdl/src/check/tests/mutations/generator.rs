//! Changes one thing in a system, as a mistake in the builder or a change to the specification by hand could.

use super::configurations::configuration;
use crate::check::tests::{Image, reconfigure};
use capdl_spec::{
    CapRun, Component, Fill, Kill, Mapping, Object, ObjectId, ObjectKind, RestartPolicy, Role, Specification,
    TeardownAck,
};
use fastrand::Rng;
use platform::{CPtr, Environment, Vaddr};

/// A system that was changed, and how.
pub(super) struct Mutant {
    pub(super) image: Image,
    pub(super) what: String,
}

/// The system with one thing changed, as `seed` says; `None` if the change had no effect.
pub(super) fn mutate(valid: &Image, seed: u64) -> Option<Mutant> {
    let mut chance = Rng::with_seed(seed);
    let mut image = valid.clone();
    let what = match chance.u32(0..30) {
        0..=6 => capability(&mut image, &mut chance),
        7..=10 => mapping(&mut image, &mut chance),
        11..=12 => object(&mut image, &mut chance),
        13..=17 => component(&mut image, &mut chance),
        18..=19 => environment(&mut image, &mut chance)?,
        20 => announcement(&mut image, &mut chance),
        _ => configuration(&mut image, &mut chance)?,
    };
    (image.specification != valid.specification || image.data != valid.data).then_some(Mutant { image, what })
}

/// Draws a member of `all`.
fn any<'a, T>(all: &'a [T], chance: &mut Rng) -> &'a T {
    &all[chance.usize(..all.len())]
}

/// An object, more often than not of the kind that `like` is of.
fn any_object(image: &Image, like: ObjectId, chance: &mut Rng) -> ObjectId {
    let kind = std::mem::discriminant(&image.objects[like as usize].kind);
    let alike: Vec<ObjectId> = (0..image.objects.len() as ObjectId)
        .filter(|id| std::mem::discriminant(&image.objects[*id as usize].kind) == kind)
        .collect();
    if chance.u8(0..4) == 0 { chance.u32(..image.objects.len() as u32) } else { *any(&alike, chance) }
}

/// A number near `is`, or one of those that are special, or any.
fn any_number(is: u64, chance: &mut Rng) -> u64 {
    match chance.u8(0..6) {
        0 => is.wrapping_add(1),
        1 => is.wrapping_sub(1),
        2 => is ^ 1 << chance.u32(0..64),
        3 => *any(&[0, 1, 2, 3, 1 << 27, 1 << 28, 1 << 62, 1 << 63, u64::MAX], chance),
        4 => chance.u64(0..64),
        _ => chance.u64(..),
    }
}

/// An address near `is`, where something is mapped, or any page.
fn any_vaddr(image: &Image, is: u64, chance: &mut Rng) -> u64 {
    match chance.u8(0..6) {
        0 => is.wrapping_add(0x1000),
        1 => is.wrapping_sub(0x1000),
        2 => is.wrapping_add(1 << 21),
        3 => any(&image.mappings, chance).vaddr,
        4 => chance.u64(0..1 << 35) << 12,
        _ => any_number(is, chance),
    }
}

fn capability(image: &mut Image, chance: &mut Rng) -> String {
    let at = chance.usize(..image.caps.len());
    let other = chance.usize(..image.caps.len());
    let (before, theirs) = (image.caps[at].clone(), image.caps[other].clone());
    let mut after = before.clone();
    match chance.u8(0..12) {
        0 | 1 => after.object = any_object(image, before.object, chance),
        2 => after.rights = chance.u8(0..16),
        3 => after.rights ^= 1 << chance.u8(0..4),
        4 => after.badge = any_number(before.badge, chance),
        5 => after.badge = theirs.badge,
        6 => after.cptr = if chance.bool() { theirs.cptr } else { any_number(before.cptr, chance) },
        7 => after.cnode = theirs.cnode,
        8 => {
            image.caps.remove(at);
            return format!("no capability {before:?}");
        }
        9 => {
            let cptr = if chance.bool() { chance.u64(0..64) } else { theirs.cptr };
            let planted = CapRun { cnode: theirs.cnode, cptr, ..before };
            image.caps.push(planted.clone());
            return format!("a further capability {planted:?}");
        }
        10 => {
            let (badge, cptr) = (any_number(before.badge, chance), chance.u64(0..64));
            let object = chance.u32(..image.objects.len() as u32);
            let planted = CapRun { cnode: before.cnode, cptr, object, badge, rights: chance.u8(0..16) };
            image.caps.push(planted.clone());
            return format!("a further capability {planted:?}");
        }
        _ => {
            // Exchanged: between two of one component, or of one object.
            let alike = |run: &CapRun| run.cnode == before.cnode || run.object == before.object;
            let with: Vec<usize> = (0..image.caps.len()).filter(|index| alike(&image.caps[*index])).collect();
            let with = *any(&with, chance);
            let theirs = image.caps[with].clone();
            if before.cnode == theirs.cnode {
                (image.caps[at].object, image.caps[with].object) = (theirs.object, before.object);
            } else {
                (image.caps[at].badge, image.caps[with].badge) = (theirs.badge, before.badge);
            }
            return format!("exchanged {before:?} and {theirs:?}");
        }
    }
    image.caps[at] = after.clone();
    format!("capability {before:?} as {after:?}")
}

fn mapping(image: &mut Image, chance: &mut Rng) -> String {
    let at = chance.usize(..image.mappings.len());
    let other = chance.usize(..image.mappings.len());
    let (before, theirs) = (image.mappings[at], image.mappings[other]);
    let mut after = before;
    match chance.u8(0..9) {
        0 | 1 => after.object = any_object(image, before.object, chance),
        2 => after.vspace = theirs.vspace,
        3 => after.vaddr = any_vaddr(image, before.vaddr, chance),
        4 => after.writable = !before.writable,
        5 => after.executable = !before.executable,
        6 => {
            image.mappings.remove(at);
            return format!("no mapping {before:x?}");
        }
        7 => {
            let vaddr = any_vaddr(image, before.vaddr, chance);
            let planted = Mapping { vspace: theirs.vspace, vaddr, writable: chance.bool(), ..before };
            image.mappings.push(planted);
            return format!("a further mapping {planted:x?}");
        }
        _ => {
            (image.mappings[at].object, image.mappings[other].object) = (theirs.object, before.object);
            return format!("exchanged {before:x?} and {theirs:x?}");
        }
    }
    image.mappings[at] = after;
    format!("mapping {before:x?} as {after:x?}")
}

fn any_kind(is: ObjectKind, chance: &mut Rng) -> ObjectKind {
    let near = |number: u64, chance: &mut Rng| any_number(number, chance);
    match is {
        ObjectKind::IoPorts { first, last } if chance.u8(0..4) != 0 => match chance.u8(0..4) {
            0 => ObjectKind::IoPorts { first: 0xcf8, last: 0xcff },
            1 => ObjectKind::IoPorts { first: near(first.into(), chance) as u16, last },
            _ => ObjectKind::IoPorts { first, last: near(last.into(), chance) as u16 },
        },
        ObjectKind::DeviceUntyped { paddr, size_bits } if chance.u8(0..4) != 0 => {
            if chance.bool() {
                ObjectKind::DeviceUntyped { paddr: near(paddr, chance), size_bits }
            } else {
                ObjectKind::DeviceUntyped { paddr, size_bits: near(size_bits.into(), chance) as u8 }
            }
        }
        ObjectKind::LargeDeviceFrame { paddr } if chance.u8(0..4) != 0 => {
            ObjectKind::LargeDeviceFrame { paddr: near(paddr, chance) }
        }
        ObjectKind::CNode { size_bits } if chance.u8(0..4) != 0 => {
            ObjectKind::CNode { size_bits: near(size_bits.into(), chance) as u8 }
        }
        _ => *any(
            &[
                ObjectKind::Untyped { size_bits: 20 },
                ObjectKind::DeviceUntyped { paddr: 0xfee0_0000, size_bits: 12 },
                ObjectKind::Endpoint,
                ObjectKind::Notification,
                ObjectKind::CNode { size_bits: 8 },
                ObjectKind::Tcb,
                ObjectKind::VSpace,
                ObjectKind::TranslationTable { level: 1 },
                ObjectKind::TranslationTable { level: 2 },
                ObjectKind::TranslationTable { level: 3 },
                ObjectKind::SmallFrame,
                ObjectKind::LargeFrame,
                ObjectKind::SmallDeviceFrame { paddr: 0xfed0_0000 },
                ObjectKind::LargeDeviceFrame { paddr: 0xb000_0000 },
                ObjectKind::IoPageTable,
                ObjectKind::IoPorts { first: 0xcf8, last: 0xcff },
                ObjectKind::IrqControl,
                ObjectKind::IoSpaceMaster,
            ],
            chance,
        ),
    }
}

fn object(image: &mut Image, chance: &mut Rng) -> String {
    let at = chance.usize(..image.objects.len());
    let other = any(&image.specification.objects, chance).clone();
    let before = image.objects[at].clone();
    let mut after = before.clone();
    match chance.u8(0..8) {
        0..=2 => after.kind = any_kind(before.kind, chance),
        3 => after.count = any_number(before.count.into(), chance) as u32,
        4 => after.fill = other.fill,
        5 => {
            let offset = any_number(before.fill.map_or(0, |fill| fill.offset), chance);
            let fill = before.fill.unwrap_or(Fill { offset, len: 4096, skip: 0 });
            after.fill = Some(*any(
                &[
                    Fill { offset, ..fill },
                    Fill { len: any_number(fill.len, chance), ..fill },
                    Fill { skip: any_number(fill.skip.into(), chance) as u16, ..fill },
                ],
                chance,
            ));
        }
        6 => after.name = other.name,
        _ => {
            // Another's of the same use, or another use of the same owner's.
            let (Some((owner, part)), Some((other, use_))) = (before.name.split_once('.'), other.name.split_once('.'))
            else {
                return "nothing".into();
            };
            after.name = if chance.bool() { format!("{other}.{part}") } else { format!("{owner}.{use_}") };
        }
    }
    image.objects[at] = after.clone();
    let show = |Object { name, kind, count, fill }: &Object| format!("{name} {kind:x?} x {count} {fill:x?}");
    format!("object {} as {}", show(&before), show(&after))
}

fn component(image: &mut Image, chance: &mut Rng) -> String {
    let at = chance.usize(..image.components.len());
    let theirs = any(&image.specification.components, chance).clone();
    let before = image.components[at].clone();
    let mut after = before.clone();
    let frames = |like: ObjectId, chance: &mut Rng| any_object(image, like, chance);
    let Component { ipc_buffer: frame, .. } = before;
    let notification = theirs.tick.or(before.tick);
    let what = match chance.u8(0..29) {
        0 => {
            after.id = if chance.bool() { theirs.id } else { any_number(before.id.into(), chance) as u16 };
            "number"
        }
        1 => {
            after.name = if chance.bool() { theirs.name } else { format!("{}-{}", before.name, chance.u8(..)) };
            "name"
        }
        2..=4 => {
            after.priority = chance.u8(..);
            "priority"
        }
        5 => {
            after.tcb = frames(before.tcb, chance);
            "thread"
        }
        6 if chance.bool() => {
            after.cnode = frames(before.cnode, chance);
            "CSpace"
        }
        6 => {
            after.root = if chance.bool() { theirs.root } else { Some(frames(before.cnode, chance)) };
            "CNode above its own"
        }
        7 => {
            after.vspace = frames(before.vspace, chance);
            "VSpace"
        }
        8 | 9 => {
            after.ipc_buffer = frames(frame, chance);
            "IPC buffer"
        }
        10 => {
            after.ipc_buffer_vaddr = any_vaddr(image, before.ipc_buffer_vaddr, chance);
            "address of the IPC buffer"
        }
        11 => {
            after.fault_slot = any_number(before.fault_slot, chance);
            "fault slot"
        }
        12 => {
            after.bound_notification = notification.map(|like| frames(like, chance)).filter(|_| chance.bool());
            "bound notification"
        }
        13 => {
            after.tick = notification.map(|like| frames(like, chance)).filter(|_| chance.u8(0..4) != 0);
            "tick"
        }
        14 => {
            after.liveness = if chance.bool() { theirs.liveness } else { Some(frames(frame, chance)) };
            "liveness page"
        }
        15 => {
            after.keeps = if chance.bool() { theirs.keeps } else { Some(frames(frame, chance)) };
            "keeps"
        }
        16 => {
            after.restart = match before.restart {
                Some(policy) if chance.bool() => Some(RestartPolicy { times: chance.u16(..), ..policy }),
                Some(_) => None,
                None => Some(RestartPolicy { times: 1, within_ms: 1000 }),
            };
            "restart"
        }
        17 => {
            after.driver = if chance.bool() { theirs.driver } else { Some(chance.u8(0..4)) };
            "driver"
        }
        18 | 19 => {
            let teardown_ack =
                before.teardown_ack.or(theirs.teardown_ack).unwrap_or(TeardownAck { page: frame, session: 0 });
            after.teardown_ack = *any(
                &[
                    None,
                    theirs.teardown_ack,
                    Some(TeardownAck {
                        session: any_number(teardown_ack.session.into(), chance) as u32,
                        ..teardown_ack
                    }),
                    Some(TeardownAck { page: frames(teardown_ack.page, chance), ..teardown_ack }),
                ],
                chance,
            );
            "teardown acknowledgement"
        }
        20 => {
            after.entry = any_vaddr(image, before.entry, chance);
            "entry"
        }
        21 => {
            after.stack_pointer = any_vaddr(image, before.stack_pointer, chance);
            "stack"
        }
        22 => {
            after.ends_with = if chance.bool() { theirs.ends_with } else { Some(chance.u16(0..8)) };
            "end"
        }
        23 => {
            after.blocked = if chance.bool() { None } else { Some(frames(before.ipc_buffer, chance)) };
            "blocked"
        }
        27 => {
            after.program = theirs.program;
            "program"
        }
        26 => {
            after.frames = if chance.bool() { None } else { Some(frames(before.ipc_buffer, chance)) };
            "table of frames"
        }
        24 => {
            after.role = *any(&Role::ALL, chance);
            "role"
        }
        25 => {
            after.server = if chance.bool() { theirs.server } else { Some(chance.u16(0..8)) };
            "server"
        }
        _ => {
            after.environment_vaddr = any_vaddr(image, before.environment_vaddr, chance);
            "environment"
        }
    };
    image.components[at] = after.clone();
    format!("{what} of {}: {before:x?} as {after:x?}", before.name)
}

/// A kill or a moment.
fn announcement(image: &mut Image, chance: &mut Rng) -> String {
    let most = image.components.len() as u16 + 1;
    let Specification { kills, moments, .. } = &mut image.specification;
    match (kills.as_mut_slice(), moments.as_mut_slice()) {
        ([kill, ..], _) if chance.bool() => match chance.u8(0..3) {
            0 => kill.component = chance.u16(0..most),
            1 => kill.moment = chance.u16(..),
            _ => kill.times = chance.u32(..),
        },
        (_, [moment, ..]) if chance.bool() => match moment.needs.first_mut() {
            Some(need) if chance.bool() => need.component = chance.u16(0..most),
            Some(_) if chance.bool() => moment.needs.clear(),
            _ => moment.after_us = chance.u64(..),
        },
        _ => {
            let (component, moment) = (chance.u16(0..most), chance.u16(0..2));
            kills.push(Kill { component, moment, times: 1, every_us: 0, spread_us: 0 });
        }
    }
    format!("kills are {kills:?} and moments {moments:?}")
}

/// Changes a number of a component's environment.
fn environment(image: &mut Image, chance: &mut Rng) -> Option<String> {
    let who = any(&image.specification.components, chance).name.clone();
    let addresses: Vec<u64> = image.mappings.iter().map(|mapping| mapping.vaddr).collect();
    reconfigure(image, &who, |configured| {
        let what = change_environment(configured, *any(&addresses, chance), chance);
        format!("{what} in the environment of {who}: {configured:x?}")
    })
}

fn change_environment(configured: &mut Environment, address: u64, chance: &mut Rng) -> &'static str {
    let (cap, region) = (chance.usize(..configured.caps.len()), chance.usize(..configured.regions.len()));
    let (other_cap, other_region) = (chance.usize(..configured.caps.len()), chance.usize(..configured.regions.len()));
    match chance.u8(0..10) {
        0 => {
            configured.component = chance.u16(0..16);
            "number"
        }
        1 => {
            configured.caps[cap].first = CPtr::new(any_number(configured.caps[cap].first.bits(), chance));
            "cptr"
        }
        2 => {
            configured.caps[cap].count = any_number(configured.caps[cap].count.into(), chance) as u32;
            "cptrs"
        }
        3 => {
            (configured.caps[cap].first, configured.caps[other_cap].first) =
                (configured.caps[other_cap].first, configured.caps[cap].first);
            "two cptrs"
        }
        4 => {
            let near = any_number(configured.regions[region].vaddr.bits() >> 12, chance) << 12;
            configured.regions[region].vaddr = Vaddr::new(if chance.bool() { near } else { address });
            "address"
        }
        5 => {
            let (one, two) = (configured.regions[region].vaddr, configured.regions[other_region].vaddr);
            (configured.regions[region].vaddr, configured.regions[other_region].vaddr) = (two, one);
            "two addresses"
        }
        6 => {
            configured.regions[region].len = any_number(configured.regions[region].len, chance);
            "length"
        }
        7 => {
            configured.free_cptrs.start = any_number(configured.free_cptrs.start, chance);
            "free cptrs"
        }
        8 => {
            configured.free_cptrs.end = any_number(configured.free_cptrs.end, chance);
            "free cptrs"
        }
        _ => {
            configured.wait = configured.caps.get(cap).map(|caps| caps.first);
            "wait"
        }
    }
}
