//! IOSpaces, which this kernel does not have, by calls to the IOMMU server in its protocol, `iommu_api`.

use crate::invocation::{Sel4, done};
use crate::syscall;
use iommu_api::calls;
use platform::{AbsoluteCPtr, CPtr, Cap, Frame, IoPageTable, IoSpace, Iova, Message, Result, Rights};

fn call(kernel: &Sel4) -> impl Fn(CPtr, &Message) -> Message {
    |server, message| {
        let (info, words) = kernel.put_message(message);
        let received = syscall::call(server.bits(), info, words);
        kernel.take_message(&received)
    }
}

pub(crate) fn page_map_io(
    kernel: &Sel4,
    frame: Cap<Frame>,
    space: Cap<IoSpace>,
    rights: Rights,
    at: Iova,
) -> Result<()> {
    calls::map(call(kernel), frame, space, rights, at)
}

pub(crate) fn page_unmap_io(kernel: &Sel4, _: Cap<Frame>, space: Cap<IoSpace>, at: Iova) -> Result<()> {
    calls::unmap(call(kernel), space, at)
}

pub(crate) fn io_space_open(
    kernel: &Sel4,
    dest: AbsoluteCPtr,
    master: AbsoluteCPtr,
    domain: u16,
    requester_id: u16,
) -> Result<()> {
    calls::open(call(kernel), kernel, dest, master, domain, requester_id)
}

pub(crate) fn io_space_close(kernel: &Sel4, master: AbsoluteCPtr, domain: u16) -> Result<()> {
    calls::close(call(kernel), master, domain)
}

/// Always fails: the server has tables of its own, and there are no others.
pub(crate) fn io_page_table_map(kernel: &Sel4, table: Cap<IoPageTable>, _: Cap<IoSpace>, _: Iova) -> Result<()> {
    io_page_table_unmap(kernel, table)
}

/// Always fails; the kernel reports whether the cptr is empty.
pub(crate) fn io_page_table_unmap(kernel: &Sel4, table: Cap<IoPageTable>) -> Result<()> {
    const NONE: u64 = 0;
    done(kernel.invoke(NONE, table.bits(), &[], &[]))
}
