//! The machine: the controller, the memory that it reaches, its interrupts, and the platform made of them.

use blk_client::Options;
use nvme_spec::identify;
use pci_api::Refusal;
use platform::fake::{Ram, Start};
use platform::{
    Badge, CPtr, Environment, Event, Memory, Mmio, OutOfBounds, PAGE_SIZE, Platform, Region, RegionKind, Vaddr,
};
use sim_fault::{ControllerEffect, Fault};
use sim_nvme::config::Capabilities;
use sim_nvme::{AccessSize, Blocked, Config, Host, Level, NamespaceConfig};
use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;
use zerocopy::FromBytes;

/// Slots of the client's CSpace.
pub(super) const CNODE: u64 = 2;
pub(super) const RECEIVE: u64 = 5;
pub(super) const PCI: u64 = 9;
pub(super) const EVENT: u64 = 10;
pub(super) const ALARM: u64 = 11;
const DMA: u64 = 1000;
const TABLES: u64 = 5000;
const WINDOW: u64 = 10_000;
const FREE: u64 = 1_000_000;
/// Address at which BAR 0 is mapped.
pub(super) const ARENA: u64 = 0x5000_0000;
/// The controller status (NVM Express 1.4, section 3.1.6), and its bit of a fatal one.
const CSTS: u64 = 0x1c;
const CFS: u64 = 1 << 1;
/// Pages of BAR 0 before the MSI-X table.
pub(super) const BAR_PAGES: u16 = 2;
/// Time after which a waiting client is stuck, nanoseconds.
const PATIENCE_NS: u64 = 60_000_000_000;
/// Time between two ticks, nanoseconds.
const TICK_NS: u64 = 50_000_000;
const PAGE: u64 = PAGE_SIZE as u64;

/// Properties of the machine.
pub(crate) struct Setup {
    /// Blocks of 512 bytes of the namespace.
    pub blocks: u64,
    /// MDTS: a command moves 2^MDTS pages.
    pub mdts: u8,
    /// The most commands that a queue of the controller holds.
    pub depth: u16,
    pub ring_entries: u32,
    pub window_bytes: u64,
    pub polls: bool,
    pub vectors: u16,
    /// Whether an interrupt stays masked until it is acknowledged.
    pub masks: bool,
    /// Whether the controller has optional commands.
    pub optional: bool,
    /// Whether the controller has a namespace.
    pub attached: bool,
    /// Time at which the function can be claimed, nanoseconds.
    pub claimable_at_ns: u64,
    /// The PCI server's answer to a claim before.
    pub claim_refusal: Refusal,
    /// Time at which the controller comes online, nanoseconds: before, it reports a fatal status.
    pub online_at_ns: u64,
    pub dma_pages: u32,
    pub io_tables: u64,
    /// Whether addresses are translated.
    pub iommu: bool,
    pub faults: Vec<Fault>,
    /// Changes the controller's other properties.
    pub adapt: fn(&mut Config),
    /// Whether the client may ask for alarms.
    pub alarm: bool,
    /// Pages of telemetry.
    pub telemetry_pages: usize,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            blocks: 4096,
            mdts: 1,
            depth: 8,
            ring_entries: 16,
            window_bytes: 1 << 20,
            polls: false,
            vectors: 2,
            masks: false,
            optional: true,
            attached: true,
            claimable_at_ns: 0,
            claim_refusal: Refusal::NoSuchFunction,
            online_at_ns: 0,
            dma_pages: 16,
            io_tables: 16,
            iommu: true,
            faults: vec![],
            adapt: |_| (),
            alarm: false,
            telemetry_pages: 0,
        }
    }
}

/// Object in a slot that was empty at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Object {
    /// The client's notification with this badge.
    Notification(u64),
    IoSpace,
    /// The interrupt handler of this vector.
    Handler(u16),
}

