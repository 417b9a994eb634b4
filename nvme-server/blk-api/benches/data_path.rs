//! Measures the parts of the data path that both sides share: the ring and the door.

#![forbid(unsafe_code)]

use blk_api::request::{Bounds, Entry, Opcode, Segment};
use blk_api::ring::{ClientEnd, Completed, ServerEnd, client_region_bytes, server_region_bytes};
use criterion::{Criterion, criterion_group, criterion_main};
use platform::fake::Ram;
use std::hint::black_box;

const ENTRIES: u32 = 64;

fn entry() -> Entry {
    let mut entry = Entry { opcode: Opcode::Read as u8, segment_count: 1, blocks: 8, lba: 64, ..Entry::default() };
    entry.segments[0] = Segment { offset: 4096, len: 4096 };
    entry
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
            theirs.publish_taken().expect("a ring in order");
            theirs.reply(&Completed { user_data: taken.user_data, ..Completed::default() });
            theirs.publish().expect("a ring in order");
            let answer = ours.complete().expect("a ring in order");
            ours.publish_taken().expect("a ring in order");
            black_box(answer)
        });
    });
}

fn door(criterion: &mut Criterion) {
    let bounds = Bounds { block_shift: 9, max_blocks: 1024, window_bytes: 1 << 20, writable: true, blocks: 1024 };
    let entry = entry();
    criterion.bench_function("door: a request is checked", |bencher| {
        bencher.iter(|| black_box(&entry).check(black_box(&bounds)));
    });
}

criterion_group!(data_path, ring, door);
criterion_main!(data_path);
