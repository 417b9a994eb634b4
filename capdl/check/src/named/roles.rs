//! The capabilities and regions of each role with their names. A new capability or region has to be added to this table.
//!
//! An object's name states its owner and its use: `alice.window`. `build.rs` gives out the same names. Nothing else is shared
//! with it, so that a mistake there is not allowed by the same mistake here.

use super::super::{Config, Role, System};
use crate::layout::rights::{ALL, CALL, CALL_WITH_CAPS, GRANT, READ, READ_WRITE, WRITE};
use crate::layout::{PROBE_MEMORY_BITS, log_badge};
use crate::machine::Iommu;
use blk_api::administration::Administration;
use blk_api::config::badge;
use blk_api::{orders, policy};
use capdl_spec::{ObjectKind, ROOT_BITS};
use control_api::{Act, supervisor};
use pci_api::names;
use platform::{Badge, RegionKind};
use telemetry::TELEMETRY;

/// Capabilities at consecutive cptrs under one name.
pub(super) struct Wanted {
    pub(super) name: String,
    pub(super) entries: Vec<Entry>,
}

/// A wanted capability, or those to the objects of one array.
pub(super) struct Entry {
    pub(super) object: String,
    pub(super) badge: u64,
    pub(super) rights: u8,
}

/// A region, and the frames that are mapped there; an arena has none.
pub(super) struct Place {
    pub(super) name: String,
    pub(super) object: String,
    pub(super) kind: RegionKind,
}

/// All that a component has.
#[derive(Default)]
pub(super) struct Possessions {
    pub(super) caps: Vec<Wanted>,
    pub(super) regions: Vec<Place>,
}

impl Possessions {
    fn cap(&mut self, name: impl Into<String>, object: impl Into<String>, badge: u64, rights: u8) {
        self.caps.push(Wanted { name: name.into(), entries: vec![Entry { object: object.into(), badge, rights }] });
    }

    fn caps(&mut self, name: &str, entries: impl Iterator<Item = (String, u64, u8)>) {
        let entries = entries.map(|(object, badge, rights)| Entry { object, badge, rights }).collect();
        self.caps.push(Wanted { name: name.into(), entries });
    }

    fn region(&mut self, name: impl Into<String>, object: impl Into<String>, kind: RegionKind) {
        self.regions.push(Place { name: name.into(), object: object.into(), kind });
    }
}

/// The name of the window for data of commands by which the control component administers this server's controller.
pub(super) fn administration_window(server: &str) -> String {
    format!("{server}.{}", blk_api::names::ADMINISTRATION_WINDOW)
}

/// The kind of object that a name stands for.
pub(super) struct Kind {
    fits: Fits,
    /// Whether there is one object, and no array.
    pub(super) is_one: bool,
}

/// The kinds that fit.
enum Fits {
    Exactly(ObjectKind),
    CNode,
}

impl Kind {
    fn one(kind: ObjectKind) -> Self {
        Self { fits: Fits::Exactly(kind), is_one: true }
    }

    fn some(kind: ObjectKind) -> Self {
        Self { fits: Fits::Exactly(kind), is_one: false }
    }

    pub(super) fn is(&self, kind: ObjectKind) -> bool {
        match self.fits {
            Fits::Exactly(exactly) => kind == exactly,
            Fits::CNode => matches!(kind, ObjectKind::CNode { .. }),
        }
    }
}

