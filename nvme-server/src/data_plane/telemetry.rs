//! The statistics that the build machine reads: latencies of the sessions, and the pages in which all of it is laid out.
//!
//! The path of a request counts latencies in the session's own memory. The pages are written at ticks, and a session's once more when
//! the session ends, so they cost a request nothing. A server without a region of telemetry counts no latencies. Layout:
//! [`blk_api::telemetry`].

use super::DataPlane;
use crate::data_plane::readiness::Readiness;
use crate::data_plane::session::Session;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use blk_api::config::Class;
use blk_api::telemetry::{self as layout, READS, SERVER_PAGE, WRITES, session_page};
use nvme_driver::Health;
use platform::{Environment, Memory, Platform};
use scheduler::Kind;
use telemetry::page::Writer;
use telemetry::{Histogram, TELEMETRY};

/// The pages of the server, with the sums that the sessions do not have.
pub(crate) struct Pages<M: Memory> {
    server: Writer<M>,
    sessions: Vec<SessionPage<M>>,
    started_at: u64,
    pub wake_ups: u64,
    pub passes: u64,
}

/// A session's page.
struct SessionPage<M: Memory> {
    writer: Writer<M>,
    openings: u32,
}

impl<M: Memory> Pages<M> {
    /// The pages of a server with this number of sessions, if the scenario gives it telemetry.
    pub(crate) fn of<P: Platform<Memory = M>>(
        platform: &P,
        environment: &Environment,
        sessions: usize,
    ) -> Option<Box<Self>> {
        let memory = platform.memory(environment.region(TELEMETRY)?).ok()?;
        let page = |number| Writer::new(memory.clone(), number).ok();
        let sessions =
            (0..sessions).map(|session| Some(SessionPage { writer: page(session_page(session))?, openings: 0 }));
        Some(Box::new(Self {
            server: page(SERVER_PAGE)?,
            sessions: sessions.collect::<Option<_>>()?,
            started_at: platform.ticks(),
            wake_ups: 0,
            passes: 0,
        }))
    }

    /// Counts an opening of session `index`.
    pub(crate) fn opened(&mut self, index: usize) {
        if let Some(page) = self.sessions.get_mut(index) {
            page.openings = page.openings.wrapping_add(1);
        }
    }

    /// Writes the page of session `index`.
    fn write<P: Platform>(
        &mut self,
        index: usize,
        session: &mut Session<P>,
        is_open: bool,
        class: Option<Class>,
        now: u64,
    ) {
        let Some(page) = self.sessions.get_mut(index) else { return };
        let mut contents = layout::Session {
            written_at: now,
            openings: page.openings,
            is_open: is_open.into(),
            class: class.map_or(u32::MAX, Class::number),
            ..session.contents()
        };
        if let Some(latencies) = &mut session.latencies {
            latencies.show(&mut contents, now);
        }
        // The page is as long as its contents.
        let _ = page.writer.write(&contents);
    }
}

impl<P: Platform> DataPlane<P> {
    /// Counts a wake-up by an event.
    #[inline]
    pub(super) fn woke_up(&mut self) {
        if let Some(pages) = &mut self.pages {
            pages.wake_ups = pages.wake_ups.wrapping_add(1);
        }
    }

    /// Writes the pages of the server and of its open sessions.
    pub(super) fn show(&mut self) {
        let Self { platform, controller, slots, schedule, pages: Some(pages), .. } = self else { return };
        let now = platform.ticks();
        let mut open_sessions = 0u32;
        for (index, slot) in slots.iter_mut().enumerate() {
            let Some(session) = slot.phase.session_mut() else { continue };
            open_sessions = open_sessions.saturating_add(1);
            pages.write(index, session, true, schedule.class(index), now);
        }
        let contents = layout::Server {
            ticks_per_second: platform.ticks_per_second(),
            written_at: now,
            started_at: pages.started_at,
            wake_ups: pages.wake_ups,
            passes: pages.passes,
            faults: controller.faults.get().into(),
            is_up: (controller.health.get() == Health::Up).into(),
            open_sessions,
        };
        // The page is as long as its contents.
        let _ = pages.server.write(&contents);
    }

    /// Writes the page of session `index` for the last time before the session goes.
    pub(super) fn show_end(&mut self, index: usize, session: &mut Session<P>) {
        let Self { platform, schedule, pages: Some(pages), .. } = self else { return };
        pages.write(index, session, false, schedule.class(index), platform.ticks());
    }
}

