//! Measures the time of the extent table: a lookup, by number of records and order of blocks, and an install that evicts.

#![forbid(unsafe_code)]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use extent_table::{ExtentTable, Merging, Record, Right, Rights};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The records of the table that the NVMe server makes.
const CAPACITY: u64 = 16_384;
const SESSIONS: usize = 64;
/// Blocks of a record; as many lie between two, so that they do not join.
const BLOCKS: u64 = 64;

/// The record at `index`.
fn record(index: u64) -> Record {
    Record::new(2 * BLOCKS * index, 3 * BLOCKS * index, BLOCKS, Rights::READ_WRITE).expect("small numbers")
}

/// A table in which session 0 has `count` records, installed in an order without pattern.
fn table(count: u64) -> ExtentTable {
    let mut table = ExtentTable::new(CAPACITY as usize, SESSIONS, Merging::On).expect("a size that can be");
    let mut order: Vec<u64> = (0..count).collect();
    order.sort_by_key(|index| spread(*index));
    for index in order {
        table.install(0, record(index)).expect("records that are apart");
    }
    table
}

/// A number without pattern for each: twice multiplied, with the upper bits mixed into the lower ones.
const fn spread(turn: u64) -> u64 {
    let mixed = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 32)
}

/// The time of so many calls, by the median of batches far shorter than a time slice, so that few of them include other
/// work on the machine.
fn undisturbed<T>(calls: u64, mut call: impl FnMut() -> T) -> Duration {
    const BATCH: u32 = 1024;
    let batch = |_| {
        let start = Instant::now();
        (0..BATCH).for_each(|_| drop(black_box(call())));
        start.elapsed()
    };
    let mut batches: Vec<Duration> = (0..calls.div_ceil(u64::from(BATCH))).map(batch).collect();
    batches.sort_unstable();
    batches[batches.len() / 2].mul_f64(calls as f64 / f64::from(BATCH))
}

fn lookup(criterion: &mut Criterion) {
    for (name, order) in [("random", spread as fn(u64) -> u64), ("sequential", |turn| turn)] {
        let mut group = criterion.benchmark_group(format!("extent table: {name} lookup among"));
        for count in [1, 16, 256, 4096, CAPACITY] {
            let mut table = table(count);
            let mut turn = 0_u64;
            group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
                let mut lookup = || {
                    turn += 8;
                    let asked = order(turn) % (count * BLOCKS);
                    // The number within the session: half of its numbers are in no record.
                    table.locate(0, asked / BLOCKS * 2 * BLOCKS + asked % BLOCKS, black_box(8), Right::Read)
                };
                bencher.iter_custom(|calls| undisturbed(calls, &mut lookup));
            });
        }
        group.finish();
    }
}

fn install(criterion: &mut Criterion) {
    let mut table = table(CAPACITY);
    let mut turn = 0;
    criterion.bench_function("extent table: install into a full table", |bencher| {
        bencher.iter(|| {
            turn += 1;
            table.install(0, black_box(record(spread(turn) >> 20)))
        });
    });
    let mut table = self::table(0);
    let mut turn = 0;
    criterion.bench_function("extent table: install that joins the one before", |bencher| {
        bencher.iter(|| {
            turn += 1;
            table.install(0, Record::new(BLOCKS * turn, BLOCKS * turn, BLOCKS, Rights::READ).expect("small numbers"))
        });
    });
}

criterion_group!(benches, lookup, install);
criterion_main!(benches);
