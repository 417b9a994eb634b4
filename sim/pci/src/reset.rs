//! Resets: of one function, or of all below a port (PCIe 6.6).
//!
//! Configuration space goes back to its state at power on, messages are masked, pending bits and the pin fall, and the
//! device is notified. Left out: registers that survive (sticky bits), of which none is modelled.

use crate::effects::Write;
use crate::function::{Function, Kind};
use crate::ids::FunctionId;
use crate::layout;
use crate::machine::{Device, Level, Machine, Reset, VirtualFunction};
use crate::port::SECONDARY_BUS_RESET;
use crate::tree::Tree;

impl<D: Device> Tree<D> {
    /// Does a function level reset, if the function has it. A physical function also resets its virtual ones.
    pub(crate) fn function_level_reset(&mut self, id: FunctionId, machine: &mut dyn Machine) {
        let Some(Function { core, .. }) = self.functions.get(id) else { return };
        if core.function_level_reset_ns.is_none() {
            return;
        }
        let virtual_functions = core.sriov.as_ref().map_or(Vec::new(), |sriov| sriov.functions.clone());
        self.reset_one(id, Reset::FunctionLevel);
        for function in virtual_functions {
            self.reset_one(function, Reset::FunctionLevel);
        }
        self.reroute(machine);
    }

    /// Holds everything below a bridge in reset for as long as the bit is set.
    pub(crate) fn secondary_bus_reset(&mut self, port: FunctionId, write: Write, machine: &mut dyn Machine) {
        if write.after & SECONDARY_BUS_RESET != 0 {
            for id in self.bus_below(port).map_or(Vec::new(), |bus| self.below(bus)) {
                self.reset_one(id, Reset::Bus);
            }
        }
        self.reroute(machine);
    }

    /// Resets one function. The caller computes routes again, which also lets its pin fall.
    pub(crate) fn reset_one(&mut self, id: FunctionId, reset: Reset) {
        let now_ns = self.outer.batch.now_ns;
        // Its physical function is reset before it.
        let state = if self.is_enabled(id) { VirtualFunction::Enabled } else { VirtualFunction::Disabled };
        let Some(Function { core, kind }) = self.functions.get_mut(id) else { return };
        core.space.reset();
        core.wanted = Level::Deasserted;
        if let (Reset::FunctionLevel, Some(takes_ns)) = (reset, core.function_level_reset_ns) {
            core.ready_at_ns = now_ns.saturating_add(takes_ns);
        }
        // The system page size is 4 KiB again.
        let page_bytes = core.virtual_page_bytes();
        if let Some(sriov) = &core.sriov {
            layout::page_virtual_bars(&mut core.space, &sriov.config.bars, page_bytes);
        }
        if let Some(msix) = &mut core.msix {
            msix.reset();
        }
        match kind {
            Kind::Device(device) => {
                device.reset(reset, now_ns);
                if core.virtual_of.is_some() {
                    device.virtual_function(state);
                }
            }
            Kind::Port(port) => {
                let below = port.below;
                self.settle_slot(below);
            }
            Kind::Inert => {}
        }
    }
}
