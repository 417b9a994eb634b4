//! The clients that drive a virtual function of an NVMe controller themselves.

use super::Builder;
use super::clients::BuiltClient;
use super::dma::{io_tables, pool_pages};
use super::drivers::{Driver, Server, arena_bytes};
use super::pci::Pci;
use super::tenants;
use crate::error::BuildError;
use crate::layout::{PAGE, rights};
use crate::scenario::{FUNCTION_QUEUES, QUEUE_PAIRS, Tenant};
use blk_api::names;
use blk_api::queue_sharing::QueueSharing;
use capdl_spec::{ObjectKind, Role, TeardownAck};
use pci_api::Match;
use platform::RegionKind;
use telemetry::TELEMETRY;

/// Cptrs for capabilities that the PCI server gives: a notification and a handler for each interrupt, and the IOSpace.
const FREE_CPTRS: u64 = 2 * FUNCTION_QUEUES as u64 + 1;

/// The place of a client's function.
pub(super) struct Place<'a> {
    /// The server of the physical function.
    pub(super) server: &'a Server,
    /// The physical function's number as a driver's at the PCI server.
    pub(super) physical: u16,
    /// The virtual function's number.
    pub(super) number: u32,
    /// The client's number as a driver.
    pub(super) driver: u16,
    /// The client's word among the server's teardown acknowledgements.
    pub(super) word: u32,
}

impl Builder<'_> {
    /// Builds a client with the possessions of a driver. It has no way to its server: that watches it, and sets the function online
    /// and offline.
    pub(super) fn function_client<'t>(
        &mut self,
        tenant: &'t Tenant,
        pci: &Pci,
        place: &Place<'_>,
    ) -> Result<(BuiltClient<'t>, Driver), BuildError> {
        let Place { server, physical, number, driver, word } = *place;
        let name = &tenant.name;
        let who = self.running(tenant.workload.program(), name, Role::Client, self.scenario.priority(tenant))?;
        self.model.belongs_to(who, server.driver.who);
        let event = self.one(&format!("{name}.event"), ObjectKind::Notification);
        let cptr = self.model.cap(who, platform::names::EVENT, event, 0, rights::READ_WRITE);
        self.model.waits_on(who, cptr);
        self.model.ticks(who, event);
        self.model.cap(who, pci_api::names::PCI, pci.endpoint, u64::from(driver) + 1, rights::CALL_WITH_CAPS);
        self.model.watches(server.driver.who, &names::function_liveness(number), who);

        let window = self.model.object(format!("{name}.window"), ObjectKind::SmallFrame, tenant.window / PAGE);
        self.model.cap(who, names::WINDOW, window, 0, rights::READ_WRITE);
        self.model.region(who, names::WINDOW, window, RegionKind::ReadWrite);
        let pages = pool_pages(QueueSharing::Dedicated, std::iter::once((QUEUE_PAIRS, tenant.depth)));
        let pool = self.model.object(format!("{name}.dma"), ObjectKind::SmallFrame, pages);
        self.model.cap(who, names::DMA, pool, 0, rights::READ_WRITE);
        self.model.region(who, names::DMA, pool, RegionKind::ReadWrite);
        self.io_tables(who, name, io_tables(pages * PAGE, std::iter::once(tenant.window)));
        let pages = self.function_pages(tenant);
        let arena = self.model.arena(who, pci_api::names::ARENA, arena_bytes(pages.into()));
        self.model.own_cnode(who, FREE_CPTRS);
        if let (Some(restart), Some(page)) = (tenant.restart, server.teardown_acks) {
            self.model.restarts(who, restart.to_policy());
            self.model.waits_for_teardown(who, TeardownAck { page, session: word });
        }
        if let Some(telemetry) = &self.scenario.telemetry {
            self.model.shows(who, TELEMETRY, telemetry.function_pages() as u64);
        }
        self.alarm(tenant, who, pci.supervisor);
        self.model.configure(who, &tenants::client(self.scenario, tenant, QueueSharing::Dedicated, 0))?;
        let allowed = Match::Virtual { driver: physical, index: number as u16 };
        let driver = Driver { who, arena, pages, max_vectors: FUNCTION_QUEUES, allowed };
        Ok((BuiltClient { tenant, who, event }, driver))
    }
}
