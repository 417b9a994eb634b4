//! The result of the generator's steps.

/// A value, or the reason in one sentence.
pub(crate) type Result<T> = std::result::Result<T, String>;
