//! Builds the whole system from a scenario and the programs: which component gets which object, capability and mapping.
//!
//! One function builds each kind of component, in the order of their numbers: console 1, PCI server 2, the IOMMU server where
//! there is one, the NVMe servers or a test component, the policy components, the tenants, the control component. The PCI and IOMMU servers are in
//! `pci`, NVMe servers and test components in `drivers`, policy components and tenants in `clients`. An object that two
//! components share is made by the one that writes it, or by the tenant. `model` does the bookkeeping. Amounts of memory for
//! devices are in `dma`, the configurations of tenants in `tenants`.

mod clients;
mod control;
mod declared;
mod dma;
mod drivers;
mod functions;
mod moments;
mod pci;
mod tenants;

pub(crate) use self::declared::declaration;
pub(crate) use self::dma::pool_pages;
use self::drivers::Driver;
use self::functions::Place;
use self::moments::Numbering;
use crate::check;
use crate::error::BuildError;
use crate::layout::{PAGE, log_badge, rights};
use crate::machine::{self, Iommu, Machine};
use crate::model::{Model, Who};
use crate::programs::{self, Programs};
use crate::scenario::{Scenario, Tenant};
use crate::system::System;
use blk_api::config::ServerConfig;
use blk_api::policy::PolicyConfig;
use capdl_spec::{ObjectId, ObjectKind, Role};
use platform::RegionKind;

/// Bytes of records that the root task's log ring keeps.
const ROOT_LOG_BYTES: u64 = 256 << 10;

/// Builds the system of a scenario. A system that [`check::authority`] refuses is not built.
///
/// # Errors
/// [`BuildError`].
pub fn build(scenario: &Scenario, programs: &Programs) -> Result<System, BuildError> {
    let mut builder = Builder { scenario, programs, model: Model::new(&scenario.name, scenario.expect.report_caps) };
    if !scenario.machine.iommu {
        builder.model.lacks_iommu();
    }
    builder.system()?;
    let mut system = builder.model.finish()?;
    let declaration = declaration(scenario, programs)?;
    (system.specification.moments, system.specification.kills) =
        declaration.announced(&system.specification.components);
    check::authority(&system.specification, &system.data, &declaration).map_err(BuildError::Authority)?;
    Ok(system)
}

struct Builder<'a> {
    scenario: &'a Scenario,
    programs: &'a Programs,
    model: Model,
}

