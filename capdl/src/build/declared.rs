//! The scenario as the authority checker is given it: the declaration of the decisions that its author made.

use super::moments::Numbering;
use crate::check::declaration::{Change, Channel, Controller, Declaration, Kill, Servers, Tenant};
use crate::error::BuildError;
use crate::programs::{self, Programs};
use crate::scenario::{self, Path, Scenario, What};
use blk_api::policy::{self, Entitlement, InterruptsChange};
use capdl_spec::Role;

/// The declaration of a scenario, built from these programs.
///
/// # Errors
/// [`BuildError`] for a program that is not there, or is none.
pub(crate) fn declaration(scenario: &Scenario, programs: &Programs) -> Result<Declaration, BuildError> {
    let numbering = Numbering::new(scenario);
    let scenario::Server { policy, class_weights, queues: queue_sharing, records, merging, priority, restart } =
        scenario.server;
    let peers = scenario.tenants.iter().filter(|tenant| !tenant.peer.is_empty());
    Ok(Declaration {
        controllers: scenario.controllers.iter().map(|one| controller(scenario, &numbering, one)).collect(),
        tenants: scenario.tenants.iter().map(|one| tenant(scenario, &numbering, one)).collect(),
        channels: peers.map(|one| Channel { from: one.name.clone(), to: one.peer.clone() }).collect(),
        servers: Servers {
            policy,
            class_weights,
            queue_sharing,
            records,
            merging,
            priority,
            restart: Some(restart.to_policy()),
        },
        changes: changes(scenario, &numbering),
        assigns_addresses: scenario.assigns_addresses(),
        probe: scenario.probe.as_ref().map(|probe| probe.last),
        moments: numbering.all(),
        kills: kills(scenario, &numbering),
        console_priority: scenario.console.priority,
        has_telemetry: scenario.telemetry.is_some(),
        has_traces: scenario.telemetry.as_ref().is_some_and(|telemetry| telemetry.trace_pages > 0),
        control: scenario.control.as_ref().map(|control| control.acts.clone()),
        administration: scenario.administration(),
        pci_server_restart: Some(scenario.pci_server.restart.to_policy()),
        iommu_server_restart: Some(scenario.iommu_server.restart.to_policy()),
        programs: programs
            .among(&[scenario.programs().as_slice(), programs::of(Role::IommuServer).as_slice()].concat())?,
    })
}

fn controller(scenario: &Scenario, numbering: &Numbering<'_>, one: &scenario::Controller) -> Controller {
    let changes = numbering.of_controller(one);
    Controller {
        driver: scenario.server_name(&one.name),
        hot_plug: one.hot_plug,
        queue_pairs: one.server_queue_pairs(),
        vectors: one.vector_count(),
        doorbell_stride: one.model.doorbell_stride,
        interrupts: one.interrupts,
        changes: changes.map(|(change, moment)| InterruptsChange { moment, to: change.interrupts }).collect(),
        quirks: one.quirks.clone(),
    }
}

fn tenant(scenario: &Scenario, numbering: &Numbering<'_>, one: &scenario::Tenant) -> Tenant {
    let moment = |name: &Option<String>| name.as_deref().and_then(|name| numbering.named(name));
    Tenant {
        name: one.name.clone(),
        program: one.workload.program().into(),
        config: one.workload.config(),
        server: scenario.server_name(&one.controller),
        has_function: one.path == Path::Function,
        nsid: one.namespace,
        extents: one.extents.clone(),
        writable: one.writable,
        share: share(one),
        highest: one.highest(),
        core: one.core,
        completion: one.completion,
        ring_entries: one.ring_entries,
        window_bytes: one.window,
        traced: scenario.traced(one),
        waits: one.waits,
        opens: moment(&one.opens),
        begins: moment(&one.begins),
        ends: moment(&one.ends),
        priority: scenario.priority(one),
        restart: one.restart.map(scenario::Restart::to_policy),
        alarm: one.alarm,
    }
}

fn share(tenant: &scenario::Tenant) -> Entitlement {
    let scenario::Tenant { class, weight, iops, bandwidth, queue_pairs, depth, .. } = *tenant;
    Entitlement { class, weight, iops, bandwidth, queue_pairs, depth }
}

/// The changes of all tenants. A share that names only some values keeps those of the share before.
fn changes(scenario: &Scenario, numbering: &Numbering<'_>) -> Vec<Change> {
    let mut tenants = scenario.tenants.clone();
    let mut changes = Vec::new();
    for (scenario::Change { tenant, what, .. }, moment) in numbering.changes() {
        let what = match what {
            What::Revoke(all) => policy::What::Revoke(all.clone()),
            What::Grant(all) => policy::What::Grant(all.clone()),
            What::Entitle(to) => {
                let Some(one) = tenants.iter_mut().find(|one| one.name == *tenant) else { continue };
                one.entitle(to);
                policy::What::Entitle(share(one))
            }
        };
        changes.push(Change { moment, tenant: tenant.clone(), what });
    }
    changes
}

fn kills(scenario: &Scenario, numbering: &Numbering<'_>) -> Vec<Kill> {
    let kill = |(kill, moment): (&scenario::Kill, u16)| Kill {
        component: kill.component.clone(),
        moment,
        times: kill.times,
        every_us: u64::from(kill.every_ms) * 1000,
        spread_us: kill.within_ms.saturating_mul(1000),
    };
    scenario.kills.iter().zip(numbering.first_of_kills()..).map(kill).collect()
}
