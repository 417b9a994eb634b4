//! The commands that do requests, and the outcome of a request from the controller's status.

use crate::command_table::Reserved;
use crate::fault::DeviceFault;
use crate::prp::{self, PrpLists};
use crate::split::Piece;
use blk_api::Status;
use blk_api::request::Opcode;
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::{Lba, Nsid, Sqe, StatusCode};
use platform::{Iova, Memory};

/// Operations without data that the controller supports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// Write Zeroes.
    pub write_zeroes: bool,
    /// Dataset Management with deallocation.
    pub discard: bool,
}

impl Abilities {
    /// The status of a request that needs no command. A discard is a hint and may be ignored; zeroes need the command.
    #[must_use]
    #[inline]
    pub const fn answer_now(self, opcode: Opcode) -> Option<Status> {
        match opcode {
            Opcode::Discard if !self.discard => Some(Status::Success),
            Opcode::WriteZeroes if !self.write_zeroes => Some(Status::DeviceError),
            _ => None,
        }
    }
}

/// The command for a piece of a request: on the namespace `nsid`, with its data in the window at `window` for the
/// controller. `bytes` are those of the piece's blocks.
///
/// # Errors
/// [`DeviceFault::OwnMemory`] for a piece that no command can do: the splitter makes none.
#[inline(always)]
pub fn build<M: Memory>(
    lists: &PrpLists<M>,
    nsid: Nsid,
    window: Iova,
    opcode: Opcode,
    piece: Piece,
    bytes: u32,
    reserved: Reserved,
) -> Result<Sqe, DeviceFault> {
    let Reserved { index, cid } = reserved;
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

/// The status with which the request of a failed command is answered.
#[must_use]
pub fn failure(status: nvme_spec::Status) -> Status {
    let given_up = [StatusCode::AbortRequested, StatusCode::SqDeleted].map(nvme_spec::Status::new);
    if given_up.iter().any(|one| (one.sct(), one.sc()) == (status.sct(), status.sc())) {
        Status::TimedOut
    } else if status.sct() == MEDIA_ERROR {
        Status::MediaError
    } else {
        Status::DeviceError
    }
}

/// Status code type of media and data integrity errors (section 4.6.1.2.3).
const MEDIA_ERROR: u8 = 2;
