//! I/O commands (chapter 6 of the base specification 1.4; Copy is that of the NVM command set 1.0).
//!
//! Each has two steps. [`plan`] checks the command's words and returns when its data can move; [`transfer`] moves the
//! data and schedules the completion. Writes are visible to reads from the second step on. There is no metadata and no
//! protection information, and fused commands are refused.

mod checks;
mod copy;

use std::ops::Range;

use nvme_spec::nvm::{self, DsmAttributes, IoDw12, Opcode};
use nvme_spec::{Nsid, Sqe, Status, StatusCode};
use zerocopy::FromBytes;

use crate::admin;
use crate::command::Command;
use crate::controller::Controller;
use crate::host::Host;
use crate::store::CHUNK;
use crate::timing::MediaAccess;
use crate::write_log::{NOTED_BYTES, Payload, Times};

pub(crate) use copy::{COPY_FORMATS, COPY_LIMITS};

/// Bytes of a range of Dataset Management.
const DSM_RANGE_BYTES: u64 = size_of::<nvm::Range>() as u64;

/// Result of a command, and the time at which its work is done.
struct Done {
    status: Status,
    at_ns: u64,
}

/// Checks a command's words, and returns when its data can move if it was decoded at `decoded_ns`.
///
/// # Errors
/// The status of the command's completion.
pub(crate) fn plan(controller: &mut Controller, sqe: &Sqe, sq: u16, decoded_ns: u64) -> Result<u64, Status> {
    let opcode = checks::opcode(sqe)?;
    checks::fields(controller, opcode, sqe, sq)?;
    checks::sanitized(controller)?;
    checks::read_only(controller, opcode)?;
    let names_all = opcode == Opcode::Flush && sqe.nsid() == Nsid::ALL;
    if !names_all {
        admin::check_active(controller, sqe.nsid())?;
    }
    match opcode {
        Opcode::Read | Opcode::Compare | Opcode::Verify => {
            let range = checks::range(controller, opcode, sqe)?;
            Ok(controller.timing.media(MediaAccess::Read, range, decoded_ns))
        }
        Opcode::Write => {
            let range = checks::range(controller, opcode, sqe)?;
            Ok(controller.timing.inbound(decoded_ns, range.end - range.start))
        }
        Opcode::DatasetManagement => {
            Ok(controller.timing.inbound(decoded_ns, (u64::from(sqe.cdw10 & 0xff) + 1) * DSM_RANGE_BYTES))
        }
        Opcode::Copy => Ok(controller.timing.inbound(decoded_ns, copy::list_bytes(sqe))),
        Opcode::WriteZeroes => checks::range(controller, opcode, sqe).map(|_| decoded_ns),
        Opcode::Flush | Opcode::WriteUncorrectable => Ok(decoded_ns),
    }
}

/// Moves a command's data and makes its completion due.
pub(crate) fn transfer(controller: &mut Controller, slot: u16, command: &Command, host: &mut dyn Host) {
    let now_ns = controller.clock_ns;
    let Done { status, at_ns } =
        perform(controller, command, host).unwrap_or_else(|status| Done { status, at_ns: now_ns });
    controller.finish(slot, status, at_ns);
}

fn perform(controller: &mut Controller, command: &Command, host: &mut dyn Host) -> Result<Done, Status> {
    // A Sanitize may have come in between.
    checks::sanitized(controller)?;
    let at_ns = match checks::opcode(&command.sqe)? {
        Opcode::Read => read(controller, command, host)?,
        Opcode::Write => write(controller, command, host)?,
        Opcode::Compare => return compare(controller, command, host),
        Opcode::WriteZeroes => write_zeroes(controller, command)?,
        Opcode::DatasetManagement => dataset_management(controller, command, host)?,
        Opcode::Copy => copy::perform(controller, command, host)?,
        Opcode::Flush => flush(controller, command.sqe.nsid()),
        Opcode::Verify => verify(controller, command)?,
        Opcode::WriteUncorrectable => controller.clock_ns,
    };
    Ok(Done { status: Status::SUCCESS, at_ns })
}

fn read(controller: &mut Controller, command: &Command, host: &mut dyn Host) -> Result<u64, Status> {
    let range = checks::range(controller, Opcode::Read, &command.sqe)?;
    let bytes = range.end - range.start;
    controller.walk(command, bytes, host)?;
    if moves_pages(controller, command, &range) {
        read_pages(controller, command, range, host)?;
    } else {
        read_through_buffer(controller, command, range, host)?;
    }
    controller.counters.bytes_read += bytes;
    Ok(controller.timing.outbound(controller.clock_ns, bytes))
}

/// Whether the data of a command that reads or writes this range are whole pages on both sides. Data that the fault
/// corrupts go through a buffer.
fn moves_pages(controller: &Controller, command: &Command, range: &Range<u64>) -> bool {
    let is_whole = |offset: u64| offset.is_multiple_of(CHUNK as u64);
    is_whole(range.start)
        && is_whole(range.end)
        && controller.data.is_in_whole_pages()
        && command.effects.corrupt.is_none()
}

