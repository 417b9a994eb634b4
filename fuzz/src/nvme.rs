//! The whole NVMe server in the world of its own tests: a fake kernel and a strict controller, both in memory.

pub mod administration;
pub mod completions;
pub mod identify;
#[expect(dead_code, unused_imports, reason = "the server's tests use more of their world than these targets")]
#[path = "../../nvme-server/tests/server/support/mod.rs"]
mod support;

use std::ops::Range;
use support::{System, WINDOW, frames_of};

/// The I/O addresses of a session's window, from 0 on if the device does not reach it.
fn window(system: &System, index: usize) -> Range<u64> {
    let state = system.world.state();
    let pages = state.bus.mapped.iter().filter(|(slot, _)| frames_of(index).contains(slot)).map(|(_, page)| page);
    let first = pages.min().map_or(0, |page| page * 4096);
    first..first + WINDOW as u64
}
