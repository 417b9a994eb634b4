//! The PCI tree and the devices of a scenario. Places, names and numbers are those of QEMU's command line
//! (`xtask/src/machine/qemu.rs`), so that a system finds the same on both.

use crate::board::Places;
use crate::disk::Disk;
use crate::edu::Edu;
use crate::inside::{Inside, Nvme};
use crate::plug::{Around, Plug, Slot};
use capdl::scenario::{
    Arbitration, Attach, CommandSet, Controller, FUNCTION_QUEUES, Interrupts, Later, Media, Model, Namespace,
    NamespaceModel, Purpose, Version, slot_number,
};
use capdl::{Arch, Scenario};
use nvme_spec::identify::{CommandSetId, ControllerType};
use nvme_spec::registers::Vs;
use sim_fault::{Blocks, CommandEffect, CommandFault, Fault, QueueKind};
use sim_nvme::config::{Cache, Capabilities, CommandLimits, Config, Identity, Recording};
use sim_nvme::profile::{self, Throttle};
use sim_nvme::{Base, NamespaceConfig, Profile, Virtualization};
use sim_pci::{
    AttachError, Blocked, BusId, BusType, DeviceNumbers, Endpoint, Firmware, FunctionConfig, FunctionId, HostBridge,
    Level, Link, MsiConfig, OnWaking, PortConfig, Tree, TreeConfig,
};
use std::sync::Arc;

/// Number of buses that configuration space has room for.
const BUSES: u16 = 16;
/// Device number on the root bus of the first controller, of the port that it is attached to, or of the edu device.
const FIRST_DEVICE: u8 = 4;
/// Byte offset in the ECAM region of a controller that is alone in its tree.
pub(crate) const ALONE_ECAM: u64 = (FIRST_DEVICE as u64) << 15;
/// MSI vectors of a controller that has MSI, as a power of two: the largest number possible.
const MSI_VECTORS_LOG2: u8 = 5;
/// Unrecovered Read Error (NVMe base specification 2.0, media and data integrity errors).
const UNRECOVERED_READ: (u8, u8) = (2, 0x81);
const READ: u8 = 0x02;

/// The tree, and the controllers in it.
pub(crate) struct Built {
    pub(crate) tree: Tree<Inside>,
    /// The controllers of the scenario in its order, then those of their virtual functions in the same order.
    pub(crate) controllers: Vec<FunctionId>,
    pub(crate) edu: Option<FunctionId>,
    /// By controller: bytes of its BAR before the MSI-X table.
    pub(crate) register_bytes: Vec<u64>,
    /// Controllers that come and go.
    pub(crate) plug: Plug,
}

/// Builds the tree with the controllers of the scenario, as firmware leaves it or unconfigured.
pub(crate) fn build(arch: Arch, scenario: &Scenario, disks: &[Vec<Disk>], faults: &[Fault], seed: u64) -> Built {
    let places = Places::of(arch);
    let mut tree = Tree::with_host(places.host, TreeConfig { buses: BUSES, windows: vec![places.pci_window()] });
    let (mut controllers, mut register_bytes) = (Vec::new(), Vec::new());
    let mut secondary_bytes = Vec::new();
    let mut slots = Vec::new();
    for (index, controller) in scenario.controllers.iter().enumerate() {
        let disks = disks.get(index).map(Vec::as_slice).unwrap_or_default();
        let config = config(controller, index, disks, faults);
        register_bytes.push(config.bar_bytes());
        secondary_bytes.extend((0..controller.virtual_functions).map(|_| config.secondary_bar_bytes()));
        let mut endpoint = endpoint(controller, index, config, seed);
        // Places are free and the configuration is one of ours: a scenario cannot make this fail.
        let placed = place(&mut tree, index, controller, &mut endpoint.config).and_then(|(bus, device)| {
            if controller.hot_plug {
                let other = other(scenario, index, seed).map(|endpoint| endpoint.device);
                slots.push(Slot::new(index, bus, endpoint.config.clone(), other));
            }
            tree.attach(bus, device, 0, endpoint)
        });
        controllers.extend(placed);
    }
    let functions: Vec<_> = controllers.iter().flat_map(|id| tree.virtual_functions(*id)).copied().collect();
    controllers.extend(functions);
    register_bytes.extend(secondary_bytes);
    let edu = scenario.edu.and_then(|_| {
        let endpoint = Endpoint::new(FunctionConfig::edu(), Inside::Edu(Edu::default()));
        tree.attach(BusId::ROOT, FIRST_DEVICE, 0, endpoint).ok()
    });
    if arch == Arch::X86_64 && !scenario.assigns_addresses() {
        // The PCI window has room for all controllers that a scenario can have. A function that did not fit would not be found.
        let _ = tree.run_firmware(Firmware::PlacesAndBoots, &mut Nobody);
    }
    for (controller, id) in scenario.controllers.iter().zip(&controllers) {
        leave(&mut tree, controller, *id);
    }
    let plug = Plug::new(scenario, slots, &mut Around { tree: &mut tree, now_ns: 0, machine: &mut Nobody });
    Built { tree, controllers, edu, register_bytes, plug }
}

