//! Decides whether a hybrid session is polled for its completions or relies on its vector.
//!
//! A poll finds a completion sooner than its interrupt. A poll that finds nothing costs processor time, and the interrupt
//! comes all the same. So a hybrid session is polled while recent polls found something. While they did not, it is polled
//! again from time to time, because the device's speed changes.

/// Polls in a row that find nothing before the session relies on its vector. Each is a pass, about 2.5 % of what a batch of 32
/// reads costs, so a row costs no more than 5 %.
const MOST_POLLS: u16 = 2;
/// The least number of the last eight rows that must find something for polling to pay.
const PAYS: u32 = 7;
/// Rows left out between two that try whether polling pays again.
const PAUSE: u8 = 255;

/// The outcomes of the last rows of polls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct History {
    /// The last eight rows, a bit each: whether the row found something.
    recent: u8,
    /// Rows that were left out since the last one.
    left_out: u8,
    /// A row was begun and found nothing yet.
    is_polling: bool,
}

impl History {
    /// Creates the history of a session that was not polled yet: polling is tried.
    pub(crate) const fn new() -> Self {
        Self { recent: u8::MAX, left_out: 0, is_polling: false }
    }

    /// Whether the session, which has commands in flight, is polled again after `idle_polls` polls in a row that found nothing.
    /// The pass that found something counts as the first.
    pub(crate) const fn polls_again(&mut self, idle_polls: u16) -> bool {
        if self.is_polling && idle_polls > 1 && idle_polls <= MOST_POLLS {
            return true;
        }
        // A row that ended, or that a signal came before.
        self.end(0);
        if idle_polls > 1 {
            return false;
        }
        self.is_polling = self.recent.count_ones() >= PAYS || self.left_out == PAUSE;
        self.left_out = if self.is_polling { 0 } else { self.left_out.saturating_add(1) };
        self.is_polling
    }

    /// A poll found something.
    pub(crate) const fn found(&mut self) {
        self.end(1);
    }

    const fn end(&mut self, found: u8) {
        if self.is_polling {
            self.recent = self.recent << 1 | found;
            self.is_polling = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The polls of `rows` rows in which each poll finds something after `after` others.
    fn polls(history: &mut History, rows: u32, after: u16) -> u32 {
        let mut polls = 0;
        for _ in 0..rows {
            let mut idle_polls = 1;
            while history.polls_again(idle_polls) {
                polls += 1;
                if idle_polls > after {
                    history.found();
                    break;
                }
                idle_polls += 1;
            }
        }
        polls
    }

    #[test]
    fn a_device_that_is_quick_is_polled_each_time() {
        assert_eq!(polls(&mut History::new(), 1000, MOST_POLLS - 1), u32::from(MOST_POLLS) * 1000);
    }

    #[test]
    fn slow_device_is_polled_twice_then_once_in_256() {
        let mut history = History::new();
        assert_eq!(polls(&mut history, 1000, MOST_POLLS), 5 * u32::from(MOST_POLLS));
        // Until it is quick again: seven rows that try, and then each.
        polls(&mut history, 256 * 7, 0);
        assert_eq!(polls(&mut history, 100, 0), 100);
    }
}
