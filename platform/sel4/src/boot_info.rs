//! The boot info page, which the root task receives from the kernel (seL4 manual, section 9.1), read once into a typed view.
//!
//! Offsets come from the kernel's header. Nothing in the page need be aligned.

use crate::abi;
use crate::arch;
use crate::bindings::{
    constant,
    layout::{seL4_BootInfo as layout, seL4_SlotRegion as slot_region, seL4_UntypedDesc as descriptor},
};
use crate::page::word;
use alloc::vec::Vec;
use core::ops::Range;
use platform::{Cap, ObjectType, PAGE_SIZE, Paddr, Untyped, Vaddr};

/// The boot info.
#[derive(Clone, Debug)]
pub struct BootInfo {
    /// Address of the root task's IPC buffer; its image ends there.
    pub ipc_buffer: Vaddr,
    /// Empty cptrs of the root task's CNode.
    pub empty_cptrs: Range<u64>,
    /// Cptrs of the frames of the root task's image, in order of address.
    pub image_frames: Range<u64>,
    /// Cptrs of the paging structures that map the image.
    pub image_paging: Range<u64>,
    /// Levels of the IOMMU's page tables, 0 without an IOMMU.
    pub io_page_table_levels: u64,
    /// log2 of the slots of the root task's CNode.
    pub cnode_bits: u8,
    /// Ticks of the clock per second.
    pub ticks_per_second: u64,
    /// All memory: free memory, and memory of devices.
    pub untypeds: Vec<BootUntyped>,
}

/// An untyped of the boot info.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BootUntyped {
    /// The untyped's capability.
    pub cap: Cap<Untyped>,
    /// The untyped's physical address.
    pub paddr: Paddr,
    /// log2 of its bytes.
    pub size_bits: u8,
    /// The untyped is no ordinary memory: frames made of it are not cleared, and nothing else can be made of it.
    pub is_device: bool,
}

impl BootInfo {
    /// Reads the page.
    ///
    /// # Safety
    /// `page` is the address the kernel gave the root task, and the page is still what the kernel wrote.
    pub(crate) unsafe fn read(page: *const u8) -> Self {
        // SAFETY: the kernel maps the whole page, page aligned, and nobody writes it.
        let first = unsafe { core::slice::from_raw_parts(page, PAGE_SIZE) };
        const { assert!(layout::SIZE <= PAGE_SIZE) };
        // SAFETY: the same holds for the pages behind it, if the kernel says that there are some.
        let page = unsafe { core::slice::from_raw_parts(page, abi::boot_info_bytes(first)) };
        let untyped_cptrs = cptrs(page, layout::untyped);
        let untypeds = untyped_cptrs.enumerate().map(|(index, cptr)| untyped(page, index, cptr)).collect();
        Self {
            ipc_buffer: Vaddr::new(word(page, layout::ipcBuffer)),
            empty_cptrs: cptrs(page, layout::empty),
            image_frames: cptrs(page, layout::userImageFrames),
            image_paging: cptrs(page, layout::userImagePaging),
            io_page_table_levels: arch::io_page_table_levels(page),
            cnode_bits: page[layout::initThreadCNodeSizeBits],
            ticks_per_second: arch::ticks_per_second(page),
            untypeds,
        }
    }

    /// Bytes of ordinary memory.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.untypeds.iter().filter(|untyped| !untyped.is_device).map(|untyped| 1 << untyped.size_bits).sum()
    }
}

/// Objects the kernel makes in one retype, at most.
pub const RETYPE_LIMIT: u64 = constant::CONFIG_RETYPE_FAN_OUT_LIMIT;

/// log2 of the bytes of an object of `object_type`; `size_bits` as retype is given it.
#[must_use]
pub const fn object_bits(object_type: ObjectType, size_bits: u8) -> u8 {
    let bits = match object_type {
        ObjectType::Untyped => size_bits as u64,
        ObjectType::CNode => size_bits as u64 + constant::seL4_SlotBits,
        ObjectType::Endpoint => constant::seL4_EndpointBits,
        ObjectType::Notification => constant::seL4_NotificationBits,
        ObjectType::Tcb => constant::seL4_TCBBits,
        ObjectType::VSpace => arch::VSPACE_BITS,
        ObjectType::TranslationTable(level) => arch::table_bits(level),
        ObjectType::SmallPage => constant::seL4_PageBits,
        ObjectType::LargePage => constant::seL4_LargePageBits,
        ObjectType::IoPageTable => constant::seL4_IOPageTableBits,
    };
    bits as u8
}

fn untyped(page: &[u8], index: usize, cptr: u64) -> BootUntyped {
    let at = layout::untypedList + index * descriptor::SIZE;
    BootUntyped {
        cap: Cap::from_bits(cptr),
        paddr: Paddr::new(word(page, at + descriptor::paddr)),
        size_bits: page[at + descriptor::sizeBits],
        is_device: page[at + descriptor::isDevice] != 0,
    }
}

fn cptrs(page: &[u8], at: usize) -> Range<u64> {
    word(page, at + slot_region::start)..word(page, at + slot_region::end)
}
