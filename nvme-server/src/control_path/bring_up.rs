//! Brings a claimed controller up: reset, admin queues, identity, number of queues, namespaces (NVM Express base
//! specification 1.4, section 7.6.1). The same steps follow a fault.

use crate::control_path::admin::execute;
use crate::control_path::arbitration::{self, Weighing};
use crate::control_path::identity::{First, Identity};
use crate::control_path::{events, functions, namespaces};
use crate::controller::admin;
use crate::controller::fault::DeviceFault;
use crate::controller::features;
use crate::controller::inquiry;
use crate::controller::pci;
use crate::controller::queue_pair::QueuePair;
use crate::controller::reset::{disable, wait_ready};
use crate::data_path::session::Abilities;
use crate::shared::Shared;
use nvme_spec::feature::NumberOfQueues;
use nvme_spec::identify;
use nvme_spec::{DataPointer, QueueId, admin as command};
use platform::log::info;
use platform::{Memory, Platform};
use report::{Report, clip};

/// The largest transfer of one command, whatever the controller allows: bounds the list pages of each place in flight.
const MAX_TRANSFER: u64 = 2 << 20;
/// Seconds, at least, that a controller has to come back after its registers read as all ones. A function must answer within
/// the same time after a reset (PCI Express base specification 4.0, section 6.6.1).
const AWAY_LIMIT_SECONDS: u64 = 1;

/// Waits until the controller can be read, and checks that this server can drive it and that it is the same as before.
///
/// # Errors
/// [`DeviceFault::Absent`] for one that stayed away for longer than allowed; and as
/// [`Controller::identify`](crate::controller::registers::Controller::identify).
pub(crate) async fn reach<P: Platform>(shared: &Shared<P>) -> Result<(), DeviceFault> {
    let limit = shared.platform.ticks_per_second().saturating_mul(AWAY_LIMIT_SECONDS);
    let deadline = shared.platform.ticks().saturating_add(limit);
    loop {
        // The time is read first, so that a server that did not run meanwhile polls once more.
        let is_last = shared.platform.ticks() >= deadline;
        match shared.device.controller.identify() {
            // In a slot it is known sooner.
            Err(DeviceFault::Absent) if !is_last && !shared.is_gone() => {}
            outcome => return outcome,
        }
        shared.device.tick.reset();
        shared.device.tick.wait().await;
    }
}

/// Lets the controller master the bus, the first time: it was reset, so nothing that firmware left is in flight.
async fn let_master_bus<P: Platform>(shared: &Shared<P>) -> Result<(), DeviceFault> {
    if !shared.function.masters_bus.get() {
        let started = pci::start(&shared.platform, shared.function.server).await;
        started.map_err(|_| DeviceFault::Unusable("the PCI server does not let it master the bus"))?;
        shared.function.masters_bus.set(true);
    }
    Ok(())
}

/// Resets the controller and enables it, with its admin queues.
async fn start<P: Platform>(shared: &Shared<P>) -> Result<(), DeviceFault> {
    let controller = &shared.device.controller;
    disable(&shared.platform, controller, || shared.device.tick.wait()).await?;
    let_master_bus(shared).await?;
    let (sq, cq) = shared.device.admin.start(|| admin_queue(shared))?;
    controller.enable(&sq, &cq, admin::ENTRIES, shared.arbitration())?;
    wait_ready(&shared.platform, controller, || shared.device.tick.wait(), true).await?;
    controller.check().map(drop)
}

