//! The part of a run for which the build machine kept QEMU from running, and the speed of its emulated processor.
//!
//! Samples come from `machine::waits`. Left out: judging times with it (`judges::times`).

use serde::Serialize;
use std::ops::Range;
use std::time::Duration;

/// A sample: times since QEMU's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sample {
    /// Time of the sample.
    pub age: Duration,
    /// Time until then in which a thread of QEMU could run and had no processor.
    pub waited: Duration,
    /// Processor time until then of all processors that neither QEMU nor this process had.
    pub others: Duration,
    /// Processor time of QEMU's busiest thread until then. At the start, that is its emulated processor.
    pub ran: Duration,
}

/// How late QEMU was in a run.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lateness {
    /// Seconds from QEMU's start to the last sample.
    pub seconds: f64,
    /// Seconds of these for which QEMU waited for a processor that others had.
    pub(crate) waited_seconds: f64,
    /// Microseconds of a processor that QEMU took for each kernel object until the system was built, if it was.
    pub(crate) object_us: Option<f64>,
    #[serde(skip)]
    samples: Vec<Sample>,
}

impl Lateness {
    /// The lateness by samples in their order. `built` is the age at which the system was built, and the number of its kernel
    /// objects.
    pub(crate) fn of(samples: Vec<Sample>, built: Option<(Duration, u64)>) -> Option<Self> {
        let last = *samples.last()?;
        let object_us = built
            .filter(|(_, objects)| *objects > 0)
            .map(|(age, objects)| at(&samples, age).ran.as_secs_f64() * 1e6 / objects as f64);
        let (seconds, waited) = (last.age.as_secs_f64(), last.waited.min(last.others));
        Some(Self { seconds, waited_seconds: waited.as_secs_f64(), object_us, samples })
    }

    /// Length of a part of the run, and the time in it for which QEMU waited for a processor that others had. The ends are ages;
    /// those beyond the run are the run's.
    ///
    /// QEMU's threads also wait for each other, and while they are woken, on a quiet machine too. So it waited for others at most as
    /// long as they ran.
    pub(crate) fn during(&self, part: &Range<Duration>) -> (Duration, Duration) {
        let end = self.samples.last().map_or(Duration::ZERO, |last| last.age);
        let [since, until] = [part.start, part.end].map(|age| at(&self.samples, age.min(end)));
        let waited = until.waited.saturating_sub(since.waited).min(until.others.saturating_sub(since.others));
        (until.age.saturating_sub(since.age), waited)
    }
}

/// The sample at `age`, between two samples in proportion.
fn at(samples: &[Sample], age: Duration) -> Sample {
    let next = samples.partition_point(|sample| sample.age < age);
    let before = next.checked_sub(1).and_then(|before| samples.get(before)).copied().unwrap_or_default();
    let Some(after) = samples.get(next) else { return before };
    let whole = after.age.saturating_sub(before.age).as_secs_f64();
    let part = if whole > 0.0 { age.saturating_sub(before.age).as_secs_f64() / whole } else { 1.0 };
    let between = |of: fn(&Sample) -> Duration| {
        let (from, to) = (of(&before), of(after));
        from + to.saturating_sub(from).mul_f64(part.clamp(0.0, 1.0))
    };
    let (waited, others) = (between(|one| one.waited), between(|one| one.others));
    Sample { age, waited, others, ran: between(|one| one.ran) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A second in which all went well, and one of which QEMU waited for a half.
    fn lateness() -> Lateness {
        let others = ms(9_000);
        let sample = |age, waited, ran| Sample {
            age: ms(age),
            waited: ms(waited),
            others: others / 2 * (age / 1_000) as u32,
            ran: ms(ran),
        };
        Lateness::of(vec![sample(1_000, 0, 800), sample(2_000, 500, 1_300)], Some((ms(500), 4_000))).unwrap()
    }

    #[test]
    fn a_part_has_its_own_waiting() {
        let lateness = lateness();
        assert_eq!((lateness.seconds, lateness.waited_seconds), (2.0, 0.5));
        assert_eq!(lateness.during(&(ms(0)..ms(1_000))), (ms(1_000), ms(0)));
        assert_eq!(lateness.during(&(ms(500)..ms(1_500))), (ms(1_000), ms(250)));
        assert_eq!(lateness.during(&(ms(1_500)..Duration::MAX)), (ms(500), ms(250)));
        assert_eq!(lateness.during(&(ms(2_500)..ms(2_600))), (ms(0), ms(0)));
    }

    #[test]
    fn who_is_alone_waits_for_nobody() {
        let sample = |age, others| Sample { age: ms(age), waited: ms(age / 2), others: ms(others), ran: ms(age) };
        let lateness = Lateness::of(vec![sample(1_000, 20), sample(2_000, 820)], None).unwrap();
        assert_eq!(lateness.during(&(ms(0)..ms(1_000))), (ms(1_000), ms(20)));
        assert_eq!(lateness.during(&(ms(1_000)..ms(2_000))), (ms(1_000), ms(500)));
        assert_eq!(lateness.waited_seconds, 0.82);
    }

    #[test]
    fn speed_is_that_of_the_systems_construction() {
        // 400 ms of a processor until the age of 500 ms.
        assert_eq!(lateness().object_us, Some(100.0));
        assert_eq!(Lateness::of(vec![Sample::default()], None).unwrap().object_us, None);
        assert!(Lateness::of(Vec::new(), None).is_none());
    }
}
