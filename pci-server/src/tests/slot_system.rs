//! The server on the modelled PCI tree: two slots with a driver each, and a controller that stays, with a third.

use super::machine::PRESENCE;
use super::system::{config, driver};
pub(super) use super::tree_bus::OnTree;
use super::tree_bus::{Everything, Worker};
use pci_api::presence::{Presence, Visit};
use pci_api::{Match, ServerConfig};
use pci_spec::Bdf;
use platform::Badge;
use sim_pci::{BusId, Endpoint, FunctionConfig, FunctionLevelReset, PortConfig, SlotState, Tree, TreeConfig};
use std::vec;
use std::vec::Vec;

/// Badges of the drivers: of the first and second slot, and of the controller that stays.
pub(super) const FIRST: u64 = 1;
pub(super) const SECOND: u64 = 2;
pub(super) const NEIGHBOUR: u64 = 3;
/// And of a virtual function of the controller in the first slot.
pub(super) const VIRTUAL: u64 = 4;
/// The controller that stays, and those in the slots.
pub(super) const FIXED: Bdf = Bdf::from_raw(3 << 3);
pub(super) const IN_SLOT: [Bdf; 2] = [Bdf::from_raw(0x0100), Bdf::from_raw(0x0200)];
/// Physical numbers of the slots.
const NUMBERS: [u16; 2] = [7, 9];
/// The supervisor's period.
const TICK_MS: u64 = 50;

pub(super) fn slotted_config(assigns: bool) -> ServerConfig {
    let fixed = Match::ClassCode { class_code: [1, 8, 2], index: 0 };
    let drivers = vec![
        driver("first", Match::Slot(NUMBERS[0]), 1),
        driver("second", Match::Slot(NUMBERS[1]), 2),
        driver("neighbour", fixed, 3),
        driver("virtual", Match::Virtual { driver: 0, index: 0 }, 4),
    ];
    ServerConfig { drivers, assign: assigns, ..config() }
}

/// A controller with this name.
pub(super) fn controller(name: u64) -> Endpoint<Worker> {
    Endpoint::new(FunctionConfig::nvme(0x2000, 8), Worker { name, ..Worker::default() })
}

/// A controller with virtual functions.
pub(super) fn with_virtual_functions() -> Endpoint<Worker> {
    let mut config = FunctionConfig::nvme(0x2000, 8).with_virtual_nvme(2, 0x2000, 4);
    config.function_level_reset = FunctionLevelReset::Takes { ns: 100_000_000 };
    Endpoint { config, device: Worker::default(), virtual_functions: vec![Worker::default(); 2] }
}

impl OnTree {
    /// A server on a machine where firmware has placed everything, or where the server does. Slots for which `names` has a
    /// controller have it at the start.
    pub(super) fn with_slots(assigns: bool, names: [Option<u64>; 2]) -> Self {
        Self::with_slots_of(&slotted_config(assigns), names)
    }

    pub(super) fn with_slots_of(config: &ServerConfig, names: [Option<u64>; 2]) -> Self {
        let window = 0xc000_0000..0xc800_0000;
        let mut tree = Tree::new(TreeConfig { buses: 16, windows: vec![window] });
        let below = [0, 1].map(|slot| {
            tree.attach_port(BusId::ROOT, 1 + slot as u8, 0, PortConfig::root_port(NUMBERS[slot])).unwrap()
        });
        tree.attach(BusId::ROOT, 3, 0, controller(99)).unwrap();
        for (below, name) in below.into_iter().zip(names) {
            if let Some(name) = name {
                tree.attach(below, 0, 0, controller(name)).unwrap();
            }
        }
        Self::new(tree, below.to_vec(), config)
    }

    /// Puts a controller into a slot.
    pub(super) fn insert(&mut self, slot: usize, functions: Vec<Endpoint<Worker>>) {
        let now_ns = self.now_ns();
        self.bus.tree().insert(self.below[slot], functions, now_ns, &mut Everything).unwrap();
    }

    /// Takes out what is in a slot.
    pub(super) fn pull(&mut self, slot: usize) {
        let now_ns = self.now_ns();
        assert!(!self.bus.tree().remove(self.below[slot], now_ns, &mut Everything).is_empty());
    }

    pub(super) fn press(&mut self, slot: usize) {
        let now_ns = self.now_ns();
        self.bus.tree().press_attention_button(self.below[slot], now_ns, &mut Everything);
    }

    /// Lets time pass, with the supervisor's ticks.
    pub(super) fn wait(&mut self, ms: u64) {
        for _ in 0..ms.div_ceil(TICK_MS) {
            self.system.machine.state_mut().ticks += TICK_MS;
            self.system.signal(Badge::SIGNAL | Badge::TICK);
        }
    }

    /// Lets time pass for a server that is stopped after `writes` writes. Returns whether it was not.
    pub(super) fn wait_until(&mut self, ms: u64, writes: u32) -> bool {
        self.done_within(writes, |system| system.wait(ms))
    }

    /// Content that the driver of a slot reads in its page.
    pub(super) fn visit(&self, slot: usize) -> Visit {
        let page = self.system.machine.state_mut().page(PRESENCE + slot as u64 * 4096);
        Visit::load(&page).unwrap()
    }

    pub(super) fn presence(&self, slot: usize) -> Presence {
        self.visit(slot).presence
    }

    pub(super) fn slot(&self, slot: usize) -> SlotState {
        self.bus.tree().slot(self.below[slot]).expect("a slot")
    }

    /// The name of the device that answers at the address in a function's first BAR.
    pub(super) fn register(&self, bdf: Bdf) -> u64 {
        let bar = self.bus.read(bdf, 0x10) & !0xf;
        self.bus.tree().memory_read(bar.into(), 8, u64::MAX).unwrap() >> 48
    }
}