/// A controller of the scenario alone in a tree, without firmware: for an emulator that has the tree itself. It has no virtual
/// functions.
pub(crate) fn alone(
    controller: &Controller,
    index: usize,
    disks: &[Disk],
    faults: &[Fault],
    seed: u64,
) -> Result<(Tree<Inside>, FunctionId, FunctionConfig), AttachError> {
    let config = Config { recording: Recording::Off, virtualization: None, ..config(controller, index, disks, faults) };
    let mut endpoint = endpoint(controller, index, config, seed);
    if controller.attach == Attach::Root {
        endpoint.config.bus_type = BusType::Integrated;
    }
    let mut tree = Tree::with_host(HostBridge::Q35, TreeConfig { buses: 1, windows: Vec::new() });
    let config = endpoint.config.clone();
    let function = tree.attach(BusId::ROOT, FIRST_DEVICE, 0, endpoint)?;
    leave(&mut tree, controller, function);
    Ok((tree, function, config))
}

/// Leaves a controller's function, and the bridges above it, as software did that ran before.
fn leave(tree: &mut Tree<Inside>, controller: &Controller, id: FunctionId) {
    let Model { d3hot, bridges_d3hot, soft_reset, masks_left, .. } = controller.model;
    let on_waking = if soft_reset { OnWaking::Loses } else { OnWaking::Keeps };
    if masks_left {
        tree.leave_masks(id);
    }
    let bridges = if bridges_d3hot { tree.bridges_above(id) } else { Vec::new() };
    for id in bridges.into_iter().chain(d3hot.then_some(id)) {
        tree.suspend(id, on_waking, &mut Nobody);
    }
}

/// A controller in its function, and its secondary controllers in their virtual functions.
fn endpoint(controller: &Controller, index: usize, config: Config, seed: u64) -> Endpoint<Inside> {
    let registers = config.bar_bytes().max(controller.model.register_bytes);
    // A scenario has less than 4 GiB of registers.
    let mut function = FunctionConfig::nvme(registers as u32, config.vectors);
    if controller.model.table_bar {
        function = function.with_table_in_bar_4();
    }
    if controller.memory_buffer > 0 {
        function = function.with_memory_in_bar_2(controller.memory_buffer);
    }
    // QEMU's controller has no MSI, so it is added only where the scenario asks for it.
    let has_msi = controller.ways().any(|way| way == Interrupts::Msi);
    function.msi = has_msi.then_some(MsiConfig { vectors_log2: MSI_VECTORS_LOG2 });
    if let Some(Virtualization { functions, secondary_interrupts, .. }) = config.virtualization {
        let bytes = config.secondary_bar_bytes() as u32;
        function = function.with_virtual_nvme(functions.into(), bytes, secondary_interrupts);
    }
    let inside = |model| Inside::Nvme(Nvme(model));
    let (primary, secondaries) = sim_nvme::Controller::with_secondaries(config, seed ^ (index as u64 + 1) << 32);
    let virtual_functions = secondaries.into_iter().map(inside).collect();
    Endpoint { config: function, device: inside(primary), virtual_functions }
}

