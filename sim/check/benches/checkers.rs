//! The cost of the checkers for each request of a run: 4 KiB at a random place, thirty-two in flight, half of them reads.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sim_check::{
    Access, Accounting, Authority, BlockRange, Data, Discard, Fairness, FairnessRules, Findings, Hash, Liveness,
    LivenessBounds, NamespaceRules, Operation, Outcome, Persistence, RequestId, Rights, Share, WriteCache, hash_block,
};

const DEPTH: usize = 32;
/// Number of 4 KiB pages of the disk that requests choose from.
const PAGES: u64 = 1 << 16;

struct Asked {
    request: RequestId,
    range: BlockRange,
    kind: Kind,
}

enum Kind {
    Read,
    Write(u64),
    Flush,
}

/// A load whose requests are answered in their order, so that a read returns the latest content written before it.
struct Load {
    asked: VecDeque<Asked>,
    contents: Vec<u64>,
    number: u64,
    state: u64,
    blocks: u64,
    flush_every: u64,
    hashes: Vec<Hash>,
}

impl Load {
    fn new(blocks: u64, flush_every: u64) -> Self {
        let contents = vec![0; PAGES as usize];
        Self { asked: VecDeque::new(), contents, number: 0, state: 1, blocks, flush_every, hashes: Vec::new() }
    }

    /// Draws the next request of a fixed sequence.
    fn next(&mut self) -> Asked {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.number += 1;
        let request = RequestId { session: 1, number: self.number };
        let range = BlockRange { first: (self.state >> 48) % PAGES * self.blocks, count: self.blocks };
        let kind = match self.state >> 40 & 1 {
            _ if self.number.is_multiple_of(self.flush_every) => Kind::Flush,
            0 => Kind::Read,
            _ => Kind::Write(self.number),
        };
        Asked { request, range, kind }
    }

    fn content(&mut self, range: BlockRange, content: u64) -> &[Hash] {
        self.hashes.clear();
        self.hashes.resize(range.count as usize, Hash(content));
        &self.hashes
    }

    /// Answers one request and submits one.
    fn turn(&mut self, data: &mut Data, findings: &mut Findings) {
        if self.asked.len() == DEPTH
            && let Some(Asked { request, range, kind }) = self.asked.pop_front()
        {
            let outcome = match kind {
                Kind::Read => {
                    let content = self.contents[(range.first / self.blocks) as usize];
                    Outcome::Read(self.content(range, content))
                }
                Kind::Write(content) => {
                    self.contents[(range.first / self.blocks) as usize] = content;
                    Outcome::Done
                }
                Kind::Flush => Outcome::Done,
            };
            data.answered(request, request.number, outcome, findings);
        }
        let asked = self.next();
        let persistence = Persistence::Cached;
        let operation = match asked.kind {
            Kind::Read => Operation::Read(asked.range),
            Kind::Write(content) => {
                Operation::Write { range: asked.range, hashes: self.content(asked.range, content), persistence }
            }
            Kind::Flush => Operation::Flush,
        };
        data.submitted(asked.request, asked.request.number, 0, 1, operation);
        self.asked.push_back(asked);
    }
}

fn data(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("data");
    for (name, blocks, write_cache, flush_every) in [
        ("4 KiB blocks", 1, WriteCache::None, u64::MAX),
        ("512 B blocks", 8, WriteCache::None, u64::MAX),
        ("4 KiB blocks, volatile cache, flushes", 1, WriteCache::Volatile, 64),
        ("512 B blocks, volatile cache, no flush", 8, WriteCache::Volatile, u64::MAX),
    ] {
        let rules = NamespaceRules { block_bytes: 4096 / blocks as usize, discard: Discard::Zeroes, write_cache };
        let (mut checker, mut findings) = (Data::new(), Findings::new(1));
        checker.namespace(0, 1, rules, Box::new(|_| Hash(0)));
        let mut load = Load::new(blocks, flush_every);
        group.throughput(Throughput::Elements(blocks));
        group.bench_function(name, |bencher| bencher.iter(|| load.turn(&mut checker, &mut findings)));
        assert!(findings.is_empty(), "the load is correct: {findings}");
    }
    group.finish();
}

fn hash(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hash_block");
    for bytes in [512_usize, 4096] {
        let block = vec![0x5a; bytes];
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(format!("{bytes} B"), |bencher| bencher.iter(|| hash_block(black_box(&block))));
    }
    group.finish();
}

/// Measures all checkers but the data checker, for one request each: a lease, a transfer, an answer.
fn others(criterion: &mut Criterion) {
    let mut authority = Authority::new();
    authority.pool(7, 0..64, Rights::READ_WRITE);
    authority.window(1, 64..1024, Rights::READ_WRITE);
    let mut liveness = Liveness::new(LivenessBounds { answer_ns: 1_000_000, run_ns: 1_000_000 });
    let mut accounting = Accounting::new();
    let mut fairness = Fairness::new(FairnessRules { interval_ns: 1_000_000, factor: 2, slack_bytes: 65_536 });
    fairness.session(1, Share { group: 0, weight: 1, saturating: 16, starvation_ns: u64::MAX }, 0);
    let mut findings = Findings::new(1);
    let (mut number, mut asked) = (0, VecDeque::new());
    criterion.bench_function("authority, liveness, accounting and fairness", |bencher| {
        bencher.iter(|| {
            number += 1;
            let (now_ns, page) = (number * 1_000, 64 + number % 960);
            if asked.len() == DEPTH
                && let Some((request, page)) = asked.pop_front()
            {
                authority.transfer(7, page, Access::Write, now_ns, &mut findings);
                authority.release(request);
                liveness.answered(request);
                accounting.answered(request, now_ns, &mut findings);
                fairness.answered(1, 4096, now_ns, &mut findings);
            }
            let request = RequestId { session: 1, number };
            authority.lease(request, 7, &[page], Access::Write, now_ns, &mut findings);
            liveness.asked(request, now_ns);
            liveness.check(now_ns, &mut findings);
            accounting.asked(request, now_ns, &mut findings);
            fairness.asked(1, now_ns, &mut findings);
            asked.push_back((request, page));
        });
    });
    assert!(findings.is_empty(), "the load is correct: {findings}");
}

criterion_group!(benches, data, hash, others);
criterion_main!(benches);
