//! The modelled PCI tree as the bus of the server's machine, and the server on it.

use super::bus::Effect;
use super::machine::Bus;
use super::system::System;
use core::cell::{RefCell, RefMut};
use core::ops::{Deref, DerefMut};
use pci_api::ServerConfig;
use pci_spec::Bdf;
use sim_pci::{Blocked, BusId, Device, Firmware, Level, Machine as Above, Reset, Tree, Upstream, Violation};
use std::boxed::Box;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::vec::Vec;

const COMMAND: u16 = 0x04;
const MASTER: u32 = 1 << 2;
const MEMORY: u32 = 1 << 1;
/// The model's places.
pub(super) const MSIX: u16 = 0x40;
const DEVICE_CONTROL: u16 = 0x88;
const INITIATE_FLR: u32 = 1 << 15;
pub(super) const SRIOV_CONTROL: u16 = 0x128;

/// A device that counts its resets, and whose registers read its name, the BAR and the offset.
#[derive(Clone, Debug, Default)]
pub(super) struct Worker {
    pub(super) name: u64,
    pub(super) resets: u32,
    /// Bytes of a virtual function's BAR.
    pub(super) virtual_bytes: u64,
}

/// The value that a register of a [`Worker`] reads.
pub(super) const fn answer(name: u64, bar: u8, offset: u64) -> u64 {
    name << 48 | (bar as u64) << 44 | offset
}

impl Device for Worker {
    fn read(&mut self, bar: u8, offset: u64, _: u8, _: u64) -> u64 {
        answer(self.name, bar, offset)
    }

    fn write(&mut self, _: u8, _: u64, _: u8, _: u64, _: u64, _: &mut dyn Upstream) {}

    fn reset(&mut self, _: Reset, _: u64) {
        self.resets += 1;
    }

    fn advance(&mut self, _: u64, _: &mut dyn Upstream) {}

    fn next_event_ns(&self) -> Option<u64> {
        None
    }
}

/// The side above the tree, which accepts everything.
pub(super) struct Everything;

impl Above for Everything {
    fn dma_read(&mut self, _: u16, _: u64, _: &mut [u8]) -> Result<(), Blocked> {
        Ok(())
    }

    fn dma_write(&mut self, _: u16, _: u64, _: &[u8]) -> Result<(), Blocked> {
        Ok(())
    }

    fn message(&mut self, _: u16, _: u64, _: u32) {}

    fn pin(&mut self, _: u8, _: Level) {}
}

/// The tree, with the registers that lie. Clones are the same one.
#[derive(Clone, Debug)]
pub(super) struct TreeBus {
    tree: Rc<RefCell<Tree<Worker>>>,
    lies: Rc<RefCell<Lies>>,
}

/// Registers that are not as the model has them, by their place in configuration space.
#[derive(Clone, Debug, Default)]
struct Lies {
    /// Registers that keep nothing.
    frozen: BTreeSet<u64>,
    /// Registers that read something else.
    pretended: BTreeMap<u64, u32>,
    /// Whether a test has made registers lie.
    told: bool,
}

fn ecam(bdf: Bdf, register: u16) -> u64 {
    u64::from(bdf.to_raw()) << 12 | u64::from(register)
}

impl TreeBus {
    pub(super) fn new(tree: Tree<Worker>) -> Self {
        Self { tree: Rc::new(RefCell::new(tree)), lies: Rc::default() }
    }

    pub(super) fn tree(&self) -> RefMut<'_, Tree<Worker>> {
        self.tree.borrow_mut()
    }

    /// Loses all writes of the server to this register from now on.
    pub(super) fn freeze(&self, bdf: Bdf, register: u16) {
        let mut lies = self.lies.borrow_mut();
        lies.told = true;
        lies.frozen.insert(ecam(bdf, register));
    }

    /// The server reads this value from a register from now on.
    pub(super) fn pretend(&self, bdf: Bdf, register: u16, value: u32) {
        let mut lies = self.lies.borrow_mut();
        lies.told = true;
        lies.pretended.insert(ecam(bdf, register), value);
    }

    /// All registers are as the model has them again.
    pub(super) fn tell_the_truth(&self) {
        *self.lies.borrow_mut() = Lies { told: true, ..Lies::default() };
    }

    /// Reads a register without the server, at a time at which nothing is under reset.
    pub(super) fn read(&self, bdf: Bdf, register: u16) -> u32 {
        self.tree().config_read(ecam(bdf, register), 4, u64::MAX).unwrap() as u32
    }

    /// Writes a register without the server.
    pub(super) fn write(&self, bdf: Bdf, register: u16, value: u32, now_ns: u64) {
        self.tree().config_write(ecam(bdf, register), 4, value.into(), now_ns, &mut Everything).unwrap();
    }

    /// A write of the server, lost if the register keeps nothing.
    pub(super) fn keep(&self, bdf: Bdf, register: u16, value: u32, now_ns: u64) {
        if !self.lies.borrow().frozen.contains(&ecam(bdf, register)) {
            self.write(bdf, register, value, now_ns);
        }
    }

    pub(super) fn violations(&self) -> Vec<Violation> {
        self.tree().violations().iter().map(|record| record.violation).collect()
    }
}

