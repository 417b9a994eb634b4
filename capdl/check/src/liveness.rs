//! Rules about pages that outlive a component: liveness pages, and the pages that a component keeps. Only the supervisor writes
//! a liveness page, and only components that deal with its component read it.

use super::{Role, Rule, System};
use capdl_spec::{ObjectId, ObjectKind};
use std::collections::BTreeMap;

impl System<'_> {
    /// Checks who may read each liveness page.
    pub(super) fn liveness(&mut self) {
        let mut pages: BTreeMap<ObjectId, usize> = BTreeMap::new();
        for about in self.indices() {
            let Some(liveness) = self.specification.components[about].liveness else { continue };
            let (name, about_name) = (self.object(liveness).name.clone(), self.who(about));
            if let Some(other) = pages.insert(liveness, about) {
                let other = self.who(other);
                self.refuse(Rule::PrivateMemory, format!("{other} and {about_name} have one liveness page, {name}"));
            }
            if !self.is_page(liveness) || self.maps(about, liveness) {
                let path =
                    format!("{name} is the liveness page of {about_name}, and is no page of the supervisor's alone");
                self.refuse(Rule::PrivateMemory, path);
            }
            for reader in self.indices() {
                let who = self.who(reader);
                if self.holdings[reader].iter().any(|held| held.object == liveness) {
                    self.refuse(Rule::PrivateMemory, format!("{who} holds {name} of {about_name}"));
                }
                let Some(mapping) = self.frames[reader].iter().find(|mapping| mapping.object == liveness) else {
                    continue;
                };
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

    /// Checks that a component keeps a page of its own, which it can write and nobody else reaches. The supervisor leaves this
    /// page unchanged and recreates all other memory.
    pub(super) fn kept(&mut self) {
        for index in self.indices() {
            let Some(page) = self.specification.components[index].keeps else { continue };
            let (who, name) = (self.who(index), self.object(page).name.clone());
            let kept = if self.roles[index] == Role::Policy { blk_api::names::KEPT } else { pci_api::names::SIZING };
            let is_own = format!("{}.{kept}", self.specification.components[index].name) == name;
            if !is_own || !self.is_page(page) {
                self.refuse(Rule::PrivateMemory, format!("{who} keeps {name}, which is no page of its own to keep"));
            }
            if !self.frames[index].iter().any(|mapping| mapping.object == page && mapping.writable) {
                self.refuse(Rule::PrivateMemory, format!("{who} keeps {name} and does not map it to write"));
            }
            for other in self.indices().filter(|other| *other != index) {
                if let Some((way, _)) = self.reaches(other, page) {
                    let other = self.who(other);
                    self.refuse(Rule::PrivateMemory, format!("{who} keeps {name}, which {other} reaches: {way}"));
                }
            }
        }
    }

    /// Whether the object is one small frame.
    fn is_page(&self, object: ObjectId) -> bool {
        let object = self.object(object);
        object.kind == ObjectKind::SmallFrame && object.count == 1
    }

    /// Whether the frames are a component's liveness page.
    pub(super) fn is_liveness_page(&self, frame: ObjectId) -> bool {
        self.specification.components.iter().any(|component| component.liveness == Some(frame))
    }

    /// A client and its server watch each other, a server the clients with its functions, the policy component its server, and the
    /// PCI server its drivers.
    fn may_watch(&self, reader: usize, about: usize) -> bool {
        let informs = (self.roles[reader], self.roles[about]) == (Role::Policy, Role::NvmeServer);
        (informs && self.calls(reader, about))
            || self.serves(reader, about)
            || self.serves(about, reader)
            || self.has_function_at(reader, about)
            || (self.roles[reader] == Role::PciServer && self.drives(about))
    }
}
