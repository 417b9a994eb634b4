//! Names and numbers that the kernel has on AArch64 alone, under the names that `kernel.rs` uses.
//!
//! The kernel has no I/O ports there, and no support for an IOMMU: see `io_space`.

pub(crate) mod abuse;
mod io_space;
mod line;
mod start;
pub(crate) mod syscall;
mod timer;

use crate::abi;
use crate::bindings::{constant, invoke::seL4_UserContext as user_context};
use crate::invocation::Sel4;
use platform::{AbsoluteCPtr, CacheAttributes, Cap, Error, IrqControl, IrqSource, ObjectType, Result, Rights, Trigger};

pub(crate) use io_space::{
    io_page_table_map, io_page_table_unmap, io_space_close, io_space_open, page_map_io, page_unmap_io,
};
pub(crate) use line::write_panic;
pub use timer::{TIMER_LINE, TimerRegisters};

pub(crate) use crate::bindings::invoke::{
    seL4_ARM_ASIDControl_MakePool as asid_control_make_pool, seL4_ARM_ASIDPool_Assign as asid_pool_assign,
    seL4_ARM_Page_GetAddress as page_get_address, seL4_ARM_Page_Map as page_map, seL4_ARM_Page_Unmap as page_unmap,
    seL4_ARM_PageTable_Map as table_three_map,
};
pub(crate) use abi::{VSPACE_BITS, table_bits, table_one_map, table_two_map};

/// A call leaves nothing on the stack.
pub(crate) const CALL_BYTES: u64 = 0;

/// Places of instruction pointer, stack pointer and the first three arguments in a thread's context.
pub(crate) const REGISTERS: [usize; 5] =
    [user_context::pc, user_context::sp, user_context::x0, user_context::x1, user_context::x2];

pub(crate) const TABLE_ATTRIBUTES: u64 = constant::seL4_ARM_Default_VMAttributes;

/// Interrupts of the GIC that a capability can name.
pub(crate) const IRQ_COUNT: u8 = abi::IRQS as u8;

/// Messages are interrupts of the GIC as others are.
pub(crate) const MASKS_MESSAGES: bool = true;

/// The register of the GICv2m that a function writes an interrupt's number to (Arm Server Base System Architecture, appendix E).
const MSI_ADDRESS: u64 = 0x0802_0040;

pub(crate) const fn object_number(object_type: ObjectType) -> u64 {
    match object_type {
        ObjectType::Untyped => constant::seL4_UntypedObject,
        ObjectType::Endpoint => constant::seL4_EndpointObject,
        ObjectType::Notification => constant::seL4_NotificationObject,
        ObjectType::CNode => constant::seL4_CapTableObject,
        ObjectType::Tcb => constant::seL4_TCBObject,
        ObjectType::VSpace => abi::VSPACE_OBJECT,
        ObjectType::TranslationTable(level) => abi::table_object(level),
        ObjectType::SmallPage => constant::seL4_ARM_SmallPageObject,
        ObjectType::LargePage => constant::seL4_ARM_LargePageObject,
        // A number that the kernel refuses.
        ObjectType::IoPageTable => constant::seL4_ARM_IOPageTableObject,
    }
}

/// Pages that can be written are never executed.
pub(crate) const fn attributes(attributes: CacheAttributes, rights: Rights) -> u64 {
    match attributes {
        CacheAttributes::WriteBack if rights.write => {
            constant::seL4_ARM_Default_VMAttributes | constant::seL4_ARM_ExecuteNever
        }
        CacheAttributes::WriteBack => constant::seL4_ARM_Default_VMAttributes,
        CacheAttributes::Uncached => constant::seL4_ARM_ExecuteNever,
    }
}

pub(crate) fn irq_control_get(
    kernel: &Sel4,
    control: Cap<IrqControl>,
    dest: AbsoluteCPtr,
    source: IrqSource,
    irq: u8,
) -> Result<()> {
    let (irq, is_edge) = match source {
        IrqSource::Line { line, trigger } => (line, trigger == Trigger::Edge),
        IrqSource::Message { .. } => (irq, true),
    };
    abi::irq_get(kernel, control, irq, is_edge, (dest.root.bits(), dest.index, u64::from(dest.depth)))
}

pub(crate) fn msi_message(irq: u8) -> (u64, u32) {
    (MSI_ADDRESS, u32::from(irq))
}

pub(crate) fn io_ports(_: &Sel4, _: AbsoluteCPtr, _: AbsoluteCPtr, _: Rights, _: (u16, u16)) -> Result<()> {
    Err(Error::IllegalOperation)
}

pub(crate) fn io_space_data(_: u16, _: u16) -> Result<u64> {
    Err(Error::IllegalOperation)
}

/// Whether a data abort was a write, by its syndrome (Arm ARM DDI 0487, ESR_EL1, ISS encoding for data aborts).
pub(crate) const fn is_write(status: u64) -> bool {
    status & 1 << 6 != 0
}

/// Ticks of the clock per second.
pub(crate) fn ticks_per_second(_boot_info: &[u8]) -> u64 {
    syscall::ticks_per_second()
}

/// Always 0: the kernel has no support for an IOMMU.
pub(crate) fn io_page_table_levels(_boot_info: &[u8]) -> u64 {
    0
}
