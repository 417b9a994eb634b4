//! Virtual functions as the driver of a physical function asks for them, over several requests: each step takes time.
//!
//! | step | ends |
//! |---|---|
//! | the physical function is reset | after 100 ms: [`Provision::settle`] restores its registers and its interrupts |
//! | virtual functions are enabled | after 100 ms: the next request finds them |
//!
//! The reset gives effect to the resources that the driver assigned to them (PCIe 6.6.2; NVMe 8.5). They are recorded here from
//! then on and stay when the physical function's driver ends: the next one asks for the same number and has it at once.
//! Neighbours: `enable` writes and checks the registers, `claim` has the driver's interrupts, `server` decides who may ask, and
//! accesses no function under reset. Left out: registers that firmware set and the server does not use; they have the values of
//! a reset afterwards.

use crate::bars;
use crate::claim::Claim;
use crate::config_space::ConfigSpace;
use crate::enable::{self, Refused, Switch};
use crate::function::Function;
use crate::reset;
use crate::resources::Resources;
use crate::sizing::Note;
use alloc::vec::Vec;
use pci_api::Refusal;
use pci_spec::Bdf;
use pci_spec::header::{BARS_TYPE_0, offset};
use platform::log::{error, info, warn};
use platform::{Memory, Mmio, Platform};
use virtio_drivers::transport::pci::bus::Command;

/// The virtual functions of one physical function.
#[derive(Debug)]
pub struct Provision {
    physical: Bdf,
    /// The number of the driver that asked last.
    driver: usize,
    /// The number it asked for, 0 for none.
    wanted: u16,
    step: Step,
    switch: Switch,
}

#[derive(Debug)]
enum Step {
    /// None are enabled.
    Idle,
    /// The physical function is under reset, and the note has its BARs.
    Resetting,
    /// The physical function was reset and is as before.
    Reset,
    /// The physical function was reset and does not work any more.
    Failed,
    /// The virtual functions were enabled, and are not to be accessed yet.
    Appearing,
    /// The virtual functions are there, in order.
    Found(Vec<Function>),
}

impl Provision {
    /// For the physical function at `physical`, which driver number `driver` has and whose virtual functions are disabled.
    #[must_use]
    pub const fn new(physical: Bdf, driver: usize) -> Self {
        Self { physical, driver, wanted: 0, step: Step::Idle, switch: Switch::new() }
    }

    /// The physical function.
    #[must_use]
    pub const fn physical(&self) -> Bdf {
        self.physical
    }

    /// The number of the driver that asked for them last.
    #[must_use]
    pub const fn driver(&self) -> usize {
        self.driver
    }

    /// Virtual functions that can be claimed, in order.
    #[must_use]
    pub fn found(&self) -> &[Function] {
        match &self.step {
            Step::Found(found) => found,
            Step::Idle | Step::Resetting | Step::Reset | Step::Failed | Step::Appearing => &[],
        }
    }

    /// Whether the physical function is under reset, so that neither it nor its claim may be touched before
    /// [`Provision::settle`].
    #[must_use]
    pub const fn is_resetting(&self) -> bool {
        matches!(self.step, Step::Resetting)
    }

    /// Takes the next step, if its time has come, towards the `number` of virtual functions of `physical` that driver number
    /// `driver` asks for. Returns how many there are: 0 or `number`. `is_taken` tells whether another function has a routing id.
    ///
    /// # Errors
    ///
    /// As [`pci_api::VIRTUAL_FUNCTIONS`]. After [`Refusal::Unusable`] none are enabled.
    pub fn ask<P: Platform>(
        &mut self,
        resources: &mut Resources<P>,
        note: &Note<impl Memory>,
        physical: &Function,
        driver: usize,
        number: u16,
        is_taken: impl Fn(Bdf) -> bool,
    ) -> Result<u16, Refusal> {
        enable::check(physical, number).map_err(|reason| refusal(self.physical, reason))?;
        if self.wanted != 0 && self.wanted != number {
            return Err(Refusal::Busy);
        }
        (self.driver, self.wanted) = (driver, number);
        if !self.found().iter().all(|function| bars::stand(&resources.config, function)) {
            warn!("virtual functions of function {:x} are gone", self.physical.to_raw());
            let now_ns = resources.now_ns();
            self.switch.disable(&mut resources.config, physical, now_ns);
            self.step = Step::Idle;
        }
        let taken = match self.step {
            Step::Found(_) | Step::Resetting => Ok(()),
            Step::Idle => self.reset(resources, note),
            Step::Reset => self.enable(resources, note, physical),
            Step::Appearing => self.find(resources, physical, is_taken),
            Step::Failed => Err(Refusal::Unusable),
        };
        if taken.is_err() {
            (self.wanted, self.step) = (0, Step::Idle);
        }
        taken.map(|()| if self.found().is_empty() { 0 } else { number })
    }

