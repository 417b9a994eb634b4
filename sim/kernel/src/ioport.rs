//! I/O ports: the ranges that the control capability issues, on kernels that have it, and whether a capability covers an access. The
//! machine makes the access itself.

use crate::arena::ThreadId;
use crate::capability::Capability;
use crate::invocation::{Invocation, Stop};
use crate::kernel::Kernel;
use crate::label;
use platform::{AbsoluteCPtr, Cap, Error, IoPort, Result};

impl Kernel {
    /// Issues the ports from `first` to `last`, both included, into the slot `dest`, as `X86_IOPortControl_Issue`
    /// ([`crate::Ports::Issued`]).
    pub(crate) fn issue_ports(
        &mut self,
        thread: ThreadId,
        dest: AbsoluteCPtr,
        control: Cap<IoPort>,
        (first, last): (u16, u16),
    ) -> Result<()> {
        let words = [first.into(), last.into(), dest.index, dest.depth.into()];
        let (service, label, caps) = (control.cptr(), label::IO_PORT_CONTROL_ISSUE, [dest.root.cptr()]);
        self.invoke(thread, &Invocation { service, label, words: &words, caps: &caps }, |kernel, found| {
            let Capability::IoPortControl = found.cap else { return Err(Stop::OtherKind) };
            let root = found.cap(0)?;
            if last < first {
                return Err(Error::InvalidArgument(1).into());
            }
            if kernel.issued_ports.iter().any(|taken| first <= taken.1 && taken.0 <= last) {
                return Err(Error::RevokeFirst.into());
            }
            let to = kernel.resolve(&kernel.slots[root].cap, dest.index, dest.depth)?;
            kernel.ensure_empty(to)?;
            kernel.issued_ports.push((first, last));
            kernel.insert_derived(Capability::IoPorts { first, last }, found.slot, to);
            Ok(())
        })
    }

    /// Whether `thread` may access `bytes` bytes (1, 2 or 4) from `port` through this capability.
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them for reads and writes: [`Error::IllegalOperation`] outside the range.
    pub fn ioport_allowed(&mut self, thread: ThreadId, ports: Cap<IoPort>, port: u16, bytes: u8) -> Result<()> {
        let words = [port.into()];
        let (service, label) = (ports.cptr(), label::IO_PORT_IN_8);
        self.invoke(thread, &Invocation { service, label, words: &words, caps: &[] }, |_, found| {
            let Capability::IoPorts { first, last } = found.cap else { return Err(Stop::OtherKind) };
            let end = u32::from(port) + u32::from(bytes.max(1)) - 1;
            if port < first || end > u32::from(last) {
                return Err(Error::IllegalOperation.into());
            }
            Ok(())
        })
    }
}
