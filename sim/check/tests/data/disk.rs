//! Long random histories of a simple disk without defects, and of the same disk with one defect.
//!
//! The disk has a cache that it writes back now and then. It executes each block of each request at a time of its own, fails
//! half-done requests, loses power, is reset, and repeats requests in flight. The checker must accept all of that.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::*;

const BLOCKS: u64 = 12;
/// Maximum number of requests in flight.
const DEPTH: usize = 5;
/// A defect shows once in this many chances.
const SELDOM: usize = 6;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Defect {
    None,
    LosesWrites,
    WritesTheNextBlock,
    ReadsThePreviousContent,
    ReadsGarbage,
    WritesAfterFailing,
    FlushDoesNothing,
    ForcedIsNot,
    ForgetsWithPower,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    shown: Hash,
    before: Hash,
    medium: Hash,
}

#[derive(Clone, Debug)]
enum Work {
    Read(Vec<Option<Hash>>),
    Write(Hash, Persistence),
    Discard,
    Flush,
}

#[derive(Clone, Debug)]
struct Flying {
    number: u64,
    range: BlockRange,
    todo: Vec<u64>,
    work: Work,
}

struct Disk {
    defect: Defect,
    write_cache: WriteCache,
    discard: Discard,
    blocks: Vec<Block>,
    flying: Vec<Flying>,
    /// Answered requests that are not over: they may go on until the next reset.
    orphans: Vec<Flying>,
    bench: Bench,
    asked: u64,
    draws: std::vec::IntoIter<u32>,
}

/// Runs a disk as long as there are draws, and returns the checker with its findings.
fn run(defect: Defect, discard: Discard, write_cache: WriteCache, draws: Vec<u32>) -> Bench {
    let block = |block| Block { shown: initial(block), before: initial(block), medium: initial(block) };
    let mut disk = Disk {
        defect,
        write_cache,
        discard,
        blocks: (0..=BLOCKS).map(block).collect(),
        flying: Vec::new(),
        orphans: Vec::new(),
        bench: Bench::new(discard, write_cache),
        asked: 0,
        draws: draws.into_iter(),
    };
    while disk.draws.len() > 0 {
        disk.step();
    }
    disk.bench
}

impl Disk {
    fn step(&mut self) {
        match self.draw(100) {
            0..25 if self.flying.len() < DEPTH => self.submit(),
            0..65 => self.perform(),
            65..92 => self.answer(),
            92..94 => self.write_back(),
            94..97 => self.perform_orphan(),
            97 => self.lose_power(),
            _ => self.reset(),
        }
    }

    fn draw(&mut self, below: usize) -> usize {
        self.draws.next().unwrap_or(0) as usize % below
    }

    fn errs(&mut self, defect: Defect) -> bool {
        self.defect == defect && self.draw(SELDOM) == 0
    }

    fn submit(&mut self) {
        let number = self.asked;
        self.asked += 1;
        let first = self.draw(BLOCKS as usize - 2) as u64;
        let range = BlockRange { first, count: 1 + self.draw(3) as u64 };
        let count = range.count as usize;
        let persistence = if self.draw(4) == 0 { Persistence::Forced } else { Persistence::Cached };
        let work = match self.draw(20) {
            0..9 => Work::Read(vec![None; count]),
            9..17 => Work::Write(Hash(if self.draw(4) == 0 { 7 } else { 1_000 + number }), persistence),
            17 => Work::Write(zeroes(), persistence),
            18 => Work::Discard,
            _ => Work::Flush,
        };
        let hashes: Vec<Hash> = if let Work::Write(hash, _) = work { vec![hash; count] } else { Vec::new() };
        self.bench.submit(
            number,
            match work {
                Work::Read(_) => Operation::Read(range),
                Work::Write(hash, _) if hash == zeroes() => Operation::Zeroes { range, persistence },
                Work::Write(..) => Operation::Write { range, hashes: &hashes, persistence },
                Work::Discard => Operation::Discard(std::slice::from_ref(&range)),
                Work::Flush => Operation::Flush,
            },
        );
        let todo = if matches!(work, Work::Flush) { vec![0] } else { (first..first + range.count).collect() };
        self.flying.push(Flying { number, range, todo, work });
    }

    /// Executes one block of one request.
    fn perform(&mut self) {
        let ready: Vec<usize> = (0..self.flying.len()).filter(|&index| !self.flying[index].todo.is_empty()).collect();
        if ready.is_empty() {
            return;
        }
        let index = ready[self.draw(ready.len())];
        let mut flying = self.flying.swap_remove(index);
        self.perform_block(&mut flying);
        self.flying.push(flying);
    }

    fn perform_orphan(&mut self) {
        if !self.orphans.is_empty() {
            let index = self.draw(self.orphans.len());
            let mut orphan = self.orphans.swap_remove(index);
            self.perform_block(&mut orphan);
            if !orphan.todo.is_empty() {
                self.orphans.push(orphan);
            }
        }
    }

    fn perform_block(&mut self, flying: &mut Flying) {
        let choice = self.draw(flying.todo.len());
        let block = flying.todo.swap_remove(choice);
        match &mut flying.work {
            Work::Read(contents) => contents[(block - flying.range.first) as usize] = Some(self.read(block)),
            Work::Write(hash, persistence) => self.write(block, *hash, *persistence),
            Work::Discard if self.discard == Discard::Zeroes || self.draw(2) == 0 => {
                self.write(block, zeroes(), Persistence::Cached);
            }
            Work::Discard => {}
            Work::Flush if self.defect == Defect::FlushDoesNothing => {}
            Work::Flush => self.blocks.iter_mut().for_each(|block| block.medium = block.shown),
        }
    }

