//! The rule about the probe, which has authority that no component with tenants has.

use super::{Role, Rule, System};
use capdl_spec::ObjectKind;

impl System<'_> {
    /// A probe is alone with the console, the PCI server and the IOMMU server. Beside an IOMMU server it has no untyped memory:
    /// that server's mappings stay when a frame is deleted, and a device could then write new objects in the same memory.
    pub(super) fn probe(&mut self) {
        let Some(probe) = self.indices().find(|index| self.roles[*index] == Role::Probe) else { return };
        let mut held = self.holdings[probe].iter().map(|held| self.object(held.object).kind);
        let makes_objects = held.any(|kind| matches!(kind, ObjectKind::Untyped { .. }));
        for index in self.indices() {
            let role = self.roles[index];
            if matches!(role, Role::NvmeServer | Role::Client) || (role == Role::IommuServer && makes_objects) {
                let (tester, other) = (self.who(probe), self.who(index));
                let path =
                    format!("{tester} holds memory and control of its VSpace, and {other} is in the same system");
                self.refuse(Rule::ProbeAlone, path);
            }
        }
    }
}
