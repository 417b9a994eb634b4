//! The modelled PCI tree as the bus of the server's machine.

use super::bus::Effect;
use super::machine::Bus;
use core::cell::RefCell;
use pci_spec::Bdf;
use sim_pci::{Blocked, Device, Level, Machine as Above, Reset, Tree, Upstream};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::vec::Vec;

pub(super) const COMMAND: u16 = 0x04;
pub(super) const MASTER: u32 = 1 << 2;
const MEMORY: u32 = 1 << 1;
/// The model's places.
pub(super) const MSIX: u16 = 0x40;
const DEVICE_CONTROL: u16 = 0x88;
const INITIATE_FLR: u32 = 1 << 15;
pub(super) const SRIOV_CONTROL: u16 = 0x128;

/// A device that counts its resets, and whose registers read its name.
#[derive(Debug, Default)]
pub(super) struct Sender {
    pub(super) name: u64,
    pub(super) resets: u32,
}

impl Device for Sender {
    fn read(&mut self, _: u8, _: u64, _: u8, _: u64) -> u64 {
        self.name
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

/// The tree, with the registers that lie.
#[derive(Clone, Debug)]
pub(super) struct TreeBus {
    pub(super) tree: Rc<RefCell<Tree<Sender>>>,
    pub(super) lies: Lies,
}

/// Registers that read something else than the model has.
pub(super) type Lies = Rc<RefCell<BTreeMap<(Bdf, u16), u32>>>;

pub(super) fn ecam(bdf: Bdf, register: u16) -> u64 {
    u64::from(bdf.to_raw()) << 12 | u64::from(register)
}

impl Bus for TreeBus {
    fn config_read(&mut self, bdf: Bdf, register: u16, now_ns: u64) -> u32 {
        if let Some(value) = self.lies.borrow().get(&(bdf, register)) {
            return *value;
        }
        self.tree.borrow_mut().config_read(ecam(bdf, register), 4, now_ns).unwrap() as u32
    }

    fn config_write(&mut self, bdf: Bdf, register: u16, value: u32, now_ns: u64) -> Vec<Effect> {
        let mut tree = self.tree.borrow_mut();
        // At a time at which nothing is under reset: only the server's own accesses count.
        let before = tree.config_read(ecam(bdf, register), 4, u64::MAX).unwrap() as u32;
        tree.config_write(ecam(bdf, register), 4, value.into(), now_ns, &mut Everything).unwrap();
        let after = tree.config_read(ecam(bdf, register), 4, u64::MAX).unwrap() as u32;
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
        self.tree.borrow_mut().memory_read(paddr, 4, now_ns).unwrap() as u32
    }

    fn memory_write(&mut self, paddr: u64, value: u32, now_ns: u64) {
        self.tree.borrow_mut().memory_write(paddr, 4, value.into(), now_ns, &mut Everything).unwrap();
    }
}
