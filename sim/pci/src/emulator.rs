//! A function inside an emulator that has the tree, the BARs and the MSI-X table itself, as QEMU has them for the function of
//! a vfio-user server: the tree here keeps the function's configuration space and its device alone.

use crate::ids::FunctionId;
use crate::layout::MSI;
use crate::machine::{Device, Machine, Reset};
use crate::tree::Tree;
use pci_spec::msi::Control;

impl<D: Device> Tree<D> {
    /// Unmasks all MSI-X vectors of a function; the data of each message is then the vector's number. A reset ends that.
    pub fn number_messages(&mut self, id: FunctionId) {
        let address = self.outer.host.interrupt_range().start as u32;
        if let Some(msix) = self.functions.get_mut(id).and_then(|function| function.core.msix.as_mut()) {
            msix.number(address);
        }
    }

    /// Returns the bits of a message's data that are the vector's number, while the function interrupts by MSI.
    #[must_use]
    pub fn msi_vector_bits(&self, id: FunctionId) -> Option<u32> {
        let core = &self.functions.get(id)?.core;
        let control = Control::from_bits((core.space.read(MSI) >> 16) as u16);
        core.msi_is_on().then(|| (1 << control.enabled().min(control.capable()).min(5)) - 1)
    }

    /// Resets a function as a reset of its bus does.
    pub fn reset_function(&mut self, id: FunctionId, now_ns: u64, machine: &mut dyn Machine) {
        self.outer.batch.now_ns = now_ns;
        self.reset_one(id, Reset::Bus);
        self.reroute(machine);
    }

    /// Appends a copy of a function's configuration space to `bytes`.
    pub fn copy_config_space(&self, id: FunctionId, bytes: &mut Vec<u8>) {
        if let Some(function) = self.functions.get(id) {
            function.core.space.copy_to(bytes);
        }
    }
}
