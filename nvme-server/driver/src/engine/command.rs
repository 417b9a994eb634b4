//! The commands that do requests, and the outcome of a request from the controller's status.

use crate::command_table::Reserved;
use crate::cursor::{CommandLimits, Piece};
use crate::fault::DeviceFault;
use crate::prp::{self, PrpLists};
use blk_api::Status;
use blk_api::request::Opcode;
use nvme_spec::identify::{self, NvmLimits};
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::{Lba, Nsid, Sqe, StatusCode};
use platform::{Iova, Memory};

/// Operations without data that the controller supports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// Bytes that a Write Zeroes may name, if it is supported.
    write_zeroes: Option<u64>,
    /// Blocks that a Dataset Management with deallocation may name, if it is supported.
    discard: Option<u64>,
}

impl Abilities {
    /// Those of a controller, whose smallest page is `min_page_bytes`, with its `limits`.
    #[must_use]
    pub fn of(about: &identify::Controller, limits: &NvmLimits, min_page_bytes: u32) -> Self {
        let optional = about.optional_nvm();
        let most = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
        Self {
            write_zeroes: optional.write_zeroes().then(|| most(limits.zeroes_bytes(about, min_page_bytes))),
            discard: optional.dataset_management().then(|| most(limits.range_blocks())),
        }
    }

    /// Blocks of `1 << block_shift` bytes that one command of an operation without data may name.
    #[must_use]
    pub fn most_blocks(self, opcode: Opcode, block_shift: u8) -> u32 {
        let blocks = match opcode {
            Opcode::WriteZeroes => self.write_zeroes.and_then(|bytes| bytes.checked_shr(block_shift.into())),
            Opcode::Discard => self.discard,
            Opcode::Read | Opcode::Write | Opcode::Flush => None,
        };
        // One block always goes.
        u32::try_from(blocks.unwrap_or(u64::MAX)).unwrap_or(u32::MAX).clamp(1, Blocks::MAX)
    }

    /// The limits of a command of this operation, where `limits` are those of any.
    #[must_use]
    pub fn limits(self, opcode: Opcode, limits: CommandLimits) -> CommandLimits {
        let most = if opcode.moves_data() { Blocks::MAX } else { self.most_blocks(opcode, limits.block_shift) };
        CommandLimits { bare_blocks: limits.bare_blocks.min(most), ..limits }
    }

    /// The status of a request that needs no command. A discard is a hint and may be ignored; zeroes need the command.
    #[must_use]
    #[inline]
    pub const fn answer_now(self, opcode: Opcode) -> Option<Status> {
        match opcode {
            Opcode::Discard if self.discard.is_none() => Some(Status::Success),
            Opcode::WriteZeroes if self.write_zeroes.is_none() => Some(Status::DeviceError),
            _ => None,
        }
    }
}

/// The part of a command that is the same for all commands of a client.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The namespace.
    pub nsid: Nsid,
    /// The address of the client's window for the controller.
    pub window: Iova,
}

/// The command for a piece of a request at a target. `bytes` are those of the piece's blocks.
///
/// # Errors
/// [`DeviceFault::OwnMemory`] for a piece that no command can do: the splitter makes none.
#[inline(always)]
pub fn build<M: Memory>(
    lists: &PrpLists<M>,
    target: &Target,
    opcode: Opcode,
    piece: Piece,
    bytes: u32,
    reserved: &Reserved,
) -> Result<Sqe, DeviceFault> {
    let (Reserved { index, cid }, Target { nsid, window }) = (reserved, *target);
    let (index, cid) = (*index, *cid);
    if opcode == Opcode::Flush {
        return Ok(nvm::flush(cid, nsid));
    }
    let blocks = Blocks::new(Lba(piece.lba), piece.blocks).ok_or(DeviceFault::OwnMemory)?;
    Ok(match opcode {
        Opcode::Read | Opcode::Write => {
            let start = window.checked_add(piece.offset).ok_or(DeviceFault::OwnMemory)?;
            let data = match prp::without_list(start, bytes) {
                Some(data) => data,
                None => lists.build(index, start, bytes)?,
            };
            if opcode == Opcode::Read {
                nvm::read(cid, nsid, blocks, data)
            } else {
                nvm::write(cid, nsid, blocks, data)
            }
        }
        Opcode::WriteZeroes => nvm::write_zeroes(cid, nsid, blocks),
        Opcode::Discard => {
            let range = nvm::Range::new(Lba(piece.lba), piece.blocks).ok_or(DeviceFault::OwnMemory)?;
            nvm::deallocate(cid, nsid, 0, lists.build_range(index, &range)?)
        }
        Opcode::Flush => nvm::flush(cid, nsid),
    })
}

/// The status with which the request of a failed command is answered. A discard is a hint: one that the controller refuses is done.
#[must_use]
pub fn failure(opcode: Opcode, status: nvme_spec::Status) -> Status {
    let given_up = [StatusCode::AbortRequested, StatusCode::SqDeleted].map(nvme_spec::Status::new);
    if given_up.iter().any(|one| (one.sct(), one.sc()) == (status.sct(), status.sc())) {
        Status::TimedOut
    } else if opcode == Opcode::Discard {
        Status::Success
    } else if status.sct() == MEDIA_ERROR {
        Status::MediaError
    } else {
        Status::DeviceError
    }
}

/// Status code type of media and data integrity errors (section 4.6.1.2.3).
const MEDIA_ERROR: u8 = 2;
