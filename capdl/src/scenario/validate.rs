//! Refuses scenarios that contradict themselves: each refusal is one sentence that ends with the fix.

mod change;
mod control;
mod controller;
mod edu;
mod fault;
pub(super) mod function;
mod hot_plug;
mod interrupts;
mod later;
mod limits;
mod load;
mod memory;
mod moment;
mod names;
mod pci;
mod peer;
mod priority;
mod probe;
mod queues;
mod registers;
mod share;
mod span;
mod telemetry;
mod virtual_functions;

use super::{Controller, IOMMU_SERVER, MAX_COPIES, Namespace, PROBE, Path, Scenario, Tenant, Workload};
use crate::programs::own_base;
use crate::scenario::file::Lines;
use crate::scenario::refusal::{Checked, Refusal, refuse, refuse_file};
use crate::scenario::validate::names::{check_name, check_unique};
use crate::scenario::validate::span::is_load;
use blk_api::config::ServerConfig;
use blk_api::extent::{Extent, ExtentMap};
use capdl_spec::Arch;
use std::collections::BTreeSet;

/// Longest name of a scenario; a run's folder is named after it.
const MAX_SCENARIO_NAME: usize = 64;
/// Longest name of a tenant; names of objects and of servers are made from it.
const MAX_NAME: usize = 24;
/// Least records for each session: a request that touches more extents may find them evicted again each time.
const RECORDS_A_SESSION: u32 = 4;
/// Bytes of the smallest machine.
const LEAST_MEMORY: u64 = 64 << 20;

/// Checks the scenario: first every table by itself, and then, if all are sound, the tables together.
///
/// # Errors
/// A refusal for each table that is wrong, or for each contradiction between tables.
pub(super) fn validate(scenario: &Scenario, lines: &Lines) -> Result<(), Vec<Refusal>> {
    let is_there = check_presence(scenario);
    let tables = if is_there.is_ok() { check_tables(scenario, lines) } else { Vec::new() };
    let refusals: Vec<_> = [is_there].into_iter().chain(tables).filter_map(Checked::err).collect();
    if !refusals.is_empty() {
        return Err(refusals);
    }
    let together = [
        controller::check_serials(scenario, lines),
        registers::check_room(scenario, lines),
        pci::check(scenario, lines),
        moment::check(scenario, lines),
        hot_plug::check_events(scenario, &lines.hot_plugs),
        check_own_programs(scenario, lines),
        check_sessions(scenario, lines),
        check_overlaps(scenario, lines),
        change::check(scenario, lines),
        check_records(scenario),
        queues::check_all(scenario, lines),
        priority::check(scenario, lines),
        check_expectations(scenario),
        check_floods(scenario, lines),
        telemetry::check(scenario),
    ];
    let refusals: Vec<_> = together.into_iter().filter_map(Checked::err).collect();
    if !refusals.is_empty() {
        return Err(refusals);
    }
    // Everything takes memory: too much of another thing is refused as that.
    memory::check(scenario, lines).map_err(|refusal| vec![refusal])
}

/// Checks that there is a device and somebody who uses it.
fn check_presence(scenario: &Scenario) -> Checked {
    if scenario.edu.is_some() {
        edu::check(scenario)?;
    } else if scenario.controllers.is_empty() {
        return refuse_file("there is no controller: add a [[controller]]".into());
    }
    if scenario.tenants.is_empty() && scenario.tester().is_none() {
        return refuse_file("there is no tenant: add a [[tenant]]".into());
    }
    Ok(())
}

/// Checks each table. Tables that belong to a controller which is refused are not checked.
fn check_tables(scenario: &Scenario, lines: &Lines) -> Vec<Checked> {
    let mut all = vec![
        check_scenario_name(&scenario.name, lines.name),
        check_memory(scenario),
        check_iommu(scenario),
        control::check(scenario),
        share::check_class_weights(scenario.server.class_weights),
    ];
    let (mut names, mut unsound) = (BTreeSet::new(), BTreeSet::new());
    for (controller, line) in scenario.controllers.iter().zip(&lines.controllers) {
        let checked = check_controller(scenario, controller, &mut names, *line);
        unsound.extend(checked.is_err().then_some(controller.name.as_str()));
        all.push(checked);
    }
    let mut names = BTreeSet::new();
    for (tenant, line) in scenario.tenants.iter().zip(&lines.tenants) {
        let checked = check_named_tenant(scenario, tenant, &mut names, *line);
        // All copies of a tenant are refused alike.
        let is_copy = |one: &Checked| one.as_ref().is_err_and(|refusal| refusal.line == Some(*line));
        if !unsound.contains(tenant.controller.as_str()) && !all.iter().any(is_copy) {
            all.push(checked);
        }
    }
    if unsound.is_empty() {
        all.extend(scenario.probe.as_ref().map(|probe| probe::check(scenario, probe)));
        let faults = scenario.faults.iter().zip(&lines.faults);
        all.extend(faults.map(|(fault, line)| fault::check(scenario, fault, *line)));
        let kills = scenario.kills.iter().zip(&lines.kills);
        all.extend(kills.map(|(kill, line)| fault::check_kill(scenario, kill, *line)));
    }
    all
}

