//! The commands that do requests, and the outcome of a request from the controller's status.

use crate::command_table::Reserved;
use crate::cursor::{CommandLimits, Piece};
use crate::fault::DeviceFault;
use crate::prp::{self, PrpLists};
use blk_api::Status;
use blk_api::operation::Ability;
use blk_api::request::Opcode;
use nvme_spec::identify::{self, NvmLimits};
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::{DataPointer, Lba, Nsid, Sqe, StatusCode};
use platform::{Iova, Memory};

/// The optional commands that the controller has, with the most that one of each may name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abilities {
    compare: bool,
    /// Blocks that a Dataset Management with deallocation may name.
    deallocate: Option<u64>,
    /// Bytes that a Write Zeroes may name.
    write_zeroes: Option<u64>,
    /// Bytes that a Verify may name.
    verify: Option<u64>,
}

impl Abilities {
    /// The abilities of a controller, whose smallest page is `min_page_bytes`, with its `limits`.
    #[must_use]
    pub fn of(about: &identify::Controller, limits: &NvmLimits, min_page_bytes: u32) -> Self {
        let optional = about.optional_nvm();
        let most = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
        Self {
            compare: optional.compare(),
            deallocate: optional.dataset_management().then(|| most(limits.range_blocks())),
            write_zeroes: optional.write_zeroes().then(|| most(limits.zeroes_bytes(about, min_page_bytes))),
            verify: optional.verify().then(|| most(limits.verify_bytes(min_page_bytes))),
        }
    }

    /// The limits of one command for `opcode`, at most `limits`. A Verify keeps the device as busy as a read, so it has no more
    /// blocks than one.
    #[must_use]
    pub fn limits(self, opcode: Opcode, limits: CommandLimits) -> CommandLimits {
        let bytes = |bytes: Option<u64>| bytes.and_then(|bytes| bytes.checked_shr(limits.block_shift.into()));
        let most = match opcode.ability() {
            Some(Ability::Deallocate) => self.deallocate,
            Some(Ability::WriteZeroes) => bytes(self.write_zeroes),
            Some(Ability::Verify) => bytes(self.verify).map(|blocks| blocks.min(limits.data_blocks.into())),
            Some(Ability::Compare) | None => None,
        };
        // One block always goes.
        let most = u32::try_from(most.unwrap_or(u64::MAX)).unwrap_or(u32::MAX).max(1);
        CommandLimits { bare_blocks: limits.bare_blocks.min(most), ..limits }
    }

    /// The status of a request that needs no command. A discard is a hint and may be ignored; other operations need the command.
    #[must_use]
    #[inline]
    pub const fn answer_now(self, opcode: Opcode) -> Option<Status> {
        match opcode.ability() {
            Some(Ability::Deallocate) if self.deallocate.is_none() => Some(Status::Success),
            Some(Ability::WriteZeroes) if self.write_zeroes.is_none() => Some(Status::Unsupported),
            Some(Ability::Verify) if self.verify.is_none() => Some(Status::Unsupported),
            Some(Ability::Compare) if !self.compare => Some(Status::Unsupported),
            Some(Ability::Deallocate | Ability::WriteZeroes | Ability::Verify | Ability::Compare) | None => None,
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
    let mut data = DataPointer::NONE;
    if opcode.moves_data() {
        let start = window.checked_add(piece.offset).ok_or(DeviceFault::OwnMemory)?;
        data = match prp::without_list(start, bytes) {
            Some(data) => data,
            None => lists.build(index, start, bytes)?,
        };
    }
    Ok(match opcode {
        Opcode::Read => nvm::read(cid, nsid, blocks, data),
        Opcode::Write => nvm::write(cid, nsid, blocks, data),
        Opcode::Compare => nvm::compare(cid, nsid, blocks, data),
        Opcode::Verify => nvm::verify(cid, nsid, blocks),
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
    let is = |code| status.code() == code;
    if is(StatusCode::AbortRequested) || is(StatusCode::SqDeleted) {
        Status::TimedOut
    } else if opcode == Opcode::Discard {
        Status::Success
    } else if opcode == Opcode::Compare && is(StatusCode::CompareFailure) {
        Status::CompareFailed
    } else if is(StatusCode::WriteToReadOnlyRange) || is(StatusCode::NamespaceWriteProtected) {
        Status::ReadOnly
    } else if status.sct() == MEDIA_ERROR {
        Status::MediaError
    } else {
        Status::DeviceError
    }
}

/// Status code type of media and data integrity errors (section 4.6.1.2.3).
const MEDIA_ERROR: u8 = 2;