/// The controller's surroundings: memory and interrupts.
pub(super) struct Bus {
    /// IOVA page -> memory, offset in it, slot of the frame.
    pub pages: BTreeMap<u64, (Ram, usize, u64)>,
    /// Levels of IO page tables that are there: (shift, index).
    pub tables: BTreeSet<(u32, u64)>,
    /// Badges by vector.
    pub vectors: BTreeMap<u16, u64>,
    /// Vectors that were raised and not acknowledged, if those stay masked, and whether each was raised again.
    pub masked: BTreeMap<u16, bool>,
    masks: bool,
    /// Signals on the client's notification.
    pub signals: u64,
    /// Interrupts that arrived.
    pub interrupts: u64,
    /// Accesses of memory that is not mapped.
    pub blocked: Vec<u64>,
    /// The optional commands to hide in the next identify data.
    hides_optional: bool,
}

pub(super) struct State {
    pub controller: sim_nvme::Controller,
    pub bus: Bus,
    pub vectors: u16,
    pub iommu: bool,
    start: Start,
    pub slots: BTreeMap<u64, Object>,
    /// Slot of a frame -> memory and offset in it.
    pub frames: BTreeMap<u64, (Ram, usize)>,
    pub tables_left: BTreeSet<u64>,
    pub is_claimed: bool,
    pub claimable_at_ns: u64,
    pub claim_refusal: Refusal,
    pub is_withdrawn: bool,
    /// The claim is one from before the withdrawal.
    pub claim_is_withdrawn: bool,
    online_at_ns: u64,
    /// Calls of the PCI server.
    pub calls: Vec<u32>,
    pub acknowledged: u64,
    pub now_ns: u64,
    options: Options,
    /// A client that waits receives a tick when nothing else comes.
    ticks_come: bool,
    /// Ticks that came.
    ticks: u64,
    /// Time at which the alarm goes off that the client asked for.
    alarm_at_ns: Option<u64>,
    /// Alarms that went off.
    alarms: u64,
}

/// The machine, and the platform of its client, with its kernel and BAR 0. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Machine(Rc<RefCell<State>>);

impl Machine {
    /// Makes a machine as `setup` describes.
    pub(crate) fn new(setup: Setup) -> Self {
        Self(Rc::new(RefCell::new(state(setup))))
    }

    pub(super) fn state(&self) -> RefMut<'_, State> {
        self.0.borrow_mut()
    }

    /// Options to open the session with.
    pub(crate) fn options(&self) -> Options {
        self.state().options
    }

    /// The client's environment.
    pub(crate) fn environment(&self) -> Environment {
        self.state().start.environment.clone()
    }

    /// Lets the controller suffer a fault now.
    pub(crate) fn strike(&self, effect: ControllerEffect) {
        let State { controller, bus, .. } = &mut *self.state();
        controller.strike(effect, &mut Port { bus });
    }

    /// Posts a completion that no command waits for.
    pub(crate) fn forge(&self, change: impl FnOnce(&mut nvme_spec::Cqe)) {
        let State { controller, bus, .. } = &mut *self.state();
        controller.forge(nvme_spec::QueueId(1), change, &mut Port { bus });
    }

    /// Ticks a client that waits with no other event pending, from now on.
    pub(crate) fn tick_who_waits(&self) {
        self.state().ticks_come = true;
    }

    /// Ticks that came to the client.
    pub(crate) fn ticks_sent(&self) -> u64 {
        self.state().ticks
    }

    /// Bytes of the namespace.
    pub(crate) fn disk(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.state().controller.read_contents(1, offset, &mut bytes).expect("blocks of the namespace");
        bytes
    }

    /// I/O commands that the controller fetched.
    pub(crate) fn commands(&self) -> u64 {
        let mut state = self.state();
        let fetched = state.controller.take_events().filter(|event| match event {
            sim_nvme::Event::Fetched { sq, .. } => *sq != 0,
            _ => false,
        });
        fetched.count() as u64
    }

    /// Alarms that went off.
    pub(crate) fn alarms(&self) -> u64 {
        self.state().alarms
    }

    /// Interrupts that arrived so far.
    pub(crate) fn interrupts(&self) -> u64 {
        self.state().bus.interrupts
    }

    /// Acknowledgements of interrupts so far.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.state().acknowledged
    }

    /// The calls of the PCI server so far, taken.
    pub(crate) fn take_calls(&self) -> Vec<u32> {
        std::mem::take(&mut self.state().calls)
    }

    /// Time since the start, nanoseconds.
    pub(crate) fn now_ns(&self) -> u64 {
        self.state().now_ns
    }

    /// Has the controller reset and offline for `ns` nanoseconds, as when the NVMe server resets the primary one.
    pub(crate) fn reset(&self, ns: u64) {
        // The model knows that the driver does not know yet.
        self.strike(ControllerEffect::PowerLoss);
        let mut state = self.state();
        state.online_at_ns = state.now_ns.saturating_add(ns);
    }

    /// Sets the controller online now.
    pub(crate) fn set_online(&self) {
        self.state().online_at_ns = 0;
    }

    /// The PCI server withdraws the function, which the NVMe server has set offline.
    pub(crate) fn withdraw(&self) {
        self.reset(u64::MAX);
        let mut state = self.state();
        (state.is_withdrawn, state.claim_is_withdrawn) = (true, state.is_claimed);
        state.bus.pages.clear();
        state.bus.vectors.clear();
    }

    /// Restores the function, and sets it online.
    pub(crate) fn restore(&self) {
        self.state().is_withdrawn = false;
        self.set_online();
    }

    /// Whether the function is claimed.
    pub(crate) fn is_claimed(&self) -> bool {
        self.state().is_claimed
    }
}

