//! The server at work on a made-up machine, and drivers that call it.

use super::bus::{Device, at};
use super::kernel::DRIVER_SLOTS;
use super::machine::{ARENA, ARENA_LEN, Act, ECAM, Machine, Object, SIZING, Slot, State, Stopped};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use pci_api::{
    CLAIM, Claim, Claimed, DriverConfig, GRANTED, IO_SPACE, Index, IntxRouting, Match, Refusal, ServerConfig, VECTOR,
};
use pci_spec::Bdf;
use platform::{Badge, CPtr, Environment, Event, Message, Name, NamedCaps, Paddr, Region, RegionKind, Vaddr};
use std::boxed::Box;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

pub(super) const OWN_VSPACE: u64 = 10;
pub(super) const RECEIVE_SLOT: u64 = 5;
pub(super) const DRIVER_VSPACE: u64 = 11;
pub(super) const DRIVER_ARENA: u64 = 0x5000_0000;
/// The slot of its own notification.
const EVENT: u64 = 4;
/// The first slot it may fill.
const FREE: u64 = 64;
/// Slots of the notifications by which the supervisor is told of silent devices.
const SILENCED: u64 = 20;
/// Where the drivers' pages of lives are.
pub(super) const LIVES: u64 = 0x7000_0000;
pub(super) const WINDOW: u64 = 0xc000_0000;
pub(super) const NVME_CLASS: u32 = 0x01_08_02;

/// The controller behind the root port: driver 1's.
pub(super) const BEHIND_PORT: Bdf = Bdf::from_raw(0x0100);
/// The controller on the root bus: driver 2's.
pub(super) const ON_ROOT: Bdf = Bdf::from_raw(3 << 3);
/// The controller behind two bridges, of which the upper is a conventional one: driver 3's.
pub(super) const BEHIND_BRIDGES: Bdf = Bdf::from_raw(0x0308);

/// Every kind of place a function can have.
pub(super) fn devices() -> Vec<(Bdf, Device)> {
    vec![
        (at(0, 0, 0), Device::endpoint(0x06_00_00)),
        (at(0, 2, 0), Device::root_port([0, 1, 1], 0xc000_0000, 0xc0ff_ffff)),
        (BEHIND_PORT, Device::nvme(0xc000_0000)),
        (ON_ROOT, Device::nvme(0xc400_0000).multifunction()),
        (at(0, 3, 1), Device::endpoint(0x02_00_00).bar32(0, 0xc401_0000, 0x1000).io_bar(1, 0xc000, 0x20)),
        (at(0, 4, 0), Device::bridge([0, 2, 3], 0xc100_0000, 0xc1ff_ffff)),
        (at(2, 1, 0), Device::bridge([2, 3, 3], 0xc110_0000, 0xc11f_ffff)),
        (BEHIND_BRIDGES, Device::nvme(0xc110_0000).pin(2)),
        (at(0, 31, 0), Device::endpoint(0x06_01_00).multifunction()),
        (at(0, 31, 2), Device::endpoint(0x01_06_01).bar32(5, 0xc402_0000, 0x1000).pin(1)),
    ]
}

pub(super) fn driver(name: &str, allowed: Match, domain: u16) -> DriverConfig {
    DriverConfig {
        name: name.to_string(),
        allowed,
        arena: Vaddr::new(DRIVER_ARENA),
        arena_len: 0x1_0000,
        max_vectors: 3,
        domain,
    }
}

fn drivers() -> Vec<DriverConfig> {
    let nvme = |index| Match::Class { class: [1, 8, 2], index };
    vec![
        driver("first", nvme(0), 1),
        driver("second", nvme(1), 2),
        driver("third", Match::Bdf(BEHIND_BRIDGES.to_raw()), 3),
    ]
}

pub(super) fn config() -> ServerConfig {
    ServerConfig {
        buses: 16,
        windows: vec![(Paddr::new(WINDOW), 26), (Paddr::new(0xc400_0000), 26)],
        assign: false,
        iommu: true,
        intx_pins: IntxRouting::Q35,
        irqs: (20, 8),
        drivers: drivers(),
    }
}

