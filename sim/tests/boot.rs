//! A scenario's system boots, and its tenants do their work.

use capdl::Scenario;
use report::Report;
use report::frame::{Kind, Piece, Reader};
use sim::{Disk, Progress, Simulation};
use sim_nvme::Zeroes;
use std::path::Path;
use std::rc::Rc;

fn run(name: &str, seed: u64, limit_ns: u64) -> (Vec<Report>, sim::Account) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(name);
    let scenario = Scenario::load(file).unwrap();
    let system = capdl::build(&scenario, &sim::programs()).unwrap();
    let disk = Disk { base: Rc::new(Zeroes) };
    let disks = scenario.controllers.iter().map(|one| vec![disk.clone(); one.namespaces.len()]).collect();
    let mut simulation = Simulation::new(&scenario, &system, disks, &scenario.faults, seed);
    let (mut reader, mut reports) = (Reader::new(), Vec::new());
    let mut until = 0;
    while until < limit_ns {
        until += 10_000_000;
        let progress = simulation.run_until(until);
        let line = simulation.take_serial();
        reader.feed(&line, &mut |piece| {
            if let Piece::Frame { kind: Kind::Report, bytes, .. } = piece {
                reports.extend(Report::decode(bytes));
            }
        });
        for line in simulation.take_log() {
            println!("{:>12} {} {} {}", line.at_ns, line.component, line.level, line.text);
        }
        let done = reports.iter().filter(|report| matches!(report, Report::Done { .. })).count();
        if done == scenario.tenants.len() || progress == Progress::Quiet {
            break;
        }
    }
    (reports, simulation.end())
}

#[test]
fn tenants_read_back_what_they_wrote() {
    let (reports, account) = run("boot.toml", 1, 20_000_000_000);
    for report in &reports {
        println!("{report:?}");
    }
    for event in &account.last_events {
        println!("{event}");
    }
    println!("{} {:?}", account.findings, account.panics);
    assert_eq!(account.findings, "");
    assert!(account.panics.is_empty());
    assert!(reports.iter().any(|report| matches!(report, Report::Done { passed: true, .. })));
}
