//! The command queue (sections 3.5 and 4): one page, 256 commands.
//!
//! [`CommandQueue::run`] puts commands and a SYNC into the queue and waits for it to be empty, so that an invalidation
//! that returned has taken effect. A command that the SMMU refuses is replaced by a SYNC to let the queue go on, and the
//! caller is notified, because the refused command did nothing.

use crate::error::Error;
use crate::pool::{COMMAND_QUEUE, Pool};
use crate::registers::Registers;
use platform::{Memory, Mmio};
use smmu_spec::Command;
use smmu_spec::registers::{CmdqCons, CommandError, Gerror, QueueBase, Register};

/// log2 of the entries.
pub(crate) const ENTRIES_LOG2: u8 = 8;
const ENTRIES: u32 = 1 << ENTRIES_LOG2;
/// Index and wrap bit.
const POSITION_MASK: u32 = (ENTRIES << 1).wrapping_sub(1);
const INDEX_MASK: u32 = ENTRIES.wrapping_sub(1);
/// Refused commands in one run after which the queue counts as stuck.
const MAX_REPAIRS: u32 = 16;

/// Reason why a run of commands may not have taken effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The queue was not empty within its bound.
    Stuck,
    /// The queue is empty, but some commands were refused.
    Refused,
    /// Registers or memory could not be reached.
    Access(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Access(error)
    }
}

/// The queue as software sees it.
#[derive(Debug, Default)]
pub(crate) struct CommandQueue {
    /// Index and wrap bit of the next command.
    prod: u32,
    /// Index and wrap bit of the oldest command that is not consumed.
    cons: u32,
}

impl CommandQueue {
    /// The value of CMDQ_BASE for the pool's command queue.
    pub(crate) fn base<M: Memory>(pool: &Pool<M>) -> Result<u64, Error> {
        Ok(QueueBase::at(pool.paddr(COMMAND_QUEUE)?, ENTRIES_LOG2).into_bits())
    }

    /// Sets up an empty queue. CR0.CMDQEN must be 0.
    pub(crate) fn start<R: Mmio, M: Memory>(registers: &Registers<R>, pool: &Pool<M>) -> Result<Self, Error> {
        registers.write_wide(Register::CmdqBase, Self::base(pool)?)?;
        registers.write(Register::CmdqProd, 0)?;
        registers.write(Register::CmdqCons, 0)?;
        acknowledge(registers, |active| Gerror::new().with_cmdq(active.cmdq()))?;
        Ok(Self::default())
    }

    /// Runs `commands` and a SYNC, and waits until all are consumed.
    pub(crate) fn run<R: Mmio, M: Memory>(
        &mut self,
        registers: &Registers<R>,
        pool: &Pool<M>,
        commands: &[Command],
    ) -> Result<(), Failure> {
        for command in commands.iter().chain(&[Command::sync()]) {
            if self.outstanding() >= ENTRIES {
                return Err(Failure::Stuck);
            }
            write_command(pool, self.prod, command)?;
            self.prod = self.prod.wrapping_add(1) & POSITION_MASK;
        }
        pool.fence();
        registers.write(Register::CmdqProd, self.prod)?;
        self.wait(registers, pool)
    }

    fn wait<R: Mmio, M: Memory>(&mut self, registers: &Registers<R>, pool: &Pool<M>) -> Result<(), Failure> {
        let mut repairs = 0u32;
        for _ in 0..registers.polls {
            let cons = CmdqCons::from_bits(registers.read(Register::CmdqCons)?);
            self.consumed_up_to(cons.index() & POSITION_MASK)?;
            if self.outstanding() == 0 {
                return if repairs == 0 { Ok(()) } else { Err(Failure::Refused) };
            }
            if active_errors(registers)?.cmdq() {
                repairs = repairs.saturating_add(1);
                if repairs > MAX_REPAIRS {
                    return Err(Failure::Stuck);
                }
                self.repair(registers, pool)?;
            }
            core::hint::spin_loop();
        }
        Err(Failure::Stuck)
    }

    /// Takes over the SMMU's index. An index that is not between the last one and ours is impossible.
    fn consumed_up_to(&mut self, cons: u32) -> Result<(), Failure> {
        let consumed = cons.wrapping_sub(self.cons) & POSITION_MASK;
        if consumed > self.outstanding() {
            return Err(Failure::Stuck);
        }
        self.cons = cons;
        Ok(())
    }

    /// Lets the queue go on after it stopped at a command (section 4.1.2): after an abort the command is retried, otherwise it
    /// is replaced.
    fn repair<R: Mmio, M: Memory>(&self, registers: &Registers<R>, pool: &Pool<M>) -> Result<(), Failure> {
        let cons = CmdqCons::from_bits(registers.read(Register::CmdqCons)?);
        if CommandError::from_raw(cons.error()) != Some(CommandError::Abort) {
            write_command(pool, self.cons, &Command::sync())?;
            pool.fence();
        }
        acknowledge(registers, |active| Gerror::new().with_cmdq(active.cmdq()))?;
        Ok(())
    }

    fn outstanding(&self) -> u32 {
        self.prod.wrapping_sub(self.cons) & POSITION_MASK
    }
}

fn write_command<M: Memory>(pool: &Pool<M>, position: u32, command: &Command) -> Result<(), Error> {
    let word = (position & INDEX_MASK).saturating_mul(2) as usize;
    pool.write(COMMAND_QUEUE, word, command.word0.into_bits())?;
    pool.write(COMMAND_QUEUE, word.saturating_add(1), command.word1)
}

/// The global errors that are not acknowledged (section 6.3.18).
pub(crate) fn active_errors<R: Mmio>(registers: &Registers<R>) -> Result<Gerror, Error> {
    Ok(Gerror::from_bits(registers.read(Register::Gerror)? ^ registers.read(Register::Gerrorn)?))
}

/// Acknowledges those of the active errors that `which` chooses.
pub(crate) fn acknowledge<R: Mmio>(registers: &Registers<R>, which: impl Fn(Gerror) -> Gerror) -> Result<(), Error> {
    let active = active_errors(registers)?;
    let chosen = which(active).into_bits() & active.into_bits();
    if chosen != 0 {
        let before = registers.read(Register::Gerrorn)?;
        registers.write(Register::Gerrorn, before ^ chosen)?;
    }
    Ok(())
}
