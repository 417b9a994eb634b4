//! The capabilities that every root task has at the same cptrs.

use crate::abi;
use crate::bindings::constant;
use platform::{AsidControl, AsidPool, CNode, CPtr, Cap, IoPort, IoSpace, IrqControl, Tcb, VSpace};

/// The root task's own thread.
pub const TCB: Cap<Tcb> = cptr(constant::seL4_CapInitThreadTCB);
/// The root task's CNode: the whole of its CSpace, addressed with depth 64.
pub const CNODE: Cap<CNode> = cptr(constant::seL4_CapInitThreadCNode);
/// The root task's VSpace.
pub const VSPACE: Cap<VSpace> = cptr(constant::seL4_CapInitThreadVSpace);
/// All interrupts.
pub const IRQ_CONTROL: Cap<IrqControl> = cptr(constant::seL4_CapIRQControl);
/// The right to make ASID pools.
pub const ASID_CONTROL: Cap<AsidControl> = cptr(constant::seL4_CapASIDControl);
/// The ASID pool its own VSpace belongs to, with room for others.
pub const ASID_POOL: Cap<AsidPool> = cptr(constant::seL4_CapInitThreadASIDPool);
/// All I/O ports, or the right to issue them; an empty cptr on AArch64.
pub const IO_PORTS: Cap<IoPort> = cptr(abi::IO_PORTS);
/// The master of all IOSpaces: minted with a domain and a requester id it becomes one. An empty cptr on AArch64.
pub const IO_SPACE: Cap<IoSpace> = cptr(constant::seL4_CapIOSpace);

const fn cptr<T: platform::CapType>(cptr: u64) -> Cap<T> {
    CPtr::new(cptr).cast()
}
