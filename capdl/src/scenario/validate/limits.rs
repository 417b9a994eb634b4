//! Limits that several checks share.

/// Commands that the NVMe server keeps in flight on a queue pair, at most.
pub(super) const MAX_DEPTH: u16 = 1024;

/// Bytes of the largest namespace of a scenario, 1 EiB: larger than any real one.
pub(super) const MAX_NAMESPACE: u64 = 1 << 60;
pub(super) const PAGE: u64 = 4096;
