//! The abilities of everybody in a system, as facts of a small model of the kernel, the root task and the components' programs.
//!
//! Two systems with the same facts are the same for everybody in them. A property without a fact is harmless, and is listed
//! here:
//!
//! - Where in its address space a component has memory that nobody else reaches, and how many pages of it: its program alone
//!   finds it elsewhere, or short.
//! - The contents of such memory, where they are no program's: authority is what any program could do.
//! - Paging structures where nothing is mapped: behind them lies nothing.
//! - How often a component is started again: each time it has what it had before.
//! - Priorities as long as they leave everybody where it is against servers: among tenants they are the scenario's to say,
//!   and the console may be anywhere that is not above a server.
//! - Whether capabilities are reported: a test by declaration.

use capdl_spec::{CapRun, Component, Fill, Mapping, Object, ObjectId, ObjectKind, Specification};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Number of a component, by its place in the specification.
type Who = usize;

/// An object as a component reaches it: its name, kind and number, since all of them are part of what it gives.
type Thing = String;

/// Something that a component can do, or that is done for it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Fact {
    /// A capability under this address, with this badge and these rights: the component can name it.
    Names { who: Who, cptr: u64, thing: Thing, badge: u64, rights: u8 },
    /// The fault endpoint, and the badge of its faults.
    Faults { who: Who, cptr: u64, as_number: u16 },
    /// Memory at an address that others reach too or that the component's environment names.
    Sees { who: Who, vaddr: u64, thing: Thing, writes: bool, runs: bool },
    /// Memory that nobody else reaches.
    Owns { who: Who, thing: Thing, writes: bool, runs: bool },
    /// An arena with all paging structures under it.
    Arena { who: Who, vaddr: u64, len: u64 },
    /// The page from which the kernel takes long messages, and what the component sees there.
    Buffer { who: Who, vaddr: u64, kernels: Thing, own: Option<Thing> },
    /// By itself or through the CSpaces and threads that it controls: a thing, and how.
    Reaches { who: Who, thing: Thing, badge: u64, rights: u8 },
    /// The objects that it runs with.
    Thread { who: Who, tcb: Thing, cspace: Thing, vspace: Thing, bound: Option<Thing> },
    /// The component starts in its own code on its own stack.
    Starts { who: Who, in_code: bool, on_stack: bool },
    /// The objects that the supervisor ticks, writes, leaves unchanged and waits for.
    Supervised {
        who: Who,
        tick: Option<Thing>,
        liveness: Option<Thing>,
        keeps: Option<Thing>,
        torn_down: Option<(Thing, u32)>,
        again: bool,
        driver: Option<u8>,
        ends_with: Option<u16>,
        blocked: Option<Thing>,
        frames: Option<Thing>,
        presence: Option<Thing>,
        shown: Vec<Thing>,
    },
    /// The component's identity where it calls: the receiver, and the badge.
    Known { who: Who, by: Who, badge: u64 },
    /// The components that its signals wake, and with which bits.
    Wakes { who: Who, whom: Who, bits: u64 },
    /// The component's environment, by a hash.
    Configured { who: Who, name: String, hash: u64 },
    /// Against a server: below it, beside it, or above it.
    Order { who: Who, against: Who, is: Ordering },
}

/// All facts of a system that the root task builds from `specification` and `data`.
pub(super) fn facts(specification: &Specification, data: &[u8]) -> BTreeSet<Fact> {
    let model = Model::new(specification, data);
    let mut facts = BTreeSet::new();
    for who in 0..specification.components.len() {
        model.cspace(who, &mut facts);
        model.address_space(who, &mut facts);
        model.thread(who, &mut facts);
        model.others(who, &mut facts);
    }
    facts
}

struct Model<'a> {
    specification: &'a Specification,
    data: &'a [u8],
    /// The components that reach each object, by a mapping or a capability.
    reached_by: BTreeMap<ObjectId, BTreeSet<Who>>,
}

impl<'a> Model<'a> {
    fn new(specification: &'a Specification, data: &'a [u8]) -> Self {
        let mut reached_by: BTreeMap<ObjectId, BTreeSet<Who>> = BTreeMap::new();
        for (who, component) in specification.components.iter().enumerate() {
            let mapped = specification.mappings.iter().filter(|mapping| mapping.vspace == component.vspace);
            let held = specification.caps.iter().filter(|run| run.cnode == component.cnode);
            // The supervisor's pages are reached by one more.
            let configured = component
                .liveness
                .iter()
                .chain(&component.keeps)
                .chain(&component.blocked)
                .chain(&component.frames)
                .map(|page| (*page, usize::MAX));
            let configured =
                configured.chain(component.teardown_ack.map(|teardown_ack| (teardown_ack.page, usize::MAX)));
            let own =
                mapped.map(|mapping| mapping.object).chain(held.map(|run| run.object)).map(|object| (object, who));
            for (object, who) in own.chain(configured).chain([(component.ipc_buffer, who)]) {
                reached_by.entry(object).or_default().insert(who);
            }
        }
        Self { specification, data, reached_by }
    }

