//! The authority checker: proves over a system's objects, by reachability, that no authority leaks.
//!
//! It sees the [`Specification`] and its data, as the root task will build them, and of the scenario they were made from
//! only the channels between tenants that it declares. Roles, and which NVMe server a client or a policy component belongs to, stand
//! in the specification and are held against all else; whose an object is and what for follows from the object's name. Which session at which server is whose stands in the servers' configurations,
//! which are read out of the data. The rules are [`Rule`]'s variants. Trusted, and so not examined for what they might do
//! with what they hold: the root task, which builds all this, and the PCI server, which hands out devices by its
//! protocol. What a server's code does with the sessions it serves is not provable here; that is checked and tested in
//! the server. What programs' code and data contain is not examined either.

mod buffers;
mod devices;
mod endpoints;
mod environments;
mod liveness;
mod memory;
mod named;
mod policy;
mod priorities;
mod private;
mod probe;
mod reach;
mod signals;
mod structure;
mod teardown_acks;

use crate::layout::rights::WRITE;
use crate::machine::{self, Iommu, Machine};
use capdl_spec::{Component, Mapping, Object, ObjectId, ObjectKind, Role, Specification};
use environments::Config;
use platform::Environment;
use reach::Held;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What must hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rule {
    /// Objects and components the specification names are there, no two have the same name, and no two components share
    /// a CSpace, VSpace, thread or number. Of some roles there is one component at most. No two capabilities are in one slot, no two mappings of a VSpace overlap, and
    /// paging structures are under every page.
    WellFormed,
    /// An IPC buffer is one frame that its component maps writable at the address that the kernel has, and that nobody else maps or
    /// holds.
    ///
    /// The kernel takes the long arguments of calls and the slots for received capabilities from it.
    IpcBufferAlone,
    /// No two clients share memory one of them can write, a notification one of them waits on, or an endpoint.
    ///
    /// One exception, by declaration ([`Channel`]): a client may hold another's notification, to write alone. It is a
    /// channel between the two: when a signal comes, and how often, says as much as they agree on, to be seen by nobody
    /// else and stopped by no check. So it is there only where the scenario asks for it, in the direction it asks for.
    ClientsApart,
    /// No memory is writable from two components, by a mapping or by a capability that a device could be made to write
    /// by.
    ///
    /// One exception: the server that a client calls holds the client's window, and maps none of it.
    OneWriter,
    /// Of what a component maps another one maps its log ring, as the console, or its two rings, as the server that the
    /// client calls, and nothing else; and it holds nothing of it but, as that server, the window.
    ///
    /// Who reads a liveness page calls whom it is about, or is called by it, as clients, servers and policy components do
    /// one another; or it is the PCI server and that is a driver.
    ///
    /// A page of teardown acknowledgements is the server's that its clients call, nobody else reaches it, and each of those
    /// clients has a word of its own there. A client that is started again has one.
    ///
    /// What two clients share is [`Rule::ClientsApart`]'s.
    PrivateMemory,
    /// No client holds a device, memory to make objects of, or control of an address space, CSpace or thread.
    ClientsHoldNoDevice,
    /// Device memory (so every MSI-X table), interrupts and the IOMMU belong to the PCI server alone, and nobody calls
    /// it but NVMe servers, the probe and the edu device's driver.
    DevicesArePciServers,
    /// Who holds frames of a client is the server it calls, holds the window's alone, and can neither map them nor get
    /// at anything that maps.
    WindowsUnreadable,
    /// The console alone has I/O ports, and these are its serial line's; of others it reads one log ring each, and writes
    /// nothing.
    ConsoleOnlyReads,
    /// No frame is anywhere writable and anywhere executable.
    WriteXorExecute,
    /// Nobody has ordinary memory to make objects of but a probe, and the PCI server alone has device memory, inside the
    /// PCI window.
    NoUntypedOut,
    /// On each endpoint one component receives, and the badges of those who send are unique, not 0, and fit.
    BadgesUnique,
    /// Who may signal a component can be distinguished from who calls it, from the clock and from the interrupts of a
    /// controller.
    SignalsMarked,
    /// A component signals itself, the console, its server or client, a server its policy component, a driver and the PCI
    /// server the supervisor, and a client its declared peer. Nobody signals anybody else.
    SignalsDeclared,
    /// The privileged badge at an NVMe server is held by the policy component beside it alone; and that reaches nothing
    /// but its server's endpoint, its own, and notifications.
    PolicyAlone,
    /// A probe, a test component with memory and a VSpace of its own, is in no system with clients or their servers.
    ProbeAlone,
    /// Priorities lie in the bounds of their role: the root task above the PCI server, that above the NVMe servers and
    /// their policy components, those above their clients and not below the console.
    ///
    /// A server that polls lets only threads of its own priority run, so its clients may have that.
    PrioritiesByRole,
    /// A component holds and maps what its role has, where its environment says, with the badges, rights and objects that
    /// the name there stands for, and nothing else. What is a session's is the same client's everywhere.
    NamedExactly,
}

