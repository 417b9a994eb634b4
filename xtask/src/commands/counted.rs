//! How the parts of a test run are counted.

/// What came of a test, or of several run as one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counted {
    /// How many passed.
    pub(crate) passed: u64,
    /// Why others failed, one sentence each.
    pub(crate) failed: Vec<String>,
    /// What its first run missed, where it passed when it was run once more.
    pub(crate) repeated: Option<String>,
}

impl Counted {
    /// One test that passed.
    pub(crate) fn one() -> Self {
        Self { passed: 1, ..Self::default() }
    }
}
