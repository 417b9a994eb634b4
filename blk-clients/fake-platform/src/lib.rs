//! A platform and a server in memory, on which the clients' tests run on the build machine.
//!
//! The kernel is a model; in it the client holds a client's capabilities. The server is minimal and can be configured to
//! lie; there is no controller. It runs only when its client waits, signals or calls, so runs repeat exactly.

#![forbid(unsafe_code)]

mod memory;
mod server;

pub use server::{FakeServer, Forbids, Loses, Lost, Order, Refetch, Setup, Tamper};

use blk_client::{Device, Options};
use memory::LastWrite;
use platform::fake::{Ram, Registers, Start};
use platform::{
    Abuse, Badge, CPtr, Environment, Event, Incarnation, Kernel as _, Message, ObjectType, OutOfBounds, Platform,
    Region, RegionKind, Rights, Vaddr, alarm,
};
use report::Report;
use report::milestones::Watched;
use serde::Serialize;
use sim_kernel::{CNODE_BITS, Delivery, Invoker, Surroundings};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use workload::Client;

/// Cptr of the server's endpoint.
pub const SERVER: u64 = 8;
/// Cptr of the server's notification.
pub const DOORBELL: u64 = 9;
/// Cptr of the client's notification.
pub const EVENT: u64 = 10;
/// Cptr of the peer's notification.
pub const PEER: u64 = 11;
/// Cptr of the policy component's endpoint.
pub const POLICY: u64 = 12;
/// Cptr of the first signal by which the client asks for an alarm, and the last one's.
pub const ALARM: u64 = 13;
const LAST_ALARM: u64 = ALARM + alarm::CLIENT_US.len() as u64 - 1;
/// Ticks that a call waits for the successor of a dead server. After them there is no successor.
const CALL_TICKS: u32 = 1000;
/// Rights of a caller on an endpoint.
/// Badge of the peer's signals.
const PEERS_BADGE: u64 = Badge::SIGNAL | 2;

/// The platform. Clones are the same one.
#[derive(Clone)]
pub struct FakePlatform {
    world: Rc<World>,
    kernel: Invoker,
}

struct World {
    around: Surroundings,
    server: RefCell<FakeServer>,
    start: Start,
    /// Entries of the rings and bytes of the window.
    sizes: (u32, u64),
    reports: RefCell<Vec<Report>>,
    ticks: Cell<u64>,
    /// Ticks that pass at each look at the clock.
    pace: Cell<u64>,
    doorbells: Cell<u64>,
    /// The peer signalled, and the client has not taken the signal yet.
    peer_signalled: Cell<bool>,
    /// The page in which the client reads the moments that have come.
    moments: Watched<Ram>,
    /// The server's liveness page.
    liveness: Ram,
    /// Ticks until the dead server is alive again.
    rebirth: Cell<u32>,
    /// Turns left before the server dies, and ticks until it is alive again.
    doom: Cell<Option<(u32, u32)>>,
    /// The policy component's liveness page, and ticks until the component is alive again.
    policy_rebirth: Cell<u32>,
    /// Sends a tick to a component that waits with no other event pending.
    ticks_come: Cell<bool>,
    /// The length of the alarm that the client asked for, in ticks; and the number of those that went off.
    alarm_set: Cell<Option<u64>>,
    alarms: Cell<u64>,
}

