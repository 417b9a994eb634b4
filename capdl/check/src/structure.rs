//! Rules about the accounting of a system: each number, cptr and address is given out once, and everything that a thread starts
//! with is mapped.

use super::{Rule, System};
use crate::layout::{FAULT_SLOT, LARGE_PAGE, frame_bytes};
use capdl_spec::{CapRun, Component, Mapping, ObjectId, ObjectKind, ROOT_BITS};
use std::collections::BTreeMap;

/// The end of user space on x86_64: the first address above it.
const USER_END: u64 = 1 << 47;

/// Levels of paging structures: the kind, its name in refusals, and log2 of the bytes that one structure covers.
const LEVELS: [(ObjectKind, &str, u32); 3] = [
    (ObjectKind::TranslationTable { level: 1 }, "table of level 1", 39),
    (ObjectKind::TranslationTable { level: 2 }, "table of level 2", 30),
    (ObjectKind::TranslationTable { level: 3 }, "table of level 3", 21),
];

/// The range of a mapping: first address, end, and the mapped object; an arena has the number of no object.
type Span = (u64, u64, ObjectId);

impl System<'_> {
    /// Checks the numbers, cptrs, addresses and starts of all components.
    pub(super) fn structure(&mut self) {
        self.numbers();
        self.for_nobody();
        for index in self.indices() {
            self.cptrs(index);
            self.address_space(index);
            self.start(index);
        }
    }

    fn numbers(&mut self) {
        let mut numbers = BTreeMap::new();
        for index in self.indices() {
            let (id, who) = (self.specification.components[index].id, self.who(index));
            if id == 0 {
                self.refuse(Rule::WellFormed, format!("{who} has the number 0, which is no badge of its faults"));
            }
            if let Some(other) = numbers.insert(id, index) {
                let other = self.who(other);
                self.refuse(Rule::WellFormed, format!("{other} and {who} have the same number {id}"));
            }
        }
    }

    /// Refuses mappings into no component's VSpace and capabilities in no component's CSpace: no other rule sees them.
    fn for_nobody(&mut self) {
        let components = &self.specification.components;
        let name = |object: ObjectId| &self.object(object).name;
        let mut paths = Vec::new();
        for Mapping { vspace, object, .. } in &self.specification.mappings {
            if !components.iter().any(|component| component.vspace == *vspace) {
                paths.push(format!(
                    "{} is mapped into {}, which is no component's VSpace",
                    name(*object),
                    name(*vspace)
                ));
            }
        }
        for CapRun { cnode, object, .. } in &self.specification.caps {
            if !components.iter().any(|component| component.cnode == *cnode) {
                paths.push(format!("{} is put into {}, which is no component's CSpace", name(*object), name(*cnode)));
            }
        }
        for path in paths {
            self.refuse(Rule::WellFormed, path);
        }
    }

    fn cptrs(&mut self, index: usize) {
        let (who, component) = (self.who(index), &self.specification.components[index]);
        let ObjectKind::CNode { size_bits } = self.object(component.cnode).kind else {
            return self.refuse(Rule::WellFormed, format!("{who} has a CSpace that is no CNode"));
        };
        let end = 1u64.checked_shl(size_bits.into()).unwrap_or(0);
        let mut paths = Vec::new();
        if component.root.is_some_and(|root| self.object(root).kind != ObjectKind::CNode { size_bits: ROOT_BITS }) {
            paths.push(format!("{who} has above its CNode something else than a CNode of {} slots", 1 << ROOT_BITS));
        }
        if component.fault_slot != FAULT_SLOT {
            paths.push(format!("{who} has its fault endpoint in slot {}, not {FAULT_SLOT}", component.fault_slot));
        }
        let own = self.specification.caps.iter().filter(|run| run.cnode == component.cnode);
        let mut runs: Vec<Span> = own
            .map(|run| (run.cptr, run.cptr.saturating_add(self.object(run.object).count.into()), run.object))
            .collect();
        runs.sort_unstable();
        for (first, last, object) in &runs {
            let name = &self.object(*object).name;
            if *first == 0 || *last > end {
                paths.push(format!("{who} has {name} at cptr {first}, outside of its CNode of {end} slots"));
            }
            if (*first..*last).contains(&component.fault_slot) {
                paths.push(format!("{who} has {name} at cptr {first}, where its fault endpoint lies"));
            }
        }
        for (one, other) in overlaps(&runs) {
            let (one, other) = (&self.object(one).name, &self.object(other).name);
            paths.push(format!("{who} has {one} and {other} at the same cptr"));
        }
        for path in paths {
            self.refuse(Rule::WellFormed, path);
        }
    }

    fn address_space(&mut self, index: usize) {
        let (who, component) = (self.who(index), &self.specification.components[index]);
        let mut paths = Vec::new();
        let mut frames: Vec<Span> = Vec::new();
        let mut levels: [Vec<Span>; 3] = Default::default();
        for mapping in self.specification.mappings.iter().filter(|mapping| mapping.vspace == component.vspace) {
            let object = self.object(mapping.object);
            let level = LEVELS.iter().position(|(kind, ..)| *kind == object.kind);
            let unit = level.map_or_else(|| frame_bytes(object.kind), |level| Some(1 << LEVELS[level].2));
            let Some(unit) = unit else {
                paths.push(format!("{who} maps {} at {:#x}, which cannot be mapped", object.name, mapping.vaddr));
                continue;
            };
            let end = mapping.vaddr.checked_add(unit.saturating_mul(object.count.into()));
            let Some(end) = end.filter(|end| *end <= USER_END && mapping.vaddr.is_multiple_of(unit)) else {
                paths.push(format!(
                    "{who} maps {} at {:#x}, unaligned or beyond the end of its address space",
                    object.name, mapping.vaddr
                ));
                continue;
            };
            let spans = level.map_or(&mut frames, |level| &mut levels[level]);
            spans.push((mapping.vaddr, end, mapping.object));
        }
        for (first, end, arena) in self.arenas(index) {
            if first == end || !first.is_multiple_of(LARGE_PAGE) || !end.is_multiple_of(LARGE_PAGE) {
                paths.push(format!(
                    "{who} has an arena from {first:#x} to {end:#x}, which are no whole tables of level 3"
                ));
            }
            frames.push((first, end, arena));
        }
        frames.sort_unstable();
        levels.iter_mut().for_each(|spans| spans.sort_unstable());
        let name = |object: ObjectId| {
            let object = self.specification.objects.get(object as usize);
            object.map_or("an arena", |object| object.name.as_str())
        };
        for (one, other) in levels.iter().chain([&frames]).flat_map(|spans| overlaps(spans)) {
            paths.push(format!("the mappings of {} and {} by {who} overlap", name(one), name(other)));
        }
        for (first, end, object) in &frames {
            let large = self.specification.objects.get(*object as usize).is_some_and(|object| is_large(object.kind));
            let needed = if large { 2 } else { 3 };
            let missing = levels.iter().zip(LEVELS).take(needed).find(|(spans, _)| !covers(spans, *first, *end));
            if let Some((_, (_, level, _))) = missing {
                paths.push(format!("{who} maps {} at {first:#x} without a {level} for all of it", name(*object)));
            }
        }
        for path in paths {
            self.refuse(Rule::WellFormed, path);
        }
    }

    /// The ranges in which pages will be mapped at run time.
    fn arenas(&self, index: usize) -> Vec<Span> {
        let regions = self.environments[index].iter().flat_map(|environment| &environment.regions);
        let arenas = regions.filter(|region| region.kind == platform::RegionKind::Arena);
        let span = |region: &platform::Region| {
            (region.vaddr.bits(), region.vaddr.bits().saturating_add(region.len), ObjectId::MAX)
        };
        arenas.map(span).collect()
    }

    /// Checks that a thread starts in code, on a stack.
    fn start(&mut self, index: usize) {
        let (who, Component { entry, stack_pointer, .. }) =
            (self.who(index), self.specification.components[index].clone());
        let lies_in = |vaddr: u64, fits: fn(&Mapping) -> bool| {
            self.frames[index].iter().any(|mapping| {
                let object = self.object(mapping.object);
                let bytes = frame_bytes(object.kind).unwrap_or(0).saturating_mul(object.count.into());
                fits(mapping) && vaddr.checked_sub(mapping.vaddr).is_some_and(|offset| offset < bytes)
            })
        };
        let (starts, stands) =
            (lies_in(entry, |mapping| mapping.executable), lies_in(stack_pointer, |mapping| mapping.writable));
        if !starts {
            self.refuse(Rule::WellFormed, format!("{who} starts at {entry:#x}, where it has no code"));
        }
        if !stands {
            let path = format!("{who} has its stack at {stack_pointer:#x}, where it can write nothing");
            self.refuse(Rule::WellFormed, path);
        }
    }
}

/// Whether frames of this kind lie directly in a page directory.
const fn is_large(kind: ObjectKind) -> bool {
    matches!(kind, ObjectKind::LargeFrame | ObjectKind::LargeDeviceFrame { .. })
}

/// Neighbours of `sorted` that overlap.
fn overlaps(sorted: &[Span]) -> Vec<(ObjectId, ObjectId)> {
    let mut found = Vec::new();
    let mut reach: Option<Span> = None;
    for span in sorted {
        if let Some((_, end, object)) = reach.filter(|(_, end, _)| *end > span.0) {
            found.push((object, span.2));
            reach = Some(if end > span.1 { (span.0, end, object) } else { *span });
        } else {
            reach = Some(*span);
        }
    }
    found
}

/// Whether `sorted` spans cover all from `first` to `end`.
fn covers(sorted: &[Span], first: u64, end: u64) -> bool {
    let covered =
        sorted.iter().fold(first, |covered, (from, to, _)| if *from <= covered { covered.max(*to) } else { covered });
    covered >= end
}
