//! Data transfer between the host's memory and the controller: the PRP walker's pieces, one DMA access each.
//!
//! Data in whole pages of the host's memory can be moved as pages, without a copy; all others go through a buffer.

use std::ops::Range;

use nvme_spec::{Sqe, Status, StatusCode};
use sim_page::{PAGE_BYTES, SharedPage};

use crate::command::Command;
use crate::controller::Controller;
use crate::host::{Blocked, Host};
use crate::prp::{Owner, Piece};
use crate::record::{Direction, Transfer};
use crate::violation::ViolationKind;

/// Distance in bytes by which the fault of that kind displaces data.
const MISPLACED_BY: u64 = 4096;

impl Controller {
    /// Moves `bytes` into the memory that the command names.
    ///
    /// # Errors
    /// The command's status when its PRPs are wrong or the machine refuses the access.
    pub(crate) fn data_to_host(&mut self, command: &Command, bytes: &[u8], host: &mut dyn Host) -> Result<(), Status> {
        self.walk(command, bytes.len() as u64, host)?;
        self.bytes_to_host(command, bytes, host)
    }

    /// Moves data as [`data_to_host`](Self::data_to_host), after the memory was found.
    ///
    /// # Errors
    /// The command's status when the machine refuses the access.
    pub(crate) fn bytes_to_host(&mut self, command: &Command, bytes: &[u8], host: &mut dyn Host) -> Result<(), Status> {
        self.each_piece(command, Direction::ToHost, |address, range| {
            host.write(address, bytes.get(range).unwrap_or_default())
        })
    }

    /// Moves whole pages in the same way.
    ///
    /// # Errors
    /// The command's status when the machine refuses the access.
    pub(crate) fn pages_to_host(
        &mut self,
        command: &Command,
        pages: &[SharedPage],
        host: &mut dyn Host,
    ) -> Result<(), Status> {
        self.each_piece(command, Direction::ToHost, |address, range| {
            let pages = pages.get(range.start / PAGE_BYTES..range.end / PAGE_BYTES);
            host.write_pages(address, pages.unwrap_or_default())
        })
    }

    /// Fills `bytes` from the memory that the command names.
    ///
    /// # Errors
    /// As for [`data_to_host`](Self::data_to_host); the content of `bytes` is undefined then.
    pub(crate) fn data_from_host(
        &mut self,
        command: &Command,
        bytes: &mut [u8],
        host: &mut dyn Host,
    ) -> Result<(), Status> {
        self.walk(command, bytes.len() as u64, host)?;
        self.bytes_from_host(command, bytes, host)
    }

    /// Moves data as [`data_from_host`](Self::data_from_host), after the memory was found.
    ///
    /// # Errors
    /// The command's status when the machine refuses the access.
    pub(crate) fn bytes_from_host(
        &mut self,
        command: &Command,
        bytes: &mut [u8],
        host: &mut dyn Host,
    ) -> Result<(), Status> {
        self.each_piece(command, Direction::FromHost, |address, range| {
            host.read(address, bytes.get_mut(range).unwrap_or_default())
        })
    }

    /// Moves whole pages in the same way, and adds them to `pages`.
    ///
    /// # Errors
    /// The command's status when the machine refuses the access.
    pub(crate) fn pages_from_host(
        &mut self,
        command: &Command,
        pages: &mut Vec<SharedPage>,
        host: &mut dyn Host,
    ) -> Result<(), Status> {
        self.each_piece(command, Direction::FromHost, |address, range| {
            host.read_pages(address, range.len() / PAGE_BYTES, pages)
        })
    }

    /// Calls `act` for each piece that was found: its address, and the range of its bytes in the data.
    fn each_piece(
        &mut self,
        command: &Command,
        direction: Direction,
        mut act: impl FnMut(u64, Range<usize>) -> Result<(), Blocked>,
    ) -> Result<(), Status> {
        let mut at = 0;
        for index in 0..self.data.walker.pieces().len() {
            let Piece { address, bytes } = self.piece(command, index);
            self.moved(command, address, bytes, direction);
            self.faults.show(command.effects.misplaced);
            let end = at + bytes as usize;
            act(address, at..end).map_err(|_| self.blocked(address))?;
            at = end;
        }
        Ok(())
    }

    /// Limit of a command's transfer in bytes, by MDTS.
    pub(crate) fn transfer_limit(&self) -> u64 {
        self.bytes_of_pages(self.config.mdts)
    }

    /// Bytes of 2^`exponent` pages of the smallest size; 0 is no limit.
    pub(crate) fn bytes_of_pages(&self, exponent: u8) -> u64 {
        let page_bits = 12 + u32::from(self.registers.cap.mpsmin());
        match exponent {
            0 => u64::MAX,
            _ => 1_u64.checked_shl(u32::from(exponent) + page_bits).unwrap_or(u64::MAX),
        }
    }

    /// Whether a transfer of this many bytes exceeds the limit of a command.
    pub(crate) fn exceeds_transfer_limit(&self, bytes: u64) -> bool {
        bytes > self.transfer_limit()
    }

    /// Bytes of a memory page, by CC.MPS.
    pub(crate) fn page_bytes(&self) -> u64 {
        1 << self.registers.page_bits()
    }

    /// Finds the memory that the command names for `bytes` bytes.
    ///
    /// # Errors
    /// The command's status when its PRPs are wrong or its list cannot be read.
    pub(crate) fn walk(&mut self, command: &Command, bytes: u64, host: &mut dyn Host) -> Result<(), Status> {
        let data = data_pointer(&command.sqe)?;
        let owner = Owner { sq: command.sq, cid: command.sqe.cdw0.cid() };
        let page_bits = self.registers.page_bits();
        match self.data.walker.walk(data, bytes, page_bits, owner, host) {
            Ok(None) => Ok(()),
            Ok(Some(entry)) => {
                self.violation(ViolationKind::PrpUnused { sq: owner.sq, cid: owner.cid, entry });
                Ok(())
            }
            Err(refusal) => {
                self.violation(refusal.kind);
                let status = Status::new(refusal.status);
                Err(if refusal.status == StatusCode::PrpOffset { status.with_do_not_retry() } else { status })
            }
        }
    }

    /// Returns a piece that was found; with the fault, a displaced one.
    fn piece(&self, command: &Command, index: usize) -> Piece {
        let piece = self.data.walker.pieces()[index];
        let away = if command.effects.misplaced.is_some() { MISPLACED_BY } else { 0 };
        Piece { address: piece.address.wrapping_add(away), ..piece }
    }

    fn moved(&mut self, command: &Command, address: u64, bytes: u32, direction: Direction) {
        self.journal.transfer(Transfer { sq: command.sq, cid: command.sqe.cdw0.cid(), address, bytes, direction });
    }

    fn blocked(&mut self, address: u64) -> Status {
        self.violation(ViolationKind::DmaBlocked { address });
        Status::new(StatusCode::DataTransferError)
    }
}

/// Returns the data pointer: this controller supports only PRPs.
fn data_pointer(sqe: &Sqe) -> Result<nvme_spec::DataPointer, Status> {
    sqe.data_pointer().ok_or(Status::new(StatusCode::InvalidField).with_do_not_retry())
}
