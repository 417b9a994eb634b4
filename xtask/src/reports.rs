//! What readers get of a run or an experiment: tables, pictures, and lines about events while it goes on.

pub(crate) mod figure;
pub(crate) mod plain;
pub(crate) mod story;
pub(crate) mod table;
pub(crate) mod timeline;
