//! A scenario file as it is written, and the scenario that it means: names that may be left out, copies of tenants, repeated events.

use super::{
    Console, Control, Controller, Edu, Expect, HotPlug, IommuServer, Kill, MAX_COPIES, Machine, Moment, Path, Pci,
    PciServer, Probe, Scenario, Server, Telemetry, Tenant, When, Workload, change, hot_plug,
};
use crate::scenario::refusal::Refusal;
use blk_api::extent::Extent;
use control_api::Act;
use serde::Deserialize;
use sim_fault::Fault;
use toml::Spanned;
use workload::Forbidden;

/// A scenario: a machine, its controllers, its tenants, their work, and the results that a run must show.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Scenario"))]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    /// Name of the scenario, and of the folders of its runs: 1 to 64 letters, digits and `-`.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    name: Spanned<String>,
    /// Description in one sentence: what the scenario shows.
    description: String,
    /// Seed of a simulated run that is given none.
    #[serde(default = "default_seed")]
    seed: u64,
    /// The machine.
    #[serde(default)]
    machine: Machine,
    /// NVMe controllers, in the order of the root bus.
    #[serde(rename = "controller", default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Controller>"))]
    controllers: Vec<Spanned<Controller>>,
    /// Tenants.
    #[serde(rename = "tenant", default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Tenant>"))]
    tenants: Vec<Spanned<Tenant>>,
    /// Faults to inject: in the simulator, some of them in QEMU too.
    #[serde(rename = "fault", default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Fault>"))]
    faults: Vec<Spanned<Fault>>,
    /// Moments, which kills, changes and loads wait for.
    #[serde(rename = "moment", default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Moment>"))]
    moments: Vec<Spanned<Moment>>,
    /// Components that are stopped in the middle of their work.
    #[serde(rename = "kill", default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<super::kill::Written>"))]
    kills: Vec<Spanned<Kill>>,
    /// Controllers that come and go.
    #[serde(rename = "hotplug", default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<hot_plug::Written>"))]
    hot_plugs: Vec<Spanned<hot_plug::Written>>,
    /// Changes for tenants while the system runs.
    #[serde(rename = "change", default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<change::Written>"))]
    changes: Vec<Spanned<change::Written>>,
    /// The probe, in scenarios that are about it.
    #[serde(default)]
    probe: Option<Probe>,
    /// The edu device, in scenarios that are about interrupts.
    #[serde(default)]
    edu: Option<Edu>,
    /// The PCI tree.
    #[serde(default)]
    pci: Pci,
    /// The PCI server.
    #[serde(default)]
    pci_server: PciServer,
    /// The IOMMU server, on a machine that has one.
    #[serde(default)]
    iommu_server: IommuServer,
    /// Settings of all NVMe servers.
    #[serde(default)]
    server: Server,
    /// The console.
    #[serde(default)]
    console: Console,
    /// Statistics for the build machine; without it no component shows any.
    #[serde(default)]
    telemetry: Option<Telemetry>,
    /// A component by which an operator acts on the running system; without it there is none.
    #[serde(default)]
    control: Option<Control>,
    /// Results that a run must show.
    #[serde(default)]
    expect: Expect,
}

const fn default_seed() -> u64 {
    1
}

