//! The server on the modelled PCI tree: a controller with virtual functions behind a root port, its driver, and drivers of its
//! virtual functions.

use super::system::{config, driver};
use super::tree_bus::{Everything, Worker};
pub(super) use super::tree_bus::{MSIX, OnTree, SRIOV_CONTROL};
use pci_api::{Count, Match, Refusal, ServerConfig, VIRTUAL_FUNCTIONS};
use pci_spec::Bdf;
use platform::Badge;
use sim_pci::{
    Blocked, BusId, Endpoint, FunctionConfig, FunctionId, FunctionLevelReset, OnWaking, PortConfig, Tree, TreeConfig,
};
use std::vec;

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

impl OnTree {
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
        let virtual_functions = vec![Worker::default(); TOTAL.into()];
        let endpoint = Endpoint { config: function, device: Worker::default(), virtual_functions };
        tree.attach(below, 0, 0, endpoint).unwrap();
        tree.attach(BusId::ROOT, 5, 0, Endpoint::new(FunctionConfig::edu(), Worker::default())).unwrap();
        Self::new(tree, vec![below], config)
    }

    /// The controller in the tree, which alone has virtual functions.
    fn physical(&self) -> FunctionId {
        let tree = self.bus.tree();
        let mut all = tree.functions();
        all.find(|id| !tree.virtual_functions(*id).is_empty()).expect("a controller")
    }

    /// Puts the controller and the port above it into D3hot.
    pub(super) fn suspend(&self, on_waking: OnWaking) {
        let physical = self.physical();
        let mut tree = self.bus.tree();
        for id in tree.bridges_above(physical).into_iter().chain([physical]) {
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
        system.run_driver(SERVER).unwrap();
        system.enable(number);
        system
    }

    /// The register of MSI-X with another number of vectors.
    pub(super) fn msix_with(&self, bdf: Bdf, vectors: u32) -> u32 {
        self.bus.read(bdf, MSIX) & !0x07ff_0000 | (vectors - 1) << 16
    }

    pub(super) fn has_messages(&self, bdf: Bdf) -> bool {
        let control = self.bus.read(bdf, MSIX);
        control != u32::MAX && control & 1 << 31 != 0
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.bus.read(PHYSICAL, SRIOV_CONTROL) & 1 != 0
    }

    fn virtual_id(&self, number_z: u16) -> FunctionId {
        let physical = self.physical();
        self.bus.tree().virtual_functions(physical)[usize::from(number_z)]
    }

    /// Resets that virtual function `number_z` saw.
    pub(super) fn resets(&self, number_z: u16) -> u32 {
        let id = self.virtual_id(number_z);
        self.bus.tree().device(id).unwrap().resets
    }

    /// Has virtual function `number_z` send DMA, whatever its registers say.
    pub(super) fn send(&mut self, number_z: u16) -> Result<(), Blocked> {
        let id = self.virtual_id(number_z);
        let mut tree = self.bus.tree();
        let sent = tree.with_device(id, u64::MAX, &mut Everything, |_, up| up.dma_write(0x1000, &[0; 8]));
        sent.expect("a device")
    }

    /// The message of vector 0 of a function whose table is at this address.
    pub(super) fn entry(&self, table: u64) -> [u32; 4] {
        let mut tree = self.bus.tree();
        [0, 4, 8, 12].map(|at| tree.memory_read(table + at, 4, u64::MAX).unwrap() as u32)
    }
}
