//! The claimed controller: its registers, its function on the bus, and the memory it reaches.

use crate::admin::{AdminQueue, Tick};
use crate::dma::{DmaPool, IoSpaceMap};
use crate::interrupts::Vectors;
use crate::pci;
use crate::queue_pair::Ring;
use crate::registers::Controller;
use crate::retry::RetryDelays;
use core::cell::{Cell, RefCell};
use platform::{Cap, Endpoint, Platform};

/// Whether commands may be submitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Health {
    /// It works.
    Up,
    /// It is being brought up, for the first time or again.
    Down,
    /// It could not be brought up.
    Dead,
    /// It is not there any more. None of its registers is accessed: they may be unmapped.
    Gone,
}

impl Health {
    /// Whether it will not take commands any more.
    #[must_use]
    pub const fn is_over(self) -> bool {
        match self {
            Self::Dead | Self::Gone => true,
            Self::Up | Self::Down => false,
        }
    }
}

/// The controller and its condition.
pub struct Device<P: Platform> {
    /// The registers.
    pub controller: Controller<P::Mmio>,
    /// The admin queue.
    pub admin: AdminQueue<P::Memory, P::Mmio>,
    /// Page for the controller's answers to Identify.
    pub identify_page: Ring<P::Memory>,
    /// The supervisor's tick.
    pub tick: Tick,
    /// Whether it takes commands.
    pub health: Cell<Health>,
    /// Its faults since the start.
    pub faults: Cell<u64>,
    /// Delays before retries that the controller states, once it was brought up.
    pub retry_delays: Cell<RetryDelays>,
    /// I/O queue pairs that the controller granted; 0 before it was brought up.
    pub granted: Cell<u16>,
    /// Whether it was reported; after a reset it is not reported again.
    pub is_introduced: Cell<bool>,
}

/// The controller's function on the bus, as the PCI server gave it.
pub struct Function<P: Platform> {
    /// Its address: bus << 8 | device << 3 | function.
    pub bdf: u16,
    /// The PCI server's endpoint.
    pub server: Cap<Endpoint>,
    /// Slots for capabilities from the PCI server.
    pub slots: RefCell<pci::Slots>,
    /// Its interrupts.
    pub vectors: RefCell<Vectors>,
    /// Whether it may master the bus.
    pub masters_bus: Cell<bool>,
    /// Whether its virtual functions are enabled.
    pub has_functions: Cell<bool>,
    /// Its address space: the memory that it reaches.
    pub space: RefCell<IoSpaceMap<P::Kernel>>,
    /// The pool of queue pairs' memory in it.
    pub pool: RefCell<DmaPool<P>>,
}