    fn read(&mut self, block: u64) -> Hash {
        let Block { shown, before, .. } = self.blocks[block as usize];
        if self.errs(Defect::ReadsGarbage) {
            Hash(1)
        } else if self.errs(Defect::ReadsThePreviousContent) {
            before
        } else {
            shown
        }
    }

    fn write(&mut self, block: u64, hash: Hash, persistence: Persistence) {
        if self.errs(Defect::LosesWrites) {
            return;
        }
        let aside = u64::from(self.errs(Defect::WritesTheNextBlock));
        let block = &mut self.blocks[(block + aside) as usize];
        (block.before, block.shown) = (block.shown, hash);
        let forced = persistence == Persistence::Forced && self.defect != Defect::ForcedIsNot;
        if forced || self.write_cache == WriteCache::None && self.defect != Defect::ForgetsWithPower {
            block.medium = hash;
        }
    }

    /// Answers a request that is done; now and then one that is not, with an error or with an unknown result.
    fn answer(&mut self) {
        if self.flying.is_empty() {
            return;
        }
        let index = self.draw(self.flying.len());
        if !self.flying[index].todo.is_empty() && self.draw(8) != 0 {
            return;
        }
        let mut flying = self.flying.swap_remove(index);
        match (&flying.work, flying.todo.is_empty(), self.draw(2)) {
            (Work::Read(contents), true, _) => {
                let contents: Vec<Hash> = contents.iter().map(|content| content.unwrap()).collect();
                self.bench.answer(flying.number, Outcome::Read(&contents));
            }
            (_, true, _) => self.bench.answer(flying.number, Outcome::Done),
            (_, false, 0) => self.fail(flying),
            (work, false, _) => {
                self.bench.answer(flying.number, Outcome::Unknown);
                let writes = matches!(work, Work::Write(..) | Work::Discard);
                flying.todo.retain(|_| writes);
                self.orphans.extend(writes.then_some(flying));
            }
        }
    }

    fn fail(&mut self, flying: Flying) {
        self.bench.answer(flying.number, Outcome::Failed);
        if self.defect == Defect::WritesAfterFailing && matches!(flying.work, Work::Write(..)) {
            self.orphans.push(flying);
        }
    }

    fn write_back(&mut self) {
        let block = self.draw(BLOCKS as usize);
        self.blocks[block].medium = self.blocks[block].shown;
    }

    fn lose_power(&mut self) {
        self.bench.data.power_lost(CONTROLLER);
        self.blocks.iter_mut().for_each(|block| block.shown = block.medium);
        self.orphans.clear();
        let (flushes, others) = std::mem::take(&mut self.flying)
            .into_iter()
            .partition(|flying| matches!(flying.work, Work::Flush) && !flying.todo.is_empty());
        self.flying = others;
        for flush in <Vec<Flying>>::into_iter(flushes) {
            self.bench.answer(flush.number, Outcome::Failed);
        }
    }

    /// Resets the disk; repeats some of the requests in flight.
    fn reset(&mut self) {
        self.bench.data.ended(CONTROLLER);
        self.orphans.clear();
        for index in 0..self.flying.len() {
            if self.draw(2) == 0 && !matches!(self.flying[index].work, Work::Flush) {
                let Flying { number, range, todo, .. } = &mut self.flying[index];
                self.bench.data.repeated(request(*number));
                *todo = (range.first..range.first + range.count).collect();
            }
        }
    }
}

fn draws() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(any::<u32>(), 1..3_000)
}

fn rules() -> impl Strategy<Value = (Discard, WriteCache)> {
    let discards = prop::sample::select(vec![Discard::Zeroes, Discard::OldOrZeroes]);
    (discards, prop::sample::select(vec![WriteCache::None, WriteCache::Volatile]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_disk_that_does_everything_right_is_never_reported(draws in draws(), (discard, write_cache) in rules()) {
        let bench = run(Defect::None, discard, write_cache, draws);
        prop_assert!(bench.findings.is_empty(), "{}", bench.findings);
    }
}

/// Returns the number of runs in a hundred in which the defect is reported.
fn reported(defect: Defect, write_cache: WriteCache) -> usize {
    let mut runner = TestRunner::deterministic();
    let draws = prop::collection::vec(any::<u32>(), 40_000);
    let runs =
        (0..100).map(|_| run(defect, Discard::Zeroes, write_cache, draws.new_tree(&mut runner).unwrap().current()));
    runs.filter(|bench| !bench.findings.is_empty()).count()
}

#[test]
fn each_defect_is_reported_in_nearly_every_run() {
    for (defect, write_cache, least) in [
        (Defect::LosesWrites, WriteCache::None, 98),
        (Defect::LosesWrites, WriteCache::Volatile, 98),
        (Defect::WritesTheNextBlock, WriteCache::None, 98),
        (Defect::ReadsThePreviousContent, WriteCache::Volatile, 98),
        (Defect::ReadsGarbage, WriteCache::Volatile, 98),
        // Mostly it looks like a write that was done before it failed, which is allowed.
        (Defect::WritesAfterFailing, WriteCache::None, 80),
        (Defect::FlushDoesNothing, WriteCache::Volatile, 98),
        (Defect::ForcedIsNot, WriteCache::Volatile, 98),
        (Defect::ForgetsWithPower, WriteCache::None, 98),
    ] {
        let reported = reported(defect, write_cache);
        assert!(reported >= least, "{defect:?} with {write_cache:?} was reported in {reported} of 100 runs");
    }
    assert_eq!(reported(Defect::None, WriteCache::None) + reported(Defect::None, WriteCache::Volatile), 0);
}
