//! The numbers of the invocations in the kernel as this project configures it (seL4 5.0.0, x86_64, one core). They matter
//! only where a message for one kind of capability reaches another.

pub(crate) const UNTYPED_RETYPE: u32 = 1;
pub(crate) const TCB_READ_REGISTERS: u32 = 2;
pub(crate) const TCB_WRITE_REGISTERS: u32 = 3;
pub(crate) const TCB_CONFIGURE: u32 = 5;
pub(crate) const TCB_SUSPEND: u32 = 10;
pub(crate) const TCB_RESUME: u32 = 11;
pub(crate) const TCB_BIND_NOTIFICATION: u32 = 12;
pub(crate) const CNODE_REVOKE: u32 = 14;
pub(crate) const CNODE_DELETE: u32 = 15;
pub(crate) const CNODE_COPY: u32 = 17;
pub(crate) const CNODE_MINT: u32 = 18;
pub(crate) const CNODE_MOVE: u32 = 19;
pub(crate) const CNODE_SAVE_CALLER: u32 = 22;
pub(crate) const IRQ_CONTROL_GET: u32 = 23;
pub(crate) const IRQ_ACK: u32 = 24;
pub(crate) const IRQ_SET_NOTIFICATION: u32 = 25;
pub(crate) const IRQ_CLEAR: u32 = 26;
pub(crate) const PDPT_MAP: u32 = 28;
pub(crate) const PAGE_DIRECTORY_MAP: u32 = 30;
pub(crate) const PAGE_TABLE_MAP: u32 = 33;
pub(crate) const IO_PAGE_TABLE_MAP: u32 = 35;
pub(crate) const IO_PAGE_TABLE_UNMAP: u32 = 36;
pub(crate) const PAGE_MAP: u32 = 37;
pub(crate) const PAGE_UNMAP: u32 = 39;
pub(crate) const PAGE_MAP_IO: u32 = 40;
pub(crate) const PAGE_GET_ADDRESS: u32 = 41;
pub(crate) const ASID_CONTROL_MAKE_POOL: u32 = 42;
pub(crate) const ASID_POOL_ASSIGN: u32 = 43;
pub(crate) const IO_PORT_IN_8: u32 = 44;
/// Number in seL4 16.0.0: 5.0.0 has no such invocation.
pub(crate) const IO_PORT_CONTROL_ISSUE: u32 = 47;
pub(crate) const IRQ_CONTROL_GET_IOAPIC: u32 = 50;
pub(crate) const IRQ_CONTROL_GET_MSI: u32 = 51;
