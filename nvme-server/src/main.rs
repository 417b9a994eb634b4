//! The NVMe server's program for seL4.

#![no_std]
#![no_main]

// The table of records has up to 1.2 MB (`extent_table`).
platform_sel4::component!(nvme_server::run, heap = platform_sel4::HEAP_BYTES + (5 << 18));