fn check_iommu(scenario: &Scenario) -> Checked {
    if scenario.machine.iommu || !scenario.needs_iommu_server() {
        return Ok(());
    }
    refuse_file(format!("[machine] iommu is false, and the scenario names `{IOMMU_SERVER}`: leave one out"))
}

fn check_controller<'a>(
    scenario: &Scenario,
    controller: &'a Controller,
    names: &mut BTreeSet<&'a str>,
    line: usize,
) -> Checked {
    controller::check(controller, names, line)?;
    virtual_functions::check(controller, line)?;
    later::check(scenario, controller, line)?;
    interrupts::check(scenario, controller, line)?;
    hot_plug::check_controller(scenario, controller, line)
}

fn check_named_tenant<'a>(
    scenario: &Scenario,
    tenant: &'a Tenant,
    names: &mut BTreeSet<&'a str>,
    line: usize,
) -> Checked {
    check_name("tenant", &tenant.name, MAX_NAME, line)?;
    check_unique("tenant", &tenant.name, names, line)?;
    check_tenant(scenario, tenant, line)?;
    peer::check(scenario, tenant, line)?;
    hot_plug::check_tenant(scenario, tenant, line)
}

/// Checks that the machine can have so much memory: as far as the PCI window on x86_64, as much as the kernel is built for on AArch64.
fn check_memory(scenario: &Scenario) -> Checked {
    let bytes = scenario.machine.memory;
    let most: u64 = match scenario.machine.arch {
        Arch::X86_64 => 2 << 30,
        Arch::Aarch64 => 1 << 30,
    };
    if (LEAST_MEMORY..=most).contains(&bytes) && bytes.is_multiple_of(1 << 20) {
        return Ok(());
    }
    refuse_file(format!(
        "[machine] memory is {bytes} bytes, and the {} machine has whole MiB from \"{}M\" to \"{}G\": write one of these sizes",
        scenario.machine.arch,
        LEAST_MEMORY >> 20,
        most >> 30
    ))
}

/// Checks the name: it becomes a part of file names and is printed.
fn check_scenario_name(name: &str, line: usize) -> Checked {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if name.starts_with('-') || !(1..=MAX_SCENARIO_NAME).contains(&name.len()) || !name.bytes().all(good) {
        return refuse(
            line,
            format!(
                "the scenario's name `{}` is not 1 to {MAX_SCENARIO_NAME} letters, digits and `-`, without `-` in front: \
                 rename it",
                name.escape_debug()
            ),
        );
    }
    Ok(())
}

fn check_tenant(scenario: &Scenario, tenant: &Tenant, line: usize) -> Checked {
    let name = &tenant.name;
    if tenant.copies > MAX_COPIES {
        return refuse(line, format!("tenant `{name}` has {} copies: write {MAX_COPIES} at most", tenant.copies));
    }
    let Some((_, controller)) = scenario.controller(&tenant.controller) else {
        let known: Vec<_> = scenario.controllers.iter().map(|controller| controller.name.as_str()).collect();
        return refuse(
            line,
            format!(
                "tenant `{name}` names the controller `{}`, which is not there: name one of {}",
                tenant.controller,
                known.join(", ")
            ),
        );
    };
    let Some(namespace) = scenario.namespace(tenant) else {
        return refuse(
            line,
            format!(
                "tenant `{name}` names namespace {} but `{}` has 1 to {}: name one of them",
                tenant.namespace,
                controller.name,
                controller.namespaces.len()
            ),
        );
    };
    if namespace.model.inactive {
        return refuse(
            line,
            format!(
                "tenant `{name}` names namespace {} of `{}`, which is inactive: name another one",
                tenant.namespace, controller.name
            ),
        );
    }
    if tenant.path == Path::Server && !controller.is_attached(tenant.namespace) {
        return refuse(
            line,
            format!(
                "tenant `{name}` names namespace {} but `{}` has virtual functions, to which those beyond namespace 1 \
                 belong: name namespace 1, or write `path = \"function\"`",
                tenant.namespace, controller.name
            ),
        );
    }
    if tenant.path == Path::Function {
        function::check(scenario, tenant, controller, line)?;
    } else {
        queues::check(&scenario.server, tenant, line)?;
    }
    share::check(tenant, line)?;
    check_extents(tenant, namespace, line)?;
    load::check(tenant, namespace, line)
}

