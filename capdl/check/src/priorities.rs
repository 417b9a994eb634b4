//! The rule about priorities. The kernel runs the highest ready thread and nobody else, so a component can keep all of the
//! processor from those below it.

use super::{Config, Role, Rule, System};
use crate::priority::{
    MAX_PRIORITY, control_priority, highest_server_priority, highest_tenant_priority, lowest_server_priority,
};
use std::ops::RangeInclusive;

impl System<'_> {
    /// Checks that each component's priority lies in the bounds of its role.
    pub(super) fn priorities(&mut self) {
        for index in self.indices() {
            let priority = self.specification.components[index].priority;
            let (bounds, reason) = self.bounds(index);
            if !bounds.contains(&priority) {
                let (who, first, last) = (self.who(index), bounds.start(), bounds.end());
                let path = format!("{who} has priority {priority}, and {reason}: {first} to {last} are allowed");
                self.refuse(Rule::PrioritiesByRole, path);
            }
        }
    }

    /// Returns the bounds of a component's priority, and the consequence of another priority.
    fn bounds(&self, index: usize) -> (RangeInclusive<u8>, &'static str) {
        let priority = |index: usize| self.specification.components[index].priority;
        let of = |fits: fn(Role) -> bool| self.indices().filter(move |index| fits(self.roles[*index]));
        let servers = || of(Role::is_driver);
        match self.roles[index] {
            Role::PciServer => (1..=MAX_PRIORITY, "the root task above it would not get to see a fault"),
            Role::IommuServer => {
                let pci_server = of(|role| role == Role::PciServer).map(priority).min().unwrap_or(0);
                (pci_server..=pci_server, "has to be as urgent as the PCI server, which waits for it")
            }
            Role::NvmeServer | Role::Probe | Role::EduDriver => {
                let pci_server = of(|role| role == Role::PciServer).map(priority).min().unwrap_or(MAX_PRIORITY);
                let bounds = lowest_server_priority()..=highest_server_priority(pci_server);
                (bounds, "would starve the PCI server, or leave no place for its clients below it")
            }
            Role::Policy => {
                let server = servers().find(|server| self.is_policy_of(index, *server)).map_or(0, priority);
                (server..=server, "has to be as urgent as its server: one of the two would starve the other")
            }
            Role::Client => {
                let polls = self.configs.iter().any(Config::polls);
                let highest = |server| highest_tenant_priority(priority(server), polls);
                let highest = servers().map(highest).min().unwrap_or(MAX_PRIORITY);
                if polls {
                    return (highest..=highest, "would starve, or be starved by, the server that polls");
                }
                (1..=highest, "would starve the NVMe servers and with them everybody's requests")
            }
            Role::Control => {
                let polls = self.configs.iter().any(Config::polls);
                let own = servers().map(priority).min().map_or(0, |server| control_priority(server, polls));
                (own..=own, "would wait for the tenants, or starve the servers")
            }
            Role::Console => (
                1..=servers().map(priority).min().unwrap_or(MAX_PRIORITY),
                "would starve the NVMe servers by log lines",
            ),
        }
    }
}
