//! Refusals of workloads that contradict their tenant or its namespace.

use crate::scenario::refusal::{Checked, refuse};
use crate::scenario::validate::limits::PAGE;
use crate::scenario::{Namespace, Path, Tenant, Workload};
use blk_api::config;
use blk_api::ring::MAX_ENTRIES;
use workload::{Bench, Completion, Digest, Flood, Forbidden, Hostile};

/// Largest window: a client's heap of 1 MiB keeps 8 bytes for each of its pages.
const MAX_WINDOW: u64 = 256 << 20;
/// A tick, for which a thread may sleep.
const TICK_MICROSECONDS: u64 = 50_000;

/// Checks the tenant's workload, and its window with it.
pub(super) fn check(tenant: &Tenant, namespace: &Namespace, line: usize) -> Checked {
    match &tenant.workload {
        Workload::Bench(bench) => check_bench(tenant, bench, namespace, line),
        Workload::Digest(digest) => check_digest(tenant, digest, namespace, line),
        Workload::Signal(signal) if signal.operations == 0 => {
            refuse(line, format!("tenant `{}` signals 0 times: give it operations", tenant.name))
        }
        Workload::Flood(flood) => check_flood(tenant, flood, line),
        Workload::Hostile(hostile) => check_hostile(tenant, hostile, line),
        Workload::Signal(_) | Workload::Own(_) => Ok(()),
    }?;
    check_window(tenant, namespace.block_bytes, line)
}

/// A last attack must be possible on the tenant's path.
fn check_hostile(tenant: &Tenant, hostile: &Hostile, line: usize) -> Checked {
    let (last, name) = (hostile.last, &tenant.name);
    match tenant.path {
        Path::Function if last.needs_rings() => refuse(
            line,
            format!("tenant `{name}` drives a function, and its last attack is one on rings: name another"),
        ),
        Path::Server if last.needs_function() => {
            refuse(line, format!("tenant `{name}` has no function for its last attack: write `path = \"function\"`"))
        }
        Path::Function | Path::Server => Ok(()),
    }
}

fn check_window(tenant: &Tenant, block_bytes: u32, line: usize) -> Checked {
    let Tenant { name, window, .. } = tenant;
    if *window == 0 || !window.is_multiple_of(PAGE) || *window > MAX_WINDOW {
        return refuse(
            line,
            format!("tenant `{name}` has a window of {window} bytes: make it a multiple of 4096 up to 256M"),
        );
    }
    let (depth, request) = match &tenant.workload {
        Workload::Bench(bench) => (bench.depth, bench_window(bench, block_bytes)),
        Workload::Digest(digest) => (digest.depth, u64::from(digest.block_bytes)),
        Workload::Flood(_) | Workload::Hostile(_) | Workload::Signal(_) | Workload::Own(_) => return Ok(()),
    };
    if depth == 0 || u32::from(depth) > MAX_ENTRIES {
        return refuse(line, format!("tenant `{name}` has a workload of depth {depth}: give it 1 to {MAX_ENTRIES}"));
    }
    let needed = u64::from(depth).saturating_mul(request);
    if needed > *window {
        return refuse(
            line,
            format!(
                "tenant `{name}` keeps {depth} requests in flight that take {request} bytes of window each \
                 but has a window of {window} bytes: give it {needed}"
            ),
        );
    }
    if u32::from(depth) > tenant.ring_entries {
        return refuse(
            line,
            format!(
                "tenant `{name}` keeps {depth} requests in flight but has {} ring entries: give it more",
                tenant.ring_entries
            ),
        );
    }
    Ok(())
}

/// Bytes of window that one request of a load takes: each of its ranges starts on a page, and several ranges do not touch each
/// other.
fn bench_window(bench: &Bench, block_bytes: u32) -> u64 {
    let largest = bench.block_bytes.max(bench.max_block_bytes);
    let segments = u32::from(bench.segments.max(1));
    let blocks = largest.checked_div(block_bytes).unwrap_or(0).div_ceil(segments);
    let range = u64::from(blocks) * u64::from(block_bytes) + u64::from(bench.misalign_bytes);
    let gap = if segments > 1 { PAGE } else { 0 };
    (range.next_multiple_of(PAGE) + gap) * u64::from(segments)
}

