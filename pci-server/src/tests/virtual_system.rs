//! The server on the modelled PCI tree: a controller with virtual functions behind a root port, its driver, and drivers of its
//! virtual functions.

use super::system::{NVME_CLASS_CODE, System, config, driver};
use super::tree_bus::{COMMAND, Everything, Lies, MASTER, Sender, TreeBus, ecam};
pub(super) use super::tree_bus::{MSIX, SRIOV_CONTROL};
use core::cell::RefCell;
use core::ops::{Deref, DerefMut};
use pci_api::{Count, Match, Refusal, ServerConfig, VIRTUAL_FUNCTIONS};
use pci_spec::Bdf;
use platform::Badge;
use sim_pci::{
    Blocked, BusId, Endpoint, Firmware, FunctionConfig, FunctionId, FunctionLevelReset, OnWaking, PortConfig, Tree,
    TreeConfig, Violation,
};
use std::boxed::Box;
use std::rc::Rc;
use std::vec;
use std::vec::Vec;

/// The controller.
pub(super) const PHYSICAL: Bdf = Bdf::from_raw(0x0100);
/// A function whose pin ends at the same line.
pub(super) const NEIGHBOUR: Bdf = Bdf::from_raw(5 << 3);
/// Virtual functions that it has.
pub(super) const TOTAL: u16 = 3;
/// Badges of the controller's driver, and of the drivers of virtual functions 0 and 1 and of one that there is not.
pub(super) const SERVER: u64 = 1;
pub(super) const FIRST: u64 = 2;
pub(super) const SECOND: u64 = 3;
pub(super) const BEYOND: u64 = 4;
/// The routing id of virtual function `number_z`.
pub(super) const fn virtual_at(number_z: u16) -> Bdf {
    Bdf::from_raw(PHYSICAL.to_raw() + 1 + number_z)
}

/// The system, with its tree.
pub(super) struct Virtual {
    pub(super) system: System,
    tree: Rc<RefCell<Tree<Sender>>>,
    lies: Lies,
    physical: FunctionId,
}

impl Deref for Virtual {
    type Target = System;

    fn deref(&self) -> &System {
        &self.system
    }
}

impl DerefMut for Virtual {
    fn deref_mut(&mut self) -> &mut System {
        &mut self.system
    }
}

/// The controller's driver, and those of virtual functions 0, 1 and 7.
pub(super) fn virtual_config() -> ServerConfig {
    let controller = Match::ClassCode { class_code: [1, 8, 2], index: 0 };
    let of_controller = |index| Match::Virtual { driver: 0, index };
    let drivers = vec![
        driver("server", controller, 1),
        driver("first", of_controller(0), 2),
        driver("second", of_controller(1), 3),
        driver("beyond", of_controller(7), 4),
    ];
    ServerConfig { drivers, ..config() }
}

impl Virtual {
    /// A server on a machine whose firmware places no virtual functions.
    pub(super) fn start() -> Self {
        Self::with(FunctionLevelReset::Takes { ns: 100_000_000 }, &virtual_config())
    }

    pub(super) fn with(reset: FunctionLevelReset, config: &ServerConfig) -> Self {
        let window = 0xc000_0000..0xc800_0000;
        let mut tree = Tree::new(TreeConfig { buses: 16, windows: vec![window] });
        let below = tree.attach_port(BusId::ROOT, 1, 0, PortConfig::root_port(1)).unwrap();
        let mut function = FunctionConfig::nvme(0x2000, 8).with_virtual_nvme(TOTAL, 0x2000, 4);
        function.function_level_reset = reset;
        let inside = (0..TOTAL).map(|_| Sender::default()).collect();
        let endpoint = Endpoint { config: function, device: Sender::default(), virtual_functions: inside };
        let physical = tree.attach(below, 0, 0, endpoint).unwrap();
        tree.attach(BusId::ROOT, 5, 0, Endpoint::new(FunctionConfig::edu(), Sender::default())).unwrap();
        tree.run_firmware(Firmware::Places, &mut Everything).unwrap();
        let tree = Rc::new(RefCell::new(tree));
        let lies = Lies::default();
        let system = System::on_bus(Box::new(TreeBus { tree: tree.clone(), lies: lies.clone() }), config);
        Self { system, tree, lies, physical }
    }

    /// The next server, after the death of this one, which ends its drivers. `None` if it is stopped after `writes` writes.
    pub(super) fn successor(&self, writes: Option<u32>) -> Option<Self> {
        let system = System::successor_for(&self.system.machine, &virtual_config(), writes)?;
        Some(Self { system, tree: self.tree.clone(), lies: self.lies.clone(), physical: self.physical })
    }

    /// Puts the controller and the port above it into D3hot.
    pub(super) fn suspend(&self, on_waking: OnWaking) {
        let mut tree = self.tree.borrow_mut();
        for id in tree.bridges_above(self.physical).into_iter().chain([self.physical]) {
            tree.suspend(id, on_waking, &mut Everything);
        }
    }

