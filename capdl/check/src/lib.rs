//! The authority checker: proves over a system's objects, by reachability, that no authority leaks.
//!
//! Its input is the [`Specification`] and its data, as the root task will build them, and the [`Declaration`]: the decisions of
//! the scenario's author. The specification states each component's role, and the NVMe server of a client or policy
//! component; the checker compares both with everything else. The name of an object states its owner and its use. The servers'
//! configurations, read out of the data, state which session belongs to which client. The rules are [`Rule`]'s variants.
//!
//! Trusted components are not examined for what they might do with what they hold: the root task, which builds the system, and
//! the PCI server, which hands out devices by its protocol. The checker does not prove what a server's code does with its
//! sessions; the server's own checks and tests cover that. A component's memory is compared with its program's; what the program
//! does is not examined.
//!
//! [`layout`], [`machine`] and [`priority`] are what every system keeps to: `capdl` builds by them, and the checker compares.
//! The checker's tests are in `capdl` (`src/check/tests/`): they change systems that `capdl` built.

#![forbid(unsafe_code)]

mod buffers;
pub mod declaration;
mod devices;
mod endpoints;
mod environments;
pub mod layout;
mod liveness;
pub mod machine;
mod memory;
mod moments;
mod named;
mod policy;
mod priorities;
pub mod priority;
mod private;
mod probe;
pub mod programs;
mod reach;
pub mod registers;
mod signals;
mod structure;
mod teardown_acks;

use crate::layout::rights::WRITE;
use crate::machine::{Iommu, Machine};
pub use declaration::{Channel, Declaration};

use capdl_spec::{Component, Mapping, Object, ObjectId, ObjectKind, Role, Specification};
use environments::Config;
use platform::Environment;
use reach::Held;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A rule that every system obeys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rule {
    /// Objects and components that the specification names exist, and no two have the same name. No two components share a
    /// CSpace, VSpace, thread or number. Some roles have one component at most. No cptr has two capabilities, no two mappings
    /// of a VSpace overlap, and paging structures are under every page.
    WellFormed,
    /// An IPC buffer is one frame. Its component maps it writable at the address that the kernel has, and nobody else maps or
    /// holds it.
    ///
    /// The kernel takes the long arguments of calls and the cptrs for received capabilities from it.
    IpcBufferAlone,
    /// No two clients share memory that one of them can write, a notification that one of them waits on, or an endpoint.
    ///
    /// One exception is declared ([`Channel`]): a client may hold another's notification, with the right to write alone. It is
    /// a channel between the two. The times and the number of signals can carry any message; nobody else sees it and no check
    /// stops it. So a channel exists only where the scenario asks for it, in the direction it asks for.
    ClientsApart,
    /// No two components can write the same memory, by a mapping or by a capability with which a device could be made to write
    /// it.
    ///
    /// One exception: the server that a client calls holds the client's window, and maps none of it.
    OneWriter,
    /// Of a component's memory, the console maps the log ring, and the server that a client calls maps the client's two rings.
    /// No other component maps any of it. None holds any of it but that server, which holds the client's window.
    ///
    /// A client and its server read each other's liveness page, a policy component its server's, and the PCI server its
    /// drivers'.
    ///
    /// A page of teardown acknowledgements belongs to one server, and nobody else reaches it. Its clients call that server, and
    /// each has a word of its own there. A client that is started again has one.
    ///
    /// [`Rule::ClientsApart`] covers memory that two clients share.
    PrivateMemory,
    /// No client holds a device, untyped memory, or control of an address space, CSpace or thread.
    ///
    /// A client that drives a virtual function itself has what a driver needs: its own CNode, and IO page tables, into which it
    /// can put frames of its own.
    ClientsHoldNoDevice,
    /// Device memory (so every MSI-X table), interrupts and the IOMMU belong to the PCI server alone, except a serial port in
    /// memory and an SMMU's registers. Only NVMe servers, clients with a virtual function, the probe and the edu device's driver
    /// call the PCI server.
    DevicesArePciServers,
    /// Only the server that a client calls holds frames of the client, and of these only the window's. It can neither map them
    /// nor reach anything that maps.
    WindowsUnreadable,
    /// Only the console has I/O ports, those of its serial line. It reads one log ring of each other component, and writes
    /// nothing of theirs.
    ConsoleOnlyReads,
    /// No frame is anywhere writable and anywhere executable.
    WriteXorExecute,
    /// Only a probe has ordinary untyped memory. Only the PCI server has device untyped memory, inside the PCI window.
    NoUntypedOut,
    /// Each endpoint has one receiver, and the badges of its senders are unique, not 0, and fit.
    BadgesUnique,
    /// A component can distinguish the signals of others from calls, from the clock and from the interrupts of a controller.
    SignalsMarked,
    /// A component may signal itself, the console, and its server or client. A server may signal its policy component, a driver
    /// and the PCI server the supervisor, and a client its declared peer. Nobody signals anybody else.
    SignalsDeclared,
    /// Only the policy component beside an NVMe server holds the privileged badge there. It reaches nothing but its server's
    /// endpoint, its own, and notifications.
    PolicyAlone,
    /// A probe, a test component with memory and a VSpace of its own, is in no system with clients or their servers.
    ProbeAlone,
    /// Priorities lie in the bounds of their role: the root task above the PCI server, the IOMMU server beside that, both above the
    /// NVMe servers and their policy components, and these above their clients and not below the console.
    ///
    /// A server that polls lets only threads of its own priority run, so its clients may have that.
    PrioritiesByRole,
    /// A component holds and maps exactly what its role has, where its environment says, with the badges, rights and objects
    /// that each name stands for. The objects of a session belong to the same client everywhere.
    NamedExactly,
    /// The program and the configuration of each component, its priority, its restarts and its alarms, and the moments and kills of a
    /// run, are those that the scenario declares or that follow from it.
    ConfiguredAsDeclared,
}

