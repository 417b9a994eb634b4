//! The rule about a component's own memory: others reach only those of its frames that are meant for their role.
//!
//! The specification has objects and mappings, but no regions. Only the names of frames state which are a window, a ring or a
//! log. An earlier rule checks that names are unique.

use super::{Role, Rule, System};
use crate::layout::rights::WRITE;
use capdl_spec::ObjectId;
use std::collections::BTreeSet;

/// Frames of a component that others may reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// Memory for the device: its server holds it.
    Window,
    /// Requests or completions: its server maps them.
    Ring,
    /// Records: the console maps them.
    Log,
}

impl System<'_> {
    /// Checks which frames of a component others map, and which frames of components that are no clients others hold.
    pub(super) fn private_memory(&mut self) {
        for owner in self.indices() {
            let frames: BTreeSet<ObjectId> = self.frames[owner].iter().map(|mapping| mapping.object).collect();
            for frame in frames {
                for other in self.indices().filter(|other| *other != owner) {
                    self.mapped_by_two(owner, other, frame);
                    // Frames of clients are checked as windows.
                    if self.roles[owner] != Role::Client {
                        self.held_and_mapped(owner, other, frame);
                    }
                }
            }
        }
    }

    fn mapped_by_two(&mut self, owner: usize, other: usize, frame: ObjectId) {
        let clients = self.roles[owner] == Role::Client && self.roles[other] == Role::Client;
        if clients
            || self.is_liveness_page(frame)
            || self.is_presence_between(owner, other, frame)
            || self.may_map(other, owner, frame)
            || self.may_map(owner, other, frame)
        {
            return;
        }
        let Some(mapping) = self.frames[other].iter().find(|mapping| mapping.object == frame) else { return };
        let (name, owner, reader) = (&self.object(frame).name, self.who(owner), self.who(other));
        let path = format!("{reader} maps {name} of {owner} at {:#x}, which is not for it", mapping.vaddr);
        self.refuse(Rule::PrivateMemory, path);
    }

    fn held_and_mapped(&mut self, owner: usize, other: usize, frame: ObjectId) {
        let Some(held) = self.holdings[other].iter().find(|held| held.object == frame) else { return };
        let (name, owner, holder) = (&self.object(frame).name, self.who(owner), self.who(other));
        let path = format!("{holder} holds {name}, which {owner} maps, by {}", held.path);
        self.refuse(Rule::PrivateMemory, path);
    }

    /// Whether the frame is the page of presence of one of the two, a driver, and the other is the PCI server.
    fn is_presence_between(&self, one: usize, other: usize, frame: ObjectId) -> bool {
        let is_its = |driver: usize, server: usize| {
            self.specification.components[driver].presence == Some(frame) && self.roles[server] == Role::PciServer
        };
        is_its(one, other) || is_its(other, one)
    }

    /// Whether `reader` may map these frames of `owner`.
    fn may_map(&self, reader: usize, owner: usize, frame: ObjectId) -> bool {
        match self.part(owner, frame) {
            Some(Part::Log) => self.roles[reader] == Role::Console,
            Some(Part::Ring) => self.serves(reader, owner),
            Some(Part::Window) | None => false,
        }
    }

    /// The part of `owner`'s memory that the frames are.
    pub(super) fn part(&self, owner: usize, frame: ObjectId) -> Option<Part> {
        let name = self.object(frame).name.strip_prefix(self.specification.components[owner].name.as_str())?;
        match name {
            ".window" => Some(Part::Window),
            ".ring-client" | ".ring-server" => Some(Part::Ring),
            ".log" => Some(Part::Log),
            _ => None,
        }
    }

    /// Whether the frames are the window of `client`, and `server` may hold them: it serves it and maps none of them.
    pub(super) fn is_window_between(&self, server: usize, client: usize, frame: ObjectId) -> bool {
        self.part(client, frame) == Some(Part::Window) && self.serves(server, client) && !self.maps(server, frame)
    }

    /// Whether `client` is a client that calls an endpoint on which the NVMe server `server` receives.
    pub(super) fn serves(&self, server: usize, client: usize) -> bool {
        if (self.roles[server], self.roles[client]) != (Role::NvmeServer, Role::Client) {
            return false;
        }
        self.calls(client, server)
    }

    /// Whether `client` drives a virtual function whose physical one is `server`'s.
    pub(super) fn has_function_at(&self, server: usize, client: usize) -> bool {
        self.function(client).is_some_and(|(other, _)| other == server)
    }

    /// Whether `caller` may send on an endpoint on which `server` receives.
    pub(super) fn calls(&self, caller: usize, server: usize) -> bool {
        let mut calls = self.holdings[caller].iter().filter(|held| held.own && held.rights & WRITE != 0);
        calls.any(|held| self.is_endpoint(held.object) && self.receives(server, held.object))
    }
}
