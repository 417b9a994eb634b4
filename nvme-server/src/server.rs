//! The server's start: claims the controller, creates the state, and runs both planes.

use crate::control_path::changes::Changes;
use crate::control_path::control_plane;
use crate::control_path::identity::First;
use crate::control_path::on_wake::OnWake;
use crate::control_path::requests::ControlQueue;
use crate::control_path::virtual_function::VirtualFunction;
use crate::data_path::event_loop;
use crate::data_path::queues::Queues;
use crate::data_path::ready::ReadySet;
use crate::data_path::schedule::Schedule;
use crate::data_path::split::extents;
use crate::sessions::acknowledgements::Acknowledgements;
use crate::sessions::slot::slots;
use crate::sessions::{calls, policy};
use crate::shared::Shared;
use alloc::rc::Rc;
use blk_api::config::ServerConfig;
use blk_api::names;
use blk_api::session::Refusal;
use core::cell::{Cell, RefCell};
use embassy_futures::join::join;
use nvme_driver::admin::{AdminQueue, Tick};
use nvme_driver::controller::{Controller, Health};
use nvme_driver::dma::{DmaPool, IoSpaceMap};
use nvme_driver::interrupts::Vectors;
use nvme_driver::pci::PciClient;
use nvme_driver::presence::Arrival;
use nvme_driver::registers::Registers;
use nvme_driver::retry::RetryDelays;
use pci_api::presence::Presence;
use platform::alarm::SERVER_US;
use platform::log::{error, info};
use platform::{Badge, CPtr, Cap, CapData, Environment, Event, Kernel, Message, Notification, Platform, Rights};
use report::{Report, clip};

/// Sessions a server can have.
const MAX_SESSIONS: usize = ServerConfig::MOST_SESSIONS;
const _: () = assert!(MAX_SESSIONS == scheduler::MAX_SESSIONS, "the scheduler decides between all of them");

/// Serves sessions for ever. If it cannot start, it logs and reports the reason, and refuses clients. It reports no failure if
/// its slot has no controller.
pub async fn run<P: Platform>(platform: P, environment: Environment) {
    let arrival = Arrival::of(&platform, &environment);
    if arrival.is_some() {
        // The PCI server answers when it has read the slot.
        wait_for_pci_server(&platform, &environment).await;
    }
    let is_empty = || arrival.as_ref().is_some_and(|arrival| arrival.presence() != Presence::Present);
    if is_empty() {
        info!("there is no controller in the slot");
        return refuse_all(&platform, &environment, Refusal::DeviceGone).await;
    }
    match start(platform.clone(), environment.clone()).await {
        Ok(shared) => {
            join(event_loop::run(&shared), OnWake::new(control_plane::run(&shared))).await;
        }
        Err(reason) if is_empty() => {
            info!("the controller is gone: {}", reason.as_str());
            refuse_all(&platform, &environment, Refusal::DeviceGone).await;
        }
        Err(reason) => {
            error!("no controller: {}", reason.as_str());
            let failure = Report::Failure { component: clip(&environment.name), reason: clip(&reason) };
            platform.report(&failure.encode());
            refuse_all(&platform, &environment, Refusal::Device).await;
        }
    }
}

/// Waits until the PCI server has started.
async fn wait_for_pci_server<P: Platform>(platform: &P, environment: &Environment) {
    if let Some(server) = environment.cap(pci_api::names::PCI) {
        let _ = platform.kernel().call(server, &Message::with(pci_api::LIST, &pci_api::Index(0))).await;
    }
}

/// Refuses all calls of clients, without a controller, so that no client is left waiting. The policy component's
/// calls are answered as its rights are: without a controller nothing can use any.
async fn refuse_all<P: Platform>(platform: &P, environment: &Environment, refusal: Refusal) {
    loop {
        if let Event::Message(badge, message) = platform.next_event().await {
            calls::delete_received(platform, environment, &message);
            let answer = match badge {
                Badge(blk_api::policy::BADGE) => {
                    policy::without_controller(&message, platform.ticks(), refusal == Refusal::DeviceGone)
                }
                _ => Message::new(refusal as u32),
            };
            platform.kernel().reply(&answer);
        }
    }
}

