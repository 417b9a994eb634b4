//! The heap of a client: the parts that the client library takes for a session, and the part that is left to the program.
//!
//! The library asserts that its types are not larger, and the system's model refuses a tenant whose parts are more than the heap
//! ([`platform::HEAP_BYTES`]). Left out: what a program has for each of its requests (`workload`).

/// Bytes for everything that does not depend on the session's sizes: the program's futures, tables and buffers, its environment.
pub const PROGRAM_BYTES: usize = 320 << 10;
/// Bytes for each page of the window: the state of its lease.
pub const A_PAGE: usize = 8;
/// Bytes for each entry of the rings: a request's slot, its places in the library's queues, and its copy while all requests are
/// submitted again.
pub const AN_ENTRY: usize = 320;
/// Further bytes for each entry in a session with a function of its own: a request that waits, an answer, a command, and a request of
/// several commands, both with their times where there is telemetry. All of them are there twice while the function is brought up again.
pub const A_FUNCTION_ENTRY: usize = 320;

/// Bytes of the heap for a session with a window of `window_bytes` and so many ring entries, and for everything else but the program's
/// requests.
#[must_use]
pub const fn session(window_bytes: u64, ring_entries: u32) -> usize {
    let pages = (window_bytes >> platform::PAGE_BITS) as usize;
    let entries = (ring_entries as usize).saturating_mul(AN_ENTRY);
    PROGRAM_BYTES.saturating_add(pages.saturating_mul(A_PAGE)).saturating_add(entries)
}

/// Bytes of the heap for a session with a function of its own, as [`session`].
#[must_use]
pub const fn session_on_function(window_bytes: u64, ring_entries: u32) -> usize {
    let entries = (ring_entries as usize).saturating_mul(A_FUNCTION_ENTRY);
    session(window_bytes, ring_entries).saturating_add(entries)
}