/// At the end of each test, the client has broken no rule of the controller or the bus.
impl Drop for State {
    fn drop(&mut self) {
        let violations = self.controller.violations().iter().map(|violation| format!("{:?}", violation.kind));
        let blocked = self.bus.blocked.iter().map(|iova| format!("DMA at {iova:#x}"));
        let complaints: Vec<_> = violations.chain(blocked).collect();
        assert!(std::thread::panicking() || complaints.is_empty(), "{complaints:?}");
    }
}

fn state(setup: Setup) -> State {
    let mut config = Config {
        capabilities: Capabilities {
            queue_entries: u32::from(setup.depth) + 1,
            timeout_500ms: 1,
            ..Capabilities::default()
        },
        queue_pairs: 1,
        vectors: setup.vectors,
        mdts: setup.mdts,
        namespaces: if setup.attached { vec![NamespaceConfig::zeroes(setup.blocks * 512)] } else { vec![] },
        ready_ns: 1000,
        faults: setup.faults,
        recording: sim_nvme::config::Recording::Events,
        ..Config::default()
    };
    (setup.adapt)(&mut config);
    let mut frames = BTreeMap::new();
    let mut start = Start::new("tenant");
    start.environment.cnode = Some(CPtr::new(CNODE));
    start.environment.free_cptrs = FREE..FREE + 8;
    start.environment.receive_cptr = Some(CPtr::new(RECEIVE));
    for (name, first, bytes) in
        [("dma", DMA, u64::from(setup.dma_pages) * PAGE), ("window", WINDOW, setup.window_bytes)]
    {
        let (ram, pages) = (Ram::new(bytes as usize), bytes.div_ceil(PAGE));
        frames.extend((0..pages).map(|page| (first + page, (ram.clone(), (page * PAGE) as usize))));
        start.memory(name, RegionKind::ReadWrite, &ram);
        start.caps(name, first, pages as u32);
    }
    start.caps("pci", PCI, 1);
    start.caps("event", EVENT, 1);
    if setup.telemetry_pages > 0 {
        start.memory("telemetry", RegionKind::ReadWrite, &Ram::new(setup.telemetry_pages * PAGE_SIZE));
    }
    start.caps("io-table", TABLES, setup.io_tables as u32);
    if setup.alarm {
        start.caps("alarm", ALARM, platform::alarm::CLIENT_US.len() as u32);
    }
    State {
        controller: sim_nvme::Controller::new(config, 0),
        bus: Bus {
            pages: BTreeMap::new(),
            tables: BTreeSet::new(),
            vectors: BTreeMap::new(),
            masked: BTreeMap::new(),
            masks: setup.masks,
            signals: 0,
            interrupts: 0,
            blocked: vec![],
            hides_optional: !setup.optional,
        },
        vectors: setup.vectors,
        iommu: setup.iommu,
        start,
        slots: BTreeMap::new(),
        frames,
        tables_left: (TABLES..TABLES + setup.io_tables).collect(),
        is_claimed: false,
        claimable_at_ns: setup.claimable_at_ns,
        claim_refusal: setup.claim_refusal,
        is_withdrawn: false,
        claim_is_withdrawn: false,
        online_at_ns: setup.online_at_ns,
        calls: vec![],
        acknowledged: 0,
        now_ns: 0,
        options: Options { ring_entries: setup.ring_entries, polls: setup.polls, waits: false },
        ticks_come: false,
        ticks: 0,
        alarm_at_ns: None,
        alarms: 0,
    }
}

