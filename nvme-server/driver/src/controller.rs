//! A controller: the claimed one with its condition, and by file the steps of driving it that concern no I/O queue.

pub mod admin;
pub mod bring_up;
pub mod dma;
pub mod features;
pub mod inquiry;
pub mod interrupts;
pub mod pci;
pub mod polled;
pub mod presence;
pub mod registers;
pub mod reset;
pub mod retry;
pub mod secondary;
pub mod stuck;

use crate::admin::{AdminQueue, Tick};
use crate::dma::{DmaPool, IoSpaceMap};
use crate::fault::DeviceFault;
use crate::inquiry::Asks;
use crate::interrupts::Vectors;
use crate::presence::Arrival;
use crate::queue_pair::Ring;
use crate::registers::Registers;
use crate::retry::RetryDelays;
use core::cell::{Cell, RefCell};
use nvme_spec::{Cid, Cqe, Sqe};
use pci_api::presence::Presence;
use platform::{Cap, Endpoint, Platform};

/// Whether commands may be submitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Health {
    /// The controller takes commands.
    Up,
    /// The controller is being brought up, for the first time or again.
    Down,
    /// The controller could not be brought up.
    Dead,
    /// The controller is not there any more. None of its registers is accessed: they may be unmapped.
    Gone,
}

impl Health {
    /// Returns whether the controller will take no commands any more.
    #[must_use]
    pub const fn is_over(self) -> bool {
        match self {
            Self::Dead | Self::Gone => true,
            Self::Up | Self::Down => false,
        }
    }
}

/// A controller that a driver with a control plane has claimed.
pub struct Controller<P: Platform> {
    /// The driver's platform.
    pub platform: P,
    /// The registers.
    pub registers: Registers<P::Mmio>,
    /// The admin queue.
    pub admin: AdminQueue<P::Memory, P::Mmio>,
    /// Page for the controller's answers to Identify.
    pub identify_page: Ring<P::Memory>,
    /// The supervisor's tick.
    pub tick: Tick,
    /// The controller's condition, which says whether commands may be submitted.
    pub health: Cell<Health>,
    /// Number of the controller's faults since the start.
    pub faults: Cell<u64>,
    /// Delays before retries that the controller states, once it was brought up.
    pub retry_delays: Cell<RetryDelays>,
    /// I/O queue pairs that the controller granted; 0 before it was brought up.
    pub granted: Cell<u16>,
    /// The controller was reported; a reset does not report it again.
    pub is_introduced: Cell<bool>,
    /// The arrival of a controller that may be removed.
    pub arrival: Option<Arrival<P::Memory>>,
    /// The address of the controller's function: bus << 8 | device << 3 | function.
    pub bdf: u16,
    /// The PCI server's endpoint.
    pub server: Cap<Endpoint>,
    /// Cptrs for capabilities from the PCI server.
    pub cptrs: RefCell<pci::Cptrs>,
    /// The controller's interrupts.
    pub vectors: RefCell<Vectors>,
    /// The controller may master the bus.
    pub masters_bus: Cell<bool>,
    /// The controller's virtual functions are enabled.
    pub has_functions: Cell<bool>,
    /// The controller's address space: the memory that it reaches.
    pub space: RefCell<IoSpaceMap<P::Kernel>>,
    /// The pool of queue pairs' memory in that address space.
    pub pool: RefCell<DmaPool<P>>,
}

impl<P: Platform> Controller<P> {
    /// Submits an admin command and waits for it; again where the controller asks for that, until it says that it fails.
    ///
    /// # Errors
    /// As [`AdminQueue::execute`].
    pub async fn execute(&self, build: impl Fn(Cid) -> Sqe) -> Result<Cqe, DeviceFault> {
        let mut retries = 0u8;
        loop {
            let outcome = self.admin.execute(&self.platform, &self.tick, &build).await;
            let Err(DeviceFault::Refused(status)) = outcome else { return outcome };
            let Some(delay_ms) = self.retry_delays.get().before_retry(status, retries) else { return outcome };
            if !self.stays(delay_ms).await {
                return outcome;
            }
            retries = retries.saturating_add(1);
        }
    }

    /// Waits for some milliseconds, to the next tick. Returns whether the controller neither failed nor went meanwhile.
    async fn stays(&self, delay_ms: u32) -> bool {
        let health = self.health.get();
        let ticks = self.platform.ticks_per_second().saturating_mul(delay_ms.into()) / 1000;
        let until = self.platform.ticks().saturating_add(ticks);
        while self.platform.ticks() < until {
            self.next_tick().await;
            if self.health.get() != health || self.is_gone() {
                return false;
            }
        }
        true
    }

    /// Waits for a tick that comes from now on.
    pub async fn next_tick(&self) {
        self.tick.reset();
        self.tick.wait().await;
    }

    /// Returns whether the slot shows that the controller is gone.
    pub fn is_gone(&self) -> bool {
        self.arrival.as_ref().is_some_and(|arrival| arrival.presence() == Presence::Absent)
    }
}

impl<P: Platform> Asks for &Controller<P> {
    type Memory = P::Memory;

    fn page(&self) -> &Ring<P::Memory> {
        &self.identify_page
    }

    async fn must(&mut self, build: impl Fn(Cid) -> Sqe) -> Result<Cqe, DeviceFault> {
        self.execute(build).await
    }

    async fn wait(&mut self) {
        self.next_tick().await;
    }
}
