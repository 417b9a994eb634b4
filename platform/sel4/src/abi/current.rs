//! Interface of seL4 13.0.0 and later, where it differs from that of 5.0.0: see `old.rs`, which has the same names.

use crate::bindings::bitfield::{seL4_CNode_CapData, seL4_CapRights};
use crate::bindings::layout::seL4_BootInfo as layout;
use crate::bindings::{constant, invoke};
use crate::initial;
use crate::invocation::{Sel4, done};
use crate::page::word;
use platform::{Cap, Result, Rights, Tcb};

/// Cptr of the capability that issues ranges of I/O ports.
pub(crate) const IO_PORTS: u64 = constant::seL4_CapIOPortControl;

/// Whether programs have floating point registers: see [`without_floating_point`].
pub(crate) const HAS_FLOATING_POINT: bool = !cfg!(sel4_fpu_flag);

/// Whether the kernel writes AArch64's thread pointer at every switch, or else keeps each thread's own.
#[cfg(target_arch = "aarch64")]
pub(crate) const WRITES_THREAD_POINTER: bool = false;

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
    done(invoke::seL4_TCB_Configure(kernel, tcb, fault_endpoint, cspace, guard, vspace, 0, buffer, frame))?;
    without_floating_point(kernel, Cap::from_bits(tcb))?;
    // No maximum controlled priority: a component sets no priorities.
    done(invoke::seL4_TCB_SetSchedParams(kernel, tcb, initial::TCB.bits(), 0, u64::from(priority)))
}

/// Says that the thread has no floating point, so that the kernel does not save its registers at every switch (since 14.0.0). The
/// programs are compiled so.
#[cfg(sel4_fpu_flag)]
pub(crate) fn without_floating_point(kernel: &Sel4, tcb: Cap<Tcb>) -> Result<()> {
    done(invoke::seL4_TCB_SetFlags(kernel, tcb.bits(), 0, constant::seL4_TCBFlag_fpuDisabled))
}

/// Nothing: this kernel saves floating point registers when another thread uses them.
#[cfg(not(sel4_fpu_flag))]
pub(crate) fn without_floating_point(_: &Sel4, _: Cap<Tcb>) -> Result<()> {
    Ok(())
}

pub(crate) fn rights_word(rights: Rights) -> u64 {
    let Rights { read, write, grant, grant_reply } = rights;
    seL4_CapRights::new(grant_reply.into(), grant.into(), read.into(), write.into())
}

pub(crate) fn guard(size: u8, value: u64) -> u64 {
    seL4_CNode_CapData::new(value, u64::from(size))
}

/// Bytes of the boot info, of which `page` is the first page: chunks follow it.
pub(crate) fn boot_info_bytes(page: &[u8]) -> usize {
    page.len().saturating_add(word(page, layout::extraLen) as usize)
}

#[cfg(target_arch = "x86_64")]
pub(crate) use pc::*;

#[cfg(target_arch = "x86_64")]
mod pc {
    use super::{constant, done, invoke, word};
    use crate::bindings::layout::seL4_BootInfoHeader as header;
    use crate::invocation::Sel4;
    use platform::{AbsoluteCPtr, CPtr, Cap, IoPort, Kernel, Result, Rights};

    /// Frequency of the processor's clock in MHz, if the kernel says it: in a chunk behind the first page.
    pub(crate) fn clock_mhz(boot_info: &[u8]) -> u64 {
        let mut chunks = boot_info.get(platform::PAGE_SIZE..).unwrap_or_default();
        while let Some((head, rest)) = chunks.split_at_checked(header::SIZE) {
            // The length of a chunk has its header.
            let len = (word(head, header::len) as usize).saturating_sub(header::SIZE).min(rest.len());
            let (content, others) = rest.split_at(len);
            if word(head, header::id) == constant::SEL4_BOOTINFO_HEADER_X86_TSC_FREQ {
                return content.first_chunk().map_or(0, |mhz| u64::from(u32::from_le_bytes(*mhz)));
            }
            chunks = others;
        }
        0
    }

    /// Interrupts of lines and messages. libsel4 counts two more, the IOMMU's and the timer's.
    pub(crate) const IRQS: u64 = constant::VECTOR_MAX - constant::VECTOR_MIN - 1;

    /// Makes the capability to a range of ports. A range has one owner: there is none to a part of it until it is deleted.
    pub(crate) fn io_ports(
        kernel: &Sel4,
        dest: AbsoluteCPtr,
        control: AbsoluteCPtr,
        _: Rights,
        (first, last): (u16, u16),
    ) -> Result<()> {
        let (root, index, depth) = (dest.root.bits(), dest.index, u64::from(dest.depth));
        let (first, last) = (u64::from(first), u64::from(last));
        // The capability is named in the caller's CSpace.
        done(invoke::seL4_X86_IOPortControl_Issue(kernel, control.index, first, last, root, index, depth))
    }

    /// Takes a range of ports from everybody, as a capability at the empty cptr `dest`. `control` issues ranges.
    pub(crate) fn seize_io_ports(
        kernel: &Sel4,
        control: AbsoluteCPtr,
        dest: AbsoluteCPtr,
        ports: (u16, u16),
    ) -> Cap<IoPort> {
        // Without the ports, what they are used for fails, and says so.
        let _ = kernel.cnode_revoke(control);
        let _ = io_ports(kernel, dest, control, Rights::ALL, ports);
        CPtr::new(dest.index).cast()
    }

