//! Times that are still to come.

use platform::Platform;

/// The clock's ticks `microseconds` from now.
pub(crate) fn after<P: Platform>(platform: &P, microseconds: u64) -> u64 {
    let ticks = microseconds.saturating_mul(platform.ticks_per_second()).checked_div(1_000_000).unwrap_or(0);
    platform.ticks().saturating_add(ticks)
}
