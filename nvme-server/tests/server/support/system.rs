//! The running server with its clients, polled by hand: each run is the same.

use super::bus::{Act, Bus, Wires};
use super::controller::Controller;
use super::memory::Ram;
use super::shape::Shape;
use super::world::{self, State, TICKS_PER_SECOND, World};
use blk_api::administration::{Administration, Rights};
use blk_api::config::{
    Class, ClassWeights, Completion, FunctionConfig, Interrupts, Quirk, SchedulingPolicy, ServerConfig, SessionConfig,
    badge,
};
use blk_api::extent::{Extent, ExtentMap};
use blk_api::names;
use blk_api::policy::{self, Entitlement, Record};
use blk_api::queue_sharing::QueueSharing;
use blk_api::request::{Entry, Opcode, Segment};
use blk_api::ring::{self, ClientEnd, Completed};
use blk_api::session::{CLOSE, DONE, Geometry, OPEN, Refusal};
use blk_api::trace::Kinds;
use pci_api::presence::Visit;
use platform::alarm::SERVER_US;
use platform::fake::Start;
use platform::{Badge, CPtr, Incarnation, Memory, Message, RegionKind};
use report::{Report, ResetScope};
use sim_nvme::config::CommandLimits;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Bytes of every window.
pub(crate) const WINDOW: usize = 256 << 10;
/// Frames of every window.
const WINDOW_PAGES: u64 = WINDOW as u64 / 4096;
/// Polls after which a server that still yields is not polled further: it polls for an event that does not come.
const MAX_POLLS: usize = 8000;

pub(crate) struct Setup {
    pub sessions: Vec<Tenant>,
    pub functions: Vec<FunctionConfig>,
    /// First content of the page of presence, for a controller in a slot.
    pub slot: Option<Visit>,
    /// Records that the server keeps.
    pub records: u32,
    pub shape: Shape,
    pub wires: Wires,
    pub msix_vectors: u16,
    pub dma_pages: u32,
    /// Pages at the pool's end that are not there when the server writes to them.
    pub lost_dma_pages: u32,
    pub io_tables: u64,
    pub policy: SchedulingPolicy,
    pub class_weights: ClassWeights,
    pub queues: QueueSharing,
    pub quirks: Vec<Quirk>,
    /// Administration, with a window of the same length as sessions'.
    pub administration: Option<Rights>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            sessions: vec![session("first", 0), session("second", 1000)],
            functions: vec![],
            slot: None,
            records: 64,
            shape: Shape {
                left_attached_to: None,
                saved: Vec::new(),
                mqes_z: 63,
                mdts: 1,
                queue_pairs: 4,
                blocks: 4096,
                optional: true,
                weighted: false,
                version: (1, 4),
                command_sets: vec![],
                cap: None,
                limits: CommandLimits::default(),
                retry_delays: [0; 3],
                functions: 0,
                flexible: 0,
                cache: false,
                subsystem_reset: false,
            },
            wires: Wires::Msix,
            msix_vectors: 3,
            dma_pages: 64,
            lost_dma_pages: 0,
            io_tables: 16,
            policy: SchedulingPolicy::default(),
            class_weights: ClassWeights::default(),
            queues: QueueSharing::Dedicated,
            quirks: vec![],
            administration: None,
        }
    }
}

/// A session as the server receives it, and its blocks, which the policy component knows.
#[derive(Clone)]
pub(crate) struct Tenant {
    pub config: SessionConfig,
    pub extents: Vec<Extent>,
}

/// A session of 1000 blocks from `first` on.
pub(crate) fn session(tenant: &str, first: u64) -> Tenant {
    let config = SessionConfig {
        tenant: tenant.to_string(),
        class: Class::Medium,
        highest: Class::Medium,
        weight: 1,
        iops_limit: None,
        bandwidth_limit: None,
        queue_pairs: 1,
        depth: 8,
        most_queue_pairs: 0,
        most_depth: 0,
        core: 0,
        nsid: 1,
        blocks: 1000,
        writable: true,
        completion: Completion::Interrupt,
        ring_entries: 16,
        window_bytes: WINDOW as u64,
        traced: Kinds::NONE,
    };
    Tenant { config, extents: vec![Extent::new(first, 1000)] }
}

