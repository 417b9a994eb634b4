//! I/O ports: whether a capability covers an access. The machine makes the access itself.

use crate::Kernel;
use crate::arena::ThreadId;
use crate::capability::Capability;
use crate::invocation::{Invocation, Stop};
use crate::label;
use platform::{Cap, Error, IoPort, Result};

impl Kernel {
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
