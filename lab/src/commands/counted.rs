//! The result type of tests: how many passed, and why others failed.

/// Result of one test, or of several that ran as one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counted {
    /// Number of tests that passed.
    pub(crate) passed: u64,
    /// Reasons of the failures, one sentence each.
    pub(crate) failed: Vec<String>,
    /// Rows that were not judged, because the build machine was too slow, with the measured lateness.
    pub(crate) not_judged: Vec<String>,
    /// Reasons of the failed first run, if the test passed only when it was repeated.
    pub(crate) unsteady: Option<String>,
    /// The reason why the test was not run, with the fix.
    pub(crate) skipped: Option<String>,
}

impl Counted {
    /// A single test that passed.
    pub(crate) fn one() -> Self {
        Self { passed: 1, ..Self::default() }
    }
}
