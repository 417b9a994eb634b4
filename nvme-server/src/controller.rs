//! The controller side: registers, queue pairs, PRPs, interrupts, and the memory it reaches. These modules know no sessions.

pub(crate) mod admin;
pub(crate) mod device;
pub(crate) mod dma;
pub(crate) mod fault;
pub(crate) mod interrupts;
pub(crate) mod pci;
pub(crate) mod prp;
pub(crate) mod queue_pair;
pub(crate) mod registers;
pub(crate) mod reset;
