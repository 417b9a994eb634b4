//! The NVMe server's program for seL4.

#![no_std]
#![no_main]

/// The table of records has up to 1.2 MB (`extent_table`).
const RECORDS_HEAP: usize = 5 << 18;

platform_sel4::component!(
    nvme_server::run,
    heap = platform_sel4::HEAP_BYTES + RECORDS_HEAP + blk_api::config::ServerConfig::REQUESTS_HEAP
);
