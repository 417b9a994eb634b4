//! The server at work on a made-up machine, and drivers that call it.

use super::bus::{Device, at};
use super::kernel::DRIVER_CPTRS;
use super::machine::{ARENA, ARENA_LEN, Act, Bus, ECAM, Machine, OWN_CNODE, Object, PRESENCE, SIZING, State};
use core::cell::RefCell;
use core::future::Future;
use core::ops::Range;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use pci_api::{
    CLAIM, Claim, Claimed, DriverConfig, GRANTED, INTERRUPTS_MSIX, IO_SPACE, Index, IntxRouting, Match, Refusal, START,
    ServerConfig, VECTOR,
};
use pci_spec::Bdf;
use platform::fake::Start;
use platform::{
    AbsoluteCPtr, Badge, CPtr, CacheAttributes, Cap, CapData, Environment, Event, Kernel as _, Message, Name,
    ObjectType, Paddr, Region, RegionKind, Rights, TableLevel, VSpace, Vaddr,
};
use sim_kernel::{Arch, Capability, Invoker, Iommu, Kernel, MachineConfig, Mapping, Rules};
use std::boxed::Box;
use std::rc::Rc;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

// Cptrs of the first thread, which the server is here: the kernel fills those below 256, the tests the others.
pub(super) const OWN_VSPACE: u64 = 3;
const IRQ_CONTROL: u64 = 4;
const IO_SPACE_MASTER: u64 = 8;
pub(super) const RECEIVE_CPTR: u64 = 257;
pub(super) const DRIVER_VSPACE: u64 = 272;
pub(super) const DRIVER_ARENA: u64 = 0x5000_0000;
/// The cptr of its own notification.
const EVENT: u64 = 256;
/// Cptr of the notification that all others wait on: capabilities to it differ by their badges.
pub(super) const OTHERS: u64 = 258;
/// Cptrs of the notifications by which the supervisor is notified of silent devices.
const SILENCED: u64 = 288;
/// Cptrs of the untypeds of the PCI windows.
const PCI_WINDOW: u64 = 320;
/// Paging structures below the arenas.
const TABLES: u64 = 400;
/// A frame that is mapped where the server wants to map something.
const OCCUPIED: u64 = 500;
/// The cptrs it may fill.
const FREE: Range<u64> = 512..1536;
/// Address of the drivers' liveness pages.
pub(super) const LIVENESS: u64 = 0x7000_0000;
pub(super) const WINDOW: u64 = 0xc000_0000;
pub(super) const NVME_CLASS_CODE: u32 = 0x01_08_02;

/// The controller behind the root port: driver 1's.
pub(super) const BEHIND_PORT: Bdf = Bdf::from_raw(0x0100);
/// The controller on the root bus: driver 2's.
pub(super) const ON_ROOT: Bdf = Bdf::from_raw(3 << 3);
/// The controller behind two bridges, of which the upper is a conventional one: driver 3's.
pub(super) const BEHIND_BRIDGES: Bdf = Bdf::from_raw(0x0308);

/// Functions in every kind of place.
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
        pages: 16,
        max_vectors: 3,
        domain,
    }
}

fn drivers() -> Vec<DriverConfig> {
    let nvme = |index| Match::ClassCode { class_code: [1, 8, 2], index };
    vec![
        driver("first", nvme(0), 1),
        driver("second", nvme(1), 2),
        driver("third", Match::Bdf(BEHIND_BRIDGES.to_raw()), 3),
    ]
}

pub(super) fn config() -> ServerConfig {
    ServerConfig {
        buses: 16,
        pci_windows: vec![(Paddr::new(WINDOW), 26), (Paddr::new(0xc400_0000), 26)],
        assign: false,
        iommu: true,
        intx_pins: IntxRouting::Q35,
        irqs: (20, 8),
        drivers: drivers(),
    }
}

