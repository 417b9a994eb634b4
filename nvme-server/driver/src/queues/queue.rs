//! A queue pair with the commands that it has in flight, and the PRP lists of their data.

use crate::command::{self, Target};
use crate::command_table::{CommandTable, MOST_IN_FLIGHT, Reserved};
use crate::cursor::Piece;
use crate::dma::DmaPool;
use crate::fault::DeviceFault;
use crate::prp::{PrpLists, list_pages};
use crate::queue_pair::QueuePair;
use crate::registers::Registers;
use blk_api::request::Opcode;
use nvme_spec::{Cid, Cqe, QueueId, Sqe};
use platform::{Mmio, Platform};

/// A queue pair whose driver keeps `C` with each command, and a tag `T` that may change.
pub struct Queue<P: Platform, C, T> {
    /// The rings and doorbells.
    pub pair: QueuePair<P::Memory, P::Mmio>,
    /// The commands in flight.
    pub commands: CommandTable<C, T>,
    /// The list pages of its commands.
    pub lists: PrpLists<P::Memory>,
    /// The largest transfer, bytes, for which each command's list pages suffice.
    pub max_transfer: u64,
}

impl<P: Platform, C: Copy, T: Copy> Queue<P, C, T> {
    /// Makes a queue pair for `depth` commands of up to `max_transfer` bytes, in memory of the pool. The controller does not have it
    /// yet. `none` stands in places that never had a command.
    ///
    /// # Errors
    /// [`DeviceFault::OwnMemory`] when the pool is used up; and as [`QueuePair::new`].
    pub fn new(
        registers: &Registers<P::Mmio>,
        pool: &mut DmaPool<P>,
        id: QueueId,
        depth: u16,
        max_transfer: u64,
        none: (C, T),
    ) -> Result<Self, DeviceFault> {
        let entries = depth.saturating_add(1);
        let bytes = |entry: usize| u64::from(entries).saturating_mul(entry as u64);
        let rings = (pool.take_bytes(bytes(size_of::<Sqe>()))?, pool.take_bytes(bytes(size_of::<Cqe>()))?);
        // A discard's range is written into the list page, so each command has one.
        let pages = list_pages(max_transfer).max(1);
        let list = pool.take(pages.saturating_mul(u64::from(depth)))?;
        let mut pair = QueuePair::new(id, entries, rings, registers.registers(), registers.cap().doorbells())?;
        pair.reset()?;
        let (commands, lists) = (CommandTable::new(depth, none), PrpLists::new(list, depth, pages)?);
        Ok(Self { pair, commands, lists, max_transfer })
    }

    /// Commands that the queue pair may hold.
    pub fn depth(&self) -> u16 {
        self.pair.entries().saturating_sub(1)
    }

    /// Sets the depth of the next creation, as far as there is memory for it. Nothing is in flight, and the controller does not have
    /// the queue pair.
    ///
    /// # Errors
    /// As [`QueuePair::reset`].
    pub fn set_depth(&mut self, depth: u16) -> Result<(), DeviceFault> {
        self.pair.resize(depth.saturating_add(1))?;
        self.commands.set_depth(self.depth());
        Ok(())
    }

    /// Submits the command for `piece`, whose blocks have `bytes`. The controller sees it after [`QueuePair::ring`]. Returns its
    /// identifier.
    ///
    /// # Errors
    /// [`DeviceFault::OwnMemory`]; then nothing is in flight that was not before.
    #[inline(always)]
    pub fn submit(
        &mut self,
        target: &Target,
        opcode: Opcode,
        piece: Piece,
        bytes: u32,
        command: C,
        tag: T,
    ) -> Result<Cid, DeviceFault> {
        let reserved = self.commands.reserve(command, tag).ok_or(DeviceFault::OwnMemory)?;
        match command::build(&self.lists, target, opcode, piece, bytes, &reserved) {
            Ok(sqe) => {
                self.pair.submit(&sqe);
                Ok(reserved.spend())
            }
            Err(fault) => {
                self.take_back(reserved);
                Err(fault)
            }
        }
    }

    /// Frees the place of a command that was not submitted.
    #[cold]
    fn take_back(&mut self, reserved: Reserved) {
        // It was reserved just now, so it is there.
        let _ = self.commands.complete(reserved.spend());
    }
}

/// The most commands that one queue pair can hold: one slot stays empty, and no queue is larger than CAP.MQES says.
pub fn most_commands<R: Mmio>(registers: &Registers<R>) -> u16 {
    let entries = u16::try_from(registers.cap().max_queue_entries()).unwrap_or(u16::MAX);
    entries.saturating_sub(1).min(MOST_IN_FLIGHT)
}
