//! What the extent table takes: a lookup, by number of records and order of blocks, and an install that evicts.

#![forbid(unsafe_code)]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use extent_table::{ExtentTable, Merging, Record, Right, Rights};
use std::hint::black_box;

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
    for turn in 0..count {
        table.install(0, record(spread(turn) % count)).expect("records that are apart");
    }
    table
}

/// A different number for each below a power of two: the remainders by it are spread, and none comes twice.
const fn spread(turn: u64) -> u64 {
    turn.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn lookup(criterion: &mut Criterion) {
    let orders: [(&str, fn(u64) -> u64); 2] =
        [("random", |turn| spread(turn) >> 20), ("sequential", |turn| turn * 8 / BLOCKS)];
    for (name, order) in orders {
        let mut group = criterion.benchmark_group(format!("extent table: {name} lookup among"));
        for count in [1, 16, 256, 4096, CAPACITY] {
            let mut table = table(count);
            // What is asked is made beforehand: only the lookup is measured.
            let blocks: Vec<u64> =
                (0..1 << 20).map(|turn| order(turn) % count * 2 * BLOCKS + turn * 8 % BLOCKS).collect();
            let mut asked = blocks.iter().cycle();
            group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
                bencher.iter(|| table.locate(0, *asked.next().expect("a cycle"), black_box(8), Right::Read));
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
            table.install(0, black_box(record(CAPACITY + (spread(turn) >> 20) % (1 << 30))))
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