/// The other controller that is put into the slot of controller `index` at some time: the same model, with a serial number of its
/// own, and empty.
fn other(scenario: &Scenario, index: usize, seed: u64) -> Option<Endpoint<Inside>> {
    let controller = scenario.controllers.get(index)?;
    scenario.hot_plugs.iter().find(|event| event.other && event.controller == controller.name)?;
    let other = Controller { serial: controller.other_serial(), later: Vec::new(), ..controller.clone() };
    let config = config(&other, index, &[], &[]);
    Some(endpoint(&other, index, config, seed))
}

/// Creates the ports on the way to the controller. Returns its bus and device number.
fn place(
    tree: &mut Tree<Inside>,
    index: usize,
    controller: &Controller,
    function: &mut FunctionConfig,
) -> Result<(BusId, u8), AttachError> {
    let device = FIRST_DEVICE + index as u8;
    let slot = slot_number(index);
    let numbers = if controller.model.ghosts { DeviceNumbers::All } else { DeviceNumbers::Zero };
    match controller.attach {
        Attach::Root => {
            function.bus_type = BusType::Integrated;
            Ok((BusId::ROOT, device))
        }
        Attach::RootPort => {
            let port = PortConfig { numbers, ..PortConfig::root_port(slot) };
            Ok((tree.attach_port(BusId::ROOT, device, 0, port)?, 0))
        }
        Attach::Switch => {
            let below = tree.attach_port(BusId::ROOT, device, 0, PortConfig::root_port(slot))?;
            let inside = tree.attach_port(below, 0, 0, PortConfig::switch_upstream())?;
            let port = PortConfig { numbers, ..PortConfig::switch_downstream(slot + 1) };
            Ok((tree.attach_port(inside, 0, 0, port)?, 0))
        }
        Attach::Bridge => {
            // QEMU also puts its function there with the capabilities of PCI Express.
            function.bus_type = BusType::Express(Link::GEN3_X4);
            Ok((tree.attach_port(BusId::ROOT, device, 0, PortConfig::conventional())?, 1))
        }
    }
}

fn config(controller: &Controller, index: usize, disks: &[Disk], faults: &[Fault]) -> Config {
    let mut config = Config {
        identity: Identity { serial: controller.serial.clone(), ..Identity::default() },
        queue_pairs: controller.queue_pairs,
        vectors: controller.vector_count(),
        recording: Recording::Events,
        profile: Profile { throttle: throttle(controller.iops_limit), ..profile(&controller.model) },
        mdts: controller.model.max_transfer,
        purpose: purpose(controller.model.purpose),
        limits: CommandLimits {
            vsl: controller.model.vsl,
            wzsl: controller.model.wzsl,
            dmrl: controller.model.dmrl,
            dmrsl: controller.model.dmrsl,
            dmsl: controller.model.dmsl,
        },
        retry_delays_100ms: controller.model.retry_delays,
        outstanding: controller.model.outstanding,
        ready_ns: u64::from(controller.model.ready_ms).saturating_mul(1_000_000),
        capabilities: Capabilities {
            version: version(controller.model.version),
            // CAP.TO has the most it can when CRTO has more.
            timeout_500ms: u8::try_from(controller.model.timeout_ms / 500).unwrap_or(u8::MAX),
            ready_500ms: ready_500ms(&controller.model),
            memory_buffer: controller.memory_buffer > 0,
            other_command_sets: controller.namespaces.iter().any(|one| one.model.command_set != CommandSet::Nvm),
            doorbell_stride: controller.model.doorbell_stride,
            subsystem_reset: controller.model.subsystem_reset,
            queue_entries: controller.model.queue_entries,
            weighted_arbitration: controller.model.arbitration == Arbitration::WeightedRoundRobin,
            ..Capabilities::default()
        },
        cache: cache(controller.model.write_cache),
        virtualization: virtualization(controller),
        later: controller.later.iter().map(later).collect(),
        saved: controller.saved.iter().map(|saved| (saved.feature, saved.value)).collect(),
        faults: faults.iter().filter(|fault| is_of(fault, controller, index)).cloned().collect(),
        ..Config::default()
    };
    for (nsid, namespace) in (1..).zip(&controller.namespaces) {
        config.faults.extend(namespace.media_errors.iter().map(|block| media_error(nsid, *block)));
        let namespace = namespace_config(namespace, disks.get(nsid as usize - 1));
        config.namespaces.push(NamespaceConfig { attached: controller.attachment(nsid), ..namespace });
    }
    config
}