/// The name of a part of a program without its number: `data` of `data-2`.
pub(super) fn segment(part: &str) -> &str {
    match part.split_once('-') {
        Some((segment @ ("code" | "constants" | "data"), number)) if is_hex(number) => segment,
        _ => ["table-1", "table-2", "table-3"]
            .into_iter()
            .find(|level| part.strip_prefix(level).and_then(|rest| rest.strip_prefix('-')).is_some_and(is_hex))
            .unwrap_or(part),
    }
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl System<'_> {
    /// Returns the capabilities and regions of the component's role.
    pub(super) fn wanted(&self, index: usize) -> Possessions {
        let component = &self.specification.components[index];
        let name = component.name.as_str();
        let mut all = Possessions::default();
        all.cap(report::names::LOG, format!("{}.event", self.named(Role::Console)), log_badge(component.id), WRITE);
        all.region(report::names::LOG, format!("{name}.log"), RegionKind::ReadWrite);
        match self.roles[index] {
            Role::Console => self.consoles(name, &mut all),
            Role::PciServer => self.pci_servers(name, &mut all),
            Role::IommuServer => Self::iommu_servers(name, &mut all),
            Role::NvmeServer => self.nvme_servers(index, &mut all),
            Role::Policy => self.policies(index, &mut all),
            Role::Probe => self.probes(index, &mut all),
            Role::EduDriver => self.edu_drivers(index, &mut all),
            Role::Control => self.controls(name, &mut all),
            Role::Client if self.function(index).is_some() => self.clients_with_functions(index, &mut all),
            Role::Client => self.clients_own(index, &mut all),
        }
        all
    }

    fn consoles(&self, name: &str, all: &mut Possessions) {
        match self.machine().serial {
            ObjectKind::IoPorts { .. } => all.cap(report::names::SERIAL, "serial", 0, ALL),
            _ => all.region(report::names::SERIAL, "serial", RegionKind::Device),
        }
        all.cap(platform::names::EVENT, format!("{name}.event"), 0, READ);
        all.region(report::names::log_of(0), "root-task.log", RegionKind::ReadOnly);
        for component in &self.specification.components {
            all.region(report::names::log_of(component.id), format!("{}.log", component.name), RegionKind::ReadOnly);
        }
    }

    /// Adds the endpoint on which a component is called, and the notification that is bound to its thread. Only with grant on the
    /// endpoint do its answers carry capabilities (seL4 11.0.0 and later).
    fn served(name: &str, rights: u8, all: &mut Possessions) {
        all.cap(platform::names::ENDPOINT, format!("{name}.endpoint"), 0, rights);
        all.cap(platform::names::EVENT, format!("{name}.event"), 0, READ_WRITE);
    }

    fn pci_servers(&self, name: &str, all: &mut Possessions) {
        Self::served(name, READ | GRANT, all);
        all.cap(names::IRQ_CONTROL, "irq-control", 0, ALL);
        match self.iommu() {
            Iommu::None => {}
            Iommu::Kernels => all.cap(names::IO_SPACE_MASTER, "io-space-master", 0, ALL),
            Iommu::Servers(_) => {
                let badges = std::iter::once(iommu_api::MASTER).chain((1..).take(self.drivers().count()));
                let endpoint = format!("{}.endpoint", self.named(Role::IommuServer));
                all.caps(names::IO_SPACE_MASTER, badges.map(|badge| (endpoint.clone(), badge, CALL)));
            }
        }
        all.cap(names::OWN_VSPACE, format!("{name}.vspace"), 0, ALL);
        let windows = self.pci_windows();
        all.caps(names::PCI_WINDOW, windows.map(|(paddr, _)| (format!("pci-window-{paddr:x}"), 0, ALL)));
        all.caps(names::DRIVER_VSPACE, self.drivers().map(|driver| (format!("{driver}.vspace"), 0, ALL)));
        let silenced = self.drivers().zip(0u8..);
        all.caps(
            names::SILENCED,
            silenced.map(|(_, number)| ("root-task.event".into(), Badge::silenced(number), WRITE)),
        );
        all.region(names::ECAM, "ecam", RegionKind::Device);
        all.region(names::ARENA, "", RegionKind::Arena);
        all.region(names::SIZING, format!("{name}.sizing"), RegionKind::ReadWrite);
        for (driver, number) in self.drivers().zip(0u32..) {
            all.region(names::liveness(number), format!("{driver}.liveness"), RegionKind::ReadOnly);
            if self.slot(driver).is_some() {
                all.region(names::presence(number), format!("{driver}.presence"), RegionKind::ReadWrite);
            }
        }
    }

    fn iommu_servers(name: &str, all: &mut Possessions) {
        Self::served(name, READ, all);
        all.cap(iommu_api::names::TABLES, format!("{name}.tables"), 0, READ_WRITE);
        all.region(iommu_api::names::TABLES, format!("{name}.tables"), RegionKind::ReadWrite);
        all.region(iommu_api::names::FRAMES, format!("{name}.frames"), RegionKind::ReadOnly);
        all.region(iommu_api::names::SMMU, "smmu", RegionKind::Device);
        all.region(iommu_api::names::BLOCKED, format!("{name}.blocked"), RegionKind::ReadWrite);
    }

    /// Adds the capability by which a driver calls the PCI server. Only these calls carry capabilities: the notifications of
    /// interrupts ([`pci_api::VECTOR`]).
    fn driven(&self, index: usize, all: &mut Possessions) {
        let driver = self.driver(index).unwrap_or(u8::MAX);
        all.cap(names::PCI, format!("{}.endpoint", self.named(Role::PciServer)), u64::from(driver) + 1, CALL_WITH_CAPS);
    }

    /// The name of the policy component beside the NVMe server.
    fn policy_of(&self, server: usize) -> &str {
        let policy = self.indices().find(|index| self.is_policy_of(*index, server));
        policy.map_or("", |policy| self.specification.components[policy].name.as_str())
    }

    /// The name of the NVMe server that the policy component is beside.
    fn server_of(&self, policy: usize) -> &str {
        let server = self.indices().find(|index| self.is_policy_of(policy, *index));
        server.map_or("", |server| self.specification.components[server].name.as_str())
    }

    /// Adds page tables for the device, where the driver brings them.
    fn io_tables(&self, name: &str, all: &mut Possessions) {
        if matches!(self.iommu(), Iommu::Kernels) {
            all.cap(blk_api::names::IO_TABLE, format!("{name}.io-table"), 0, ALL);
        }
    }

    fn nvme_servers(&self, index: usize, all: &mut Possessions) {
        let name = self.specification.components[index].name.as_str();
        Self::served(name, READ, all);
        self.driven(index, all);
        self.alarms(index, all);
        all.cap(blk_api::names::DMA, format!("{name}.dma"), 0, READ_WRITE);
        self.io_tables(name, all);
        all.cap(blk_api::names::POLICY, format!("{}.event", self.policy_of(index)), Badge::SIGNAL, WRITE);
        all.region(blk_api::names::DMA, format!("{name}.dma"), RegionKind::ReadWrite);
        all.region(names::ARENA, "", RegionKind::Arena);
        if self.declaration.has_telemetry {
            all.region(TELEMETRY, format!("{name}.{TELEMETRY}"), RegionKind::ReadWrite);
        }
        if self.declaration.administration.is_some() {
            let control = self.named(Role::Control);
            all.cap(blk_api::names::ADMINISTRATOR, format!("{control}.event"), Badge::SIGNAL | 1, WRITE);
            all.cap(blk_api::names::ADMINISTRATION_WINDOW, administration_window(name), 0, READ_WRITE);
        }
        if self.slot(name).is_some() {
            all.region(names::PRESENCE, format!("{name}.presence"), RegionKind::ReadOnly);
        }
        let is_acknowledged = |client: usize| self.specification.components[client].teardown_ack.is_some();
        let is_its = |client: usize| {
            let belongs = self.session(client).or_else(|| self.function(client));
            belongs.is_some_and(|(server, _)| server == index)
        };
        if self.clients().into_iter().any(|client| is_acknowledged(client) && is_its(client)) {
            all.cap(blk_api::names::TORN_DOWN, "root-task.event", Badge::SIGNAL | Badge::TORN_DOWN, WRITE);
            all.region(blk_api::names::TEARDOWN_ACKS, format!("{name}.teardown-acks"), RegionKind::ReadWrite);
        }
        for (client, number) in self.configs[index].tenants().zip(0u32..) {
            all.cap(blk_api::names::client(number), format!("{client}.event"), Badge::SIGNAL | 1, WRITE);
            all.cap(blk_api::names::window(number), format!("{client}.window"), 0, READ_WRITE);
            all.region(blk_api::names::liveness(number), format!("{client}.liveness"), RegionKind::ReadOnly);
            all.region(blk_api::names::ring_client(number), format!("{client}.ring-client"), RegionKind::ReadOnly);
            all.region(blk_api::names::ring_server(number), format!("{client}.ring-server"), RegionKind::ReadWrite);
        }
        for (client, number) in self.configs[index].function_tenants().zip(0u32..) {
            let name = blk_api::names::function_liveness(number);
            all.region(name, format!("{client}.liveness"), RegionKind::ReadOnly);
        }
    }

    fn policies(&self, index: usize, all: &mut Possessions) {
        let name = self.specification.components[index].name.as_str();
        let server = self.server_of(index);
        Self::served(name, READ, all);
        all.cap(blk_api::names::SERVER, format!("{server}.endpoint"), policy::BADGE, CALL);
        all.region(blk_api::names::LIVENESS_SERVER, format!("{server}.liveness"), RegionKind::ReadOnly);
        if self.declaration.control.is_some() {
            let event = format!("{}.event", self.named(Role::Control));
            all.cap(blk_api::names::CONTROL, event, Badge::SIGNAL | 1, WRITE);
            all.region(blk_api::names::KEPT, format!("{name}.{}", blk_api::names::KEPT), RegionKind::ReadWrite);
        }
    }

    /// Adds what the control component has: for each declared act, a capability to the component that enforces it, or a bit in its
    /// badge, and for each NVMe server the declared rights to administer its controller. No act is a capability to a device or to memory
    /// of others.
    fn controls(&self, name: &str, all: &mut Possessions) {
        all.cap(platform::names::EVENT, format!("{name}.event"), 0, READ);
        all.region(
            control_api::names::MAILBOX,
            format!("{name}.{}", control_api::names::MAILBOX),
            RegionKind::ReadWrite,
        );
        let Some(acts) = &self.declaration.control else { return };
        let bit = |act: Act, bit: u64| if acts.contains(&act) { bit } else { 0 };
        let orders = bit(Act::Shares, orders::MAY_SHARE) | bit(Act::Rights, orders::MAY_RIGHTS);
        if orders != 0 {
            let policies = self.declaration.controllers.iter().map(|controller| {
                let server =
                    self.indices().find(|server| self.specification.components[*server].name == controller.driver);
                server.map_or("", |server| self.policy_of(server))
            });
            let called = policies.map(|policy| (format!("{policy}.endpoint"), orders::BADGE | orders, CALL));
            all.caps(control_api::names::POLICIES, called);
        }
        if let Some(Administration { rights, .. }) = self.declaration.administration {
            let servers = self.declaration.controllers.iter();
            let called = servers.map(|one| (format!("{}.endpoint", one.driver), rights.badge(), CALL));
            all.caps(control_api::names::ADMINISTERED, called);
        }
        let supervised = bit(Act::Kill, supervisor::MAY_KILL) | bit(Act::Pause, supervisor::MAY_PAUSE);
        if supervised != 0 {
            let badge = supervisor::BADGE | supervised;
            all.cap(control_api::names::SUPERVISOR, "root-task.endpoint", badge, CALL);
        }
        let index = self.indices().find(|index| self.roles[*index] == Role::Control);
        if let Some(index) = index {
            self.alarms(index, all);
        }
    }

    fn probes(&self, index: usize, all: &mut Possessions) {
        let name = self.specification.components[index].name.as_str();
        all.cap(platform::names::EVENT, format!("{name}.event"), 0, READ_WRITE);
        self.driven(index, all);
        all.cap(blk_api::names::DMA, format!("{name}.dma"), 0, READ_WRITE);
        self.io_tables(name, all);
        match self.iommu() {
            Iommu::Kernels => all.cap(workload::names::MEMORY, format!("{name}.memory"), 0, ALL),
            Iommu::None | Iommu::Servers(_) => {
                all.cap(workload::names::FRAMES, format!("{name}.frames"), 0, READ_WRITE)
            }
        }
        all.cap(workload::names::OWN_VSPACE, format!("{name}.vspace"), 0, ALL);
        all.region(blk_api::names::DMA, format!("{name}.dma"), RegionKind::ReadWrite);
        all.region(names::ARENA, "", RegionKind::Arena);
        all.region(workload::names::PAGES, "", RegionKind::Arena);
    }

    fn edu_drivers(&self, index: usize, all: &mut Possessions) {
        let name = self.specification.components[index].name.as_str();
        all.cap(platform::names::EVENT, format!("{name}.event"), 0, READ_WRITE);
        self.driven(index, all);
        all.region(names::ARENA, "", RegionKind::Arena);
    }

    fn clients_own(&self, index: usize, all: &mut Possessions) {
        let name = self.specification.components[index].name.as_str();
        all.cap(platform::names::EVENT, format!("{name}.event"), 0, READ);
        all.region(blk_api::names::WINDOW, format!("{name}.window"), RegionKind::ReadWrite);
        all.region(blk_api::names::RING_CLIENT, format!("{name}.ring-client"), RegionKind::ReadWrite);
        all.region(blk_api::names::RING_SERVER, format!("{name}.ring-server"), RegionKind::ReadOnly);
        if let Some((server, number)) = self.session(index) {
            let policy = self.policy_of(server);
            let server = self.specification.components[server].name.as_str();
            all.cap(blk_api::names::SERVER, format!("{server}.endpoint"), u64::from(number) + 1, CALL);
            all.cap(blk_api::names::DOORBELL, format!("{server}.event"), badge::client(number), WRITE);
            all.cap(blk_api::names::POLICY, format!("{policy}.endpoint"), u64::from(number) + 1, CALL);
            all.region(blk_api::names::LIVENESS_SERVER, format!("{server}.liveness"), RegionKind::ReadOnly);
        }
        self.traces(name, all);
        self.peers(name, all);
        self.alarms(index, all);
    }

    /// Adds what a client has that drives a virtual function itself. It reaches its own window and pool, and nothing of its server.
    fn clients_with_functions(&self, index: usize, all: &mut Possessions) {
        let name = self.specification.components[index].name.as_str();
        all.cap(platform::names::EVENT, format!("{name}.event"), 0, READ_WRITE);
        self.driven(index, all);
        for part in [blk_api::names::WINDOW, blk_api::names::DMA] {
            all.cap(part, format!("{name}.{part}"), 0, READ_WRITE);
            all.region(part, format!("{name}.{part}"), RegionKind::ReadWrite);
        }
        self.io_tables(name, all);
        all.region(names::ARENA, "", RegionKind::Arena);
        if self.declaration.has_telemetry {
            all.region(TELEMETRY, format!("{name}.{TELEMETRY}"), RegionKind::ReadWrite);
        }
        self.peers(name, all);
        self.alarms(index, all);
    }

    /// Adds a client's memory for traces.
    fn traces(&self, name: &str, all: &mut Possessions) {
        if self.declaration.has_traces {
            all.region(TELEMETRY, format!("{name}.{TELEMETRY}"), RegionKind::ReadWrite);
        }
    }

    /// Adds the request for an alarm, for a component that may ask.
    fn alarms(&self, index: usize, all: &mut Possessions) {
        let asks = self.alarm_numbers(index).map(|number| ("root-task.event".into(), Badge::alarm(number), WRITE));
        if self.specification.components[index].alarm.is_some() {
            all.caps(blk_api::names::ALARM, asks);
        }
    }

    /// Adds the channel to another client, if one is declared.
    fn peers(&self, name: &str, all: &mut Possessions) {
        if let Some(channel) = self.declaration.channels.iter().find(|channel| channel.from == name) {
            let badge = Badge::SIGNAL | workload::Signal::BADGE_BIT;
            all.cap(workload::names::PEER, format!("{}.event", channel.to), badge, WRITE);
        }
    }

    /// The device memory of the PCI window, as the PCI server is configured: address and log2 of the bytes.
    fn pci_windows(&self) -> impl Iterator<Item = (u64, u8)> {
        let windows = self.configs.iter().find_map(|config| match config {
            Config::PciServer(config) => Some(config.pci_windows.as_slice()),
            _ => None,
        });
        windows.unwrap_or_default().iter().map(|(paddr, bits)| (paddr.bits(), *bits))
    }

    /// The kind of object that the name stands for, if any.
    pub(super) fn kind_of(&self, name: &str) -> Option<Kind> {
        Some(match name {
            "serial" => Kind::one(self.machine().serial),
            "irq-control" => Kind::one(ObjectKind::IrqControl),
            "io-space-master" => Kind::one(ObjectKind::IoSpaceMaster),
            "ecam" => Kind::some(ObjectKind::LargeDeviceFrame { paddr: self.machine().ecam }),
            "smmu" => Kind::some(ObjectKind::SmallDeviceFrame { paddr: self.machine().smmu.as_ref()?.registers }),
            "root-task.event" => Kind::one(ObjectKind::Notification),
            "root-task.endpoint" => Kind::one(ObjectKind::Endpoint),
            "root-task.log" => Kind::some(ObjectKind::SmallFrame),
            _ => return self.kind_of_owned(name),
        })
    }

    fn kind_of_owned(&self, name: &str) -> Option<Kind> {
        if let Some(window) = name.strip_prefix("pci-window-") {
            let first = u64::from_str_radix(window, 16).ok()?;
            let (paddr, size_bits) = self.pci_windows().find(|(paddr, _)| *paddr == first)?;
            return Some(Kind::one(ObjectKind::DeviceUntyped { paddr, size_bits }));
        }
        let (owner, part) = name.split_once('.')?;
        self.specification.components.iter().find(|component| component.name == owner)?;
        Some(match segment(part) {
            "tcb" => Kind::one(ObjectKind::Tcb),
            "cnode" => Kind { fits: Fits::CNode, is_one: true },
            "root" => Kind::one(ObjectKind::CNode { size_bits: ROOT_BITS }),
            "vspace" => Kind::one(ObjectKind::VSpace),
            "endpoint" => Kind::one(ObjectKind::Endpoint),
            "event" => Kind::one(ObjectKind::Notification),
            "ipc-buffer" | "liveness" | "teardown-acks" | "sizing" | "blocked" | "presence" | blk_api::names::KEPT => {
                Kind::one(ObjectKind::SmallFrame)
            }
            "stack"
            | "log"
            | "code"
            | "constants"
            | "data"
            | "environment"
            | "window"
            | "ring-client"
            | "ring-server"
            | "dma"
            | "tables"
            | "frames"
            | control_api::names::MAILBOX
            | blk_api::names::ADMINISTRATION_WINDOW
            | TELEMETRY => Kind::some(ObjectKind::SmallFrame),
            "io-table" => Kind::some(ObjectKind::IoPageTable),
            "memory" => Kind::some(ObjectKind::Untyped { size_bits: PROBE_MEMORY_BITS }),
            "table-1" => Kind::some(ObjectKind::TranslationTable { level: 1 }),
            "table-2" => Kind::some(ObjectKind::TranslationTable { level: 2 }),
            "table-3" => Kind::some(ObjectKind::TranslationTable { level: 3 }),
            _ => return None,
        })
    }
}