/// A broken rule.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{path}")]
pub struct Leak {
    /// The rule.
    pub rule: Rule,
    /// Who reaches what, by which way: one sentence.
    pub path: String,
}

/// A channel that is meant: client `from` may signal what client `to` waits on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Channel {
    /// Who signals.
    pub from: String,
    /// Who is woken.
    pub to: String,
}

/// How a component of this role is called in a refusal.
const fn title(role: Role) -> &'static str {
    match role {
        Role::Console => "the console",
        Role::PciServer => "the PCI server",
        Role::IommuServer => "the IOMMU server",
        Role::NvmeServer => "the server",
        Role::Policy => "the policy component",
        Role::Probe | Role::EduDriver => "the test component",
        Role::Client => "client",
    }
}

/// Checks the system against every rule. `data` is what its frames are filled with, and `channels` are those between
/// clients that are meant.
///
/// # Errors
/// All leaks found, in the order of rules.
pub fn authority(specification: &Specification, data: &[u8], channels: &[Channel]) -> Result<(), Vec<Leak>> {
    well_formed(specification)?;
    let roles: Vec<Role> = specification.components.iter().map(|component| component.role).collect();
    let holdings = reach::holdings(specification, &roles);
    let components = &specification.components;
    let frames = components.iter().map(|component| frames(specification, component)).collect();
    let environments: Vec<_> =
        components.iter().map(|component| environments::environment(specification, data, component)).collect();
    let config = |(role, environment): (&Role, &Option<Environment>)| {
        environment.as_ref().map_or(Config::Own, |environment| Config::read(*role, environment))
    };
    let configs = roles.iter().zip(&environments).map(config).collect();
    let ids = specification.objects.iter().zip(0..).map(|(object, id)| (object.name.as_str(), id)).collect();
    let leaks = Vec::new();
    let mut system =
        System { specification, data, channels, roles, holdings, frames, ids, environments, configs, leaks };
    system.structure();
    system.ipc_buffers();
    system.fills();
    system.clients_apart();
    system.one_writer_and_no_writable_code();
    system.devices();
    system.windows();
    system.private_memory();
    system.liveness();
    system.kept();
    system.teardown_acks();
    system.console();
    system.badges();
    system.signals();
    system.declared();
    system.ticks();
    system.policy();
    system.probe();
    system.priorities();
    system.named_exactly();
    if system.leaks.is_empty() {
        return Ok(());
    }
    system.leaks.sort_by_key(|leak| leak.rule);
    Err(system.leaks)
}

/// The other rules index by what is checked here.
fn well_formed(specification: &Specification) -> Result<(), Vec<Leak>> {
    let Specification { objects, mappings, caps, components, .. } = specification;
    let mut leaks = Vec::new();
    let mut refuse = |path: String| leaks.push(Leak { rule: Rule::WellFormed, path });
    let there = |object: ObjectId| (object as usize) < objects.len();
    if let Some(mapping) = mappings.iter().find(|mapping| !there(mapping.object) || !there(mapping.vspace)) {
        refuse(format!("the mapping at {:#x} names an object that is not there", mapping.vaddr));
    }
    if let Some(run) = caps.iter().find(|run| !there(run.object) || !there(run.cnode)) {
        refuse(format!("slot {} of a CSpace names an object that is not there", run.slot));
    }
    let mut names = BTreeSet::new();
    if let Some(object) = objects.iter().find(|object| !names.insert(&object.name)) {
        refuse(format!("two objects are called {}", object.name));
    }
    let mut names = BTreeSet::new();
    if let Some(component) = components.iter().find(|component| !names.insert(&component.name)) {
        refuse(format!("two components are called {}", component.name));
    }
    for role in Role::ALL.into_iter().filter(|role| role.is_single()) {
        let mut of_role = components.iter().filter(|component| component.role == role).map(|component| &component.name);
        if let (Some(one), Some(two)) = (of_role.next(), of_role.next()) {
            refuse(format!("{one} and {two} both have the role of {}, of which there is one", title(role)));
        }
    }
    let mut users: BTreeMap<ObjectId, &str> = BTreeMap::new();
    for component in components {
        let Component {
            name, tcb, cnode, vspace, ipc_buffer, bound_notification, tick, liveness, keeps, blocked, ..
        } = component;
        if bound_notification.iter().chain(tick).any(|object| !there(*object)) {
            refuse(format!("component {name} names a notification that is not there"));
        }
        if liveness.is_some_and(|object| !there(object)) {
            refuse(format!("component {name} names a liveness page that is not there"));
        }
        if keeps.is_some_and(|object| !there(object)) {
            refuse(format!("component {name} keeps a page that is not there"));
        }
        if blocked.is_some_and(|object| !there(object)) {
            refuse(format!("component {name} names a page of blocked transactions that is not there"));
        }
        if component.teardown_ack.is_some_and(|teardown_ack| !there(teardown_ack.page)) {
            refuse(format!("component {name} names a page of teardown acknowledgements that is not there"));
        }
        for object in [*tcb, *cnode, *vspace, *ipc_buffer] {
            if !there(object) {
                refuse(format!("component {name} names an object that is not there"));
            } else if let Some(other) = users.insert(object, name) {
                refuse(format!("components {other} and {name} share {}", objects[object as usize].name));
            }
        }
    }
    if leaks.is_empty() { Ok(()) } else { Err(leaks) }
}