impl State {
    /// Lets the controller work for `ns` nanoseconds.
    fn pass(&mut self, ns: u64) {
        self.now_ns += ns;
        self.controller.advance(self.now_ns, &mut Port { bus: &mut self.bus });
    }

    fn receive(&mut self) -> Option<Event> {
        match std::mem::take(&mut self.bus.signals) {
            0 => None,
            signals => Some(Event::Signal(Badge(signals))),
        }
    }

    /// Has an alarm go off in `ns` nanoseconds.
    pub(super) fn set_alarm(&mut self, ns: u64) {
        self.alarm_at_ns = Some(self.now_ns + ns);
    }

    /// Waits for an event, if one comes.
    fn wait(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.receive() {
                return Some(event);
            }
            let next_ns = self.controller.next_event_ns().filter(|at_ns| *at_ns < self.now_ns + PATIENCE_NS);
            if let Some(at_ns) = self.alarm_at_ns.filter(|at_ns| next_ns.is_none_or(|next_ns| *at_ns <= next_ns)) {
                (self.alarm_at_ns, self.alarms) = (None, self.alarms + 1);
                self.pass(at_ns.saturating_sub(self.now_ns));
                self.bus.signals |= Badge::SIGNAL | Badge::ALARM;
                continue;
            }
            match next_ns {
                Some(at_ns) => self.pass(at_ns.saturating_sub(self.now_ns)),
                None if self.ticks_come => {
                    self.ticks += 1;
                    self.pass(TICK_NS);
                    self.bus.signals |= Badge::SIGNAL | Badge::TICK;
                }
                None => return None,
            }
        }
    }
}

impl Bus {
    fn interrupt(&mut self, vector: u16) {
        self.interrupts += 1;
        if let Some(again) = self.masked.get_mut(&vector) {
            *again = true;
            return;
        }
        if self.masks {
            self.masked.insert(vector, false);
        }
        self.signals |= self.vectors.get(&vector).copied().unwrap_or_default();
    }

    /// Whether interrupts stay masked until they are acknowledged.
    pub(super) fn has_masks(&self) -> bool {
        self.masks
    }

    /// The interrupt can come again; one that came meanwhile does now.
    pub(super) fn unmask(&mut self, vector: u16) {
        if self.masked.remove(&vector) == Some(true) {
            self.interrupts -= 1;
            self.interrupt(vector);
        }
    }

    fn translate(&mut self, iova: u64) -> Option<(Ram, usize)> {
        match self.pages.get(&(iova / PAGE)) {
            Some((ram, offset, _)) => Some((ram.clone(), offset + (iova % PAGE) as usize)),
            None => {
                self.blocked.push(iova);
                None
            }
        }
    }
}

/// The controller's access to the machine.
struct Port<'a> {
    bus: &'a mut Bus,
}

/// The pieces of an access, each inside a page: address, and place in the bytes.
fn pieces(address: u64, len: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let from = address + at as u64;
        let piece = ((PAGE - from % PAGE) as usize).min(len - at);
        (piece > 0).then(|| {
            at += piece;
            (from, at - piece..at)
        })
    })
}

