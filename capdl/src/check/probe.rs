//! The rule about the probe, which holds what nobody does who serves tenants.

use super::{Role, Rule, System};

impl System<'_> {
    /// A probe is alone with the console and the PCI server, and the kernel drives the IOMMU: who has an IOSpace of the IOMMU
    /// server's and memory to make objects of could have a device write kernel objects.
    pub(super) fn probe(&mut self) {
        let Some(probe) = self.indices().find(|index| self.roles[*index] == Role::Probe) else { return };
        for index in self.indices() {
            if matches!(self.roles[index], Role::NvmeServer | Role::Client | Role::IommuServer) {
                let (tester, other) = (self.who(probe), self.who(index));
                let path =
                    format!("{tester} holds memory and control of its VSpace, and {other} is in the same system");
                self.refuse(Rule::ProbeAlone, path);
            }
        }
    }
}
