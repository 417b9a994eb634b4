//! The rule that the supervisor treats each component as is declared: its priority, its restarts, and whether it may ask for alarms.
//! Each is the author's decision, and nothing else in the specification shows what that was.

use super::super::{Config, Role, Rule, System};
use crate::priority::{PCI_SERVER_PRIORITY, control_priority};
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
        if self.roles[index] == Role::Control && self.declaration.control.is_none() {
            let path = format!("{} is there, and no act of it is declared", self.who(index));
            self.refuse(Rule::ConfiguredAsDeclared, path);
        }
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
            Role::Control => {
                let polls = self.configs.iter().any(Config::polls);
                (control_priority(servers.priority, polls), servers.restart, true)
            }
            Role::Probe | Role::EduDriver => (servers.priority, None, false),
            Role::Client => {
                let tenant = declared.tenant(&self.specification.components[index].name)?;
                (tenant.priority, tenant.restart, tenant.alarm)
            }
        };
        Some(Treatment { priority, restart, alarm })
    }
}
