//! Self-tests of a controller: the one that runs, and the results of the last ones (section 8.11).
//!
//! Nothing happens at the end of a test but that the log has its result. So the end is noticed at the next look.

use std::collections::VecDeque;

use nvme_spec::Nsid;
use nvme_spec::admin::SelfTestCode;
use nvme_spec::log::{SelfTestEntry, SelfTestLog, SelfTestResult};
use zerocopy::FromZeros;

/// Results that the log keeps.
const KEPT: usize = 20;
const NS_PER_HOUR: u64 = 3_600_000_000_000;

/// A test that runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Running {
    pub(super) code: SelfTestCode,
    /// The namespaces that are tested besides the controller: one, all, or none.
    pub(super) nsid: Nsid,
    pub(super) began_ns: u64,
    pub(super) ends_ns: u64,
}

/// The test that runs, and the results.
#[derive(Debug, Default)]
pub(crate) struct SelfTests {
    running: Option<Running>,
    /// The newest first.
    results: VecDeque<SelfTestEntry>,
}

impl SelfTests {
    pub(super) const fn running(&self) -> Option<Running> {
        self.running
    }

    /// Starts a test. None runs.
    pub(super) const fn start(&mut self, test: Running) {
        self.running = Some(test);
    }

    /// Ends the test that runs, if there is one.
    pub(super) fn end(&mut self, result: SelfTestResult, at_ns: u64) {
        if let Some(test) = self.running.take() {
            self.results.truncate(KEPT - 1);
            self.results.push_front(SelfTestEntry::of(test.code, result, at_ns / NS_PER_HOUR));
        }
    }

    /// Resets with the controller: a short test ends, and an extended one goes on.
    pub(super) fn reset(&mut self, now_ns: u64) {
        if self.running.is_some_and(|test| test.code == SelfTestCode::Short) {
            self.end(SelfTestResult::AbortedByReset, now_ns);
        }
    }

    /// The log page.
    pub(super) fn log(&self, now_ns: u64) -> SelfTestLog {
        let mut log = SelfTestLog::new_zeroed();
        if let Some(test) = self.running {
            let whole = test.ends_ns.saturating_sub(test.began_ns).max(1);
            let done = u128::from(now_ns.saturating_sub(test.began_ns)) * 100 / u128::from(whole);
            log.current = test.code as u8;
            log.percent = u8::try_from(done.min(100)).unwrap_or(100);
        }
        let results = self.results.iter().copied().chain(std::iter::repeat(SelfTestEntry::unused()));
        for (place, result) in log.results.iter_mut().zip(results) {
            *place = result;
        }
        log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_twenty_results_are_kept() {
        let mut tests = SelfTests::default();
        tests.end(SelfTestResult::Passed, 0);
        assert_eq!(tests.log(0).results[0].result(), Some(SelfTestResult::Unused));
        for hour in 0..21 {
            let began_ns = hour * NS_PER_HOUR;
            let code = SelfTestCode::Extended;
            tests.start(Running { code, nsid: Nsid::NONE, began_ns, ends_ns: began_ns + 8 });
            tests.reset(began_ns);
            let log = tests.log(began_ns + 2);
            assert_eq!((log.current, log.percent), (2, 25));
            tests.end(SelfTestResult::Passed, began_ns + 8);
        }
        let log = tests.log(0);
        assert_eq!((log.current, log.percent), (0, 0));
        assert_eq!((log.results[0].hours.get(), log.results[19].hours.get()), (20, 1));
    }
}
