//! Judges times and rates of a run.
//!
//! A run that misses one fails, unless the build machine was too slow for QEMU in that part of the run: then this row is not
//! judged, with the measured lateness as its reason. A simulated run has no lateness, because its time is virtual.

use crate::judges::{interrupts, proportions, spans};
use crate::records::results::Results;
use capdl::Scenario;
use std::ops::Range;
use std::time::Duration;

/// Part of a time for which QEMU may wait for processors while times are judged.
///
/// Measured on two processors, in runs of `boot`, `hostile-flood` and `shares-change`: beside one other busy process QEMU waited for
/// 43 to 47 % of the time, and beside six for 73 to 85 %. Where nothing else runs it is near zero, because no more counts than others
/// ran.
const MOST_WAITING: f64 = 0.25;

/// Microseconds of a processor that QEMU may take for each kernel object while the system is built, where times are judged.
///
/// A quiet machine with a slow processor does not wait, and misses times all the same. The machine on which the scenarios' limits
/// were set takes 12 to 80 µs for those that have limits, so this is a third of its speed or less.
const MOST_FOR_OBJECT_US: f64 = 250.0;

/// Units of limits, and nanoseconds in one.
const MS: (&str, u64) = ("ms", 1_000_000);
const US: (&str, u64) = ("µs", 1_000);
/// The whole run, in machine time.
pub(crate) const WHOLE_RUN: Range<u64> = 0..u64::MAX;

/// The result of a row whose time is not judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NotJudged {
    /// The row is reported, and the run may pass.
    #[default]
    Reported,
    /// The row fails the run.
    Fails,
}

impl NotJudged {
    /// The result under the option `--strict`.
    pub const fn of(strict: bool) -> Self {
        if strict { Self::Fails } else { Self::Reported }
    }
}

/// An expectation of a time or a rate that a run missed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Missed {
    /// The missed expectation, in one sentence.
    pub sentence: String,
    /// Part of the run that it is about, nanoseconds of machine time; `None` if no lateness explains it.
    pub(crate) during: Option<Range<u64>>,
}

impl Missed {
    /// A miss that lateness in a part of the run may explain.
    pub(crate) const fn during(part: Range<u64>, sentence: String) -> Self {
        Self { sentence, during: Some(part) }
    }

    /// A miss that no lateness explains.
    pub(crate) const fn certainly(sentence: String) -> Self {
        Self { sentence, during: None }
    }
}

/// Adds what the run missed to its reasons or to its rows that are not judged.
pub fn judge(scenario: &Scenario, results: &mut Results, not_judged: NotJudged) {
    for Missed { sentence, during } in missed(scenario, results) {
        match (during.and_then(|part| lateness(results, part)), not_judged) {
            (None, _) => results.reasons.push(sentence),
            (Some(why), NotJudged::Reported) => results.not_judged.push(format!("{sentence}; {why}")),
            (Some(why), NotJudged::Fails) => results.reasons.push(format!("not judged: {sentence}; {why}")),
        }
    }
}

/// The measured reason for not judging times in a part of the run, if there is one.
pub fn lateness(results: &Results, part: Range<u64>) -> Option<String> {
    let lateness = results.lateness.as_ref()?;
    let age = |at_ns| if at_ns == u64::MAX { Some(Duration::MAX) } else { results.age_at(at_ns) };
    let (whole, waited) = lateness.during(&(age(part.start)?..age(part.end)?));
    let (whole, waited) = (whole.as_secs_f64(), waited.as_secs_f64());
    if waited > MOST_WAITING * whole {
        return Some(format!(
            "the machine was too slow: of {whole:.1} s QEMU waited {waited:.1} s for a processor of the build machine"
        ));
    }
    let object_us = lateness.object_us.filter(|object_us| *object_us > MOST_FOR_OBJECT_US)?;
    Some(format!(
        "the machine was too slow: QEMU took {object_us:.0} µs of a processor for each kernel object at the start, and times are \
         judged up to {MOST_FOR_OBJECT_US:.0} µs"
    ))
}

/// Expectations of times and rates that the run missed.
fn missed(scenario: &Scenario, results: &Results) -> Vec<Missed> {
    if results.not_built().is_some() {
        return Vec::new();
    }
    let expect = &scenario.expect;
    let service = expect.service_within_ms.into_iter().flat_map(|limit_ms| out_of_service(limit_ms, results));
    let latencies = expect.latency_p99_ms.iter().filter_map(|(tenant, limit)| too_slow(tenant, *limit, MS, results));
    let in_us = expect.latency_p99_us.iter().filter(|_| results.seed.is_some());
    let in_us = in_us.filter_map(|(tenant, limit)| too_slow(tenant, *limit, US, results));
    let mut missed: Vec<_> = service.chain(latencies).chain(in_us).collect();
    missed.extend(interrupts::missed(scenario, results));
    missed.extend(spans::missed(scenario, results));
    missed.extend(proportions::missed(scenario, results));
    missed
}

/// Components, and sessions with them, that came back more than `limit_ms` after a death.
fn out_of_service(limit_ms: u64, results: &Results) -> Vec<Missed> {
    let again = results.restarts.iter().map(|one| (&one.name, one.ended_at_ns, one.took_ns, "ran again"));
    let sessions = results.reconnected.iter().filter_map(|one| {
        let deaths = results.restarts.iter().map(|restart| restart.ended_at_ns);
        let died_ns = deaths.filter(|died_ns| *died_ns <= one.at_ns).max()?;
        Some((&one.tenant, died_ns, one.at_ns - died_ns, "had its session again"))
    });
    let late = again.chain(sessions).filter(|(_, _, took_ns, _)| took_ns.div_ceil(1_000_000) > limit_ms);
    let miss = |(name, died_ns, took_ns, what): (_, u64, u64, _)| {
        let took_ms = took_ns.div_ceil(1_000_000);
        let sentence = format!("{name} {what} after {took_ms} ms, and {limit_ms} ms are allowed");
        Missed::during(died_ns..died_ns.saturating_add(took_ns), sentence)
    };
    late.map(miss).collect()
}

/// A tenant's latency above its limit, or not measured.
fn too_slow(tenant: &str, limit: u64, (unit, unit_ns): (&str, u64), results: &Results) -> Option<Missed> {
    let Some(load) = results.tenants.iter().find(|load| load.tenant == tenant) else {
        return Some(Missed::certainly(format!("the latency of {tenant} was not reported")));
    };
    let measured = load.p99_ns.div_ceil(unit_ns);
    (measured > limit).then(|| {
        let sentence =
            format!("{tenant} waited {measured} {unit} for 1 of 100 requests, and {limit} {unit} are the most");
        Missed::during(WHOLE_RUN, sentence)
    })
}

#[cfg(test)]
mod tests;
