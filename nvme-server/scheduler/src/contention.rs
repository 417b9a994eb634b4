//! Tracks which sessions contend for the device: an equal that is away for a moment still counts.
//!
//! The sessions that wait are not all that want the device. A client that takes its completions, or whose requests are all
//! in the device, waits for no turn and comes back at once. Commands that its equals submit meanwhile are before it then.
//! So a session has the device to itself only when no other submitted a command or got one back for a while (SEEDS V13).

use crate::share::SessionId;

/// The last two sessions that submitted commands or got some back, and when.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContentionTracker {
    last: Option<(SessionId, u64)>,
    /// Of another session than `last`.
    before: Option<(SessionId, u64)>,
}

impl ContentionTracker {
    /// Records that a session submitted commands or got some back.
    #[inline]
    pub(crate) fn seen(&mut self, session: SessionId, now: u64) {
        if self.last.is_some_and(|(last, _)| last != session) {
            self.before = self.last;
        }
        self.last = Some((session, now));
    }

    /// When a session other than `session` was seen last, if any was.
    #[inline]
    pub(crate) fn seen_beside(&self, session: SessionId) -> Option<u64> {
        let other = if self.last.is_some_and(|(last, _)| last == session) { self.before } else { self.last };
        other.map(|(_, at)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_seen_most_often_the_others_are_remembered() {
        let mut contention = ContentionTracker::default();
        assert_eq!(contention.seen_beside(SessionId(0)), None);
        [(0, 1), (1, 2), (0, 3), (0, 4)].iter().for_each(|(session, at)| contention.seen(SessionId(*session), *at));
        let beside =
            |contention: &ContentionTracker| [0, 1, 2].map(|session| contention.seen_beside(SessionId(session)));
        assert_eq!(beside(&contention), [Some(2), Some(4), Some(4)]);
        contention.seen(SessionId(2), 5);
        assert_eq!(beside(&contention), [Some(5), Some(5), Some(4)]);
    }
}
