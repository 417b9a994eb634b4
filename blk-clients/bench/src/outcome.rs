//! Counters of a load, and the record made of them.

use crate::histogram::Histogram;
use report::{Load, Name, clip};
use workload::{Bench, Client};

/// Counters of a load.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) verified_bytes: u64,
    pub(crate) wrong_bytes: u64,
    /// Requests that failed and should not have.
    pub(crate) errors: u64,
    /// Other expectations that did not hold.
    pub(crate) broken: u64,
    /// Reads of the bad block that failed as they should.
    pub(crate) media_errors: u64,
    /// Forbidden requests of a load whose rights are taken.
    pub(crate) forbidden: u64,
    /// Requests done where an earlier one had been forbidden.
    pub(crate) allowed_again: u64,
    /// Actual number of requests in flight.
    pub(crate) depth: u16,
    /// Whether anything was verified.
    pub(crate) verify: bool,
    /// Nanoseconds of machine time at the mix's begin.
    pub(crate) began_ns: u64,
    pub(crate) elapsed_ns: u64,
    /// Nanoseconds.
    pub(crate) latencies: Histogram,
}

impl Outcome {
    /// Whether all expectations held.
    pub(crate) const fn passed(&self) -> bool {
        self.wrong_bytes == 0 && self.errors == 0 && self.broken == 0 && (self.verified_bytes > 0 || !self.verify)
    }

    pub(crate) fn record(&self, client: &Client, bench: &Bench, tenant: Name) -> Load {
        Load {
            tenant,
            class: clip(&client.class),
            queue_pairs: client.queue_pairs,
            depth: self.depth,
            block_bytes: bench.block_bytes,
            reads: self.reads,
            writes: self.writes,
            verified_bytes: self.verified_bytes,
            wrong_bytes: self.wrong_bytes,
            errors: self.errors.saturating_add(self.broken),
            forbidden: self.forbidden,
            began_ns: self.began_ns,
            elapsed_ns: self.elapsed_ns,
            p50_ns: self.latencies.percentile(500),
            p99_ns: self.latencies.percentile(990),
            p999_ns: self.latencies.percentile(999),
            max_ns: self.latencies.max(),
        }
    }
}
