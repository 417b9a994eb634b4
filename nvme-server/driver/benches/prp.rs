//! What it takes to name a transfer to the controller: by PRP entries alone, and by lists of several lengths.

#![forbid(unsafe_code)]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use nvme_driver::{PrpLists, Ring, list_pages};
use platform::fake::Ram;
use platform::{Iova, PAGE_SIZE};
use std::hint::black_box;

const PAGE: u32 = PAGE_SIZE as u32;
/// Transfers, in pages: two of no list, two of one list page, and one whose list needs two, chained.
const TRANSFERS: [(&str, u32); 5] = [
    ("1 page", 1),
    ("2 pages", 2),
    ("32 pages, a list", 32),
    ("512 pages (2 MiB), a list", 512),
    ("1024 pages (4 MiB), chained lists", 1024),
];

fn prp(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("PRPs: a transfer is named of");
    for (name, count) in TRANSFERS {
        let bytes = count * PAGE;
        let pages = list_pages(u64::from(bytes));
        let memory = Ram::new(pages.max(1) as usize * PAGE_SIZE);
        let memory = Ring { memory, offset: 0, iova: Iova::new(0x1000_0000) };
        let lists = PrpLists::new(memory, 1, pages).expect("pages that fit");
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher
                .iter(|| lists.build(0, black_box(Iova::new(0x40_0000)), black_box(bytes)).expect("a list that fits"));
        });
    }
    group.finish();
}

criterion_group!(benches, prp);
criterion_main!(benches);
