//! Measures a tenant of class high beside neighbours of class low on models of controllers, under three policies, and prints a line
//! for each cell, as CSV: `matrix [DEVICE]...`, all devices unless some are named.
//!
//! The models and the cells are those of the tests (`tests/device/`).

#![forbid(unsafe_code)]
#![expect(unreachable_pub, dead_code, reason = "the modules are those of a test")]

#[path = "../tests/device/controller.rs"]
mod controller;
#[path = "../tests/device/matrix.rs"]
mod matrix;
#[path = "../tests/device/model.rs"]
mod model;
#[path = "../tests/device/run.rs"]
mod run;

use matrix::{POLICIES, Seen, cells, measured};
use model::Device;

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    print!("device,neighbours,work,kib,load,alone_iops,alone_p99_us");
    for (policy, _) in POLICIES {
        let policy = policy.replace(' ', "_");
        print!(",{policy}_iops,{policy}_p99_us,{policy}_rest_iops");
    }
    println!();
    for (device, model) in Device::simulated() {
        if !asked.is_empty() && !asked.iter().any(|one| one == device) {
            continue;
        }
        let alone = measured(device, &model, POLICIES[0].1, &[]);
        for cell in cells((device, model)) {
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

/// With a tenth; of a victim that was never served, the whole time.
fn microseconds(ns: u64) -> String {
    if ns == u64::MAX { "2000000.0".to_owned() } else { format!("{:.1}", ns as f64 / 1e3) }
}