impl Tenant {
    /// Returns the tenant with other blocks.
    pub(crate) fn with(mut self, extents: Vec<Extent>) -> Self {
        self.config.blocks = extents.iter().map(|extent| extent.blocks).sum();
        self.extents = extents;
        self
    }

    /// The tenant's share at the start.
    pub(crate) fn entitlement(&self) -> Entitlement {
        let SessionConfig { class, weight, queue_pairs, depth, .. } = self.config;
        let (iops, bandwidth) = (self.config.iops_limit, self.config.bandwidth_limit);
        Entitlement { class, weight, iops, bandwidth, queue_pairs, depth }
    }

    /// The records with the rights of session `number`.
    fn records(&self, number: u32) -> Vec<Record> {
        let record = |(first, extent): (u64, Extent)| {
            let writes = extent.writable && self.config.writable;
            let rights = if writes { policy::READ | policy::WRITE } else { policy::READ };
            Record { session: number, rights, first, lba: extent.first, blocks: extent.blocks }
        };
        ExtentMap::new(&self.extents).unwrap().runs().map(record).collect()
    }
}

/// An entry that moves `blocks` blocks at `offset` of the window.
pub(crate) fn entry(opcode: Opcode, lba: u64, blocks: u32, offset: u32) -> Entry {
    let mut entry = Entry { opcode: opcode as u8, lba, blocks, ..Entry::default() };
    if opcode.moves_data() {
        entry.segment_count = 1;
        entry.segments[0] = Segment { offset, len: blocks * 512 };
    }
    entry
}

/// Reads of the first `count` blocks, one each, numbered by them.
pub(crate) fn reads(count: u64) -> Vec<Entry> {
    (0..count).map(|n| Entry { user_data: n, ..entry(Opcode::Read, n, 1, 0) }).collect()
}

/// A system with two open sessions.
pub(crate) fn open() -> System {
    System::serving(Setup::default(), 2)
}

pub(crate) struct Client {
    pub window: Ram,
    pub ring_client: Ram,
    pub ring_server: Ram,
    /// The client's liveness page.
    pub liveness: Ram,
    pub end: ClientEnd<Ram>,
    entries: u32,
}

impl Client {
    fn new([window, ring_client, ring_server, liveness]: [Ram; 4], entries: u32) -> Self {
        let end = ClientEnd::new(ring_client.clone(), ring_server.read_only(), entries).unwrap();
        Self { window, ring_client, ring_server, liveness, end, entries }
    }

    /// Has the supervisor show that it died, or that it is alive again.
    pub(crate) fn advance_incarnation(&self) {
        advance_incarnation(&self.liveness);
    }

    /// Publishes an impossible tail.
    pub(crate) fn break_tail(&self) {
        self.ring_client.write(ring::PRODUCED, &u32::MAX).unwrap();
    }
}

/// Has the supervisor show in a liveness page that its component died, or that it is alive again.
pub(crate) fn advance_incarnation(liveness: &Ram) {
    Incarnation::load(liveness).unwrap().next().store(liveness).unwrap();
}

pub(crate) struct System {
    pub world: World,
    pub clients: Vec<Client>,
    /// The liveness pages of clients with virtual functions.
    pub drivers: Vec<Ram>,
    /// The page of presence of a controller in a slot.
    pub presence: Ram,
    /// The window of the component that administers the controller.
    pub asker: Ram,
    /// Records that the policy component installs for each session.
    records: Vec<Vec<Record>>,
    server: Pin<Box<dyn Future<Output = ()>>>,
    calls: u64,
}

