//! A class beside every kind of neighbour, on the simulator's controllers: laws on some cells of the matrix. `cargo xtask experiment
//! matrix` measures all of it.

use crate::matrix::{Cell, POLICIES, SERVER, Seen, cells, measured, victim};
use crate::model::{Device, Operation};
use crate::run::{Load, MS, Run, SECOND, tenants};
use scheduler::{Class, Paced};

/// A victim alone on each controller in the simulator, with the whole system around it: requests a second of
/// `scenarios/waiting-readers.toml` without its neighbours and with the controller's `model`.
const SIMULATED_IOPS: [(&str, f64); 4] =
    [("dram", 803_067.0), ("openexpress", 135_767.0), ("flash", 77_915.0), ("flash with cache", 77_915.0)];

fn alone((device, model): &(&'static str, Device)) -> Seen {
    measured(device, model, POLICIES[0].1, &[])
}

#[test]
fn models_agree_with_the_simulated_system() {
    for device in Device::simulated() {
        let Some((_, simulated)) = SIMULATED_IOPS.iter().find(|(name, _)| *name == device.0) else { continue };
        let Seen { iops, .. } = alone(&device);
        println!("{}: {iops:.0} and {simulated:.0} in the simulator", device.0);
        assert!((iops / simulated - 1.0).abs() <= 0.1, "{}: {iops} and {simulated} in the simulator", device.0);
    }
}

#[test]
fn paced_is_no_worse_than_where_nothing_is_held_back() {
    for device in Device::simulated() {
        let alone = alone(&device);
        for cell in cells(device).iter().filter(|cell| cell.count == 7 && [0, 4096].contains(&cell.bytes)) {
            let [paced, others @ ..] = POLICIES.map(|(_, make)| cell.measured(make));
            let Cell { device, work, bytes, load, .. } = cell;
            let text = format!("{device}, 7 {load} neighbours, {work} of {bytes}: {paced:?}");
            println!("{text}");
            for other in others {
                let p99 = other.p99.max(alone.p99);
                assert!(paced.p99 <= p99 + p99 / 10 && paced.iops >= 0.95 * other.iops, "{text}, {other:?}");
            }
        }
    }
}

/// A single neighbour and many, under `paced` alone.
#[test]
fn write_cache_of_a_device_hides_no_load() {
    let device = Device::simulated().into_iter().find(|(name, _)| *name == "flash with cache").unwrap();
    let alone = alone(&device);
    for cell in cells(device).iter().filter(|cell| [1, 31].contains(&cell.count) && cell.load == "flooding") {
        let Seen { iops, p99, rest } = cell.measured(POLICIES[0].1);
        let Cell { count, work, bytes, load, .. } = cell;
        let text = format!("{count} {load} neighbours, {work} of {bytes}: {iops:.0} and {p99}");
        println!("{text} of {:.0} and {}; the neighbours {rest:.0}", alone.iops, alone.p99);
        assert!(p99 <= alone.p99 + alone.p99 / 10 && iops >= 0.8 * alone.iops, "{text}");
    }
}

/// The neighbour was there first, and the cache is full of what all goes to one channel: half a second of it.
#[test]
fn full_write_cache_delays_a_class_once() {
    let (_, device) = Device::simulated().into_iter().find(|(name, _)| *name == "flash with cache").unwrap();
    let hot = Load::new(Class::Low, 524_288, 8).of(Operation::Zeroes).hot();
    let loads = [victim().between(500 * MS, u64::MAX), hot];
    let mut policy = Paced::new(&tenants(&loads)).unwrap();
    let mut run = Run::new(&mut policy, device, &loads);
    run.server = SERVER;
    run.until(3 * SECOND);
    let (first, from) = (run.longest_pause(0, 500 * MS, 3 * SECOND), 1200 * MS);
    let (next, later) = (run.longest_pause(0, from, 3 * SECOND), run.result(0, from, from + 100 * MS));
    println!("{} ms, then {:.0}, {} and at most {}", first / MS, later.iops(), later.percentile(990), next);
    assert!(first <= 700 * MS && next <= MS && later.iops() >= 70_000.0 && later.percentile(990) <= 110_000);
}
