//! The authority checker: proves over a system's objects, by reachability, that no authority leaks.
//!
//! It sees the [`Specification`] alone, as the root task will build it, not the scenario it was made from; roles follow
//! from the components' names. The rules are [`Rule`]'s variants. Trusted, and so not examined for what they might do
//! with what they hold: the root task, which builds all this, and the PCI server, which hands out devices by its
//! protocol. What a server's code does with the sessions it serves is not provable here; that is checked and tested in
//! the server.

mod reach;

use crate::model::rights::{READ, WRITE};
use capdl_spec::{Component, Mapping, Object, ObjectId, ObjectKind, Specification};
use reach::Held;
use std::collections::{BTreeMap, BTreeSet};

/// Endpoint badges have so many bits; the kernel cuts or stops at longer ones.
const ENDPOINT_BADGE_BITS: u32 = 28;

/// What must hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rule {
    /// Objects and components the specification names are there, and no two components share a CSpace, VSpace or thread.
    WellFormed,
    /// No two clients share memory one of them can write, a notification one of them waits on, or an endpoint.
    ClientsApart,
    /// No memory is writable from two components.
    OneWriter,
    /// No client holds a device, memory to make objects of, or control of an address space, CSpace or thread.
    ClientsHoldNoDevice,
    /// Device memory (so every MSI-X table), interrupts and the IOMMU belong to the PCI server alone.
    DevicesArePciServers,
    /// Who holds frames of a client can neither map them nor get at anything that maps, and is the server it calls.
    WindowsUnreadable,
    /// The console alone has the serial port; of others it reads one log ring each, and writes nothing.
    ConsoleOnlyReads,
    /// No frame is anywhere writable and anywhere executable.
    WriteXorExecute,
    /// No client has memory to make objects of.
    NoUntypedOut,
    /// On each endpoint one component receives, and the badges of those who send are unique, not 0, and fit.
    BadgesUnique,
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

/// What a component is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Holds the serial port.
    Console,
    /// Hands out devices.
    PciServer,
    /// Drives a controller for clients.
    NvmeServer,
    /// Acts for a tenant.
    Client,
}

impl Role {
    /// The role of the component with this name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        match name {
            "console" => Self::Console,
            "pci-server" => Self::PciServer,
            _ if name.starts_with("nvme-server") => Self::NvmeServer,
            _ => Self::Client,
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Console => "the console",
            Self::PciServer => "the PCI server",
            Self::NvmeServer => "the server",
            Self::Client => "client",
        }
    }
}

/// Checks the system against every rule.
///
/// # Errors
/// All leaks found, in the order of rules.
pub fn authority(specification: &Specification) -> Result<(), Vec<Leak>> {
    well_formed(specification)?;
    let roles: Vec<Role> = specification.components.iter().map(|component| Role::of(&component.name)).collect();
    let holdings = reach::holdings(specification, &roles);
    let frames = specification.components.iter().map(|component| frames(specification, component)).collect();
    let mut system = System { specification, roles, holdings, frames, leaks: Vec::new() };
    system.clients_apart();
    system.one_writer_and_no_writable_code();
    system.devices();
    system.windows();
    system.console();
    system.badges();
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
    let mut users: BTreeMap<ObjectId, &str> = BTreeMap::new();
    for Component { name, tcb, cnode, vspace, ipc_buffer, .. } in components {
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
    let is_frame = |object: ObjectId| crate::model::frame_bytes(specification.objects[object as usize].kind).is_some();
    let own = specification.mappings.iter().filter(|mapping| mapping.vspace == component.vspace);
    own.filter(|mapping| is_frame(mapping.object)).collect()
}

/// The system under examination.
struct System<'a> {
    specification: &'a Specification,
    roles: Vec<Role>,
    /// What each component can come to hold.
    holdings: Vec<Vec<Held>>,
    /// The frames each component maps.
    frames: Vec<Vec<&'a Mapping>>,
    leaks: Vec<Leak>,
}