impl System {
    /// Starts a server and lets it bring its controller up.
    pub(crate) fn start(setup: Setup) -> Self {
        Self::start_with(setup, |_, _| ())
    }

    /// Starts a server likewise, with a changed controller.
    pub(crate) fn start_with(setup: Setup, change: impl FnOnce(&mut Controller, &mut Bus)) -> Self {
        let rings: Vec<u32> = setup.sessions.iter().map(|session| session.config.ring_entries).collect();
        let records = (0..).zip(&setup.sessions).map(|(number, tenant)| tenant.records(number)).collect();
        let (presence, asker) = (Ram::new(4096), Ram::new(WINDOW));
        let (mut state, parts, drivers) = build(setup, &presence, &asker);
        let environment = state.start.environment.clone();
        change(&mut state.controller, &mut state.bus);
        let world = World::new(state);
        let clients = parts.into_iter().zip(rings).map(|(parts, entries)| Client::new(parts, entries)).collect();
        let server = Box::pin(nvme_server::run(world.clone(), environment));
        let mut system = Self { world, clients, drivers, presence, asker, records, server, calls: 0 };
        system.settle();
        system
    }

    /// Starts a server likewise, and opens its first `count` sessions.
    pub(crate) fn serving(setup: Setup, count: usize) -> Self {
        let mut system = Self::start(setup);
        for index in 0..count {
            system.open(index).unwrap();
        }
        system
    }

    /// Lets the server run until it sleeps and nothing wakes it.
    pub(crate) fn settle(&mut self) {
        for _ in 0..MAX_POLLS {
            self.world.state().yielded = false;
            let ended = self.server.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(ended, Poll::Pending, "the server serves for ever");
            let mut state = self.world.state();
            if !state.yielded {
                assert!(state.delivered.is_none(), "a server that waits for no event");
                state.delivered = state.receive();
                if state.delivered.is_none() {
                    break;
                }
            }
        }
        let complaints = self.world.state().bus.complaints.clone();
        assert!(complaints.is_empty(), "the controller complains: {complaints:?}");
    }

