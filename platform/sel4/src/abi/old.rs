//! Interface of seL4 5.0.0, where it differs from that of later kernels: see `current.rs`, which has the same names.

use crate::bindings::bitfield::{Guard, seL4_CapData, seL4_CapRights, seL4_PrioProps};
use crate::bindings::{constant, invoke};
use crate::invocation::{Sel4, done};
use platform::{Cap, Result, Rights, Tcb};

/// Cptr of the capability to all I/O ports.
pub(crate) const IO_PORTS: u64 = constant::seL4_CapIOPort;

/// Whether programs have floating point registers.
pub(crate) const HAS_FLOATING_POINT: bool = true;

/// Whether the kernel writes AArch64's thread pointer at every switch, or else keeps each thread's own.
#[cfg(target_arch = "aarch64")]
pub(crate) const WRITES_THREAD_POINTER: bool = true;

/// Configures a thread: the cptr of its fault endpoint, its priority, CSpace, VSpace, and IPC buffer.
pub(crate) fn configure(
    kernel: &Sel4,
    tcb: u64,
    fault_endpoint: u64,
    priority: u8,
    (cspace, guard): (u64, u64),
    vspace: u64,
    (buffer, frame): (u64, u64),
) -> Result<()> {
    // No maximum controlled priority: a component sets no priorities.
    let priority = seL4_PrioProps::new(0, u64::from(priority));
    done(invoke::seL4_TCB_Configure(kernel, tcb, fault_endpoint, priority, cspace, guard, vspace, 0, buffer, frame))
}

/// Nothing: this kernel saves floating point registers when another thread uses them.
pub(crate) fn without_floating_point(_: &Sel4, _: Cap<Tcb>) -> Result<()> {
    Ok(())
}

pub(crate) fn rights_word(rights: Rights) -> u64 {
    // Only grant lets a call be answered.
    seL4_CapRights::new(u64::from(rights.grant || rights.grant_reply), u64::from(rights.read), u64::from(rights.write))
}

pub(crate) fn guard(size: u8, value: u64) -> u64 {
    Guard::new(seL4_CapData::Guard, value, u64::from(size))
}

/// Bytes of the boot info, of which `page` is the first page.
pub(crate) const fn boot_info_bytes(page: &[u8]) -> usize {
    page.len()
}

#[cfg(target_arch = "x86_64")]
pub(crate) use pc::*;

#[cfg(target_arch = "x86_64")]
mod pc {
    use super::{constant, done, invoke, rights_word};
    use crate::bindings::bitfield::{io_port_capdata, io_space_capdata};
    use crate::bindings::layout::seL4_BootInfo as layout;
    use crate::initial;
    use crate::invocation::Sel4;
    use crate::page::word;
    use platform::{AbsoluteCPtr, Cap, IoPort, Result, Rights};

    /// Frequency of the processor's clock in MHz, if the kernel says it.
    pub(crate) fn clock_mhz(boot_info: &[u8]) -> u64 {
        word(boot_info, layout::archInfo)
    }

    /// Interrupts of lines and messages.
    pub(crate) const IRQS: u64 = constant::int_irq_user_max - constant::int_irq_user_min + 1;

    /// Makes a capability to a range of ports of the one to all of them.
    pub(crate) fn io_ports(
        kernel: &Sel4,
        dest: AbsoluteCPtr,
        src: AbsoluteCPtr,
        rights: Rights,
        (first, last): (u16, u16),
    ) -> Result<()> {
        let (to, from) = (u64::from(dest.depth), u64::from(src.depth));
        let (rights, data) = (rights_word(rights), io_port_capdata::new(u64::from(first), u64::from(last)));
        let (root, index) = (src.root.bits(), src.index);
        done(invoke::seL4_CNode_Mint(kernel, dest.root.bits(), dest.index, to, root, index, from, rights, data))
    }

    /// Takes a range of ports from everybody.
    pub(crate) fn seize_io_ports(_: &Sel4, _: AbsoluteCPtr, _: AbsoluteCPtr, _: (u16, u16)) -> Cap<IoPort> {
        initial::IO_PORTS
    }

