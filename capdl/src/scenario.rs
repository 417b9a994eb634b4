//! Scenario files: a machine, its controllers, its tenants, their work, and the results that a run must show.
//!
//! Each scenario is one TOML file in `scenarios/`. [`Scenario::load`] reads and checks one, and every scenario that it accepts
//! can be built. Unknown keys and numbers that contradict each other are refused with one sentence that names the place and the
//! fix. Not here: how a controller is put into QEMU (`xtask`), and the results of a run.

mod bytes;
mod change;
mod components;
mod controller;
mod edu;
mod error;
mod expect;
mod hot_plug;
mod kill;
mod pci;
mod probe;
mod program;
mod tenant;
mod validate;

pub use blk_api::config::Interrupts;
pub use change::{Change, Entitlement, What};
pub use controller::{
    Arbitration, Attach, Backend, Content, Controller, ControllerChange, FUNCTION_QUEUES, Media, Model, Namespace,
    slot_number,
};
pub use edu::{EDU_DRIVER, Edu};
pub use error::ScenarioError;
pub use expect::{Expect, ExpectedInterrupts, ExpectedQueues, Span};
pub use hot_plug::{Action, HotPlug, Moved};
pub use kill::Kill;
pub use pci::{IOMMU_SERVER, IommuServer, Pci, PciServer};
pub use probe::{PROBE, Probe};
pub use program::{Own, Workload};
pub use tenant::{Path, Tenant};
pub(crate) use validate::function::QUEUE_PAIRS;

use crate::priority::{CONSOLE_PRIORITY, SERVER_PRIORITY, priority_of};
use blk_api::config::{ClassWeights, SchedulingPolicy};
use blk_api::extent::Extent;
use blk_api::queue_sharing::QueueSharing;
use capdl_spec::{Arch, RestartPolicy};
use error::shown;
use serde::Deserialize;
use sim_fault::{ControllerEffect, ControllerFault, Fault};
use std::path::Path as FilePath;
use toml::Spanned;

/// The largest number of copies of a tenant.
pub const MAX_COPIES: u16 = 256;
/// Records of extents of an NVMe server unless the scenario names another number (SEEDS M3).
pub const RECORDS: u32 = 16_384;

/// A checked scenario. A tenant with `copies` is already expanded into so many tenants.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// One sentence that says what the scenario shows.
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
    /// Faults to inject: in the simulator, some of them in QEMU too.
    pub faults: Vec<Fault>,
    /// Components that are stopped in the middle of their work.
    pub kills: Vec<Kill>,
    /// Controllers that come and go, the earliest event first.
    pub hot_plugs: Vec<HotPlug>,
    /// Changes while the system runs, the earliest first.
    pub changes: Vec<Change>,
    /// The results that a run must show.
    pub expect: Expect,
}

/// The machine.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Machine {
    /// Bytes of its memory.
    #[serde(deserialize_with = "bytes::deserialize")]
    pub memory: u64,
    /// Its architecture, in the simulator. On QEMU the command names it.
    pub arch: Arch,
    /// The order of ready threads of one priority, in the simulator.
    pub thread_order: ThreadOrder,
    /// Whether there is an IOMMU. Without one, devices reach all memory, and so do the components that program them. `false` is
    /// for QEMU alone, to show what is left of the isolation.
    pub iommu: bool,
}

impl Default for Machine {
    fn default() -> Self {
        Self { memory: 256 << 20, arch: Arch::default(), thread_order: ThreadOrder::default(), iommu: true }
    }
}

/// The order of ready threads of one priority, in the simulator. QEMU always has seL4's order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThreadOrder {
    /// Drawn from the seed, at each switch: finds defects that depend on the order.
    #[default]
    Drawn,
    /// The first of the kernel's ready queue: latencies are as on seL4.
    Sel4,
}

impl std::fmt::Display for ThreadOrder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Drawn => "drawn",
            Self::Sel4 => "sel4",
        })
    }
}

impl std::str::FromStr for ThreadOrder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "drawn" => Ok(Self::Drawn),
            "sel4" => Ok(Self::Sel4),
            _ => Err("write drawn or sel4".to_owned()),
        }
    }
}

/// Settings of all NVMe servers.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// Its scheduling priority.
    pub priority: u8,
    /// The scheduling policy: which session's request goes to the controller next.
    pub policy: SchedulingPolicy,
    /// Weights of the classes below urgent.
    pub class_weights: ClassWeights,
    /// How tenants share queue pairs.
    pub queues: QueueSharing,
    /// How often a server, or the policy component beside it, is started again after a fault.
    pub restart: Restart,
    /// Records of extents that a server keeps for all its sessions together.
    pub records: u32,
    /// Whether adjacent records with the same rights become one. `false` is for comparison alone (SEEDS M5).
    pub merging: bool,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            priority: SERVER_PRIORITY,
            policy: SchedulingPolicy::default(),
            class_weights: ClassWeights::default(),
            queues: QueueSharing::default(),
            restart: Restart::default(),
            records: RECORDS,
            merging: true,
        }
    }
}

