//! The rule about policy components: each alone decides what the sessions of its NVMe server may touch, and it touches nothing
//! itself.

use super::{Role, Rule, System};
use crate::layout::rights::{READ, WRITE};
use blk_api::policy::BADGE;
use capdl_spec::{ObjectId, ObjectKind};

impl System<'_> {
    /// Checks who holds the privileged badge, and what policy components hold.
    pub(super) fn policy(&mut self) {
        for index in self.indices() {
            for server in self.indices() {
                if self.roles[server] == Role::NvmeServer {
                    self.privileged(index, server);
                }
            }
            if self.roles[index] == Role::Policy {
                self.holds_little(index);
            }
        }
    }

    /// Checks that only its policy component calls the server with the privileged badge, and that it uses no other.
    fn privileged(&mut self, index: usize, server: usize) {
        let is_its = self.is_policy_of(index, server);
        for held in self.holdings[index].clone() {
            let calls = held.rights & WRITE != 0 && self.is_endpoint(held.object) && self.receives(server, held.object);
            // Capabilities that a server got from its own callers add no caller.
            let given = held.own || !matches!(self.roles[index], Role::NvmeServer | Role::PciServer);
            if !calls || !given || (held.badge == BADGE) == is_its {
                continue;
            }
            let (who, server, way) = (self.who(index), self.who(server), &held.path);
            let path = if held.badge == BADGE {
                format!(
                    "{who} calls {server} with the policy component's badge by {way}, and is not its policy component"
                )
            } else {
                format!(
                    "{who} calls {server} with the badge {:#x} by {way}, which is not the policy component's",
                    held.badge
                )
            };
            self.refuse(Rule::PolicyAlone, path);
        }
    }

    /// Checks that a policy component has endpoints and notifications alone: no memory, no device, and no place to receive a
    /// capability.
    fn holds_little(&mut self, index: usize) {
        for held in self.holdings[index].clone() {
            let object = self.object(held.object);
            let is_servers =
                |server: usize| self.roles[server] == Role::NvmeServer && self.receives(server, held.object);
            let fits = match object.kind {
                ObjectKind::Notification => true,
                ObjectKind::Endpoint => held.rights & READ != 0 || self.indices().any(is_servers),
                _ => false,
            };
            if !fits {
                let path = format!("{} reaches {} by {}, which is not for it", self.who(index), object.name, held.path);
                self.refuse(Rule::PolicyAlone, path);
            }
        }
    }

    /// Whether `index` is the policy component beside `server`.
    pub(super) fn is_policy_of(&self, index: usize, server: usize) -> bool {
        let components = &self.specification.components;
        self.roles[index] == Role::Policy
            && self.roles[server] == Role::NvmeServer
            && components[index].server == Some(components[server].id)
    }

    /// Whether the endpoint is the one on which the policy component beside `server` receives.
    pub(super) fn is_policys_own(&self, server: usize, endpoint: ObjectId) -> bool {
        self.indices().any(|index| self.is_policy_of(index, server) && self.receives(index, endpoint))
    }

    /// Whether `server` receives on the endpoint.
    pub(super) fn receives(&self, server: usize, endpoint: ObjectId) -> bool {
        let mut own = self.holdings[server].iter().filter(|held| held.own && held.rights & READ != 0);
        own.any(|held| held.object == endpoint)
    }
}
