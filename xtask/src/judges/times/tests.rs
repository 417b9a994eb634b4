use super::*;
use crate::records::lateness::{Lateness, Sample};
use report::{Load, Progress, Reconnected, Report, Restart, Stamped, clip};

fn scenario(expect: &str) -> Scenario {
    let text = format!(
        "name = \"t\"\ndescription = \"t\"\n[[controller]]\nname = \"a\"\n[[controller.namespace]]\nsize = \"64M\"\n\
         [[tenant]]\nname = \"w\"\nqueue_pairs = 1\nextents = [{{ first = 0, blocks = 1024 }}]\nprogram.name = \"bench\"\n[tenant.program.config]\n\
         [expect]\n{expect}\n"
    );
    Scenario::parse(&text, "t.toml").unwrap()
}

fn results(reports: impl IntoIterator<Item = Report>) -> Results {
    let mut results = Results::default();
    results.set_clock(0, Duration::ZERO);
    reports.into_iter().for_each(|report| results.take(Stamped { at_ns: 0, report }, Duration::ZERO));
    results
}

fn waited_ms(p99_ms: u64) -> Report {
    Report::Load(Load { tenant: clip("w"), p99_ns: p99_ms * 1_000_000, ..Load::default() })
}

/// Two seconds, in each of which QEMU waited for so many milliseconds.
fn late(first_ms: u64, second_ms: u64) -> Option<Lateness> {
    let ms = Duration::from_millis;
    let sample =
        |age, waited| Sample { age: ms(age), waited: ms(waited), others: ms(2 * waited), ran: ms(age - waited) };
    Lateness::of(vec![sample(1_000, first_ms), sample(2_000, first_ms + second_ms)], None)
}

/// Reasons and rows that are not judged.
fn judged(expect: &str, mut results: Results, not_judged: NotJudged) -> (Vec<String>, Vec<String>) {
    judge(&scenario(expect), &mut results, not_judged);
    (results.reasons, results.not_judged)
}

#[test]
fn a_time_holds_or_fails_or_is_not_judged() {
    let missed = "w waited 501 ms for 1 of 100 requests, and 500 ms are the most";
    let why = "the machine was too slow: of 2.0 s QEMU waited 1.0 s for a processor of the build machine";
    let row = format!("{missed}; {why}");
    let strict_row = format!("not judged: {row}");
    let limit = "latency_p99_ms = { w = 500 }";
    let (reported, fails) = (NotJudged::of(false), NotJudged::of(true));
    let (on_time, too_late, unknown) = (late(0, 100), late(500, 500), None);
    let of = |p99_ms, lateness: &Option<Lateness>, not_judged| {
        judged(limit, Results { lateness: lateness.clone(), ..results([waited_ms(p99_ms)]) }, not_judged)
    };
    let nothing = (vec![], vec![]);
    let fails_by = |reason: &str| (vec![reason.to_owned()], vec![]);
    for not_judged in [reported, fails] {
        for lateness in [&on_time, &too_late, &unknown] {
            assert_eq!(of(500, lateness, not_judged), nothing, "it holds: {lateness:?}, {not_judged:?}");
        }
        for lateness in [&on_time, &unknown] {
            assert_eq!(of(501, lateness, not_judged), fails_by(missed), "{lateness:?}, {not_judged:?}");
        }
    }
    assert_eq!(of(501, &too_late, reported), (vec![], vec![row]));
    assert_eq!(of(501, &too_late, fails), fails_by(&strict_row));
}

#[test]
fn lateness_does_not_explain_what_is_no_time() {
    let of = |expect, reports: Vec<Report>| {
        judged(expect, Results { lateness: late(900, 900), ..results(reports) }, NotJudged::Reported)
    };
    let (reasons, rows) = of("latency_p99_ms = { w = 500 }", vec![]);
    assert_eq!((reasons, rows.len()), (vec!["the latency of w was not reported".to_owned()], 0));
    let (reasons, rows) = of("interrupts = { msix = 3 }", vec![]);
    assert_eq!((reasons, rows.len()), (vec!["0 interrupts came by MSI-X, and 3 are the least".to_owned()], 0));
}

