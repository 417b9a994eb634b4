//! The records of a run: log lines and typed results, decoded from the serial line.
//!
//! Left out: judging the records, and layout for readers.

pub(crate) mod decode;
pub(crate) mod lateness;
pub(crate) mod plan;
pub(crate) mod rates;
pub(crate) mod results;
#[cfg(feature = "all-commands")]
pub(crate) mod schema;
pub(crate) mod timeline;
