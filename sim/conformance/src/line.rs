//! What the interpreter says on the console, read on the build machine.

use crate::answer::Entry;
use crate::wire::{self, END, FAILURE, JOURNAL};

/// What came over the line so far.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pending: Vec<u8>,
    /// The journals that came, one a sequence, in their order.
    pub journals: Vec<Vec<Entry>>,
    /// Why the interpreter gave up, or what is no journal.
    pub failure: Option<String>,
    /// All has come.
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
