//! The components' telemetry as the build machine reads it from the machine's memory, while the system runs or after its end.
//!
//! [`physical`] is the memory, [`sample`] one reading of all pages, and [`figures`] what lies between two readings: rates and
//! latencies. By its [`announcement`] another process finds a run, and in a system with a control component asks that for acts by its
//! [`mailbox`], notes them as its [`acts`], and lays data of commands for a controller into a [`window`]. The layouts are
//! `blk_api::telemetry`'s and `control_api::mailbox`'s.
//!
//! [`events`] has the events of traces, and [`requests`] makes single requests of them. They are written for [`perfetto`] and as
//! records of Linux's [`blktrace`], both [`saved`] in files.

pub mod acts;
pub mod announcement;
pub mod blktrace;
pub mod events;
pub mod figures;
pub mod mailbox;
pub mod perfetto;
pub mod physical;
pub mod requests;
pub mod sample;
pub mod saved;
pub mod window;
