//! The rule that a component has exactly what its role has, under the names by which it looks for it.
//!
//! The other rules state what must not be. This one states what is, so that a capability, a mapping or an object that nobody
//! thought of is refused until a role has it in [`roles`]. It compares with the environments, because programs go by these: a
//! server that finds one client's window under another's number would have the device write to the wrong one.

mod configured;
mod declared;
mod pools;
mod roles;
mod sessions;
mod supervised;

use self::roles::{Entry, Place, Possessions, Wanted, administration_window};
use super::{Role, Rule, System};
use crate::layout::{CNODE_CPTR, alarms_us, frame_bytes, rights};
use capdl_spec::{CapRun, Component, Mapping, Object, ObjectId, ObjectKind, RECEIVE_CPTR, TeardownAck};
use platform::{CPtr, Environment, RegionKind, names};
use telemetry::TELEMETRY;

impl System<'_> {
    /// Compares every object, component, capability and mapping with what roles have.
    pub(super) fn named_exactly(&mut self) {
        let mut paths = self.objects_of_known_use();
        for index in self.indices() {
            let component = &self.specification.components[index];
            let Some(environment) = &self.environments[index] else {
                paths.push(format!("{} finds no environment at {:#x}", self.who(index), component.environment_vaddr));
                continue;
            };
            let wanted = self.wanted(index);
            let found = [
                self.configured(index),
                self.pools_suffice(index),
                self.environment_is_true(index, environment),
                self.thread_is_named(index),
                self.capabilities_are_named(index, environment, &wanted),
                self.mappings_are_named(index, environment, &wanted),
            ];
            paths.extend(found.into_iter().flatten());
        }
        for path in paths {
            self.refuse(Rule::NamedExactly, path);
        }
    }

    /// Compares the parts of the environment that the platform itself uses with the component.
    fn environment_is_true(&self, index: usize, environment: &Environment) -> Vec<String> {
        let Component { id, name, cnode, ipc_buffer_vaddr, .. } = &self.specification.components[index];
        let who = self.who(index);
        let mut paths = Vec::new();
        if environment.component != *id || environment.name.as_str() != name {
            let (other, number) = (&environment.name, environment.component);
            paths.push(format!("{who} finds the environment of {other}, which has the number {number}"));
        }
        let receives = self.has_cnode(index);
        let own = receives.then_some(CPtr::new(CNODE_CPTR));
        let place = receives.then_some(CPtr::new(RECEIVE_CPTR));
        let ObjectKind::CNode { size_bits } = self.object(*cnode).kind else { return paths };
        if environment.cnode != own || environment.receive_cptr != place || environment.cnode_bits != size_bits {
            paths.push(format!("{who} is configured with another CNode of its own than it has"));
        }
        if environment.ipc_buffer.bits() != *ipc_buffer_vaddr {
            paths.push(format!("{who} is configured with an IPC buffer at {:#x}", environment.ipc_buffer.bits()));
        }
        let waits = if is_server(self.roles[index]) { names::ENDPOINT } else { names::EVENT };
        if environment.wait != environment.caps.iter().find(|caps| caps.name == waits).map(|caps| caps.first) {
            paths.push(format!("{who} is configured to wait on something else than its {waits}"));
        }
        let own = self.specification.caps.iter().filter(|run| run.cnode == *cnode);
        let runs: Vec<_> =
            own.map(|run| run.cptr..run.cptr.saturating_add(self.object(run.object).count.into())).collect();
        if receives && runs.iter().any(|run| run.contains(&RECEIVE_CPTR)) {
            paths.push(format!("{who} has a capability at cptr {RECEIVE_CPTR}, where received ones are to land"));
        }
        let first = runs.iter().map(|run| run.end).max().unwrap_or(0);
        let end = if receives { 1u64.checked_shl(size_bits.into()).unwrap_or(0) } else { first };
        if environment.free_cptrs != (first..end) {
            let configured = &environment.free_cptrs;
            paths.push(format!(
                "{who} is configured so that it may fill cptrs {configured:?}, and those beyond its own are {first}..{end}"
            ));
        }
        paths
    }

    /// The numbers by which the component may ask for alarms.
    pub(super) fn alarm_numbers(&self, index: usize) -> impl Iterator<Item = u8> {
        let first = self.specification.components[index].alarm;
        let numbers = alarms_us(self.roles[index]).iter().zip(0u8..);
        first.into_iter().flat_map(move |first| numbers.clone().map(move |(_, place)| first.wrapping_add(place)))
    }

    /// The frames that the component shares with the build machine, in their order.
    fn shown(&self, index: usize) -> Vec<ObjectId> {
        let name = &self.specification.components[index].name;
        let own = |part: &str| self.id(&format!("{name}.{part}"));
        // A client with a session has no statistics.
        let is_shown = match self.roles[index] {
            Role::Client if !self.has_cnode(index) => self.declaration.has_traces,
            _ => self.declaration.has_telemetry,
        };
        match self.roles[index] {
            Role::NvmeServer | Role::Client if is_shown => own(TELEMETRY).into_iter().collect(),
            Role::Control => {
                let servers = self.declaration.controllers.iter().filter(|_| self.declaration.administration.is_some());
                let windows = servers.filter_map(|one| self.id(&administration_window(&one.driver)));
                own(control_api::names::MAILBOX).into_iter().chain(windows).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Checks who may ask for alarms: an NVMe server, a control component and a client, by numbers that nobody else has.
    fn alarm(&self, index: usize) -> Option<String> {
        let own = self.specification.components[index].alarm;
        let who = self.who(index);
        let is_own = |number: u8| {
            self.indices().all(|other| other == index || self.alarm_numbers(other).all(|others| others != number))
        };
        let is_right = match self.roles[index] {
            Role::NvmeServer | Role::Control => own.is_some() && self.alarm_numbers(index).all(is_own),
            Role::Client => self.alarm_numbers(index).all(is_own),
            _ => own.is_none(),
        };
        (!is_right).then(|| format!("{who} asks for alarms as number {own:?}, which is not its own"))
    }

    /// Compares its thread's objects, and those that the supervisor uses, with its role's.
    fn thread_is_named(&self, index: usize) -> Vec<String> {
        let component = &self.specification.components[index];
        let Component {
            name,
            tcb,
            cnode,
            root,
            vspace,
            ipc_buffer,
            bound_notification,
            tick,
            liveness,
            keeps,
            blocked,
            frames,
            presence,
            shown,
            ..
        } = component;
        let role = self.roles[index];
        let (who, own) = (self.who(index), |part: &str| self.id(&format!("{name}.{part}")));
        let mut paths = Vec::new();
        let mut expect = |what: &str, is: Option<ObjectId>, wanted: Option<ObjectId>| {
            if is != wanted {
                let called =
                    |object: Option<ObjectId>| object.map_or("none", |object| self.object(object).name.as_str());
                paths.push(format!("{who} has as its {what} {}, and its role has {}", called(is), called(wanted)));
            }
        };
        expect("thread", Some(*tcb), own("tcb"));
        expect("CSpace", Some(*cnode), own("cnode"));
        let is_kept_from_it = role == Role::Client && self.has_cnode(index);
        expect("CNode above its own", *root, own("root").filter(|_| is_kept_from_it));
        expect("VSpace", Some(*vspace), own("vspace"));
        expect("IPC buffer", Some(*ipc_buffer), own("ipc-buffer"));
        expect("bound notification", *bound_notification, own("event").filter(|_| is_server(role)));
        expect("notification of the clock", *tick, own("event").filter(|_| role != Role::Console));
        expect("liveness page", *liveness, own("liveness"));
        let kept = match role {
            Role::PciServer => own(pci_api::names::SIZING),
            Role::Policy if self.declaration.control.is_some() => own(blk_api::names::KEPT),
            _ => None,
        };
        expect("page to keep", *keeps, kept);
        expect("page of blocked transactions", *blocked, own("blocked").filter(|_| role == Role::IommuServer));
        expect("table of frames", *frames, own("frames").filter(|_| role == Role::IommuServer));
        expect("page of presence", *presence, own("presence").filter(|_| self.slot(name).is_some()));
        let wanted = self.shown(index);
        if *shown != wanted {
            let called = |all: &[ObjectId]| {
                let names: Vec<&str> = all.iter().map(|object| self.object(*object).name.as_str()).collect();
                if names.is_empty() { "none".into() } else { names.join(", ") }
            };
            let (is, wanted) = (called(shown), called(&wanted));
            paths.push(format!("{who} has as its pages for the build machine {is}, and its role has {wanted}"));
        }
        let driver = self.driver(index);
        if component.driver != driver {
            let number = |driver: Option<u8>| driver.map_or("none".into(), |driver| format!("number {driver}"));
            let (is, wanted) = (number(component.driver), number(driver));
            paths.push(format!("{who} is driver {is} for the supervisor, and {wanted} at the PCI server"));
        }
        paths.extend(self.alarm(index));
        let server = match role {
            Role::Client => self.session(index).or_else(|| self.function(index)).map(|(server, _)| server),
            Role::Policy => self.indices().find(|server| self.is_policy_of(index, *server)),
            _ => None,
        };
        let belongs = server.map(|server| self.specification.components[server].id);
        if component.server != belongs || (belongs.is_none() && matches!(role, Role::Client | Role::Policy)) {
            let called = |server: Option<usize>| server.map_or("nobody".into(), |server| self.who(server));
            let is = self.indices().find(|other| Some(self.specification.components[*other].id) == component.server);
            paths.push(format!("{who} belongs to {}, and its role to {}", called(is), called(server)));
        }
        let Component { teardown_ack, restart, ends_with, .. } = component;
        let needs = match role {
            _ if self.drives(index) => Some(Role::PciServer),
            Role::PciServer => Some(Role::IommuServer),
            _ => None,
        };
        let needed = needs.and_then(|role| self.indices().find(|index| self.roles[*index] == role));
        if *ends_with != needed.map(|index| self.specification.components[index].id) {
            let name = |index: Option<usize>| index.map_or("nobody".into(), |index| self.who(index));
            let with = self.indices().find(|index| Some(self.specification.components[*index].id) == *ends_with);
            paths.push(format!("{who} ends with {}, and its role with {}", name(with), name(needed)));
        }
        let is_never = matches!(role, Role::Console | Role::Probe | Role::EduDriver);
        if restart.is_some() == is_never && role != Role::Client {
            let is = if restart.is_some() { "started again" } else { "never started again" };
            paths.push(format!("{who} is {is}, which no such component is"));
        }
        if teardown_ack.is_some() && (role != Role::Client || restart.is_none()) {
            paths.push(format!("{who} has a teardown acknowledgement, and is no client that is started again"));
        }
        let of_client = self.session(index).or_else(|| self.function(index));
        if let (Some(TeardownAck { page, .. }), Some((server, _))) = (teardown_ack, of_client) {
            let page_of = format!("{}.teardown-acks", self.specification.components[server].name);
            if self.object(*page).name != page_of {
                paths.push(format!("{who} waits for a word of {}, not of {page_of}", self.object(*page).name));
            }
        }
        paths
    }

    fn capabilities_are_named(&self, index: usize, environment: &Environment, wanted: &Possessions) -> Vec<String> {
        let who = self.who(index);
        let own = self.specification.components[index].cnode;
        let mut left: Vec<&CapRun> = self.specification.caps.iter().filter(|run| run.cnode == own).collect();
        let mut paths = Vec::new();
        if self.has_cnode(index) {
            let itself = |run: &&CapRun| run.cptr == CNODE_CPTR && run.object == own && run.badge == 0;
            match left.iter().position(|run| itself(run) && run.rights == rights::ALL) {
                Some(position) => drop(left.swap_remove(position)),
                None => paths.push(format!("{who} does not have its own CNode at cptr {CNODE_CPTR}")),
            }
        }
        for Wanted { name, entries } in &wanted.caps {
            let Some(named) = environment.caps.iter().find(|caps| caps.name.as_str() == name) else {
                paths.push(format!("{who} finds no capability called {name}"));
                continue;
            };
            let mut cptr = named.first.bits();
            for entry in entries {
                let Some(position) = left.iter().position(|run| run.cptr == cptr && self.is_entry(run, entry)) else {
                    let is =
                        left.iter().find(|run| run.cptr == cptr).map_or("nothing".into(), |run| self.described(run));
                    let Entry { object, badge, rights } = entry;
                    paths.push(format!(
                        "{who} has as {name} at cptr {cptr} {is}, and not {object} with badge {badge:#x} and rights {rights}"
                    ));
                    break;
                };
                cptr = cptr.saturating_add(self.object(left.swap_remove(position).object).count.into());
            }
            if cptr != named.first.bits().saturating_add(named.count.into()) && paths.is_empty() {
                paths.push(format!(
                    "{who} is configured with {} capabilities called {name}, which are another number",
                    named.count
                ));
            }
        }
        let unknown =
            environment.caps.iter().filter(|caps| !wanted.caps.iter().any(|wanted| caps.name.as_str() == wanted.name));
        paths.extend(unknown.map(|caps| format!("{who} finds a capability called {}, which is not for it", caps.name)));
        paths.extend(left.iter().map(|run| {
            format!("{who} holds {} at cptr {}, which is not for it", self.object(run.object).name, run.cptr)
        }));
        paths
    }

    fn is_entry(&self, run: &CapRun, Entry { object, badge, rights }: &Entry) -> bool {
        self.object(run.object).name == *object && run.badge == *badge && run.rights == *rights
    }

    fn described(&self, run: &CapRun) -> String {
        format!("{} with badge {:#x} and rights {}", self.object(run.object).name, run.badge, run.rights)
    }

    fn mappings_are_named(&self, index: usize, environment: &Environment, wanted: &Possessions) -> Vec<String> {
        let who = self.who(index);
        let mut left = self.frames[index].clone();
        let mut paths = Vec::new();
        for Place { name, object, kind } in &wanted.regions {
            let Some(region) =
                environment.regions.iter().find(|region| region.name.as_str() == name && region.kind == *kind)
            else {
                paths.push(format!("{who} finds no region called {name} of its kind"));
                continue;
            };
            if *kind == RegionKind::Arena {
                continue;
            }
            let is_here = |mapping: &&Mapping| {
                mapping.vaddr == region.vaddr.bits()
                    && self.object(mapping.object).name == *object
                    && mapping.writable == (*kind != RegionKind::ReadOnly)
                    && !mapping.executable
                    && self.bytes(mapping.object) == Some(region.len)
            };
            match left.iter().position(is_here) {
                Some(position) => drop(left.swap_remove(position)),
                None => paths.push(format!(
                    "{who} has as the region {name} at {:#x} something else than the {} bytes of {object}",
                    region.vaddr.bits(),
                    region.len
                )),
            }
        }
        let known = |name: &str| wanted.regions.iter().any(|place| place.name == name);
        let unknown = environment.regions.iter().filter(|region| !known(&region.name));
        paths.extend(unknown.map(|region| format!("{who} finds a region called {}, which is not for it", region.name)));
        for part in self.parts_of_program(index).filter(|part| !self.maps(index, *part)) {
            paths.push(format!("{who} does not map {}", self.object(part).name));
        }
        for mapping in left {
            if !self.is_of_its_program(index, mapping) {
                let name = &self.object(mapping.object).name;
                paths.push(format!("{who} maps {name} at {:#x}, which is not for it", mapping.vaddr));
            }
        }
        paths
    }

    /// The segments of a component's image.
    pub(super) fn parts_of_program(&self, index: usize) -> impl Iterator<Item = ObjectId> {
        let owner = self.specification.components[index].name.as_str();
        let all = self.specification.objects.iter().zip(0..);
        let is_part = move |name: &str| {
            let part = name.strip_prefix(owner).and_then(|name| name.strip_prefix('.')).map(roles::segment);
            part.is_some_and(|part| ["code", "constants", "data"].contains(&part))
        };
        all.filter(move |(object, _)| is_part(&object.name)).map(|(_, id)| id)
    }

    /// Whether the frames are among those that every component maps without a region, mapped once, with the rights of their
    /// kind: image, stack, IPC buffer and environment.
    fn is_of_its_program(&self, index: usize, mapping: &Mapping) -> bool {
        let component = &self.specification.components[index];
        let name = self.object(mapping.object).name.strip_prefix(component.name.as_str());
        let Some(part) = name.and_then(|name| name.strip_prefix('.')) else { return false };
        let end = mapping.vaddr.saturating_add(self.bytes(mapping.object).unwrap_or(0));
        let fits = match roles::segment(part) {
            "code" => !mapping.writable && mapping.executable,
            "constants" => !mapping.writable && !mapping.executable,
            "data" => mapping.writable && !mapping.executable,
            "environment" => !mapping.writable && !mapping.executable && mapping.vaddr == component.environment_vaddr,
            "ipc-buffer" => mapping.writable && !mapping.executable && mapping.vaddr == component.ipc_buffer_vaddr,
            // Its top is where the thread starts: below it the rest of the page is not mapped.
            "stack" => mapping.writable && !mapping.executable && component.stack_pointer.checked_add(16) == Some(end),
            _ => false,
        };
        fits && self.frames[index].iter().filter(|other| other.object == mapping.object).count() == 1
    }

    fn bytes(&self, object: ObjectId) -> Option<u64> {
        let object = self.object(object);
        frame_bytes(object.kind)?.checked_mul(object.count.into())
    }

    /// Checks that every object is one that some role has, and of the kind that its name states.
    fn objects_of_known_use(&self) -> Vec<String> {
        let mut paths = Vec::new();
        for Object { name, kind, count, .. } in &self.specification.objects {
            match self.kind_of(name) {
                None => paths.push(format!("{name} has no known use")),
                Some(fits) if !fits.is(*kind) => {
                    paths.push(format!("{name} is of the kind {kind:?}, which is not its"))
                }
                Some(fits) if *count == 0 || (fits.is_one && *count != 1) => {
                    paths.push(format!("{name} is an array of {count}"));
                }
                Some(_) => {}
            }
        }
        paths
    }

    /// Whether the component has a CNode of its own, to receive capabilities into.
    fn has_cnode(&self, index: usize) -> bool {
        self.drives(index) || self.roles[index] == Role::PciServer
    }

    /// The object of this name.
    fn id(&self, name: &str) -> Option<ObjectId> {
        self.ids.get(name).copied()
    }
}

/// Whether the role waits on an endpoint, with a notification bound.
const fn is_server(role: Role) -> bool {
    matches!(role, Role::PciServer | Role::IommuServer | Role::NvmeServer | Role::Policy)
}
