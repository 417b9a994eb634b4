//! Makes a completion queue appear full to the controller: writes the queue's head doorbell to the entry behind the one that the
//! controller posts next. The driver, which sees no completion, has no reason to write a head again.
//!
//! The queue's phase tags in memory show the next entry. The queue is found as the controller finds it: by the command that
//! created it, which is still in the admin queue, and through the IOMMU's tables.
//!
//! Sections are of the NVM Express base specification 1.4 and of Intel's VT-d 3.3.

use super::door::Door;
use super::function::Function;
use anyhow::{Context, Result, bail, ensure};
use std::thread;
use std::time::Duration;

/// Registers (NVMe, 3.1): the admin queues' sizes, their addresses, the first doorbell.
const AQA: u64 = 0x24;
const ASQ: u64 = 0x28;
const ACQ: u64 = 0x30;
const DOORBELLS: u64 = 0x1000;
/// Create I/O Completion Queue (NVMe, 5.3), and bytes of a command and of a completion.
const CREATE_CQ: u8 = 0x05;
const SQE: usize = 64;
const CQE: usize = 16;
const PAGE: u64 = 4096;

/// The IOMMU's register with the root table (VT-d, 10.4.5), at its address on a q35.
const ROOT_TABLE: u64 = 0xfed9_0020;
/// The address in an entry, and its flag of a large page (VT-d, 9.8).
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
const LARGE: u64 = 1 << 7;

/// Tries before the controller counts as too busy, checks in a row without a change of the queue, and the time in between.
const TRIES: usize = 200;
const STILL: usize = 5;
const PAUSE: Duration = Duration::from_millis(5);

/// A completion queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Queue {
    /// Address in the controller's view.
    iova: u64,
    entries: usize,
}

/// Makes the completion queue `pair` of the function appear full to the controller.
pub(super) fn stick(door: &mut Door, function: Function, pair: u16) -> Result<()> {
    let registers = function.registers(door)?;
    let queue = find(door, function, registers, pair)?;
    let doorbell = registers + DOORBELLS + 4 * (2 * u64::from(pair) + 1);
    let (mut known, mut still) = (None, 0);
    for _ in 0..TRIES {
        let tail = tail(&entries(door, function, queue)?);
        if known == Some(tail) {
            still += 1;
            if still == STILL {
                return Ok(());
            }
        } else {
            // A driver that was about to write its own head undoes this; then write again.
            door.write32(doorbell, ((tail + 1) % queue.entries) as u32)?;
            (known, still) = (Some(tail), 0);
        }
        thread::sleep(PAUSE);
    }
    bail!("completion queue {pair} could not be made to take itself for full")
}

/// Finds the queue.
fn find(door: &mut Door, function: Function, registers: u64, pair: u16) -> Result<Queue> {
    let [sq_z, cq_z] = {
        let sizes = door.read32(registers + AQA)?;
        [sizes & 0xfff, sizes >> 16 & 0xfff].map(|size| size as usize)
    };
    if pair == 0 {
        return Ok(Queue { iova: door.read64(registers + ACQ)? & !(PAGE - 1), entries: cq_z + 1 });
    }
    let base = door.read64(registers + ASQ)? & !(PAGE - 1);
    let commands = read(door, function, base, (sq_z + 1) * SQE)?;
    // If several commands created it, the server numbered the last one highest.
    let created = commands.chunks(SQE).filter_map(|command| created(command, pair)).max_by_key(|(cid, _)| *cid);
    created.map(|(_, queue)| queue).with_context(|| format!("completion queue {pair} was not created lately"))
}

/// The command's identifier and the queue that it creates, if it creates `pair`.
fn created(command: &[u8], pair: u16) -> Option<(u16, Queue)> {
    let word = |at: usize| Some(u16::from_le_bytes(*command.get(at..)?.first_chunk()?));
    if *command.first()? != CREATE_CQ || word(40)? != pair {
        return None;
    }
    let iova = u64::from_le_bytes(*command.get(24..)?.first_chunk()?);
    Some((word(2)?, Queue { iova, entries: usize::from(word(42)?) + 1 }))
}

/// The queue's entries in memory.
fn entries(door: &mut Door, function: Function, queue: Queue) -> Result<Vec<u8>> {
    read(door, function, queue.iova, queue.entries * CQE)
}

