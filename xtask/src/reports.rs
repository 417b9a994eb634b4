//! Reports of runs and experiments for readers: tables, pictures, and a live log of events.

pub(crate) mod count;
pub(crate) mod figure;
pub(crate) mod live_log;
pub(crate) mod sheet;
pub(crate) mod table;
pub(crate) mod timeline;
pub(crate) mod wrap;