    /// libsel4 has this format since 16.0.0 alone.
    pub(crate) fn io_space_data(domain: u16, requester_id: u16) -> u64 {
        u64::from(domain) << 16 | u64::from(requester_id)
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use alloc::vec;
        use alloc::vec::Vec;

        const FREQUENCY: u64 = constant::SEL4_BOOTINFO_HEADER_X86_TSC_FREQ;
        const OTHER: u64 = FREQUENCY + 1;

        /// A boot info with chunks: the id and the length that each states, and its content.
        fn boot_info(chunks: &[(u64, u64, &[u8])]) -> Vec<u8> {
            let mut bytes = vec![0xff; platform::PAGE_SIZE];
            for (id, len, content) in chunks {
                bytes.extend(id.to_le_bytes());
                bytes.extend(len.to_le_bytes());
                bytes.extend(*content);
            }
            bytes
        }

        #[test]
        fn the_frequency_is_found_behind_other_chunks() {
            let mhz = 2400u32.to_le_bytes();
            assert_eq!(clock_mhz(&boot_info(&[(FREQUENCY, 20, &mhz)])), 2400);
            assert_eq!(clock_mhz(&boot_info(&[(OTHER, 16, &[]), (OTHER, 21, &[9; 5]), (FREQUENCY, 20, &mhz)])), 2400);
            assert_eq!(clock_mhz(&boot_info(&[(FREQUENCY, 20, &mhz), (FREQUENCY, 20, &[0; 4])])), 2400, "the first");
            assert_eq!(clock_mhz(&boot_info(&[(OTHER, 36, &[5; 20])])), 0, "contents are no chunks");
        }

        #[test]
        fn the_walk_ends_with_the_area() {
            assert_eq!(clock_mhz(&[]), 0);
            assert_eq!(clock_mhz(&boot_info(&[])), 0);
            let whole = boot_info(&[(OTHER, 18, &[1; 2]), (FREQUENCY, 20, &2400u32.to_le_bytes())]);
            for end in 0..whole.len() {
                assert_eq!(clock_mhz(&whole[..end]), 0, "{end}");
            }
            assert_eq!(clock_mhz(&whole), 2400);
        }

        #[test]
        fn wrong_lengths_lead_to_no_other_bytes() {
            let mhz = 2400u32.to_le_bytes();
            // A length below that of the header counts as the header alone, so that the walk goes on.
            for len in [0, 1, 15] {
                assert_eq!(clock_mhz(&boot_info(&[(OTHER, len, &[]), (FREQUENCY, 20, &mhz)])), 2400, "{len}");
            }
            for len in [37, 1 << 40, u64::MAX] {
                assert_eq!(clock_mhz(&boot_info(&[(OTHER, len, &[]), (FREQUENCY, 20, &mhz)])), 0, "{len}");
                assert_eq!(clock_mhz(&boot_info(&[(FREQUENCY, len, &mhz)])), 2400, "{len}");
            }
            // A frequency that is shorter than its number.
            assert_eq!(clock_mhz(&boot_info(&[(FREQUENCY, 19, &mhz)])), 0);
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

    // Tables of all levels are of one kind, and the kernel takes one for the next level that lacks it.
    pub(crate) use crate::bindings::invoke::{
        seL4_ARM_PageTable_Map as table_two_map, seL4_ARM_PageTable_Map as table_one_map,
    };

    /// Interrupts of the GIC that a capability can name: the number of the platform qemu-arm-virt, which no installed file has.
    pub(crate) const IRQS: u64 = 159;

    pub(crate) const VSPACE_OBJECT: u64 = constant::seL4_ARM_VSpaceObject;
    pub(crate) const VSPACE_BITS: u64 = constant::seL4_VSpaceBits;

    pub(crate) const fn table_object(_: TableLevel) -> u64 {
        constant::seL4_ARM_PageTableObject
    }

    /// log2 of the bytes of a table.
    pub(crate) const fn table_bits(_: TableLevel) -> u64 {
        constant::seL4_PageTableBits
    }

    /// Gets an interrupt's handler, with its trigger.
    pub(crate) fn irq_get(
        kernel: &Sel4,
        control: Cap<IrqControl>,
        irq: u8,
        is_edge: bool,
        (root, index, depth): (u64, u64, u64),
    ) -> Result<()> {
        let (irq, trigger) = (u64::from(irq), u64::from(is_edge));
        done(invoke::seL4_IRQControl_GetTrigger(kernel, control.bits(), irq, trigger, root, index, depth))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn rights_are_the_low_bits_of_a_word() {
        let none = Rights { read: false, write: false, grant: false, grant_reply: false };
        assert_eq!(rights_word(none), 0);
        assert_eq!(rights_word(Rights { write: true, ..none }), 0b1);
        assert_eq!(rights_word(Rights { read: true, ..none }), 0b10);
        assert_eq!(rights_word(Rights { grant: true, ..none }), 0b100);
        assert_eq!(rights_word(Rights { grant_reply: true, ..none }), 0b1000);
        assert_eq!(rights_word(Rights::ALL), 0b1111);
    }

    #[test]
    fn a_guard_is_its_value_above_its_size() {
        assert_eq!(guard(0, 0), 0);
        assert_eq!(guard(58, 0), 58);
        assert_eq!(guard(46, 0b101), 0b101 << 6 | 46);
        assert_eq!(guard(58, u64::MAX), u64::MAX << 6 | 58, "58 bits of the value");
    }

    #[test]
    fn the_boot_info_has_its_first_page_and_chunks() {
        let mut page = vec![0; platform::PAGE_SIZE];
        assert_eq!(boot_info_bytes(&page), 4096);
        page[layout::extraLen..layout::extraLen + 8].copy_from_slice(&8192u64.to_le_bytes());
        assert_eq!(boot_info_bytes(&page), 3 * 4096);
        page[layout::extraLen..layout::extraLen + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(boot_info_bytes(&page), usize::MAX, "an impossible length does not wrap");
    }
}
