//! The authority checker (`capdl-check`), tested here with systems that are built and changed.

pub use capdl_check::{Channel, Leak, Rule, authority};

#[cfg(test)]
mod tests;