impl Builder<'_> {
    fn system(&mut self) -> Result<(), BuildError> {
        let scenario = self.scenario;
        let console = self.component("console", Role::Console, scenario.console.priority)?;
        let pci = self.pci_server()?;
        if let Some(probe) = &scenario.probe {
            let driver = self.probe(probe, &pci)?;
            self.configure_pci(&pci, &[driver])?;
            return self.console(console);
        }
        if scenario.edu.is_some() {
            let driver = self.edu_driver(&pci)?;
            self.configure_pci(&pci, &[driver])?;
            return self.console(console);
        }
        let mut servers = Vec::new();
        for controller in &scenario.controllers {
            servers.push(self.nvme_server(controller, &pci)?);
        }
        let mut policies = Vec::new();
        for (controller, server) in scenario.controllers.iter().zip(&servers) {
            policies.push(self.policy(controller, server)?);
        }
        let mut clients = Vec::new();
        let mut drivers: Vec<Driver> = servers.iter().map(|server| server.driver.clone()).collect();
        for ((controller, server), policy) in scenario.controllers.iter().zip(&servers).zip(&policies) {
            for (tenant, index) in scenario.sessions(&controller.name).zip(0..) {
                clients.push(self.client(tenant, server, policy, pci.supervisor, index)?);
            }
            let sessions = scenario.sessions(&controller.name).count() as u32;
            let physical = scenario.controller(&controller.name).map_or(0, |(index, _)| index as u16);
            for (tenant, number) in scenario.functions(&controller.name).zip(0u32..) {
                let driver = drivers.len() as u16;
                let place = Place { server, physical, number, driver, word: sessions + number };
                let (client, driver) = self.function_client(tenant, &pci, &place)?;
                clients.push(client);
                drivers.push(driver);
            }
            let numbered = scenario.sessions(&controller.name).zip(0u16..);
            let queue_sharing = scenario.server.queues;
            let sessions = numbered.map(|(tenant, number)| tenants::session(scenario, tenant, number)).collect();
            let config = ServerConfig {
                interrupts: controller.interrupts,
                policy: scenario.server.policy,
                class_weights: scenario.server.class_weights,
                queue_sharing,
                sessions,
                functions: scenario.functions(&controller.name).map(tenants::function).collect(),
                records: scenario.server.records,
                merging: scenario.server.merging,
                quirks: controller.quirks.clone(),
                administration: scenario.administration(),
            };
            self.model.configure(server.driver.who, &config)?;
            let sessions = scenario.sessions(&controller.name).map(tenants::holder).collect();
            let shares =
                scenario.sessions(&controller.name).map(|tenant| tenants::share(tenant, queue_sharing)).collect();
            let functions = scenario.functions(&controller.name).map(tenants::holder).collect();
            let all = scenario.sessions(&controller.name).chain(scenario.functions(&controller.name));
            let mut tenants: Vec<Tenant> = all.cloned().collect();
            let numbering = Numbering::new(scenario);
            let changes = numbering.changes().filter_map(|(change, moment)| {
                let mut numbered = tenants.iter_mut().zip(0..);
                let (tenant, number) = numbered.find(|(tenant, _)| tenant.name == change.tenant)?;
                Some(tenants::change((change, moment), tenant, queue_sharing, number))
            });
            let changes = changes.collect();
            let interrupts = tenants::interrupts(&numbering, controller);
            self.model.configure(policy.who, &PolicyConfig { sessions, functions, shares, changes, interrupts })?;
        }
        self.peers(&clients);
        if let Some(control) = &scenario.control {
            self.control(control, &clients, (&policies, &servers), pci.supervisor)?;
        }
        self.configure_pci(&pci, &drivers)?;
        self.console(console)
    }

    /// The machine that the programs are for.
    fn machine(&self) -> &'static Machine {
        machine::of(self.model.arch())
    }

    /// The names of the PCI server's drivers, in their order.
    fn drivers(&self) -> Vec<String> {
        if let Some(tester) = self.scenario.tester() {
            return vec![tester.to_owned()];
        }
        let controllers = || self.scenario.controllers.iter().map(|controller| controller.name.as_str());
        let servers = controllers().map(|controller| self.scenario.server_name(controller));
        let clients = controllers().flat_map(|controller| self.scenario.functions(controller));
        servers.chain(clients.map(|tenant| tenant.name.clone())).collect()
    }

    /// The translator of devices' addresses.
    fn iommu(&self) -> Iommu {
        machine::iommu(self.machine(), self.scenario.machine.iommu)
    }

    /// Makes a component that runs the program of its role.
    fn component(&mut self, name: &str, role: Role, priority: u8) -> Result<Who, BuildError> {
        self.running(programs::of(role).unwrap_or_default(), name, role, priority)
    }

    /// Makes a component that runs this program.
    fn running(&mut self, program: &str, name: &str, role: Role, priority: u8) -> Result<Who, BuildError> {
        let parsed = self.programs.program(program)?;
        if !self.model.runs_on(parsed.arch) {
            let reason = "is for another architecture than the others".into();
            return Err(BuildError::BadProgram { program: program.into(), reason });
        }
        Ok(self.model.component(name, role, (program, &parsed), priority))
    }

    /// Makes a single object.
    fn one(&mut self, name: &str, kind: ObjectKind) -> ObjectId {
        self.model.object(name, kind, 1)
    }

    /// Has the component wait on `endpoint`, with `event` bound to its thread and ticking. Its answers carry no capabilities.
    fn serves(&mut self, who: Who, endpoint: ObjectId, event: ObjectId) {
        self.serves_with(who, (endpoint, rights::READ), event);
    }

    /// As [`Builder::serves`], with these rights on the endpoint.
    fn serves_with(&mut self, who: Who, (endpoint, rights): (ObjectId, u8), event: ObjectId) {
        let cptr = self.model.cap(who, platform::names::ENDPOINT, endpoint, 0, rights);
        self.model.waits_on(who, cptr);
        self.model.cap(who, platform::names::EVENT, event, 0, rights::READ_WRITE);
        self.model.binds(who, event);
        self.model.ticks(who, event);
    }

    /// The console comes last, because it reads every log ring and every component signals it.
    fn console(&mut self, console: Who) -> Result<(), BuildError> {
        let serial = self.one("serial", self.machine().serial);
        match self.machine().serial {
            ObjectKind::SmallDeviceFrame { .. } => {
                self.model.region(console, report::names::SERIAL, serial, RegionKind::Device)
            }
            _ => drop(self.model.cap(console, report::names::SERIAL, serial, 0, rights::ALL)),
        }
        let event = self.one("console.event", ObjectKind::Notification);
        let cptr = self.model.cap(console, platform::names::EVENT, event, 0, rights::READ);
        self.model.waits_on(console, cptr);
        let root_log_pages = report::ring::region_bytes(ROOT_LOG_BYTES) / PAGE;
        let root_log = self.model.object("root-task.log", ObjectKind::SmallFrame, root_log_pages);
        self.model.region(console, &report::names::log_of(0), root_log, RegionKind::ReadOnly);
        let mut names = vec![(0, "root-task".to_owned())];
        for who in self.model.everybody() {
            let id = Model::id(who);
            let ring = self.model.log_ring(who);
            self.model.region(console, &report::names::log_of(id), ring, RegionKind::ReadOnly);
            self.model.cap(who, report::names::LOG, event, log_badge(id), rights::WRITE);
            names.push((id, self.model.name(who).to_owned()));
        }
        self.model.configure(console, &names)
    }
}

#[cfg(test)]
pub(crate) mod tests;