/// What the controller is from one of its enablings on.
fn later(later: &Later) -> sim_nvme::Later {
    let Later { enabling, serial, max_transfer, queue_pairs, nsid, nguid, eui64, size, blank } = later.clone();
    sim_nvme::Later {
        enabling,
        serial,
        mdts: max_transfer,
        granted: queue_pairs,
        nsid,
        nguid: nguid.map(self::nguid),
        eui64: eui64.map(u64::to_be_bytes),
        bytes: size,
        blank,
    }
}

/// An NGUID with these last 8 bytes; none for 0.
const fn nguid(last: u64) -> [u8; 16] {
    (last as u128).to_be_bytes()
}

fn version(version: Version) -> Vs {
    let (major, minor) = version.numbers();
    Vs::new().with_mjr(major).with_mnr(minor)
}

const fn purpose(purpose: Purpose) -> ControllerType {
    match purpose {
        Purpose::Io => ControllerType::Io,
        Purpose::Discovery => ControllerType::Discovery,
        Purpose::Administration => ControllerType::Administrative,
    }
}

/// CRTO of a controller that has it.
fn ready_500ms(model: &Model) -> Option<u16> {
    (model.version >= Version::V2_0).then(|| u16::try_from(model.timeout_ms / 500).unwrap_or(u16::MAX))
}

/// The flexible resources that QEMU's controller has too, in equal parts for its virtual functions.
fn virtualization(controller: &Controller) -> Option<Virtualization> {
    // A scenario has few of them.
    let functions = u8::try_from(controller.virtual_functions).ok().filter(|functions| *functions > 0)?;
    let flexible = controller.flexible_queues();
    Some(Virtualization {
        functions,
        flexible_queues: flexible,
        flexible_interrupts: flexible,
        secondary_queues: FUNCTION_QUEUES,
        secondary_interrupts: FUNCTION_QUEUES,
    })
}

fn profile(model: &Model) -> Profile {
    let mut profile = match model.media {
        Media::OpenExpress => Profile::open_express(),
        Media::Dram => Profile::before(profile::Media::DRAM),
        Media::Mram => Profile::before(profile::Media::MRAM),
        Media::Pram => Profile::before(profile::Media::PRAM),
        Media::Flash => Profile::before(profile::Media::FLASH),
        Media::Emulated => Profile::emulated(),
    };
    if model.fetch_ns > 0 {
        profile.front_end.fetch_ns = model.fetch_ns.into();
    }
    profile
}

fn throttle(iops_limit: u32) -> Option<Throttle> {
    (iops_limit > 0).then(|| Throttle::of_4k(iops_limit))
}

/// Time for which data stays in a write cache, beyond that of the media.
const CACHE_LINGER_NS: u64 = 5_000_000;

fn cache(bytes: u64) -> Option<Cache> {
    (bytes > 0).then_some(Cache { bytes, linger_ns: CACHE_LINGER_NS })
}

fn namespace_config(namespace: &Namespace, disk: Option<&Disk>) -> NamespaceConfig {
    let mut config = NamespaceConfig::zeroes(namespace.size);
    (config.nguid, config.eui64) = (nguid(namespace.nguid), namespace.eui64.to_be_bytes());
    let in_use = namespace.block_bytes.trailing_zeros() as u8;
    let NamespaceModel { formats, format_index, command_set, metadata, protection, inactive: _, left_attached_to: _ } =
        namespace.model;
    (config.metadata, config.protection) = (metadata, protection);
    config.command_set = match command_set {
        CommandSet::Nvm => CommandSetId::Nvm,
        CommandSet::KeyValue => CommandSetId::KeyValue,
        CommandSet::Zoned => CommandSetId::Zoned,
    };
    // A driver that takes another format for the one in use gets blocks of another size.
    config.formats = vec![if in_use == 9 { 12 } else { 9 }; usize::from(formats)];
    config.formats.get_mut(usize::from(format_index)).into_iter().for_each(|format| *format = in_use);
    config.format = format_index;
    if let Some(disk) = disk {
        config.base = Box::new(Shared(Arc::clone(&disk.base)));
    }
    config
}

