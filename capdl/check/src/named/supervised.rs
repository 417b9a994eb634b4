//! The rule that the supervisor treats each component as is declared: its priority, its restarts, and whether it may ask for alarms.
//! Each is the author's decision, and nothing else in the specification shows what that was.

use super::super::{Role, Rule, System};
use crate::priority::PCI_SERVER_PRIORITY;
use capdl_spec::RestartPolicy;

/// The wanted treatment of a component.
struct Treatment {
    priority: u8,
    restart: Option<RestartPolicy>,
    alarm: bool,
}

impl System<'_> {
    /// Compares what the supervisor does for a component with the declaration.
    pub(crate) fn supervised_as_declared(&mut self, index: usize) {
        // A client that is no declared tenant is refused for its configuration.
        let Some(Treatment { priority, restart, alarm }) = self.treatment(index) else { return };
        let is = &self.specification.components[index];
        let all = [
            ("priority", is.priority == priority),
            ("restart", is.restart == restart),
            ("alarm", is.alarm.is_some() == alarm),
        ];
        let who = self.who(index);
        for (field, _) in all.into_iter().filter(|(_, is_same)| !is_same) {
            self.refuse(Rule::ConfiguredAsDeclared, format!("{who} has another `{field}` than is declared"));
        }
    }

    fn treatment(&self, index: usize) -> Option<Treatment> {
        let declared = self.declaration;
        let servers = &declared.servers;
        let (priority, restart, alarm) = match self.roles[index] {
            Role::Console => (declared.console_priority, None, false),
            Role::PciServer => (PCI_SERVER_PRIORITY, declared.pci_server_restart, false),
            Role::IommuServer => (PCI_SERVER_PRIORITY, declared.iommu_server_restart, false),
            Role::NvmeServer => (servers.priority, servers.restart, true),
            Role::Policy => (servers.priority, servers.restart, false),
            Role::Probe | Role::EduDriver => (servers.priority, None, false),
            Role::Client => {
                let tenant = declared.tenant(&self.specification.components[index].name)?;
                (tenant.priority, tenant.restart, tenant.alarm)
            }
        };
        Some(Treatment { priority, restart, alarm })
    }
}
