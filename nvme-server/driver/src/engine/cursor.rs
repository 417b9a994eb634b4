//! Cuts a checked request into commands: at the ends of runs of blocks and of window ranges, and at what one command may
//! move.
//!
//! The driver knows where a request's blocks lie on the namespace, and how many of them follow each other there
//! ([`Run`]). Left out: the right to them.

use blk_api::operation::Right;
use blk_api::request::{Access, Opcode, Request};
use nvme_spec::nvm::Blocks;

/// The limits of one command of this controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommandLimits {
    /// Blocks one command may move.
    pub data_blocks: u32,
    /// Blocks a command without data may name: see [`Abilities::limits`](crate::command::Abilities::limits).
    pub bare_blocks: u32,
    /// log2 of the block size.
    pub block_shift: u8,
}

impl CommandLimits {
    /// The limits of a controller one command of which may move `max_transfer` bytes, in blocks of `1 << block_shift` bytes.
    #[must_use]
    pub fn of(max_transfer: u64, block_shift: u8) -> Self {
        let data_blocks = max_transfer.checked_shr(block_shift.into()).unwrap_or(0);
        let data_blocks = u32::try_from(data_blocks).unwrap_or(Blocks::MAX).min(Blocks::MAX);
        Self { data_blocks, bare_blocks: Blocks::MAX, block_shift }
    }
}

/// The part of a request that one command does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// First block, as the request numbers it.
    pub first: u64,
    /// First block on the namespace; 0 for a flush.
    pub lba: u64,
    /// Blocks; 0 for a flush.
    pub blocks: u32,
    /// First byte in the window; 0 without data.
    pub offset: u64,
}

/// Blocks that follow each other on the namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The first of them.
    pub lba: u64,
    /// Number of blocks: at least 1, at most as many as were asked for.
    pub blocks: u64,
}

/// A request that is being cut into commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor {
    request: Request,
    /// Blocks behind it.
    done: u32,
    /// The window range it is in, and the bytes of that behind it.
    segment: u8,
    segment_done: u32,
    /// Every piece was returned.
    finished: bool,
}

impl Cursor {
    /// Creates a cursor at the start of `request`.
    #[inline(always)]
    pub fn new(request: Request) -> Self {
        Self { request, done: 0, segment: 0, segment_done: 0, finished: false }
    }

    /// The request's operation.
    #[inline]
    pub fn opcode(&self) -> Opcode {
        self.request.opcode()
    }

    /// Whether every piece was returned.
    #[inline]
    pub fn finished(&self) -> bool {
        self.finished
    }

    /// The next piece. `None` after the last. `locate` finds the run with which a number of the session's
    /// blocks begin, to which the operation needs a right.
    ///
    /// # Errors
    /// Those of `locate`; the cursor then stays where it was.
    #[inline(always)]
    pub fn next<E>(
        &mut self,
        locate: impl FnOnce(Right, u64, u64) -> Result<Run, E>,
        limits: CommandLimits,
    ) -> Result<Option<Piece>, E> {
        if self.finished {
            return Ok(None);
        }
        let Some(Access { right, lba, blocks: all }) = self.request.access() else {
            self.finished = true;
            return Ok(Some(Piece { first: 0, lba: 0, blocks: 0, offset: 0 }));
        };
        let left = all.wrapping_sub(self.done);
        let first = lba.wrapping_add(u64::from(self.done));
        let run = locate(right, first, u64::from(left))?;
        // At most `left`, which is 32 bits.
        let mut blocks = run.blocks as u32;
        let mut offset = 0;
        if let Request::Transfer { ranges, .. } = &self.request {
            let Some(segment) = ranges.as_slice().get(usize::from(self.segment)) else { return Ok(None) };
            offset = u64::from(segment.offset).wrapping_add(u64::from(self.segment_done));
            let in_segment = segment.len.wrapping_sub(self.segment_done) >> limits.block_shift;
            blocks = blocks.min(in_segment).min(limits.data_blocks);
            self.segment_done = self.segment_done.wrapping_add(blocks << limits.block_shift);
            if self.segment_done == segment.len {
                self.segment = self.segment.wrapping_add(1);
                self.segment_done = 0;
            }
        } else {
            blocks = blocks.min(limits.bare_blocks);
        }
        self.done = self.done.wrapping_add(blocks);
        self.finished = self.done == all;
        Ok(Some(Piece { first, lba: run.lba, blocks, offset }))
    }
}
