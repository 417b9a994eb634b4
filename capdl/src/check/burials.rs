//! The rule about pages of burials: who says that nothing is left of a client's session is the server that had it, of
//! each client for itself.

use super::{Role, Rule, System};
use capdl_spec::Burial;
use std::collections::BTreeMap;

impl System<'_> {
    /// Who may say that a client can be started again.
    pub(super) fn burials(&mut self) {
        let mut words: BTreeMap<(u32, u32), usize> = BTreeMap::new();
        for client in self.indices() {
            let component = &self.specification.components[client];
            let (who, restarts) = (self.who(client), component.restart.is_some());
            let Some(Burial { page, session }) = component.burial else {
                if restarts && self.roles[client] == Role::Client {
                    let path = format!("{who} is started again, and nobody says that nothing is left of its session");
                    self.refuse(Rule::PrivateMemory, path);
                }
                continue;
            };
            if let Some(other) = words.insert((page, session), client) {
                let (name, other) = (self.object(page).name.clone(), self.who(other));
                self.refuse(Rule::PrivateMemory, format!("{other} and {who} have the same word of {name}"));
            }
            self.burial_of(client, page);
        }
    }

    fn burial_of(&mut self, client: usize, page: u32) {
        let (who, name) = (self.who(client), self.object(page).name.clone());
        let mut written = false;
        for index in self.indices() {
            let other = self.who(index);
            if self.holdings[index].iter().any(|held| held.object == page) {
                self.refuse(Rule::PrivateMemory, format!("{other} holds {name}"));
            }
            let Some(mapping) = self.frames[index].iter().find(|mapping| mapping.object == page) else { continue };
            written |= mapping.writable;
            if !self.serves(index, client) {
                let path = format!("{other} maps {name} of {who} at {:#x}, and is not its server", mapping.vaddr);
                self.refuse(Rule::PrivateMemory, path);
            }
        }
        if !written {
            self.refuse(Rule::PrivateMemory, format!("nobody writes {name}, for which {who} waits"));
        }
    }
}
