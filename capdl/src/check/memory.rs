//! Rules about memory: clients apart, one writer, no writable code, windows nobody but their client can read.

use super::reach::Held;
use super::{Rule, System, is_control};
use crate::model::rights::{READ, WRITE};
use capdl_spec::{Object, ObjectId, ObjectKind};
use std::collections::{BTreeMap, BTreeSet};

impl System<'_> {
    /// No two clients share what one of them can change.
    pub(super) fn clients_apart(&mut self) {
        let mut reached: BTreeMap<ObjectId, BTreeSet<usize>> = BTreeMap::new();
        for client in self.clients() {
            let mapped = self.frames[client].iter().map(|mapping| mapping.object);
            for object in mapped.chain(self.holdings[client].iter().map(|held| held.object)) {
                reached.entry(object).or_default().insert(client);
            }
        }
        for (object, clients) in reached {
            for (position, one) in clients.iter().enumerate() {
                for other in clients.iter().skip(position + 1) {
                    self.pair_apart(*one, *other, object);
                }
            }
        }
    }

    fn pair_apart(&mut self, one: usize, other: usize, id: ObjectId) {
        let (Some((way, writes)), Some((other_way, other_writes))) = (self.reaches(one, id), self.reaches(other, id))
        else {
            return;
        };
        let receives = |index: usize| {
            let list: &[Held] = &self.holdings[index];
            list.iter().any(|held| held.object == id && held.rights & READ != 0)
        };
        let Object { name, kind, .. } = self.object(id);
        let shared = match kind {
            ObjectKind::SmallFrame | ObjectKind::LargeFrame => writes || other_writes,
            // Both may signal a server; neither may wait where the other signals, unless that is meant.
            ObjectKind::Notification => {
                (receives(one) && !self.is_channel(other, one, id))
                    || (receives(other) && !self.is_channel(one, other, id))
            }
            ObjectKind::Endpoint => receives(one) || receives(other),
            // Whatever else a client holds is refused for itself.
            _ => false,
        };
        if shared {
            let (first, second) = (self.who(one), self.who(other));
            self.refuse(Rule::ClientsApart, format!("{first} and {second} share {name}: {way}, and {other_way}"));
        }
    }

    /// Whether client `from` may signal `to` as the scenario declares, and can do no more with the notification.
    fn is_channel(&self, from: usize, to: usize, notification: ObjectId) -> bool {
        let name = |index: usize| &self.specification.components[index].name;
        let mut held = self.holdings[from].iter().filter(|held| held.object == notification);
        self.channels.iter().any(|channel| channel.from == *name(from) && channel.to == *name(to))
            && held.all(|held| held.own && held.rights == WRITE)
    }

    pub(super) fn one_writer_and_no_writable_code(&mut self) {
        let mut writers: BTreeMap<ObjectId, usize> = BTreeMap::new();
        let mut runners: BTreeMap<ObjectId, usize> = BTreeMap::new();
        for index in self.indices() {
            for mapping in self.frames[index].clone() {
                if mapping.executable {
                    runners.insert(mapping.object, index);
                }
                let before = if mapping.writable { writers.insert(mapping.object, index) } else { None };
                if let Some(other) = before {
                    let (name, first, second) = (&self.object(mapping.object).name, self.who(other), self.who(index));
                    self.refuse(
                        Rule::OneWriter,
                        format!("{name} is writable by {first} and again by {second} at {:#x}", mapping.vaddr),
                    );
                }
            }
        }
        for (object, writer) in writers {
            if let Some(runner) = runners.get(&object) {
                let (name, writes, runs) = (&self.object(object).name, self.who(writer), self.who(*runner));
                self.refuse(Rule::WriteXorExecute, format!("{name} is writable by {writes} and executable by {runs}"));
            }
        }
    }

    /// Frames of clients in the hands of others.
    pub(super) fn windows(&mut self) {
        for client in self.clients() {
            let mut frames: Vec<ObjectId> = self.frames[client].iter().map(|mapping| mapping.object).collect();
            frames.dedup();
            for frame in frames {
                for holder in self.indices().filter(|holder| *holder != client) {
                    let held = self.holdings[holder].iter().find(|held| held.object == frame).cloned();
                    if let Some(held) = held {
                        self.window_held(client, frame, holder, &held);
                    }
                }
            }
        }
    }

    fn window_held(&mut self, client: usize, frame: ObjectId, holder: usize, held: &Held) {
        let (who, owner, name) = (self.who(holder), self.who(client), &self.object(frame).name);
        let start = format!("{who} holds {name} of {owner} by {}", held.path);
        if !self.serves(holder, client) {
            self.refuse(Rule::WindowsUnreadable, format!("{start}, and is not the server {owner} calls"));
        }
        // Not by the holder alone: what it holds it could have others map as little.
        for index in self.indices().filter(|index| *index != client) {
            if let Some(mapping) = self.frames[index].iter().find(|mapping| mapping.object == frame) {
                let reader = self.who(index);
                self.refuse(Rule::WindowsUnreadable, format!("{start}, and {reader} maps it at {:#x}", mapping.vaddr));
            }
        }
        let own_cnode = self.specification.components[holder].cnode;
        let mapper = self.holdings[holder].iter().find(|other| {
            let kind = self.object(other.object).kind;
            let untyped = matches!(kind, ObjectKind::Untyped { .. });
            other.object != own_cnode && (untyped || (is_control(kind) && kind != ObjectKind::IoPageTable))
        });
        if let Some(mapper) = mapper {
            let object = &self.object(mapper.object).name;
            let path = format!("{start}, and can map it with {object} ({})", mapper.path);
            self.refuse(Rule::WindowsUnreadable, path);
        }
    }

    /// Whether `client` calls an endpoint on which `server` receives.
    fn serves(&self, server: usize, client: usize) -> bool {
        let receives = |id: ObjectId| {
            let mut own = self.holdings[server].iter().filter(|held| held.own && held.rights & READ != 0);
            own.any(|held| held.object == id)
        };
        let mut calls = self.holdings[client].iter().filter(|held| held.own && held.rights & WRITE != 0);
        calls.any(|held| self.object(held.object).kind == ObjectKind::Endpoint && receives(held.object))
    }
}
