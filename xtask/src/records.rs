//! The records of a run: log lines and typed results, decoded from the serial line.
//!
//! Left out: judging the records, and layout for readers.

pub mod decode;
pub mod lateness;
pub(crate) mod plan;
pub mod rates;
pub mod results;
pub mod timeline;
