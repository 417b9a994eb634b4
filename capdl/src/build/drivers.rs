//! The drivers of PCI functions: the NVMe servers, or a test component in their place.

use super::Builder;
use super::dma::{io_tables, pool_pages};
use super::pci::Pci;
use crate::check::declaration::vectors_of_servers;
use crate::check::{EDU_PAGES, PROBE_QUEUE_PAIRS, register_pages};
use crate::error::BuildError;
use crate::layout::{LARGE_PAGE, PAGE, PROBE_MEMORY_BITS, alarms_us, rights};
use crate::machine::{EDU_CLASS_CODE, Iommu, NVME_CLASS_CODE};
use crate::model::Who;
use crate::scenario::{Controller, EDU_DRIVER, FUNCTION_QUEUES, Interrupts, PROBE, Path, Probe, Tenant, slot_number};
use blk_api::administration::{Administration, POOL_PAGES};
use capdl_spec::{ObjectId, ObjectKind, Role};
use pci_api::{Match, names};
use platform::{Badge, RegionKind};
use telemetry::TELEMETRY;

/// Room for the probe's own pages.
const PROBE_ARENA_BYTES: u64 = LARGE_PAGE;
/// Pages of the probe's pool: two queue pairs.
const PROBE_POOL_PAGES: u64 = 8;
/// IO page tables of the probe: for each of two claims a top, and a middle and a leaf for the pool and for its pages.
const PROBE_IO_TABLES: u64 = 10;
/// Pages that a probe has where it has no memory to make them of.
const PROBE_FRAMES: u64 = 16;

/// Bytes of address space for `pages` pages that are mapped at run time: whole page tables.
pub(super) const fn arena_bytes(pages: u64) -> u64 {
    (pages * PAGE).next_multiple_of(LARGE_PAGE)
}

/// The driver of a function, the function, where its registers are mapped, and how many vectors it may have.
#[derive(Clone)]
pub(super) struct Driver {
    pub(super) who: Who,
    pub(super) arena: u64,
    /// Pages of registers that it uses.
    pub(super) pages: u32,
    pub(super) max_vectors: u16,
    pub(super) allowed: Match,
}

/// The function that is number `index` of those with the class code.
const fn of_class(class_code: [u8; 3], index: u16) -> Match {
    Match::ClassCode { class_code, index }
}

/// An NVMe server and what its clients get of it.
pub(super) struct Server {
    pub(super) driver: Driver,
    pub(super) endpoint: ObjectId,
    pub(super) event: ObjectId,
    /// The server's page of teardown acknowledgements, where a client of its own is started again.
    pub(super) teardown_acks: Option<ObjectId>,
}

