//! The components' telemetry as the build machine reads it from the machine's memory, while the system runs or after its end.
//!
//! [`physical`] is the memory, [`sample`] one reading of all pages, and [`figures`] what lies between two readings: rates and
//! latencies. By its [`announcement`] another process finds a run, and in a system with a control component asks that for acts by its
//! [`mailbox`]. The layouts are `blk_api::telemetry`'s and `control_api::mailbox`'s.

pub mod announcement;
pub mod figures;
pub mod mailbox;
pub mod physical;
pub mod sample;
