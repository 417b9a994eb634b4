//! The latencies of a session's requests, and the time for which its turn was withheld, in a scenario with telemetry.

use crate::data_plane::readiness::Readiness;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use blk_api::telemetry::Session;
use scheduler::Kind;

/// The latencies of a session's requests.
pub(crate) struct Latencies {
    /// The sums and histograms, as the session's page shows them.
    shown: Session,
    /// By place, the time at which a request was taken that is cut into commands.
    taken: Vec<u64>,
    /// Time in which the scheduling policy withheld the turn, and since when it does.
    held_back: u64,
    held_back_since: Option<u64>,
}

impl Latencies {
    /// No latencies, of a session with `places` for requests that are cut.
    pub(crate) fn new(places: usize) -> Box<Self> {
        Box::new(Self { shown: Session::default(), taken: vec![0; places], held_back: 0, held_back_since: None })
    }

    /// Counts this number of requests of a kind, each answered so many ticks after it was taken.
    pub(crate) fn record(&mut self, kind: Kind, ticks: u64, count: u32) {
        self.shown.record(kind, ticks, count);
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
    pub(crate) fn show(&mut self, contents: &mut Session, now: u64) {
        let still = self.held_back_since.map_or(0, |since| now.wrapping_sub(since));
        contents.held_back = self.held_back.wrapping_add(still);
        contents.peaks = core::mem::take(&mut self.shown.peaks);
        (contents.latency_sums, contents.latencies) = (self.shown.latency_sums, self.shown.latencies);
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
        let mut contents = Session::default();
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
            let mut contents = Session::default();
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