impl Builder<'_> {
    /// Vectors a controller's server may have: one for the admin queue, one for each queue pair of its tenants, as far as the
    /// controllers' parts of the machine's interrupts go. Queue pairs beyond share them.
    fn vectors(&self, controller: &Controller) -> u16 {
        let queue_pairs =
            self.scenario.queue_pairs(&controller.name).min(u32::from(controller.server_queue_pairs())) as u16;
        let (_, interrupts) = self.machine().irqs;
        let functions = self.scenario.tenants.iter().filter(|tenant| tenant.path == Path::Function).count();
        let part = vectors_of_servers(interrupts, functions, self.scenario.controllers.len());
        let most = (queue_pairs + 1).min(controller.vector_count());
        if controller.ways().all(|way| way == Interrupts::Intx) { 1 } else { most.min(part) }
    }

    /// Pages of registers that a controller's server uses.
    fn register_pages(&self, controller: &Controller) -> u32 {
        let administered = self.scenario.administration().map_or(0, Administration::queue_pairs);
        let queue_pairs = self.scenario.queue_pairs(&controller.name) + u32::from(administered);
        register_pages(queue_pairs.min(controller.server_queue_pairs().into()), controller.model.doorbell_stride)
    }

    /// Pages of registers that all drivers use together. Few more than all of these are mapped at a time.
    pub(super) fn all_register_pages(&self) -> u64 {
        let functions = self.scenario.tenants.iter().filter(|tenant| tenant.path == Path::Function);
        let servers = self.scenario.controllers.iter().map(|controller| self.register_pages(controller));
        servers.chain(functions.map(|tenant| self.function_pages(tenant))).map(u64::from).sum()
    }

    /// Pages of registers that a tenant's function has in use.
    pub(super) fn function_pages(&self, tenant: &Tenant) -> u32 {
        let stride = self.scenario.controller(&tenant.controller).map_or(0, |(_, one)| one.model.doorbell_stride);
        register_pages(FUNCTION_QUEUES.into(), stride)
    }

    pub(super) fn nvme_server(&mut self, controller: &Controller, pci: &Pci) -> Result<Server, BuildError> {
        let name = self.scenario.server_name(&controller.name);
        let who = self.component(&name, Role::NvmeServer, self.scenario.server.priority)?;
        let endpoint = self.one(&format!("{name}.endpoint"), ObjectKind::Endpoint);
        let event = self.one(&format!("{name}.event"), ObjectKind::Notification);
        self.serves(who, endpoint, event);
        // A driver's badge is its number plus one.
        let index = self.scenario.controller(&controller.name).map_or(0, |(index, _)| index as u16);
        self.model.cap(who, names::PCI, pci.endpoint, u64::from(index) + 1, rights::CALL_WITH_CAPS);
        let first_alarm = usize::from(index) * alarms_us(Role::NvmeServer).len();
        self.model.asks_for_alarms(who, pci.supervisor, first_alarm as u8);
        self.model.restarts(who, self.scenario.server.restart.to_policy());
        let own = self.scenario.sessions(&controller.name).map(|tenant| self.scenario.most_queues(tenant));
        let administered = self.scenario.administration();
        let pool_pages = pool_pages(self.scenario.server.queues, own) + administered.map_or(0, |_| POOL_PAGES);
        let pool = self.model.object(format!("{name}.dma"), ObjectKind::SmallFrame, pool_pages);
        self.model.cap(who, blk_api::names::DMA, pool, 0, rights::READ_WRITE);
        self.model.region(who, blk_api::names::DMA, pool, RegionKind::ReadWrite);
        let windows = self.scenario.sessions(&controller.name).map(|tenant| tenant.window);
        let windows = windows.chain(administered.map(|one| one.window_bytes));
        let tables = io_tables(pool_pages * PAGE, windows);
        self.io_tables(who, &name, tables);
        if let Some(telemetry) = &self.scenario.telemetry {
            let pages = telemetry.server_pages(self.scenario.sessions(&controller.name).count());
            self.model.shows(who, TELEMETRY, pages as u64);
        }
        let pages = self.register_pages(controller);
        let arena = self.model.arena(who, names::ARENA, arena_bytes(pages.into()));
        self.model.own_cnode(who, 256 + 4 * u64::from(self.vectors(controller)));
        let mut clients = self.scenario.sessions(&controller.name).chain(self.scenario.functions(&controller.name));
        let is_again = clients.any(|tenant| tenant.restart.is_some());
        let teardown_acks = is_again.then(|| self.teardown_acks(&name, who, pci));
        let allowed = if controller.hot_plug {
            Match::Slot(slot_number(index.into()))
        } else {
            of_class(NVME_CLASS_CODE, self.scenario.number_among_fixed(index.into()) as u16)
        };
        let driver = Driver { who, arena, pages, max_vectors: self.vectors(controller), allowed };
        Ok(Server { driver, endpoint, event, teardown_acks })
    }

    /// Makes the page where the server acknowledges teardowns, and the signal by which it notifies the supervisor of them.
    fn teardown_acks(&mut self, name: &str, who: Who, pci: &Pci) -> ObjectId {
        let page = self.one(&format!("{name}.teardown-acks"), ObjectKind::SmallFrame);
        self.model.region(who, blk_api::names::TEARDOWN_ACKS, page, RegionKind::ReadWrite);
        self.model.cap(who, blk_api::names::TORN_DOWN, pci.supervisor, Badge::SIGNAL | Badge::TORN_DOWN, rights::WRITE);
        page
    }

    /// Builds the probe in the NVMe server's place, with untyped memory and control of its VSpace in addition.
    pub(super) fn probe(&mut self, probe: &Probe, pci: &Pci) -> Result<Driver, BuildError> {
        let who = self.component(PROBE, Role::Probe, self.scenario.server.priority)?;
        let event = self.one("probe.event", ObjectKind::Notification);
        let cptr = self.model.cap(who, platform::names::EVENT, event, 0, rights::READ_WRITE);
        self.model.waits_on(who, cptr);
        self.model.ticks(who, event);
        self.model.cap(who, names::PCI, pci.endpoint, 1, rights::CALL_WITH_CAPS);
        let pool = self.model.object("probe.dma", ObjectKind::SmallFrame, PROBE_POOL_PAGES);
        self.model.cap(who, blk_api::names::DMA, pool, 0, rights::READ_WRITE);
        self.model.region(who, blk_api::names::DMA, pool, RegionKind::ReadWrite);
        self.io_tables(who, PROBE, PROBE_IO_TABLES);
        if matches!(self.iommu(), Iommu::Kernels) {
            let memory = self.model.object("probe.memory", ObjectKind::Untyped { size_bits: PROBE_MEMORY_BITS }, 2);
            self.model.cap(who, workload::names::MEMORY, memory, 0, rights::ALL);
        } else {
            // The probe could delete a frame of untyped memory of its own while the device still reaches it.
            let frames = self.model.object("probe.frames", ObjectKind::SmallFrame, PROBE_FRAMES);
            self.model.cap(who, workload::names::FRAMES, frames, 0, rights::READ_WRITE);
        }
        let vspace = self.model.vspace(who);
        self.model.cap(who, workload::names::OWN_VSPACE, vspace, 0, rights::ALL);
        let pages = register_pages(
            PROBE_QUEUE_PAIRS,
            self.scenario.controllers.first().map_or(0, |one| one.model.doorbell_stride),
        );
        let arena = self.model.arena(who, names::ARENA, arena_bytes(pages.into()));
        self.model.arena(who, workload::names::PAGES, PROBE_ARENA_BYTES);
        self.model.own_cnode(who, 128);
        self.model.configure(who, &workload::Probe { last: probe.last })?;
        // The scenario has one controller.
        let max_vectors = self.scenario.controllers.first().map_or(1, |controller| self.vectors(controller));
        Ok(Driver { who, arena, pages, max_vectors, allowed: of_class(NVME_CLASS_CODE, 0) })
    }

    /// Builds a driver that reaches no memory but its own; its device reaches none.
    pub(super) fn edu_driver(&mut self, pci: &Pci) -> Result<Driver, BuildError> {
        let who = self.component(EDU_DRIVER, Role::EduDriver, self.scenario.server.priority)?;
        let event = self.one(&format!("{EDU_DRIVER}.event"), ObjectKind::Notification);
        let cptr = self.model.cap(who, platform::names::EVENT, event, 0, rights::READ_WRITE);
        self.model.waits_on(who, cptr);
        self.model.ticks(who, event);
        self.model.cap(who, names::PCI, pci.endpoint, 1, rights::CALL_WITH_CAPS);
        let arena = self.model.arena(who, names::ARENA, arena_bytes(EDU_PAGES.into()));
        self.model.own_cnode(who, 8);
        Ok(Driver { who, arena, pages: EDU_PAGES, max_vectors: 1, allowed: of_class(EDU_CLASS_CODE, 0) })
    }

    /// Makes page tables for the device, where the driver brings them and the kernel installs them.
    pub(super) fn io_tables(&mut self, who: Who, name: &str, tables: u64) {
        if matches!(self.iommu(), Iommu::Kernels) {
            let tables = self.model.object(format!("{name}.io-table"), ObjectKind::IoPageTable, tables);
            self.model.cap(who, blk_api::names::IO_TABLE, tables, 0, rights::ALL);
        }
    }
}