    /// Sends the supervisor's ticks of `seconds` seconds.
    pub(crate) fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds * 20 {
            self.tick();
        }
    }

    /// Has the supervisor show that a client died, or that it is alive again, and sends its tick.
    pub(crate) fn advance_client(&mut self, index: usize) {
        self.clients[index].advance_incarnation();
        self.tick();
    }

    pub(crate) fn tick(&mut self) {
        {
            let mut state = self.world.state();
            state.now += TICKS_PER_SECOND / 20;
            state.bus.signals |= Badge::SIGNAL | Badge::TICK;
        }
        self.settle();
    }

    /// Does something to the controller and lets the server see it.
    pub(crate) fn controller<R>(&mut self, act: impl FnOnce(&mut Controller, &mut Bus) -> R) -> R {
        let result = {
            let mut state = self.world.state();
            let State { controller, bus, .. } = &mut *state;
            act(controller, bus)
        };
        self.settle();
        result
    }

    /// Has the controller hold its commands from now on.
    pub(crate) fn holding(mut self) -> Self {
        self.controller(|controller, _| controller.hold = true);
        self
    }

    /// Lets the controller do the commands that it holds, and hold no more.
    pub(crate) fn finish_held(&mut self) {
        self.controller(|controller, bus| {
            controller.hold = false;
            controller.finish(bus, usize::MAX);
        });
    }

    /// Calls the server; returns the number by which to take the answer.
    pub(crate) fn begin_call(&mut self, badge: u64, label: u32) -> u64 {
        self.begin(badge, Message::new(label))
    }

    /// Calls with more than a label.
    pub(crate) fn begin(&mut self, badge: u64, message: Message) -> u64 {
        self.calls += 1;
        self.world.state().messages.push_back((badge, message, Some(self.calls)));
        self.settle();
        self.calls
    }

    pub(crate) fn answer(&self, call: u64) -> Option<Message> {
        self.world.state().answers.remove(&call)
    }

    pub(crate) fn call(&mut self, badge: u64, label: u32) -> Result<Message, Refusal> {
        let call = self.begin_call(badge, label);
        let answer = self.answer(call).expect("an answer");
        if answer.label == DONE { Ok(answer) } else { Err(Refusal::from_label(answer.label)) }
    }

    /// Sends without calling, as a client can that holds the right to call.
    pub(crate) fn send(&mut self, badge: u64, label: u32) {
        self.world.state().messages.push_back((badge, Message::new(label), None));
    }

    /// Sends the label with a capability, calling or not. Returns whether the server kept the capability, or did not look.
    pub(crate) fn send_capability(&mut self, badge: u64, label: u32, calls: bool) -> bool {
        let message = Message::new(label).and_cap(CPtr::new(world::EVENT));
        let call = calls.then(|| {
            self.calls += 1;
            self.calls
        });
        self.world.state().messages.push_back((badge, message, call));
        self.settle();
        let state = self.world.state();
        !state.messages.is_empty() || state.slots.contains_key(&world::RECEIVE)
    }

    pub(crate) fn open(&mut self, index: usize) -> Result<Geometry, Refusal> {
        let client = &mut self.clients[index];
        let (ours, theirs) = (client.ring_client.clone(), client.ring_server.read_only());
        client.end = ClientEnd::new(ours, theirs, client.entries).unwrap();
        let answer = self.call(index as u64 + 1, OPEN)?;
        self.install(index).unwrap();
        Ok(answer.payload().unwrap())
    }

    /// Has the policy component install all records of the session, until the server refuses one.
    pub(crate) fn install(&mut self, index: usize) -> Result<(), policy::Refusal> {
        let mut records = self.records[index].clone().into_iter();
        records.try_for_each(|record| self.policy(Message::with(policy::INSTALL, &record)))
    }

    /// Makes a call of the policy component that is answered at once.
    pub(crate) fn policy(&mut self, message: Message) -> Result<(), policy::Refusal> {
        let call = self.begin(policy::BADGE, message);
        let answer = self.answer(call).expect("an answer");
        if answer.label == policy::DONE { Ok(()) } else { Err(policy::Refusal::of(&answer)) }
    }

    /// Sets a share; if queue pairs are recreated for it and that is over, returns the outcome.
    pub(crate) fn set_share(&mut self, share: &policy::Share) -> Result<(), policy::Refusal> {
        let set = |system: &mut Self| system.policy(Message::with(policy::SET_SHARE, share));
        match set(self) {
            Err(policy::Refusal::Busy) => set(self),
            done => done,
        }
    }

    /// Number of signals to the policy component.
    pub(crate) fn policy_signals(&self) -> u64 {
        self.world.state().client_signals.get(&world::POLICY).copied().unwrap_or(0)
    }

    pub(crate) fn close(&mut self, index: usize) -> Result<(), Refusal> {
        self.call(index as u64 + 1, CLOSE).map(drop)
    }

    /// Puts entries on the ring and signals if the server asks for it.
    pub(crate) fn submit(&mut self, index: usize, entries: &[Entry]) {
        let end = &mut self.clients[index].end;
        for entry in entries {
            assert!(end.submit(entry).unwrap(), "room on the ring");
        }
        if end.publish().unwrap() {
            self.ring(index);
        }
        self.settle();
    }

    pub(crate) fn ring(&mut self, index: usize) {
        self.world.state().bus.signals |= badge::client(index as u32);
        self.settle();
    }

    /// Takes the completions.
    pub(crate) fn completions(&mut self, index: usize) -> Vec<Completed> {
        let end = &mut self.clients[index].end;
        let mut found = vec![];
        while let Some(completed) = end.complete().unwrap() {
            found.push(completed);
        }
        end.publish_taken().unwrap();
        found
    }

    /// Submits one entry and takes its one answer.
    pub(crate) fn request(&mut self, index: usize, mut entry: Entry) -> Completed {
        entry.user_data = 0x1234_5678 + entry.lba;
        self.submit(index, &[entry]);
        match self.completions(index)[..] {
            [completed] => {
                assert_eq!(completed.user_data, entry.user_data);
                completed
            }
            ref others => panic!("one answer, not {others:?}"),
        }
    }

    pub(crate) fn take_acts(&self) -> Vec<Act> {
        std::mem::take(&mut self.world.state().bus.acts)
    }

    /// Sentences of the failures reported so far, taken.
    pub(crate) fn take_failures(&self) -> Vec<String> {
        let reports = std::mem::take(&mut self.world.state().reports);
        let failure = |report| match report {
            Report::Failure { reason, .. } => Some(reason.to_string()),
            Report::Reset { scope: ResetScope::Controller, reason, .. } => Some(format!("controller reset: {reason}")),
            Report::Reset { scope, reason, .. } => Some(format!("{scope:?} given up: {reason}")),
            _ => None,
        };
        reports.into_iter().filter_map(failure).collect()
    }

    /// Pages of a window that the device reaches.
    pub(crate) fn mapped_pages(&self, index: usize) -> usize {
        let state = self.world.state();
        state.bus.mapped.keys().filter(|slot| frames_of(index).contains(slot)).count()
    }

    pub(crate) fn client_signals(&self, index: usize) -> u64 {
        self.world.state().client_signals.get(&(world::CLIENTS + index as u64)).copied().unwrap_or(0)
    }
}

