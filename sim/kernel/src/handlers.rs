//! The interrupt controller and the kernel's table of handlers. Neighbour: `interrupt` works on them.

use crate::Arch;
use crate::controller::Controller;
use crate::rules::Interface;
use crate::slots::{SlotId, Slots};
use platform::IrqSource;

/// The interrupt controller and the kernel's table of handlers.
#[derive(Clone, Debug)]
pub(crate) struct Interrupts {
    /// The notifications to signal, a slot for each interrupt.
    pub(crate) first: SlotId,
    /// The source of each interrupt that has a handler.
    pub(crate) sources: Vec<Option<IrqSource>>,
    pub(crate) controller: Controller,
    pub(crate) undelivered: u64,
}

impl Interrupts {
    pub(crate) fn new(arch: Arch, interface: Interface, slots: &mut Slots) -> Self {
        let controller = Controller::new(arch, interface);
        let irqs = controller.irqs();
        let slot_bits = irqs.next_power_of_two().ilog2() as u8;
        Self { first: slots.add(slot_bits), sources: vec![None; irqs], controller, undelivered: 0 }
    }
}
