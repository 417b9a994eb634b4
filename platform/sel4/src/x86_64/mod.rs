//! Names and numbers that the kernel has on x86_64 alone, under the names that `kernel.rs` uses.

pub(crate) mod abuse;
mod start;
pub(crate) mod syscall;

use crate::abi::{self, rights_word};
use crate::bindings::{constant, invoke, invoke::seL4_UserContext as user_context};
use crate::initial;
use crate::invocation::{Sel4, done};
use crate::page::word;
use crate::root::RootPlatform;
use core::arch::x86_64::__cpuid;
use platform::x86_64::PortIo;
use platform::{
    AbsoluteCPtr, CPtr, CacheAttributes, Cap, CapData, Frame, IoPageTable, IoPort, IoSpace, Iova, IrqControl,
    IrqSource, Kernel, ObjectType, Platform, Result, Rights, TableLevel, Trigger,
};

pub(crate) use crate::bindings::invoke::{
    seL4_X86_ASIDControl_MakePool as asid_control_make_pool, seL4_X86_ASIDPool_Assign as asid_pool_assign,
    seL4_X86_PDPT_Map as table_one_map, seL4_X86_Page_GetAddress as page_get_address, seL4_X86_Page_Map as page_map,
    seL4_X86_Page_Unmap as page_unmap, seL4_X86_PageDirectory_Map as table_two_map,
    seL4_X86_PageTable_Map as table_three_map,
};

/// Bytes below a stack pointer that was a multiple of 16, at a function's entry: the return address.
pub(crate) const CALL_BYTES: u64 = 8;

/// Places of instruction pointer, stack pointer and the first three arguments in a thread's context.
pub(crate) const REGISTERS: [usize; 5] =
    [user_context::rip, user_context::rsp, user_context::rdi, user_context::rsi, user_context::rdx];

pub(crate) const TABLE_ATTRIBUTES: u64 = constant::seL4_X86_Default_VMAttributes;

/// Kernel interrupts for lines and messages.
pub(crate) const IRQ_COUNT: u8 = {
    const { assert!(abi::IRQS <= u8::MAX as u64) };
    abi::IRQS as u8
};

/// The kernel has no way to mask a message, and does not try.
pub(crate) const MASKS_MESSAGES: bool = false;

/// The address a device writes to interrupt the processor (Intel SDM volume 3, section 11.11.1).
const MSI_ADDRESS: u64 = 0xfee0_0000;
const MSI_APIC_ID_SHIFT: u32 = 12;
/// The only I/O APIC of the machines this runs on.
const IOAPIC: u64 = 0;

pub(crate) const fn object_number(object_type: ObjectType) -> u64 {
    match object_type {
        ObjectType::Untyped => constant::seL4_UntypedObject,
        ObjectType::Endpoint => constant::seL4_EndpointObject,
        ObjectType::Notification => constant::seL4_NotificationObject,
        ObjectType::CNode => constant::seL4_CapTableObject,
        ObjectType::Tcb => constant::seL4_TCBObject,
        ObjectType::VSpace => constant::seL4_X64_PML4Object,
        ObjectType::TranslationTable(TableLevel::One) => constant::seL4_X86_PDPTObject,
        ObjectType::TranslationTable(TableLevel::Two) => constant::seL4_X86_PageDirectoryObject,
        ObjectType::TranslationTable(TableLevel::Three) => constant::seL4_X86_PageTableObject,
        ObjectType::SmallPage => constant::seL4_X86_4K,
        ObjectType::LargePage => constant::seL4_X86_LargePageObject,
        ObjectType::IoPageTable => constant::seL4_X86_IOPageTableObject,
    }
}

/// log2 of the bytes of a VSpace's root and of a table of the level.
pub(crate) const VSPACE_BITS: u64 = constant::seL4_PML4Bits;
pub(crate) const fn table_bits(level: TableLevel) -> u64 {
    match level {
        TableLevel::One => constant::seL4_PDPTBits,
        TableLevel::Two => constant::seL4_PageDirBits,
        TableLevel::Three => constant::seL4_PageTableBits,
    }
}

pub(crate) const fn attributes(attributes: CacheAttributes, _rights: Rights) -> u64 {
    match attributes {
        CacheAttributes::WriteBack => constant::seL4_X86_WriteBack,
        CacheAttributes::Uncached => constant::seL4_X86_Uncacheable,
    }
}

pub(crate) fn page_map_io(
    kernel: &Sel4,
    frame: Cap<Frame>,
    space: Cap<IoSpace>,
    rights: Rights,
    at: Iova,
) -> Result<()> {
    done(invoke::seL4_X86_Page_MapIO(kernel, frame.bits(), space.bits(), rights_word(rights), at.bits()))
}

/// Unmaps a frame; the kernel finds the mapping by the capability.
pub(crate) fn page_unmap_io(kernel: &Sel4, frame: Cap<Frame>, _: Cap<IoSpace>, _: Iova) -> Result<()> {
    kernel.frame_unmap(frame)
}

pub(crate) fn io_space_open(
    kernel: &Sel4,
    dest: AbsoluteCPtr,
    master: AbsoluteCPtr,
    domain: u16,
    requester_id: u16,
) -> Result<()> {
    kernel.cnode_mint(dest, master, Rights::ALL, CapData::IoSpace { domain, requester_id })
}