    /// Disables them. None is claimed.
    pub fn end<P: Platform>(&mut self, resources: &mut Resources<P>, physical: &Function) {
        self.wanted = 0;
        if !self.is_resetting() {
            let now_ns = resources.now_ns();
            self.switch.disable(&mut resources.config, physical, now_ns);
            self.step = Step::Idle;
        }
    }

    /// Ends the reset of `physical`, which `claim` is of, once its time is over. Returns whether everything is as before then,
    /// but for bus mastering.
    pub fn settle<P: Platform>(
        &mut self,
        resources: &mut Resources<P>,
        note: &Note<impl Memory>,
        physical: &Function,
        claim: &Claim<P::Mmio>,
    ) -> bool {
        if !self.is_resetting() || resources.is_under_reset(self.physical) {
            return false;
        }
        let put_back = note.put_back(&mut resources.config);
        let config = &resources.config;
        let stands = put_back.is_ok() && bars::stand(config, physical) && claim.withholds_tables(config);
        let restored = if stands { claim.restore_interrupts(resources) } else { Err(Refusal::Unusable) };
        self.step = match restored {
            Ok(()) if self.wanted == 0 => Step::Idle,
            Ok(()) => Step::Reset,
            Err(reason) => {
                error!("function {:x} does not work after its reset: {}", self.physical.to_raw(), reason);
                Step::Failed
            }
        };
        restored.is_ok()
    }

    /// Begins the reset, unless the note is another's now. A function that cannot be reset alone is used as it is.
    fn reset<P: Platform>(&mut self, resources: &mut Resources<P>, note: &Note<impl Memory>) -> Result<(), Refusal> {
        if !reset::is_possible(&resources.config, self.physical) {
            self.step = Step::Reset;
            return Ok(());
        }
        if note.is_taken().map_err(|_| Refusal::Unusable)? {
            return Ok(());
        }
        prepare(&mut resources.config, note, self.physical)?;
        self.step = if resources.reset(self.physical) { Step::Resetting } else { Step::Failed };
        Ok(())
    }

    fn enable<P: Platform>(
        &mut self,
        resources: &mut Resources<P>,
        note: &Note<impl Memory>,
        physical: &Function,
    ) -> Result<(), Refusal> {
        let now_ns = resources.now_ns();
        match self.switch.enable(&mut resources.config, note, physical, self.wanted, now_ns) {
            Ok(()) => self.step = Step::Appearing,
            // Others were disabled lately.
            Err(Refused::TooEarly) => {}
            Err(reason) => return Err(refusal(self.physical, reason)),
        }
        Ok(())
    }

    fn find<P: Platform>(
        &mut self,
        resources: &mut Resources<P>,
        physical: &Function,
        is_taken: impl Fn(Bdf) -> bool,
    ) -> Result<(), Refusal> {
        let now_ns = resources.now_ns();
        match self.switch.find(&mut resources.config, physical, is_taken, now_ns) {
            Ok(found) => {
                found.iter().for_each(log);
                self.step = Step::Found(found);
            }
            Err(Refused::TooEarly) => {}
            Err(reason) => return Err(refusal(self.physical, reason)),
        }
        Ok(())
    }
}

/// Silences a function that is to be reset, and notes what the reset clears: for the server, and for its successor, which also
/// learns of the reset by the mark.
fn prepare<M: Mmio>(config: &mut ConfigSpace<M>, note: &Note<impl Memory>, bdf: Bdf) -> Result<(), Refusal> {
    // The note has the command register: without bus mastering, which nobody turns on again but for a living driver.
    config.change_command(bdf, Command::INTERRUPT_DISABLE, Command::BUS_MASTER);
    note.mark_enabled().map_err(|_| Refusal::Unusable)?;
    note.take(config, bdf, offset::BAR0.into(), BARS_TYPE_0).map_err(|_| Refusal::Unusable)
}

/// The answer to a driver, and a line in the log.
fn refusal(bdf: Bdf, reason: Refused) -> Refusal {
    warn!("function {:x} {}", bdf.to_raw(), reason.text());
    match reason {
        Refused::Number { .. } => Refusal::NoSuchFunction,
        Refused::OutOfOrder | Refused::TooEarly => Refusal::Busy,
        Refused::NotPhysical | Refused::Unusable(_) | Refused::Changed | Refused::RoutingId | Refused::Absent(_) => {
            Refusal::Unusable
        }
    }
}

fn log(function: &Function) {
    let bdf = function.bdf;
    let vectors = function.msix_vectors();
    info!("virtual function {:x}:{:x}.{}, {} MSI-X vectors", bdf.bus(), bdf.device(), bdf.function(), vectors);
    if let Some(reason) = function.unusable {
        warn!("  {}", reason.text());
    }
}
