//! Requests that are counted together.

use crate::data_plane::in_flight::Work;
use blk_api::request::Opcode;

/// Requests of one command each that were alike, submitted at one time and completed at another: they are counted together.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub work: Work,
    /// Times of the submission and of the completion, in ticks.
    pub submitted: u64,
    pub completed: u64,
    pub count: u32,
}

impl Run {
    /// A run of no requests.
    pub(super) const NONE: Self = Self { work: Work::new(0, Opcode::Flush, 0), submitted: 0, completed: 0, count: 0 };
}