fn environment(config: &ServerConfig) -> Environment {
    let name = |name: &str| Name::try_from(name).unwrap();
    let caps = |text: &str, first, count| NamedCaps { name: name(text), first: CPtr::new(first), count };
    let region = |text: &str, vaddr, len, kind| Region { name: name(text), vaddr: Vaddr::new(vaddr), len, kind };
    Environment {
        component: 2,
        name: name("pci-server"),
        cnode: Some(CPtr::new(2)),
        cnode_bits: 12,
        ipc_buffer: Vaddr::new(0x1010_0000),
        free_slots: FREE..1024,
        receive_slot: Some(CPtr::new(RECEIVE_SLOT)),
        wait: Some(CPtr::new(3)),
        caps: vec![
            caps("event", EVENT, 1),
            caps("irq-control", 8, 1),
            caps("io-space-master", 9, 1),
            caps("own-vspace", OWN_VSPACE, 1),
            caps("driver-vspace", DRIVER_VSPACE, config.drivers.len() as u32),
            caps("pci-window", 32, config.windows.len() as u32),
            caps("silenced", SILENCED, config.drivers.len() as u32),
        ],
        regions: [
            region("ecam", ECAM, 16 << 20, RegionKind::Device),
            region("arena", ARENA, ARENA_LEN, RegionKind::Arena),
            region("sizing", SIZING, 4096, RegionKind::ReadWrite),
        ]
        .into_iter()
        .chain(
            (0..config.drivers.len() as u64).map(|driver| {
                region(&std::format!("life-{driver}"), LIVES + driver * 4096, 4096, RegionKind::ReadOnly)
            }),
        )
        .collect(),
        config: postcard::to_allocvec(config).unwrap(),
    }
}

fn state(devices: Vec<(Bdf, Device)>, config: &ServerConfig) -> State {
    let mut state = State { devices: devices.into_iter().collect(), ..State::default() };
    let mut put = |slot, object| state.slots.insert(slot, Slot { object, parent: None });
    put(EVENT, Object::Notification { badge: 0 });
    put(8, Object::IrqControl);
    put(9, Object::IoSpaceMaster);
    put(OWN_VSPACE, Object::VSpace);
    for (index, _) in (0u8..).zip(&config.drivers) {
        put(DRIVER_VSPACE + u64::from(index), Object::VSpace);
        put(SILENCED + u64::from(index), Object::Notification { badge: Badge::silenced(index) });
    }
    for (slot, (paddr, bits)) in (32..).zip(&config.windows) {
        put(slot, Object::Untyped { paddr: paddr.bits(), bits: *bits, used: false });
    }
    state
}

/// A running server.
pub(super) struct System {
    pub(super) machine: Machine,
    server: Pin<Box<dyn Future<Output = ()>>>,
    pub(super) ended: bool,
}

impl System {
    pub(super) fn start() -> Self {
        Self::with(devices(), config())
    }

    pub(super) fn with(devices: Vec<(Bdf, Device)>, config: ServerConfig) -> Self {
        Self::with_environment(devices, &config, environment(&config))
    }

    pub(super) fn without(name: &str) -> Self {
        let mut environment = environment(&config());
        environment.caps.retain(|caps| caps.name != name);
        Self::with_environment(devices(), &config(), environment)
    }

    fn with_environment(devices: Vec<(Bdf, Device)>, config: &ServerConfig, environment: Environment) -> Self {
        let machine = Machine::new(state(devices, config));
        let server = Box::pin(super::run(machine.clone(), environment));
        let mut system = Self { machine, server, ended: false };
        system.poll();
        system
    }

