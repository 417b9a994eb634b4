//! From a scenario and the programs to the whole system: who gets which object, capability and mapping.
//!
//! One function a component, in the order of their numbers: console 1, PCI server 2, the IOMMU server where there is one, the
//! NVMe servers or a test component, the policy components, the tenants. What two of them share is made by the one that writes it, or by the tenant. [`mod@crate::model`] keeps the
//! books. Numbers of the machine are in `machine`, amounts of memory for devices in `dma`, what
//! components are told of tenants in `tenants`.

mod dma;
pub(crate) mod machine;
mod tenants;

use self::dma::{io_tables, pool_pages, smmu_pages};
use self::machine::{BUSES, EDU_CLASS, Iommu, Machine, NVME_CLASS, Smmu};
use crate::check::{self, Channel, Leak};
use crate::model::{Finished, Grant, Model, PAGE, Who, rights};
use crate::programs::Programs;
use crate::scenario::{
    self, Controller, EDU_DRIVER, IOMMU_SERVER, Interrupts, PCI_SERVER_PRIORITY, PROBE, Probe, Scenario, Tenant,
};
use blk_api::config::{ServerConfig, badge};
use blk_api::policy::{self, PolicyConfig};
use capdl_spec::{Burial, Kill, ObjectId, ObjectKind, Role, Specification};
use pci_api::{DriverConfig, Match, names};
use platform::{Badge, Environment, Paddr, RegionKind, Vaddr};
use workload::Workload;

/// Bytes of records the root task's log ring keeps.
const ROOT_LOG_BYTES: u64 = 256 << 10;
/// Room for BAR pages in a driver, and for MSI-X tables in the PCI server.
const ARENA_BYTES: u64 = 2 << 20;
/// The program of policy components.
pub(crate) const POLICY_PROGRAM: &str = "policy";
/// The program of the probe.
pub(crate) const PROBE_PROGRAM: &str = "nvme-probe";
/// The program of the edu device's driver.
pub(crate) const EDU_PROGRAM: &str = "edu-driver";
/// Pages of the probe's pool: two queue pairs.
const PROBE_POOL_PAGES: u64 = 8;
/// IO page tables of the probe: for each of two claims a top, a middle, and a leaf for the pool and one for its pages.
const PROBE_IO_TABLES: u64 = 8;
/// log2 of the bytes of each of the probe's two untypeds.
pub(crate) const PROBE_MEMORY_BITS: u8 = 16;
/// Pages that a probe has where it has no memory to make them of.
const PROBE_FRAMES: u64 = 16;
/// Why a system was not built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A program is missing.
    #[error("the program `{program}` was not given: build it first")]
    NoProgram {
        /// Its name.
        program: String,
    },
    /// A program's file cannot be read.
    #[error("{path} cannot be read ({error}): build the programs first")]
    Unreadable {
        /// The file.
        path: String,
        /// The reason.
        error: String,
    },
    /// A program cannot be loaded.
    #[error("the program `{program}` {reason}")]
    BadProgram {
        /// Its name.
        program: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A configuration does not encode.
    #[error("a configuration does not encode: report this as a defect of capdl")]
    Encoding,
    /// A component has so many names that they do not fit.
    #[error("the environment of `{component}` is larger than its place: use fewer sessions")]
    EnvironmentTooLarge {
        /// The component.
        component: String,
    },
    /// Authority leaks.
    #[error("authority leaks: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Authority(Vec<Leak>),
}

/// A built system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct System {
    /// Every object, capability and mapping.
    pub specification: Specification,
    /// What frames are filled with.
    pub data: Vec<u8>,
    /// What each component finds when it starts, in the order of [`Specification::components`]; also in `data`.
    pub environments: Vec<Environment>,
}

impl System {
    /// What the root task boots from: see [`Specification::to_image`].
    #[must_use]
    pub fn image(&self) -> Vec<u8> {
        self.specification.to_image(&self.data)
    }

    /// The system in the capDL language: see [`crate::cdl`].
    #[must_use]
    pub fn cdl(&self) -> String {
        crate::cdl::text(&self.specification)
    }

    /// The capability graph as an SVG image: see [`crate::graph`].
    #[must_use]
    pub fn svg(&self) -> String {
        crate::graph::svg(&self.specification)
    }
}

