//! The server on the modelled PCI tree: two slots with a driver each, and a controller that stays, with a third.

use super::machine::{PRESENCE, Stopped};
use super::system::{NVME_CLASS_CODE, System, config, driver};
use super::tree_bus::{COMMAND, Everything, Lies, MASTER, Sender, TreeBus, ecam};
use core::cell::RefCell;
use core::ops::{Deref, DerefMut};
use pci_api::presence::{Presence, Visit};
use pci_api::{Claimed, Match, Refusal, ServerConfig};
use pci_spec::Bdf;
use platform::Badge;
use sim_pci::{BusId, Endpoint, Firmware, FunctionConfig, FunctionLevelReset, PortConfig, SlotState, Tree, TreeConfig};
use std::boxed::Box;
use std::rc::Rc;
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

/// The system, with its tree.
pub(super) struct Slotted {
    pub(super) system: System,
    tree: Rc<RefCell<Tree<Sender>>>,
    below: [BusId; 2],
    assigns: bool,
}

impl Deref for Slotted {
    type Target = System;

    fn deref(&self) -> &System {
        &self.system
    }
}

impl DerefMut for Slotted {
    fn deref_mut(&mut self) -> &mut System {
        &mut self.system
    }
}

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
pub(super) fn controller(name: u64) -> Endpoint<Sender> {
    Endpoint::new(FunctionConfig::nvme(0x2000, 8), Sender { name, ..Sender::default() })
}

/// A controller with virtual functions.
pub(super) fn with_virtual_functions() -> Endpoint<Sender> {
    let mut config = FunctionConfig::nvme(0x2000, 8).with_virtual_nvme(2, 0x2000, 4);
    config.function_level_reset = FunctionLevelReset::Takes { ns: 100_000_000 };
    let virtual_functions = (0..2).map(|_| Sender::default()).collect();
    Endpoint { config, device: Sender::default(), virtual_functions }
}

impl Slotted {
    /// A server on a machine where firmware has placed everything, or where the server does. Slots for which `names` has a
    /// controller have it at the start.
    pub(super) fn start(assigns: bool, names: [Option<u64>; 2]) -> Self {
        Self::with(&slotted_config(assigns), names)
    }

    pub(super) fn with(config: &ServerConfig, names: [Option<u64>; 2]) -> Self {
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
        if !config.assign {
            tree.run_firmware(Firmware::Places, &mut Everything).unwrap();
        }
        let tree = Rc::new(RefCell::new(tree));
        let bus = Box::new(TreeBus { tree: tree.clone(), lies: Lies::default() });
        Self { system: System::on_bus(bus, config), tree, below, assigns: config.assign }
    }

    /// The next server, after the death of this one.
    pub(super) fn successor(&self) -> Self {
        let system = System::successor_for(&self.system.machine, &slotted_config(self.assigns), None);
        Self { system: system.expect("it runs"), tree: self.tree.clone(), below: self.below, assigns: self.assigns }
    }

    fn now_ns(&self) -> u64 {
        self.system.machine.state().ticks * 1_000_000
    }

    /// Puts a controller into a slot.
    pub(super) fn insert(&mut self, slot: usize, functions: Vec<Endpoint<Sender>>) {
        let now_ns = self.now_ns();
        self.tree.borrow_mut().insert(self.below[slot], functions, now_ns, &mut Everything).unwrap();
    }

    /// Takes out what is in a slot.
    pub(super) fn pull(&mut self, slot: usize) {
        let now_ns = self.now_ns();
        assert!(!self.tree.borrow_mut().remove(self.below[slot], now_ns, &mut Everything).is_empty());
    }

    pub(super) fn press(&mut self, slot: usize) {
        let now_ns = self.now_ns();
        self.tree.borrow_mut().press_attention_button(self.below[slot], now_ns, &mut Everything);
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
        self.system.machine.state_mut().writes_left = Some(writes);
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.wait(ms)));
        self.system.machine.state_mut().writes_left = None;
        match done {
            Ok(()) => true,
            Err(payload) if payload.is::<Stopped>() => false,
            Err(payload) => std::panic::resume_unwind(payload),
        }
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
        self.tree.borrow().slot(self.below[slot]).expect("a slot")
    }

    /// Claims a driver's function, as a driver does, and starts it.
    pub(super) fn run_driver(&mut self, badge: u64) -> Result<Claimed, Refusal> {
        let claimed = self.claim_class_code(badge, NVME_CLASS_CODE)?;
        self.io_space(badge)?;
        self.vector(badge, 0, 7)?;
        self.ask(badge, pci_api::START)?;
        Ok(claimed)
    }

    /// The value that a function's first register reads at the address in its BAR.
    pub(super) fn register(&self, bdf: Bdf) -> u64 {
        let mut tree = self.tree.borrow_mut();
        let bar = tree.config_read(ecam(bdf, 0x10), 4, u64::MAX).unwrap() & !0xf;
        tree.memory_read(bar, 4, u64::MAX).unwrap()
    }

    pub(super) fn is_master(&self, bdf: Bdf) -> bool {
        let command = self.tree.borrow_mut().config_read(ecam(bdf, COMMAND), 4, u64::MAX).unwrap() as u32;
        command != u32::MAX && command & MASTER != 0
    }
}
