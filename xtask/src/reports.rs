//! Reports of runs and experiments for readers: tables, pictures, and a live log of events.

pub mod count;
pub mod figure;
pub(crate) mod live_log;
pub mod sheet;
pub mod table;
pub mod timeline;
pub mod wrap;
