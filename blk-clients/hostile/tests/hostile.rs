//! The whole program on a machine in memory: a sound server refuses every attack, and a server without a check is detected.

use blk_api::request::{Ranges, Request, Segment};
use blk_client::Status;
use fake_platform::{FakePlatform, FakeServer, Order, Refetch, Setup, client};
use report::{Attack, Report};
use std::collections::BTreeSet;
use workload::{Client, Hostile, LastAttack};

fn run(last: LastAttack, polls: bool, prepare: impl FnOnce(&mut FakeServer)) -> Vec<Report> {
    let platform = platform(None);
    platform.server(prepare);
    run_on(&platform, last, polls)
}

fn platform(records: Option<usize>) -> FakePlatform {
    FakePlatform::new(&Setup { order: Order::Drawn(9), records, ..Setup::default() })
}

fn run_on(platform: &FakePlatform, last: LastAttack, polls: bool) -> Vec<Report> {
    let hostile = Hostile { foreign_first_block: 64, foreign_blocks: 100, last, rounds: 2, detaches: false };
    let client = Client { first_block: 8192, polls, ..client(&Setup::default(), &hostile) };
    platform.run_as(&client, hostile::run)
}

fn attacks(reports: &[Report]) -> impl Iterator<Item = &Attack> {
    reports.iter().filter_map(|report| if let Report::Attack(attack) = report { Some(attack) } else { None })
}

fn passed(reports: &[Report]) -> bool {
    reports.iter().any(|report| matches!(report, Report::Done { passed: true, .. }))
}

#[test]
fn sound_server_refuses_everything() {
    for polls in [false, true] {
        let reports = run(LastAttack::Close, polls, |_| {});
        for attack in attacks(&reports) {
            assert!(attack.refused, "{attack:?}");
        }
        assert!(attacks(&reports).count() > 60);
        assert!(passed(&reports), "{reports:?}");
    }
}

#[test]
fn no_two_attacks_are_reported_alike() {
    let reports = run(LastAttack::Close, false, |_| {});
    let mut names: Vec<_> = attacks(&reports).map(|attack| attack.attack.as_str()).collect();
    assert!(names.contains(&"read block 64, another tenant's") && names.contains(&"call the server with label 99"));
    assert!(names.iter().all(|name| name.len() <= 50), "{names:?}");
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all, "{names:?}");
}

#[test]
fn every_forgotten_check_is_found() {
    for forgotten in [Status::InvalidRequest, Status::OutsideWindow, Status::OutsideExtents, Status::LengthMismatch] {
        let reports = run(LastAttack::Close, false, |server| server.forgets = Some(forgotten));
        assert!(attacks(&reports).any(|attack| !attack.refused), "{forgotten}");
        assert!(!passed(&reports), "{forgotten}");
    }
}

#[test]
fn double_fetch_is_found_by_the_race_on_that_word() {
    let cases: [(&str, Refetch); 4] = [
        ("change the block after publishing", |request, again| {
            if let Request::Transfer { access, .. } = request {
                access.lba = again.lba;
            }
        }),
        ("change the offset after publishing", |request, again| {
            if let Request::Transfer { access, ranges, .. } = request {
                *ranges = Ranges::one(Segment { offset: again.segments[0].offset, len: access.blocks * 512 });
            }
        }),
        ("change the length after publishing", |request, again| {
            if let Request::Transfer { access, ranges, .. } = request {
                let offset = ranges.as_slice()[0].offset;
                *ranges = Ranges::one(Segment { offset, ..again.segments[0] });
                access.blocks = again.segments[0].len / 512;
            }
        }),
        ("change the operation after publishing", |request, again| {
            // An unknown operation that is not checked again does nothing.
            if again.opcode == u8::MAX {
                *request = Request::Flush;
            }
        }),
    ];
    for (race, refetch) in cases {
        for polls in [false, true] {
            let reports = run(LastAttack::Close, polls, |server| {
                // The neighbour's block, behind the session's last.
                server.disk.extend([0x5a; 512]);
                server.refetch = Some(refetch);
            });
            let found: Vec<_> = attacks(&reports).filter(|attack| !attack.refused).map(|a| a.attack.as_str()).collect();
            assert!(!found.is_empty() && found.iter().all(|found| *found == race), "{race}: {found:?}");
            assert!(!passed(&reports), "{race}");
        }
    }
}

