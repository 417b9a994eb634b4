//! Checks of an I/O command before its execution.

use std::ops::Range;

use nvme_spec::nvm::{self, Blocks, Opcode};
use nvme_spec::{Sqe, Status, StatusCode};

use crate::admin::Media;
use crate::controller::Controller;
use crate::violation::ViolationKind;

fn refused(code: StatusCode) -> Status {
    Status::new(code).with_do_not_retry()
}

/// Returns the opcode, if this controller supports it.
pub(super) fn opcode(sqe: &Sqe) -> Result<Opcode, Status> {
    Opcode::from_raw(sqe.opcode())
        .filter(|&opcode| opcode != Opcode::WriteUncorrectable)
        .ok_or(refused(StatusCode::InvalidOpcode))
}

/// Checks that reserved fields are zero, and that there are no SGLs, fused pairs, metadata and directives.
pub(super) fn fields(controller: &mut Controller, opcode: Opcode, sqe: &Sqe, sq: u16) -> Result<(), Status> {
    let reserved = Reserved::of(opcode);
    let dwords = [
        // FUSE, its neighbours and PSDT.
        (0, sqe.cdw0.into_bits() & 0xff00),
        (2, sqe.cdw2),
        (3, sqe.cdw3),
        (4, sqe.mptr as u32 | (sqe.mptr >> 32) as u32),
        (10, sqe.cdw10 & reserved.cdw10),
        (11, sqe.cdw11 & reserved.cdw11),
        (12, sqe.cdw12 & reserved.cdw12),
        (13, sqe.cdw13 & reserved.cdw13),
        (14, sqe.cdw14 & reserved.cdw14_15),
        (15, sqe.cdw15 & reserved.cdw14_15),
    ];
    match dwords.into_iter().find(|&(_, bits)| bits != 0) {
        None => Ok(()),
        Some((dword, _)) => {
            let cid = sqe.cdw0.cid();
            controller.violation(ViolationKind::CommandField { sq, cid, opcode: opcode as u8, dword });
            Err(refused(StatusCode::InvalidField))
        }
    }
}

/// Refuses every command while the subsystem is sanitized.
pub(super) fn sanitized(controller: &Controller) -> Result<(), Status> {
    let is_running = controller.subsystem.sanitization.is_running(controller.clock_ns);
    if is_running { Err(Status::new(StatusCode::SanitizeInProgress)) } else { Ok(()) }
}

/// Refuses a command that changes blocks while the media takes no writes.
pub(super) fn read_only(controller: &Controller, opcode: Opcode) -> Result<(), Status> {
    let changes = match opcode {
        Opcode::Write | Opcode::WriteUncorrectable | Opcode::WriteZeroes | Opcode::DatasetManagement | Opcode::Copy => {
            true
        }
        Opcode::Flush | Opcode::Read | Opcode::Compare | Opcode::Verify => false,
    };
    if changes && controller.health().media == Media::ReadOnly {
        return Err(refused(StatusCode::WriteToReadOnlyRange));
    }
    Ok(())
}

/// Bits of a command's words that are reserved, or that request features which this controller does not have.
struct Reserved {
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14_15: u32,
}

impl Reserved {
    const fn of(opcode: Opcode) -> Self {
        const ALL: u32 = u32::MAX;
        let (cdw10, cdw11, cdw12, cdw13, cdw14_15) = match opcode {
            Opcode::Read => (0, 0, 0x03ff_0000, 0xffff_ff00, 0),
            // DTYPE: no directives.
            Opcode::Write => (0, 0, 0x03ff_0000, 0x0000_ff00, 0),
            Opcode::Compare | Opcode::Verify => (0, 0, 0x03ff_0000, ALL, 0),
            Opcode::WriteZeroes => (0, 0, 0x01ff_0000, ALL, 0),
            Opcode::DatasetManagement => (0xffff_ff00, 0xffff_fff8, ALL, ALL, ALL),
            Opcode::Copy => (0, 0, 0x03f0_0000, ALL, 0),
            Opcode::Flush | Opcode::WriteUncorrectable => (ALL, ALL, ALL, ALL, ALL),
        };
        Self { cdw10, cdw11, cdw12, cdw13, cdw14_15 }
    }
}

/// Returns the byte range of the command's blocks, within the limit of one command.
pub(super) fn range(controller: &mut Controller, opcode: Opcode, sqe: &Sqe) -> Result<Range<u64>, Status> {
    let limit = match opcode {
        Opcode::Read | Opcode::Write | Opcode::Compare => controller.transfer_limit(),
        Opcode::WriteZeroes => controller.bytes_of_pages(controller.config.limits.wzsl),
        Opcode::Verify => controller.bytes_of_pages(controller.config.limits.vsl),
        _ => u64::MAX,
    };
    let namespace = controller.namespaces.active(sqe.nsid())?;
    let blocks = Blocks::from_sqe(sqe).ok_or(refused(StatusCode::LbaOutOfRange))?;
    let range = namespace.range(blocks.start().0, u64::from(blocks.count()));
    if u64::from(blocks.count()) << namespace.block_bits() > limit {
        return Err(match opcode {
            Opcode::WriteZeroes | Opcode::Verify => too_large(controller, sqe, StatusCode::InvalidField),
            _ => refused(StatusCode::InvalidField),
        });
    }
    range
}

/// Checks the ranges of a Dataset Management against the controller's limits.
pub(super) fn ranges(controller: &mut Controller, sqe: &Sqe, ranges: &[nvm::Range]) -> Result<(), Status> {
    let limits = controller.config.limits;
    let within = |count: u64, limit: u64| limit == 0 || count <= limit;
    let mut blocks = ranges.iter().map(|range| u64::from(range.blocks));
    let fits = within(ranges.len() as u64, limits.dmrl.into())
        && within(blocks.clone().sum(), limits.dmsl)
        && blocks.all(|blocks| within(blocks, limits.dmrsl.into()));
    if fits { Ok(()) } else { Err(too_large(controller, sqe, StatusCode::CommandSizeLimit)) }
}

/// Refuses a command that is larger than a limit.
fn too_large(controller: &mut Controller, sqe: &Sqe, code: StatusCode) -> Status {
    let (cid, opcode) = (sqe.cdw0.cid(), sqe.opcode());
    controller.violation(ViolationKind::CommandSize { cid, opcode });
    refused(code)
}
