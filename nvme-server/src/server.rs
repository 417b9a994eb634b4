//! The server's start: claims the controller, creates the state, and runs both planes.

use crate::acknowledgements::Acknowledgements;
use crate::control_plane::ControlPlane;
use crate::control_plane::administration::Administration;
use crate::control_plane::changes::Changes;
use crate::control_plane::virtual_function::VirtualFunction;
use crate::data_plane::event_loop;
use crate::data_plane::{DataPlane, Signals};
use crate::doors;
use crate::jobs::Jobs;
use crate::link::{Lent, Link};
use crate::on_wake::OnWake;
use alloc::rc::Rc;
use blk_api::administration::Rights as AdministrationRights;
use blk_api::config::ServerConfig;
use blk_api::names;
use blk_api::session::Refusal;
use core::cell::{Cell, RefCell};
use core::ops::Range;
use embassy_futures::join::join;
use nvme_driver::admin::{AdminQueue, Tick};
use nvme_driver::dma::{DmaPool, IoSpaceMap};
use nvme_driver::interrupts::Vectors;
use nvme_driver::pci::PciClient;
use nvme_driver::presence::Arrival;
use nvme_driver::registers::Registers;
use nvme_driver::retry::RetryDelays;
use nvme_driver::{Controller, Health};
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
        Ok(link) => {
            join(event_loop::run(&link), OnWake::new(ControlPlane::new(&link).run())).await;
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
            doors::delete_received(platform, environment, &message);
            let answer = match badge {
                Badge(blk_api::policy::BADGE) => {
                    doors::policy::without_controller(&message, platform.ticks(), refusal == Refusal::DeviceGone)
                }
                _ if AdministrationRights::of_badge(badge.0).is_some() => doors::administration_without_controller(),
                _ => Message::new(refusal as u32),
            };
            platform.kernel().reply(&answer);
        }
    }
}

async fn start<P: Platform>(platform: P, environment: Environment) -> Result<Link<P>, alloc::string::String> {
    let config: ServerConfig = environment.config().ok_or("its configuration does not decode")?;
    if config.sessions.len() > MAX_SESSIONS {
        return Err("more sessions than it can serve".into());
    }
    let nudge = mint_nudge(&platform, &environment).ok_or("it cannot signal itself")?;
    let callers = environment.free_cptrs.start.saturating_add(1);
    let administrator = callers.saturating_add(config.sessions.len() as u64);
    let free = administrator.saturating_add(config.administration.is_some().into())..environment.free_cptrs.end;
    if free.is_empty() {
        return Err("too few free cptrs".into());
    }
    let controller = Rc::new(claim(&platform, &environment, &config, free).await?);
    let administration = match config.administration {
        Some(config) => {
            let memory = (&mut *controller.pool.borrow_mut(), &mut *controller.space.borrow_mut());
            Some(Administration::new(&environment, config, memory, administrator)?)
        }
        None => None,
    };
    let functions = VirtualFunction::all(&platform, &environment, &config).ok_or("it cannot watch a client")?;
    let policy = environment.cap(names::POLICY).ok_or("it has no policy component")?;
    let acknowledgements = Acknowledgements::new(&platform, &environment).map_err(text)?;
    let alarms = (0..).zip(SERVER_US).map(|(number, _)| environment.cap_at(names::ALARM, number));
    let alarms = alarms.collect::<Option<_>>().ok_or("it cannot ask for all alarms")?;
    let (config, jobs) = (Rc::new(config), Rc::new(Jobs::new()));
    let shared = (&config, &controller, &jobs);
    let data = DataPlane::new(&platform, &environment, shared, callers, Signals { policy, nudge })?;
    Ok(Link {
        platform,
        environment,
        config,
        controller,
        jobs,
        changes: Changes::default(),
        functions: RefCell::new(functions),
        acknowledgements,
        administration,
        alarms,
        policy,
        data: Lent::new(data),
    })
}

/// Claims the controller, whose capabilities come to the cptrs `free`.
async fn claim<P: Platform>(
    platform: &P,
    environment: &Environment,
    config: &ServerConfig,
    free: Range<u64>,
) -> Result<Controller<P>, alloc::string::String> {
    // Before the claim: another arrival than the one that is claimed counts as none.
    let arrival = Arrival::of(platform, environment);
    let server = environment.cap(pci_api::names::PCI).ok_or("it has no PCI server")?;
    let mut client = PciClient::new(platform, environment, free).map_err(text)?;
    let device = client.claim(config.interrupts, config.queue_pairs().saturating_add(1)).await.map_err(text)?;
    let cptrs = client.into_cptrs();
    let mut space = IoSpaceMap::new(platform.kernel().clone(), device.io_space, environment);
    let mut pool = DmaPool::new(platform, environment, &mut space).map_err(text)?;
    let identify_page = pool.take(1).map_err(text)?;
    info!("controller claimed, {} interrupt vectors", device.vectors.len());
    let masks_messages = platform.kernel().irq_masks_messages();
    Ok(Controller {
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
        cptrs: RefCell::new(cptrs),
        vectors: RefCell::new(Vectors::new(device.vectors, device.interrupts, masks_messages)),
        masters_bus: Cell::new(false),
        has_functions: Cell::new(false),
        space: RefCell::new(space),
        pool: RefCell::new(pool),
    })
}

/// Mints the server's notification, with a badge of no sender, at the first free cptr.
fn mint_nudge<P: Platform>(platform: &P, environment: &Environment) -> Option<Cap<Notification>> {
    let own: Cap<Notification> = environment.cap(platform::names::EVENT)?;
    let cptr = CPtr::new(environment.free_cptrs.start);
    let data = CapData::Badge(Badge(Badge::SIGNAL));
    let (dest, src) = (environment.absolute(cptr)?, environment.absolute(own.cptr())?);
    platform.kernel().cnode_mint(dest, src, Rights::WRITE, data).ok()?;
    Some(cptr.cast())
}

fn text(error: impl core::fmt::Display) -> alloc::string::String {
    alloc::format!("{error}")
}
