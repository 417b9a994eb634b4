//! The records of a run: log lines and typed results, decoded from the serial line.
//!
//! Nothing is judged here, and nothing is laid out for readers.

pub(crate) mod decode;
pub(crate) mod results;
pub(crate) mod timeline;
