//! Scenario files: a machine, its controllers, its tenants, their work, and the results that a run must show.
//!
//! Each scenario is one TOML file in `scenarios/`. [`Scenario::load`] reads and checks one, and every scenario that it accepts
//! can be built. Unknown keys and numbers that contradict each other are refused with one sentence that names the place and the
//! fix. Not here: how a controller is put into QEMU (`xtask`), and the results of a run.

mod beyond;
mod bytes;
mod change;
mod components;
mod console;
mod control;
mod controller;
mod edu;
mod error;
mod expect;
mod file;
mod guarantee;
mod hot_plug;
mod kill;
mod lists;
mod machine;
mod moment;
mod nearest;
mod pci;
mod probe;
mod program;
mod read;
mod refusal;
mod repair;
#[cfg(feature = "schema")]
mod schema;
mod sentence;
mod server;
mod set;
mod telemetry;
mod tenant;
mod validate;

pub use crate::machine::{FUNCTION_QUEUES, slot_number};
pub use blk_api::config::Interrupts;
pub use change::{Change, Entitlement, What};
pub use console::Console;
pub use control::{CONTROL, Control};
pub use controller::{
    Arbitration, Attach, Backend, CommandSet, Content, Controller, ControllerChange, Later, Media, Model, Namespace,
    NamespaceModel, Purpose, Saved, Version,
};
pub use edu::{EDU_DRIVER, Edu};
pub use error::ScenarioError;
pub use expect::{Expect, ExpectedInterrupts, ExpectedQueues, Span};
pub use guarantee::Guarantee;
pub use hot_plug::{Action, HotPlug, Moved};
pub use kill::Kill;
pub use machine::{KernelKind, Machine, ThreadOrder};
pub use moment::{Mark, Moment, When};
pub use nearest::nearest;
pub use pci::{IOMMU_SERVER, IommuServer, Pci, PciServer};
pub use probe::{PROBE, Probe};
pub use program::{Own, Workload};
#[cfg(feature = "schema")]
pub use schema::{schema, schema_of};
pub use server::{RECORDS, Restart, Server};
pub use set::{Setting, SettingError};
pub use telemetry::{Telemetry, TraceKind};
pub use tenant::{Path, Tenant};
pub(crate) use validate::function::QUEUE_PAIRS;

use crate::priority::priority_of;
use blk_api::administration::Administration;
use blk_api::trace::Kinds;
use sim_fault::{ControllerEffect, ControllerFault, Fault};

/// The largest number of copies of a tenant.
pub const MAX_COPIES: u16 = 256;

/// A checked scenario. A tenant with `copies` is already expanded into so many tenants.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// The scenario's name.
    pub name: String,
    /// Description in one sentence: what the scenario shows.
    pub description: String,
    /// The seed of a simulated run that is given none.
    pub seed: u64,
    /// The machine.
    pub machine: Machine,
    /// The NVMe controllers, in the order of the root bus: see [`Controller`].
    pub controllers: Vec<Controller>,
    /// The tenants.
    pub tenants: Vec<Tenant>,
    /// The probe, in scenarios that are about it.
    pub probe: Option<Probe>,
    /// The edu device, in scenarios that are about interrupts.
    pub edu: Option<Edu>,
    /// The PCI tree.
    pub pci: Pci,
    /// The PCI server.
    pub pci_server: PciServer,
    /// The IOMMU server, on a machine that has one.
    pub iommu_server: IommuServer,
    /// Settings of all NVMe servers.
    pub server: Server,
    /// The console.
    pub console: Console,
    /// Statistics for the build machine; without it no component shows any.
    pub telemetry: Option<Telemetry>,
    /// The control component; without it there is none.
    pub control: Option<Control>,
    /// Faults to inject: in the simulator, some of them in QEMU too.
    pub faults: Vec<Fault>,
    /// Moments, which kills, changes and loads wait for.
    pub moments: Vec<Moment>,
    /// Components that are stopped in the middle of their work.
    pub kills: Vec<Kill>,
    /// Controllers that come and go, the earliest event first.
    pub hot_plugs: Vec<HotPlug>,
    /// Changes while the system runs: the earliest first, or in the order in which they are written if they name several moments.
    pub changes: Vec<Change>,
    /// The results that a run must show.
    pub expect: Expect,
}

