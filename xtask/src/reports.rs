//! Reports of runs and experiments for readers: tables, pictures, and lines about events while a run goes on.

pub(crate) mod figure;
pub(crate) mod live_log;
pub(crate) mod plain;
pub(crate) mod table;
pub(crate) mod timeline;