fn environment(config: &ServerConfig) -> Environment {
    let mut start = Start::new("pci-server");
    let drivers = config.drivers.len() as u32;
    for (name, first, count) in [
        ("event", EVENT, 1),
        ("irq-control", IRQ_CONTROL, 1),
        ("io-space-master", IO_SPACE_MASTER, 1),
        ("own-vspace", OWN_VSPACE, 1),
        ("driver-vspace", DRIVER_VSPACE, drivers),
        ("pci-window", PCI_WINDOW, config.pci_windows.len() as u32),
        ("silenced", SILENCED, drivers),
    ] {
        start.caps(name, first, count);
    }
    // The machine has memory for each address.
    let mut region = |text: &str, vaddr, len, kind| {
        let name = Name::try_from(text).unwrap();
        start.environment.regions.push(Region { name, vaddr: Vaddr::new(vaddr), len, kind });
    };
    region("ecam", ECAM, 16 << 20, RegionKind::Device);
    region("arena", ARENA, ARENA_LEN, RegionKind::Arena);
    region("sizing", SIZING, 4096, RegionKind::ReadWrite);
    for (number, driver) in (0..).zip(&config.drivers) {
        region(&std::format!("liveness-{number}"), LIVENESS + number * 4096, 4096, RegionKind::ReadOnly);
        if driver.allowed.slot().is_some() {
            region(&std::format!("presence-{number}"), PRESENCE + number * 4096, 4096, RegionKind::ReadWrite);
        }
    }
    Environment {
        cnode: Some(CPtr::new(OWN_CNODE)),
        free_cptrs: FREE,
        receive_cptr: Some(CPtr::new(RECEIVE_CPTR)),
        config: postcard::to_allocvec(config).unwrap(),
        ..start.environment
    }
}