/// Builds the system of a scenario. Refused by [`check::authority`], it is not built.
///
/// # Errors
/// [`BuildError`].
pub fn build(scenario: &Scenario, programs: &Programs) -> Result<System, BuildError> {
    let mut builder = Builder { scenario, programs, model: Model::new(&scenario.name, scenario.expect.report_caps) };
    if !scenario.machine.iommu {
        builder.model.lacks_iommu();
    }
    builder.system()?;
    let Finished { mut specification, data, environments } = builder.model.finish()?;
    specification.kills = kills(scenario, &specification);
    check::authority(&specification, &data, &channels(scenario)).map_err(BuildError::Authority)?;
    Ok(System { specification, data, environments })
}

/// Whom the supervisor stops, by number.
fn kills(scenario: &Scenario, specification: &Specification) -> Vec<Kill> {
    let number = |name: &str| specification.components.iter().find(|one| one.name == name).map(|one| one.id);
    let kill = |kill: &scenario::Kill| {
        Some(Kill {
            component: number(&kill.component)?,
            after_us: kill.after_us(),
            times: kill.times,
            every_us: u64::from(kill.every_ms) * 1000,
            spread_us: kill.within_ms.saturating_mul(1000),
        })
    };
    scenario.kills.iter().filter_map(kill).collect()
}

/// The channels between tenants that the scenario declares.
pub(crate) fn channels(scenario: &Scenario) -> Vec<Channel> {
    let declared = scenario.tenants.iter().filter(|tenant| !tenant.peer.is_empty());
    declared.map(|tenant| Channel { from: tenant.name.clone(), to: tenant.peer.clone() }).collect()
}

struct Builder<'a> {
    scenario: &'a Scenario,
    programs: &'a Programs,
    model: Model,
}

/// What drivers get from the PCI server.
struct Pci {
    who: Who,
    endpoint: ObjectId,
    /// Where the supervisor is told something.
    supervisor: ObjectId,
}

/// The driver of a function, the function, where its registers are mapped, and how many vectors it may have.
#[derive(Clone, Copy)]
struct Driver {
    who: Who,
    arena: u64,
    class: [u8; 3],
    /// The function's number among those of its class.
    index: u16,
    max_vectors: u16,
}

/// An NVMe server and what its clients get of it.
struct Server {
    driver: Driver,
    endpoint: ObjectId,
    event: ObjectId,
    /// Its page of burials, where a client of its own is started again.
    burials: Option<ObjectId>,
}

/// The policy component beside an NVMe server, and what clients get of it.
struct Policy {
    who: Who,
    endpoint: ObjectId,
}

/// A client, and what it waits on.
struct Seated<'a> {
    tenant: &'a Tenant,
    who: Who,
    event: ObjectId,
}