/// Revoking the capability is enough.
pub(crate) fn io_space_close(_: &Sel4, _: AbsoluteCPtr, _: u16) -> Result<()> {
    Ok(())
}

pub(crate) fn io_page_table_map(kernel: &Sel4, table: Cap<IoPageTable>, space: Cap<IoSpace>, at: Iova) -> Result<()> {
    done(invoke::seL4_X86_IOPageTable_Map(kernel, table.bits(), space.bits(), at.bits()))
}

pub(crate) fn io_page_table_unmap(kernel: &Sel4, table: Cap<IoPageTable>) -> Result<()> {
    done(invoke::seL4_X86_IOPageTable_Unmap(kernel, table.bits()))
}

pub(crate) fn irq_control_get(
    kernel: &Sel4,
    control: Cap<IrqControl>,
    dest: AbsoluteCPtr,
    source: IrqSource,
    irq: u8,
) -> Result<()> {
    let (control, root, index, depth) = (control.bits(), dest.root.bits(), dest.index, u64::from(dest.depth));
    let irq = u64::from(irq);
    done(match source {
        IrqSource::Line { line, trigger } => {
            let (level, polarity) = match trigger {
                Trigger::Edge => (0, 0),
                Trigger::LevelLow => (1, 1),
            };
            let pin = u64::from(line);
            invoke::seL4_IRQControl_GetIOAPIC(kernel, control, root, index, depth, IOAPIC, pin, level, polarity, irq)
        }
        IrqSource::Message { requester_id } => {
            let id = u64::from(requester_id);
            let (bus, device, function) = (id >> 8, id >> 3 & 0x1f, id & 7);
            // The handle is the kernel's own note for interrupt remapping, which it does not do.
            invoke::seL4_IRQControl_GetMSI(kernel, control, root, index, depth, bus, device, function, 0, irq)
        }
    })
}

pub(crate) fn msi_message(irq: u8) -> (u64, u32) {
    // Leaf 1, ebx: the top byte is the APIC id of this processor, and the kernel runs on this one alone.
    let apic_id = __cpuid(1).ebx >> 24;
    let address = MSI_ADDRESS | u64::from(apic_id) << MSI_APIC_ID_SHIFT;
    (address, constant::IRQ_OFFSET as u32 + u32::from(irq))
}

pub(crate) use abi::io_ports;

pub(crate) fn io_space_data(domain: u16, requester_id: u16) -> Result<u64> {
    Ok(abi::io_space_data(domain, requester_id))
}

/// Whether a page fault was a write, by its status (Intel SDM volume 3, section 4.7).
pub(crate) const fn is_write(status: u64) -> bool {
    status & 1 << 1 != 0
}

/// Ticks of the clock per second, which the kernel counted at boot, in MHz.
pub(crate) fn ticks_per_second(boot_info: &[u8]) -> u64 {
    abi::clock_mhz(boot_info).saturating_mul(1_000_000)
}

/// The first serial port as firmware left it (PC16550D): the transmitter, and the line status with its room bit.
const TRANSMIT: u16 = 0x3f8;
const LINE_STATUS: u16 = 0x3fd;
const HAS_ROOM: u8 = 1 << 5;
/// Polls after which a port without room counts as missing.
const POLLS: u32 = 100_000;

pub(crate) fn write_panic(root: &RootPlatform, bytes: &[u8]) {
    // A console that runs already loses them.
    let kernel = root.kernel();
    let control = root.absolute(initial::IO_PORTS.cptr());
    // The last cptr that the kernel left empty.
    let dest = root.absolute(CPtr::new(root.boot_info().empty_cptrs.end.saturating_sub(1)));
    let ports = abi::seize_io_ports(kernel, control, dest, (TRANSMIT, LINE_STATUS));
    for byte in bytes {
        let has_room = |_| kernel.ioport_in8(ports, LINE_STATUS).is_ok_and(|status| status & HAS_ROOM != 0);
        if !(0..POLLS).any(has_room) || kernel.ioport_out8(ports, TRANSMIT, *byte).is_err() {
            return;
        }
    }
}

/// Levels of the IOMMU's page tables.
pub(crate) fn io_page_table_levels(boot_info: &[u8]) -> u64 {
    word(boot_info, crate::bindings::layout::seL4_BootInfo::numIOPTLevels)
}

impl PortIo for Sel4 {
    fn ioport_in8(&self, ports: Cap<IoPort>, port: u16) -> Result<u8> {
        let answer = invoke::seL4_X86_IOPort_In8(self, ports.bits(), u64::from(port))?;
        Ok(answer.word(self, 0) as u8)
    }

    fn ioport_out8(&self, ports: Cap<IoPort>, port: u16, value: u8) -> Result<()> {
        done(invoke::seL4_X86_IOPort_Out8(self, ports.bits(), u64::from(port), u64::from(value)))
    }

    fn ioport_in32(&self, ports: Cap<IoPort>, port: u16) -> Result<u32> {
        let answer = invoke::seL4_X86_IOPort_In32(self, ports.bits(), u64::from(port))?;
        Ok(answer.word(self, 0) as u32)
    }

    fn ioport_out32(&self, ports: Cap<IoPort>, port: u16, value: u32) -> Result<()> {
        done(invoke::seL4_X86_IOPort_Out32(self, ports.bits(), u64::from(port), u64::from(value)))
    }
}
