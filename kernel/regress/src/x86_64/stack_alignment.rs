//! Fix `stack-alignment`: interrupts that are pending when the kernel is left.
//!
//! The device reads from an address that is not mapped for it and raises its interrupt right after. The IOMMU's fault
//! interrupt and the device's arrive together: one is taken, and the other is pending when the kernel is about to leave. The
//! memory that a misplaced stack overwrites depends on how the kernel was linked, so many vectors are tried. A kernel with
//! the defect does not reach the end.

use super::edu::{Edu, REQUESTER_ID};
use crate::machine::Machine;
use crate::sys;
use crate::verdict::Check;

/// Kernel interrupts to try: every third of the first forty-eight.
const IRQS: core::ops::Range<u64> = 0..48;
const STEP: usize = 3;
/// An address of the device's that is mapped nowhere.
const UNMAPPED: u64 = 0x80_0000;

pub(crate) fn run(machine: &mut Machine) -> Check {
    let device = Edu::new(machine)?;
    for irq in IRQS.step_by(STEP) {
        machine.msi_handler(REQUESTER_ID, irq)?;
        device.enable_msi(irq)?;
        device.load_and_interrupt(UNMAPPED)?;
        // A sign of life, so that the build machine can distinguish a slow run from a dead one.
        sys::print("irq ");
        sys::print_number(irq);
        sys::print("\n");
    }
    Ok(())
}
