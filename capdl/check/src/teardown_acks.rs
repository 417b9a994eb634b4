//! The rule about pages of teardown acknowledgements: only the server that had a client's session acknowledges its teardown, in
//! a word of its own for each client.

use super::{Role, Rule, System};
use crate::layout::PAGE;
use capdl_spec::{ObjectKind, TeardownAck};
use std::collections::BTreeMap;

/// Bytes of one word in a page of teardown acknowledgements ([`platform::Incarnation::acknowledge_teardown`]).
const WORD: u64 = 4;

impl System<'_> {
    /// Checks who may acknowledge that a client can be started again.
    pub(super) fn teardown_acks(&mut self) {
        let mut words: BTreeMap<(u32, u32), usize> = BTreeMap::new();
        for client in self.indices() {
            let component = &self.specification.components[client];
            let (who, restarts) = (self.who(client), component.restart.is_some());
            let Some(TeardownAck { page, session }) = component.teardown_ack else {
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
            self.page_of_acks(client, page);
            self.word_of(client, page, session);
        }
    }

    /// Checks that the word is that of the client's session, inside of the page.
    fn word_of(&mut self, client: usize, page: u32, session: u32) {
        let (who, object) = (self.who(client), self.object(page));
        let name = object.name.clone();
        if self.roles[client] != Role::Client {
            self.refuse(Rule::PrivateMemory, format!("{who} waits for a word of {name}, and is no client"));
        }
        if object.kind != ObjectKind::SmallFrame || object.count != 1 {
            self.refuse(
                Rule::PrivateMemory,
                format!("{name}, where {who} has a word, is no page of teardown acknowledgements"),
            );
        }
        if u64::from(session) >= PAGE / WORD {
            let path = format!("{who} waits for word {session}, which lies outside of {name}");
            self.refuse(Rule::PrivateMemory, path);
        }
        if let Some(own) = self.word(client).filter(|own| *own != session) {
            let path = format!("{who} waits for word {session} of {name}, and has word {own}");
            self.refuse(Rule::PrivateMemory, path);
        }
    }

    fn page_of_acks(&mut self, client: usize, page: u32) {
        let (who, name) = (self.who(client), self.object(page).name.clone());
        let mut written = false;
        for index in self.indices() {
            let other = self.who(index);
            if self.holdings[index].iter().any(|held| held.object == page) {
                self.refuse(Rule::PrivateMemory, format!("{other} holds {name}"));
            }
            let Some(mapping) = self.frames[index].iter().find(|mapping| mapping.object == page) else { continue };
            written |= mapping.writable;
            if !self.serves(index, client) && !self.has_function_at(index, client) {
                let path = format!("{other} maps {name} of {who} at {:#x}, and is not its server", mapping.vaddr);
                self.refuse(Rule::PrivateMemory, path);
            }
        }
        if !written {
            self.refuse(Rule::PrivateMemory, format!("nobody writes {name}, for which {who} waits"));
        }
    }
}