impl Bus for TreeBus {
    fn config_read(&mut self, bdf: Bdf, register: u16, now_ns: u64) -> u32 {
        let pretended = self.lies.borrow().pretended.get(&ecam(bdf, register)).copied();
        pretended.unwrap_or_else(|| self.tree().config_read(ecam(bdf, register), 4, now_ns).unwrap() as u32)
    }

    fn config_write(&mut self, bdf: Bdf, register: u16, value: u32, now_ns: u64) -> Vec<Effect> {
        let before = self.read(bdf, register);
        self.keep(bdf, register, value, now_ns);
        let after = self.read(bdf, register);
        let changed = |bit: u32| (before ^ after) & bit != 0;
        let effect = match register {
            COMMAND if changed(MASTER) => Some(Effect::BusMaster(after & MASTER != 0)),
            COMMAND if changed(MEMORY) => Some(Effect::Memory(after & MEMORY != 0)),
            MSIX if changed(1 << 31) => Some(Effect::Msix(after & 1 << 31 != 0)),
            DEVICE_CONTROL if value & INITIATE_FLR != 0 => Some(Effect::Reset),
            SRIOV_CONTROL if changed(1) => Some(Effect::VirtualFunctions(after & 1 != 0)),
            _ => None,
        };
        effect.into_iter().collect()
    }

    fn memory_read(&mut self, paddr: u64, now_ns: u64) -> u32 {
        self.tree().memory_read(paddr, 4, now_ns).unwrap() as u32
    }

    fn memory_write(&mut self, paddr: u64, value: u32, now_ns: u64) {
        self.tree().memory_write(paddr, 4, value.into(), now_ns, &mut Everything).unwrap();
    }
}

/// A server on the tree.
pub(super) struct OnTree {
    pub(super) system: System,
    pub(super) bus: TreeBus,
    /// The buses below the root ports.
    pub(super) below: Vec<BusId>,
    config: ServerConfig,
}

impl Deref for OnTree {
    type Target = System;

    fn deref(&self) -> &System {
        &self.system
    }
}

impl DerefMut for OnTree {
    fn deref_mut(&mut self) -> &mut System {
        &mut self.system
    }
}

impl OnTree {
    /// A server on a machine where firmware has placed everything, or where the server does.
    pub(super) fn new(mut tree: Tree<Worker>, below: Vec<BusId>, config: &ServerConfig) -> Self {
        if !config.assign {
            tree.run_firmware(Firmware::Places, &mut Everything).unwrap();
        }
        let bus = TreeBus::new(tree);
        let system = System::on_bus(Box::new(bus.clone()), config);
        Self { system, bus, below, config: config.clone() }
    }

    /// The next server, after the death of this one, which ends its drivers. `None` if it is stopped after `writes` writes.
    pub(super) fn successor(&self, writes: Option<u32>) -> Option<Self> {
        let system = System::successor_for(&self.machine, &self.config, writes)?;
        Some(Self { system, bus: self.bus.clone(), below: self.below.clone(), config: self.config.clone() })
    }

    /// Lets the server act, and stops it after `writes` writes. Returns whether it was done before.
    pub(super) fn done_within(&mut self, writes: u32, act: impl FnOnce(&mut Self)) -> bool {
        let fuse = self.machine.state().fuse.clone();
        fuse.limit(Some(writes), || act(self)).is_some()
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.machine.state().ticks * 1_000_000
    }

    pub(super) fn is_master(&self, bdf: Bdf) -> bool {
        let command = self.bus.read(bdf, COMMAND);
        command != u32::MAX && command & MASTER != 0
    }
}

/// At the end of each test without lies, nothing has broken a rule of the PCI standard, but for DMA that the test itself sent.
impl Drop for OnTree {
    fn drop(&mut self) {
        let mut found = self.bus.violations();
        found.retain(|violation| *violation != Violation::DmaWithoutBusMaster);
        let is_judged = !self.bus.lies.borrow().told && !std::thread::panicking();
        assert!(!is_judged || found.is_empty(), "{found:?}");
    }
}