impl System {
    /// Whether the supervisor was notified that nothing is left of session `index`, whose client is dead; and the number of all
    /// such notifications.
    pub(crate) fn teardown_ack(&self, index: usize) -> (bool, u64) {
        self.ack_of(&self.clients[index].liveness, index)
    }

    /// Whether the supervisor was notified about virtual function `index`, and the number of such notifications.
    pub(crate) fn function_ack(&self, index: usize) -> (bool, u64) {
        self.ack_of(&self.drivers[index], self.clients.len() + index)
    }

    fn ack_of(&self, liveness: &Ram, word: usize) -> (bool, u64) {
        let state = self.world.state();
        let page = state.start.at(state.start.environment.region("teardown-acks").unwrap()).unwrap();
        let death = Incarnation::load(liveness).unwrap();
        let reported = state.client_signals.get(&world::TORN_DOWN).copied().unwrap_or(0);
        (death.is_teardown_acknowledged(&page, word as u32).unwrap(), reported)
    }
}

/// Slots of a window's frames.
pub(crate) fn frames_of(index: usize) -> std::ops::Range<u64> {
    let first = world::WINDOWS + index as u64 * world::WINDOW_STEP;
    first..first + WINDOW_PAGES
}

fn build(setup: Setup, presence: &Ram, asker: &Ram) -> (State, Vec<[Ram; 4]>, Vec<Ram>) {
    let mut start = Start::new("nvme-server");
    start.environment.cnode = Some(CPtr::new(world::CNODE));
    start.environment.free_cptrs = world::FREE..world::FREE + 512;
    start.environment.receive_cptr = Some(CPtr::new(world::RECEIVE));
    for (name, slot) in [("pci", world::PCI), ("event", world::EVENT), ("torn-down", world::TORN_DOWN)] {
        start.caps(name, slot, 1);
    }
    start.caps("policy", world::POLICY, 1);
    start.caps("alarm", world::ALARM, SERVER_US.len() as u32);
    start.caps("dma", world::DMA, setup.dma_pages);
    start.caps("io-table", world::TABLES, setup.io_tables as u32);
    let mut frames = BTreeMap::new();
    let mut put = |first: u64, ram: &Ram, pages: u64| {
        frames.extend((0..pages).map(|page| (first + page, (ram.clone(), page as usize * 4096))));
    };
    let dma = Ram::new((setup.dma_pages - setup.lost_dma_pages) as usize * 4096);
    put(world::DMA, &dma, u64::from(setup.dma_pages));
    start.memory("dma", RegionKind::ReadWrite, &dma);
    start.environment.regions[0].len = u64::from(setup.dma_pages) * 4096;
    start.memory("teardown-acks", RegionKind::ReadWrite, &Ram::new(4096));
    if let Some(visit) = setup.slot {
        visit.store(presence).unwrap();
        start.memory("presence", RegionKind::ReadOnly, presence);
    }
    let mut clients = vec![];
    let mut sessions: Vec<SessionConfig> = setup.sessions.into_iter().map(|tenant| tenant.config).collect();
    for session in &mut sessions {
        // A session may always have what it has at the start.
        session.most_queue_pairs = session.most_queue_pairs.max(session.queue_pairs);
        session.most_depth = session.most_depth.max(session.depth);
    }
    for (index, session) in sessions.iter().enumerate() {
        let window = Ram::new(WINDOW);
        let ring_client = Ram::new(ring::client_region_bytes(session.ring_entries) as usize);
        let ring_server = Ram::new(ring::server_region_bytes(session.ring_entries) as usize);
        put(frames_of(index).start, &window, WINDOW_PAGES);
        start.caps(&format!("window-{index}"), frames_of(index).start, WINDOW_PAGES as u32);
        start.caps(&format!("client-{index}"), world::CLIENTS + index as u64, 1);
        start.memory(&format!("ring-client-{index}"), RegionKind::ReadOnly, &ring_client);
        start.memory(&format!("ring-server-{index}"), RegionKind::ReadWrite, &ring_server);
        let liveness = Ram::new(4096);
        start.memory(&format!("liveness-{index}"), RegionKind::ReadOnly, &liveness);
        clients.push([window, ring_client, ring_server, liveness]);
    }
    if setup.administration.is_some() {
        put(world::ADMINISTRATION, asker, WINDOW_PAGES);
        start.caps(names::ADMINISTRATION_WINDOW, world::ADMINISTRATION, WINDOW_PAGES as u32);
        start.caps(names::ADMINISTRATOR, world::ADMINISTRATOR, 1);
    }
    let drivers: Vec<Ram> = setup.functions.iter().map(|_| Ram::new(4096)).collect();
    for (number, liveness) in (0..).zip(&drivers) {
        start.memory(&blk_api::names::function_liveness(number), RegionKind::ReadOnly, liveness);
    }
    let config = ServerConfig {
        interrupts: match setup.wires {
            Wires::Msix => Interrupts::Msix,
            Wires::Msi => Interrupts::Msi,
            Wires::Intx { .. } | Wires::SharedIntx { .. } => Interrupts::Intx,
        },
        policy: setup.policy,
        class_weights: setup.class_weights,
        queue_sharing: setup.queues,
        sessions,
        functions: setup.functions,
        records: setup.records,
        merging: true,
        quirks: setup.quirks,
        administration: setup.administration.map(|rights| Administration { rights, window_bytes: WINDOW as u64 }),
    };
    start.environment.config = postcard::to_allocvec(&config).unwrap();
    let mut bus = Bus::new(setup.wires);
    let state = State {
        controller: Controller::new(setup.shape, &mut bus),
        bus,
        msix_vectors: setup.msix_vectors,
        msi_vectors: 2,
        functions_at: None,
        refused_withdrawals: 0,
        is_released: false,
        refused_interrupts: None,
        start,
        slots: BTreeMap::new(),
        frames,
        tables_left: (world::TABLES..world::TABLES + setup.io_tables).collect::<BTreeSet<_>>(),
        refused_tables: 0,
        messages: VecDeque::new(),
        delivered: None,
        open_call: None,
        answers: BTreeMap::new(),
        alarms: 0,
        client_signals: BTreeMap::new(),
        reports: vec![],
        now: 0,
        yielded: false,
    };
    (state, clients, drivers)
}
