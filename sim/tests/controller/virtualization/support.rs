//! A subsystem of the tests: a driver for each controller, each on a machine of its own.

use nvme_spec::admin::{self, Attachment, ControllerResource};
use nvme_spec::identify::{ControllerList, PrimaryCapabilities, SecondaryController, SecondaryList};
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::{Cid, Lba, Nsid, Sqe, Status};
use sim_nvme::config::Capabilities;
use sim_nvme::{Config, Controller, NamespaceConfig, Virtualization};

use crate::admin::support::{BUFFER, Driver, PAGE};

pub(crate) const CID: Cid = Cid(0);
/// Bytes of a block.
const BLOCK: usize = 512;

/// Controllers with a driver each. Their identifiers are 0 for the primary one, then 1, 2 and 3.
pub(crate) struct Subsystem {
    pub(crate) primary: Driver,
    /// The secondary controllers, none of them enabled at the start.
    pub(crate) secondaries: Vec<Driver>,
}

/// Eleven resources of each kind, eight of them flexible, and four namespaces of 1 MiB.
pub(crate) fn config() -> Config {
    let virtualization = Virtualization {
        functions: 3,
        flexible_queues: 8,
        flexible_interrupts: 8,
        secondary_queues: 4,
        secondary_interrupts: 3,
    };
    Config {
        queue_pairs: 10,
        vectors: 11,
        virtualization: Some(virtualization),
        capabilities: Capabilities { subsystem_reset: true, ..Capabilities::default() },
        namespaces: (0..4).map(|_| NamespaceConfig::zeroes(1 << 20)).collect(),
        unallocated_bytes: 1 << 20,
        ..Config::default()
    }
}

impl Subsystem {
    /// Creates a subsystem that was just powered on, with the primary controller enabled.
    pub(crate) fn new() -> Self {
        let (primary, secondaries) = Controller::with_secondaries(config(), 1);
        Self::of(primary, secondaries)
    }

    /// Creates a subsystem of these controllers, of which it enables the primary one, and the virtual functions of the others.
    pub(crate) fn of(primary: Controller, secondaries: impl IntoIterator<Item = Controller>) -> Self {
        let mut primary = Driver::of(primary);
        primary.enable();
        let mut secondaries: Vec<_> = secondaries.into_iter().map(Driver::of).collect();
        secondaries.iter_mut().for_each(|secondary| secondary.controller.function_enabled());
        Self { primary, secondaries }
    }

    /// Creates a subsystem in which all flexible resources are free.
    pub(crate) fn freed() -> Self {
        let mut subsystem = Self::new();
        subsystem.free();
        subsystem
    }

    /// Takes all flexible resources from the primary controller, and resets it.
    pub(crate) fn free(&mut self) {
        for kind in [ControllerResource::Queues, ControllerResource::Interrupts] {
            self.primary.succeed(admin::allocate_to_primary(CID, 0, kind, 0));
        }
        self.primary.controller.function_level_reset();
        self.primary.enable();
    }

    /// Creates a subsystem whose first `count` secondary controllers are up.
    pub(crate) fn online(count: u16) -> Self {
        let mut subsystem = Self::freed();
        (1..=count).for_each(|id| subsystem.bring_up(id));
        subsystem
    }

    /// Sets a secondary controller online and enables it, with one I/O queue pair, two vectors and the namespace that has
    /// its identifier.
    pub(crate) fn bring_up(&mut self, id: u16) {
        self.detach(&[0], id.into());
        self.attach(&[id], id.into());
        self.set_online(id, 2, 2);
        let secondary = self.secondary(id);
        secondary.enable();
        secondary.make_io_queue();
    }

    pub(crate) fn secondary(&mut self, id: u16) -> &mut Driver {
        &mut self.secondaries[usize::from(id) - 1]
    }

    /// Assigns resources to a secondary controller and sets it online.
    pub(crate) fn set_online(&mut self, id: u16, queues: u16, interrupts: u16) {
        self.primary.succeed(admin::assign_to_secondary(CID, id, ControllerResource::Queues, queues));
        self.primary.succeed(admin::assign_to_secondary(CID, id, ControllerResource::Interrupts, interrupts));
        self.primary.succeed(admin::set_online(CID, id));
    }

    pub(crate) fn capabilities(&mut self) -> PrimaryCapabilities {
        let cns = admin::Cns::PrimaryCapabilities;
        self.primary.succeed(admin::identify_controllers(CID, cns, Nsid::NONE, 0, PAGE));
        self.primary.data()
    }

    /// The secondary controllers as the primary one reports them, from an identifier on.
    pub(crate) fn listed(&mut self, first: u16) -> Vec<SecondaryController> {
        let cns = admin::Cns::SecondaryControllers;
        self.primary.succeed(admin::identify_controllers(CID, cns, Nsid::NONE, first, PAGE));
        self.primary.data::<SecondaryList>().listed().unwrap().to_vec()
    }

    /// A command that changes the attachment of a namespace to these controllers.
    pub(crate) fn attachment(&mut self, operation: Attachment, ids: &[u16], nsid: u32) -> Sqe {
        self.primary.put(&ControllerList::of(ids.iter().copied()));
        admin::namespace_attachment(CID, operation, Nsid(nsid), PAGE)
    }

    pub(crate) fn attach(&mut self, ids: &[u16], nsid: u32) {
        let sqe = self.attachment(Attachment::Attach, ids, nsid);
        self.primary.succeed(sqe);
    }

    pub(crate) fn detach(&mut self, ids: &[u16], nsid: u32) {
        let sqe = self.attachment(Attachment::Detach, ids, nsid);
        self.primary.succeed(sqe);
    }
}

/// A block at the start of a namespace.
fn first_block() -> Blocks {
    Blocks::new(Lba(0), 1).unwrap()
}

/// Writes a block of this byte by a controller's I/O queue.
pub(crate) fn write(driver: &mut Driver, nsid: u32, byte: u8) -> Status {
    driver.put(&[byte; BLOCK]);
    driver.io(nvm::write(CID, Nsid(nsid), first_block(), PAGE)).status()
}

/// Reads a block, which must hold one byte throughout. Returns that byte.
pub(crate) fn read(driver: &mut Driver, nsid: u32) -> Result<u8, Status> {
    driver.fill(0xee);
    let status = driver.io(nvm::read(CID, Nsid(nsid), first_block(), PAGE)).status();
    if !status.is_success() {
        return Err(status);
    }
    let block = driver.bytes(BUFFER, BLOCK);
    assert!(block.iter().all(|byte| *byte == block[0]));
    Ok(block[0])
}
