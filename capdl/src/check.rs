//! The authority checker (`capdl-check`), tested here with systems that are built and changed.

pub use capdl_check::registers::{EDU_PAGES, PROBE_QUEUE_PAIRS, register_pages};
pub use capdl_check::{Channel, Declaration, Leak, Rule, authority, declaration};

#[cfg(test)]
mod tests;