async fn start<P: Platform>(platform: P, environment: Environment) -> Result<Rc<Shared<P>>, alloc::string::String> {
    let config: ServerConfig = environment.config().ok_or("its configuration does not decode")?;
    if config.sessions.len() > MAX_SESSIONS {
        return Err("more sessions than it can serve".into());
    }
    let nudge = mint_nudge(&platform, &environment).ok_or("it cannot signal itself")?;
    let callers = environment.free_slots.start.saturating_add(1);
    let free = callers.saturating_add(config.sessions.len() as u64)..environment.free_slots.end;
    if free.is_empty() {
        return Err("too few free slots".into());
    }
    let queue_pairs = config.queue_pairs();
    // Before the claim: another arrival than the one that is claimed counts as none.
    let arrival = Arrival::of(&platform, &environment);
    let server = environment.cap(pci_api::names::PCI).ok_or("it has no PCI server")?;
    let mut client = PciClient::new(&platform, &environment, free).map_err(text)?;
    let device = client.claim(config.interrupts, queue_pairs.saturating_add(1)).await.map_err(text)?;
    let pci_slots = client.into_slots();
    let mut space = IoSpaceMap::new(platform.kernel().clone(), device.io_space, &environment);
    let mut pool = DmaPool::new(&platform, &environment, &mut space).map_err(text)?;
    let identify_page = pool.take(1).map_err(text)?;
    info!("controller claimed, {} interrupt vectors", device.vectors.len());
    let ready = ReadySet::new();
    let slots = slots(&platform, &environment, &config, callers, &ready).ok_or("it has no CNode of its own")?;
    let virtual_functions = VirtualFunction::all(&platform, &environment, &config).ok_or("it cannot watch a client")?;
    let policy = environment.cap(names::POLICY).ok_or("it has no policy component")?;
    let extents = extents(&config).map_err(text)?;
    let schedule = Schedule::new(&config, platform.ticks_per_second()).map_err(text)?;
    let acknowledgements = Acknowledgements::new(&platform, &environment).map_err(text)?;
    let alarms = (0..).zip(SERVER_US).map(|(number, _)| environment.cap_at(names::ALARM, number));
    let alarms = alarms.collect::<Option<_>>().ok_or("it cannot ask for all alarms")?;
    let masks_messages = platform.kernel().irq_masks_messages();
    Ok(Rc::new(Shared {
        controller: Controller {
            platform: platform.clone(),
            registers: Registers::new(device.registers),
            admin: AdminQueue::new(),
            identify_page,
            tick: Tick::new(),
            health: Cell::new(Health::Down),
            faults: Cell::new(0),
            retry_delays: Cell::new(RetryDelays::default()),
            granted: Cell::new(0),
            is_introduced: Cell::new(false),
            arrival,
            bdf: device.bdf,
            server,
            slots: RefCell::new(pci_slots),
            vectors: RefCell::new(Vectors::new(device.vectors, device.interrupts, masks_messages)),
            masters_bus: Cell::new(false),
            has_functions: Cell::new(false),
            space: RefCell::new(space),
            pool: RefCell::new(pool),
        },
        first_seen: RefCell::new(First::default()),
        queues: RefCell::new(Queues::new(queue_pairs)),
        slots: RefCell::new(slots),
        virtual_functions: RefCell::new(virtual_functions),
        ready,
        first: Cell::new(0),
        extents: RefCell::new(extents),
        schedule: RefCell::new(schedule),
        acknowledgements,
        changes: Changes::new(policy),
        control: ControlQueue::new(),
        alarms,
        nudge,
        platform,
        environment,
        config,
    }))
}

/// Mints the server's notification, with a badge of no sender, into the first free slot.
fn mint_nudge<P: Platform>(platform: &P, environment: &Environment) -> Option<Cap<Notification>> {
    let own: Cap<Notification> = environment.cap(platform::names::EVENT)?;
    let slot = CPtr::new(environment.free_slots.start);
    let data = CapData::Badge(Badge(Badge::SIGNAL));
    let (dest, src) = (environment.slot(slot)?, environment.slot(own.cptr())?);
    platform.kernel().cnode_mint(dest, src, Rights::WRITE, data).ok()?;
    Some(slot.cast())
}

fn text(error: impl core::fmt::Display) -> alloc::string::String {
    alloc::format!("{error}")
}