/// The entry the controller posts next: the first whose phase tag differs from those before (NVMe, 4.6).
fn tail(entries: &[u8]) -> usize {
    let phase = |entry: &[u8]| entry.get(14).copied().unwrap_or(0) & 1;
    let first = entries.chunks(CQE).map(phase).next();
    entries.chunks(CQE).position(|entry| Some(phase(entry)) != first).unwrap_or(0)
}

/// Reads memory at addresses of the function.
fn read(door: &mut Door, function: Function, iova: u64, bytes: usize) -> Result<Vec<u8>> {
    let mut read = Vec::with_capacity(bytes);
    while read.len() < bytes {
        let at = iova + read.len() as u64;
        let whole = (PAGE - at % PAGE) as usize;
        let physical = translated(door, function, at)?;
        read.extend(door.read(physical, whole.min(bytes - read.len()))?);
    }
    Ok(read)
}

/// Translates an address by the IOMMU's tables (VT-d, 3.4 and 3.7).
fn translated(door: &mut Door, function: Function, iova: u64) -> Result<u64> {
    let root = door.read64(ROOT_TABLE)? & ADDRESS;
    let contexts = door.read64(root + 16 * u64::from(function.bus))? & ADDRESS;
    let context = contexts + 16 * u64::from(function.devfn);
    let mut table = door.read64(context)? & ADDRESS;
    let levels = 2 + (door.read64(context + 8)? & 7);
    ensure!(levels <= 5, "the IOMMU's tables have {levels} levels");
    for level in (0..levels).rev() {
        let shift = 12 + 9 * level;
        let entry = door.read64(table + 8 * (iova >> shift & 0x1ff))?;
        ensure!(entry & 3 != 0, "the IOMMU does not let the controller reach {iova:#x}");
        table = entry & ADDRESS;
        if level == 0 || entry & LARGE != 0 {
            let within = (1 << shift) - 1;
            return Ok((table & !within) | (iova & within));
        }
    }
    bail!("the IOMMU's tables have no levels")
}

#[cfg(test)]
mod tests {
    use super::super::door::memory::{Memory, door, get, put};
    use super::*;
    use capdl::scenario::Attach;

    #[test]
    fn the_next_entry_is_where_the_phase_changes() {
        let queue =
            |phases: &[u8]| phases.iter().flat_map(|phase| [[0; 14].as_slice(), &[*phase, 0]].concat()).collect();
        let tails: Vec<_> =
            [[0, 0, 0], [1, 0, 0], [1, 1, 1], [0, 0, 1]].map(|all| tail(&queue(&all) as &Vec<u8>)).into();
        assert_eq!(tails, [0, 1, 0, 2]);
    }

    #[test]
    fn last_queue_is_found_through_the_iommu_and_reported_full() {
        let memory = Memory::default();
        let number = |address: u64, value: u64| put(&memory, address, &value.to_le_bytes());
        // The function, and its registers: admin queues of 4 entries.
        put(&memory, 0xb002_0004, &[6]);
        number(0xb002_0010, 0xfe60_0004);
        number(0xfe60_0024, 0x0003_0003);
        number(0xfe60_0028, 0x1000_0000);
        // Three levels of tables: a page with the admin queue, and a large page with the other queue.
        number(ROOT_TABLE, 0x1000);
        number(0x1000, 0x2001);
        number(0x2000 + 16 * 0x20, 0x3001);
        number(0x2000 + 16 * 0x20 + 8, 1);
        number(0x3000, 0x4003);
        number(0x4000 + 8 * 0x80, 0x5003);
        number(0x5000, 0x7003);
        number(0x4000 + 8 * 0x81, 0x20_0083);
        // Two commands created queue 2, the later one first in the ring; one created another queue.
        for (slot, cid, queue, iova) in [(0, 9, 2, 0x1020_3000u64), (1, 8, 2, 0x1020_5000), (2, 10, 1, 0x1020_6000)] {
            put(&memory, 0x7000 + 64 * slot, &[5, 0, cid, 0]);
            number(0x7000 + 64 * slot + 24, iova);
            put(&memory, 0x7000 + 64 * slot + 40, &[queue, 0, 7, 0]);
        }
        // Five of eight entries are posted.
        (0..5).for_each(|entry| put(&memory, 0x20_3000 + 16 * entry + 14, &[1]));
        let mut door = door(&memory);
        let function = Function::find(&mut door, 0, Attach::Root).unwrap();
        stick(&mut door, function, 2).unwrap();
        assert_eq!(get(&memory, 0xfe60_1014, 4), 6);
        assert!(stick(&mut door, function, 3).is_err(), "nobody created it");
    }
}
