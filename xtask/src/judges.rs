//! Judges of a finished run: each compares the records, or the content of the disk images, with the scenario.
//!
//! `verdict` calls those that need only records and the scenario. `image_check`, `installed`, `missing` and the violations of
//! `probe` need more, the images or the specification; the run calls them.

pub(crate) mod arrivals;
pub(crate) mod attacks;
pub mod causes;
pub mod completions;
pub mod digests;
pub mod image_check;
pub mod installed;
pub mod interrupts;
pub(crate) mod leaks;
pub mod limits;
pub mod missing;
pub mod probe;
pub(crate) mod proportions;
pub(crate) mod spans;
pub mod telemetry;
pub mod times;
pub mod verdict;