impl FakePlatform {
    /// Makes a machine with one server and one client, as `setup` describes.
    #[must_use]
    pub fn new(setup: &Setup) -> Self {
        let [client, server, window, liveness, moments] = [
            blk_api::ring::client_region_bytes(setup.ring_entries),
            blk_api::ring::server_region_bytes(setup.ring_entries),
            setup.window_bytes,
            platform::PAGE_SIZE as u64,
            platform::PAGE_SIZE as u64,
        ]
        .map(|bytes| Ram::new(bytes as usize));
        let (ring, written) = LastWrite::watch(&client);
        let mut start = Start::new("");
        start.memory(report::names::LOG, RegionKind::ReadWrite, &moments);
        start.memory("liveness-server", RegionKind::ReadOnly, &liveness);
        start.memory("ring-client", RegionKind::ReadWrite, &ring);
        start.memory("ring-server", RegionKind::ReadOnly, &server);
        start.memory("window", RegionKind::ReadWrite, &window);
        for (name, slot) in [("server", SERVER), ("doorbell", DOORBELL), ("event", EVENT), ("peer", PEER)] {
            start.caps(name, slot, 1);
        }
        if setup.records.is_some() {
            start.caps("policy", POLICY, 1);
        }
        if setup.alarm {
            start.caps("alarm", ALARM, alarm::CLIENT_US.len() as u32);
        }
        start.environment.cnode_bits = CNODE_BITS;
        start.environment.wait = Some(CPtr::new(EVENT));
        let mut around = Surroundings::new();
        let event = around.make(ObjectType::Notification, 0);
        let (endpoint, notification) = (around.endpoint(), around.notification());
        let mut given = vec![
            (SERVER, endpoint, Rights::CALL, Badge(SERVER)),
            (DOORBELL, notification, Rights::WRITE, Badge(DOORBELL)),
            (PEER, notification, Rights::WRITE, Badge(PEER)),
            (EVENT, event, Rights::READ, Badge(0)),
        ];
        let alarms = (ALARM..=LAST_ALARM).filter(|_| setup.alarm);
        given.extend(alarms.map(|cptr| (cptr, notification, Rights::WRITE, Badge(cptr))));
        given.extend(setup.records.map(|_| (POLICY, endpoint, Rights::CALL, Badge(POLICY))));
        let kernel = around.component(&given);
        let world = Rc::new(World {
            around,
            server: RefCell::new(FakeServer::new(setup, [client, server, window], written)),
            start,
            sizes: (setup.ring_entries, setup.window_bytes),
            reports: RefCell::new(vec![]),
            ticks: Cell::new(0),
            pace: Cell::new(1000),
            doorbells: Cell::new(0),
            peer_signalled: Cell::new(false),
            liveness,
            moments: Watched::new(moments),
            rebirth: Cell::new(0),
            doom: Cell::new(None),
            policy_rebirth: Cell::new(0),
            ticks_come: Cell::new(false),
            alarm_set: Cell::new(None),
            alarms: Cell::new(0),
        });
        let others = Rc::clone(&world);
        Self { kernel: kernel.with_others(move || others.take()), world }
    }

    /// Runs a whole client program on this machine, with its configuration. Returns its reports.
    pub fn run<C: Serialize, F: Future<Output = ()>>(
        &self,
        config: &C,
        program: impl FnOnce(Self, Environment) -> F,
    ) -> Vec<Report> {
        let (ring_entries, window_bytes) = self.world.sizes;
        self.run_as(&client(&Setup { ring_entries, window_bytes, ..Setup::default() }, config), program)
    }

    /// Runs a whole client program, which has this description of its client. Returns its reports.
    pub fn run_as<F: Future<Output = ()>>(
        &self,
        client: &Client,
        program: impl FnOnce(Self, Environment) -> F,
    ) -> Vec<Report> {
        block_on(program(self.clone(), self.environment_of(client)));
        self.take_reports()
    }

    /// Makes the environment of a program that has this description of its client.
    ///
    /// # Panics
    /// Never: a client has a form in postcard.
    #[must_use]
    pub fn environment_of(&self, client: &Client) -> Environment {
        self.environment(&client.tenant, postcard::to_allocvec(client).expect("a client has a form in postcard"))
    }

    /// Makes the environment of a client of this machine. `config` is the client's own configuration, in postcard.
    #[must_use]
    pub fn environment(&self, name: &str, config: Vec<u8>) -> Environment {
        let name = name.try_into().expect("short name");
        Environment { name, config, ..self.world.start.environment.clone() }
    }

    /// Calls `look` with the server, to inspect or reconfigure it.
    pub fn server<R>(&self, look: impl FnOnce(&mut FakeServer) -> R) -> R {
        look(&mut self.world.server.borrow_mut())
    }

    /// Kills the server, with its state of the session. A successor starts after some ticks.
    pub fn kill_server(&self, ticks: u32) {
        self.world.end_server(ticks);
    }

    /// Kills the server likewise after so many turns, which are polls of the ring and calls.
    pub fn kill_server_after(&self, turns: u32, ticks: u32) {
        self.world.doom.set(Some((turns, ticks)));
    }