/// The latencies of a session's requests.
pub(crate) struct Latencies {
    histograms: [Histogram; 2],
    sums: [u64; 2],
    peaks: [u64; 2],
    /// By place, the time at which a request was taken that is cut into commands.
    taken: Vec<u64>,
    /// Time in which the scheduling policy withheld the turn, and since when it does.
    held_back: u64,
    held_back_since: Option<u64>,
}

impl Latencies {
    /// No latencies, of a session with `places` for requests that are cut.
    pub(crate) fn new(places: usize) -> Box<Self> {
        let (histograms, taken) = ([Histogram::default(); 2], vec![0; places]);
        Box::new(Self { histograms, sums: [0; 2], peaks: [0; 2], taken, held_back: 0, held_back_since: None })
    }

    /// Counts this number of requests of a kind, each answered so many ticks after it was taken.
    pub(crate) fn record(&mut self, kind: Kind, ticks: u64, count: u32) {
        let direction = match kind {
            Kind::Read => READS,
            Kind::Write => WRITES,
            Kind::Other => return,
        };
        let Self { histograms, sums, peaks, .. } = self;
        let all = (histograms.get_mut(direction), sums.get_mut(direction), peaks.get_mut(direction));
        if let (Some(histogram), Some(sum), Some(peak)) = all {
            histogram.record(ticks, count);
            *sum = sum.wrapping_add(ticks.wrapping_mul(count.into()));
            *peak = ticks.max(*peak);
        }
    }

    /// Notes when the request in `place` was taken.
    pub(crate) fn taken(&mut self, place: u16, now: u64) {
        if let Some(taken) = self.taken.get_mut(usize::from(place)) {
            *taken = now;
        }
    }

    /// Counts the request in `place`, which is answered `now`.
    pub(crate) fn answered(&mut self, kind: Kind, place: u16, now: u64) {
        if let Some(taken) = self.taken.get(usize::from(place)).copied() {
            self.record(kind, now.wrapping_sub(taken), 1);
        }
    }

    /// Notes the session's readiness at the end of its part of a pass.
    #[inline]
    pub(crate) fn rests(&mut self, readiness: Readiness, now: u64) {
        if let Some(since) = self.held_back_since.take() {
            self.held_back = self.held_back.wrapping_add(now.wrapping_sub(since));
        }
        if readiness == Readiness::WaitsTurn {
            self.held_back_since = Some(now);
        }
    }

    /// Lays the latencies out, and begins to look for new peaks.
    fn show(&mut self, contents: &mut layout::Session, now: u64) {
        let still = self.held_back_since.map_or(0, |since| now.wrapping_sub(since));
        contents.held_back = self.held_back.wrapping_add(still);
        contents.peaks = core::mem::take(&mut self.peaks);
        (contents.latency_sums, contents.latencies) = (self.sums, self.histograms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_their_direction() {
        let mut latencies = Latencies::new(1);
        latencies.record(Kind::Read, 7, 2);
        latencies.record(Kind::Read, 3, 1);
        latencies.record(Kind::Other, 800, 1);
        latencies.taken(0, 200);
        latencies.answered(Kind::Write, 0, 209);
        let mut contents = layout::Session::default();
        latencies.show(&mut contents, 300);
        let [reads, writes] = contents.latencies.map(|one| *one.counts());
        assert_eq!((reads[3], reads[7], reads.iter().sum::<u32>()), (1, 2, 3));
        assert_eq!((writes[9], writes.iter().sum::<u32>(), contents.peaks), (1, 1, [7, 9]));
        latencies.show(&mut contents, 400);
        assert_eq!(contents.peaks, [0, 0], "none since then");
    }

    #[test]
    fn held_back_time_is_that_between_two_passes() {
        let mut latencies = Latencies::new(0);
        let held_back = |latencies: &mut Latencies, now| {
            let mut contents = layout::Session::default();
            latencies.show(&mut contents, now);
            contents.held_back
        };
        latencies.rests(Readiness::Ready { idle_polls: 0 }, 10);
        latencies.rests(Readiness::WaitsTurn, 20);
        assert_eq!(held_back(&mut latencies, 25), 5, "a time that has not ended counts, too");
        latencies.rests(Readiness::WaitsTurn, 30);
        latencies.rests(Readiness::Asleep, 45);
        assert_eq!(held_back(&mut latencies, 99), 25);
    }
}
