//! Rules about endpoints: each has one receiver that can distinguish its senders, and only drivers call the PCI server.

use super::reach::Held;
use super::{Role, Rule, System};
use crate::layout::rights::{READ, WRITE};
use capdl_spec::{ObjectId, ObjectKind};
use std::collections::BTreeMap;

/// Bits of an endpoint's badge; the kernel truncates longer badges or stops at them.
const ENDPOINT_BADGE_BITS: u32 = 28;

impl System<'_> {
    /// Checks the receiver and the badges of every endpoint.
    pub(super) fn badges(&mut self) {
        for id in 0..self.specification.objects.len() as ObjectId {
            if self.is_endpoint(id) {
                self.receivers(id);
                self.senders(id);
                self.callers_of_pci(id);
            }
        }
    }

    fn receivers(&mut self, endpoint: ObjectId) {
        let name = &self.object(endpoint).name;
        let mut receiver = None;
        for index in self.indices() {
            let held =
                self.holdings[index].iter().find(|held| held.object == endpoint && held.rights & READ != 0).cloned();
            // A policy component could send its server the endpoint on which it receives. It would lose authority by that, not
            // gain any.
            let Some(held) = held.filter(|held| held.own || !self.is_policys_own(index, endpoint)) else { continue };
            let who = self.who(index);
            if self.roles[index] == Role::Client {
                self.refuse(Rule::BadgesUnique, format!("{who} can receive on {name} by {}", held.path));
            } else if let Some(first) = receiver.replace(index) {
                let first = self.who(first);
                self.refuse(Rule::BadgesUnique, format!("{first} and {who} both receive on {name}: {}", held.path));
            }
        }
    }

    /// Checks that only drivers call the PCI server, which hands out devices.
    fn callers_of_pci(&mut self, endpoint: ObjectId) {
        let has = |list: &[Held], right: u8| {
            let held = list.iter().find(|held| held.object == endpoint && held.rights & right != 0);
            held.map(|held| held.path.clone())
        };
        let is_pci_server = |index: usize| self.roles[index] == Role::PciServer;
        if !self.indices().any(|index| is_pci_server(index) && has(&self.holdings[index], READ).is_some()) {
            return;
        }
        let name = &self.object(endpoint).name;
        for index in self.indices() {
            if self.drives(index) {
                continue;
            }
            if let Some(way) = has(&self.holdings[index], WRITE) {
                let path = format!("{} calls the PCI server on {name} by {way}, and drives no device", self.who(index));
                self.refuse(Rule::DevicesArePciServers, path);
            }
        }
    }

    pub(super) fn is_endpoint(&self, id: ObjectId) -> bool {
        self.object(id).kind == ObjectKind::Endpoint
    }

    fn senders(&mut self, endpoint: ObjectId) {
        let name = &self.object(endpoint).name;
        let mut badges: BTreeMap<u64, String> = BTreeMap::new();
        for index in self.indices() {
            for held in self.holdings[index].clone() {
                // Capabilities that a server got from its own clients add no sender.
                if held.object != endpoint
                    || held.rights & WRITE == 0
                    || (!held.own && self.roles[index] != Role::Client)
                {
                    continue;
                }
                let who = self.who(index);
                let way = &held.path;
                if held.badge == 0 || held.badge >> ENDPOINT_BADGE_BITS != 0 {
                    self.refuse(
                        Rule::BadgesUnique,
                        format!(
                            "{who} sends on {name} with the badge {:#x} by {way}: 1 to 28 bits are allowed",
                            held.badge
                        ),
                    );
                }
                if let Some(other) = badges.insert(held.badge, who.clone()) {
                    self.refuse(
                        Rule::BadgesUnique,
                        format!("{other} and {who} send on {name} with the same badge {}: {way}", held.badge),
                    );
                }
            }
        }
    }
}