fn check_extents(tenant: &Tenant, namespace: &Namespace, line: usize) -> Checked {
    let name = &tenant.name;
    if tenant.extents.is_empty() {
        return refuse(
            line,
            format!("tenant `{name}` has no extents: add `extents = [{{ first = 0, blocks = 1024 }}]`"),
        );
    }
    let Some(map) = ExtentMap::new(&tenant.extents) else {
        let unsound = |extent: &&Extent| extent.blocks == 0 || extent.first.checked_add(extent.blocks).is_none();
        let which = tenant.extents.iter().find(unsound).map_or_else(String::new, |Extent { first, blocks, .. }| {
            format!(" ({blocks} blocks from block {first} on)")
        });
        return refuse(
            line,
            format!(
                "tenant `{name}` has an extent that is empty or beyond all numbers{which}: give it 1 block or more"
            ),
        );
    };
    let (end, blocks) = (map.namespace_end(), namespace.blocks());
    if end > blocks {
        return refuse(
            line,
            format!(
                "tenant `{name}` has an extent up to block {end} but namespace {} has {blocks} blocks: shorten it",
                tenant.namespace
            ),
        );
    }
    Ok(())
}

/// Checks that no block of a namespace belongs to two tenants, unless both only read.
fn check_overlaps(scenario: &Scenario, lines: &Lines) -> Checked {
    for (index, (tenant, line)) in scenario.tenants.iter().zip(&lines.tenants).enumerate() {
        for (position, extent) in tenant.extents.iter().enumerate() {
            if tenant.extents.iter().skip(position + 1).any(|other| other.overlaps(*extent)) {
                return refuse(*line, format!("tenant `{}` has extents that overlap: move one of them", tenant.name));
            }
        }
        for other in scenario.tenants.iter().take(index) {
            let same = tenant.controller == other.controller && tenant.namespace == other.namespace;
            let writes = |extent: &Extent, theirs: &Extent| {
                (tenant.writable && extent.writable) || (other.writable && theirs.writable)
            };
            let meets = |extent: &&Extent| {
                other.extents.iter().any(|theirs| theirs.overlaps(**extent) && writes(extent, theirs))
            };
            if let (true, Some(extent)) = (same, tenant.extents.iter().find(meets)) {
                return refuse(
                    *line,
                    format!(
                        "tenant `{}` has an extent at block {} that overlaps one of tenant `{}`: \
                         move it, or make both read-only",
                        tenant.name, extent.first, other.name
                    ),
                );
            }
        }
    }
    Ok(())
}

/// Checks that crates of one name are one crate, and that each has an address.
fn check_own_programs(scenario: &Scenario, lines: &Lines) -> Checked {
    let known = scenario.own_programs();
    for (tenant, line) in scenario.tenants.iter().zip(&lines.tenants) {
        let Workload::Own(own) = &tenant.workload else { continue };
        if known.iter().any(|other| other.name == own.name && other.path != own.path) {
            return refuse(*line, format!("two programs are called `{}`: rename the folder of one", own.name));
        }
    }
    let most = (0..).take_while(|index| own_base(*index).is_some()).count();
    let Some(extra) = known.get(most) else { return Ok(()) };
    let is_its = |tenant: &Tenant| matches!(&tenant.workload, Workload::Own(own) if own.name == extra.name);
    let line = scenario.tenants.iter().zip(&lines.tenants).find(|(tenant, _)| is_its(tenant)).map(|(_, line)| *line);
    let message = format!("there are {} programs of one's own, and {most} are the most: leave some out", known.len());
    Err(Refusal { line, message })
}

/// Checks that a server has no more sessions than it can serve.
fn check_sessions(scenario: &Scenario, lines: &Lines) -> Checked {
    let most = ServerConfig::MOST_SESSIONS;
    for (Controller { name, .. }, line) in scenario.controllers.iter().zip(&lines.controllers) {
        let sessions = scenario.sessions(name).count();
        if sessions > most {
            return refuse(
                *line,
                format!(
                    "controller `{name}` has {sessions} tenants, and its server serves {most}: give some of them another controller"
                ),
            );
        }
    }
    Ok(())
}

