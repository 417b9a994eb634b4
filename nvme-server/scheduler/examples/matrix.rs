//! Measures a tenant of class high beside neighbours of class low on models of controllers, under three policies, and prints a line
//! for each cell, as CSV: `matrix [NEIGHBOURS [DEVICE]]`, all numbers of neighbours and all devices unless one is named.
//!
//! The models and the cells are those of the tests (`tests/device/`); `cargo xtask experiment matrix` draws them.

#![forbid(unsafe_code)]
#![expect(unreachable_pub, dead_code, reason = "the modules are those of a test")]

#[path = "../tests/device/controller.rs"]
mod controller;
#[path = "../tests/device/load.rs"]
mod load;
#[path = "../tests/device/matrix.rs"]
mod matrix;
#[path = "../tests/device/model.rs"]
mod model;
#[path = "../tests/device/run.rs"]
mod run;

use matrix::{POLICIES, Seen, cells, measured};
use model::Device;

fn main() {
    let asked: Option<usize> = std::env::args().nth(1).and_then(|count| count.parse().ok());
    let only = std::env::args().nth(2);
    print!("device,neighbours,work,kib,load,alone_iops,alone_p99_us");
    for (policy, _) in POLICIES {
        let policy = policy.replace(' ', "_");
        print!(",{policy}_iops,{policy}_p99_us,{policy}_rest");
    }
    println!();
    for (device, model) in Device::simulated() {
        if only.as_ref().is_some_and(|only| only != device) {
            continue;
        }
        let alone = measured(device, &model, POLICIES[0].1, &[]);
        for cell in cells((device, model)).iter().filter(|cell| asked.is_none_or(|count| count == cell.count)) {
            print!("{device},{},{},{},{}", cell.count, cell.work, cell.bytes / 1024, cell.load);
            print!(",{:.0},{}", alone.iops, microseconds(alone.p99));
            for (_, make) in POLICIES {
                let Seen { iops, p99, rest, .. } = cell.measured(make);
                print!(",{iops:.0},{},{rest:.0}", microseconds(p99));
            }
            println!();
        }
    }
}

/// With a tenth; for a tenant that was never served, two seconds.
fn microseconds(ns: u64) -> String {
    if ns == u64::MAX { "2000000.0".to_owned() } else { format!("{:.1}", ns as f64 / 1e3) }
}
