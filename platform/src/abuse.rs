//! The seam's part for hostile programs: acts that an honest component never needs, and that the machine should stop.
//!
//! Only the hostile program asks for it. Left out: the verdict on an act, which is its author's and the supervisor's.

use crate::{OutOfBounds, Platform, Vaddr};

/// Instructions that [`Abuse::execute_forbidden`] has.
pub const FORBIDDEN_INSTRUCTIONS: usize = 20;

/// A state of the processor that an attacker entered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessorState {
    /// Name of the attempt.
    pub name: &'static str,
    /// Whether the component's registers were its own all the time, and not another component's.
    pub is_own: bool,
}

/// A platform with acts for attackers. By default, a platform without address space and processor: each act does nothing and
/// returns an error.
pub trait Abuse: Platform {
    /// Accesses `vaddr` without a check whether anything is mapped there: reads a byte, or writes it when `write` has one. The
    /// access should fault; a return means that it was not stopped.
    ///
    /// # Errors
    /// [`OutOfBounds`] where the platform stops the access itself.
    fn poke(&self, vaddr: Vaddr, write: Option<u8>) -> Result<u8, OutOfBounds> {
        let _ = (vaddr, write);
        Err(OutOfBounds)
    }

    /// Puts the processor into a state that user level may enter and that could harm others: flags, segments, a stack pointer that
    /// leads nowhere, floating point exceptions. Is interrupted and sleeps in it, leaves it, and says how that went.
    ///
    /// # Errors
    /// [`OutOfBounds`] where there is no state of that number; they count from 0. So it is for all where the platform has no processor.
    fn enter_state(&self, index: usize) -> Result<ProcessorState, OutOfBounds> {
        let _ = index;
        Err(OutOfBounds)
    }

    /// Executes instruction number `index`, below [`FORBIDDEN_INSTRUCTIONS`], of those that user level must not execute; the first would stop
    /// the machine's timer or block its interrupts.
    ///
    /// # Errors
    /// [`OutOfBounds`] where the platform executes no such instruction.
    fn execute_forbidden(&self, index: usize) -> Result<(), OutOfBounds> {
        let _ = index;
        Err(OutOfBounds)
    }
}
