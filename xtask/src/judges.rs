//! Judges of a finished run: each compares the records, or the content of the disk images, with the scenario.
//!
//! `verdict` calls those that need only records and the scenario. `image_check`, `installed`, `missing` and the violations of
//! `probe` need more, the images or the specification; the run calls them.

pub(crate) mod arrivals;
pub(crate) mod attacks;
pub(crate) mod causes;
pub(crate) mod completions;
pub(crate) mod digests;
pub(crate) mod image_check;
pub(crate) mod installed;
pub(crate) mod interrupts;
pub(crate) mod leaks;
pub(crate) mod limits;
pub(crate) mod missing;
pub(crate) mod probe;
pub(crate) mod proportions;
pub(crate) mod spans;
pub(crate) mod times;
pub(crate) mod verdict;