/// Limit on restarts: so many times in any so many seconds; the next fault ends the component.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Restart {
    /// Restarts; 0 for none.
    pub times: u16,
    /// Seconds.
    pub within_seconds: u16,
}

impl Default for Restart {
    fn default() -> Self {
        Self { times: 5, within_seconds: 60 }
    }
}

impl Restart {
    pub(crate) fn to_policy(self) -> RestartPolicy {
        RestartPolicy { times: self.times, within_ms: u32::from(self.within_seconds) * 1000 }
    }
}

/// The console.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Console {
    /// Its scheduling priority.
    pub priority: u8,
}

impl Default for Console {
    fn default() -> Self {
        Self { priority: CONSOLE_PRIORITY }
    }
}

/// A scenario file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Spanned<String>,
    description: String,
    #[serde(default = "default_seed")]
    seed: u64,
    #[serde(default)]
    machine: Machine,
    #[serde(rename = "controller", default)]
    controllers: Vec<Spanned<Controller>>,
    #[serde(rename = "tenant", default)]
    tenants: Vec<Spanned<Tenant>>,
    #[serde(rename = "fault", default)]
    faults: Vec<Spanned<Fault>>,
    #[serde(rename = "kill", default)]
    kills: Vec<Spanned<Kill>>,
    #[serde(rename = "hotplug", default)]
    hot_plugs: Vec<Spanned<hot_plug::Written>>,
    #[serde(rename = "change", default)]
    changes: Vec<Spanned<change::Written>>,
    #[serde(default)]
    probe: Option<Probe>,
    #[serde(default)]
    edu: Option<Edu>,
    #[serde(default)]
    pci: Pci,
    #[serde(default)]
    pci_server: PciServer,
    #[serde(default)]
    iommu_server: IommuServer,
    #[serde(default)]
    server: Server,
    #[serde(default)]
    console: Console,
    #[serde(default)]
    expect: Expect,
}

const fn default_seed() -> u64 {
    1
}

/// The line numbers of the name, controllers, tenants, faults, kills, hot-plug events and changes, for errors.
struct Lines {
    name: usize,
    controllers: Vec<usize>,
    tenants: Vec<usize>,
    faults: Vec<usize>,
    kills: Vec<usize>,
    hot_plugs: Vec<usize>,
    changes: Vec<usize>,
}

impl Scenario {
    /// Loads the scenario in the file at `path`.
    ///
    /// # Errors
    /// [`ScenarioError`] for a file that cannot be read, is not a scenario, or contradicts itself.
    pub fn load(path: impl AsRef<FilePath>) -> Result<Self, ScenarioError> {
        let path = path.as_ref();
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| ScenarioError {
            file: file.clone(),
            line: None,
            message: format!("cannot be read ({error}): name a scenario file that exists"),
        })?;
        let mut scenario = Self::parse(&text, &file)?;
        let folder = path.parent().unwrap_or(FilePath::new(""));
        scenario.tenants.iter_mut().for_each(|tenant| tenant.workload.resolve(folder));
        Ok(scenario)
    }

    /// Parses the scenario in `text`; errors call the file `file`.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn parse(text: &str, file: &str) -> Result<Self, ScenarioError> {
        let parsed: File = toml::from_str(text).map_err(|error| ScenarioError {
            file: file.into(),
            line: error.span().map(|span| line_of(text, span.start)),
            message: shown(&error.message().replace('\n', ", ")),
        })?;
        let checked = from_file(parsed, text).and_then(|(scenario, lines)| {
            validate::validate(&scenario, &lines)?;
            Ok(scenario)
        });
        checked.map_err(|refusal| ScenarioError {
            file: file.into(),
            line: refusal.line,
            message: shown(&refusal.message),
        })
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
            controller.model != Model::default() || controller.ways().any(|way| way == Interrupts::Msi)
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
            ControllerEffect::SpuriousInterrupt { .. } | ControllerEffect::NeverReady | ControllerEffect::PowerLoss => {
                false
            }
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

/// All blocks of namespace `nsid`.
fn whole(controller: &Controller, nsid: u32) -> Option<Extent> {
    let namespace = controller.namespaces.get((nsid as usize).checked_sub(1)?)?;
    Some(Extent::new(0, namespace.blocks()))
}

