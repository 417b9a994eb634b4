//! A tenant of class high beside neighbours of class low that do every kind of work: the cells, and their measurement.

use crate::model::{Device, Operation};
use crate::run::{Load, MS, Outcome, Run, SECOND, ServerTime, tenants};
use scheduler::{Class, Dedicated, Paced, Policy, RoundRobin, Tenant};

/// Numbers of neighbours.
pub const COUNTS: [usize; 4] = [1, 7, 13, 31];
/// Bytes of their requests; the last is the largest transfer.
pub const SIZES: [u32; 3] = [4096, 65_536, 524_288];

/// Operations of the neighbours.
pub const WORK: [(&str, [Operation; 2]); 6] = [
    ("read", [Operation::Read; 2]),
    ("write", [Operation::Write; 2]),
    ("mixed", [Operation::Read, Operation::Write]),
    ("zeroes", [Operation::Zeroes; 2]),
    ("discard", [Operation::Discard; 2]),
    ("flush", [Operation::Flush; 2]),
];

/// How they ask: one request at a time each, or as many as the queue of a neighbour holds.
pub const LOADS: [(&str, u32); 2] = [("waiting", 1), ("flooding", 32)];

/// The server's time for a pass and for a command.
pub const SERVER: ServerTime = ServerTime { pass: 400, command: 150 };
/// A client's time from an answer to the next request, nanoseconds.
const TURNAROUND_NS: u64 = 500;

type Make = fn(&[Tenant]) -> Box<dyn Policy>;

/// The policies that are compared.
pub const POLICIES: [(&str, Make); 3] = [
    ("paced", |tenants| Box::new(Paced::new(tenants).expect("valid shares"))),
    ("round robin", |tenants| Box::new(RoundRobin::new(tenants).expect("valid shares"))),
    ("dedicated", |tenants| Box::new(Dedicated::new(tenants).expect("valid shares"))),
];

/// A neighbourhood on a device.
#[derive(Clone, Debug)]
pub struct Cell {
    pub device: &'static str,
    pub model: Device,
    pub count: usize,
    pub work: &'static str,
    pub bytes: u32,
    pub load: &'static str,
    pub neighbour: Load,
}

/// Throughput and latency of the victim and its neighbours.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub iops: f64,
    /// Nanoseconds.
    pub p99: u64,
    /// Units of 4 KiB that all neighbours together submit a second; commands, where they have no bytes.
    pub rest: f64,
}

/// All cells on this device.
pub fn cells((device, model): (&'static str, Device)) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (work, operations) in WORK {
        for bytes in SIZES {
            // A flush has no size.
            let bytes = if work == "flush" { 0 } else { bytes };
            for (load, depth) in LOADS {
                let neighbour = Load { operations, ..Load::new(Class::Low, bytes, depth).thinking(TURNAROUND_NS) };
                let cell = |count| Cell { device, model: model.clone(), count, work, bytes, load, neighbour };
                cells.extend(COUNTS.map(cell));
            }
            if work == "flush" {
                break;
            }
        }
    }
    cells
}

/// The victim: four reads of 4 KiB in flight.
pub fn victim() -> Load {
    Load::new(Class::High, 4096, 4).thinking(TURNAROUND_NS)
}

impl Cell {
    /// Under the policy.
    pub fn measured(&self, make: Make) -> Seen {
        measured(self.device, &self.model, make, &vec![self.neighbour; self.count])
    }
}

/// The victim beside `others`.
pub fn measured(device: &str, model: &Device, make: Make, others: &[Load]) -> Seen {
    let loads: Vec<Load> = [victim()].into_iter().chain(others.iter().copied()).collect();
    // The bucket of a throttle is full after a tenth of a second; the slow device needs longer for enough commands.
    let (from, to) = match device {
        "throttled" => (500 * MS, 2_000 * MS),
        "dram" | "openexpress" => (60 * MS, 120 * MS),
        _ => (100 * MS, 300 * MS),
    };
    let mut policy = make(&tenants(&loads));
    let mut run = Run::new(policy.as_mut(), model.clone(), &loads);
    run.server = SERVER;
    run.until(to);
    let got = run.result(0, from, to);
    let units = |tenant| {
        let submitted = run.submitted(tenant).iter().filter(|(at, _)| (from..to).contains(at));
        submitted.map(|(_, bytes)| u64::from(bytes.div_ceil(4096).max(1))).sum::<u64>()
    };
    let rest = (1..loads.len()).map(units).sum::<u64>() as f64 * SECOND as f64 / (to - from) as f64;
    Seen { iops: got.iops(), p99: late(&got, 990), rest }
}

fn late(got: &Outcome, permille: usize) -> u64 {
    if got.is_nothing() { u64::MAX } else { got.percentile(permille) }
}
