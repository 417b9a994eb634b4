//! Amounts of memory for devices: the pool of a device's driver, and the IO page tables by which the device reaches the pool
//! and the windows.

use blk_api::queue_sharing::QueueSharing;

/// Bytes that one leaf of the IO page tables covers.
const IO_LEAF_BYTES: u64 = 2 << 20;
/// Where the NVMe server puts its own pool in the device's address space; windows follow from the next GiB on.
const POOL_IOVA: u64 = 0x0100_0000;
/// Where windows begin there.
const WINDOWS_IOVA: u64 = 0x4000_0000;
/// The largest pool, for the tables that an SMMU's server keeps for it.
const POOL_BYTES: u64 = 32 << 20;
/// Spare IO page tables.
const SPARE_IO_TABLES: u64 = 4;

/// Pages of an NVMe server's pool: the admin queue pair, identify data, and for each queue pair its two queues and the PRP
/// lists of its commands. `own` has for each tenant the most queue pairs of its own and their depth.
pub(super) fn pool_pages(queues: QueueSharing, own: impl Iterator<Item = (u16, u16)>) -> u64 {
    let pages = |(queue_pairs, depth): (u16, u16)| u64::from(queue_pairs) * (4 + 2 * u64::from(depth));
    64 + queues.common().map_or_else(|| own.map(pages).sum(), pages)
}

/// IO page tables for the pool and the windows: a top, a middle for each GiB, a leaf for each 2 MiB.
pub(super) fn io_tables(pool_bytes: u64, windows: impl Iterator<Item = u64>) -> u64 {
    let leaves = windows.fold(0, |leaves, bytes| leaves + bytes.div_ceil(IO_LEAF_BYTES));
    let windows_end = WINDOWS_IOVA + leaves * IO_LEAF_BYTES;
    let gigabytes = windows_end.div_ceil(1 << 30);
    let pool_leaves = (POOL_IOVA + pool_bytes).div_ceil(IO_LEAF_BYTES) - POOL_IOVA / IO_LEAF_BYTES;
    1 + gigabytes + pool_leaves + leaves + SPARE_IO_TABLES
}

/// Pages for tables of an SMMU with a function for each of `functions` controllers, whose drivers have pools of up to
/// [`POOL_BYTES`]: four of its own; for each function those of its stream, its address space, and what it covers from its
/// first page to its last window, that of interrupts included; and for each 2 MiB of windows.
pub(super) fn smmu_pages(functions: u64, windows: impl IntoIterator<Item = u64>) -> u64 {
    let leaves: u64 = windows.into_iter().map(|bytes| bytes.div_ceil(IO_LEAF_BYTES) + 1).sum();
    let gigabytes = (WINDOWS_IOVA + leaves * IO_LEAF_BYTES).div_ceil(1 << 30);
    4 + functions * (4 + gigabytes + POOL_BYTES.div_ceil(IO_LEAF_BYTES)) + leaves + SPARE_IO_TABLES
}
