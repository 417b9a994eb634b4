//! Counters of a flood.

use core::fmt::Write as _;
use report::Text;

/// Counters of a flood since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    /// Entries published.
    pub(crate) requests: u64,
    /// Entries answered with success.
    pub(crate) done: u64,
    /// Bytes of the blocks that the successful entries name.
    pub(crate) bytes: u64,
    /// Entries answered with another status.
    pub(crate) refused: u64,
    /// Calls and messages, without openings and closings.
    pub(crate) calls: u64,
    /// Sessions opened, and attempts to open one.
    pub(crate) openings: u64,
    /// Signals with nothing new on the ring.
    pub(crate) signals: u64,
}

impl Counts {
    /// Formats the counts as a sentence.
    pub(crate) fn sentence(&self) -> Text {
        let Self { requests, done, bytes: _, refused, calls, openings, signals } = self;
        let mut text = Text::new();
        // Text that does not fit is cut off.
        let _ = write!(
            text,
            "flood: {requests} requests ({done} done, {refused} refused), {calls} calls, {openings} openings, {signals} \
             empty signals"
        );
        text
    }
}

/// Increments a counter.
pub(crate) const fn count(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}
