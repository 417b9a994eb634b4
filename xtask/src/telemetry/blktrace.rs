//! Traces as records of Linux's blktrace (`include/uapi/linux/blktrace_api.h`), for `blkparse`, `btt` and fio.
//!
//! Each tenant is a device of its own, because it numbers its blocks from 0. A command is queued when the server took its request,
//! gets a request when it was taken off the ring, is inserted when it is in the submission queue, is issued when the doorbell was rung,
//! and completes. Left out: commands that move no data.

use super::requests::{Command, Request, Requests};
use super::sample::Places;
use blk_api::operation::Kind;
use std::io::{self, Write};

/// The magic number, and the version of the form below it.
const MAGIC: u32 = 0x6561_7407;
/// Bytes of a record.
const RECORD_BYTES: usize = 48;
/// Bytes of a sector.
const SECTOR_BYTES: u64 = 512;
/// The major number of the devices, that of Linux's extended block devices, and where it begins in a device number.
const MAJOR: u32 = 259;
const MAJOR_SHIFT: u32 = 20;

/// Actions.
const QUEUE: u32 = 1 | CATEGORY_QUEUE;
const GET_REQUEST: u32 = 4 | CATEGORY_QUEUE;
const INSERT: u32 = 12 | CATEGORY_QUEUE;
const ISSUE: u32 = 7 | 1 << 22;
const COMPLETE: u32 = 8 | 1 << 23;
/// A process and its name.
const PROCESS: u32 = 1 << 26;
/// Categories.
const CATEGORY_READ: u32 = 1 << 16;
const CATEGORY_WRITE: u32 = 1 << 17;
const CATEGORY_QUEUE: u32 = 1 << 20;
/// Bytes of a process's name.
const NAME_BYTES: usize = 16;

/// A record before it has its number.
struct Record {
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
    device: u32,
    error: u16,
    name: Option<[u8; NAME_BYTES]>,
}

impl Record {
    fn bytes(&self, sequence: u32) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(RECORD_BYTES + NAME_BYTES);
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend(sequence.to_le_bytes());
        bytes.extend(self.time.to_le_bytes());
        bytes.extend(self.sector.to_le_bytes());
        for word in [self.bytes, self.action, self.pid, self.device, 0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(self.error.to_le_bytes());
        bytes.extend(self.name.map_or(0, |name| name.len() as u16).to_le_bytes());
        bytes.extend(self.name.iter().flatten());
        bytes
    }
}

/// Writes the records of all commands, in the order of their times.
///
/// # Errors
/// Those of `to`, as a full disk.
pub fn write(requests: &Requests, places: &Places, mut to: impl Write) -> io::Result<()> {
    let mut names: Vec<&str> = requests.complete.iter().map(|request| request.tenant.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let device = |tenant: &str| names.iter().position(|name| *name == tenant).unwrap_or(0) as u32;
    let mut records = Vec::new();
    for request in &requests.complete {
        let category = match request.opcode.filter(|opcode| opcode.moves_data()).map(|opcode| opcode.kind()) {
            Some(Kind::Read) => CATEGORY_READ,
            Some(Kind::Write) => CATEGORY_WRITE,
            Some(Kind::Other) | None => continue,
        };
        let number = device(&request.tenant);
        let sectors = u64::from(places.block_bytes(&request.tenant)) / SECTOR_BYTES;
        for command in &request.commands {
            records.extend(of_command(request, command, category).map(|(time, action)| Record {
                time,
                sector: command.first.saturating_mul(sectors),
                bytes: command.bytes,
                action,
                pid: number + 1,
                device: MAJOR << MAJOR_SHIFT | number,
                error: if action & 0xffff == COMPLETE & 0xffff { command.status } else { 0 },
                name: None,
            }));
        }
    }
    records.sort_by_key(|record| record.time);
    let begins = records.first().map_or(0, |record| record.time);
    let processes = names.iter().map(|name| {
        let mut bytes = [0; NAME_BYTES];
        // The last byte stays 0.
        bytes.iter_mut().zip(name.bytes()).take(NAME_BYTES - 1).for_each(|(to, from)| *to = from);
        let number = device(name);
        let device = MAJOR << MAJOR_SHIFT | number;
        Record {
            time: begins,
            sector: 0,
            bytes: 0,
            action: PROCESS,
            pid: number + 1,
            device,
            error: 0,
            name: Some(bytes),
        }
    });
    for (record, sequence) in processes.chain(records).zip(1..) {
        to.write_all(&Record { time: record.time - begins, ..record }.bytes(sequence))?;
    }
    to.flush()
}

/// The times and actions of a command.
fn of_command(request: &Request, command: &Command, category: u32) -> [(u64, u32); 5] {
    let rung = command.rung.max(command.submitted);
    [
        (request.seen, QUEUE | category),
        (request.taken, GET_REQUEST | category),
        (command.submitted, INSERT | category),
        (rung, ISSUE | category),
        (command.completed.max(rung), COMPLETE | category),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::requests::tests::two_reads;
    use super::*;

    #[test]
    fn records_have_the_form_of_linux() {
        let mut file = Vec::new();
        let requests = Requests { complete: two_reads(), incomplete: 0 };
        write(&requests, &Places::default(), &mut file).unwrap();
        let word = |record: &[u8], at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap());
        let (process, records) = file.split_at(RECORD_BYTES + NAME_BYTES);
        assert_eq!((word(process, 0), word(process, 4), word(process, 28)), (MAGIC, 1, 0x0400_0000));
        assert_eq!(&process[RECORD_BYTES..RECORD_BYTES + 6], b"alice\0");
        let records: Vec<&[u8]> = records.chunks_exact(RECORD_BYTES).collect();
        assert_eq!(records.len(), 10, "five of each command");
        let first = records[0];
        assert_eq!((word(first, 4), word(first, 8), word(first, 16), word(first, 24)), (2, 0, 8, 4096));
        assert_eq!((word(first, 28), word(first, 32), word(first, 36)), (0x0011_0001, 1, 0x1030_0000));
        let last = records[9];
        assert_eq!((word(last, 8), word(last, 28)), (300 - 110, 0x0081_0008));
    }
}
