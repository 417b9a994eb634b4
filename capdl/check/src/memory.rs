//! Rules about memory: clients apart, one writer, no writable code, windows that nobody but their client can read.

use super::private::Part;
use super::reach::Held;
use super::{Rule, System, is_control};
use crate::layout::rights::{READ, WRITE};
use capdl_spec::{Object, ObjectId, ObjectKind};
use std::collections::{BTreeMap, BTreeSet};

impl System<'_> {
    /// Checks that no two clients share an object that one of them can change.
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
            // Both may signal a server. Neither may wait where the other signals, unless a channel is declared.
            ObjectKind::Notification => {
                (receives(one) && !self.is_channel(other, one, id))
                    || (receives(other) && !self.is_channel(one, other, id))
            }
            ObjectKind::Endpoint => receives(one) || receives(other),
            // Other rules refuse everything else that a client holds.
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
        self.declaration.channels.iter().any(|channel| channel.from == *name(from) && channel.to == *name(to))
            && held.all(|held| held.own && held.rights == WRITE)
    }

    pub(super) fn one_writer_and_no_writable_code(&mut self) {
        let mut writers: BTreeMap<ObjectId, Vec<(usize, String)>> = BTreeMap::new();
        let mut runners: BTreeMap<ObjectId, usize> = BTreeMap::new();
        for index in self.indices() {
            for mapping in &self.frames[index] {
                if mapping.executable {
                    runners.insert(mapping.object, index);
                }
                if mapping.writable {
                    let way = format!("at {:#x}", mapping.vaddr);
                    writers.entry(mapping.object).or_default().push((index, way));
                }
            }
        }
        for (object, writers) in &writers {
            if let [(first, _), (second, way), ..] = writers.as_slice() {
                self.two_writers(*object, *first, *second, way);
            }
        }
        self.capabilities_write_too(&mut writers);
        for (object, runner) in runners {
            for (writer, _) in writers.get(&object).into_iter().flatten() {
                let (name, writes, runs) = (&self.object(object).name, self.who(*writer), self.who(runner));
                self.refuse(Rule::WriteXorExecute, format!("{name} is writable by {writes} and executable by {runs}"));
            }
        }
    }

    /// Adds the holders of frames to `writers`: each could have a device write the frames that it holds.
    fn capabilities_write_too(&mut self, writers: &mut BTreeMap<ObjectId, Vec<(usize, String)>>) {
        for index in self.indices() {
            for held in self.holdings[index].clone() {
                if !is_memory(self.object(held.object).kind) || held.rights & WRITE == 0 {
                    continue;
                }
                let known = writers.entry(held.object).or_default();
                let others = known.iter().map(|(other, _)| *other).filter(|other| *other != index);
                let refused: Vec<usize> = others
                    .filter(|other| {
                        !self.is_window_between(index, *other, held.object)
                            && !self.is_window_between(*other, index, held.object)
                    })
                    .collect();
                known.push((index, held.path.clone()));
                for other in refused {
                    self.two_writers(held.object, other, index, &format!("by {}", held.path));
                }
            }
        }
    }

    fn two_writers(&mut self, object: ObjectId, first: usize, second: usize, way: &str) {
        let (name, first, second) = (&self.object(object).name, self.who(first), self.who(second));
        self.refuse(Rule::OneWriter, format!("{name} is writable by {first} and again by {second} {way}"));
    }

    /// Checks frames of clients that others hold.
    pub(super) fn windows(&mut self) {
        for client in self.clients() {
            let frames: BTreeSet<ObjectId> = self.frames[client].iter().map(|mapping| mapping.object).collect();
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
        if self.part(client, frame) != Some(Part::Window) {
            self.refuse(Rule::WindowsUnreadable, format!("{start}, and that is not the window"));
        }
        // No other component may map them either: the holder could have it map what it holds.
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
}

/// Whether objects of this kind are memory, and no device's.
const fn is_memory(kind: ObjectKind) -> bool {
    matches!(kind, ObjectKind::SmallFrame | ObjectKind::LargeFrame)
}
