//! Records of bound interrupts: of one vector, and of a line that claims share. Neighbours: `vector` and `shared_line` make them
//! and end them.

use alloc::vec::Vec;
use pci_spec::Bdf;
use platform::{CPtr, Cap, IrqHandler, Notification};

/// A vector's interrupt. The handler stays here; copies that drivers get die with it.
#[derive(Clone, Copy, Debug)]
pub struct Vector {
    /// The vector's number among the function's vectors.
    pub index: u16,
    /// The kernel interrupt.
    pub irq: u8,
    /// The interrupt line; messages have none.
    pub line: Option<u8>,
    /// The vector's handler.
    pub handler: Cap<IrqHandler>,
}

/// A line that claims share.
#[derive(Debug)]
pub struct SharedLine {
    pub(crate) line: u8,
    /// The bit of `LINE_BITS` that distinguishes its signals from those of other lines, whatever their numbers.
    pub(crate) bit: u32,
    pub(crate) interrupt: Vector,
    /// Notification of the server itself, which the handler signals.
    pub(crate) own: Cap<Notification>,
    pub(crate) sharers: Vec<Sharer>,
    /// Interrupts since the last tick that no function wanted.
    pub(crate) idle: u32,
    /// Whether there were too many of them, so that the line is not acknowledged before the tick.
    pub(crate) stopped: bool,
}

/// A function's part in a line.
#[derive(Debug)]
pub(crate) struct Sharer {
    pub(crate) bdf: Bdf,
    /// The number of its driver.
    pub(crate) driver: usize,
    /// The cptr of the driver's badged notification.
    pub(crate) notification: CPtr,
    /// Notification that the driver signals when it has finished.
    pub(crate) resume: Cap<Notification>,
    /// The function's pin is disabled until then.
    pub(crate) disabled: bool,
}
