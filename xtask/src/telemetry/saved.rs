//! Files of traces: for Perfetto, for blktrace's programs, and a summary.

use super::events::Events;
use super::requests::{Request, Requests};
use super::sample::{Places, Sample};
use super::{blktrace, perfetto};
use crate::project::write_whole;
use anyhow::{Context, Result};
use blk_api::operation::Kind;
use blk_api::telemetry::{READS, WRITES};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;

/// Files in a run's folder.
pub const PERFETTO_FILE: &str = "trace.perfetto-trace";
/// The records, as `blkparse -i trace` finds them.
pub const BLKTRACE_FILE: &str = "trace.blktrace.0";
/// The summary.
pub const SUMMARY_FILE: &str = "trace.json";

/// The contents of the summary.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// Requests in the files.
    pub requests: u64,
    /// Requests that were seen in part.
    pub incomplete: u64,
    /// Events that were overwritten before they were read, or of which there were too many.
    pub lost: u64,
    /// By tenant, the mean latency in nanoseconds by the statistics, and by its requests.
    pub latencies: BTreeMap<String, (f64, f64)>,
}

impl Summary {
    /// The summary of these requests, beside statistics.
    #[must_use]
    pub fn of(events: &Events, requests: &Requests, statistics: &Sample) -> Self {
        let mut latencies = BTreeMap::new();
        for (tenant, (server, session)) in &statistics.tenants {
            // The statistics have no latencies of others, nor of requests that ended with a command that failed.
            let is_counted = |one: &Request| {
                let last = one.commands.iter().max_by_key(|command| command.completed);
                one.opcode.is_some_and(|opcode| opcode.kind() != Kind::Other) && last.is_some_and(|one| one.status == 0)
            };
            let of_tenant = requests.complete.iter().filter(|one| one.tenant == *tenant && is_counted(one));
            let (traced, sum) =
                of_tenant.fold((0, 0u64), |(count, sum), one| (count + 1, sum.saturating_add(one.latency())));
            let Some(page) = statistics.servers.get(server).filter(|_| traced > 0) else { continue };
            let ticks = session.latency_sums[READS].saturating_add(session.latency_sums[WRITES]);
            let counts = [READS, WRITES].into_iter().flat_map(|one| session.latencies[one].counts());
            let counted: u64 = counts.copied().map(u64::from).sum();
            let ns = ticks as f64 * 1e9 / page.ticks_per_second.max(1) as f64;
            latencies.insert(tenant.clone(), (ns / counted.max(1) as f64, sum as f64 / traced as f64));
        }
        Self {
            requests: requests.complete.len() as u64,
            incomplete: requests.incomplete,
            lost: events.lost().saturating_add(events.given_up()),
            latencies,
        }
    }
}

/// Writes the files of a run into its folder.
///
/// # Errors
/// A file cannot be written, as on a full disk.
pub fn save_in(folder: &Path, places: &Places, requests: &Requests, summary: &Summary) -> Result<()> {
    save_perfetto(requests, &folder.join(PERFETTO_FILE))?;
    save_blktrace(requests, places, &folder.join(BLKTRACE_FILE))?;
    write_whole(&folder.join(SUMMARY_FILE), &serde_json::to_vec_pretty(summary)?)
}

/// Writes the file for Perfetto.
///
/// # Errors
/// The file cannot be written.
pub fn save_perfetto(requests: &Requests, file: &Path) -> Result<()> {
    save(file, |to| perfetto::write(requests, to))
}

/// Writes the records of blktrace.
///
/// # Errors
/// The file cannot be written.
pub fn save_blktrace(requests: &Requests, places: &Places, file: &Path) -> Result<()> {
    save(file, |to| blktrace::write(requests, places, to))
}

/// Writes a file; one that could not be written whole is removed.
fn save(file: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<()> {
    let is_new = !file.exists();
    let cannot = || format!("cannot write the trace to {}", file.display());
    let mut to = BufWriter::new(File::create(file).with_context(cannot)?);
    let written = write(&mut to);
    if written.is_err() {
        // What is buffered has no place.
        drop(to.into_parts());
        if is_new {
            let _ = fs::remove_file(file);
        }
    }
    written.with_context(cannot)
}

#[cfg(test)]
mod tests {
    use super::super::requests::tests::two_reads;
    use super::*;

    #[test]
    fn a_full_disk_is_one_sentence() {
        let requests = Requests { complete: two_reads(), incomplete: 0 };
        let error = save_perfetto(&requests, Path::new("/dev/full")).unwrap_err();
        assert_eq!(format!("{error:#}"), "cannot write the trace to /dev/full: No space left on device (os error 28)");
        assert!(Path::new("/dev/full").exists());
        let folder = tempfile::tempdir().unwrap();
        save_blktrace(&requests, &Places::default(), &folder.path().join(BLKTRACE_FILE)).unwrap();
        assert!(save_perfetto(&requests, &folder.path().join("no/folder")).is_err());
    }
}