    /// Kills the policy component. A successor starts after some ticks.
    pub fn kill_policy(&self, ticks: u32) {
        self.world.policy_rebirth.set(ticks.max(1));
    }

    /// Announces a moment of the scenario to the client.
    ///
    /// # Panics
    /// For a moment that no scenario can have.
    pub fn announce(&self, moment: u16) {
        self.world.moments.announce(moment).expect("a moment of a scenario");
    }

    /// Lets so many ticks pass between two looks at the clock, instead of 1,000: the component is seldom given a processor.
    pub fn set_pace(&self, ticks: u64) {
        self.world.pace.set(ticks);
    }

    /// Lets the supervisor tick from now on: a component that waits without an event gets a tick. Otherwise it is stuck.
    pub fn tick_who_waits(&self) {
        self.world.ticks_come.set(true);
    }

    /// Takes the reports so far.
    #[must_use]
    pub fn take_reports(&self) -> Vec<Report> {
        self.world.reports.take()
    }

    /// Lets the peer signal unprompted; otherwise it answers signals.
    pub fn peer_signals(&self) {
        self.world.peer_signalled.set(true);
    }

    /// Number of alarms that went off.
    #[must_use]
    pub fn alarms(&self) -> u64 {
        self.world.alarms.get()
    }

    /// Number of the client's doorbell signals.
    #[must_use]
    pub fn doorbells(&self) -> u64 {
        self.world.doorbells.get()
    }
}

/// The description of a client on a machine of this setup, whose program has this configuration.
pub fn client<C: Serialize>(setup: &Setup, config: &C) -> Client {
    Client {
        tenant: "tenant".into(),
        class: "medium".into(),
        queue_pairs: 1,
        ring_entries: setup.ring_entries,
        window_bytes: setup.window_bytes,
        first_block: 0,
        polls: false,
        waits: false,
        traced: 0,
        opens: None,
        begins: None,
        ends: None,
        config: workload::encode(config),
    }
}

/// Polls `future` until it is ready.
///
/// # Panics
/// When it waits and nothing can wake it.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let woken = Arc::new(Flag(AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        assert!(woken.0.swap(false, Ordering::Relaxed), "stuck: nobody will wake this future");
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}

/// Makes a machine as `setup` describes, and opens its client's device. `polls` selects how the client waits.
///
/// # Panics
/// When the server refuses the session.
#[must_use]
pub fn open(setup: &Setup, polls: bool) -> (FakePlatform, Device<FakePlatform>) {
    let platform = FakePlatform::new(setup);
    let environment = platform.environment("alice", vec![]);
    let options = Options { ring_entries: setup.ring_entries, polls, waits: setup.waits };
    let device = block_on(Device::open(platform.clone(), &environment, options)).expect("a session");
    (platform, device)
}