/// Brings the controller up after [`reach`] has found it.
pub(crate) async fn bring_up<P: Platform>(shared: &Shared<P>) -> Result<Identity, DeviceFault> {
    if !shared.device.is_introduced.get() {
        // Nothing was served yet, whatever an attempt that failed has found.
        *shared.first_seen.borrow_mut() = First::default();
    }
    start(shared).await?;
    if functions::enable(shared).await? {
        start(shared).await?;
    }
    let controller = &shared.device.controller;
    let page = &shared.device.identify_page;
    let data = DataPointer::page(page.iova.bits());
    execute(shared, |cid| command::identify_controller(cid, data)).await?;
    let about: identify::Controller = page.memory.read(page.offset)?;
    if !about.supports_standard_entries() {
        return Err(DeviceFault::Unusable("the controller's queue entries have other sizes than 64 and 16 bytes"));
    }
    if !about.kind().does_io() {
        return Err(DeviceFault::Unusable("the controller is for discovery or administration alone (CNTRLTYPE)"));
    }
    shared.first_seen.borrow_mut().check(&about)?;
    shared.device.retry_delays.set(inquiry::retry_delays(&mut &*shared, &about).await?);
    let weighing = shared.weighing();
    if weighing != Weighing::Nothing {
        let weights = arbitration::weights(weighing, shared.config.class_weights, about.rab);
        execute(shared, |cid| weights.set(cid)).await?;
        if !shared.device.is_introduced.get() {
            let by = if weighing == Weighing::Speeds { "speeds of queues" } else { "classes" };
            info!("the controller weighs the {}", by);
            let left = shared.schedule.borrow_mut().leave_weighing(&shared.config);
            left.map_err(|_| DeviceFault::OwnMemory)?;
        }
    }
    let queue_pairs = number_of_queues(shared).await?;
    let limits = inquiry::nvm_limits(&mut &*shared, controller.version()?, controller.cap()).await?;
    let namespaces = namespaces::find(shared, &about).await?;
    features::set(&mut &*shared, namespaces.iter().map(|namespace| namespace.nsid)).await?;
    events::watch(shared, &about).await?;
    let limit = about.max_transfer_bytes(controller.cap().min_page_bytes()).unwrap_or(MAX_TRANSFER);
    let identity = Identity {
        queue_pairs,
        max_transfer: limit.min(MAX_TRANSFER),
        abilities: Abilities::of(&about, &limits, controller.cap().min_page_bytes()),
        namespaces,
    };
    report_identity(shared, &about, &identity)?;
    Ok(identity)
}

fn admin_queue<P: Platform>(shared: &Shared<P>) -> Result<QueuePair<P::Memory, P::Mmio>, DeviceFault> {
    let mut pool = shared.function.pool.borrow_mut();
    let rings = (pool.take(1)?, pool.take(1)?);
    let controller = &shared.device.controller;
    QueuePair::new(QueueId::ADMIN, admin::ENTRIES, rings, controller.registers(), controller.cap().doorbells())
}

/// Asks for as many queue pairs as the sessions want together; the controller may grant fewer.
async fn number_of_queues<P: Platform>(shared: &Shared<P>) -> Result<u16, DeviceFault> {
    let ask = NumberOfQueues::pairs(shared.config.queue_pairs().max(1)).ok_or(DeviceFault::OwnMemory)?;
    let granted = NumberOfQueues::from_bits(execute(shared, |cid| ask.set(cid)).await?.dw0);
    // It may grant more than asked; more is not used.
    let granted = u16::try_from(granted.sqs().min(granted.cqs())).unwrap_or(u16::MAX);
    shared.device.granted.set(granted);
    Ok(granted)
}

fn report_identity<P: Platform>(
    shared: &Shared<P>,
    about: &identify::Controller,
    identity: &Identity,
) -> Result<(), DeviceFault> {
    let version = shared.device.controller.version()?;
    info!("controller {} serial {}", about.model_number(), about.serial_number());
    if shared.device.is_introduced.replace(true) {
        return Ok(());
    }
    shared.report(&Report::Controller(report::Controller {
        server: clip(&shared.environment.name),
        bdf: shared.function.bdf,
        vendor: about.vid.get(),
        model: clip(about.model_number()),
        serial: clip(about.serial_number()),
        firmware: clip(about.firmware_revision()),
        version: [version.mjr() as u8, version.mnr(), version.ter()],
        queue_pairs: identity.queue_pairs,
        max_queue_entries: shared.device.controller.cap().max_queue_entries(),
        max_transfer_bytes: identity.max_transfer,
        interrupts: clip(shared.function.vectors.borrow().by().name()),
    }));
    for namespace in &identity.namespaces {
        shared.report(&Report::Namespace(report::Namespace {
            server: clip(&shared.environment.name),
            nsid: namespace.nsid.0,
            blocks: namespace.blocks,
            block_bytes: 1 << namespace.block_shift,
        }));
    }
    Ok(())
}