/// A broken rule.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{path}")]
pub struct Leak {
    /// The rule.
    pub rule: Rule,
    /// The path in one sentence: the component, the object that it reaches, and the way.
    pub path: String,
}

/// The name of a role in refusals.
const fn title(role: Role) -> &'static str {
    match role {
        Role::Console => "the console",
        Role::PciServer => "the PCI server",
        Role::IommuServer => "the IOMMU server",
        Role::NvmeServer => "the server",
        Role::Policy => "the policy component",
        Role::Control => "the control component",
        Role::Probe | Role::EduDriver => "the test component",
        Role::Client => "client",
    }
}

/// Checks the system against every rule. `data` holds the contents of its frames.
///
/// # Errors
/// All leaks found, in the order of rules.
pub fn authority(specification: &Specification, data: &[u8], declaration: &Declaration) -> Result<(), Vec<Leak>> {
    well_formed(specification)?;
    let roles: Vec<Role> = specification.components.iter().map(|component| component.role).collect();
    let holdings = reach::holdings(specification, &roles);
    let components = &specification.components;
    let frames = components.iter().map(|component| frames(specification, component)).collect();
    let environments: Vec<_> =
        components.iter().map(|component| environments::environment(specification, data, component)).collect();
    let config = |(role, environment): (&Role, &Option<Environment>)| {
        environment.as_ref().map_or(Config::Unreadable, |environment| Config::read(*role, environment))
    };
    let configs = roles.iter().zip(&environments).map(config).collect();
    let ids = specification.objects.iter().zip(0..).map(|(object, id)| (object.name.as_str(), id)).collect();
    let leaks = Vec::new();
    let mut system =
        System { specification, data, declaration, roles, holdings, frames, ids, environments, configs, leaks };
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
    system.indices().for_each(|index| {
        system.configured_as_declared(index);
        system.supervised_as_declared(index);
    });
    system.programs();
    system.moments();
    if system.leaks.is_empty() {
        return Ok(());
    }
    system.leaks.sort_by_key(|leak| leak.rule);
    Err(system.leaks)
}

/// Checks the references and names by which the other rules index.
fn well_formed(specification: &Specification) -> Result<(), Vec<Leak>> {
    let Specification { objects, mappings, caps, components, .. } = specification;
    let mut leaks = Vec::new();
    let mut refuse = |path: String| leaks.push(Leak { rule: Rule::WellFormed, path });
    let there = |object: ObjectId| (object as usize) < objects.len();
    if let Some(mapping) = mappings.iter().find(|mapping| !there(mapping.object) || !there(mapping.vspace)) {
        refuse(format!("the mapping at {:#x} names an object that is not there", mapping.vaddr));
    }
    if let Some(run) = caps.iter().find(|run| !there(run.object) || !there(run.cnode)) {
        refuse(format!("cptr {} of a CSpace names an object that is not there", run.cptr));
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
        let Component { name, tcb, cnode, root, vspace, ipc_buffer, .. } = component;
        for (what, object) in [
            ("a notification", component.bound_notification),
            ("a notification", component.tick),
            ("a liveness page", component.liveness),
            ("a page to keep", component.keeps),
            ("a page of blocked transactions", component.blocked),
            ("a table of frames", component.frames),
            ("a page of presence", component.presence),
            ("a page of teardown acknowledgements", component.teardown_ack.map(|teardown_ack| teardown_ack.page)),
        ] {
            if object.is_some_and(|object| !there(object)) {
                refuse(format!("component {name} names {what} that is not there"));
            }
        }
        if component.shown.iter().any(|object| !there(*object)) {
            refuse(format!("component {name} names pages for the build machine that are not there"));
        }
        for object in [*tcb, *cnode, *vspace, *ipc_buffer].into_iter().chain(*root) {
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
    let is_frame = |object: ObjectId| layout::frame_bytes(specification.objects[object as usize].kind).is_some();
    let own = specification.mappings.iter().filter(|mapping| mapping.vspace == component.vspace);
    own.filter(|mapping| is_frame(mapping.object)).collect()
}

/// The system under examination.
struct System<'a> {
    specification: &'a Specification,
    data: &'a [u8],
    declaration: &'a Declaration,
    roles: Vec<Role>,
    /// The capabilities that each component can come to hold.
    holdings: Vec<Vec<Held>>,
    /// The frames that each component maps.
    frames: Vec<Vec<&'a Mapping>>,
    /// Objects by name.
    ids: HashMap<&'a str, ObjectId>,
    /// The environment of each component, where it finds one.
    environments: Vec<Option<Environment>>,
    /// The configurations in these environments.
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

    /// A component's name in refusals: `client mallory`, `the console`.
    fn who(&self, index: usize) -> String {
        let role = self.roles[index];
        match role {
            Role::Client | Role::NvmeServer | Role::Policy | Role::Probe | Role::EduDriver => {
                format!("{} {}", title(role), self.specification.components[index].name)
            }
            _ => title(role).into(),
        }
    }

    /// The name of the only component with this role, or an empty string, which no component is called.
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

    /// How component `index` reaches `object`, and whether it can write it. The answer is the first of its mappings and
    /// capabilities that can write, otherwise the first of all.
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

/// Whether objects of this kind control an address space, a CSpace or a thread.
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
