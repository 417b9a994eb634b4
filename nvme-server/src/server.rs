//! What the two planes share, and how the server starts.
//!
//! Both planes are futures of one task: they never run at once, so shared state is borrowed, not locked, and never
//! across an await.

use crate::admin::{AdminQueue, Tick};
use crate::board::Board;
use crate::burials::Burials;
use crate::controller::Controller;
use crate::dma::{DmaPool, IoSpaceMap};
use crate::extents;
use crate::fault::DeviceFault;
use crate::interrupts::Vectors;
use crate::interrupts_change::InterruptsChange;
use crate::on_wake::OnWake;
use crate::pci::{self, Interrupts, PciClient};
use crate::phase::Awaited;
use crate::queue::Ring;
use crate::queues::Queues;
use crate::requeue::Requeue;
use crate::schedule::Schedule;
use crate::seat::{Seat, seats};
use crate::{calls, control_plane, data_plane};
use alloc::rc::Rc;
use alloc::vec::Vec;
use blk_api::config::ServerConfig;
use blk_api::policy;
use blk_api::session::Refusal;
use core::cell::{Cell, RefCell};
use embassy_futures::join::join;
use embassy_sync::blocking_mutex::raw::NoopRawMutex;
use embassy_sync::channel::Channel;
use extent_table::ExtentTable;
use platform::log::{error, info};
use platform::{
    Badge, CPtr, Cap, CapData, Endpoint, Environment, Event, Kernel, Message, Notification, Platform, Rights,
};
use report::{Report, ResetScope, clip};

/// Sessions a server can have.
const MAX_SESSIONS: usize = ServerConfig::MOST_SESSIONS;
const _: () = assert!(MAX_SESSIONS == scheduler::MAX_SESSIONS, "the scheduler decides between all of them");
/// Requests the control plane can have waiting: each session's opening or teardown, one rescue, one change of queue pairs, one
/// of interrupts, and one recovery.
const CONTROL_QUEUE: usize = MAX_SESSIONS + 4;

/// What the data plane passes to the control plane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Control {
    /// The client of this session calls for it to be opened and waits for the answer.
    Open(usize),
    /// This session has ended and has nothing in flight.
    TearDown(usize),
    /// A session's queue pairs are to be made anew ([`Shared::requeue`]).
    Requeue,
    /// The controller's interrupt mode is to change ([`Shared::interrupts_change`]).
    Interrupts,
    /// Queue pairs are late.
    Rescue,
    /// The controller did something wrong.
    Recover,
}

/// Whether commands may be given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Health {
    /// It works.
    Up,
    /// It is being brought up, for the first time or again.
    Down,
    /// It could not be brought up.
    Dead,
}

