//! Power states D0 and D3hot (PCI Power Management 1.2, section 5.4.1), and what software that ran before may have left.
//!
//! In D3hot only configuration space answers. A function that was suspended before the machine runs takes the standard's time to
//! come back, and may lose its registers on the way. Left out: D1 and D2, and D3cold.

use crate::effects::Write;
use crate::function::{Core, OnWaking};
use crate::ids::FunctionId;
use crate::layout::{MSI, MSIX, POWER_CONTROL};
use crate::machine::{Device, Machine, Reset};
use crate::tree::Tree;

/// PowerState, and its value for D3hot.
const STATE: u32 = 0b11;
/// No_Soft_Reset.
const KEEPS: u32 = 1 << 3;
/// Time from D3hot to D0 in which nothing may be accessed (section 5.6.1).
const RECOVERY_NS: u64 = 10_000_000;

impl<D: Device> Tree<D> {
    /// Puts a function into D3hot, as software left it that ran before.
    pub fn suspend(&mut self, id: FunctionId, on_waking: OnWaking, machine: &mut dyn Machine) {
        let Some(function) = self.functions.get_mut(id) else { return };
        let keeps = if on_waking == OnWaking::Keeps { KEEPS } else { 0 };
        function.core.space.fix(POWER_CONTROL, keeps, KEEPS);
        function.core.space.set(POWER_CONTROL, STATE, STATE);
        function.core.on_waking = Some(on_waking);
        self.reroute(machine);
    }

    /// Leaves MSI-X on and masked as a whole, and every MSI vector masked, as far as the function has them.
    pub fn leave_masks(&mut self, id: FunctionId) {
        let Some(Core { space, msix, has_msi, .. }) = self.functions.get_mut(id).map(|function| &mut function.core)
        else {
            return;
        };
        if msix.is_some() {
            space.set(MSIX, 0xc000_0000, 0xc000_0000);
        }
        if *has_msi {
            space.set(MSI + 16, u32::MAX, u32::MAX);
        }
    }

    /// The bridges above a function, the nearest first.
    #[must_use]
    pub fn bridges_above(&self, id: FunctionId) -> Vec<FunctionId> {
        let bus = self.functions.get(id).map(|function| function.core.bus);
        let above = |bus: &_| self.bridge_of(*bus).map(|(above, _)| above);
        core::iter::successors(bus, above).filter_map(|bus| self.port_function(bus)).collect()
    }

    /// Changes the power state. Only D0 and D3hot exist: a request for another state is ignored (section 3.2.4).
    pub(crate) fn change_power(&mut self, id: FunctionId, write: Write, machine: &mut dyn Machine) {
        let Some(function) = self.functions.get_mut(id) else { return };
        if matches!(write.after & STATE, 1 | 2) {
            function.core.space.set(POWER_CONTROL, write.before(), STATE);
            return;
        }
        if write.changed() & STATE == 0 {
            return;
        }
        if let Some(on_waking) = function.core.on_waking.filter(|_| write.after & STATE == 0) {
            if on_waking == OnWaking::Loses {
                self.reset_one(id, Reset::Bus);
            }
            let ready_at_ns = self.outer.batch.now_ns.saturating_add(RECOVERY_NS);
            self.functions.get_mut(id).into_iter().for_each(|function| function.core.ready_at_ns = ready_at_ns);
        }
        self.reroute(machine);
    }
}