/// Chunk numbers of a range that begins and ends with one.
const fn chunks(range: &Range<u64>) -> Range<u64> {
    range.start / CHUNK as u64..range.end / CHUNK as u64
}

fn read_pages(
    controller: &mut Controller,
    command: &Command,
    range: Range<u64>,
    host: &mut dyn Host,
) -> Result<(), Status> {
    let mut pages = controller.data.take_pages();
    let store = &mut controller.namespaces.active(command.sqe.nsid())?.store;
    pages.extend(chunks(&range).map(|number| store.share(number)));
    let moved = controller.pages_to_host(command, &pages, host);
    controller.data.give_pages(pages);
    moved
}

fn read_through_buffer(
    controller: &mut Controller,
    command: &Command,
    range: Range<u64>,
    host: &mut dyn Host,
) -> Result<(), Status> {
    let mut buffer = controller.data.take(range.end - range.start);
    controller.namespaces.active(command.sqe.nsid())?.store.read(range.start, &mut buffer);
    corrupt(controller, command, &mut buffer);
    let moved = controller.bytes_to_host(command, &buffer, host);
    controller.data.recycle(buffer);
    moved
}

fn write(controller: &mut Controller, command: &Command, host: &mut dyn Host) -> Result<u64, Status> {
    let range = checks::range(controller, Opcode::Write, &command.sqe)?;
    let bytes = range.end - range.start;
    controller.walk(command, bytes, host)?;
    let done_ns = if moves_pages(controller, command, &range) {
        write_pages(controller, command, range, host)?
    } else {
        write_through_buffer(controller, command, range, host)?
    };
    controller.counters.bytes_written += bytes;
    Ok(done_ns)
}

fn write_pages(
    controller: &mut Controller,
    command: &Command,
    range: Range<u64>,
    host: &mut dyn Host,
) -> Result<u64, Status> {
    let mut pages = controller.data.take_pages();
    let moved = controller.pages_from_host(command, &mut pages, host);
    let done = moved.and_then(|()| put(controller, &command.sqe, range.start, Payload::Pages(&pages)));
    controller.data.give_pages(pages);
    done
}

fn write_through_buffer(
    controller: &mut Controller,
    command: &Command,
    range: Range<u64>,
    host: &mut dyn Host,
) -> Result<u64, Status> {
    let mut buffer = controller.data.take(range.end - range.start);
    let moved = controller.bytes_from_host(command, &mut buffer, host);
    corrupt(controller, command, &mut buffer);
    let done = moved.and_then(|()| put(controller, &command.sqe, range.start, Payload::Bytes(&buffer)));
    controller.data.recycle(buffer);
    done
}

/// Writes into the namespace that the command names. Returns when the command may complete.
fn put(controller: &mut Controller, sqe: &Sqe, offset: u64, payload: Payload<'_>) -> Result<u64, Status> {
    let (times, done_ns) = safe(controller, sqe, offset..offset + payload.bytes())?;
    let namespace = controller.namespaces.active(sqe.nsid())?;
    namespace.log.write(&mut namespace.store, offset, payload, times);
    Ok(done_ns)
}

/// Returns the times of a write of these bytes, and when its command may complete: with the cache on and without FUA,
/// as soon as the cache has room for it.
fn safe(controller: &mut Controller, sqe: &Sqe, range: Range<u64>) -> Result<(Times, u64), Status> {
    let bytes = range.end - range.start;
    let now_ns = controller.clock_ns;
    controller.subsystem.sanitization.was_written();
    let programmed_ns = controller.timing.media(MediaAccess::Program, range, now_ns);
    let forced = IoDw12::from_bits(sqe.cdw12).fua();
    match controller.config.cache.filter(|_| controller.settings.write_cache && !forced) {
        Some(cache) => {
            let namespace = controller.namespaces.active(sqe.nsid())?;
            let room_ns = namespace.log.room_ns(bytes, cache.bytes, now_ns);
            let durable_ns = programmed_ns.saturating_add(cache.linger_ns);
            Ok((Times { written_ns: now_ns, programmed_ns, durable_ns }, room_ns))
        }
        None => Ok((Times { written_ns: now_ns, programmed_ns, durable_ns: programmed_ns }, programmed_ns)),
    }
}