impl Scenario {
    /// The kinds of a tenant's requests that are traced from the start.
    #[must_use]
    pub fn traced(&self, tenant: &Tenant) -> Kinds {
        self.telemetry.as_ref().map_or(Kinds::NONE, |telemetry| telemetry.traced(tenant))
    }

    /// The controller with this name, and its number.
    #[must_use]
    pub fn controller(&self, name: &str) -> Option<(usize, &Controller)> {
        self.controllers.iter().enumerate().find(|(_, controller)| controller.name == name)
    }

    /// The scheduling priority of a tenant's component: its own if it names one, otherwise its class's. If a server polls
    /// for some tenant, and so never sleeps, it is the servers' instead of the class's.
    #[must_use]
    pub fn priority(&self, tenant: &Tenant) -> u8 {
        let polls = self.tenants.iter().any(Tenant::is_polled_for);
        tenant.priority.unwrap_or(if polls { self.server.priority } else { priority_of(tenant.class) })
    }

    /// The namespace that a tenant's blocks are on.
    #[must_use]
    pub fn namespace(&self, tenant: &Tenant) -> Option<&Namespace> {
        let (_, controller) = self.controller(&tenant.controller)?;
        controller.namespaces.get((tenant.namespace as usize).checked_sub(1)?)
    }

    /// The tenants of a controller's server, in the order of their sessions.
    pub fn sessions<'a>(&'a self, controller: &'a str) -> impl Iterator<Item = &'a Tenant> {
        self.tenants_on(controller, Path::Server)
    }

    /// The tenants that drive a controller's virtual functions, in the order of these.
    pub fn functions<'a>(&'a self, controller: &'a str) -> impl Iterator<Item = &'a Tenant> {
        self.tenants_on(controller, Path::Function)
    }

    fn tenants_on<'a>(&'a self, controller: &'a str, path: Path) -> impl Iterator<Item = &'a Tenant> {
        self.tenants.iter().filter(move |tenant| tenant.controller == controller && tenant.path == path)
    }

    /// The most queue pairs of its own that a tenant ever has, by its changes, and the most commands that each of them may
    /// hold.
    #[must_use]
    pub fn most_queues(&self, tenant: &Tenant) -> (u16, u16) {
        let changes = self.changes.iter().filter(|change| change.tenant == tenant.name);
        changes.fold((tenant.queue_pairs, tenant.depth), |(queue_pairs, depth), change| match &change.what {
            What::Entitle(to) => {
                (queue_pairs.max(to.queue_pairs.unwrap_or_default()), depth.max(to.depth.unwrap_or_default()))
            }
            What::Revoke(_) | What::Grant(_) => (queue_pairs, depth),
        })
    }

    /// The most queue pairs that the tenants of a controller have together.
    #[must_use]
    pub fn queue_pairs(&self, controller: &str) -> u32 {
        let own = || self.sessions(controller).map(|tenant| u32::from(self.most_queues(tenant).0)).sum();
        self.server.queues.common().map_or_else(own, |(queue_pairs, _)| queue_pairs.into())
    }

    /// The administration of each NVMe server by the control component, if it has any.
    #[must_use]
    pub fn administration(&self) -> Option<Administration> {
        self.control.as_ref().and_then(Control::administration)
    }

    /// Whether the PCI server places all registers, also on a machine with firmware: [`Pci::assign`], or some controller has
    /// virtual functions, for whose BARs firmware leaves no room.
    #[must_use]
    pub fn assigns_addresses(&self) -> bool {
        self.pci.assign || self.controllers.iter().any(|controller| controller.virtual_functions > 0)
    }

    /// Whether controller number `index` is in its place at the start: it is not if its first event is its insertion.
    #[must_use]
    pub fn is_there_at_first(&self, index: usize) -> bool {
        let name = self.controllers.get(index).map(|controller| controller.name.as_str());
        let first = self.hot_plugs.iter().find(|event| Some(event.controller.as_str()) == name);
        first.is_none_or(|event| event.action != Action::Insert)
    }

