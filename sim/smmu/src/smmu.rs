//! The SMMU's state, and the types at its boundary.

use platform::{Iova, Paddr};
use smmu_spec::registers::{CmdqCons, Cr0, Cr2, EventqIndex, Gbpa, Gerror, IrqCtrl, QueueBase, StrtabBaseCfg};
use smmu_spec::{EventKind, StreamId};

use crate::cache::Caches;
use crate::faults::{Config, Faults};
use crate::generator::Generator;
use crate::violation::Violation;

/// Limit of violations kept; later ones are dropped.
const KEPT: usize = 256;

/// Physical memory, as the SMMU reaches it.
pub trait PhysicalMemory {
    /// Reads memory.
    ///
    /// # Errors
    /// [`Abort`] where there is none.
    fn read(&mut self, paddr: Paddr, bytes: &mut [u8]) -> Result<(), Abort>;

    /// Writes memory.
    ///
    /// # Errors
    /// [`Abort`] where there is none.
    fn write(&mut self, paddr: Paddr, bytes: &[u8]) -> Result<(), Abort>;
}

/// An external abort: nothing answers at the address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abort;

/// The direction of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From memory.
    Read,
    /// Into memory.
    Write,
}

/// The reason why a transaction was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The transaction was aborted without an event.
    Aborted,
    /// The transaction was aborted, with this event.
    Event(EventKind),
}

/// Interrupts since the last call of [`Smmu::take_interrupts`]: pulses, as on edge-triggered lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interrupts {
    /// The event queue became non-empty.
    pub events: bool,
    /// A global error became active.
    pub gerror: bool,
}

/// A register that takes effect some reads after it was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Handshake {
    pub(crate) value: u32,
    pub(crate) acknowledged: u32,
    pub(crate) reads_left: u32,
}

/// The register file.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) cr0: Handshake,
    pub(crate) irq_ctrl: Handshake,
    pub(crate) cr1: u32,
    pub(crate) cr2: Cr2,
    pub(crate) gbpa: Gbpa,
    pub(crate) gbpa_reads_left: u32,
    /// GBPA.ABORT, as far as it has taken effect.
    pub(crate) aborts_while_off: bool,
    pub(crate) gerror: Gerror,
    pub(crate) gerrorn: Gerror,
    pub(crate) strtab_base: u64,
    pub(crate) strtab_cfg: StrtabBaseCfg,
    pub(crate) cmdq_base: QueueBase,
    pub(crate) cmdq_prod: u32,
    pub(crate) cmdq_cons: CmdqCons,
    pub(crate) cmdq_reads_left: u32,
    pub(crate) eventq_base: QueueBase,
    pub(crate) eventq_prod: EventqIndex,
    pub(crate) eventq_cons: EventqIndex,
}

/// The model of an SMMU.
#[derive(Clone, Debug)]
pub struct Smmu {
    pub(crate) config: Config,
    pub(crate) faults: Faults,
    pub(crate) generator: Generator,
    pub(crate) state: State,
    pub(crate) caches: Caches,
    pub(crate) interrupts: Interrupts,
    pub(crate) violations: Vec<Violation>,
    pub(crate) commands: u64,
}

impl Smmu {
    /// Creates an SMMU as after power on: off, with every transaction passing.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            faults: Faults::default(),
            generator: Generator::new(config.seed),
            state: State::default(),
            caches: Caches::default(),
            interrupts: Interrupts::default(),
            violations: Vec::new(),
            commands: 0,
        }
    }

    /// Makes the model fail in these ways from now on.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// Translates a transaction of a device. A refusal that has an event is recorded.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn translate(
        &mut self,
        memory: &mut dyn PhysicalMemory,
        stream: StreamId,
        iova: Iova,
        direction: Direction,
    ) -> Result<Paddr, Refusal> {
        let outcome = self.probe(memory, stream, iova, direction);
        if let Err(Refusal::Event(kind)) = outcome {
            self.record(memory, kind, stream, iova, direction);
        }
        outcome
    }

    /// Translates as [`Smmu::translate`] and fills the same caches, but records no event: for tests that probe every
    /// address at every moment.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn probe(
        &mut self,
        memory: &mut dyn PhysicalMemory,
        stream: StreamId,
        iova: Iova,
        direction: Direction,
    ) -> Result<Paddr, Refusal> {
        if !Cr0::from_bits(self.state.cr0.acknowledged).smmu() {
            return if self.state.aborts_while_off { Err(Refusal::Aborted) } else { Ok(Paddr::new(iova.bits())) };
        }
        match self.context(memory, stream)? {
            Some(context) => self.look_up(memory, &context, iova, direction),
            None => Ok(Paddr::new(iova.bits())),
        }
    }

    /// Returns the interrupts since the last call.
    pub fn take_interrupts(&mut self) -> Interrupts {
        std::mem::take(&mut self.interrupts)
    }

    /// The driver's breaches of the standard so far.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Commands consumed so far.
    #[must_use]
    pub fn commands(&self) -> u64 {
        self.commands
    }

    pub(crate) fn violation(&mut self, violation: Violation) {
        if self.violations.len() < KEPT {
            self.violations.push(violation);
        }
    }

    pub(crate) fn irq_enabled(&self) -> IrqCtrl {
        IrqCtrl::from_bits(self.state.irq_ctrl.acknowledged)
    }

    /// Activates errors that are inactive, and interrupts.
    pub(crate) fn raise(&mut self, errors: Gerror) {
        let active = self.state.gerror.into_bits() ^ self.state.gerrorn.into_bits();
        let new = errors.into_bits() & !active;
        if new != 0 {
            self.state.gerror = Gerror::from_bits(self.state.gerror.into_bits() ^ new);
            self.interrupts.gerror |= self.irq_enabled().gerror();
        }
    }
}
