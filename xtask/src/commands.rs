//! The commands of `cargo xtask`, a module each, and the parts of the larger ones.
//!
//! Parts of `test` are `bad_input`, `counted`, `first_hour`, `hang`, `own_program` and `scale`; of `bench`, `bench_sim` and `profile`; of
//! `check`, `directions` and `documents`. `docs` uses `documents` too.
//!
//! A program without the feature `all-commands` has `demo`, `new`, `qemu` and `scenarios`, and `again`, which runs the whole program for
//! all others.

pub(crate) mod again;
#[cfg(feature = "all-commands")]
pub(crate) mod bad_input;
#[cfg(feature = "all-commands")]
pub(crate) mod bench;
#[cfg(feature = "all-commands")]
pub(crate) mod bench_sim;
#[cfg(feature = "all-commands")]
pub(crate) mod check;
#[cfg(feature = "all-commands")]
pub(crate) mod completions;
#[cfg(feature = "all-commands")]
pub(crate) mod conformance;
#[cfg(feature = "all-commands")]
pub(crate) mod counted;
pub(crate) mod demo;
#[cfg(feature = "all-commands")]
pub(crate) mod device;
#[cfg(feature = "all-commands")]
pub(crate) mod directions;
#[cfg(feature = "all-commands")]
pub(crate) mod docs;
#[cfg(feature = "all-commands")]
pub(crate) mod documents;
#[cfg(feature = "all-commands")]
pub(crate) mod experiment;
#[cfg(feature = "all-commands")]
pub(crate) mod first_hour;
#[cfg(feature = "all-commands")]
pub(crate) mod fuzz;
#[cfg(feature = "all-commands")]
pub(crate) mod hang;
#[cfg(feature = "all-commands")]
pub(crate) mod linux;
pub(crate) mod new;
#[cfg(feature = "all-commands")]
pub(crate) mod own_program;
#[cfg(all(test, feature = "all-commands"))]
mod pictures;
#[cfg(feature = "all-commands")]
pub(crate) mod profile;
pub(crate) mod qemu;
#[cfg(feature = "all-commands")]
pub(crate) mod scale;
pub(crate) mod scenarios;
#[cfg(feature = "all-commands")]
pub(crate) mod sim;
#[cfg(feature = "all-commands")]
pub(crate) mod soak;
#[cfg(feature = "all-commands")]
pub(crate) mod sweep;
#[cfg(feature = "all-commands")]
pub(crate) mod test;
