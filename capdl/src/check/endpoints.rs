//! Rules about endpoints: one receiver, and senders it can tell apart.

use super::{Role, Rule, System};
use crate::model::rights::{READ, WRITE};
use capdl_spec::{ObjectId, ObjectKind};
use std::collections::BTreeMap;

/// Endpoint badges have so many bits; the kernel cuts or stops at longer ones.
const ENDPOINT_BADGE_BITS: u32 = 28;

impl System<'_> {
    /// Receivers and badges of every endpoint.
    pub(super) fn badges(&mut self) {
        for id in 0..self.specification.objects.len() as ObjectId {
            if self.object(id).kind == ObjectKind::Endpoint {
                self.receivers(id);
                self.senders(id);
            }
        }
    }

    fn receivers(&mut self, endpoint: ObjectId) {
        let name = &self.object(endpoint).name;
        let mut receiver = None;
        for index in self.indices() {
            let held =
                self.holdings[index].iter().find(|held| held.object == endpoint && held.rights & READ != 0).cloned();
            let Some(held) = held else { continue };
            let who = self.who(index);
            if self.roles[index] == Role::Client {
                self.refuse(Rule::BadgesUnique, format!("{who} can receive on {name} by {}", held.path));
            } else if let Some(first) = receiver.replace(index) {
                let first = self.who(first);
                self.refuse(Rule::BadgesUnique, format!("{first} and {who} both receive on {name}: {}", held.path));
            }
        }
    }

    fn senders(&mut self, endpoint: ObjectId) {
        let name = &self.object(endpoint).name;
        let mut badges: BTreeMap<u64, String> = BTreeMap::new();
        for index in self.indices() {
            for held in self.holdings[index].clone() {
                // What a server got from its own clients adds no sender.
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
