//! The policy components and the clients of NVMe servers.

use super::Builder;
use super::drivers::Server;
use super::tenants;
use crate::error::BuildError;
use crate::layout::{PAGE, alarms_us, rights};
use crate::model::Who;
use crate::scenario::{Controller, Telemetry, Tenant};
use blk_api::config::badge;
use blk_api::policy;
use capdl_spec::{ObjectId, ObjectKind, Role, TeardownAck};
use platform::{Badge, RegionKind};
use telemetry::TELEMETRY;

/// The policy component beside an NVMe server, and its endpoint for clients.
pub(super) struct Policy {
    pub(super) who: Who,
    pub(super) endpoint: ObjectId,
}

/// A client, and the notification that it waits on.
pub(super) struct BuiltClient<'a> {
    pub(super) tenant: &'a Tenant,
    pub(super) who: Who,
    pub(super) event: ObjectId,
}

impl Builder<'_> {
    /// Builds the policy component beside an NVMe server, with the server's priority: while one of them polls a device, the
    /// other gets its turn.
    pub(super) fn policy(&mut self, controller: &Controller, server: &Server) -> Result<Policy, BuildError> {
        let name = self.scenario.policy_name(&controller.name);
        let who = self.component(&name, Role::Policy, self.scenario.server.priority)?;
        self.model.belongs_to(who, server.driver.who);
        let endpoint = self.one(&format!("{name}.endpoint"), ObjectKind::Endpoint);
        let event = self.one(&format!("{name}.event"), ObjectKind::Notification);
        self.serves(who, endpoint, event);
        self.model.cap(who, blk_api::names::SERVER, server.endpoint, policy::BADGE, rights::CALL);
        self.model.cap(server.driver.who, blk_api::names::POLICY, event, Badge::SIGNAL, rights::WRITE);
        self.model.watches(who, blk_api::names::LIVENESS_SERVER, server.driver.who);
        self.model.restarts(who, self.scenario.server.restart.to_policy());
        Ok(Policy { who, endpoint })
    }

    pub(super) fn client<'t>(
        &mut self,
        tenant: &'t Tenant,
        server: &Server,
        policy: &Policy,
        supervisor: ObjectId,
        index: u32,
    ) -> Result<BuiltClient<'t>, BuildError> {
        let name = &tenant.name;
        let program = tenant.workload.program();
        let who = self.running(program, name, Role::Client, self.scenario.priority(tenant))?;
        self.model.belongs_to(who, server.driver.who);
        let event = self.one(&format!("{name}.event"), ObjectKind::Notification);
        let cptr = self.model.cap(who, platform::names::EVENT, event, 0, rights::READ);
        self.model.waits_on(who, cptr);
        self.model.ticks(who, event);
        self.model.cap(who, blk_api::names::SERVER, server.endpoint, u64::from(index) + 1, rights::CALL);
        self.model.cap(who, blk_api::names::DOORBELL, server.event, badge::client(index), rights::WRITE);
        self.model.cap(who, blk_api::names::POLICY, policy.endpoint, u64::from(index) + 1, rights::CALL);
        self.model.watches(who, blk_api::names::LIVENESS_SERVER, server.driver.who);
        self.model.watches(server.driver.who, &blk_api::names::liveness(index), who);
        self.model.cap(server.driver.who, &blk_api::names::client(index), event, Badge::SIGNAL | 1, rights::WRITE);

        let window = self.model.object(format!("{name}.window"), ObjectKind::SmallFrame, tenant.window / PAGE);
        self.model.region(who, blk_api::names::WINDOW, window, RegionKind::ReadWrite);
        self.model.cap(server.driver.who, &blk_api::names::window(index), window, 0, rights::READ_WRITE);

        let bytes = blk_api::ring::client_region_bytes(tenant.ring_entries);
        let ring = self.model.object(format!("{name}.ring-client"), ObjectKind::SmallFrame, bytes / PAGE);
        self.model.region(who, blk_api::names::RING_CLIENT, ring, RegionKind::ReadWrite);
        self.model.region(server.driver.who, &blk_api::names::ring_client(index), ring, RegionKind::ReadOnly);

        let bytes = blk_api::ring::server_region_bytes(tenant.ring_entries);
        let ring = self.model.object(format!("{name}.ring-server"), ObjectKind::SmallFrame, bytes / PAGE);
        self.model.region(who, blk_api::names::RING_SERVER, ring, RegionKind::ReadOnly);
        self.model.region(server.driver.who, &blk_api::names::ring_server(index), ring, RegionKind::ReadWrite);
        if let (Some(restart), Some(page)) = (tenant.restart, server.teardown_acks) {
            self.model.restarts(who, restart.to_policy());
            self.model.waits_for_teardown(who, TeardownAck { page, session: index });
        }
        self.shows(who);
        self.alarm(tenant, who, supervisor);
        self.model
            .configure(who, &tenants::client(self.scenario, tenant, self.scenario.server.queues, index as u16))?;
        Ok(BuiltClient { tenant, who, event })
    }

    /// Gives a client its telemetry, if the scenario has some for clients.
    pub(super) fn shows(&mut self, who: Who) {
        let pages = self.scenario.telemetry.as_ref().map_or(0, Telemetry::client_pages);
        if pages > 0 {
            self.model.shows(who, TELEMETRY, pages as u64);
        }
    }

    /// Lets a client ask for alarms, if its tenant may. Its numbers come after those of the NVMe servers.
    pub(super) fn alarm(&mut self, tenant: &Tenant, who: Who, supervisor: ObjectId) {
        let sleepers = self.scenario.tenants.iter().filter(|tenant| tenant.alarm);
        if let Some(before) =
            sleepers.zip(0usize..).find_map(|(one, before)| (one.name == tenant.name).then_some(before))
        {
            let of_servers = self.scenario.controllers.len() * alarms_us(Role::NvmeServer).len();
            let number = of_servers + before * alarms_us(Role::Client).len();
            // Numbers share bits anyway, when there are many.
            self.model.asks_for_alarms(who, supervisor, number as u8);
        }
    }

    /// A client that names a peer may signal the notification on which the peer waits.
    pub(super) fn peers(&mut self, clients: &[BuiltClient<'_>]) {
        for BuiltClient { tenant, who, .. } in clients {
            if let Some(peer) = clients.iter().find(|other| other.tenant.name == tenant.peer) {
                let badge = Badge::SIGNAL | workload::Signal::BADGE_BIT;
                self.model.cap(*who, workload::names::PEER, peer.event, badge, rights::WRITE);
            }
        }
    }
}
