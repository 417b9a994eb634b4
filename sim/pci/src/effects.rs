//! Effects of a write to configuration space beyond changing bits, and records of writes that software must not do.
//!
//! Neighbours: `layout` has the places, `function` reads the state back out of them, `hot_plug` has the slots.

use crate::function::{Function, Kind};
use crate::ids::FunctionId;
use crate::layout::{
    self, BAR0, COMMAND, DEVICE_CONTROL, INTERRUPT, LAST_BAR, LAST_PORT_BAR, LINK_STATUS, POWER_CONTROL, SLOT,
    SRIOV_BAR0, SRIOV_CONTROL, SRIOV_COUNT, SRIOV_LAST_BAR, SRIOV_PAGE_SIZE,
};
use crate::machine::{Device, Interrupts, Machine, Reset};
use crate::msix::Gate;
use crate::port::{self, SECONDARY_BUS_RESET};
use crate::record::Violation;
use crate::tree::Tree;
use crate::upstream::Line;

/// A write that was done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub(crate) register: u16,
    /// The value, in the bits that software wrote.
    value: u32,
    mask: u32,
    before: u32,
    pub(crate) after: u32,
}

impl Write {
    pub(crate) fn changed(self) -> u32 {
        self.before ^ self.after
    }

    pub(crate) const fn before(self) -> u32 {
        self.before
    }
}

impl<D: Device> Tree<D> {
    /// Writes the bits in `mask` of a register of a function that answers.
    pub(crate) fn write_register(
        &mut self,
        id: FunctionId,
        register: u16,
        value: u32,
        mask: u32,
        machine: &mut dyn Machine,
    ) {
        let Some(function) = self.functions.get_mut(id) else { return };
        let interrupts = function.core.interrupts();
        let before = function.core.space.read(register);
        if let Some(violation) = violation_of(function, register, value, mask) {
            self.outer.batch.violation(id, function.core.route.bdf, violation);
            if matches!(violation, Violation::VirtualFunctionsEnabled { .. }) {
                return;
            }
        }
        function.core.space.write(register, value, mask);
        let write = Write { register, value, mask, before, after: function.core.space.read(register) };
        match function.kind {
            Kind::Port(_) => self.port_effects(id, write, machine),
            Kind::Device(_) | Kind::Inert => self.endpoint_effects(id, write, machine),
        }
        self.common_effects(id, write, machine);
        self.interrupt_effects(id, interrupts, machine);
    }

    /// Applies a write's effects in the registers that all functions have.
    fn common_effects(&mut self, id: FunctionId, write: Write, machine: &mut dyn Machine) {
        match write.register {
            COMMAND if write.changed() != 0 => self.reroute(machine),
            POWER_CONTROL => self.change_power(id, write, machine),
            _ => {}
        }
    }

    fn endpoint_effects(&mut self, id: FunctionId, write: Write, machine: &mut dyn Machine) {
        const INITIATE_FLR: u32 = 1 << 15;
        match write.register {
            BAR0..=LAST_BAR if write.changed() != 0 => self.rebuild(),
            DEVICE_CONTROL if write.value & write.mask & INITIATE_FLR != 0 => {
                self.function_level_reset(id, machine);
            }
            SRIOV_CONTROL | SRIOV_COUNT if write.changed() != 0 => self.change_virtual_functions(id, write, machine),
            SRIOV_PAGE_SIZE if write.changed() != 0 => self.change_page_size(id, write),
            SRIOV_BAR0..=SRIOV_LAST_BAR if write.changed() != 0 => self.rebuild(),
            _ => {}
        }
    }

    fn port_effects(&mut self, id: FunctionId, write: Write, machine: &mut dyn Machine) {
        match write.register {
            BAR0..=LAST_PORT_BAR | port::BUS_NUMBERS | port::MEMORY..=port::PREFETCHABLE_LIMIT_UPPER
                if write.changed() != 0 =>
            {
                self.rebuild();
            }
            INTERRUPT if write.changed() & SECONDARY_BUS_RESET != 0 => self.secondary_bus_reset(id, write, machine),
            LINK_STATUS if write.changed() != 0 => self.link_changed(id, machine),
            SLOT => self.slot_written(id, write.changed(), machine),
            _ => {}
        }
    }