/// A kernel for the server, with the capabilities of its start.
fn kernel(config: &ServerConfig) -> Invoker {
    let is_pc = config.intx_pins == IntxRouting::Q35;
    let window = |(paddr, bits): &(Paddr, u8)| paddr.bits()..paddr.bits() + (1 << bits);
    let (kernel, root) = Kernel::boot(MachineConfig {
        arch: if is_pc { Arch::X86_64 } else { Arch::Aarch64 },
        rules: Rules::CORRECTED,
        ram: core::iter::once(0x10_0000..0x100_0000).collect(),
        device: config.pci_windows.iter().map(window).collect(),
        iommu: if is_pc { Iommu::Present } else { Iommu::Absent },
        payload: Vec::new(),
        cnode_bits: 13,
        kernel_bytes: 0,
    });
    let kernel = Invoker::new(Rc::new(RefCell::new(kernel)), root.thread);
    let ram = root.untypeds.iter().filter(|untyped| !untyped.is_device).max_by_key(|untyped| untyped.size_bits);
    let ram = ram.expect("memory").cptr;
    let make = |kind, cptrs| kernel.untyped_retype(ram, kind, 0, root.cnode, cptrs).unwrap();
    let cptr = |index| AbsoluteCPtr { root: root.cnode, index, depth: 64 };
    make(ObjectType::Notification, EVENT..EVENT + 1);
    make(ObjectType::Notification, OTHERS..OTHERS + 1);
    let mut tables = TABLES..;
    let mut map = |vspace: Cap<VSpace>, level, vaddr| {
        let table = tables.next().unwrap();
        make(ObjectType::TranslationTable(level), table..table + 1);
        kernel.translation_table_map(Cap::from_bits(table), level, vspace, Vaddr::new(vaddr)).unwrap();
    };
    for level in [TableLevel::Two, TableLevel::Three] {
        map(root.vspace, level, ARENA);
    }
    for index in 0..config.drivers.len() as u8 {
        let vspace = DRIVER_VSPACE + u64::from(index);
        make(ObjectType::VSpace, vspace..vspace + 1);
        kernel.asid_pool_assign(root.asid_pool, Cap::from_bits(vspace)).unwrap();
        for level in TableLevel::ALL {
            map(Cap::from_bits(vspace), level, DRIVER_ARENA);
        }
        let (dest, silenced) = (cptr(SILENCED + u64::from(index)), CapData::Badge(Badge(Badge::silenced(index))));
        kernel.cnode_mint(dest, cptr(OTHERS), Rights::WRITE, silenced).unwrap();
    }
    for (dest, (paddr, _)) in (PCI_WINDOW..).zip(&config.pci_windows) {
        let window = root.untypeds.iter().find(|untyped| untyped.paddr == *paddr).expect("a window");
        kernel.cnode_move(cptr(dest), cptr(window.cptr.bits())).unwrap();
    }
    kernel
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

    /// With the first driver's controller claimed.
    pub(super) fn claimed() -> Self {
        let mut system = Self::start();
        system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX).unwrap();
        system
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
        Self::run(Machine::new(State::new(kernel(config), devices)), environment)
    }

    /// A server for the functions of `bus`.
    pub(super) fn on_bus(bus: Box<dyn Bus>, config: &ServerConfig) -> Self {
        let state = State { bus: Some(bus), ..State::new(kernel(config), Vec::new()) };
        Self::run(Machine::new(state), environment(config))
    }

    fn run(machine: Machine, environment: Environment) -> Self {
        let server = Box::pin(super::run(machine.clone(), environment));
        let mut system = Self { machine, server, ended: false };
        system.poll();
        system
    }

    /// Starts a server on the same functions, as the supervisor does after a death: its cptrs and those of its drivers are as at
    /// the first start, the page that it keeps is as the dead one left it, all drivers are dead. It is stopped in turn after
    /// `writes` writes, if they come before it waits; returns `None` then.
    pub(super) fn successor(machine: &Machine, writes: Option<u32>) -> Option<Self> {
        Self::successor_for(machine, &config(), writes)
    }

    /// Starts a server with this configuration, otherwise as [`System::successor`].
    pub(super) fn successor_for(machine: &Machine, config: &ServerConfig, writes: Option<u32>) -> Option<Self> {
        let fuse = {
            let mut state = machine.state_mut();
            (0..config.drivers.len() as u64).for_each(|driver| state.set_word(LIVENESS + driver * 4096, 1));
            let (devices, pages) = (core::mem::take(&mut state.devices), core::mem::take(&mut state.pages));
            let (bus, ticks, fuse) = (state.bus.take(), state.ticks, state.fuse.clone());
            let fresh = State::new(kernel(config), Vec::new());
            *state = State { devices, pages, bus, ticks, fuse: fuse.clone(), ..fresh };
            fuse
        };
        fuse.limit(writes, || Self::run(machine.clone(), environment(config)))
    }

    pub(super) fn poll(&mut self) {
        self.ended = matches!(self.server.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()));
    }

    /// The answer to a message, after a tick if the client has used up its budget.
    pub(super) fn call(&mut self, badge: u64, message: Message) -> Message {
        self.machine.push(badge, message);
        self.poll();
        if self.machine.state().replies.is_empty() {
            self.signal(Badge::SIGNAL | Badge::TICK);
        }
        self.machine.state_mut().replies.pop_front().expect("an answer")
    }

    /// The answer to a message that brings a notification capability with this badge.
    pub(super) fn call_with_cap(&mut self, badge: u64, mut message: Message, notification: u64) -> Message {
        message.cap_received = true;
        self.receive(OTHERS, CapData::Badge(Badge(notification)));
        self.call(badge, message)
    }

    /// Delivers a capability derived from the one in `cptr`.
    pub(super) fn receive(&self, cptr: u64, data: CapData) {
        let state = self.machine.state();
        let minted = state.kernel.cnode_mint(state.absolute(RECEIVE_CPTR), state.absolute(cptr), Rights::ALL, data);
        minted.expect("an empty receive cptr");
    }

    /// Maps a page there.
    pub(super) fn occupy(&self, vspace: u64, vaddr: u64) {
        let kernel = self.machine.state().kernel.clone();
        let is_ram = |cap| matches!(cap, Capability::Untyped { is_device: false, size_bits: 12.., .. });
        let (ram, _) = self.machine.state().caps().into_iter().rfind(|(_, cap)| is_ram(*cap)).expect("memory");
        let (ram, cnode) = (Cap::from_bits(ram), Cap::from_bits(OWN_CNODE));
        kernel.untyped_retype(ram, ObjectType::SmallPage, 0, cnode, OCCUPIED..OCCUPIED + 1).unwrap();
        let (frame, vspace, vaddr) = (Cap::from_bits(OCCUPIED), Cap::from_bits(vspace), Vaddr::new(vaddr));
        kernel.frame_map(frame, vspace, vaddr, Rights::READ_WRITE, CacheAttributes::WriteBack).unwrap();
    }

    /// Unmaps that page.
    pub(super) fn vacate(&self) {
        let state = self.machine.state();
        state.kernel.cnode_delete(state.absolute(OCCUPIED)).unwrap();
    }

    pub(super) fn ask(&mut self, badge: u64, label: u32) -> Result<Message, Refusal> {
        granted(self.call(badge, Message::new(label)))
    }

    pub(super) fn ask_index(&mut self, badge: u64, label: u32, index: u64) -> Result<Message, Refusal> {
        granted(self.call(badge, Message::with(label, &Index(index))))
    }

    pub(super) fn claim(&mut self, badge: u64, bdf: Bdf, interrupts: u16) -> Result<Claimed, Refusal> {
        let claim = Claim { bdf: bdf.to_raw(), interrupts, class_code: 0 };
        granted(self.call(badge, Message::with(CLAIM, &claim))).map(|answer| answer.payload().unwrap())
    }

    pub(super) fn claim_class_code(&mut self, badge: u64, class_code: u32) -> Result<Claimed, Refusal> {
        let claim = Claim { bdf: u16::MAX, interrupts: INTERRUPTS_MSIX, class_code };
        granted(self.call(badge, Message::with(CLAIM, &claim))).map(|answer| answer.payload().unwrap())
    }

    /// Binds vector `index` to the notification with badge `notification`.
    pub(super) fn vector(&mut self, badge: u64, index: u64, notification: u64) -> Result<Message, Refusal> {
        granted(self.call_with_cap(badge, Message::with(VECTOR, &Index(index)), notification))
    }

    pub(super) fn io_space(&mut self, badge: u64) -> Result<Object, Refusal> {
        self.ask(badge, IO_SPACE).map(|_| self.last_given())
    }

    /// Starts a claimed function, as its driver does.
    pub(super) fn work(&mut self, badge: u64) -> Result<(), Refusal> {
        self.io_space(badge)?;
        self.vector(badge, 0, 7)?;
        self.ask(badge, START).map(drop)
    }

    /// Claims a driver's NVMe controller, as the driver does, and starts it.
    pub(super) fn run_driver(&mut self, badge: u64) -> Result<Claimed, Refusal> {
        let claimed = self.claim_class_code(badge, NVME_CLASS_CODE)?;
        self.work(badge).map(|()| claimed)
    }

    /// The capability a driver received last.
    pub(super) fn last_given(&self) -> Object {
        self.given().last().copied().expect("a capability given")
    }

    /// Objects that drivers hold.
    pub(super) fn given(&self) -> Vec<Object> {
        let given = self.machine.state().objects().into_iter().filter(|(cptr, _)| *cptr >= DRIVER_CPTRS);
        given.map(|(_, object)| object).collect()
    }

    /// The physical pages mapped in a VSpace, ascending.
    pub(super) fn mapped(&self, vspace: u64) -> Vec<u64> {
        let state = self.machine.state();
        let root = state.kernel.kernel().borrow().cap_at(state.kernel.thread(), CPtr::new(vspace));
        let Some(Capability::VSpace { asid: own, .. }) = root else { panic!("{root:?} is no VSpace") };
        let page = |(_, object)| match object {
            Object::Frame { paddr, mapped: Some(Mapping::VSpace { asid, .. }) } if asid == own => Some(paddr),
            _ => None,
        };
        let mut pages: Vec<u64> = state.objects().into_iter().filter_map(page).collect();
        pages.sort_unstable();
        pages
    }

    /// Sets the liveness page of driver number `driver`, and sends the supervisor's tick.
    pub(super) fn set_incarnation(&mut self, driver: u64, incarnation: u32) {
        self.machine.state_mut().set_word(LIVENESS + driver * 4096, incarnation);
        self.signal(Badge::SIGNAL | Badge::TICK);
    }

    /// Signals the server's notification with this badge.
    pub(super) fn signal(&mut self, badge: u64) {
        self.machine.state_mut().events.push_back(Event::Signal(Badge(badge)));
        self.poll();
    }

    /// Takes the badges of notifications that the server signalled since the last call.
    pub(super) fn signalled(&self) -> Vec<u64> {
        core::mem::take(&mut self.machine.state_mut().signalled)
    }

    /// Takes the acts since the last call.
    pub(super) fn take_acts(&self) -> Vec<Act> {
        core::mem::take(&mut self.machine.state_mut().acts)
    }

    pub(super) fn device(&self, bdf: Bdf) -> Device {
        self.machine.state().devices.get(&bdf).expect("a function").clone()
    }

    /// Number of cptrs that the server fills, without those of its start and the frames that it keeps.
    pub(super) fn passing_cptrs(&self) -> usize {
        let passing = |object: &Object| !matches!(object, Object::Frame { mapped: None, .. });
        let given_away = |cptr: u64| cptr == RECEIVE_CPTR || FREE.contains(&cptr);
        let objects = self.machine.state().objects();
        objects.iter().filter(|(cptr, object)| given_away(*cptr) && passing(object)).count()
    }
}

fn granted(answer: Message) -> Result<Message, Refusal> {
    if answer.label == GRANTED { Ok(answer) } else { Err(Refusal::from_label(answer.label)) }
}
