//! IOSpaces, which this kernel does not have: calls to the IOMMU server in its protocol, `iommu_api`.
//!
//! The PCI server's master is an endpoint of that server's, and the slots behind it hold one for each domain, which a driver
//! is given a copy of.

use crate::invocation::Sel4;
use crate::kernel::done;
use crate::syscall;
use iommu_api::{CLOSE, Close, MAP, Map, OPEN, Open, RESET, UNMAP, Unmap, result};
use platform::{AbsoluteCPtr, Cap, Error, Frame, IoPageTable, IoSpace, Iova, Kernel, Message, Result, Rights};

fn call(kernel: &Sel4, server: u64, message: &Message) -> Result<()> {
    let (info, words) = kernel.put_message(message);
    let received = syscall::call(server, info, words);
    result(&kernel.take_message(&received))
}

pub(crate) fn page_map_io(
    kernel: &Sel4,
    frame: Cap<Frame>,
    space: Cap<IoSpace>,
    rights: Rights,
    at: Iova,
) -> Result<()> {
    call(kernel, space.bits(), &Message::with(MAP, &Map::new(at.bits(), rights)).and_cap(frame.cptr()))
}

pub(crate) fn page_unmap_io(kernel: &Sel4, _: Cap<Frame>, space: Cap<IoSpace>, at: Iova) -> Result<()> {
    call(kernel, space.bits(), &Message::with(UNMAP, &Unmap { iova: at.bits() }))
}

pub(crate) fn io_space_open(
    kernel: &Sel4,
    dest: AbsoluteCPtr,
    master: AbsoluteCPtr,
    domain: u16,
    requester_id: u16,
) -> Result<()> {
    let open = Open { domain, requester_id, reserved: 0 };
    call(kernel, master.index, &Message::with(OPEN, &open))?;
    let index = master.index.checked_add(domain.into()).ok_or(Error::InvalidArgument(0))?;
    kernel.cnode_copy(dest, AbsoluteCPtr { index, ..master }, Rights::ALL)
}

pub(crate) fn io_space_close(kernel: &Sel4, master: AbsoluteCPtr, domain: u16) -> Result<()> {
    match domain {
        0 => call(kernel, master.index, &Message::new(RESET)),
        _ => call(kernel, master.index, &Message::with(CLOSE, &Close { domain: domain.into() })),
    }
}

/// The server has tables of its own, and there are no others: an invocation that nothing knows.
pub(crate) fn io_page_table_map(kernel: &Sel4, table: Cap<IoPageTable>, _: Cap<IoSpace>, _: Iova) -> Result<()> {
    io_page_table_unmap(kernel, table)
}

/// Likewise: the kernel says whether anything is in the slot.
pub(crate) fn io_page_table_unmap(kernel: &Sel4, table: Cap<IoPageTable>) -> Result<()> {
    const NONE: u64 = 0;
    done(kernel.invoke(NONE, table.bits(), &[], &[]))
}
