//! Copy: ranges of a namespace to one place in it (NVM command set specification 1.0, Copy command).

use nvme_spec::nvm::{CopyDw12, CopyRange};
use nvme_spec::{Sqe, Status, StatusCode};
use zerocopy::FromBytes;

use super::put;
use crate::command::Command;
use crate::controller::Controller;
use crate::host::Host;
use crate::timing::MediaAccess;
use crate::write_log::Payload;

/// Limits of one command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CopyLimits {
    /// MSRC: ranges, 0's based.
    pub(crate) ranges_z: u8,
    /// MSSRL: blocks of one range.
    pub(crate) range_blocks: u16,
    /// MCL: blocks of all ranges together.
    pub(crate) blocks: u32,
}

/// Limits of this controller.
pub(crate) const COPY_LIMITS: CopyLimits = CopyLimits { ranges_z: 127, range_blocks: 4096, blocks: 16384 };
/// OCFS: formats of ranges that are supported, a bit each.
pub(crate) const COPY_FORMATS: u16 = 1;

const RANGE_BYTES: u64 = size_of::<CopyRange>() as u64;

/// Bytes of the command's list of ranges.
pub(super) fn list_bytes(sqe: &Sqe) -> u64 {
    (u64::from(CopyDw12::from_bits(sqe.cdw12).ranges_z()) + 1) * RANGE_BYTES
}

/// Executes Copy. Returns when the command is done.
pub(super) fn perform(controller: &mut Controller, command: &Command, host: &mut dyn Host) -> Result<u64, Status> {
    let dw12 = CopyDw12::from_bits(command.sqe.cdw12);
    if dw12.format() != 0 {
        return Err(Status::new(StatusCode::InvalidField).with_do_not_retry());
    }
    if dw12.ranges_z() > COPY_LIMITS.ranges_z {
        return Err(size_limit());
    }
    let mut list = controller.data.take(list_bytes(&command.sqe));
    let moved = controller.data_from_host(command, &mut list, host);
    let copied = moved.and_then(|()| copy(controller, &command.sqe, &list));
    controller.data.recycle(list);
    copied
}

fn copy(controller: &mut Controller, sqe: &Sqe, list: &[u8]) -> Result<u64, Status> {
    let Ok(ranges) = <[CopyRange]>::ref_from_bytes(list) else {
        return Err(Status::new(StatusCode::InternalError));
    };
    let sources = sources(controller, sqe, ranges)?;
    let bytes = sources.iter().map(|range| range.end - range.start).sum();
    let mut buffer = controller.data.take_second(bytes);
    let mut rest = buffer.as_mut_slice();
    let mut read_ns = controller.clock_ns;
    for range in sources {
        let Some((target, later)) = rest.split_at_mut_checked((range.end - range.start) as usize) else { break };
        controller.namespaces.active(sqe.nsid())?.store.read(range.start, target);
        read_ns = read_ns.max(controller.timing.media(MediaAccess::Read, range, controller.clock_ns));
        rest = later;
    }
    let target = target(controller, sqe, bytes)?;
    let done = put(controller, sqe, target, Payload::Bytes(&buffer));
    controller.data.give_second(buffer);
    Ok(done?.max(read_ns))
}

/// Returns the byte ranges to copy, in order.
fn sources(controller: &mut Controller, sqe: &Sqe, ranges: &[CopyRange]) -> Result<Vec<std::ops::Range<u64>>, Status> {
    let namespace = controller.namespaces.active(sqe.nsid())?;
    let count = |range: &CopyRange| u32::from(range.nlb_z) + 1;
    if ranges.iter().any(|range| count(range) > u32::from(COPY_LIMITS.range_blocks))
        || ranges.iter().map(count).sum::<u32>() > COPY_LIMITS.blocks
    {
        return Err(size_limit());
    }
    let bytes: Result<Vec<_>, _> =
        ranges.iter().map(|range| namespace.range(range.start, u64::from(count(range)))).collect();
    let sources = bytes?;
    let total: u64 = ranges.iter().map(|range| u64::from(count(range))).sum();
    namespace.range(destination(sqe), total)?;
    Ok(sources)
}

/// Returns the destination of the copy, in bytes.
fn target(controller: &mut Controller, sqe: &Sqe, bytes: u64) -> Result<u64, Status> {
    let namespace = controller.namespaces.active(sqe.nsid())?;
    let blocks = bytes >> namespace.block_bits();
    namespace.range(destination(sqe), blocks).map(|range| range.start)
}

/// SDLBA.
fn destination(sqe: &Sqe) -> u64 {
    u64::from(sqe.cdw10) | u64::from(sqe.cdw11) << 32
}

/// Command Size Limit Exceeded.
fn size_limit() -> Status {
    Status::new(StatusCode::Other { sct: 1, sc: 0x83 }).with_do_not_retry()
}
