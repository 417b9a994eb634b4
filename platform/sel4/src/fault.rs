//! Decodes the kernel's fault messages, for the supervisor, at whose endpoint they arrive.

use crate::arch;
use crate::bindings::{bitfield::seL4_Fault, constant};
use platform::Message;
use report::FaultKind;

/// A component's fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The fault's kind.
    pub kind: FaultKind,
    /// The address or cptr it was about, 0 where there is none.
    pub address: u64,
    /// The instruction.
    pub instruction: u64,
}

impl Fault {
    /// The fault in `message`; `None` when the message is none of the kernel's.
    #[must_use]
    pub fn decode(message: &Message) -> Option<Self> {
        Self::of(message.label, message.words())
    }

    /// The fault in a message with this label and these words; `None` when it is none of the kernel's.
    #[must_use]
    pub fn of(label: u32, words: &[u64]) -> Option<Self> {
        let word = |index: u64| words.get(usize::try_from(index).ok()?).copied();
        Some(match u64::from(label) {
            seL4_Fault::VMFault => {
                let address = word(constant::seL4_VMFault_Addr)?;
                let instruction = word(constant::seL4_VMFault_IP)?;
                let kind = match (word(constant::seL4_VMFault_PrefetchFault)?, word(constant::seL4_VMFault_FSR)?) {
                    (constant::seL4_InstructionFault, _) => FaultKind::Execute,
                    (_, status) if arch::is_write(status) => FaultKind::Write,
                    // The processor distinguishes fetches from reads only where no-execute is in use, which it is not here. An
                    // instruction that runs does not fault on reading itself.
                    _ if address == instruction => FaultKind::Execute,
                    _ => FaultKind::Read,
                };
                Self { kind, address, instruction }
            }
            seL4_Fault::CapFault => Self {
                kind: FaultKind::Capability,
                address: word(constant::seL4_CapFault_Addr)?,
                instruction: word(constant::seL4_CapFault_IP)?,
            },
            seL4_Fault::UnknownSyscall => Self {
                kind: FaultKind::UnknownSyscall,
                address: word(constant::seL4_UnknownSyscall_Syscall)?,
                instruction: word(constant::seL4_UnknownSyscall_FaultIP)?,
            },
            seL4_Fault::UserException => Self {
                kind: FaultKind::Exception(word(constant::seL4_UserException_Number)?),
                address: 0,
                instruction: word(constant::seL4_UserException_FaultIP)?,
            },
            _ => return None,
        })
    }
}