/// Checks that a table keeps at least what a request of each session may need at once, and no more records than it can number.
fn check_records(scenario: &Scenario) -> Checked {
    let records = scenario.server.records;
    for controller in &scenario.controllers {
        let sessions = scenario.sessions(&controller.name).count() as u32;
        let (least, most) = (sessions * RECORDS_A_SESSION, u32::from(u16::MAX) - sessions);
        if !(least..=most).contains(&records) {
            return refuse_file(format!(
                "[server] records is {records}, and the tenants of `{}` need {least} to {most}: write a number between",
                controller.name
            ));
        }
    }
    Ok(())
}

fn check_expectations(scenario: &Scenario) -> Checked {
    let expect = &scenario.expect;
    if expect.timeout_seconds == 0 {
        return refuse_file("[expect] timeout_seconds is 0: give the run time".into());
    }
    let is_probe = |name: &String| scenario.probe.is_some() && name == PROBE;
    let is_tenant = |name: &String| scenario.tenants.iter().any(|tenant| tenant.name == *name);
    let lists = [
        ("expelled", &expect.expelled),
        ("refused_sessions", &expect.refused_sessions),
        ("gone", &expect.gone),
        ("unfinished", &expect.unfinished),
        ("attackers", &expect.attackers),
        ("outlives", &expect.outlives),
        ("digests", &expect.digests),
    ];
    for (key, names) in lists {
        let attacks = |name: &String| key == "attackers" && is_probe(name);
        if let Some(name) = names.iter().find(|name| !is_tenant(name) && !attacks(name)) {
            return refuse_file(format!("[expect] {key} names `{name}`, which is no tenant: name one"));
        }
    }
    check_outlives(scenario)?;
    if let Some(name) = expect.lost.iter().find(|name| scenario.controller(name).is_none()) {
        return refuse_file(format!("[expect] lost names `{name}`, which is no controller: name one"));
    }
    for (key, limits) in [("latency_p99_ms", &expect.latency_p99_ms), ("latency_p99_us", &expect.latency_p99_us)] {
        if let Some(name) = limits.keys().find(|name| !is_load(scenario, name)) {
            return refuse_file(format!(
                "[expect] {key} names `{name}`, which is no tenant with the workload bench: name one"
            ));
        }
    }
    span::check(scenario)?;
    if let Some(name) = expect.queues.keys().find(|name| !is_tenant(name)) {
        return refuse_file(format!("[expect] queues names `{name}`, which is no tenant: name one"));
    }
    if let Some(name) = expect.restarts.keys().find(|name| !scenario.may_have(name)) {
        return refuse_file(format!("[expect] restarts names `{name}`, which is no component: name one"));
    }
    if let Some(name) = expect.faults.iter().find(|name| !scenario.may_have(name)) {
        return refuse_file(format!("[expect] faults names `{name}`, which is no component: name one"));
    }
    let measures = |name: &String| {
        scenario.tenants.iter().any(|tenant| match &tenant.workload {
            Workload::Bench(bench) => bench.measure == *name,
            Workload::Signal(signal) => signal.leads && signal.measure == *name,
            Workload::Digest(_) | Workload::Flood(_) | Workload::Hostile(_) | Workload::Own(_) => false,
        })
    };
    match expect.measured.iter().find(|name| !measures(name)) {
        Some(name) => {
            refuse_file(format!("[expect] measured names `{name}`, which no workload measures: set its measure"))
        }
        None => Ok(()),
    }
}

/// Checks that a flood without end is one that the run does not wait for.
fn check_floods(scenario: &Scenario, lines: &Lines) -> Checked {
    let endless = |workload: &Workload| matches!(workload, Workload::Flood(flood) if flood.milliseconds == 0);
    let unfinished = |name: &String| scenario.expect.unfinished.contains(name);
    let mut tenants = scenario.tenants.iter().zip(&lines.tenants);
    match tenants.find(|(tenant, _)| endless(&tenant.workload) && !unfinished(&tenant.name)) {
        Some((Tenant { name, .. }, line)) => refuse(
            *line,
            format!("tenant `{name}` floods for 0 milliseconds, which is without end: name it in [expect] unfinished"),
        ),
        None => Ok(()),
    }
}

/// Checks that no tenant that outlives others is to be outlived itself, and that there is something to outlive.
fn check_outlives(scenario: &Scenario) -> Checked {
    let expect = &scenario.expect;
    if let Some(name) = expect.outlives.iter().find(|name| expect.is_outlived(name)) {
        return refuse_file(format!(
            "[expect] outlives names `{name}`, which is to be outlived itself: name a neighbour"
        ));
    }
    let is_anybody_outlived = scenario.tenants.iter().any(|tenant| expect.is_outlived(&tenant.name));
    if !expect.outlives.is_empty() && !is_anybody_outlived {
        return refuse_file("[expect] outlives without a tenant that attacks or is ended: name it in attackers".into());
    }
    Ok(())
}