/// Everything both planes use.
pub(crate) struct Shared<P: Platform> {
    pub platform: P,
    pub environment: Environment,
    pub config: ServerConfig,
    pub controller: Controller<P::Mmio>,
    pub vectors: RefCell<Vectors>,
    pub bdf: u16,
    pub space: RefCell<IoSpaceMap<P::Kernel>>,
    pub pool: RefCell<DmaPool<P>>,
    /// Where the controller writes its answers to Identify.
    pub identify_page: Ring<P::Memory>,
    pub admin: AdminQueue<P::Memory, P::Mmio>,
    /// Sessions by number (badge - 1).
    pub seats: RefCell<Vec<Seat<P>>>,
    /// Which of them to look at.
    pub board: Rc<Board>,
    /// Where their commands go.
    pub queues: RefCell<Queues<P>>,
    /// What they may touch, by the same numbers.
    pub extents: RefCell<ExtentTable>,
    /// Whose turn it is.
    pub schedule: RefCell<Schedule>,
    /// The seat that is looked at first in the next pass.
    pub first: Cell<usize>,
    /// Where the supervisor is told of dead clients of whose sessions nothing is left, if it starts any again.
    pub burials: Option<Burials<P::Memory>>,
    /// The policy component's notification.
    pub policy: Cap<Notification>,
    /// What it is to be told of when it is drained, one removal a session.
    pub awaited: RefCell<Vec<policy::Removal>>,
    /// Whose queue pairs are made anew, one session's at a time.
    pub requeue: Cell<Option<Requeue>>,
    /// What came of the last change of queue pairs, if it was refused.
    pub requeue_refused: Cell<Option<(policy::Share, policy::Refusal)>>,
    /// A change of the interrupt mode that is under way.
    pub interrupts_change: Cell<Option<InterruptsChange>>,
    /// The last change of it that was refused, and why.
    pub interrupts_refused: Cell<Option<(Interrupts, policy::Refusal)>>,
    /// Slots for what the PCI server gives.
    pub pci_slots: RefCell<pci::Slots>,
    /// I/O queue pairs that the controller granted; 0 before it was brought up.
    pub granted: Cell<u16>,
    pub health: Cell<Health>,
    pub controls: Channel<NoopRawMutex, Control, CONTROL_QUEUE>,
    /// A recovery waits in `controls`.
    pub recovery_asked: Cell<bool>,
    /// A rescue waits there.
    pub rescue_asked: Cell<bool>,
    /// What the controller did wrong since the start, times.
    pub faults: Cell<u64>,
    /// The supervisor's tick.
    pub tick: Tick,
    /// The PCI server's endpoint.
    pub pci: Cap<Endpoint>,
    /// The controller may master the bus.
    pub masters_bus: Cell<bool>,
    /// The controller was reported: after a reset it is the same one.
    pub introduced: Cell<bool>,
    /// Where the supervisor is asked to wake the server in a moment ([`Badge::ALARM`]).
    pub alarm: Cap<Notification>,
    /// The server's own notification, to wake the data plane for what the control plane did.
    nudge: Cap<Notification>,
}

impl<P: Platform> Shared<P> {
    /// Says that the controller did something wrong. Nothing is given to it from here on until it was reset.
    pub(crate) fn fail(&self, fault: DeviceFault) {
        if self.health.get() != Health::Up {
            // A reset that is due already mends this as well.
            return;
        }
        self.health.set(Health::Down);
        self.admin.give_up(fault);
        self.report_reset(fault);
        if !self.recovery_asked.replace(true) {
            self.control(Control::Recover);
        }
    }

    /// Counts, logs and reports a fault for which the controller is reset.
    pub(crate) fn report_reset(&self, fault: DeviceFault) {
        self.count(fault);
        let count = self.faults.get();
        let reason = clip(&alloc::format!("{fault} (fault {count})"));
        self.report(&Report::Reset { server: clip(&self.environment.name), scope: ResetScope::Controller, reason });
    }

    /// Counts and logs what the controller did wrong.
    pub(crate) fn count(&self, fault: DeviceFault) {
        self.faults.set(self.faults.get().saturating_add(1));
        error!("controller fault: {}", clip::<96>(&alloc::format!("{fault}")).as_str());
    }

    /// Reports that something failed, in one sentence.
    pub(crate) fn report_failure(&self, reason: &str) {
        self.report(&Report::Failure { component: clip(&self.environment.name), reason: clip(reason) });
    }

    /// Passes a request to the control plane.
    pub(crate) fn control(&self, control: Control) {
        // Cannot be: see CONTROL_QUEUE.
        if self.controls.try_send(control).is_err() {
            error!("the control plane's queue is full");
        }
    }

    /// Passes to the control plane that what it waited for in session `index` has happened.
    pub(crate) fn drained(&self, index: usize, awaited: Awaited) {
        self.control(match awaited {
            Awaited::Reconfiguration => Control::Requeue,
            Awaited::Teardown => Control::TearDown(index),
        });
    }

    /// Has the data plane look at the seats whose attention was set.
    pub(crate) fn wake_data_plane(&self) {
        self.platform.kernel().signal(self.nudge);
    }

    /// Sends a record.
    pub(crate) fn report(&self, report: &Report) {
        self.platform.report(&report.encode());
    }
}

