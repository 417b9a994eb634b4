//! Relations between components, as the specification has them: servers, dependents, watchers, callers.

use crate::BuildError;
use crate::state::Build;
use alloc::vec::Vec;
use capdl_spec::{ObjectId, ObjectKind, Specification, TeardownAck};
use platform::{CPtr, Kernel, Platform};

/// Rights of a capability to receive.
const RECEIVE: u8 = 1;

impl<P: Platform> Build<P> {
    fn component(&self, id: u16) -> Option<&capdl_spec::Component> {
        self.specification.components.iter().find(|component| component.id == id)
    }

    pub(super) fn restart_policy(&self, id: u16) -> Option<capdl_spec::RestartPolicy> {
        self.component(id)?.restart
    }

    pub(super) fn is_driver(&self, id: u16) -> bool {
        self.component(id).is_some_and(|component| component.driver.is_some())
    }

    pub(super) fn teardown_ack(&self, id: u16) -> Option<TeardownAck> {
        self.component(id)?.teardown_ack
    }

    /// The server that acknowledges the teardown of the client's session.
    pub(super) fn acknowledged_by(&self, id: u16) -> Option<u16> {
        let Specification { components, mappings, .. } = &*self.specification;
        let page = self.teardown_ack(id)?.page;
        let writer = mappings.iter().find(|mapping| mapping.object == page && mapping.writable)?.vspace;
        components.iter().find(|component| component.vspace == writer).map(|component| component.id)
    }

    /// Components that end with it: first those that name it, then those that name one of these.
    pub(super) fn dependents(&self, id: u16) -> Vec<u16> {
        let mut found: Vec<u16> = Vec::new();
        let mut next = Some(id);
        let mut place = 0usize;
        while let Some(server) = next {
            let named = self.specification.components.iter().filter(|one| one.ends_with == Some(server));
            let new: Vec<u16> = named.map(|one| one.id).filter(|one| *one != id && !found.contains(one)).collect();
            found.extend(new);
            next = found.get(place).copied();
            place = place.saturating_add(1);
        }
        found
    }

    /// Components that have its liveness page mapped.
    pub(super) fn watchers(&self, id: u16) -> Vec<u16> {
        let Specification { components, mappings, .. } = &*self.specification;
        let Some(liveness) = self.component(id).and_then(|component| component.liveness) else { return Vec::new() };
        let watches = |vspace| mappings.iter().any(|mapping| mapping.vspace == vspace && mapping.object == liveness);
        components.iter().filter(|component| watches(component.vspace)).map(|component| component.id).collect()
    }

    /// Endpoints at which it receives.
    fn endpoints(&self, id: u16) -> Vec<ObjectId> {
        let Specification { caps, objects, .. } = &*self.specification;
        let Some(component) = self.component(id) else { return Vec::new() };
        let is_endpoint = |id: u32| objects.get(id as usize).is_some_and(|object| object.kind == ObjectKind::Endpoint);
        let own = caps.iter().filter(|run| run.cnode == component.cnode && run.rights & RECEIVE != 0);
        own.map(|run| run.object).filter(|object| is_endpoint(*object)).collect()
    }

    /// Takes every capability to the endpoints at which it receives, from all components.
    pub(super) fn take_endpoints(&self, id: u16) -> Result<(), BuildError> {
        for endpoint in self.endpoints(id) {
            let cptr = self.boot.absolute(CPtr::new(self.objects.cptrs(endpoint)?.start));
            let revoked = self.platform.kernel().cnode_revoke(cptr);
            revoked.map_err(BuildError::refused("revoke", "an endpoint"))?;
        }
        Ok(())
    }

    /// Components that hold a capability to an endpoint at which it receives.
    pub(super) fn callers(&self, id: u16) -> Vec<u16> {
        let Specification { components, caps, .. } = &*self.specification;
        let received = self.endpoints(id);
        let calls = |cnode| caps.iter().any(|run| run.cnode == cnode && received.contains(&run.object));
        let others = components.iter().filter(|other| other.id != id && calls(other.cnode));
        others.map(|other| other.id).collect()
    }
}
