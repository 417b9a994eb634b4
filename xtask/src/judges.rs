//! The judges of a finished run: each compares what its records say, or what its disk images hold, with the scenario.
//!
//! `verdict` asks those that go by records and the scenario alone. `installed`, `missing` and `written` need more, the
//! specification or the images, and are asked by the run.

pub(crate) mod completions;
pub(crate) mod digests;
pub(crate) mod image_check;
pub(crate) mod installed;
pub(crate) mod interrupts;
pub(crate) mod leaks;
pub(crate) mod limits;
pub(crate) mod missing;
pub(crate) mod probe;
pub(crate) mod spans;
pub(crate) mod verdict;
