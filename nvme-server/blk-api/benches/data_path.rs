//! What the pieces of the data path take that both sides share: the ring, the door, the extents.

#![forbid(unsafe_code)]

use blk_api::extent::{Extent, ExtentMap};
use blk_api::request::{Entry, Limits, Opcode, Segment};
use blk_api::ring::{ClientEnd, Completed, ServerEnd, client_region_bytes, server_region_bytes};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use platform::fake::Ram;
use std::hint::black_box;

const ENTRIES: u32 = 64;

fn entry() -> Entry {
    let mut entry = Entry { opcode: Opcode::Read as u8, segment_count: 1, blocks: 8, lba: 64, ..Entry::default() };
    entry.segments[0] = Segment { offset: 4096, len: 4096 };
    entry
}

/// `count` extents of 64 blocks with gaps between.
fn extents(count: u64) -> ExtentMap {
    let extents: Vec<_> = (0..count).map(|index| Extent { first: 128 * index, blocks: 64 }).collect();
    ExtentMap::new(&extents).unwrap_or_default()
}

fn ring(criterion: &mut Criterion) {
    let client = Ram::new(client_region_bytes(ENTRIES) as usize);
    let server = Ram::new(server_region_bytes(ENTRIES) as usize);
    let mut ours = ClientEnd::new(client.clone(), server.read_only(), ENTRIES).expect("a region that fits");
    let mut theirs = ServerEnd::new(client.read_only(), server, ENTRIES).expect("a region that fits");
    let entry = entry();
    criterion.bench_function("ring: a request there and its answer back", |bencher| {
        bencher.iter(|| {
            ours.submit(&entry).expect("room");
            ours.publish().expect("a ring in order");
            let taken = theirs.take().expect("a ring in order").expect("the request");
            theirs.release().expect("a ring in order");
            theirs.reply(&Completed { user_data: taken.user_data, ..Completed::default() }).expect("room");
            theirs.publish().expect("a ring in order");
            let answer = ours.complete().expect("a ring in order");
            ours.release().expect("a ring in order");
            black_box(answer)
        });
    });
}

fn door(criterion: &mut Criterion) {
    let limits =
        Limits { block_shift: 9, max_blocks: 1024, window_bytes: 1 << 20, writable: true, extents: extents(16) };
    let entry = entry();
    criterion.bench_function("door: a request is checked", |bencher| {
        bencher.iter(|| black_box(&entry).check(black_box(&limits)));
    });
}

fn lookup(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("extents: a block is located among");
    for count in [1, 16, 1024, 16_384] {
        let map = extents(count);
        let mut block = 0;
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter(|| {
                block = (block + 7919) % (64 * count);
                black_box(map.locate(block, 8))
            });
        });
    }
    group.finish();
}

criterion_group!(data_path, ring, door, lookup);
criterion_main!(data_path);