    /// A server is started on the same functions, as the supervisor does it after one died: its slots and those of its
    /// drivers are as at the first start, the page that it keeps is as the dead one left it, all drivers are dead. It is
    /// stopped in turn after so many writes, if they come before it waits; `None` then.
    pub(super) fn successor(machine: &Machine, writes: Option<u32>) -> Option<Self> {
        let config = config();
        let before = core::mem::take(&mut *machine.state_mut());
        let mut state = state(before.devices.into_iter().collect(), &config);
        state.kept = before.kept;
        state.writes_left = writes;
        state.lives = (0..config.drivers.len() as u64).map(|driver| (LIVES + driver * 4096, 1)).collect();
        *machine.state_mut() = state;
        let run = || {
            let server = Box::pin(super::run(machine.clone(), environment(&config)));
            let mut system = Self { machine: machine.clone(), server, ended: false };
            system.poll();
            system
        };
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
            Ok(system) => {
                machine.state_mut().writes_left = None;
                Some(system)
            }
            Err(payload) if payload.is::<Stopped>() => None,
            Err(payload) => std::panic::resume_unwind(payload),
        }
    }

    pub(super) fn poll(&mut self) {
        self.ended = matches!(self.server.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()));
    }

    /// The answer to a message.
    pub(super) fn call(&mut self, badge: u64, message: Message) -> Message {
        self.machine.push(badge, message);
        self.poll();
        self.machine.state_mut().replies.pop_front().expect("an answer")
    }

    /// The answer to a message that brings a notification capability with this badge.
    pub(super) fn call_with_cap(&mut self, badge: u64, mut message: Message, notification: u64) -> Message {
        message.cap_received = true;
        let object = Object::Notification { badge: notification };
        self.machine.state_mut().fill(RECEIVE_SLOT, object, None).expect("an empty receive slot");
        self.call(badge, message)
    }

    pub(super) fn ask(&mut self, badge: u64, label: u32) -> Result<Message, Refusal> {
        granted(self.call(badge, Message::new(label)))
    }

    pub(super) fn ask_index(&mut self, badge: u64, label: u32, index: u64) -> Result<Message, Refusal> {
        granted(self.call(badge, Message::with(label, &Index(index))))
    }

    pub(super) fn claim(&mut self, badge: u64, bdf: Bdf, interrupts: u16) -> Result<Claimed, Refusal> {
        let claim = Claim { bdf: bdf.to_raw(), interrupts, class: 0 };
        granted(self.call(badge, Message::with(CLAIM, &claim))).map(|answer| answer.payload().unwrap())
    }

    pub(super) fn claim_class(&mut self, badge: u64, class: u32) -> Result<Claimed, Refusal> {
        let claim = Claim { bdf: u16::MAX, interrupts: pci_api::INTERRUPTS_MSIX, class };
        granted(self.call(badge, Message::with(CLAIM, &claim))).map(|answer| answer.payload().unwrap())
    }

    /// Binds vector `index` to the notification with badge `notification`.
    pub(super) fn vector(&mut self, badge: u64, index: u64, notification: u64) -> Result<Message, Refusal> {
        granted(self.call_with_cap(badge, Message::with(VECTOR, &Index(index)), notification))
    }

    pub(super) fn io_space(&mut self, badge: u64) -> Result<Object, Refusal> {
        self.ask(badge, IO_SPACE).map(|_| self.last_given())
    }

    /// The capability a driver received last.
    pub(super) fn last_given(&self) -> Object {
        self.given().last().copied().expect("a capability given")
    }

    /// What drivers hold.
    pub(super) fn given(&self) -> Vec<Object> {
        self.machine.state().slots.range(DRIVER_SLOTS..).map(|(_, slot)| slot.object).collect()
    }

    /// The physical pages mapped in a VSpace, ascending.
    pub(super) fn mapped(&self, vspace: u64) -> Vec<u64> {
        let state = self.machine.state();
        let page = |slot: &Slot| match slot.object {
            Object::Frame { paddr, mapped: Some((owner, _)) } if owner == vspace => Some(paddr),
            _ => None,
        };
        let mut pages: Vec<u64> = state.slots.values().filter_map(page).collect();
        pages.sort_unstable();
        pages
    }

    /// The page of driver number `driver` says this, and the supervisor ticks.
    pub(super) fn life(&mut self, driver: u64, life: u32) {
        self.machine.state_mut().lives.insert(LIVES + driver * 4096, life);
        self.signal(Badge::SIGNAL | Badge::TICK);
    }

    /// The server's notification is signalled with this badge.
    pub(super) fn signal(&mut self, badge: u64) {
        self.machine.state_mut().events.push_back(Event::Signal(Badge(badge)));
        self.poll();
    }

    /// The badges of notifications that the server signalled since the last asking.
    pub(super) fn signalled(&self) -> Vec<u64> {
        core::mem::take(&mut self.machine.state_mut().signalled)
    }

    /// What happened since the last asking.
    pub(super) fn take_acts(&self) -> Vec<Act> {
        core::mem::take(&mut self.machine.state_mut().acts)
    }

    pub(super) fn device(&self, bdf: Bdf) -> Device {
        self.machine.state().devices.get(&bdf).expect("a function").clone()
    }

    /// Slots the server fills beside those it was born with and the frames it keeps.
    pub(super) fn passing_slots(&self) -> usize {
        let state = self.machine.state();
        let passing = |object: &Object| match object {
            Object::IrqHandler { .. } | Object::IoSpace { .. } | Object::Notification { .. } => true,
            Object::Frame { mapped, .. } => mapped.is_some(),
            _ => false,
        };
        let given_away = |slot: u64| slot == RECEIVE_SLOT || slot >= FREE;
        let own = state.slots.range(..DRIVER_SLOTS);
        own.filter(|(number, slot)| given_away(**number) && passing(&slot.object)).count()
    }
}

fn granted(answer: Message) -> Result<Message, Refusal> {
    if answer.label == GRANTED { Ok(answer) } else { Err(Refusal::from_label(answer.label)) }
}
