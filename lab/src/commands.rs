//! The commands, a module each, and the parts of the larger ones.
//!
//! Parts of `test` are `bad_input`, `browser`, `counted`, `guides`, `hang`, `own_program`, `scale`, `traced` and `watched`; of `bench`, `bench_sim` and `profile`; of
//! `check`, `directions` and `documents`. `docs` uses `documents` too.

pub(crate) mod bad_input;
pub(crate) mod bench;
pub(crate) mod bench_sim;
pub(crate) mod browser;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod conformance;
pub(crate) mod counted;
pub(crate) mod ctl;
pub(crate) mod device;
pub(crate) mod directions;
pub(crate) mod docs;
pub(crate) mod documents;
pub(crate) mod experiment;
pub(crate) mod fuzz;
pub(crate) mod guides;
pub(crate) mod hang;
pub(crate) mod linux;
pub(crate) mod nvme;
pub(crate) mod own_program;
#[cfg(test)]
mod pictures;
pub(crate) mod profile;
pub(crate) mod scale;
pub(crate) mod sim;
pub(crate) mod soak;
pub(crate) mod sweep;
pub(crate) mod test;
pub(crate) mod top;
pub(crate) mod traced;
pub(crate) mod watched;
pub(crate) mod web;