impl<'a> System<'a> {
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
            Role::Client | Role::NvmeServer => format!("{} {}", role.title(), self.specification.components[index].name),
            _ => role.title().into(),
        }
    }

    fn clients(&self) -> Vec<usize> {
        self.indices().filter(|index| self.roles[*index] == Role::Client).collect()
    }

    fn indices(&self) -> std::ops::Range<usize> {
        0..self.roles.len()
    }

    /// How component `index` reaches `object`, and whether it can write it: by a mapping or by a capability.
    fn reaches(&self, index: usize, object: ObjectId) -> Option<(String, bool)> {
        if let Some(mapping) = self.frames[index].iter().find(|mapping| mapping.object == object) {
            return Some((format!("its mapping at {:#x}", mapping.vaddr), mapping.writable));
        }
        let held = self.holdings[index].iter().find(|held| held.object == object)?;
        Some((held.path.clone(), held.rights & WRITE != 0))
    }

    /// No two clients share what one of them can change.
    fn clients_apart(&mut self) {
        let mut reached: BTreeMap<ObjectId, BTreeSet<usize>> = BTreeMap::new();
        for client in self.clients() {
            let mapped = self.frames[client].iter().map(|mapping| mapping.object);
            for object in mapped.chain(self.holdings[client].iter().map(|held| held.object)) {
                reached.entry(object).or_default().insert(client);
            }
        }
        for (object, clients) in reached {
            for (position, one) in clients.iter().enumerate() {
                for other in clients.iter().skip(position + 1) {
                    self.pair_apart(*one, *other, object);
                }
            }
        }
    }

    fn pair_apart(&mut self, one: usize, other: usize, id: ObjectId) {
        let (Some((way, writes)), Some((other_way, other_writes))) = (self.reaches(one, id), self.reaches(other, id)) else {
            return;
        };
        let receives = |index: usize| {
            let list: &[Held] = &self.holdings[index];
            list.iter().any(|held| held.object == id && held.rights & READ != 0)
        };
        let Object { name, kind, .. } = self.object(id);
        let shared = match kind {
            ObjectKind::SmallFrame | ObjectKind::LargeFrame => writes || other_writes,
            // Both may signal a server; neither may wait where the other signals.
            ObjectKind::Notification | ObjectKind::Endpoint => receives(one) || receives(other),
            // Whatever else a client holds is refused for itself.
            _ => false,
        };
        if shared {
            let (first, second) = (self.who(one), self.who(other));
            self.refuse(Rule::ClientsApart, format!("{first} and {second} share {name}: {way}, and {other_way}"));
        }
    }

    fn one_writer_and_no_writable_code(&mut self) {
        let mut writers: BTreeMap<ObjectId, usize> = BTreeMap::new();
        let mut runners: BTreeMap<ObjectId, usize> = BTreeMap::new();
        for index in self.indices() {
            for mapping in self.frames[index].clone() {
                if mapping.executable {
                    runners.insert(mapping.object, index);
                }
                let before = if mapping.writable { writers.insert(mapping.object, index) } else { None };
                if let Some(other) = before {
                    let (name, first, second) = (&self.object(mapping.object).name, self.who(other), self.who(index));
                    self.refuse(Rule::OneWriter, format!("{name} is writable by {first} and again by {second} at {:#x}", mapping.vaddr));
                }
            }
        }
        for (object, writer) in writers {
            if let Some(runner) = runners.get(&object) {
                let (name, writes, runs) = (&self.object(object).name, self.who(writer), self.who(*runner));
                self.refuse(Rule::WriteXorExecute, format!("{name} is writable by {writes} and executable by {runs}"));
            }
        }
    }

    /// Who holds or maps devices, and what clients hold.
    fn devices(&mut self) {
        for index in self.indices() {
            for mapping in self.frames[index].clone() {
                let object = self.object(mapping.object);
                if is_device(object.kind) {
                    self.device_reached(index, object, &format!("its mapping at {:#x}", mapping.vaddr));
                }
            }
            for held in self.holdings[index].clone() {
                let object = self.object(held.object);
                if is_device(object.kind) {
                    self.device_reached(index, object, &held.path);
                }
                if self.roles[index] != Role::Client {
                    continue;
                }
                let who = self.who(index);
                if matches!(object.kind, ObjectKind::Untyped { .. } | ObjectKind::DeviceUntyped { .. }) {
                    self.refuse(Rule::NoUntypedOut, format!("{who} reaches the untyped {} by {}", object.name, held.path));
                } else if is_control(object.kind) || matches!(object.kind, ObjectKind::IoPorts { .. }) {
                    self.refuse(Rule::ClientsHoldNoDevice, format!("{who} reaches {} by {}", object.name, held.path));
                }
            }
        }
    }

    fn device_reached(&mut self, index: usize, object: &Object, way: &str) {
        if self.roles[index] == Role::PciServer {
            return;
        }
        let who = self.who(index);
        let mut path = format!("{who} reaches {} by {way}", object.name);
        if let Some(window) = self.pci_window_with(object) {
            path += &format!(", inside the PCI window {window} and so every MSI-X table there");
        }
        let rule = if self.roles[index] == Role::Client { Rule::ClientsHoldNoDevice } else { Rule::DevicesArePciServers };
        self.refuse(rule, path);
    }

    /// The PCI server's device untyped that this device object lies in.
    fn pci_window_with(&self, object: &Object) -> Option<&'a str> {
        let (paddr, _) = device_range(object)?;
        let objects = self.specification.objects.iter();
        let mut windows = objects.filter(|other| matches!(other.kind, ObjectKind::DeviceUntyped { .. }));
        windows.find(|window| device_range(window).is_some_and(|(first, end)| (first..end).contains(&paddr))).map(|window| window.name.as_str())
    }

    /// Frames of clients in the hands of others.
    fn windows(&mut self) {
        for client in self.clients() {
            let mut frames: Vec<ObjectId> = self.frames[client].iter().map(|mapping| mapping.object).collect();
            frames.dedup();
            for frame in frames {
                for holder in self.indices().filter(|holder| *holder != client) {
                    let held = self.holdings[holder].iter().find(|held| held.object == frame).cloned();
                    if let Some(held) = held {
                        self.window_held(client, frame, holder, &held);
                    }
                }
            }
        }
    }

    fn window_held(&mut self, client: usize, frame: ObjectId, holder: usize, held: &Held) {
        let (who, owner, name) = (self.who(holder), self.who(client), &self.object(frame).name);
        let start = format!("{who} holds {name} of {owner} by {}", held.path);
        if !self.serves(holder, client) {
            self.refuse(Rule::WindowsUnreadable, format!("{start}, and is not the server {owner} calls"));
        }
        // Not by the holder alone: what it holds it could have others map as little.
        for index in self.indices().filter(|index| *index != client) {
            if let Some(mapping) = self.frames[index].iter().find(|mapping| mapping.object == frame) {
                let reader = self.who(index);
                self.refuse(Rule::WindowsUnreadable, format!("{start}, and {reader} maps it at {:#x}", mapping.vaddr));
            }
        }
        let own_cnode = self.specification.components[holder].cnode;
        let mapper = self.holdings[holder].iter().find(|other| {
            let kind = self.object(other.object).kind;
            let untyped = matches!(kind, ObjectKind::Untyped { .. });
            other.object != own_cnode && (untyped || (is_control(kind) && kind != ObjectKind::IoPageTable))
        });
        if let Some(mapper) = mapper {
            let object = &self.object(mapper.object).name;
            let path = format!("{start}, and can map it with {object} ({})", mapper.path);
            self.refuse(Rule::WindowsUnreadable, path);
        }
    }

    /// Whether `client` calls an endpoint on which `server` receives.
    fn serves(&self, server: usize, client: usize) -> bool {
        let receives = |id: ObjectId| {
            let mut own = self.holdings[server].iter().filter(|held| held.own && held.rights & READ != 0);
            own.any(|held| held.object == id)
        };
        let mut calls = self.holdings[client].iter().filter(|held| held.own && held.rights & WRITE != 0);
        calls.any(|held| self.object(held.object).kind == ObjectKind::Endpoint && receives(held.object))
    }

    fn console(&mut self) {
        for index in self.indices() {
            if self.roles[index] == Role::Console {
                self.console_reads(index);
                continue;
            }
            for held in self.holdings[index].clone() {
                let object = self.object(held.object);
                if matches!(object.kind, ObjectKind::IoPorts { .. }) {
                    let who = self.who(index);
                    self.refuse(Rule::ConsoleOnlyReads, format!("{who} reaches the I/O ports {} by {}", object.name, held.path));
                }
            }
        }
    }

    fn console_reads(&mut self, console: usize) {
        for other in self.indices().filter(|other| *other != console) {
            let theirs = &self.frames[other];
            let is_theirs = |mapping: &&&Mapping| theirs.iter().any(|their| their.object == mapping.object);
            let shared: Vec<&Mapping> = self.frames[console].iter().filter(is_theirs).copied().collect();
            let who = self.who(other);
            if let Some(mapping) = shared.iter().find(|mapping| mapping.writable) {
                let name = &self.object(mapping.object).name;
                self.refuse(Rule::ConsoleOnlyReads, format!("the console can write {name} of {who} at {:#x}", mapping.vaddr));
            }
            if let [_, second, ..] = shared.as_slice() {
                let name = &self.object(second.object).name;
                self.refuse(Rule::ConsoleOnlyReads, format!("the console reads more than the log of {who}: {name} at {:#x}", second.vaddr));
            }
        }
    }

    /// Receivers and badges of every endpoint.
    fn badges(&mut self) {
        for id in 0..self.specification.objects.len() as ObjectId {
            if self.object(id).kind == ObjectKind::Endpoint {
                self.receivers(id);
                self.senders(id);
            }
        }
    }

    fn receivers(&mut self, endpoint: ObjectId) {
        let name = &self.object(endpoint).name;
        let mut receiver = None;
        for index in self.indices() {
            let held = self.holdings[index].iter().find(|held| held.object == endpoint && held.rights & READ != 0).cloned();
            let Some(held) = held else { continue };
            let who = self.who(index);
            if self.roles[index] == Role::Client {
                self.refuse(Rule::BadgesUnique, format!("{who} can receive on {name} by {}", held.path));
            } else if let Some(first) = receiver.replace(index) {
                let first = self.who(first);
                self.refuse(Rule::BadgesUnique, format!("{first} and {who} both receive on {name}: {}", held.path));
            }
        }
    }

    fn senders(&mut self, endpoint: ObjectId) {
        let name = &self.object(endpoint).name;
        let mut badges: BTreeMap<u64, String> = BTreeMap::new();
        for index in self.indices() {
            for held in self.holdings[index].clone() {
                // What a server got from its own clients adds no sender.
                if held.object != endpoint || held.rights & WRITE == 0 || (!held.own && self.roles[index] != Role::Client) {
                    continue;
                }
                let who = self.who(index);
                let way = &held.path;
                if held.badge == 0 || held.badge >> ENDPOINT_BADGE_BITS != 0 {
                    self.refuse(Rule::BadgesUnique, format!("{who} sends on {name} with the badge {:#x} by {way}: 1 to 28 bits are allowed", held.badge));
                }
                if let Some(other) = badges.insert(held.badge, who.clone()) {
                    self.refuse(Rule::BadgesUnique, format!("{other} and {who} send on {name} with the same badge {}: {way}", held.badge));
                }
            }
        }
    }
}

