//! The NVMe server's pages of telemetry: one for the server, then one for each session in the order of their numbers. In a scenario
//! with traces the rings of the sessions' [events](crate::trace) follow, in the same order and of one length.
//!
//! A client with a virtual function of its own has the page [`FUNCTION_PAGE`] with the same contents as a session's, and its ring of
//! events behind that.
//!
//! They are written at each tick, twenty times a second, and a session's once more when the session ends. All sums begin at 0
//! with an incarnation of the server, and those of a session with each opening, so a reader that adds up distinguishes them by
//! [`Server::started_at`] and [`Session::opened_at`]. Times are ticks of the machine's clock.

use crate::operation::Kind;
use crate::session::Statistics;
use ::telemetry::Histogram;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The server's page.
pub const SERVER_PAGE: usize = 0;

/// The page of session number `session`.
#[must_use]
pub const fn session_page(session: usize) -> usize {
    session.saturating_add(1)
}

/// Pages of a server with this number of sessions.
#[must_use]
pub const fn pages(sessions: usize) -> usize {
    session_page(sessions)
}

/// The first page of session number `session`'s ring of events, where each of so many sessions has `trace_pages`.
#[must_use]
pub const fn trace_page(sessions: usize, session: usize, trace_pages: usize) -> usize {
    pages(sessions).saturating_add(session.saturating_mul(trace_pages))
}

/// The page of a client with a function of its own, in the client's telemetry.
pub const FUNCTION_PAGE: usize = 0;
/// The first page of that client's ring of events.
pub const FUNCTION_TRACE_PAGE: usize = FUNCTION_PAGE + 1;

/// The contents of the server's page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Server {
    /// Ticks of the clock a second.
    pub ticks_per_second: u64,
    /// Time at which this was written.
    pub written_at: u64,
    /// Time at which this incarnation of the server started.
    pub started_at: u64,
    /// Wake-ups of the server: events that it waited for in the kernel.
    pub wake_ups: u64,
    /// Passes over the ready sessions.
    pub passes: u64,
    /// Faults of the controller after which a part of it was recreated.
    pub faults: u64,
    /// 1 while the controller takes commands.
    pub is_up: u32,
    /// Sessions that are open.
    pub open_sessions: u32,
}

/// The contents of a session's page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Session {
    /// Time at which this was written.
    pub written_at: u64,
    /// Time at which the session was opened, or the function was brought up.
    pub opened_at: u64,
    /// Openings of this session in this incarnation of the server, or of the client with the function.
    pub openings: u32,
    /// 1 while the session is open.
    pub is_open: u32,
    /// The session's class ([`Class::number`](crate::config::Class::number)).
    pub class: u32,
    /// Queue pairs of the controller that its commands go to.
    pub queue_pairs: u32,
    /// Entries on its ring that the server has not taken.
    pub in_ring: u32,
    /// The session's commands at the controller.
    pub in_device: u32,
    /// Sums since its opening. A client with a function has no notifications, and counts the interrupts that ended its sleep.
    pub sums: Statistics,
    /// Time in which the session had entries and its turn was withheld by the scheduling policy.
    pub held_back: u64,
    /// The longest read and the longest write since the last writing.
    pub peaks: [u64; 2],
    /// The sums of the latencies of reads and of writes.
    pub latency_sums: [u64; 2],
    /// Latencies of reads and of writes: from the taking of the request off the ring, or its submission to the function, to its answer.
    pub latencies: [Histogram; 2],
}

impl Session {
    /// Counts this number of requests of a kind, each answered so many ticks after it was taken.
    #[inline]
    pub fn record(&mut self, kind: Kind, ticks: u64, count: u32) {
        let direction = match kind {
            Kind::Read => READS,
            Kind::Write => WRITES,
            Kind::Other => return,
        };
        let Self { latencies, latency_sums, peaks, .. } = self;
        let all = (latencies.get_mut(direction), latency_sums.get_mut(direction), peaks.get_mut(direction));
        if let (Some(histogram), Some(sum), Some(peak)) = all {
            histogram.record(ticks, count);
            *sum = sum.wrapping_add(ticks.wrapping_mul(count.into()));
            *peak = ticks.max(*peak);
        }
    }
}

const _: () = assert!(size_of::<Session>() <= ::telemetry::page::MOST_BYTES, "a session fits in its page");

/// Index of reads in [`Session::latencies`] and [`Session::peaks`].
pub const READS: usize = 0;
/// Index of writes.
pub const WRITES: usize = 1;