impl File {
    /// The scenario, not checked yet, and the lines of its parts.
    pub(super) fn scenario(self, text: &str) -> Result<(Scenario, Lines), Vec<Refusal>> {
        let ends: Vec<usize> = text.match_indices('\n').map(|(end, _)| end).collect();
        let line_of = |offset: usize| ends.partition_point(|end| *end < offset).saturating_add(1);
        let only_controller = match self.controllers.as_slice() {
            [only] => only.get_ref().name.clone(),
            _ => String::new(),
        };
        let mut lines = Lines {
            name: line_of(self.name.span().start),
            controllers: Vec::new(),
            tenants: Vec::new(),
            faults: Vec::new(),
            moments: Vec::new(),
            kills: Vec::new(),
            hot_plugs: Vec::new(),
            changes: Vec::new(),
        };
        let mut refusals = Vec::new();
        let mut controllers = Vec::new();
        for spanned in self.controllers {
            lines.controllers.push(line_of(spanned.span().start));
            let mut controller = spanned.into_inner();
            When::sort(&mut controller.changes, |change| &change.when);
            if controller.serial.is_empty() {
                controller.serial.clone_from(&controller.name);
            }
            controllers.push(controller);
        }
        let mut tenants = Vec::new();
        for spanned in self.tenants {
            let line = line_of(spanned.span().start);
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
        if self.control.as_ref().is_some_and(|control| control.acts.contains(&Act::Rights)) {
            tenants.iter_mut().for_each(expects_an_operator);
        }
        let mut faults = Vec::new();
        for spanned in self.faults {
            lines.faults.push(line_of(spanned.span().start));
            faults.push(spanned.into_inner());
        }
        let mut moments = Vec::new();
        for spanned in self.moments {
            lines.moments.push(line_of(spanned.span().start));
            moments.push(spanned.into_inner());
        }
        let mut kills = Vec::new();
        for spanned in self.kills {
            lines.kills.push(line_of(spanned.span().start));
            kills.push(spanned.into_inner());
        }
        let mut hot_plugs: Vec<(HotPlug, usize)> = Vec::new();
        for spanned in self.hot_plugs {
            let line = line_of(spanned.span().start);
            match spanned.into_inner().events(line) {
                Ok(events) => hot_plugs.extend(events.into_iter().map(|event| (event, line))),
                Err(refusal) => refusals.push(refusal),
            }
        }
        hot_plugs.sort_by_key(|(event, _)| event.after_ms);
        let (hot_plugs, of_hot_plugs) = hot_plugs.into_iter().unzip();
        lines.hot_plugs = of_hot_plugs;
        let mut changes = Vec::new();
        for spanned in self.changes {
            let line = line_of(spanned.span().start);
            match spanned.into_inner().change(line) {
                Ok(change) => changes.push((change, line)),
                Err(refusal) => refusals.push(refusal),
            }
        }
        When::sort(&mut changes, |(change, _)| &change.when);
        let (changes, of_changes) = changes.into_iter().unzip();
        lines.changes = of_changes;
        if !refusals.is_empty() {
            return Err(refusals);
        }
        let mut probe = self.probe;
        if let Some(probe) = probe.as_mut().filter(|probe| probe.controller.is_empty()) {
            probe.controller = only_controller;
        }
        let scenario = Scenario {
            name: self.name.into_inner(),
            description: self.description,
            seed: self.seed,
            machine: self.machine,
            controllers,
            tenants,
            probe,
            edu: self.edu,
            pci: self.pci,
            pci_server: self.pci_server,
            iommu_server: self.iommu_server,
            server: self.server,
            console: self.console,
            telemetry: self.telemetry,
            control: self.control,
            faults,
            moments,
            kills,
            hot_plugs,
            changes,
            expect: self.expect,
        };
        Ok((scenario, lines))
    }
}

/// The line numbers of the name, controllers, tenants, faults, moments, kills, hot-plug events and changes, for errors.
pub(super) struct Lines {
    pub(super) name: usize,
    pub(super) controllers: Vec<usize>,
    pub(super) tenants: Vec<usize>,
    pub(super) faults: Vec<usize>,
    pub(super) moments: Vec<usize>,
    pub(super) kills: Vec<usize>,
    pub(super) hot_plugs: Vec<usize>,
    pub(super) changes: Vec<usize>,
}

/// All blocks of namespace `nsid`.
fn whole(controller: &Controller, nsid: u32) -> Option<Extent> {
    let namespace = controller.namespaces.get((nsid as usize).checked_sub(1)?)?;
    Some(Extent::new(0, namespace.blocks()))
}

/// Lets a load lose rights that an operator may take.
fn expects_an_operator(tenant: &mut Tenant) {
    if let Workload::Bench(bench) = &mut tenant.workload
        && bench.forbidden == Forbidden::Never
    {
        bench.forbidden = Forbidden::Possibly;
    }
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