    /// Whether controller number `index` is inserted or removed while the system runs.
    #[must_use]
    pub fn comes_and_goes(&self, index: usize) -> bool {
        let name = self.controllers.get(index).map(|controller| controller.name.as_str());
        self.hot_plugs.iter().any(|event| Some(event.controller.as_str()) == name)
    }

    /// The number of controller `index` among those that always stay, in the order of the root bus.
    #[must_use]
    pub fn number_among_fixed(&self, index: usize) -> usize {
        self.controllers.iter().take(index).filter(|controller| !controller.hot_plug).count()
    }

    /// The scenario of one run, with its random values drawn from `seed`.
    #[must_use]
    pub fn drawn(&self, seed: u64) -> Self {
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut drawn = self.clone();
        for kill in &mut drawn.kills {
            kill.drawn_us = chance.u32(0..=kill.within_ms.saturating_mul(1000));
        }
        drawn
    }

    /// Whether only the simulator can run it, because of its faults or of its controllers' properties.
    #[must_use]
    pub fn is_simulators_alone(&self) -> bool {
        let is_simulated = |controller: &Controller| {
            controller.model != Model::default()
                || controller.ways().any(|way| way == Interrupts::Msi)
                || !controller.later.is_empty()
                || !controller.saved.is_empty()
                || controller.namespaces.iter().any(|one| (one.nguid, one.eui64) != (0, 0))
                || controller.namespaces.iter().any(|namespace| namespace.model != NamespaceModel::default())
        };
        self.controllers.iter().any(is_simulated)
            || self.has_several_namespaces_that_move()
            || !self.faults.iter().all(|fault| self.is_in_qemu(fault))
    }

    /// Whether a controller with several namespaces comes or goes. QEMU adds no namespace to a running machine, but a controller
    /// that is one of its own.
    #[must_use]
    pub fn has_several_namespaces_that_move(&self) -> bool {
        let has_several =
            |(index, controller): (usize, &Controller)| controller.namespaces.len() > 1 && self.comes_and_goes(index);
        self.controllers.iter().enumerate().any(has_several)
    }

    /// Whether QEMU's machine can be made to show the same fault, from outside.
    fn is_in_qemu(&self, fault: &Fault) -> bool {
        let Fault::Controller(fault) = fault else { return false };
        let Some(controller) = self.controllers.iter().find(|controller| is_on(fault, controller)) else {
            return false;
        };
        match fault.effect {
            ControllerEffect::FatalStatus | ControllerEffect::AllOnes { .. } => true,
            // Its queues are found by its requester id, and that is the bridge's.
            ControllerEffect::StuckQueuePair { .. } => controller.attach != Attach::Bridge,
            // Only a controller in a slot can be removed.
            ControllerEffect::Removal => matches!(controller.attach, Attach::RootPort | Attach::Switch),
            ControllerEffect::SpuriousInterrupt { .. }
            | ControllerEffect::NeverReady
            | ControllerEffect::PowerLoss
            | ControllerEffect::Event(_) => false,
        }
    }

    /// The faults of a controller as a whole.
    pub fn faults_of<'a>(&'a self, controller: &'a Controller) -> impl Iterator<Item = &'a ControllerFault> {
        self.faults.iter().filter_map(move |fault| match fault {
            Fault::Controller(fault) if is_on(fault, controller) => Some(fault),
            _ => None,
        })
    }

    /// Whether `name` is the server, the policy component or a tenant of a controller that is expected to be lost.
    #[must_use]
    pub fn is_of_lost(&self, name: &str) -> bool {
        let is_of = |controller: &String| {
            self.server_name(controller) == name
                || self.policy_name(controller) == name
                || self.sessions(controller).chain(self.functions(controller)).any(|tenant| tenant.name == name)
        };
        self.expect.lost.iter().any(is_of)
    }
}

/// Whether the fault is this controller's. A fault that names no controller is the only controller's.
fn is_on(fault: &ControllerFault, controller: &Controller) -> bool {
    fault.controller.is_empty() || fault.controller == controller.name
}

#[cfg(test)]
mod tests;
