//! The components' telemetry as the build machine reads it from the machine's memory, while the system runs or after its end.
//!
//! [`physical`] is the memory, [`sample`] one reading of all pages, and [`figures`] what lies between two readings: rates and
//! latencies. By its [`announcement`] another process finds a run. The layout is `blk_api::telemetry`'s.

pub mod announcement;
pub mod figures;
pub mod physical;
pub mod sample;
