//! The shape of the curves of SEEDS O5, with ten threads that have a queue each.
//!
//! The tests assert the shape, and the plateaus within the tolerances named at each place. The profile was fitted to
//! these figures, so this checks the queueing model and not any hardware.

use std::collections::BTreeMap;

use nvme_spec::nvm::{self, Blocks};
use nvme_spec::{Cid, Lba, Nsid};
use sim_nvme::{Config, Profile};

use crate::driver::{Driver, config};

const THREADS: u16 = 10;

#[derive(Clone, Copy, Debug)]
struct Measured {
    gb_per_s: f64,
    mean_us: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Read,
    Write,
}

/// Each thread keeps `depth` requests of `bytes` at random places outstanding until 400 a thread are done.
fn measure(kind: Kind, bytes: u32, depth: u16) -> Measured {
    let mut driver = Driver::with_queues(Config { profile: Profile::open_express(), mdts: 8, ..config() }, THREADS);
    let (_, data) = driver.buffer(u64::from(bytes));
    let mut place = u64::from(bytes);
    let mut begun = BTreeMap::new();
    let mut submit = |driver: &mut Driver, begun: &mut BTreeMap<(u16, Cid), u64>, thread: u16| {
        place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let start = (place >> 33) % (60 << 20) / u64::from(bytes) * u64::from(bytes) / 512;
        let blocks = Blocks::new(Lba(start), bytes / 512).unwrap();
        let sqe = match kind {
            Kind::Read => nvm::read(Cid(0), Nsid(1), blocks, data),
            Kind::Write => nvm::write(Cid(0), Nsid(1), blocks, data),
        };
        let cid = driver.submit(thread, sqe);
        begun.insert((thread, cid), driver.now_ns);
    };
    for thread in 1..=THREADS {
        (0..depth).for_each(|_| submit(&mut driver, &mut begun, thread));
        driver.ring(thread);
    }
    let (start_ns, mut done, mut latency_ns) = (driver.now_ns, 0_u64, 0_u64);
    while done < 400 * u64::from(THREADS) {
        assert!(driver.step());
        for thread in 1..=THREADS {
            let taken = driver.take_all(thread);
            for cqe in &taken {
                done += 1;
                latency_ns += driver.now_ns - begun.remove(&(thread, cqe.cid())).unwrap();
                submit(&mut driver, &mut begun, thread);
            }
            if !taken.is_empty() {
                driver.ring(thread);
            }
        }
    }
    let gb_per_s = (done * u64::from(bytes)) as f64 / (driver.now_ns - start_ns) as f64;
    Measured { gb_per_s, mean_us: latency_ns as f64 / done as f64 / 1_000.0 }
}

#[track_caller]
fn within(value: f64, expected: f64, percent: f64) {
    assert!((value / expected - 1.0).abs() * 100.0 <= percent, "{value} is not {expected} within {percent} %");
}

#[test]
fn bandwidth_grows_with_size_and_is_flat_from_16_kib_on() {
    // The figures 7.0 and 4.7 GB/s within 5 %.
    for (kind, plateau) in [(Kind::Read, 7.0), (Kind::Write, 4.7)] {
        let sizes = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131_072];
        let curve: Vec<f64> = sizes.iter().map(|&bytes| measure(kind, bytes, 8).gb_per_s).collect();
        assert!(curve.windows(2).all(|pair| pair[1] > pair[0] * 0.98), "{kind:?} never falls: {curve:?}");
        assert!(curve[..4].windows(2).all(|pair| pair[1] > pair[0] * 1.6), "{kind:?} grows at first: {curve:?}");
        curve[5..].iter().for_each(|&value| within(value, plateau, 5.0));
    }
}

#[test]
fn reads_are_above_writes_at_every_size() {
    for bytes in [4096, 8192, 16384, 65536] {
        let (reads, writes) = (measure(Kind::Read, bytes, 8), measure(Kind::Write, bytes, 8));
        assert!(reads.gb_per_s > writes.gb_per_s, "{bytes}: {reads:?} {writes:?}");
    }
}

#[test]
fn latency_alone_is_27_to_30_microseconds() {
    for kind in [Kind::Read, Kind::Write] {
        let mean_us = measure(kind, 4096, 1).mean_us;
        assert!((27.0..=30.0).contains(&mean_us), "{kind:?}: {mean_us}");
    }
}

#[test]
fn latency_grows_with_depth_once_the_front_end_is_busy() {
    // The figures 72.7 and 77.5 us at depth 8 within 3 %.
    for (kind, at_8) in [(Kind::Read, 72.7), (Kind::Write, 77.5)] {
        let curve: Vec<f64> = [1, 2, 4, 8, 16].iter().map(|&depth| measure(kind, 4096, depth).mean_us).collect();
        assert!(curve.windows(2).all(|pair| pair[1] >= pair[0] * 0.99), "{kind:?}: {curve:?}");
        within(curve[3], at_8, 3.0);
        within(curve[4], 2.0 * curve[3], 3.0);
    }
}