impl Host for Port<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Blocked> {
        for (iova, place) in pieces(address, bytes.len()) {
            let (ram, offset) = self.bus.translate(iova).ok_or(Blocked)?;
            ram.read_bytes(offset, &mut bytes[place]).map_err(|_| Blocked)?;
        }
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Blocked> {
        let mut bytes = bytes.to_vec();
        if bytes.len() == PAGE_SIZE && std::mem::take(&mut self.bus.hides_optional) {
            let (about, _) = identify::Controller::mut_from_prefix(&mut bytes).expect("the whole structure");
            about.oncs.set(0);
        }
        for (iova, place) in pieces(address, bytes.len()) {
            let (ram, offset) = self.bus.translate(iova).ok_or(Blocked)?;
            ram.write_bytes(offset, &bytes[place]).map_err(|_| Blocked)?;
        }
        Ok(())
    }

    fn interrupt(&mut self, vector: u16) {
        self.bus.interrupt(vector);
    }

    fn is_bus_master(&self) -> bool {
        true
    }

    fn pin(&mut self, _: Level) {}
}

impl Platform for Machine {
    type Kernel = Self;
    type Memory = Ram;
    type Mmio = Self;

    fn kernel(&self) -> &Self {
        self
    }

    fn memory(&self, region: &Region) -> Result<Ram, OutOfBounds> {
        self.state().start.at(region)
    }

    fn mmio(&self, vaddr: Vaddr, len: usize) -> Result<Self, OutOfBounds> {
        assert_eq!((vaddr.bits(), len), (ARENA, usize::from(BAR_PAGES) * PAGE_SIZE));
        Ok(self.clone())
    }

    fn ticks(&self) -> u64 {
        let mut state = self.state();
        state.pass(100);
        state.now_ns
    }

    fn ticks_per_second(&self) -> u64 {
        1_000_000_000
    }

    fn next_event(&self) -> impl Future<Output = Event> {
        poll_fn(|_| self.state().wait().map_or(Poll::Pending, Poll::Ready))
    }

    fn poll_event(&self) -> Option<Event> {
        self.state().receive()
    }

    async fn yield_now(&self) {
        self.state().pass(10_000);
    }

    fn report(&self, _: &[u8]) {}
}

/// BAR 0.
impl Machine {
    fn offset(&self, offset: usize, size: AccessSize) -> Result<u64, OutOfBounds> {
        let bytes = size.bytes() as usize;
        let fits = offset.is_multiple_of(bytes) && offset + bytes <= Mmio::len(self);
        if fits { Ok(offset as u64) } else { Err(OutOfBounds) }
    }

    fn read(&self, offset: usize, size: AccessSize) -> Result<u64, OutOfBounds> {
        let offset = self.offset(offset, size)?;
        let state = &mut *self.state();
        let value = state.controller.read(offset, size);
        let is_offline = state.now_ns < state.online_at_ns;
        Ok(if is_offline && offset == CSTS { value | CFS } else { value })
    }

    fn write(&self, offset: usize, size: AccessSize, value: u64) -> Result<(), OutOfBounds> {
        let offset = self.offset(offset, size)?;
        let State { controller, bus, now_ns, .. } = &mut *self.state();
        controller.write(offset, size, value, *now_ns, &mut Port { bus });
        Ok(())
    }
}

impl Mmio for Machine {
    fn len(&self) -> usize {
        usize::from(BAR_PAGES) * PAGE_SIZE
    }

    fn read32(&self, offset: usize) -> Result<u32, OutOfBounds> {
        Ok(self.read(offset, AccessSize::Four)? as u32)
    }

    fn write32(&self, offset: usize, value: u32) -> Result<(), OutOfBounds> {
        self.write(offset, AccessSize::Four, value.into())
    }

    fn read64(&self, offset: usize) -> Result<u64, OutOfBounds> {
        self.read(offset, AccessSize::Eight)
    }

    fn write64(&self, offset: usize, value: u64) -> Result<(), OutOfBounds> {
        self.write(offset, AccessSize::Eight, value)
    }
}
