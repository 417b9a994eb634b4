//! Virtual functions: their numbers as controllers, the tenants that drive them, and the contents that these tenants read and write.
//!
//! No ring shows the requests of such a tenant. The commands that its controller fetches and finishes take their place. Left out:
//! attackers, and the time between a request and its command, so nothing reports a client that submits too late or not at all.

use super::rights::Rights;
use super::session::{Session, Trust};
use crate::iommu::DeviceMemory;
use capdl::Scenario;
use nvme_spec::Sqe;
use nvme_spec::nvm::{self, Blocks, DsmAttributes, IoDw12, Opcode};
use platform::PAGE_SIZE;
use sim_check::{BlockRange, Data, Findings, Hash, Operation, Outcome, Persistence, RequestId, hash_block};
use sim_nvme::{Event, Record};
use std::collections::BTreeMap;
use zerocopy::FromBytes;

/// Bytes of an entry of a PRP list.
const ENTRY: u64 = 8;
const PAGE: u64 = PAGE_SIZE as u64;

/// The commands of the virtual functions in flight.
pub(crate) struct Functions {
    /// The number of the first function.
    first: u32,
    /// By the function's number, SQ and CID.
    flights: BTreeMap<(u32, u16, u16), Flight>,
    next_number: u64,
}

/// A command in flight.
struct Flight {
    request: RequestId,
    /// Pieces of the memory that a read fills or a compare names, as the device addresses them, and the bytes of a block.
    reads: Option<(Vec<Piece>, usize)>,
}

/// First address and bytes.
type Piece = (u64, usize);

/// The parts of the observer that judge contents.
pub(super) struct Judges<'a> {
    pub(super) sessions: &'a [Session],
    pub(super) rights: &'a Rights,
    pub(super) data: &'a mut Data,
    pub(super) findings: &'a mut Findings,
}

impl Functions {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Self { first: scenario.controllers.len() as u32, flights: BTreeMap::new(), next_number: 0 }
    }

    /// Records an event of controller `number`, if it is that of a virtual function.
    pub(super) fn happened(
        &mut self,
        number: u32,
        event: &Event,
        memory: DeviceMemory<'_>,
        now_ns: u64,
        judges: Judges<'_>,
    ) {
        if number < self.first {
            return;
        }
        let Judges { sessions, rights, data, findings } = judges;
        let session = (0..).zip(sessions).find(|(_, session)| session.function == Some(number));
        if let (Some((index, _)), Event::Over(record)) = (session, event)
            && record.sq > 0
        {
            rights.commanded(index, record, now_ns, findings);
        }
        match *event {
            Event::Fetched { sq, sqe } if sq > 0 => {
                let Some((index, session)) = session.filter(|(_, session)| session.trust == Trust::Follows) else {
                    return;
                };
                let request = RequestId { session: index, number: self.next_number };
                if let Some(reads) = submitted(&sqe, request, session, memory, now_ns, data) {
                    self.next_number += 1;
                    self.flights.insert((number, sq, sqe.cid().0), Flight { request, reads });
                }
            }
            Event::Over(Record { sq, cid, status, .. }) => {
                let Some(flight) = self.flights.remove(&(number, sq, cid)) else { return };
                let read = flight.reads.as_ref().map(|(pieces, block_bytes)| hash(pieces, *block_bytes, memory));
                let outcome = match (&read, status.is_success()) {
                    (Some(Some(hashes)), true) => Outcome::Read(hashes),
                    (None, true) => Outcome::Done,
                    // The memory of a read was taken from the device, or the command has failed.
                    (Some(None), true) | (_, false) => Outcome::Failed,
                };
                data.answered(flight.request, now_ns, outcome, findings);
            }
            Event::Stopped => {
                let own = (number, 0, 0)..=(number, u16::MAX, u16::MAX);
                let ended: Vec<_> = self.flights.range(own).map(|(place, _)| *place).collect();
                for flight in ended.iter().filter_map(|place| self.flights.remove(place)) {
                    data.answered(flight.request, now_ns, Outcome::Failed, findings);
                }
            }
            Event::Fetched { .. } | Event::Held { .. } | Event::Reset | Event::PowerLost => {}
        }
    }
}

