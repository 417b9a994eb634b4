//! The components' environments and configurations, read from the frames in which the components find them.
//!
//! They alone state which capability a component takes for which, and which session at a server belongs to which client. This
//! module also checks that no other frame is filled with a component's environment.

use super::{Rule, System};
use crate::layout::PAGE;
use blk_api::config::{Completion, ServerConfig};
use blk_api::policy::PolicyConfig;
use capdl_spec::{Component, Fill, Mapping, Object, ObjectKind, Specification};
use platform::Environment;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A component's configuration.
#[derive(Clone, Debug)]
pub(super) enum Config {
    /// The console's: the numbers and names of all components.
    Console(Vec<(u16, String)>),
    /// The PCI server's: its drivers.
    PciServer(pci_api::ServerConfig),
    /// The IOMMU server's: the same drivers.
    IommuServer(iommu_api::ServerConfig),
    /// An NVMe server's: its sessions.
    NvmeServer(ServerConfig),
    /// A policy component's: the same sessions.
    Policy(PolicyConfig),
    /// A client's.
    Client(workload::Client),
    /// The control component's.
    Control(control_api::Config),
    /// The probe's.
    Probe(workload::Probe),
    /// The empty one of a role that has none.
    Nothing,
    /// None that a component of its role reads.
    Unreadable,
}

impl Config {
    /// The configuration in the environment of a component of this role.
    pub(super) fn read(role: super::Role, environment: &Environment) -> Self {
        let bytes = environment.config.as_slice();
        match role {
            super::Role::Console => decoded(bytes).map(Self::Console),
            super::Role::PciServer => decoded(bytes).map(Self::PciServer),
            super::Role::IommuServer => decoded(bytes).map(Self::IommuServer),
            super::Role::NvmeServer => decoded(bytes).map(Self::NvmeServer),
            super::Role::Policy => decoded(bytes).map(Self::Policy),
            super::Role::Client => decoded(bytes).map(Self::Client),
            super::Role::Probe => decoded(bytes).map(Self::Probe),
            super::Role::Control => decoded(bytes).map(Self::Control),
            super::Role::EduDriver => bytes.is_empty().then_some(Self::Nothing),
        }
        .unwrap_or(Self::Unreadable)
    }

    /// The tenants of an NVMe server's sessions, in their order.
    pub(super) fn tenants(&self) -> impl Iterator<Item = &str> {
        let sessions = if let Self::NvmeServer(config) = self { config.sessions.as_slice() } else { &[] };
        sessions.iter().map(|session| session.tenant.as_str())
    }

    /// The tenants that drive an NVMe server's virtual functions, by the numbers of these.
    pub(super) fn function_tenants(&self) -> impl Iterator<Item = &str> {
        let functions = if let Self::NvmeServer(config) = self { config.functions.as_slice() } else { &[] };
        functions.iter().map(|function| function.tenant.as_str())
    }

    /// Whether an NVMe server polls for one of its sessions.
    pub(super) fn polls(&self) -> bool {
        let Self::NvmeServer(config) = self else { return false };
        config.sessions.iter().any(|session| session.completion == Completion::Polled)
    }
}

/// The environment that `component` finds when it starts.
pub(super) fn environment(specification: &Specification, data: &[u8], component: &Component) -> Option<Environment> {
    // Paging structures are mapped at such addresses too.
    let is_here = |mapping: &&Mapping| {
        mapping.vspace == component.vspace
            && mapping.vaddr == component.environment_vaddr
            && specification.objects[mapping.object as usize].kind == ObjectKind::SmallFrame
    };
    let mapping = specification.mappings.iter().find(is_here)?;
    let fill = specification.objects[mapping.object as usize].fill.as_ref()?;
    let (len, bytes) = bytes(data, fill)?.split_first_chunk::<8>()?;
    let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
    if fill.skip == 0 && bytes.len() == len { decoded(bytes) } else { None }
}

/// The value that `bytes` encode, all of them and as it is always encoded.
fn decoded<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> Option<T> {
    let value = postcard::from_bytes(bytes).ok()?;
    (postcard::to_stdvec(&value).ok()? == bytes).then_some(value)
}

/// The bytes of `data` that a frame is filled with, if all are there.
pub(super) fn bytes<'a>(data: &'a [u8], fill: &Fill) -> Option<&'a [u8]> {
    let (first, len) = (usize::try_from(fill.offset).ok()?, usize::try_from(fill.len).ok()?);
    data.get(first..first.checked_add(len)?)
}

impl System<'_> {
    /// Checks that the contents of filled frames are in the data, fit, and are not another component's environment.
    pub(super) fn fills(&mut self) {
        let filled = |object: &Object| Some((object.name.clone(), object.kind, object.count, object.fill?));
        let all: Vec<_> = self.specification.objects.iter().filter_map(filled).collect();
        let mut environments: Vec<(usize, String, Fill)> = Vec::new();
        for index in self.indices() {
            let name = format!("{}.environment", self.specification.components[index].name);
            environments.extend(all.iter().find(|(filled, ..)| *filled == name).map(|all| (index, name, all.3)));
        }
        for (name, kind, count, fill) in all {
            let end = fill.len.checked_add(u64::from(fill.skip));
            let fits = end.is_some_and(|end| end <= u64::from(count) * PAGE) && u64::from(fill.skip) < PAGE;
            if kind != ObjectKind::SmallFrame || !fits || bytes(self.data, &fill).is_none() {
                let path = format!("{name} is to be filled with what is not in the data or does not fit into it");
                self.refuse(Rule::WellFormed, path);
                continue;
            }
            let overlaps = |other: &Fill| {
                fill.offset < other.offset.saturating_add(other.len)
                    && other.offset < fill.offset.saturating_add(fill.len)
            };
            if let Some((owner, ..)) = environments.iter().find(|(_, own, other)| *own != name && overlaps(other)) {
                let path = format!("{name} is filled with the environment of {}", self.who(*owner));
                self.refuse(Rule::PrivateMemory, path);
            }
        }
    }
}
