//! Tests of the data checker from outside: written cases, all small histories against a search through all orders, and long
//! random histories of a simple disk.

#![forbid(unsafe_code)]

mod disk;
mod laws;
mod linearizable;

use sim_check::{
    BlockRange, Data, Discard, Findings, Hash, NamespaceRules, Operation, Outcome, Persistence, RequestId,
};
use sim_check::{WriteCache, hash_block};

const CONTROLLER: u32 = 0;
const NSID: u32 = 1;
const BLOCK_BYTES: usize = 512;

/// Returns the content of a block before its first write, different for each.
fn initial(block: u64) -> Hash {
    hash_block(&block.to_le_bytes())
}

fn zeroes() -> Hash {
    hash_block(&[0; BLOCK_BYTES])
}

fn request(number: u64) -> RequestId {
    RequestId { session: 1, number }
}

/// A checker with one namespace, and its findings.
struct Bench {
    data: Data,
    findings: Findings,
}

impl Bench {
    fn new(discard: Discard, write_cache: WriteCache) -> Self {
        let mut data = Data::new();
        let rules = NamespaceRules { block_bytes: BLOCK_BYTES, discard, write_cache };
        data.namespace(CONTROLLER, NSID, rules, Box::new(initial));
        Self { data, findings: Findings::new(10) }
    }

    fn submit(&mut self, number: u64, operation: Operation<'_>) {
        self.data.submitted(request(number), number, CONTROLLER, NSID, operation);
    }

    fn answer(&mut self, number: u64, outcome: Outcome<'_>) {
        self.data.answered(request(number), number, outcome, &mut self.findings);
    }

    /// Writes one content to all blocks of a range.
    fn write(&mut self, number: u64, range: BlockRange, content: u64, persistence: Persistence) {
        let hashes = vec![Hash(content); range.count as usize];
        self.submit(number, Operation::Write { range, hashes: &hashes, persistence });
    }

    fn written(&mut self, number: u64, range: BlockRange, content: u64) {
        self.write(number, range, content, Persistence::Cached);
        self.answer(number, Outcome::Done);
    }

    fn flushed(&mut self, number: u64) {
        self.submit(number, Operation::Flush);
        self.answer(number, Outcome::Done);
    }

    /// Reads one block from its submission to its answer. Returns whether the checker accepts this content.
    fn reads(&mut self, number: u64, block: u64, content: Hash) -> bool {
        let before = self.findings.counted();
        self.submit(number, Operation::Read(BlockRange { first: block, count: 1 }));
        self.answer(number, Outcome::Read(&[content]));
        self.findings.counted() == before
    }
}
