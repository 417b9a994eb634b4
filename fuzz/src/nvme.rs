//! The whole NVMe server in the world of its own tests: a fake kernel and a strict controller, both in memory.

pub mod completions;
pub mod identify;
#[expect(dead_code, unused_imports, reason = "the server's tests use more of their world than these targets")]
#[path = "../../nvme-server/tests/server/support/mod.rs"]
mod support;
