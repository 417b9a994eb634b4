//! A tree with a machine above it, and the accesses of a processor.

use super::machine::{Above, Worker};
use pci_spec::Bdf;
use sim_pci::{BusId, Endpoint, Firmware, FunctionConfig, FunctionId, PortConfig, Tree, TreeConfig, Violation};
use std::ops::Range;

pub(super) const WINDOW: Range<u64> = 0xc000_0000..0xfec0_0000;

pub(super) struct System {
    pub(super) tree: Tree<Worker>,
    pub(super) above: Above,
    pub(super) now_ns: u64,
}

pub(super) fn bdf(bus: u8, device: u8, function: u8) -> Bdf {
    Bdf::new(bus, device, function).unwrap()
}

impl System {
    /// A host bridge and nothing else.
    pub(super) fn bare() -> Self {
        let config = TreeConfig { buses: 16, windows: vec![WINDOW] };
        Self { tree: Tree::new(config), above: Above::default(), now_ns: 0 }
    }

    /// Puts an NVMe-like function at 01:00.0 behind a root port at 00:01.0, as firmware leaves it. Returns its id and
    /// the port's lower bus.
    pub(super) fn with_function(config: FunctionConfig) -> (Self, FunctionId, BusId) {
        let mut system = Self::bare();
        let below = system.tree.attach_port(BusId::ROOT, 1, 0, PortConfig::root_port(1)).unwrap();
        let virtual_functions = config.sriov.as_ref().map_or(0, |sriov| sriov.total);
        let mut endpoint = Endpoint::new(config, Worker::default());
        endpoint.virtual_functions.resize_with(virtual_functions.into(), Worker::default);
        let id = system.tree.attach(below, 0, 0, endpoint).unwrap();
        system.boot();
        (system, id, below)
    }

    pub(super) fn nvme() -> (Self, FunctionId, BusId) {
        Self::with_function(FunctionConfig::nvme(0x2000, 4))
    }

    /// A controller behind a port, with the address of its registers.
    pub(super) fn placed() -> (Self, FunctionId, u64) {
        let (mut system, id, _) = Self::nvme();
        let base = system.bar0(bdf(1, 0, 0));
        (system, id, base)
    }

    /// A function with one BAR of 4 KiB of its own and no interrupts but the pin.
    pub(super) fn small() -> FunctionConfig {
        FunctionConfig { msix: None, ..FunctionConfig::nvme(0x1000, 1) }
    }

    pub(super) fn attach(&mut self, bus: BusId, device: u8, function: u8, config: FunctionConfig) -> FunctionId {
        self.tree.attach(bus, device, function, Endpoint::new(config, Worker::default())).unwrap()
    }

    pub(super) fn boot(&mut self) {
        self.tree.run_firmware(Firmware::PlacesAndBoots, &mut self.above).unwrap();
    }

    pub(super) fn read(&mut self, bdf: Bdf, register: u16) -> u32 {
        self.tree.config_read(ecam(bdf, register), 4, self.now_ns).unwrap() as u32
    }

    pub(super) fn write(&mut self, bdf: Bdf, register: u16, value: u32) {
        self.tree.config_write(ecam(bdf, register), 4, value.into(), self.now_ns, &mut self.above).unwrap();
    }

    pub(super) fn write16(&mut self, bdf: Bdf, register: u16, value: u16) {
        self.tree.config_write(ecam(bdf, register), 2, value.into(), self.now_ns, &mut self.above).unwrap();
    }

    /// Sets and clears bits of a register.
    pub(super) fn change(&mut self, bdf: Bdf, register: u16, on: u32, off: u32) {
        let value = self.read(bdf, register);
        self.write(bdf, register, value & !off | on);
    }

    pub(super) fn load(&mut self, address: u64) -> u64 {
        self.tree.memory_read(address, 8, self.now_ns).unwrap()
    }

    pub(super) fn store(&mut self, address: u64, value: u64) {
        self.tree.memory_write(address, 8, value, self.now_ns, &mut self.above).unwrap();
    }

    pub(super) fn store32(&mut self, address: u64, value: u32) {
        self.tree.memory_write(address, 4, value.into(), self.now_ns, &mut self.above).unwrap();
    }

    /// Returns the address of a 64-bit BAR 0.
    pub(super) fn bar0(&mut self, bdf: Bdf) -> u64 {
        u64::from(self.read(bdf, 0x10) & !0xf) | u64::from(self.read(bdf, 0x14)) << 32
    }

    pub(super) fn device(&self, id: FunctionId) -> &Worker {
        self.tree.device(id).unwrap()
    }

    pub(super) fn device_accesses_cleared(&mut self, id: FunctionId) {
        self.tree.device_mut(id).unwrap().accesses.clear();
    }

    pub(super) fn violations(&self) -> Vec<Violation> {
        self.tree.violations().iter().map(|record| record.violation).collect()
    }
}

pub(super) fn ecam(bdf: Bdf, register: u16) -> u64 {
    u64::from(bdf.to_raw()) << 12 | u64::from(register)
}
