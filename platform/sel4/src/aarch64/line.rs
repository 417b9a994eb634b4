//! The serial port for the root task's panic message: a PL011, taken from its present owner.

use crate::boot_info::BootInfo;
use crate::initial;
use crate::memory::Sel4Mmio;
use crate::root::RootPlatform;
use core::ops::Range;
use platform::{
    CacheAttributes, Cap, Frame, Kernel, Mmio, ObjectType, Paddr, Platform, Rights, TableLevel, Untyped, Vaddr,
};

const UART: Paddr = Paddr::new(0x0900_0000);
/// UARTDR and UARTFR, with the latter's bit for a full FIFO (Arm DDI 0183, section 3.3).
const DATA: usize = 0x00;
const FLAGS: usize = 0x18;
const TRANSMIT_FULL: u32 = 1 << 5;
/// Polls after which a port without room counts as missing.
const POLLS: u32 = 100_000;
/// Cptrs at the end of the empty ones, which are unused when there is no system.
const CPTRS: u64 = 4;

pub(crate) fn write_panic(root: &RootPlatform, bytes: &[u8]) {
    let Some(registers) = registers(root) else { return };
    for byte in bytes {
        let has_room = |_| registers.read32(FLAGS).is_ok_and(|flags| flags & TRANSMIT_FULL == 0);
        if !(0..POLLS).any(has_room) || registers.write32(DATA, (*byte).into()).is_err() {
            return;
        }
    }
}

fn registers(root: &RootPlatform) -> Option<Sel4Mmio> {
    let (kernel, boot_info) = (root.kernel(), root.boot_info());
    let end = boot_info.empty_cptrs.end;
    let mut cptrs = end.checked_sub(CPTRS)?..end;
    let page = root.device_area().vaddr;
    for level in TableLevel::ALL {
        // An error because one exists already does no harm.
        if let Some(table) = make(root, ObjectType::TranslationTable(level), &mut cptrs) {
            let _ = kernel.translation_table_map(Cap::from_bits(table), level, initial::VSPACE, page);
        }
    }
    let frame = frame(root, boot_info, cptrs.next()?)?;
    map(root, frame, page).then(|| root.mmio(page, platform::PAGE_SIZE).ok()).flatten()
}

/// A capability to the port's page: an existing one, or a new one in `cptr`.
fn frame(root: &RootPlatform, boot_info: &BootInfo, cptr: u64) -> Option<Cap<Frame>> {
    let kernel = root.kernel();
    let made = boot_info.empty_cptrs.clone().map(Cap::from_bits);
    if let Some(frame) = made.clone().find(|frame| kernel.frame_get_address(*frame) == Ok(UART)) {
        let _ = kernel.frame_unmap(frame);
        return Some(frame);
    }
    let untyped = boot_info.untypeds.iter().find(|untyped| untyped.paddr == UART)?;
    retype(root, untyped.cap, ObjectType::SmallPage, cptr).then(|| Cap::from_bits(cptr))
}

/// Makes an object from any ordinary memory with room.
fn make(root: &RootPlatform, object_type: ObjectType, cptrs: &mut Range<u64>) -> Option<u64> {
    let cptr = cptrs.next()?;
    let mut ordinary = root.boot_info().untypeds.iter().filter(|untyped| !untyped.is_device);
    ordinary.any(|untyped| retype(root, untyped.cap, object_type, cptr)).then_some(cptr)
}

fn retype(root: &RootPlatform, untyped: Cap<Untyped>, object_type: ObjectType, cptr: u64) -> bool {
    let cptrs = cptr..cptr.saturating_add(1);
    root.kernel().untyped_retype(untyped, object_type, 0, initial::CNODE, cptrs).is_ok()
}

fn map(root: &RootPlatform, frame: Cap<Frame>, page: Vaddr) -> bool {
    let (rights, attributes) = (Rights::READ_WRITE, CacheAttributes::Uncached);
    root.kernel().frame_map(frame, initial::VSPACE, page, rights, attributes).is_ok()
}
