//! The error log: log page 01h (section 5.14.1.1 of the base specification 1.4).
//!
//! The newest entries are kept, as many as Identify promises. Their numbering continues over resets and power losses.

use std::collections::VecDeque;

use nvme_spec::log::{ErrorEntry, ErrorLocation};
use nvme_spec::{QueueId, Sqe, Status};
use zerocopy::IntoBytes;

/// Bytes of a dword.
const DWORD: u8 = 4;

/// Further fields of a failed command's log entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Details {
    /// The first block in error, for commands that name blocks.
    pub(crate) lba: u64,
    /// Command specific information of the entry.
    pub(crate) command_specific: u64,
    /// The dword of the command that is wrong, if one is.
    pub(crate) dword: Option<u8>,
}

/// Error Information entries, the newest first.
#[derive(Debug)]
pub(crate) struct ErrorLog {
    /// ELPE + 1.
    limit: usize,
    entries: VecDeque<ErrorEntry>,
    count: u64,
}

impl ErrorLog {
    /// `limit` is ELPE + 1.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, entries: VecDeque::with_capacity(limit), count: 0 }
    }

    /// Adds an entry about a command. Returns the status for its completion: the same with More set.
    pub(crate) fn record(&mut self, sq: u16, sqe: &Sqe, status: Status, details: Details) -> Status {
        let mut entry = ErrorEntry::of_command(self.next_count(), QueueId(sq), sqe.cid(), status.with_more());
        entry.nsid.set(sqe.nsid);
        entry.lba.set(details.lba);
        entry.command_specific.set(details.command_specific);
        if let Some(dword) = details.dword {
            entry.location.set(ErrorLocation::new().with_byte(dword.saturating_mul(DWORD)).into_bits());
        }
        self.push(entry);
        status.with_more()
    }

    /// Adds an entry about an error that belongs to no command.
    pub(crate) fn record_event(&mut self) {
        let nobody = u16::MAX;
        let count = self.next_count();
        self.push(ErrorEntry::of_command(count, QueueId(nobody), nvme_spec::Cid(nobody), Status::SUCCESS));
    }

    /// Number of entries ever made.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the log page: as many entries as promised, the missing ones zeroes.
    pub(crate) fn page(&self) -> Vec<u8> {
        let mut page: Vec<u8> = self.entries.iter().flat_map(|entry| entry.as_bytes()).copied().collect();
        page.resize(self.limit * size_of::<ErrorEntry>(), 0);
        page
    }

    const fn next_count(&mut self) -> u64 {
        self.count = self.count.saturating_add(1);
        self.count
    }

    fn push(&mut self, entry: ErrorEntry) {
        self.entries.truncate(self.limit.saturating_sub(1));
        self.entries.push_front(entry);
    }
}

#[cfg(test)]
mod tests {
    use nvme_spec::{Cid, DataPointer, Nsid, StatusCode};
    use zerocopy::FromBytes;

    use super::*;

    fn entries(log: &ErrorLog) -> Vec<ErrorEntry> {
        log.page().chunks(64).map(|bytes| ErrorEntry::read_from_bytes(bytes).unwrap()).collect()
    }

    #[test]
    fn the_newest_entry_stands_first_and_the_oldest_falls_out() {
        let mut log = ErrorLog::new(2);
        for cid in 1..=3 {
            let sqe = Sqe::new(0x02, Cid(cid), Nsid(5), DataPointer::NONE);
            let details = Details { lba: 7, command_specific: 9, dword: Some(11) };
            let status = log.record(4, &sqe, StatusCode::LbaOutOfRange.into(), details);
            assert!(status.more());
        }
        let [newest, older] = entries(&log).try_into().unwrap();
        assert_eq!((newest.count.get(), newest.cid.get(), newest.sqid.get(), newest.nsid.get()), (3, 3, 4, 5));
        assert_eq!((newest.lba.get(), newest.command_specific.get()), (7, 9));
        assert_eq!(newest.location.get(), 44);
        assert_eq!(newest.status().code(), StatusCode::LbaOutOfRange);
        assert_eq!(older.count.get(), 2);
        assert_eq!(log.count(), 3);
    }

    #[test]
    fn entries_that_are_not_there_have_the_count_zero() {
        let mut log = ErrorLog::new(3);
        log.record_event();
        let counts: Vec<u64> = entries(&log).iter().map(|entry| entry.count.get()).collect();
        assert_eq!(counts, [1, 0, 0]);
        assert_eq!(entries(&log)[0].sqid.get(), u16::MAX);
    }
}
