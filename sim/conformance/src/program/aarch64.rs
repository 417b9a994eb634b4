//! The virt machine's line: its serial port, a PL011, whose page the interpreter maps for itself.
//!
//! Neighbours: the stage, which takes cptrs from the first free one on; the line takes its few cptrs from the end.

use core::ops::Range;
use platform::{
    CacheAttributes, Cap, Frame, Kernel, Mmio, ObjectType, PAGE_SIZE, Paddr, Platform, Rights, TableLevel, Untyped,
};
use platform_sel4::{RootPlatform, Sel4, Sel4Mmio, initial};
use sim_conformance::{Answer, Caller, Op};

const UART: Paddr = Paddr::new(0x0900_0000);
/// UARTDR and UARTFR, with the latter's bit for a full FIFO (Arm DDI 0183, section 3.3).
const DATA: usize = 0x00;
const FLAGS: usize = 0x18;
const TRANSMIT_FULL: u32 = 1 << 5;
/// Cptrs for three tables and the frame.
const CPTRS: u64 = 4;

/// The line.
pub(crate) struct Line(Sel4Mmio);

impl Line {
    /// Maps the port. The stage's own table of the second level is under its page too, so this comes after the stage.
    /// `None` when the kernel refuses, which can be reported nowhere.
    pub(crate) fn open(root: &RootPlatform) -> Option<Self> {
        let (kernel, boot_info) = (root.kernel(), root.boot_info());
        let mut cptrs = boot_info.empty_cptrs.end.checked_sub(CPTRS)?..boot_info.empty_cptrs.end;
        let page = root.device_area().vaddr;
        for level in TableLevel::ALL {
            let table = make(root, ObjectType::TranslationTable(level), &mut cptrs)?;
            // A level that is there already is refused, and serves as well.
            let _ = kernel.translation_table_map(Cap::from_bits(table), level, initial::VSPACE, page);
        }
        let port = boot_info.untypeds.iter().find(|untyped| untyped.paddr == UART)?;
        let frame = retype(root, port.cap, ObjectType::SmallPage, cptrs.next()?)?;
        let (rights, attributes) = (Rights::READ_WRITE, CacheAttributes::Uncached);
        kernel.frame_map(Cap::<Frame>::from_bits(frame), initial::VSPACE, page, rights, attributes).ok()?;
        root.mmio(page, PAGE_SIZE).ok().map(Self)
    }

    /// Sends a byte once there is room.
    pub(crate) fn put(&self, byte: u8) {
        while self.0.read32(FLAGS).is_ok_and(|flags| flags & TRANSMIT_FULL != 0) {}
        // The offset lies in the page.
        let _ = self.0.write32(DATA, byte.into());
    }

    /// Does nothing: this machine has no device that ends it.
    pub(crate) fn stop(&self) {
        core::hint::spin_loop();
    }
}

/// This architecture has no calls of its own.
pub(crate) fn invoke(_: &Caller<'_>, _: &Sel4, _: &Op) -> Option<Answer> {
    None
}

/// Makes an object of any memory that has room.
fn make(root: &RootPlatform, object_type: ObjectType, cptrs: &mut Range<u64>) -> Option<u64> {
    let cptr = cptrs.next()?;
    let mut memory = root.boot_info().untypeds.iter().filter(|untyped| !untyped.is_device);
    memory.find_map(|untyped| retype(root, untyped.cap, object_type, cptr))
}

fn retype(root: &RootPlatform, untyped: Cap<Untyped>, object_type: ObjectType, cptr: u64) -> Option<u64> {
    let cptrs = cptr..cptr.checked_add(1)?;
    root.kernel().untyped_retype(untyped, object_type, 0, initial::CNODE, cptrs).ok()?;
    Some(cptr)
}
