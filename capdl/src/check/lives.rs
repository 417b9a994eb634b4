//! The rule about pages of lives: the supervisor alone writes them, and who reads one has to do with whom it is about.

use super::{Role, Rule, System};
use capdl_spec::ObjectId;

impl System<'_> {
    /// Who may see that whom lives.
    pub(super) fn lives(&mut self) {
        for about in self.indices() {
            let Some(life) = self.specification.components[about].life else { continue };
            let (name, about_name) = (self.object(life).name.clone(), self.who(about));
            for reader in self.indices() {
                let who = self.who(reader);
                if self.holdings[reader].iter().any(|held| held.object == life) {
                    self.refuse(Rule::PrivateMemory, format!("{who} holds {name} of {about_name}"));
                }
                let Some(mapping) = self.frames[reader].iter().find(|mapping| mapping.object == life) else { continue };
                let (vaddr, writes) = (mapping.vaddr, mapping.writable);
                if writes {
                    let path = format!("{who} writes {name} at {vaddr:#x}, which is the supervisor's to write");
                    self.refuse(Rule::OneWriter, path);
                }
                if !self.may_watch(reader, about) {
                    let path = format!("{who} maps {name} of {about_name} at {vaddr:#x}, which is not for it");
                    self.refuse(Rule::PrivateMemory, path);
                }
            }
        }
    }

    /// Whether the frames are somebody's page of lives.
    pub(super) fn is_life(&self, frame: ObjectId) -> bool {
        self.specification.components.iter().any(|component| component.life == Some(frame))
    }

    /// A client and its server watch each other, the policy component watches its server, and the PCI server its drivers.
    fn may_watch(&self, reader: usize, about: usize) -> bool {
        let drives = matches!(self.roles[about], Role::NvmeServer | Role::Probe);
        let informs = (self.roles[reader], self.roles[about]) == (Role::Policy, Role::NvmeServer);
        (informs && self.calls(reader, about))
            || self.serves(reader, about)
            || self.serves(about, reader)
            || (self.roles[reader] == Role::PciServer && drives)
    }
}