fn compare(controller: &mut Controller, command: &Command, host: &mut dyn Host) -> Result<Done, Status> {
    let range = checks::range(controller, Opcode::Compare, &command.sqe)?;
    let bytes = range.end - range.start;
    let mut theirs = controller.data.take(bytes);
    let moved = controller.data_from_host(command, &mut theirs, host);
    corrupt(controller, command, &mut theirs);
    let mut ours = controller.data.take_second(bytes);
    controller.namespaces.active(command.sqe.nsid())?.store.read(range.start, &mut ours);
    let same = ours == theirs;
    controller.data.recycle(theirs);
    controller.data.give_second(ours);
    moved?;
    controller.counters.bytes_read += bytes;
    let at_ns = controller.timing.inbound(controller.clock_ns, bytes);
    let status = if same { Status::SUCCESS } else { Status::new(StatusCode::CompareFailure) };
    Ok(Done { status, at_ns })
}

/// Reads the blocks for their integrity alone: the timing of the media is in [`plan`].
fn verify(controller: &mut Controller, command: &Command) -> Result<u64, Status> {
    let range = checks::range(controller, Opcode::Verify, &command.sqe)?;
    controller.counters.bytes_read += range.end - range.start;
    Ok(controller.clock_ns)
}

fn write_zeroes(controller: &mut Controller, command: &Command) -> Result<u64, Status> {
    let range = checks::range(controller, Opcode::WriteZeroes, &command.sqe)?;
    zero(controller, &command.sqe, range)
}

/// Zeroes a range of bytes. The media note it in one place, whatever its length.
fn zero(controller: &mut Controller, sqe: &Sqe, range: Range<u64>) -> Result<u64, Status> {
    let noted = range.start..range.start.saturating_add(NOTED_BYTES).min(range.end);
    let (times, done_ns) = safe(controller, sqe, noted)?;
    let atomic_blocks = u64::from(controller.config.atomic_blocks);
    let namespace = controller.namespaces.active(sqe.nsid())?;
    let unit = atomic_blocks << namespace.block_bits();
    namespace.log.zero(&mut namespace.store, range, unit, times);
    Ok(done_ns)
}

fn dataset_management(controller: &mut Controller, command: &Command, host: &mut dyn Host) -> Result<u64, Status> {
    let count = u64::from(command.sqe.cdw10 & 0xff) + 1;
    let mut buffer = controller.data.take(count * DSM_RANGE_BYTES);
    let moved = controller.data_from_host(command, &mut buffer, host);
    let deallocated = moved.and_then(|()| deallocate(controller, &command.sqe, &buffer));
    controller.data.recycle(buffer);
    deallocated
}

/// Deallocates the ranges listed, if the command requests that: all are checked before the first is touched.
fn deallocate(controller: &mut Controller, sqe: &Sqe, list: &[u8]) -> Result<u64, Status> {
    let Ok(ranges) = <[nvm::Range]>::ref_from_bytes(list) else {
        return Err(Status::new(StatusCode::InternalError));
    };
    checks::ranges(controller, sqe, ranges)?;
    for range in ranges {
        controller.namespaces.active(sqe.nsid())?.range(range.start, u64::from(range.blocks))?;
    }
    let mut done_ns = controller.clock_ns;
    if DsmAttributes::from_bits(sqe.cdw11).deallocate() {
        for range in ranges.iter().filter(|range| range.blocks > 0) {
            let bytes = controller.namespaces.active(sqe.nsid())?.range(range.start, u64::from(range.blocks))?;
            done_ns = done_ns.max(zero(controller, sqe, bytes)?);
        }
    }
    Ok(done_ns)
}

fn flush(controller: &mut Controller, nsid: Nsid) -> u64 {
    let now_ns = controller.clock_ns;
    match controller.namespaces.get_mut(nsid.0) {
        Some(namespace) => namespace.log.flush(now_ns),
        None => controller.flush_all(),
    }
}

/// With the fault, flips one bit.
fn corrupt(controller: &mut Controller, command: &Command, bytes: &mut [u8]) {
    if command.effects.corrupt.is_some() {
        let bit = controller.generator.below(bytes.len() as u64 * 8);
        if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
            *byte ^= 1 << (bit % 8);
            controller.faults.show(command.effects.corrupt);
        }
    }
}

/// Counts a finished command. Host reads are Read and Compare; Verify reads data and is no host read
/// (section 5.14.1.2).
pub(crate) fn completed(controller: &mut Controller, command: &Command) {
    if command.sq == 0 {
        return;
    }
    if is_media_error(command.status.code()) {
        controller.counters.media_errors += 1;
    }
    match Opcode::from_raw(command.sqe.opcode()) {
        Some(Opcode::Read | Opcode::Compare) => controller.counters.reads += 1,
        Some(Opcode::Write) => controller.counters.writes += 1,
        _ => {}
    }
}

/// Whether the status is an unrecovered error of media or data integrity (section 5.14.1.2). Compare Failure has the
/// same status code type and does not count.
const fn is_media_error(code: StatusCode) -> bool {
    use StatusCode::{ApplicationTagCheck, GuardCheck, ReferenceTagCheck, UnrecoveredRead, WriteFault};
    matches!(code, WriteFault | UnrecoveredRead | GuardCheck | ApplicationTagCheck | ReferenceTagCheck)
}