/// The mappings of frames in a component's VSpace.
fn frames<'a>(specification: &'a Specification, component: &Component) -> Vec<&'a Mapping> {
    let is_frame = |object: ObjectId| crate::layout::frame_bytes(specification.objects[object as usize].kind).is_some();
    let own = specification.mappings.iter().filter(|mapping| mapping.vspace == component.vspace);
    own.filter(|mapping| is_frame(mapping.object)).collect()
}

/// The system under examination.
struct System<'a> {
    specification: &'a Specification,
    data: &'a [u8],
    channels: &'a [Channel],
    roles: Vec<Role>,
    /// What each component can come to hold.
    holdings: Vec<Vec<Held>>,
    /// The frames each component maps.
    frames: Vec<Vec<&'a Mapping>>,
    /// Objects by name.
    ids: HashMap<&'a str, ObjectId>,
    /// What each component finds when it starts, where it finds anything.
    environments: Vec<Option<Environment>>,
    /// The configurations therein.
    configs: Vec<Config>,
    leaks: Vec<Leak>,
}

impl<'a> System<'a> {
    /// The machine it is for.
    fn machine(&self) -> &'static Machine {
        machine::of(self.specification.arch)
    }

    /// The translator of its devices' addresses.
    fn iommu(&self) -> Iommu {
        machine::iommu(self.machine(), !self.specification.no_iommu)
    }

    fn refuse(&mut self, rule: Rule, path: String) {
        let leak = Leak { rule, path };
        if !self.leaks.contains(&leak) {
            self.leaks.push(leak);
        }
    }

    fn object(&self, id: ObjectId) -> &'a Object {
        &self.specification.objects[id as usize]
    }

    /// `client mallory`, `the console`.
    fn who(&self, index: usize) -> String {
        let role = self.roles[index];
        match role {
            Role::Client | Role::NvmeServer | Role::Policy | Role::Probe | Role::EduDriver => {
                format!("{} {}", title(role), self.specification.components[index].name)
            }
            _ => title(role).into(),
        }
    }

    /// The name of the component that alone has this role; none is empty, which no component is called.
    fn named(&self, role: Role) -> &'a str {
        let mut components = self.specification.components.iter();
        components.find(|component| component.role == role).map_or("", |component| component.name.as_str())
    }

    fn clients(&self) -> Vec<usize> {
        self.indices().filter(|index| self.roles[*index] == Role::Client).collect()
    }

    fn indices(&self) -> std::ops::Range<usize> {
        0..self.roles.len()
    }

    /// How component `index` reaches `object`, and whether it can write it. Of several mappings and capabilities it is
    /// the first that can write, or the first of all.
    fn reaches(&self, index: usize, object: ObjectId) -> Option<(String, bool)> {
        let mappings = self.frames[index].iter().filter(|mapping| mapping.object == object);
        let mapped = mappings.map(|mapping| (format!("its mapping at {:#x}", mapping.vaddr), mapping.writable));
        let held = self.holdings[index].iter().filter(|held| held.object == object);
        let ways: Vec<_> = mapped.chain(held.map(|held| (held.path.clone(), held.rights & WRITE != 0))).collect();
        ways.iter().find(|(_, writes)| *writes).or_else(|| ways.first()).cloned()
    }

    /// Whether component `index` maps any of the frames `object`.
    fn maps(&self, index: usize, object: ObjectId) -> bool {
        self.frames[index].iter().any(|mapping| mapping.object == object)
    }
}

/// Objects by which an address space, a CSpace or a thread is controlled.
const fn is_control(kind: ObjectKind) -> bool {
    matches!(
        kind,
        ObjectKind::CNode { .. }
            | ObjectKind::Tcb
            | ObjectKind::VSpace
            | ObjectKind::TranslationTable { .. }
            | ObjectKind::IoPageTable
    )
}

#[cfg(test)]
mod tests;