#[test]
fn lateness_counts_in_the_part_that_is_judged() {
    // A restart in the first second; QEMU was late in one of the two.
    let restart =
        Restart { name: clip("w"), times: 1, ended_at_ns: 100_000_000, took_ns: 800_000_000, memory_left_bytes: 7 };
    let of = |lateness| {
        let results = Results { lateness, ..results([Report::Restart(restart.clone())]) };
        judged("service_within_ms = 500", results, NotJudged::Reported)
    };
    let (reasons, rows) = of(late(0, 900));
    assert_eq!((reasons, rows.len()), (vec!["w ran again after 800 ms, and 500 ms are allowed".to_owned()], 0));
    let (reasons, rows) = of(late(900, 0));
    assert_eq!(reasons, [""; 0]);
    assert!(rows[0].ends_with("of 0.8 s QEMU waited 0.7 s for a processor of the build machine"), "{rows:?}");
}

#[test]
fn a_rate_is_not_judged_on_a_late_machine() {
    let progress =
        Progress { tenant: clip("w"), since_ns: 0, until_ns: 1_000_000_000, operations: 9, bytes: 0, max_ns: 0 };
    let rate = "[[expect.span]]\ntenant = \"w\"\nat_least_iops = 10";
    let of = |lateness| {
        judged(rate, Results { lateness, ..results([Report::Progress(progress.clone())]) }, NotJudged::Reported)
    };
    assert_eq!(of(late(0, 0)).0, ["w had 9 IOPS in all, and 10 are the least"]);
    assert_eq!((of(late(500, 500)).0.len(), of(late(500, 500)).1.len()), (0, 1));
}

#[test]
fn a_slow_processor_of_a_quiet_machine_is_no_measure_either() {
    let sample = |ran| Sample { age: Duration::from_secs(1), ran, ..Sample::default() };
    let of = |us_per_object: f64| {
        let ran = Duration::from_secs_f64(us_per_object * 1e-6 * 1_000.0);
        let lateness = Lateness::of(vec![sample(ran)], Some((Duration::from_secs(1), 1_000)));
        judged("latency_p99_ms = { w = 500 }", Results { lateness, ..results([waited_ms(501)]) }, NotJudged::Reported)
    };
    assert_eq!(of(MOST_FOR_OBJECT_US).1, [""; 0]);
    let (reasons, rows) = of(MOST_FOR_OBJECT_US * 2.0);
    assert_eq!(reasons, [""; 0]);
    assert!(rows[0].contains("QEMU took 500 µs of a processor for each kernel object at the start"), "{rows:?}");
}

#[test]
fn limits_in_microseconds_apply_to_simulated_runs_alone_and_are_always_judged() {
    let limit = "latency_p99_us = { w = 40 }";
    let load = |p99_ns| Report::Load(Load { tenant: clip("w"), p99_ns, ..Load::default() });
    let simulated = |p99_ns| judged(limit, Results { seed: Some(1), ..results([load(p99_ns)]) }, NotJudged::Reported);
    assert_eq!(simulated(40_000).0, [""; 0]);
    assert_eq!(simulated(40_001).0, ["w waited 41 µs for 1 of 100 requests, and 40 µs are the most"]);
    assert_eq!(judged(limit, results([load(40_001)]), NotJudged::Reported).0, [""; 0]);
}

#[test]
fn service_must_be_back_in_time_where_the_scenario_says_so() {
    let restart =
        Restart { name: clip("w"), times: 1, ended_at_ns: 1_000_000, took_ns: 3_000_001, memory_left_bytes: 7 };
    let again = Reconnected { tenant: clip("w"), at_ns: 7_000_000, reissued: 2 };
    let seen = || results([Report::Restart(restart.clone()), Report::Reconnected(again.clone())]);
    assert_eq!(judged("service_within_ms = 6", seen(), NotJudged::Reported).0, [""; 0]);
    assert_eq!(
        judged("service_within_ms = 3", seen(), NotJudged::Reported).0,
        ["w ran again after 4 ms, and 3 ms are allowed", "w had its session again after 6 ms, and 3 ms are allowed"]
    );
}
