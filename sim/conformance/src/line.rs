//! The interpreter's output on the console, read on the build machine.

use crate::answer::Entry;
use crate::wire::{self, END, FAILURE, JOURNAL};

/// The records received so far.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pending: Vec<u8>,
    /// The journals received, one for each sequence, in order.
    pub journals: Vec<Vec<Entry>>,
    /// The interpreter's reason to give up, or the description of an invalid record.
    pub failure: Option<String>,
    /// Whether the end was received.
    pub ended: bool,
}

impl Line {
    /// Takes bytes of the line.
    pub fn take(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        while let Some((kind, record)) = self.record() {
            match (kind, wire::entries(&record)) {
                (JOURNAL, Some(entries)) => self.journals.push(entries),
                (END, _) => self.ended = true,
                (FAILURE, _) => self.failure = Some(String::from_utf8_lossy(&record).into_owned()),
                (kind, _) => {
                    self.failure = Some(format!("a record of kind {kind:#x} and {} bytes means nothing", record.len()));
                    self.pending.clear();
                }
            }
        }
    }

    /// The next record, once it is whole.
    fn record(&mut self) -> Option<(u8, Vec<u8>)> {
        let (head, rest) = self.pending.split_first_chunk::<5>()?;
        let [kind, len @ ..] = *head;
        let len = u32::from_le_bytes(len) as usize;
        let record = rest.get(..len)?.to_vec();
        self.pending.drain(..head.len() + len);
        Some((kind, record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Answer;
    use crate::wire::Journal;
    use platform::fake::Ram;

    fn record(kind: u8, bytes: &[u8]) -> Vec<u8> {
        [&[kind][..], &(bytes.len() as u32).to_le_bytes(), bytes].concat()
    }

    #[test]
    fn records_are_read_however_they_are_cut() {
        let entry = Entry { thread: 1, index: 3, answer: Answer::Done };
        let journal = Journal::new(Ram::new(64));
        journal.push(&entry).unwrap();
        let sent = [record(JOURNAL, &journal.bytes().unwrap()), record(JOURNAL, &[]), record(END, &[])].concat();
        for size in 1..sent.len() {
            let mut line = Line::default();
            sent.chunks(size).for_each(|bytes| line.take(bytes));
            assert_eq!((line.journals, line.failure, line.ended), (vec![vec![entry], vec![]], None, true));
        }
    }

    #[test]
    fn what_is_no_journal_is_reported() {
        let mut line = Line::default();
        line.take(&record(FAILURE, b"out of slots"));
        assert_eq!(line.failure.as_deref(), Some("out of slots"));
        let mut line = Line::default();
        line.take(&record(0x20, b"noise"));
        assert!(line.failure.unwrap().contains("kind 0x20") && !line.ended);
    }
}
