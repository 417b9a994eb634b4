//! Reports of runs and experiments for readers: tables, pictures, pages, and a live log of events.

pub mod count;
pub mod figure;
pub mod live_log;
pub mod loads;
pub mod page;
pub mod run_page;
pub mod sheet;
pub mod table;
pub mod timeline;
pub mod wrap;
