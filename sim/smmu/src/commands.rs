//! Consuming the command queue (sections 3.5 and 4).

use platform::Paddr;
use smmu_spec::Command;
use smmu_spec::command::{COMMAND_BYTES_LOG2, CommandWord0, Opcode, RANGE_ALL, Reach};
use smmu_spec::registers::{CommandError, Cr0, Gerror};

use crate::faults::Forget;
use crate::smmu::{PhysicalMemory, Smmu};
use crate::violation::Violation;

/// Bits that may be set, for each word of a command.
const fn allowed(opcode: Opcode) -> (u64, u64) {
    match opcode {
        Opcode::InvalidateStream | Opcode::InvalidateContext => (0xffff_ffff_0000_00ff, 1),
        Opcode::InvalidateStreams => (0xffff_ffff_0000_00ff, 0x1f),
        Opcode::InvalidateAsid => (0xffff_0000_0000_00ff, 0),
        Opcode::InvalidateAddress => (0xffff_0000_0000_00ff, 0xffff_ffff_ffff_f001),
        Opcode::InvalidateAll | Opcode::Sync => (0xff, 0),
    }
}

impl Smmu {
    /// Consumes commands whose delay is over; called when software polls for them.
    pub(crate) fn poll_commands(&mut self, memory: &mut dyn PhysicalMemory) {
        if self.state.cmdq_reads_left == 0 {
            self.consume(memory);
        } else {
            self.state.cmdq_reads_left -= 1;
        }
    }

    /// Consumes commands until the queue is empty or stops at an error.
    pub(crate) fn consume(&mut self, memory: &mut dyn PhysicalMemory) {
        let enabled = Cr0::from_bits(self.state.cr0.acknowledged).cmdq();
        while enabled && !self.faults.is_stuck && !self.is_stopped() && self.outstanding() != 0 {
            let base = self.state.cmdq_base;
            let index = u64::from(self.state.cmdq_cons.index()) & ((1 << base.entries_log2()) - 1);
            let at = Paddr::new(base.address() + (index << COMMAND_BYTES_LOG2));
            let mut bytes = [0; 16];
            if memory.read(at, &mut bytes).is_err() {
                return self.stop(CommandError::Abort);
            }
            let words = u128::from_le_bytes(bytes);
            let command = Command { word0: CommandWord0::from_bits(words as u64), word1: (words >> 64) as u64 };
            if self.generator.below(1_000_000) < self.faults.command_errors_per_million {
                return self.stop(CommandError::Illegal);
            }
            let Some(opcode) = command.opcode().filter(|opcode| is_legal(*opcode, &command)) else {
                self.violation(Violation::Command { word0: command.word0.into_bits(), word1: command.word1 });
                return self.stop(CommandError::Illegal);
            };
            self.execute(opcode, command);
            self.commands += 1;
            let next = (self.state.cmdq_cons.index() + 1) & self.cmdq_mask();
            self.state.cmdq_cons.set_index(next);
        }
    }

    fn execute(&mut self, opcode: Opcode, command: Command) {
        match (opcode, self.faults.forget) {
            (_, Some(Forget::Every(forgotten))) if forgotten == opcode => {}
            (Opcode::InvalidateStreams, Some(Forget::StreamGroups)) if command.range() != RANGE_ALL => {}
            (Opcode::InvalidateAddress, Some(Forget::UpperLevels)) => {
                let last = Command::invalidate_address(command.asid(), command.address(), Reach::LastLevel);
                self.caches.defer(last);
            }
            (Opcode::Sync, _) => self.caches.sync(self.state.strtab_cfg.split()),
            _ => self.caches.defer(command),
        }
    }

    fn is_stopped(&self) -> bool {
        self.state.gerror.cmdq() != self.state.gerrorn.cmdq()
    }

    fn stop(&mut self, error: CommandError) {
        self.state.cmdq_cons.set_error(error as u8);
        self.raise(Gerror::new().with_cmdq(true));
    }

    /// Mask of the index and wrap bit of the command queue.
    pub(crate) fn cmdq_mask(&self) -> u32 {
        (2 << self.state.cmdq_base.entries_log2().min(19)) - 1
    }

    /// Number of commands in the queue.
    pub(crate) fn outstanding(&self) -> u32 {
        self.state.cmdq_prod.wrapping_sub(self.state.cmdq_cons.index()) & self.cmdq_mask()
    }
}

fn is_legal(opcode: Opcode, command: &Command) -> bool {
    let (word0, word1) = allowed(opcode);
    command.word0.into_bits() & !word0 == 0 && command.word1 & !word1 == 0
}
