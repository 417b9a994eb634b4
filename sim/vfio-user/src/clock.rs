//! The server's clock.

use std::time::Instant;

/// Nanoseconds since the server was bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Instant,
}

impl Clock {
    /// Starts at zero.
    pub(crate) fn start() -> Self {
        Self { began: Instant::now() }
    }

    /// The time now. Saturates after 584 years.
    pub(crate) fn now_ns(self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
