//! The components of a scenario's system: their names, and the programs that they run.

use super::{CONTROL, EDU_DRIVER, IOMMU_SERVER, Own, PROBE, Scenario, Workload};
use crate::programs;
use capdl_spec::Role;
use sim_fault::Fault;

impl Scenario {
    /// The programs its system is made of, by name.
    #[must_use]
    pub fn programs(&self) -> Vec<&str> {
        let edu = self.edu.map(|_| Role::EduDriver);
        let driving = match self.probe.as_ref().map(|_| Role::Probe).or(edu) {
            Some(tester) => vec![tester],
            None => vec![Role::NvmeServer, Role::Policy],
        };
        let roles = [Role::Console, Role::PciServer].into_iter().chain(driving);
        let roles = roles.chain(self.control.as_ref().map(|_| Role::Control));
        let mut programs: Vec<_> = roles.filter_map(programs::of).collect();
        for tenant in &self.tenants {
            let program = tenant.workload.program();
            if !programs.contains(&program) {
                programs.push(program);
            }
        }
        programs
    }

    /// Whether the build machine has the memory of the running system: it reads telemetry, or writes to a control component.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        self.telemetry.is_some() || self.control.is_some()
    }

    /// Whether the scenario's root task announces moments or kills: it is the one with fault injection then.
    #[must_use]
    pub fn has_moments(&self) -> bool {
        let Self { moments, changes, controllers, kills, .. } = self;
        let a_controller_changes = controllers.iter().any(|controller| !controller.changes.is_empty());
        !moments.is_empty() || !changes.is_empty() || !kills.is_empty() || a_controller_changes
    }

    /// The users' own crates among its programs, each once.
    #[must_use]
    pub fn own_programs(&self) -> Vec<&Own> {
        let mut all: Vec<&Own> = Vec::new();
        for tenant in &self.tenants {
            match &tenant.workload {
                Workload::Own(own) if all.iter().all(|known| known.name != own.name) => all.push(own),
                _ => {}
            }
        }
        all
    }

    /// The names of all components.
    #[must_use]
    pub fn components(&self) -> Vec<String> {
        let mut names = vec!["console".to_owned(), "pci-server".to_owned()];
        names.extend(self.controllers.iter().map(|controller| self.server_name(&controller.name)));
        if self.probe.is_none() {
            names.extend(self.controllers.iter().map(|controller| self.policy_name(&controller.name)));
        }
        names.extend(self.edu.map(|_| EDU_DRIVER.to_owned()));
        names.extend(self.tenants.iter().map(|tenant| tenant.name.clone()));
        names.extend(self.control.as_ref().map(|_| CONTROL.to_owned()));
        names
    }

    /// Whether the scenario has a component with this name on one machine or the other.
    #[must_use]
    pub fn may_have(&self, name: &str) -> bool {
        name == IOMMU_SERVER || self.components().iter().any(|component| component == name)
    }

    /// Whether the scenario can run only where a component drives the IOMMU.
    #[must_use]
    pub fn needs_iommu_server(&self) -> bool {
        let expected = self.expect.restarts.keys().chain(&self.expect.faults);
        let mut named = self.kills.iter().map(|kill| &kill.component).chain(expected);
        let goes_wrong = |fault: &Fault| matches!(fault, Fault::Component(fault) if fault.component == IOMMU_SERVER);
        named.any(|name| name == IOMMU_SERVER) || self.faults.iter().any(goes_wrong)
    }

    /// The test component that has the place of the NVMe servers and their clients, if there is one.
    #[must_use]
    pub fn tester(&self) -> Option<&'static str> {
        self.probe.as_ref().map(|_| PROBE).or(self.edu.map(|_| EDU_DRIVER))
    }

    /// The component that drives the controller with this name.
    #[must_use]
    pub fn server_name(&self, controller: &str) -> String {
        if self.probe.is_some() {
            return PROBE.into();
        }
        if self.controllers.len() > 1 { format!("nvme-server-{controller}") } else { "nvme-server".into() }
    }

    /// The policy component beside the server of the controller with this name.
    #[must_use]
    pub fn policy_name(&self, controller: &str) -> String {
        if self.controllers.len() > 1 { format!("policy-{controller}") } else { "policy".into() }
    }
}
