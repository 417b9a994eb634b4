//! The whole program against a server in memory: every kind does what its name says, and ends whatever the server does.

use blk_client::{Statistics, Status};
use fake_platform::{FakePlatform, FakeServer, Order, Setup, client};
use report::Report;
use workload::{Client, Flood, FloodKind};

/// Makes a short flood: every read of the clock and every system call take a microsecond.
fn flood(kinds: &[FloodKind], waits: bool) -> Flood {
    Flood { kinds: kinds.to_vec(), milliseconds: 5, turn_milliseconds: 1, waits, ..Flood::default() }
}

fn platform() -> FakePlatform {
    let platform = FakePlatform::new(&Setup { order: Order::Drawn(9), records: Some(64), ..Setup::default() });
    platform.tick_who_waits();
    platform
}

fn run(platform: &FakePlatform, flood: Flood, polls: bool) -> Vec<Report> {
    let client = Client { first_block: 8192, polls, ..client(&Setup::default(), &flood) };
    platform.run_as(&client, flood::run)
}

/// Returns the numbers of the flood's report: requests, done, refused, calls, openings, empty signals.
fn counts(reports: &[Report]) -> [u64; 6] {
    let sentence = reports.iter().find_map(|report| match report {
        Report::Attack(attack) => Some(attack.attack.to_string()),
        _ => None,
    });
    let sentence = sentence.expect("the flood says what it did");
    let words = sentence.split(|c: char| !c.is_ascii_digit());
    let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().unwrap_or_else(|_| panic!("six numbers: {sentence}"))
}

/// Checks that the last report is the end of the work, and that no check failed.
#[track_caller]
fn ended_well(reports: &[Report]) {
    assert!(matches!(reports.last(), Some(Report::Done { passed: true, .. })), "{reports:?}");
    assert!(!reports.iter().any(|report| matches!(report, Report::Failure { .. })), "{reports:?}");
}

/// Returns the server's counts while a flood of one kind goes on and its session is open.
fn seen_by_the_server(kind: FloodKind, waits: bool) -> (Statistics, FakePlatform) {
    let platform = platform();
    let reports = run(&platform, flood(&[kind], waits), false);
    ended_well(&reports);
    let statistics = platform.server(|server| server.statistics());
    (statistics, platform)
}

#[test]
fn every_kind_comes_to_its_end_however_it_waits() {
    for (kind, waits) in FloodKind::ALL.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        for polls in [false, true] {
            let reports = run(&platform(), flood(&[kind], waits), polls);
            ended_well(&reports);
            assert!(counts(&reports).iter().sum::<u64>() > 100, "{kind:?}: {reports:?}");
        }
    }
}

#[test]
fn valid_requests_are_done() {
    for waits in [false, true] {
        let (seen, platform) = seen_by_the_server(FloodKind::Requests, waits);
        assert!(seen.commands > 1000 && seen.refused == 0, "{seen:?}");
        assert!(platform.server(|server| server.asked) > 0, "records that are missing are asked for");
    }
}

#[test]
fn refusable_entries_are_refused_each_for_its_own_reason() {
    for waits in [false, true] {
        for (kind, status) in [
            (FloodKind::Invalid, &[Status::InvalidRequest, Status::OutsideWindow, Status::LengthMismatch][..]),
            (FloodKind::Forbidden, &[Status::OutsideExtents]),
            (FloodKind::TooLarge, &[Status::TooLarge]),
        ] {
            let (seen, _) = seen_by_the_server(kind, waits);
            assert!(seen.requests > 1000 && seen.refused == seen.requests, "{kind:?}: {seen:?}");
            // A server without this check accepts a request.
            for forgotten in status {
                let platform = platform();
                platform.server(|server| server.forgets = Some(*forgotten));
                let [_, done, ..] = counts(&run(&platform, flood(&[kind], waits), false));
                assert!(done > 100, "{kind:?} {forgotten}");
            }
        }
    }
}

#[test]
fn requests_whose_records_are_not_installed_never_ask_for_them() {
    for kinds in [&[FloodKind::NotInstalled][..], &[FloodKind::NotInstalled, FloodKind::Forbidden]] {
        let platform = platform();
        let [requests, done, refused, calls, ..] = counts(&run(&platform, flood(kinds, false), false));
        assert!(requests > 100 && refused > 100 && done == 0 && calls == 0);
        assert_eq!(platform.server(|server| server.asked), 0);
    }
}

#[test]
fn records_are_asked_for_without_end_and_all_of_them() {
    for kind in [FloodKind::PolicyCalls, FloodKind::Evictions] {
        let (_, platform) = seen_by_the_server(kind, false);
        let records = platform.server(|server| server.records());
        assert!(platform.server(|server| server.asked) > 1000, "{kind:?}");
        assert_eq!(records, if kind == FloodKind::Evictions { 64 } else { 1 }, "{kind:?}");
    }
}

#[test]
fn a_policy_component_that_refuses_ends_nothing() {
    for (kind, waits) in
        [FloodKind::PolicyCalls, FloodKind::Evictions].into_iter().flat_map(|k| [(k, false), (k, true)])
    {
        let platform = platform();
        platform.server(|server| server.refuses_records = Some(blk_api::policy::Refusal::Busy));
        ended_well(&run(&platform, flood(&[kind], waits), false));
        let platform = self::platform();
        platform.kill_policy(1 << 24);
        ended_well(&run(&platform, flood(&[kind], waits), false));
    }
}

#[test]
fn signals_have_nothing_behind_them() {
    for waits in [false, true] {
        let (seen, platform) = seen_by_the_server(FloodKind::Signals, waits);
        assert!(platform.doorbells() > 1000);
        assert_eq!(seen.requests, 0);
    }
}

#[test]
fn a_server_that_dies_at_any_moment_is_flooded_again() {
    for (waits, polls) in [(false, false), (true, false), (true, true)] {
        let mut reopened = 0;
        for turn in (0..400).step_by(7) {
            let platform = platform();
            platform.kill_server_after(turn, 3);
            let reports = run(&platform, flood(&FloodKind::ALL, waits), polls);
            ended_well(&reports);
            reopened += reports.iter().filter(|report| matches!(report, Report::Reconnected(_))).count();
        }
        assert!(reopened > 10, "{reopened}");
    }
}

#[test]
fn a_server_that_stays_dead_ends_the_flood() {
    for kind in FloodKind::ALL {
        let platform = platform();
        platform.kill_server_after(9, 1 << 24);
        ended_well(&run(&platform, flood(&[kind], false), false));
    }
}

#[test]
fn an_expelled_session_ends_nothing() {
    for (kind, waits) in FloodKind::ALL.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let platform = platform();
        platform.server(|server: &mut FakeServer| server.expelled = true);
        ended_well(&run(&platform, flood(&[kind], waits), false));
    }
}

#[test]
fn a_flood_without_end_says_first_that_it_is_done() {
    let platform = platform();
    platform.kill_server_after(2000, 1 << 24);
    let reports = run(&platform, Flood { milliseconds: 0, ..flood(&FloodKind::ALL, false) }, false);
    assert!(matches!(reports.first(), Some(Report::Done { passed: true, .. })), "{reports:?}");
    assert_eq!(reports.iter().filter(|report| matches!(report, Report::Done { .. })).count(), 1);
}
