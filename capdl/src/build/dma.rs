//! Amounts of memory for devices: the pool of a device's driver, and the IO page tables by which the device reaches the pool
//! and the windows.

use blk_api::queue_sharing::QueueSharing;

/// Bytes that one leaf of the IO page tables covers.
const IO_LEAF_BYTES: u64 = 2 << 20;
/// Bytes that one table above the leaves covers. The NVMe server's pool, and the windows together, begin at a multiple of it.
const IO_MIDDLE_BYTES: u64 = 1 << 30;
/// Spare IO page tables.
const SPARE_IO_TABLES: u64 = 4;

/// Pages of an NVMe server's pool: the admin queue pair, identify data, and for each queue pair its two queues and the PRP
/// lists of its commands. `own` has for each tenant the most queue pairs of its own and their depth.
pub(crate) fn pool_pages(queues: QueueSharing, own: impl Iterator<Item = (u16, u16)>) -> u64 {
    let pages = |(queue_pairs, depth): (u16, u16)| u64::from(queue_pairs) * (4 + 2 * u64::from(depth));
    64 + queues.common().map_or_else(|| own.map(pages).sum(), pages)
}

/// IO page tables for the pool and the windows: a top, a middle for each GiB, a leaf for each 2 MiB.
pub(super) fn io_tables(pool_bytes: u64, windows: impl Iterator<Item = u64>) -> u64 {
    let pool_leaves = pool_bytes.div_ceil(IO_LEAF_BYTES);
    let leaves = windows.fold(0, |leaves, bytes| leaves + bytes.div_ceil(IO_LEAF_BYTES));
    let middles = |leaves: u64| (leaves * IO_LEAF_BYTES).div_ceil(IO_MIDDLE_BYTES);
    1 + middles(pool_leaves) + middles(leaves) + pool_leaves + leaves + SPARE_IO_TABLES
}