    /// Lets time pass, without a tick.
    pub(super) fn pass(&mut self, ms: u64) {
        self.system.machine.state_mut().ticks += ms;
    }

    /// Lets time pass, and sends the supervisor's tick.
    pub(super) fn tick(&mut self, ms: u64) {
        self.pass(ms);
        self.system.signal(Badge::SIGNAL | Badge::TICK);
    }

    pub(super) fn ask_virtual(&mut self, badge: u64, number: u64) -> Result<u64, Refusal> {
        let answer = self.system.ask_index(badge, VIRTUAL_FUNCTIONS, number)?;
        let Count(count) = answer.payload().unwrap();
        Ok(count)
    }

    /// Repeats the request until there are as many.
    pub(super) fn enable(&mut self, number: u16) {
        for _ in 0..100 {
            if self.ask_virtual(SERVER, number.into()).unwrap() == u64::from(number) {
                return;
            }
            self.pass(20);
        }
        panic!("no virtual functions after two seconds");
    }

    /// A system with the controller claimed and started, and `number` virtual functions enabled.
    pub(super) fn enabled(number: u16) -> Self {
        let mut system = Self::start();
        system.claim_class_code(SERVER, NVME_CLASS_CODE).unwrap();
        system.io_space(SERVER).unwrap();
        system.vector(SERVER, 0, 7).unwrap();
        system.ask(SERVER, pci_api::START).unwrap();
        system.enable(number);
        system
    }

    /// Claims the driver's virtual function, and starts it.
    pub(super) fn claim_virtual(&mut self, badge: u64) -> Result<pci_api::Claimed, Refusal> {
        let claimed = self.claim_class_code(badge, NVME_CLASS_CODE)?;
        self.io_space(badge)?;
        self.vector(badge, 0, 7)?;
        self.ask(badge, pci_api::START)?;
        Ok(claimed)
    }

    /// The server reads this value from a register, or that of the model again.
    pub(super) fn pretend(&self, bdf: Bdf, register: u16, value: Option<u32>) {
        let mut lies = self.lies.borrow_mut();
        lies.remove(&(bdf, register));
        lies.extend(value.map(|value| ((bdf, register), value)));
    }

    /// No register lies any more.
    pub(super) fn tell_the_truth(&self) {
        self.lies.borrow_mut().clear();
    }

    /// The register of MSI-X with another number of vectors.
    pub(super) fn msix_with(&self, bdf: Bdf, vectors: u32) -> u32 {
        self.config(bdf, MSIX) & !0x07ff_0000 | (vectors - 1) << 16
    }

    /// Reads a register without the server.
    pub(super) fn config(&self, bdf: Bdf, register: u16) -> u32 {
        let mut tree = self.tree.borrow_mut();
        tree.config_read(ecam(bdf, register), 4, u64::MAX).unwrap() as u32
    }

    /// Writes a register without the server.
    pub(super) fn set_config(&self, bdf: Bdf, register: u16, value: u32) {
        let now_ns = self.system.machine.state().ticks * 1_000_000;
        let mut tree = self.tree.borrow_mut();
        tree.config_write(ecam(bdf, register), 4, value.into(), now_ns, &mut Everything).unwrap();
    }

    pub(super) fn is_master(&self, bdf: Bdf) -> bool {
        let command = self.config(bdf, COMMAND);
        command != u32::MAX && command & MASTER != 0
    }

    pub(super) fn has_messages(&self, bdf: Bdf) -> bool {
        let control = self.config(bdf, MSIX);
        control != u32::MAX && control & 1 << 31 != 0
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.config(PHYSICAL, SRIOV_CONTROL) & 1 != 0
    }

    pub(super) fn violations(&self) -> Vec<Violation> {
        self.tree.borrow().violations().iter().map(|record| record.violation).collect()
    }

    fn virtual_id(&self, number_z: u16) -> FunctionId {
        self.tree.borrow().virtual_functions(self.physical)[usize::from(number_z)]
    }

    /// Resets that virtual function `number_z` saw.
    pub(super) fn resets(&self, number_z: u16) -> u32 {
        let id = self.virtual_id(number_z);
        self.tree.borrow().device(id).unwrap().resets
    }

    /// Has virtual function `number_z` send DMA, whatever its registers say.
    pub(super) fn send(&mut self, number_z: u16) -> Result<(), Blocked> {
        let id = self.virtual_id(number_z);
        let mut tree = self.tree.borrow_mut();
        let sent = tree.with_device(id, u64::MAX, &mut Everything, |_, up| up.dma_write(0x1000, &[0; 8]));
        sent.expect("a device")
    }

    /// The message of vector 0 of a function whose table is at this address.
    pub(super) fn entry(&self, table: u64) -> [u32; 4] {
        let mut tree = self.tree.borrow_mut();
        [0, 4, 8, 12].map(|at| tree.memory_read(table + at, 4, u64::MAX).unwrap() as u32)
    }
}