#[test]
fn impossible_indices_close_the_session() {
    for last in [LastAttack::TailBeyondRing, LastAttack::TailBackwards, LastAttack::HeadBeyondRing] {
        let reports = run(last, true, |_| {});
        let end = attacks(&reports).last().unwrap();
        assert!(end.refused && end.stopped_by.contains("closed the session"), "{end:?}");
        assert!(passed(&reports));
    }
}

#[test]
fn faults_are_announced_beforehand() {
    for last in [LastAttack::UnmappedRead, LastAttack::ReadOnlyWrite] {
        let reports = run(last, false, |_| {});
        let done = reports.iter().position(|report| matches!(report, Report::Done { passed: true, .. })).unwrap();
        assert!(done + 2 == reports.len(), "only coming back is reported afterwards: {reports:?}");
    }
}

#[test]
fn each_forbidden_instruction_is_tried_once_whatever_happens_between() {
    let platform = platform(None);
    let reports = run_on(&platform, LastAttack::ForbiddenInstructions, false);
    let tried = |reports: &[Report]| attacks(reports).filter(|attack| attack.attack.contains("instruction")).count();
    // This platform has none of them, so the attacker is not ended by the first.
    assert_eq!(tried(&reports), platform::FORBIDDEN_INSTRUCTIONS + 1, "{reports:?}");
    assert!(passed(&reports));
    // The next incarnation finds on the disk that all are done.
    let mut disk = Vec::new();
    platform.server(|server| disk.clone_from(&server.disk));
    let reports = run(LastAttack::ForbiddenInstructions, false, |server| server.disk = disk);
    assert_eq!(tried(&reports), 1, "{reports:?}");
    assert!(passed(&reports));
}

#[test]
fn dead_server_is_not_taken_for_a_strict_one() {
    let reports = run(LastAttack::Close, true, |server| server.bad_block = Some(0));
    assert!(!passed(&reports));
}

fn names(reports: &[Report]) -> BTreeSet<&str> {
    attacks(reports).map(|attack| attack.attack.as_str()).collect()
}

#[test]
fn attacks_are_refused_whenever_the_server_dies() {
    let ends = [LastAttack::Close, LastAttack::TailBeyondRing, LastAttack::TailBackwards, LastAttack::HeadBeyondRing];
    for (last, polls) in ends.into_iter().flat_map(|last| [(last, false), (last, true)]) {
        // A table with room for the records of both of the blocks that the policy component gives at a time.
        let calm = run_on(&platform(Some(2)), last, polls);
        let mut reconnections = 0;
        for turn in (0..).step_by(7) {
            let platform = platform(Some(2));
            platform.kill_server_after(turn, 3);
            let reports = run_on(&platform, last, polls);
            assert_eq!(names(&reports), names(&calm), "{last:?}, dead at turn {turn}");
            for attack in attacks(&reports) {
                assert!(attack.refused, "{last:?}, dead at turn {turn}: {attack:?}");
            }
            assert!(passed(&reports), "{last:?}, dead at turn {turn}: {reports:?}");
            if !reports.iter().any(|report| matches!(report, Report::Reconnected(_))) {
                // It had ended before the server died.
                break;
            }
            reconnections += 1;
        }
        assert!(reconnections > 20, "{last:?}: {reconnections}");
    }
}

#[test]
fn a_server_that_stays_dead_is_reported_and_no_refusal() {
    let platform = platform(None);
    platform.kill_server_after(9, 1 << 24);
    let reports = run_on(&platform, LastAttack::Close, false);
    let failure = |report: &Report| match report {
        Report::Failure { reason, .. } => Some(reason.to_string()),
        _ => None,
    };
    assert_eq!(reports.iter().filter_map(failure).collect::<Vec<_>>(), ["open again: the server stays dead"]);
    assert!(!passed(&reports));
}