    pub(crate) fn io_space_data(domain: u16, requester_id: u16) -> u64 {
        io_space_capdata::new(u64::from(domain), u64::from(requester_id))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_frequency_is_in_the_page() {
            let mut page = [0xff; platform::PAGE_SIZE];
            page[layout::archInfo..layout::archInfo + 8].copy_from_slice(&2400u64.to_le_bytes());
            assert_eq!(clock_mhz(&page), 2400);
        }

        #[test]
        fn data_of_an_io_space_is_domain_and_requester() {
            assert_eq!(io_space_data(0x12, 0x3456), 0x12_3456);
        }
    }
}

#[cfg(target_arch = "aarch64")]
pub(crate) use virt::*;

#[cfg(target_arch = "aarch64")]
mod virt {
    use super::{constant, done, invoke};
    use crate::invocation::Sel4;
    use platform::{Cap, IrqControl, Result, TableLevel};

    pub(crate) use crate::bindings::invoke::{
        seL4_ARM_PageDirectory_Map as table_two_map, seL4_ARM_PageUpperDirectory_Map as table_one_map,
    };

    /// Interrupts of the GIC that a capability can name.
    pub(crate) const IRQS: u64 = constant::maxIRQ;

    pub(crate) const VSPACE_OBJECT: u64 = constant::seL4_ARM_PageGlobalDirectoryObject;
    pub(crate) const VSPACE_BITS: u64 = constant::seL4_PGDBits;

    pub(crate) const fn table_object(level: TableLevel) -> u64 {
        match level {
            TableLevel::One => constant::seL4_ARM_PageUpperDirectoryObject,
            TableLevel::Two => constant::seL4_ARM_PageDirectoryObject,
            TableLevel::Three => constant::seL4_ARM_PageTableObject,
        }
    }

    /// log2 of the bytes of a table.
    pub(crate) const fn table_bits(level: TableLevel) -> u64 {
        match level {
            TableLevel::One => constant::seL4_PUDBits,
            TableLevel::Two => constant::seL4_PageDirBits,
            TableLevel::Three => constant::seL4_PageTableBits,
        }
    }

    /// Gets an interrupt's handler. The trigger is no argument: the kernel's platform set it at the boot.
    pub(crate) fn irq_get(
        kernel: &Sel4,
        control: Cap<IrqControl>,
        irq: u8,
        _is_edge: bool,
        (root, index, depth): (u64, u64, u64),
    ) -> Result<()> {
        done(invoke::seL4_IRQControl_Get(kernel, control.bits(), u64::from(irq), root, index, depth))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_the_low_bits_of_a_word_and_grant_stands_for_both() {
        let none = Rights { read: false, write: false, grant: false, grant_reply: false };
        assert_eq!(rights_word(none), 0);
        assert_eq!(rights_word(Rights { write: true, ..none }), 0b1);
        assert_eq!(rights_word(Rights { read: true, ..none }), 0b10);
        assert_eq!(rights_word(Rights { grant: true, ..none }), 0b100);
        assert_eq!(rights_word(Rights { grant_reply: true, ..none }), 0b100);
        assert_eq!(rights_word(Rights::ALL), 0b111);
    }

    #[test]
    fn a_guard_is_its_value_above_its_size_and_marked_as_guard() {
        const MARK: u64 = 1 << 31;
        assert_eq!(guard(0, 0), MARK);
        assert_eq!(guard(58, 0), MARK | 58 << 2);
        assert_eq!(guard(46, 0b101), MARK | 0b101 << 8 | 46 << 2);
        assert_eq!(guard(58, u64::MAX), MARK | 0x3ffff << 8 | 58 << 2, "18 bits of the value");
    }

    #[test]
    fn the_boot_info_is_one_page() {
        assert_eq!(boot_info_bytes(&[0xff; platform::PAGE_SIZE]), 4096);
    }
}