/// Devices that are the PCI server's.
const fn is_device(kind: ObjectKind) -> bool {
    matches!(
        kind,
        ObjectKind::DeviceUntyped { .. }
            | ObjectKind::SmallDeviceFrame { .. }
            | ObjectKind::LargeDeviceFrame { .. }
            | ObjectKind::IrqControl
            | ObjectKind::IoSpaceMaster
    )
}

/// Objects by which an address space, a CSpace or a thread is controlled.
const fn is_control(kind: ObjectKind) -> bool {
    matches!(
        kind,
        ObjectKind::CNode { .. }
            | ObjectKind::Tcb
            | ObjectKind::Pml4
            | ObjectKind::Pdpt
            | ObjectKind::PageDirectory
            | ObjectKind::PageTable
            | ObjectKind::IoPageTable
    )
}

/// First and end address of a device object.
fn device_range(object: &Object) -> Option<(u64, u64)> {
    let (paddr, bytes) = match object.kind {
        ObjectKind::DeviceUntyped { paddr, size_bits } => (paddr, 1u64.checked_shl(u32::from(size_bits))?),
        ObjectKind::SmallDeviceFrame { paddr } | ObjectKind::LargeDeviceFrame { paddr } => {
            (paddr, crate::model::frame_bytes(object.kind)?)
        }
        _ => return None,
    };
    Some((paddr, paddr.checked_add(bytes.checked_mul(u64::from(object.count))?)?))
}

#[cfg(test)]
mod tests;
