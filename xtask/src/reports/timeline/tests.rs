use super::*;
use crate::reports::figure::texts::faults;

use crate::records::timeline::tests::{killed, started};
use report::{Report, Stamped, clip};
use std::time::Duration;

fn results(reports: Vec<(u64, Report)>) -> Results {
    let roles = [(clip("nvme-server"), Role::NvmeServer), (clip("alice"), Role::Client)].into();
    let mut results = Results { scenario: "t".into(), roles, ..Results::default() };
    reports.into_iter().for_each(|(at_ns, report)| results.take(Stamped { at_ns, report }, Duration::ZERO));
    results
}

#[test]
fn whatever_happens_when_no_words_lie_on_others_or_outside() {
    for (distance, count) in [(1, 12), (9, 20), (40, 6), (300, 3), (2_000, 2)] {
        let mut reports = vec![(0, started("nvme-server")), (0, started("alice"))];
        let mut moves = Vec::new();
        for index in 0..count {
            let at_ns = 1_000_000 * distance * (index + 1);
            let restart = report::Restart {
                name: clip("nvme-server"),
                times: 1,
                ended_at_ns: at_ns,
                took_ns: 1_000_000,
                memory_left_bytes: 7,
            };
            reports.push((at_ns, killed("nvme-server")));
            moves.push(at_ns + 500_000);
            reports.push((at_ns, Report::Restart(restart)));
            reports.push((
                at_ns,
                Report::Reconnected(report::Reconnected {
                    tenant: clip("alice"),
                    at_ns: at_ns + 2_000_000,
                    reissued: 7,
                }),
            ));
            let (since_ns, operations) = (at_ns - 1_000_000, 1_000 * index);
            let progress = Progress {
                tenant: clip("alice"),
                since_ns,
                until_ns: at_ns,
                operations,
                bytes: 4 << 20,
                max_ns: 5_000,
            };
            reports.push((at_ns, Report::Progress(progress)));
        }
        reports.push((
            1_000_000 * distance * (count + 1),
            Report::Opened { tenant: clip("alice"), pages_left: 9, io_tables_left: 9 },
        ));
        let mut results = results(reports);
        moves.into_iter().for_each(|at_ns| results.timeline.moved(at_ns, "nvme-server", "it is pulled out"));
        let svg = svg(&results);
        for kind in ["killed", "hot plug"] {
            assert!(svg.contains(&format!("\n{kind}")), "{kind}: {svg}");
        }
        assert_eq!(faults(&svg), Vec::<String>::new(), "at {distance} ms");
    }
}

#[test]
fn long_names_and_all_kinds_of_events_have_room() {
    let all = [
        What::Opened,
        What::Closed,
        What::Expelled,
        What::Refused,
        What::AttackRefused,
        What::AttackDone,
        What::Faulted,
        What::Killed,
        What::Restarted,
        What::Reconnected,
        What::Broken,
        What::Moved,
        What::Reset,
        What::Revoked,
        What::Granted,
        What::Entitled,
        What::Interrupts,
        What::Failed,
    ];
    let name = "nvme-server-of-the-first-disk";
    let mut results = results(vec![(0, started(name)), (9_000_000_000, started("alice"))]);
    for (index, what) in (0..).zip(all) {
        for at_ns in [500_000_000 * index, 8_000_000_000] {
            let event = Event { at_ns, who: clip(name), what, words: clip("words about it") };
            results.timeline.events.push(event);
        }
    }
    let svg = svg(&results);
    assert_eq!(faults(&svg), Vec::<String>::new());
    all.map(marks::name).iter().for_each(|name| assert!(svg.contains(&format!("\n{name}\n")), "{name}"));
}

#[test]
fn a_run_in_which_nothing_happened_has_a_picture_too() {
    assert!(svg(&Results::default()).ends_with("</svg>\n"));
}

#[test]
fn a_short_last_interval_makes_no_peak() {
    let interval = |since_ms: u64, until_ms: u64, operations| Progress {
        since_ns: since_ms * 1_000_000,
        until_ns: until_ms * 1_000_000,
        operations,
        ..Progress::default()
    };
    let all = [interval(0, 100, 300), interval(100, 200, 290), interval(200, 202, 32)];
    let joined = intervals(all.iter());
    assert_eq!(joined, [all[0].clone(), interval(100, 202, 322)]);
    let apart = [interval(0, 100, 300), interval(100, 200, 290), interval(300, 302, 32)];
    assert_eq!(intervals(apart.iter()).len(), 3);
    assert_eq!(intervals([].iter()), []);
}

#[test]
fn a_session_that_is_back_has_one_mark() {
    let opened = || Report::Opened { tenant: clip("alice"), pages_left: 9, io_tables_left: 9 };
    let back = |at_ns| Report::Reconnected(report::Reconnected { tenant: clip("alice"), at_ns, reissued: 0 });
    let results = results(vec![(1, opened()), (7, opened()), (8, back(8)), (9, opened())]);
    let whats: Vec<_> = marked(&results.timeline, "alice").into_iter().map(|event| event.what).collect();
    assert_eq!(whats, [What::Opened, What::Reconnected, What::Opened]);
}