/// Serves sessions until the end of days. When it cannot start, the reason is logged and reported, and clients are
/// refused.
pub async fn run<P: Platform>(platform: P, environment: Environment) {
    match start(platform.clone(), environment.clone()).await {
        Ok(shared) => {
            join(data_plane::run(&shared), OnWake::new(control_plane::run(&shared))).await;
        }
        Err(reason) => {
            error!("no controller: {}", reason.as_str());
            let failure = Report::Failure { component: clip(&environment.name), reason: clip(&reason) };
            platform.report(&failure.encode());
            refuse_all(&platform, &environment).await;
        }
    }
}

/// Without a controller: a client that calls is not left waiting.
async fn refuse_all<P: Platform>(platform: &P, environment: &Environment) {
    loop {
        if let Event::Message(_, message) = platform.next_event().await {
            calls::delete_received(platform, environment, &message);
            platform.kernel().reply(&Message::new(Refusal::Device as u32));
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
    let server = environment.cap(pci_api::names::PCI).ok_or("it has no PCI server")?;
    let mut client = PciClient::new(&platform, &environment, free).map_err(text)?;
    let device = client.claim(config.interrupts, queue_pairs.saturating_add(1)).await.map_err(text)?;
    let pci_slots = RefCell::new(client.into_slots());
    let controller = Controller::new(device.registers);
    let mut space = IoSpaceMap::new(platform.kernel().clone(), device.io_space, &environment);
    let mut pool = DmaPool::new(&platform, &environment, &mut space).map_err(text)?;
    let identify_page = pool.take(1).map_err(text)?;
    info!("controller claimed, {} interrupt vectors", device.vectors.len());
    let board = Board::new();
    let seats = seats(&platform, &environment, &config, callers, &board).ok_or("it has no CNode of its own")?;
    let policy = environment.cap("policy").ok_or("it has no policy component")?;
    let extents = extents::table(&config).map_err(text)?;
    let schedule = Schedule::new(&config, platform.ticks_per_second()).map_err(text)?;
    let burials = Burials::new(&platform, &environment).map_err(text)?;
    let alarm = environment.cap("alarm").ok_or("it cannot ask for the alarm")?;
    Ok(Rc::new(Shared {
        controller,
        vectors: RefCell::new(Vectors::new(device.vectors, device.interrupts, platform.kernel().irq_masks_messages())),
        bdf: device.bdf,
        space: RefCell::new(space),
        pool: RefCell::new(pool),
        identify_page,
        admin: AdminQueue::new(),
        seats: RefCell::new(seats),
        board,
        queues: RefCell::new(Queues::new(queue_pairs)),
        extents: RefCell::new(extents),
        schedule: RefCell::new(schedule),
        first: Cell::new(0),
        burials,
        policy,
        awaited: RefCell::default(),
        requeue: Cell::new(None),
        requeue_refused: Cell::new(None),
        interrupts_change: Cell::new(None),
        interrupts_refused: Cell::new(None),
        pci_slots,
        granted: Cell::new(0),
        health: Cell::new(Health::Down),
        controls: Channel::new(),
        recovery_asked: Cell::new(false),
        rescue_asked: Cell::new(false),
        faults: Cell::new(0),
        tick: Tick::new(),
        alarm,
        nudge,
        pci: server,
        masters_bus: Cell::new(false),
        introduced: Cell::new(false),
        platform,
        environment,
        config,
    }))
}

/// The server's notification with a badge that names nobody, in the first free slot.
fn mint_nudge<P: Platform>(platform: &P, environment: &Environment) -> Option<Cap<Notification>> {
    let own: Cap<Notification> = environment.cap("event")?;
    let slot = CPtr::new(environment.free_slots.start);
    let data = CapData::Badge(Badge(Badge::SIGNAL));
    let (dest, src) = (environment.slot(slot)?, environment.slot(own.cptr())?);
    platform.kernel().cnode_mint(dest, src, Rights::WRITE, data).ok()?;
    Some(slot.cast())
}

fn text(error: impl core::fmt::Display) -> alloc::string::String {
    alloc::format!("{error}")
}