fn check_bench(tenant: &Tenant, bench: &Bench, namespace: &Namespace, line: usize) -> Checked {
    let name = &tenant.name;
    let block = namespace.block_bytes;
    for (key, bytes) in [("block_bytes", bench.block_bytes), ("max_block_bytes", bench.max_block_bytes)] {
        if !bytes.is_multiple_of(block) || (key == "block_bytes" && bytes == 0) {
            return refuse(
                line,
                format!(
                    "tenant `{name}` has a workload with {key} = {bytes}, no multiple of the \
                     namespace's blocks of {block} bytes: change it"
                ),
            );
        }
    }
    if !bench.max_block_bytes.is_multiple_of(bench.block_bytes) {
        return refuse(
            line,
            format!("tenant `{name}` has max_block_bytes that are no multiple of its block_bytes: change them"),
        );
    }
    if matches!(bench.forbidden, Forbidden::ForGood | Forbidden::ForAWhile) && bench.max_block_bytes > 0 {
        return refuse(
            line,
            format!(
                "tenant `{name}` has a workload with forbidden and with max_block_bytes, so nobody could tell which \
                 blocks were forbidden: leave out max_block_bytes"
            ),
        );
    }
    let bytes = tenant.blocks().saturating_mul(u64::from(block));
    if u64::from(bench.block_bytes.max(bench.max_block_bytes)) > bytes {
        return refuse(
            line,
            format!("tenant `{name}` asks for more bytes at once than its extents have ({bytes}): lengthen them"),
        );
    }
    if bench.operations == 0 && bench.milliseconds == 0 && tenant.ends.is_none() {
        return refuse(
            line,
            format!(
                "tenant `{name}` has a workload that never ends: give it operations, milliseconds, or the moment that `ends` it"
            ),
        );
    }
    if bench.read_percent > 100 {
        return refuse(line, format!("tenant `{name}` has read_percent = {}: give it 0 to 100", bench.read_percent));
    }
    if bench.think_microseconds >= TICK_MICROSECONDS {
        return refuse(
            line,
            format!(
                "tenant `{name}` has think_microseconds = {}: give it 0 to {}, less than a tick",
                bench.think_microseconds,
                TICK_MICROSECONDS - 1
            ),
        );
    }
    if !(1..=5).contains(&bench.segments) {
        return refuse(line, format!("tenant `{name}` has requests of {} segments: give it 1 to 5", bench.segments));
    }
    if !bench.misalign_bytes.is_multiple_of(4) || u64::from(bench.misalign_bytes) >= PAGE {
        return refuse(
            line,
            format!(
                "tenant `{name}` has misalign_bytes = {}: make it a multiple of 4 below 4096",
                bench.misalign_bytes
            ),
        );
    }
    check_completion(tenant, bench, line)?;
    let writable = tenant.writable && tenant.extents.iter().all(|extent| extent.writable);
    if !writable && (bench.verify || bench.read_percent < 100 || bench.zeroes) {
        return refuse(
            line,
            format!(
                "tenant `{name}` may not write all its extents but has a workload that does: set verify = false and read_percent = 100"
            ),
        );
    }
    match bench.bad_block {
        Some(bad) if bad >= tenant.blocks() => {
            refuse(line, format!("tenant `{name}` has bad_block = {bad} but {} blocks: lower it", tenant.blocks()))
        }
        _ => Ok(()),
    }
}

/// Checks the choice how completions are awaited.
fn check_completion(tenant: &Tenant, bench: &Bench, line: usize) -> Checked {
    let name = &tenant.name;
    let is_bare = !bench.measure.is_empty() && !bench.measure.starts_with("device-");
    match bench.completion {
        Completion::Session => Ok(()),
        _ if is_bare => refuse(
            line,
            format!(
                "tenant `{name}` measures `{}` on the bare ring, where no request chooses its completion: take the \
                 workload's completion away, or give the measurement a name that begins with `device-`",
                bench.measure
            ),
        ),
        Completion::SleepThenPoll if !tenant.alarm => refuse(
            line,
            format!("tenant `{name}` sleeps until a completion is due but may ask for no alarm: write `alarm = true`"),
        ),
        Completion::Interrupt if tenant.path == Path::Function && tenant.completion == config::Completion::Polled => {
            refuse(
                line,
                format!(
                    "tenant `{name}` awaits interrupts of a function that is polled and has none: write \
                     `completion = \"interrupt\"` for the tenant"
                ),
            )
        }
        Completion::Interrupt | Completion::Polled | Completion::SleepThenPoll | Completion::Automatic => Ok(()),
    }
}

fn check_flood(tenant: &Tenant, flood: &Flood, line: usize) -> Checked {
    let name = &tenant.name;
    if flood.kinds.is_empty() {
        return refuse(line, format!("tenant `{name}` has a flood of no kinds: name one, such as \"requests\""));
    }
    if flood.turn_milliseconds == 0 {
        return refuse(line, format!("tenant `{name}` has a flood with turns of 0 milliseconds: give them 1 or more"));
    }
    if flood.read_percent > 100 {
        return refuse(line, format!("tenant `{name}` has read_percent = {}: give it 0 to 100", flood.read_percent));
    }
    if flood.blocks > tenant.blocks() {
        let (blocks, has) = (flood.blocks, tenant.blocks());
        return refuse(line, format!("tenant `{name}` floods {blocks} blocks but has {has}: lower blocks"));
    }
    Ok(())
}

fn check_digest(tenant: &Tenant, digest: &Digest, namespace: &Namespace, line: usize) -> Checked {
    let name = &tenant.name;
    let block = u64::from(namespace.block_bytes);
    // Its report names one range of the namespace, over which the build machine computes its own digest.
    if tenant.extents.len() > 1 {
        return refuse(
            line,
            format!(
                "tenant `{name}` digests {} extents, and a digest is over one range of the disk: give it one extent",
                tenant.extents.len()
            ),
        );
    }
    if digest.depth == 0 || digest.block_bytes == 0 || !u64::from(digest.block_bytes).is_multiple_of(block) {
        return refuse(
            line,
            format!(
                "tenant `{name}` digests with depth or block_bytes that do not fit blocks of {block} bytes: change them"
            ),
        );
    }
    if !digest.first_byte.is_multiple_of(block) || !digest.bytes.is_multiple_of(block) {
        return refuse(
            line,
            format!("tenant `{name}` digests a range that does not lie on blocks of {block} bytes: align it"),
        );
    }
    let bytes = tenant.blocks().saturating_mul(block);
    if digest.first_byte.saturating_add(digest.bytes) > bytes {
        return refuse(
            line,
            format!("tenant `{name}` digests beyond the {bytes} bytes of its extents: shorten the range"),
        );
    }
    Ok(())
}