/// Reports a command to the checker of contents; `None` if it has no effect on them, or cannot succeed. Returns the memory that a
/// read fills, or a compare names.
fn submitted(
    sqe: &Sqe,
    request: RequestId,
    session: &Session,
    memory: DeviceMemory<'_>,
    now_ns: u64,
    data: &mut Data,
) -> Option<Option<(Vec<Piece>, usize)>> {
    let block_bytes = session.block_bytes();
    let opcode = Opcode::from_raw(sqe.opcode()).filter(|_| sqe.nsid().0 == session.nsid)?;
    let range =
        Blocks::from_sqe(sqe).map(|blocks| BlockRange { first: blocks.start().0, count: blocks.count().into() });
    let forced = IoDw12::from_bits(sqe.cdw12).fua();
    let persistence = if forced { Persistence::Forced } else { Persistence::Cached };
    let (controller, nsid) = (session.controller, session.nsid);
    let mut submit = |operation: Operation<'_>| data.submitted(request, now_ns, controller, nsid, operation);
    match opcode {
        // A compare that succeeds shows the content of its blocks as a read does.
        Opcode::Read | Opcode::Compare => {
            let range = range?;
            let pieces = pieces(sqe, usize::try_from(range.count).ok()?.checked_mul(block_bytes)?, memory)?;
            submit(Operation::Read(range));
            return Some(Some((pieces, block_bytes)));
        }
        Opcode::Write => {
            let range = range?;
            let pieces = pieces(sqe, usize::try_from(range.count).ok()?.checked_mul(block_bytes)?, memory)?;
            let hashes = hash(&pieces, block_bytes, memory)?;
            submit(Operation::Write { range, hashes: &hashes, persistence });
        }
        Opcode::WriteZeroes => submit(Operation::Zeroes { range: range?, persistence }),
        Opcode::DatasetManagement if DsmAttributes::from_bits(sqe.cdw11).deallocate() => {
            submit(Operation::Discard(&ranges(sqe, memory)?));
        }
        Opcode::Flush => submit(Operation::Flush),
        Opcode::DatasetManagement | Opcode::Verify | Opcode::Copy | Opcode::WriteUncorrectable => return None,
    }
    Some(None)
}

/// Returns the ranges of a Dataset Management command.
fn ranges(sqe: &Sqe, memory: DeviceMemory<'_>) -> Option<Vec<BlockRange>> {
    let count = (sqe.cdw10 & 0xff) as usize + 1;
    let list = gather(&pieces(sqe, count * size_of::<nvm::Range>(), memory)?, memory)?;
    let ranges = list.chunks(size_of::<nvm::Range>()).filter_map(|entry| nvm::Range::read_from_bytes(entry).ok());
    let named = ranges.filter(|range| range.blocks > 0);
    Some(named.map(|range| BlockRange { first: range.start, count: range.blocks.into() }).collect())
}

/// Finds the memory of a command's `bytes` bytes of data by its PRPs, with pages of 4 KiB (NVMe base specification 1.4, section 4.3).
fn pieces(sqe: &Sqe, bytes: usize, memory: DeviceMemory<'_>) -> Option<Vec<Piece>> {
    let first = bytes.min((PAGE - sqe.prp1 % PAGE) as usize);
    let mut pieces = vec![(sqe.prp1, first)];
    let mut left = bytes - first;
    if left > 0 && left <= PAGE_SIZE {
        pieces.push((sqe.prp2, left));
        return Some(pieces);
    }
    let mut at = sqe.prp2;
    while left > 0 {
        let mut entry = [0; ENTRY as usize];
        memory.read(at, &mut entry)?;
        let entry = u64::from_le_bytes(entry);
        if at % PAGE == PAGE - ENTRY && left > PAGE_SIZE {
            at = entry;
            continue;
        }
        let piece = left.min(PAGE_SIZE);
        pieces.push((entry, piece));
        left -= piece;
        at = at.checked_add(ENTRY)?;
    }
    Some(pieces)
}

fn gather(pieces: &[Piece], memory: DeviceMemory<'_>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for (address, len) in pieces {
        let begin = bytes.len();
        bytes.resize(begin + len, 0);
        memory.read(*address, bytes.get_mut(begin..)?)?;
    }
    Some(bytes)
}

/// Returns the hashes of the blocks in this memory.
fn hash(pieces: &[Piece], block_bytes: usize, memory: DeviceMemory<'_>) -> Option<Vec<Hash>> {
    Some(gather(pieces, memory)?.chunks(block_bytes.max(1)).map(hash_block).collect())
}

#[cfg(test)]
#[path = "functions_tests.rs"]
mod tests;