/// Gives the device, which runs beside the caller, a turn.
pub async fn turn() {
    let mut had = false;
    poll_fn(|context| {
        if core::mem::replace(&mut had, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl World {
    fn server(&self) -> core::cell::RefMut<'_, FakeServer> {
        self.server.borrow_mut()
    }

    /// Waits for the successor of a dead policy component, as its caller does. Returns whether there is one.
    fn policy_answers(&self) -> bool {
        (0..CALL_TICKS).any(|_| !count_down(&self.policy_rebirth))
    }

    /// Counts a turn of the server, and kills it after its last.
    fn count_turn(&self) {
        match self.doom.take() {
            Some((0, ticks)) => self.end_server(ticks),
            doom => self.doom.set(doom.map(|(turns, ticks)| (turns - 1, ticks))),
        }
    }

    fn end_server(&self, ticks: u32) {
        self.server().forget();
        // One that is dead already stays so for longer.
        if Incarnation::load(&self.liveness).expect("a page").is_alive() {
            advance_incarnation(&self.liveness);
        }
        self.rebirth.set(ticks.max(1));
    }

    /// Waits for the successor of a dead server, as its caller does. Returns whether there is one.
    fn turn_over_a_call(&self) -> bool {
        self.count_turn();
        (0..CALL_TICKS).any(|_| !self.tick())
    }

    /// Makes a tick if the server is dead. Returns whether it did.
    fn tick(&self) -> bool {
        let ticked = count_down(&self.rebirth);
        if ticked && self.rebirth.get() == 0 {
            advance_incarnation(&self.liveness);
        }
        ticked
    }

    /// Makes a tick if the policy component refuses further calls until one. Returns whether it did.
    fn tick_policy(&self) -> bool {
        self.server().policy_rests()
    }

    /// Advances the clock by a microsecond, at each read of it and each system call.
    fn pass_time(&self) -> u64 {
        self.ticks.set(self.ticks.get() + self.pace.get());
        self.ticks.get()
    }

    /// Delivers the message or signal to the component that the client reached.
    fn take(&self) {
        self.pass_time();
        match self.around.receive() {
            Some(Delivery::Message(Badge(SERVER), message)) => {
                let answers = self.turn_over_a_call();
                self.reply(answers.then(|| self.server().answer(&message)));
            }
            Some(Delivery::Message(Badge(POLICY), message)) => {
                let answers = self.policy_answers();
                self.reply(answers.then(|| self.server().ask(&message)));
            }
            Some(Delivery::Signal(Badge(DOORBELL))) => self.doorbells.set(self.doorbells.get() + 1),
            Some(Delivery::Signal(Badge(cptr @ ALARM..=LAST_ALARM))) => {
                self.alarm_set.set(Some(u64::from(alarm::CLIENT_US[(cptr - ALARM) as usize]) * 1000));
            }
            Some(Delivery::Signal(Badge(PEER))) => self.peer_signalled.set(true),
            other => assert_eq!(other, None, "from the client"),
        }
    }

    /// Replies with `answer`; without one, the kernel replies, as after the supervisor took the capability.
    fn reply(&self, answer: Option<Message>) {
        self.around.invoker().reply(&answer.unwrap_or(Message::new(Message::NO_CAPABILITY)));
    }
}

/// Counts down a dead component's ticks. Returns whether it was dead.
fn count_down(rebirth: &Cell<u32>) -> bool {
    let left = rebirth.get().checked_sub(1);
    rebirth.set(left.unwrap_or_default());
    left.is_some()
}

fn advance_incarnation(page: &Ram) {
    let incarnation = Incarnation::load(page).expect("a page");
    incarnation.next().store(page).expect("a page of ours");
}

impl Platform for FakePlatform {
    type Kernel = Invoker;
    type Memory = Ram;
    type Mmio = Registers;

    fn kernel(&self) -> &Invoker {
        &self.kernel
    }

    fn memory(&self, region: &Region) -> Result<Ram, OutOfBounds> {
        self.world.start.at(region)
    }

    fn mmio(&self, _: Vaddr, _: usize) -> Result<Registers, OutOfBounds> {
        Err(OutOfBounds)
    }

    fn ticks(&self) -> u64 {
        self.world.pass_time()
    }

    fn ticks_per_second(&self) -> u64 {
        1_000_000_000
    }

    fn next_event(&self) -> impl Future<Output = Event> {
        poll_fn(|_| match self.poll_event() {
            Some(event) => Poll::Ready(event),
            None => Poll::Pending,
        })
    }

    fn poll_event(&self) -> Option<Event> {
        self.world.count_turn();
        if self.world.tick() {
            return Some(Event::Signal(Badge(Badge::SIGNAL | Badge::TICK)));
        }
        if self.world.peer_signalled.take() {
            return Some(Event::Signal(Badge(PEERS_BADGE)));
        }
        if self.server(FakeServer::step) {
            return Some(Event::Signal(Badge(Badge::SIGNAL | 1)));
        }
        if let Some(ticks) = self.world.alarm_set.take() {
            self.world.alarms.set(self.world.alarms.get() + 1);
            self.world.ticks.set(self.world.ticks.get() + ticks);
            return Some(Event::Signal(Badge(Badge::SIGNAL | Badge::ALARM)));
        }
        (self.world.tick_policy() || self.world.ticks_come.get())
            .then_some(Event::Signal(Badge(Badge::SIGNAL | Badge::TICK)))
    }

    async fn yield_now(&self) {
        self.world.count_turn();
        self.world.tick();
        self.server(FakeServer::step);
    }

    fn report(&self, bytes: &[u8]) {
        self.world.reports.borrow_mut().push(Report::decode(bytes).expect("a report"));
    }
}

impl Abuse for FakePlatform {}