impl Builder<'_> {
    fn system(&mut self) -> Result<(), BuildError> {
        let scenario = self.scenario;
        let console = self.component("console", Role::Console, "console", scenario.console.priority)?;
        let pci = self.pci_server()?;
        if let Some(probe) = &scenario.probe {
            let driver = self.probe(probe, &pci)?;
            self.configure_pci(&pci, &[driver])?;
            return self.console(console);
        }
        if scenario.edu.is_some() {
            let driver = self.edu_driver(&pci)?;
            self.configure_pci(&pci, &[driver])?;
            return self.console(console);
        }
        let mut servers = Vec::new();
        for controller in &scenario.controllers {
            servers.push(self.nvme_server(controller, &pci)?);
        }
        let mut policies = Vec::new();
        for (controller, server) in scenario.controllers.iter().zip(&servers) {
            policies.push(self.policy(controller, server)?);
        }
        let mut clients = Vec::new();
        for ((controller, server), policy) in scenario.controllers.iter().zip(&servers).zip(&policies) {
            for (tenant, index) in scenario.sessions(&controller.name).zip(0..) {
                clients.push(self.client(tenant, server, policy, index)?);
            }
            let numbered = scenario.sessions(&controller.name).zip(0u16..);
            let queues = scenario.server.queues;
            let sessions = numbered.map(|(tenant, number)| tenants::session(scenario, tenant, number)).collect();
            let config = ServerConfig {
                interrupts: controller.interrupts,
                policy: scenario.server.policy,
                class_weights: scenario.server.class_weights,
                queues,
                sessions,
                records: scenario.server.records,
                merging: scenario.server.merging,
            };
            self.model.configure(server.driver.who, &config)?;
            let sessions = scenario.sessions(&controller.name).map(tenants::holder).collect();
            let mut tenants: Vec<Tenant> = scenario.sessions(&controller.name).cloned().collect();
            let changes = scenario.changes.iter().filter_map(|change| {
                let mut numbered = tenants.iter_mut().zip(0..);
                let (tenant, number) = numbered.find(|(tenant, _)| tenant.name == change.tenant)?;
                Some(tenants::change(change, tenant, queues, number))
            });
            let changes = changes.collect();
            let interrupts = tenants::interrupts(controller);
            self.model.configure(policy.who, &PolicyConfig { sessions, changes, interrupts })?;
        }
        self.peers(&clients);
        let drivers: Vec<Driver> = servers.iter().map(|server| server.driver).collect();
        self.configure_pci(&pci, &drivers)?;
        self.console(console)
    }

    /// The machine that the programs are for.
    fn machine(&self) -> &'static Machine {
        machine::of(self.model.arch())
    }

    /// The names of the PCI server's drivers, in their order.
    fn drivers(&self) -> Vec<String> {
        let servers = || self.scenario.controllers.iter().map(|controller| self.scenario.server_name(&controller.name));
        self.scenario.tester().map_or_else(|| servers().collect(), |tester| vec![tester.to_owned()])
    }

    /// The translator of devices' addresses.
    fn iommu(&self) -> Iommu {
        machine::iommu(self.machine(), self.scenario.machine.iommu)
    }

    fn component(&mut self, name: &str, role: Role, program: &str, priority: u8) -> Result<Who, BuildError> {
        let parsed = self.programs.program(program)?;
        if !self.model.runs_on(parsed.arch) {
            let reason = "is for another architecture than the others".into();
            return Err(BuildError::BadProgram { program: program.into(), reason });
        }
        Ok(self.model.component(name, role, (program, &parsed), priority))
    }

    /// An object of which there is one.
    fn one(&mut self, name: &str, kind: ObjectKind) -> ObjectId {
        self.model.object(name, kind, 1)
    }

    fn pci_server(&mut self) -> Result<Pci, BuildError> {
        let who = self.component("pci-server", Role::PciServer, "pci-server", PCI_SERVER_PRIORITY)?;
        let endpoint = self.one("pci-server.endpoint", ObjectKind::Endpoint);
        let event = self.one("pci-server.event", ObjectKind::Notification);
        self.serves(who, endpoint, event);
        let irq_control = self.one("irq-control", ObjectKind::IrqControl);
        self.model.cap(who, names::IRQ_CONTROL, irq_control, 0, rights::ALL);
        if let Some(iommu) = self.io_spaces(who)? {
            self.model.ends_with(who, iommu);
        }
        let mut windows = Vec::new();
        for (paddr, size_bits) in self.machine().pci_windows() {
            let kind = ObjectKind::DeviceUntyped { paddr, size_bits };
            let object = self.one(&format!("pci-window-{paddr:x}"), kind);
            windows.push(Grant { object, badge: 0, rights: rights::ALL });
        }
        self.model.caps(who, names::PCI_WINDOW, &windows);
        let ecam = self.machine().ecam;
        let ecam = self.model.object("ecam", ObjectKind::LargeDeviceFrame { paddr: ecam }, u64::from(BUSES) / 2);
        self.model.region(who, names::ECAM, ecam, RegionKind::Device);
        self.model.arena(who, names::ARENA, ARENA_BYTES);
        let vspace = self.model.vspace(who);
        self.model.cap(who, names::OWN_VSPACE, vspace, 0, rights::ALL);
        self.model.own_cnode(who, 2048 + 1024 * self.drivers().len() as u64);
        self.model.keeps(who, names::SIZING);
        self.model.restarts(who, self.scenario.pci_server.restart.policy());
        let supervisor = self.one("root-task.event", ObjectKind::Notification);
        Ok(Pci { who, endpoint, supervisor })
    }

    /// IOSpaces' source: the kernel's master, or the IOMMU server, which is returned, with a badge for the PCI server and one
    /// for each driver's domain.
    fn io_spaces(&mut self, pci: Who) -> Result<Option<Who>, BuildError> {
        let smmu = match self.iommu() {
            Iommu::None => return Ok(None),
            Iommu::Kernels => {
                let io_space = self.one("io-space-master", ObjectKind::IoSpaceMaster);
                self.model.cap(pci, names::IO_SPACE_MASTER, io_space, 0, rights::ALL);
                return Ok(None);
            }
            Iommu::Servers(smmu) => smmu,
        };
        let who = self.component(IOMMU_SERVER, Role::IommuServer, IOMMU_SERVER, PCI_SERVER_PRIORITY)?;
        let endpoint = self.one("iommu-server.endpoint", ObjectKind::Endpoint);
        let event = self.one("iommu-server.event", ObjectKind::Notification);
        self.serves(who, endpoint, event);
        let registers = ObjectKind::SmallDeviceFrame { paddr: smmu.registers };
        let registers = self.model.object("smmu", registers, Smmu::REGISTER_PAGES);
        self.model.region(who, "smmu", registers, RegionKind::Device);
        let windows: Vec<u64> = self.scenario.tenants.iter().map(|tenant| tenant.window).collect();
        let drivers = self.drivers();
        let pages = smmu_pages(drivers.len() as u64, windows);
        let tables = self.model.object("iommu-server.tables", ObjectKind::SmallFrame, pages);
        self.model.cap(who, "tables", tables, 0, rights::READ_WRITE);
        self.model.region(who, "tables", tables, RegionKind::ReadWrite);
        self.model.own_cnode(who, 0);
        let own = |badge| Grant { object: endpoint, badge, rights: rights::CALL };
        let domains = (1..).take(drivers.len()).map(own);
        let grants: Vec<Grant> = std::iter::once(own(iommu_api::MASTER)).chain(domains).collect();
        self.model.caps(pci, names::IO_SPACE_MASTER, &grants);
        let memory = (Paddr::new(smmu.memory), self.scenario.machine.memory);
        let messages = Paddr::new(smmu.messages);
        self.model.configure(who, &iommu_api::ServerConfig { memory, messages, drivers })?;
        self.model.writes_blocked(who);
        self.model.restarts(who, self.scenario.iommu_server.restart.policy());
        Ok(Some(who))
    }

    /// Page tables for the device, where the driver brings them and the kernel installs them.
    fn io_tables(&mut self, who: Who, name: &str, tables: u64) {
        if matches!(self.iommu(), Iommu::Kernels) {
            let tables = self.model.object(format!("{name}.io-table"), ObjectKind::IoPageTable, tables);
            self.model.cap(who, "io-table", tables, 0, rights::ALL);
        }
    }

    /// The component waits on `endpoint`, with `event` bound and ticking.
    fn serves(&mut self, who: Who, endpoint: ObjectId, event: ObjectId) {
        let cptr = self.model.cap(who, "endpoint", endpoint, 0, rights::READ);
        self.model.waits_on(who, cptr);
        self.model.cap(who, "event", event, 0, rights::READ_WRITE);
        self.model.binds(who, event);
        self.model.ticks(who, event);
    }

    fn configure_pci(&mut self, pci: &Pci, all: &[Driver]) -> Result<(), BuildError> {
        let mut vspaces = Vec::new();
        let mut drivers = Vec::new();
        let mut silenced = Vec::new();
        for (driver, domain) in all.iter().zip(1u16..) {
            let index = domain - 1;
            let number = index as u8;
            self.model.drives(driver.who, number);
            self.model.ends_with(driver.who, pci.who);
            self.model.watches(pci.who, &names::life(index.into()), driver.who);
            silenced.push(Grant { object: pci.supervisor, badge: Badge::silenced(number), rights: rights::WRITE });
            vspaces.push(Grant { object: self.model.vspace(driver.who), badge: 0, rights: rights::ALL });
            drivers.push(DriverConfig {
                name: self.model.name(driver.who).into(),
                allowed: Match::Class { class: driver.class, index: driver.index },
                arena: Vaddr::new(driver.arena),
                arena_len: ARENA_BYTES,
                max_vectors: driver.max_vectors,
                domain,
            });
        }
        self.model.caps(pci.who, names::DRIVER_VSPACE, &vspaces);
        self.model.caps(pci.who, names::SILENCED, &silenced);
        let machine = self.machine();
        let windows = machine.pci_windows().into_iter().map(|(paddr, bits)| (Paddr::new(paddr), bits)).collect();
        let Machine { intx_pins, irqs, is_without_firmware, .. } = *machine;
        let assign = is_without_firmware || self.scenario.pci.assign;
        let config = pci_api::ServerConfig {
            buses: BUSES,
            windows,
            assign,
            iommu: self.scenario.machine.iommu,
            intx_pins,
            irqs,
            drivers,
        };
        self.model.configure(pci.who, &config)
    }

    /// Vectors a controller's server may have: one for the admin queue, one for each queue pair of its tenants, as far as the
    /// controllers' shares of the machine's interrupts go. Queue pairs beyond share them.
    fn vectors(&self, controller: &Controller) -> u16 {
        let queue_pairs = self.scenario.queue_pairs(&controller.name).min(u32::from(controller.queue_pairs)) as u16;
        let (_, interrupts) = self.machine().irqs;
        let share = u16::from(interrupts) / self.scenario.controllers.len().max(1) as u16;
        if controller.ways().all(|way| way == Interrupts::Intx) { 1 } else { (queue_pairs + 1).min(share) }
    }

    fn nvme_server(&mut self, controller: &Controller, pci: &Pci) -> Result<Server, BuildError> {
        let name = self.scenario.server_name(&controller.name);
        let who = self.component(&name, Role::NvmeServer, "nvme-server", self.scenario.server.priority)?;
        let endpoint = self.one(&format!("{name}.endpoint"), ObjectKind::Endpoint);
        let event = self.one(&format!("{name}.event"), ObjectKind::Notification);
        self.serves(who, endpoint, event);
        // Badges of drivers are their numbers and one more.
        let index = self.scenario.controller(&controller.name).map_or(0, |(index, _)| index as u16);
        self.model.cap(who, names::PCI, pci.endpoint, u64::from(index) + 1, rights::CALL);
        let alarm = Badge::alarm(index as u8);
        self.model.cap(who, "alarm", pci.supervisor, alarm, rights::WRITE);
        self.model.restarts(who, self.scenario.server.restart.policy());
        let own = self.scenario.sessions(&controller.name).map(|tenant| self.scenario.most_queues(tenant));
        let pool_pages = pool_pages(self.scenario.server.queues, own);
        let pool = self.model.object(format!("{name}.dma"), ObjectKind::SmallFrame, pool_pages);
        self.model.cap(who, "dma", pool, 0, rights::READ_WRITE);
        self.model.region(who, "dma", pool, RegionKind::ReadWrite);
        let windows = self.scenario.sessions(&controller.name).map(|tenant| tenant.window);
        let tables = io_tables(pool_pages * PAGE, windows);
        self.io_tables(who, &name, tables);
        let arena = self.model.arena(who, names::ARENA, ARENA_BYTES);
        self.model.own_cnode(who, 256 + 4 * u64::from(self.vectors(controller)));
        let is_again = self.scenario.sessions(&controller.name).any(|tenant| tenant.restart.is_some());
        let burials = is_again.then(|| self.burials(&name, who, pci));
        let driver = Driver { who, arena, class: NVME_CLASS, index, max_vectors: self.vectors(controller) };
        Ok(Server { driver, endpoint, event, burials })
    }

    /// Where the server says that nothing is left of a dead client's session, and by what it tells the supervisor to look.
    fn burials(&mut self, name: &str, who: Who, pci: &Pci) -> ObjectId {
        let page = self.one(&format!("{name}.burials"), ObjectKind::SmallFrame);
        self.model.region(who, "burials", page, RegionKind::ReadWrite);
        self.model.cap(who, "buried", pci.supervisor, Badge::SIGNAL | Badge::BURIED, rights::WRITE);
        page
    }

    /// Beside an NVMe server, and as urgent: while one of them waits for a device by looking, the other gets its turn.
    fn policy(&mut self, controller: &Controller, server: &Server) -> Result<Policy, BuildError> {
        let name = self.scenario.policy_name(&controller.name);
        let who = self.component(&name, Role::Policy, POLICY_PROGRAM, self.scenario.server.priority)?;
        self.model.belongs_to(who, server.driver.who);
        let endpoint = self.one(&format!("{name}.endpoint"), ObjectKind::Endpoint);
        let event = self.one(&format!("{name}.event"), ObjectKind::Notification);
        self.serves(who, endpoint, event);
        self.model.cap(who, "server", server.endpoint, policy::BADGE, rights::CALL);
        self.model.cap(server.driver.who, "policy", event, Badge::SIGNAL, rights::WRITE);
        self.model.watches(who, "life-server", server.driver.who);
        self.model.restarts(who, self.scenario.server.restart.policy());
        Ok(Policy { who, endpoint })
    }

    /// In the NVMe server's place, with memory and control of its VSpace besides.
    fn probe(&mut self, probe: &Probe, pci: &Pci) -> Result<Driver, BuildError> {
        let who = self.component(PROBE, Role::Probe, PROBE_PROGRAM, self.scenario.server.priority)?;
        let event = self.one("probe.event", ObjectKind::Notification);
        let cptr = self.model.cap(who, "event", event, 0, rights::READ_WRITE);
        self.model.waits_on(who, cptr);
        self.model.ticks(who, event);
        self.model.cap(who, names::PCI, pci.endpoint, 1, rights::CALL);
        let pool = self.model.object("probe.dma", ObjectKind::SmallFrame, PROBE_POOL_PAGES);
        self.model.cap(who, "dma", pool, 0, rights::READ_WRITE);
        self.model.region(who, "dma", pool, RegionKind::ReadWrite);
        self.io_tables(who, PROBE, PROBE_IO_TABLES);
        if matches!(self.iommu(), Iommu::Kernels) {
            let memory = self.model.object("probe.memory", ObjectKind::Untyped { size_bits: PROBE_MEMORY_BITS }, 2);
            self.model.cap(who, "memory", memory, 0, rights::ALL);
        } else {
            // A frame made of memory of its own could be unmade while the device still reaches it.
            let frames = self.model.object("probe.frames", ObjectKind::SmallFrame, PROBE_FRAMES);
            self.model.cap(who, "frames", frames, 0, rights::READ_WRITE);
        }
        let vspace = self.model.vspace(who);
        self.model.cap(who, "own-vspace", vspace, 0, rights::ALL);
        let arena = self.model.arena(who, names::ARENA, ARENA_BYTES);
        self.model.arena(who, "pages", ARENA_BYTES);
        self.model.own_cnode(who, 128);
        self.model.configure(who, &workload::Probe { last: probe.last })?;
        // The scenario has one controller.
        let max_vectors = self.scenario.controllers.first().map_or(1, |controller| self.vectors(controller));
        Ok(Driver { who, arena, class: NVME_CLASS, index: 0, max_vectors })
    }

    /// A driver that reaches no memory but its own, and its device none.
    fn edu_driver(&mut self, pci: &Pci) -> Result<Driver, BuildError> {
        let who = self.component(EDU_DRIVER, Role::EduDriver, EDU_PROGRAM, self.scenario.server.priority)?;
        let event = self.one(&format!("{EDU_DRIVER}.event"), ObjectKind::Notification);
        let cptr = self.model.cap(who, "event", event, 0, rights::READ_WRITE);
        self.model.waits_on(who, cptr);
        self.model.ticks(who, event);
        self.model.cap(who, names::PCI, pci.endpoint, 1, rights::CALL);
        let arena = self.model.arena(who, names::ARENA, ARENA_BYTES);
        self.model.own_cnode(who, 8);
        Ok(Driver { who, arena, class: EDU_CLASS, index: 0, max_vectors: 1 })
    }

    fn client<'t>(
        &mut self,
        tenant: &'t Tenant,
        server: &Server,
        policy: &Policy,
        index: u32,
    ) -> Result<Seated<'t>, BuildError> {
        let name = &tenant.name;
        let program = program_of(&tenant.workload);
        let who = self.component(name, Role::Client, program, self.scenario.priority(tenant))?;
        self.model.belongs_to(who, server.driver.who);
        let event = self.one(&format!("{name}.event"), ObjectKind::Notification);
        let cptr = self.model.cap(who, "event", event, 0, rights::READ);
        self.model.waits_on(who, cptr);
        self.model.ticks(who, event);
        self.model.cap(who, "server", server.endpoint, u64::from(index) + 1, rights::CALL);
        self.model.cap(who, "doorbell", server.event, badge::client(index), rights::WRITE);
        self.model.cap(who, "policy", policy.endpoint, u64::from(index) + 1, rights::CALL);
        self.model.watches(who, "life-server", server.driver.who);
        self.model.watches(server.driver.who, &format!("life-{index}"), who);
        self.model.cap(server.driver.who, &format!("client-{index}"), event, Badge::SIGNAL | 1, rights::WRITE);

        let window = self.model.object(format!("{name}.window"), ObjectKind::SmallFrame, tenant.window / PAGE);
        self.model.region(who, "window", window, RegionKind::ReadWrite);
        self.model.cap(server.driver.who, &format!("window-{index}"), window, 0, rights::READ_WRITE);

        let bytes = blk_api::ring::client_region_bytes(tenant.ring_entries);
        let ring = self.model.object(format!("{name}.ring-client"), ObjectKind::SmallFrame, bytes / PAGE);
        self.model.region(who, "ring-client", ring, RegionKind::ReadWrite);
        self.model.region(server.driver.who, &format!("ring-client-{index}"), ring, RegionKind::ReadOnly);

        let bytes = blk_api::ring::server_region_bytes(tenant.ring_entries);
        let ring = self.model.object(format!("{name}.ring-server"), ObjectKind::SmallFrame, bytes / PAGE);
        self.model.region(who, "ring-server", ring, RegionKind::ReadOnly);
        self.model.region(server.driver.who, &format!("ring-server-{index}"), ring, RegionKind::ReadWrite);
        if let (Some(restart), Some(page)) = (tenant.restart, server.burials) {
            self.model.restarts(who, restart.policy());
            self.model.is_buried(who, Burial { page, session: index });
        }
        self.model.configure(who, &tenants::client(tenant, self.scenario.server.queues, index as u16))?;
        Ok(Seated { tenant, who, event })
    }

    /// Whoever names a peer may signal what the peer waits on.
    fn peers(&mut self, clients: &[Seated<'_>]) {
        for Seated { tenant, who, .. } in clients {
            if let Some(peer) = clients.iter().find(|other| other.tenant.name == tenant.peer) {
                let badge = Badge::SIGNAL | workload::Signal::BADGE_BIT;
                self.model.cap(*who, "peer", peer.event, badge, rights::WRITE);
            }
        }
    }

    /// The console comes last, because it reads everybody's log ring and everybody signals it.
    fn console(&mut self, console: Who) -> Result<(), BuildError> {
        let serial = self.one("serial", self.machine().serial);
        match self.machine().serial {
            ObjectKind::SmallDeviceFrame { .. } => self.model.region(console, "serial", serial, RegionKind::Device),
            _ => drop(self.model.cap(console, "serial", serial, 0, rights::ALL)),
        }
        let event = self.one("console.event", ObjectKind::Notification);
        let cptr = self.model.cap(console, "event", event, 0, rights::READ);
        self.model.waits_on(console, cptr);
        let root_log_pages = report::ring::region_bytes(ROOT_LOG_BYTES) / PAGE;
        let root_log = self.model.object("root-task.log", ObjectKind::SmallFrame, root_log_pages);
        self.model.region(console, "log-0", root_log, RegionKind::ReadOnly);
        let mut names = vec![(0, "root-task".to_owned())];
        for who in self.model.everybody() {
            let id = Model::id(who);
            let ring = self.model.log_ring(who);
            self.model.region(console, &format!("log-{id}"), ring, RegionKind::ReadOnly);
            self.model.cap(who, "log", event, log_badge(id), rights::WRITE);
            names.push((id, self.model.name(who).to_owned()));
        }
        self.model.configure(console, &names)
    }
}

/// The badge with which a component tells the console that its log ring has something. Numbers share bits when there
/// are more than bits below those that have a meaning.
#[must_use]
pub const fn log_badge(component: u16) -> u64 {
    Badge::SIGNAL | 1 << (component % Badge::ALARM.trailing_zeros() as u16)
}

/// The program that does a workload.
#[must_use]
pub(crate) const fn program_of(workload: &Workload) -> &'static str {
    match workload {
        Workload::Bench(_) | Workload::Signal(_) => "bench",
        Workload::Digest(_) => "digest",
        Workload::Flood(_) => "flood",
        Workload::Hostile(_) => "hostile",
    }
}

#[cfg(test)]
pub(crate) mod tests;