    fn component(&self, who: Who) -> &'a Component {
        &self.specification.components[who]
    }

    fn object(&self, id: ObjectId) -> &'a Object {
        &self.specification.objects[id as usize]
    }

    fn thing(&self, id: ObjectId) -> Thing {
        let Object { name, kind, count, .. } = self.object(id);
        format!("{name} ({kind:?} x {count})")
    }

    fn caps(&self, cnode: ObjectId) -> impl Iterator<Item = &'a CapRun> {
        self.specification.caps.iter().filter(move |run| run.cnode == cnode)
    }

    fn cspace(&self, who: Who, facts: &mut BTreeSet<Fact>) {
        let component = self.component(who);
        for CapRun { cptr, object, badge, rights, .. } in self.caps(component.cnode) {
            let thing = self.thing(*object);
            facts.insert(Fact::Names { who, cptr: *cptr, thing, badge: *badge, rights: *rights });
        }
        let (cptr, as_number) = (component.fault_path(), component.id);
        facts.insert(Fact::Faults { who, cptr, as_number });
        let mut cnodes = vec![component.cnode];
        let mut seen = BTreeSet::new();
        while let Some(cnode) = cnodes.pop() {
            if !seen.insert(cnode) {
                continue;
            }
            for CapRun { object, badge, rights, .. } in self.caps(cnode) {
                facts.insert(Fact::Reaches { who, thing: self.thing(*object), badge: *badge, rights: *rights });
                cnodes.extend(self.cspace_behind(*object));
            }
        }
    }

    /// The CNode itself, or that of a thread.
    fn cspace_behind(&self, object: ObjectId) -> Option<ObjectId> {
        match self.object(object).kind {
            ObjectKind::CNode { .. } => Some(object),
            ObjectKind::Tcb => {
                self.specification.components.iter().find(|component| component.tcb == object).map(|one| one.cnode)
            }
            _ => None,
        }
    }

    fn address_space(&self, who: Who, facts: &mut BTreeSet<Fact>) {
        let configured = self.environment(who);
        let regions = configured.as_ref().map(|(_, environment)| environment.regions.clone()).unwrap_or_default();
        for mapping in self.mapped(who) {
            let Mapping { vspace, object, vaddr, writable: writes, executable: runs } = *mapping;
            let Some(bytes) = bytes_of(self.object(object)) else { continue };
            let small =
                matches!(self.object(object).kind, ObjectKind::SmallFrame | ObjectKind::SmallDeviceFrame { .. });
            if !self.is_paged(vspace, vaddr, bytes, small) {
                continue;
            }
            let thing = self.thing(object);
            let is_configured = regions.iter().any(|region| region.vaddr.bits() == vaddr);
            let fact = if is_configured || self.reached_by.get(&object).is_some_and(|all| all.len() > 1) {
                Fact::Sees { who, vaddr, thing, writes, runs }
            } else {
                Fact::Owns { who, thing: self.object(object).name.clone(), writes, runs }
            };
            facts.insert(fact);
        }
        let vspace = self.component(who).vspace;
        for region in regions.iter().filter(|region| region.kind == platform::RegionKind::Arena) {
            let (vaddr, len) = (region.vaddr.bits(), region.len);
            if self.is_paged(vspace, vaddr, len, true) {
                facts.insert(Fact::Arena { who, vaddr, len });
            }
        }
        if let Some((bytes, environment)) = configured {
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            facts.insert(Fact::Configured { who, name: environment.name.as_str().to_owned(), hash: hasher.finish() });
        }
    }

    fn mapped(&self, who: Who) -> impl Iterator<Item = &'a Mapping> {
        let vspace = self.component(who).vspace;
        self.specification.mappings.iter().filter(move |mapping| mapping.vspace == vspace)
    }

    /// Whether structures of all levels lie under each page.
    fn is_paged(&self, vspace: ObjectId, vaddr: u64, bytes: u64, small: bool) -> bool {
        let levels: &[(ObjectKind, u64)] = &[
            (ObjectKind::TranslationTable { level: 1 }, 1 << 39),
            (ObjectKind::TranslationTable { level: 2 }, 1 << 30),
            (ObjectKind::TranslationTable { level: 3 }, 1 << 21),
        ];
        let needed = if small { levels } else { &levels[..2] };
        let Some(end) = vaddr.checked_add(bytes) else { return false };
        needed.iter().all(|(kind, unit)| {
            let first = vaddr / unit * unit;
            (first..end).step_by(*unit as usize).all(|at| self.is_structure(vspace, at, *kind, *unit))
        })
    }

    fn is_structure(&self, vspace: ObjectId, at: u64, kind: ObjectKind, unit: u64) -> bool {
        self.specification.mappings.iter().any(|mapping| {
            let object = self.object(mapping.object);
            let size = unit.saturating_mul(object.count.into());
            mapping.vspace == vspace
                && object.kind == kind
                && at.checked_sub(mapping.vaddr).is_some_and(|offset| offset < size)
        })
    }

    /// The environment that the component's program reads, as bytes and decoded.
    fn environment(&self, who: Who) -> Option<(Vec<u8>, platform::Environment)> {
        let here = self.component(who).environment_vaddr;
        let is_frame = |mapping: &&Mapping| bytes_of(self.object(mapping.object)).is_some() && mapping.vaddr == here;
        let Fill { offset, len, skip } = self.object(self.mapped(who).find(is_frame)?.object).fill?;
        let bytes = self.data.get(offset as usize..offset.checked_add(len)? as usize)?;
        let environment = postcard::from_bytes(bytes.get(8..)?).ok().filter(|_| skip == 0)?;
        Some((bytes.to_vec(), environment))
    }

    fn thread(&self, who: Who, facts: &mut BTreeSet<Fact>) {
        let Component { tcb, cnode, vspace, ipc_buffer, ipc_buffer_vaddr: vaddr, bound_notification, .. } =
            *self.component(who);
        let Component {
            tick,
            liveness,
            keeps,
            restart,
            driver,
            ends_with,
            blocked,
            frames,
            teardown_ack,
            presence,
            ..
        } = *self.component(who);
        let shown = self.component(who).shown.iter().map(|object| self.thing(*object)).collect();
        let thing = |object: Option<ObjectId>| object.map(|object| self.thing(object));
        let bound = thing(bound_notification);
        let (tcb, cspace, vspace) = (self.thing(tcb), self.thing(cnode), self.thing(vspace));
        facts.insert(Fact::Thread { who, tcb, cspace, vspace, bound });
        let own = self.frame_at(who, vaddr, |_| true).map(|mapping| mapping.object);
        facts.insert(Fact::Buffer { who, vaddr, kernels: self.thing(ipc_buffer), own: thing(own) });
        let Component { entry, stack_pointer, .. } = *self.component(who);
        let in_code = self.frame_at(who, entry, |mapping| mapping.executable).is_some();
        let on_stack = self.frame_at(who, stack_pointer, |mapping| mapping.writable).is_some();
        facts.insert(Fact::Starts { who, in_code, on_stack });
        let (tick, liveness, keeps, again) = (thing(tick), thing(liveness), thing(keeps), restart.is_some());
        let torn_down = teardown_ack.map(|teardown_ack| (self.thing(teardown_ack.page), teardown_ack.session));
        let (blocked, frames, presence) = (thing(blocked), thing(frames), thing(presence));
        facts.insert(Fact::Supervised {
            who,
            tick,
            liveness,
            keeps,
            torn_down,
            again,
            driver,
            ends_with,
            blocked,
            frames,
            presence,
            shown,
        });
    }

    /// The frames mapped at an address.
    fn frame_at(&self, who: Who, at: u64, fits: fn(&Mapping) -> bool) -> Option<&'a Mapping> {
        self.mapped(who).filter(|mapping| fits(mapping)).find(|mapping| {
            let bytes = bytes_of(self.object(mapping.object)).unwrap_or(0);
            at.checked_sub(mapping.vaddr).is_some_and(|offset| offset < bytes)
        })
    }

    /// The component's relations to others: those that it calls and wakes, and its priority against servers.
    fn others(&self, who: Who, facts: &mut BTreeSet<Fact>) {
        for other in 0..self.specification.components.len() {
            let receives = |object: ObjectId| {
                let component = self.component(other);
                let mut held = self.caps(component.cnode).filter(|run| run.object == object && run.rights & 1 != 0);
                held.next().is_some() || component.bound_notification == Some(object)
            };
            for CapRun { object, badge, rights, .. } in self.caps(self.component(who).cnode) {
                if rights & 2 == 0 || !receives(*object) {
                    continue;
                }
                facts.insert(match self.object(*object).kind {
                    ObjectKind::Endpoint => Fact::Known { who, by: other, badge: *badge },
                    _ => Fact::Wakes { who, whom: other, bits: *badge },
                });
            }
            let (name, against) = (self.component(who).name.as_str(), self.component(other).name.as_str());
            let is_servers = |name: &str| {
                ["pci-server", "probe"].contains(&name) || name.starts_with("nvme-server") || name.starts_with("policy")
            };
            if !is_servers(against) {
                continue;
            }
            let is = self.component(who).priority.cmp(&self.component(other).priority);
            let is = if name == "console" { is.max(Ordering::Equal) } else { is };
            facts.insert(Fact::Order { who, against: other, is });
        }
        // The root task is above all, and no component has the kernel's idle priority.
        let priority = self.component(who).priority;
        let is = if priority == 0 { Ordering::Greater } else { priority.cmp(&u8::MAX) };
        facts.insert(Fact::Order { who, against: usize::MAX, is });
    }
}

fn bytes_of(object: &Object) -> Option<u64> {
    let page = match object.kind {
        ObjectKind::SmallFrame | ObjectKind::SmallDeviceFrame { .. } => 1 << 12,
        ObjectKind::LargeFrame | ObjectKind::LargeDeviceFrame { .. } => 1 << 21,
        _ => return None,
    };
    Some(page * u64::from(object.count))
}