    /// Notifies the device when its way of interrupting changed, sends pending messages, and updates the pin.
    fn interrupt_effects(&mut self, id: FunctionId, before: Interrupts, machine: &mut dyn Machine) {
        let Some(Function { core, kind }) = self.functions.get_mut(id) else { return };
        let now = core.interrupts();
        let both = core.msix_gate() != Gate::Off && core.msi_is_on();
        if let Kind::Device(device) = kind
            && now != before
        {
            device.interrupts_changed(now);
        }
        let mut line = Line { core, outer: &mut self.outer, machine };
        if both && now != before {
            line.violation(Violation::MsiAndMsix);
        }
        line.deliver_pending();
        line.settle_pin();
    }

    /// Updates everything after a change that may let others' pins through, or no longer.
    pub(crate) fn reroute(&mut self, machine: &mut dyn Machine) {
        self.rebuild();
        for Function { core, .. } in self.functions.iter_mut() {
            Line { core, outer: &mut self.outer, machine }.settle_pin();
        }
    }

    /// Changes the number of virtual functions. New ones are fresh; removed ones are reset (PCIe 9.3.3.3.1).
    fn change_virtual_functions(&mut self, id: FunctionId, write: Write, machine: &mut dyn Machine) {
        const ENABLE: u32 = 1;
        let Some(Function { core, .. }) = self.functions.get(id) else { return };
        let bdf = core.route.bdf;
        let Some(sriov) = &core.sriov else { return };
        let (all, total) = (sriov.functions.clone(), sriov.config.total);
        let count = core.space.read(SRIOV_COUNT) as u16;
        if write.register == SRIOV_CONTROL && write.changed() & ENABLE != 0 {
            if write.after & ENABLE != 0 && count > total {
                self.outer.batch.violation(id, bdf, Violation::TooManyVirtualFunctions { count });
            }
            for function in all {
                self.reset_one(function, Reset::FunctionLevel);
            }
        }
        self.reroute(machine);
    }

    /// Changes the page size. An unsupported size leaves the previous one.
    fn change_page_size(&mut self, id: FunctionId, write: Write) {
        let Some(Function { core, .. }) = self.functions.get_mut(id) else { return };
        if write.after.count_ones() != 1 {
            core.space.set(SRIOV_PAGE_SIZE, write.before, u32::MAX);
        }
        let page_bytes = core.virtual_page_bytes();
        if let Some(sriov) = &core.sriov {
            layout::page_virtual_bars(&mut core.space, &sriov.config.bars, page_bytes);
        }
        self.rebuild();
    }
}

/// Returns the violation that a write would be; called before it is done.
fn violation_of<D>(function: &Function<D>, register: u16, value: u32, mask: u32) -> Option<Violation> {
    let core = &function.core;
    let differs = (core.space.read(register) ^ value) & mask != 0;
    let is_port = matches!(function.kind, Kind::Port(_));
    let last_bar = if is_port { LAST_PORT_BAR } else { LAST_BAR };
    let is_bar = (BAR0..=last_bar).contains(&register);
    let is_virtual_bar = core.sriov.is_some() && (SRIOV_BAR0..=SRIOV_LAST_BAR).contains(&register);
    if is_bar && differs && core.decodes_memory() && !core.space.is_read_only(register) {
        return Some(Violation::BarMovedWhileDecoding { register });
    }
    if let Some(violation) = virtual_violation_of(function, register, differs) {
        return Some(violation);
    }
    let sized = is_bar || is_virtual_bar || layout::ROM.contains(&register);
    // A read-modify-write of a register's neighbours writes back what was read; anything else was meant to change it.
    if !sized && differs && core.space.is_read_only(register) {
        return Some(Violation::ReadOnlyRegister { register });
    }
    None
}

fn virtual_violation_of<D>(function: &Function<D>, register: u16, differs: bool) -> Option<Violation> {
    const ENABLE: u32 = 1;
    const MEMORY_SPACE: u32 = 1 << 3;
    let core = &function.core;
    core.sriov.as_ref().filter(|_| differs)?;
    let control = core.space.read(SRIOV_CONTROL);
    match register {
        SRIOV_COUNT | SRIOV_PAGE_SIZE if control & ENABLE != 0 => Some(Violation::VirtualFunctionsEnabled { register }),
        SRIOV_BAR0..=SRIOV_LAST_BAR if control & MEMORY_SPACE != 0 && !core.space.is_read_only(register) => {
            Some(Violation::BarMovedWhileDecoding { register })
        }
        _ => None,
    }
}