fn from_file(file: File, text: &str) -> Result<(Scenario, Lines), validate::Refusal> {
    let only_controller = match file.controllers.as_slice() {
        [only] => only.get_ref().name.clone(),
        _ => String::new(),
    };
    let mut lines = Lines {
        name: line_of(text, file.name.span().start),
        controllers: Vec::new(),
        tenants: Vec::new(),
        faults: Vec::new(),
        kills: Vec::new(),
        hot_plugs: Vec::new(),
        changes: Vec::new(),
    };
    let mut controllers = Vec::new();
    for spanned in file.controllers {
        lines.controllers.push(line_of(text, spanned.span().start));
        let mut controller = spanned.into_inner();
        if controller.serial.is_empty() {
            controller.serial.clone_from(&controller.name);
        }
        controllers.push(controller);
    }
    let mut tenants = Vec::new();
    for spanned in file.tenants {
        let line = line_of(text, spanned.span().start);
        let mut tenant = spanned.into_inner();
        if tenant.controller.is_empty() {
            tenant.controller.clone_from(&only_controller);
        }
        if tenant.path == Path::Function && tenant.extents.is_empty() {
            let controller = controllers.iter().find(|controller| controller.name == tenant.controller);
            tenant.extents.extend(controller.and_then(|controller| whole(controller, tenant.namespace)));
        }
        copy(tenant, &mut tenants);
        lines.tenants.resize(tenants.len(), line);
    }
    let mut faults = Vec::new();
    for spanned in file.faults {
        lines.faults.push(line_of(text, spanned.span().start));
        faults.push(spanned.into_inner());
    }
    let mut kills = Vec::new();
    for spanned in file.kills {
        lines.kills.push(line_of(text, spanned.span().start));
        kills.push(spanned.into_inner());
    }
    let mut hot_plugs: Vec<(HotPlug, usize)> = Vec::new();
    for spanned in file.hot_plugs {
        let line = line_of(text, spanned.span().start);
        hot_plugs.extend(spanned.into_inner().events(line)?.into_iter().map(|event| (event, line)));
    }
    hot_plugs.sort_by_key(|(event, _)| event.after_ms);
    let (hot_plugs, of_hot_plugs) = hot_plugs.into_iter().unzip();
    lines.hot_plugs = of_hot_plugs;
    let mut changes = Vec::new();
    for spanned in file.changes {
        let line = line_of(text, spanned.span().start);
        changes.push((spanned.into_inner().change(line)?, line));
    }
    // In the order of their times.
    changes.sort_by_key(|(change, _)| change.after_ms);
    let (changes, of_changes) = changes.into_iter().unzip();
    lines.changes = of_changes;
    let File {
        name,
        description,
        seed,
        machine,
        mut probe,
        edu,
        pci,
        pci_server,
        iommu_server,
        server,
        console,
        expect,
        ..
    } = file;
    if let Some(probe) = probe.as_mut().filter(|probe| probe.controller.is_empty()) {
        probe.controller = only_controller;
    }
    let scenario = Scenario {
        name: name.into_inner(),
        description,
        seed,
        machine,
        controllers,
        tenants,
        probe,
        edu,
        pci,
        pci_server,
        iommu_server,
        server,
        console,
        faults,
        kills,
        hot_plugs,
        changes,
        expect,
    };
    Ok((scenario, lines))
}

/// Appends `tenant`, or its copies, to `tenants`.
fn copy(tenant: Tenant, tenants: &mut Vec<Tenant>) {
    if tenant.copies == 0 || tenant.copies > MAX_COPIES {
        tenants.push(tenant);
        return;
    }
    let first = tenant.extents.iter().map(|extent| extent.first).min().unwrap_or(0);
    let end = tenant.extents.iter().filter_map(|extent| extent.end()).max().unwrap_or(0);
    let stride = end.saturating_sub(first);
    for number in 0..u64::from(tenant.copies) {
        let mut one = tenant.clone();
        one.copies = 0;
        one.name = format!("{}-{number}", tenant.name);
        for extent in &mut one.extents {
            extent.first = extent.first.saturating_add(stride.saturating_mul(number));
        }
        match &mut one.workload {
            Workload::Bench(bench) => bench.seed = bench.seed.wrapping_add(number),
            Workload::Flood(flood) => flood.seed = flood.seed.wrapping_add(number),
            Workload::Digest(_) | Workload::Hostile(_) | Workload::Signal(_) | Workload::Own(_) => {}
        }
        tenants.push(one);
    }
}

/// The line, from 1, of the byte at `offset`.
fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count().saturating_add(1)
}

#[cfg(test)]
mod tests;