/// The content of a disk, which a controller shares with other readers.
struct Shared(Arc<dyn Base>);

impl Base for Shared {
    fn read(&self, offset: u64, bytes: &mut [u8]) {
        self.0.read(offset, bytes);
    }

    fn is_zeroes(&self) -> bool {
        self.0.is_zeroes()
    }
}

/// The numbers of the faults that belong to each controller of the scenario, in the order in which its configuration has them.
pub(crate) fn faults_of(scenario: &Scenario, faults: &[Fault]) -> Vec<Vec<usize>> {
    let of = |(index, controller)| {
        let numbered = faults.iter().enumerate().filter(|(_, fault)| is_of(fault, controller, index));
        numbered.map(|(number, _)| number).collect()
    };
    scenario.controllers.iter().enumerate().map(of).collect()
}

/// Whether a fault belongs to a controller; a fault without a name belongs to the first one.
fn is_of(fault: &Fault, controller: &Controller, index: usize) -> bool {
    let name = match fault {
        Fault::Command(fault) => &fault.controller,
        Fault::Controller(fault) => &fault.controller,
        Fault::Component(_) => return false,
    };
    *name == controller.name || name.is_empty() && index == 0
}

/// Returns a fault that makes reads of this block fail.
fn media_error(nsid: u32, block: u64) -> Fault {
    let (sct, sc) = UNRECOVERED_READ;
    Fault::Command(CommandFault {
        opcodes: vec![READ],
        nsid: Some(nsid),
        blocks: Some(Blocks { first: block, count: 1 }),
        ..CommandFault::new(QueueKind::Io, CommandEffect::Status { sct, sc, dnr: false })
    })
}

/// The upstream side of the tree while firmware runs: no device transfers anything yet.
struct Nobody;

impl sim_pci::Machine for Nobody {
    fn dma_read(&mut self, _: u16, _: u64, _: &mut [u8]) -> Result<(), Blocked> {
        Err(Blocked::Refused)
    }

    fn dma_write(&mut self, _: u16, _: u64, _: &[u8]) -> Result<(), Blocked> {
        Err(Blocked::Refused)
    }

    fn message(&mut self, _: u16, _: u64, _: u32) {}

    fn pin(&mut self, _: u8, _: Level) {}
}

#[cfg(test)]
mod virtual_functions_tests;

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEM: &str = r#"
name = "a"
description = "b"
[[controller]]
name = "plain"
[[controller.namespace]]
size = "1M"
[[controller]]
name = "weighted"
model = { arbitration = "weighted-round-robin", queue_entries = 64, fetch_ns = 2000 }
[[controller.namespace]]
size = "1M"
[[tenant]]
name = "alice"
controller = "plain"
queue_pairs = 1
extents = [{ first = 0, blocks = 64 }]
program.name = "bench"
[tenant.program.config]
"#;

    #[test]
    fn controller_has_the_arbitration_of_its_scenario() {
        let scenario = Scenario::parse(SYSTEM, "a").unwrap();
        let offers: Vec<_> = (0..)
            .zip(&scenario.controllers)
            .map(|(index, one)| config(one, index, &[], &[]))
            .map(|Config { capabilities, profile, .. }| {
                (capabilities.weighted_arbitration, capabilities.queue_entries, profile.front_end.fetch_ns)
            })
            .collect();
        assert_eq!(offers, [(false, 2048, 909), (true, 64, 2000)]);
    }

    #[test]
    fn a_limited_controller_is_throttled_and_others_are_not() {
        let limited = SYSTEM.replacen("name = \"plain\"", "name = \"plain\"\niops_limit = 4000", 1);
        let scenario = Scenario::parse(&limited, "a").unwrap();
        let throttles = scenario.controllers.iter().map(|one| config(one, 0, &[], &[]).profile.throttle);
        assert_eq!(throttles.collect::<Vec<_>>(), [Some(Throttle::of_4k(4_000)), None]);
    }
}
