//! The whole program on a machine in memory: its reports on a correct server, and its detection of errors.

use blk_client::{Completed, Opcode, Status};
use fake_platform::{FakePlatform, FakeServer, Lost, Order, Setup, block_on};
use report::{Load, Report};
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Waker};
use workload::{Bench, Client, Completion, Forbidden, Pattern};

fn setup() -> Setup {
    Setup { window_bytes: 4 << 20, ring_entries: 32, order: Order::Drawn(11), ..Setup::default() }
}

fn client(bench: Bench) -> Client {
    Client { first_block: 1 << 40, ..fake_platform::client(&setup(), &bench) }
}

fn run_on(platform: &FakePlatform, client: &Client) -> Vec<Report> {
    platform.run_as(client, bench::run)
}

/// Runs the bench on a server that `prepare` has modified.
fn run(bench: Bench, prepare: impl FnOnce(&mut FakeServer)) -> Vec<Report> {
    let platform = FakePlatform::new(&setup());
    platform.server(prepare);
    run_on(&platform, &client(bench))
}

fn load(reports: &[Report]) -> &Load {
    let load = reports.iter().find_map(|report| if let Report::Load(load) = report { Some(load) } else { None });
    load.unwrap_or_else(|| panic!("no load in {reports:?}"))
}

fn passed(reports: &[Report]) -> bool {
    matches!(reports.last(), Some(Report::Done { passed: true, .. }))
}

fn reasons(reports: &[Report]) -> Vec<&str> {
    fn reason(report: &Report) -> Option<&str> {
        if let Report::Failure { reason, .. } = report { Some(reason) } else { None }
    }
    reports.iter().filter_map(reason).collect()
}

#[test]
fn every_shape_of_load_passes_on_an_honest_server() {
    let base = Bench { operations: 300, ..Bench::default() };
    let shapes = [
        base.clone(),
        Bench { pattern: Pattern::Sequential, block_bytes: 512, depth: 32, ..base.clone() },
        Bench { misalign_bytes: 4, segments: 5, block_bytes: 8192, ..base.clone() },
        Bench { max_block_bytes: 1 << 18, block_bytes: 512, segments: 3, depth: 3, operations: 40, ..base.clone() },
        Bench { flush_every: 7, zeroes: true, read_percent: 20, ..base.clone() },
        Bench { compares: true, zeroes: true, segments: 3, block_bytes: 8192, ..base.clone() },
        Bench { operations: 0, milliseconds: 3, ..base.clone() },
        Bench { verify: false, depth: 16, ..base },
    ];
    for bench in shapes {
        let reports = run(bench.clone(), |_| {});
        assert!(passed(&reports), "{bench:?}: {reports:?}");
        let load = load(&reports);
        assert_eq!((load.wrong_bytes, load.errors), (0, 0));
        assert!(bench.operations == 0 || load.reads + load.writes == bench.operations, "{bench:?}: {load:?}");
        assert!(load.p50_ns <= load.p99_ns && load.p99_ns <= load.p999_ns && load.p999_ns <= load.max_ns);
        assert_eq!(reports.iter().filter(|report| matches!(report, Report::FirstIo { .. })).count(), 1);
    }
}

#[test]
fn compares_and_verifies_that_answer_wrongly_fail_the_load() {
    let of_a_lie = |status, answers: fn(Opcode, u64) -> bool| {
        let mut count = 0;
        let bench = Bench { compares: true, operations: 50, ..Bench::default() };
        let reports = run(bench, |server| {
            server.loses = Some(Box::new(move |request| {
                count += u64::from(request.opcode() == Opcode::Compare);
                answers(request.opcode(), count).then_some(Lost { blocks: 0, status })
            }));
        });
        assert!(!passed(&reports));
        reasons(&reports).first().expect("a reason").to_string()
    };
    let blind = of_a_lie(Status::Success, |opcode, count| opcode == Opcode::Compare && count == 2);
    assert_eq!(blind, "blocks from 0 on compared as equal with other data");
    let wrong = of_a_lie(Status::CompareFailed, |opcode, count| opcode == Opcode::Compare && count == 1);
    assert_eq!(wrong, "compare at block 0: the blocks differ from the data (controller: 0x285)");
    let bad = of_a_lie(Status::MediaError, |opcode, _| opcode == Opcode::Verify);
    assert_eq!(bad, "verify at block 0: media error (controller: 0x281)");
    let lacking = of_a_lie(Status::Unsupported, |opcode, _| opcode == Opcode::Compare);
    assert_eq!(lacking, "compare at block 0: the controller cannot do this operation");
}

#[test]
fn controller_without_verify_is_none_that_fails() {
    let bench = Bench { compares: true, operations: 50, ..Bench::default() };
    let reports = run(bench, |server| {
        server.loses = Some(Box::new(|request| {
            (request.opcode() == Opcode::Verify).then_some(Lost { blocks: 0, status: Status::Unsupported })
        }));
    });
    assert!(passed(&reports), "{reports:?}");
}

fn progress(report: &Report) -> Option<&report::Progress> {
    if let Report::Progress(progress) = report { Some(progress) } else { None }
}

#[test]
fn progress_intervals_meet_and_leave_nothing_out() {
    let bench = Bench { operations: 4000, verify: false, progress_milliseconds: 1, ..Bench::default() };
    let reports = run(bench.clone(), |_| {});
    let reported: Vec<_> = reports.iter().filter_map(progress).collect();
    assert!(reported.len() > 2, "{reported:?}");
    assert_eq!(reported.iter().map(|one| one.operations).sum::<u64>(), 4000);
    assert_eq!(reported.iter().map(|one| one.bytes).sum::<u64>(), 4000 * u64::from(bench.block_bytes));
    assert_eq!(reported.iter().map(|one| one.max_ns).max(), Some(load(&reports).max_ns));
    for pair in reported.windows(2) {
        assert_eq!(pair[0].until_ns, pair[1].since_ns);
        assert!(pair[0].until_ns - pair[0].since_ns >= 1_000_000, "more than one in a millisecond: {reported:?}");
    }
    let none = run(Bench { progress_milliseconds: 0, ..bench }, |_| {});
    assert!(none.iter().all(|report| progress(report).is_none()));
}

#[test]
fn the_last_interval_has_only_requests_in_flight_at_the_deadline() {
    let depth = 4;
    let bench =
        Bench { operations: 0, milliseconds: 5, progress_milliseconds: 2, verify: false, depth, ..Bench::default() };
    let reports = run(bench, |_| {});
    let reported: Vec<_> = reports.iter().filter_map(progress).collect();
    let last = reported.last().unwrap();
    assert!((1..=u64::from(depth)).contains(&last.operations), "{reported:?}");
}

#[test]
fn a_load_makes_a_request_however_late_it_is() {
    let client = client(Bench { operations: 0, milliseconds: 1, verify: false, depth: 1, ..Bench::default() });
    let platform = FakePlatform::new(&setup());
    platform.set_pace(2_000_000);
    let reports = run_on(&platform, &client);
    let load = load(&reports);
    assert_eq!((passed(&reports), load.reads + load.writes), (true, 1), "{load:?}");
}

#[test]
fn a_load_whose_moment_has_come_makes_a_request() {
    let bench = Bench { operations: 0, verify: false, depth: 1, ..Bench::default() };
    let platform = FakePlatform::new(&setup());
    platform.announce(3);
    let reports = run_on(&platform, &Client { ends: Some(3), ..client(bench) });
    let load = load(&reports);
    assert_eq!((passed(&reports), load.reads + load.writes), (true, 1), "{load:?}");
}

#[test]
fn a_load_ends_with_its_session() {
    let client = client(Bench { operations: 0, milliseconds: 10_000, depth: 4, ..Bench::default() });
    let platform = FakePlatform::new(&setup());
    platform.kill_server_after(300, u32::MAX);
    let reports = run_on(&platform, &client);
    assert!(!passed(&reports));
    assert!(reasons(&reports).iter().any(|reason| reason.ends_with("the session is closed")), "{reports:?}");
    let load = load(&reports);
    assert!(load.reads > 0 && (1..=4).contains(&load.errors), "one for each in flight: {load:?}");
}

#[test]
fn a_load_ends_when_its_session_is_unusable() {
    let bench = Bench { operations: 0, milliseconds: 10_000, depth: 4, ..Bench::default() };
    let forged = Completed { user_data: u64::MAX, ..Completed::default() };
    let reports = run(bench, |server| server.forged.push(forged));
    assert!(!passed(&reports));
    assert!((1..=8).contains(&load(&reports).errors), "one for each in flight, and for a flush: {reports:?}");
}

#[test]
fn a_load_that_is_delayed_sleeps_until_the_tick_after_the_delay() {
    let client = client(Bench { delay_milliseconds: 1, operations: 10, ..Bench::default() });
    let platform = FakePlatform::new(&setup());
    let environment = platform.environment_of(&client);
    let mut program = pin!(bench::run(platform.clone(), environment));
    let mut context = Context::from_waker(Waker::noop());
    assert!(program.as_mut().poll(&mut context).is_pending());
    platform.tick_who_waits();
    block_on(program);
    let reports = platform.take_reports();
    assert!(passed(&reports), "{reports:?}");
}

#[test]
fn think_time_is_no_latency() {
    let bench = Bench { operations: 50, verify: false, depth: 1, ..Bench::default() };
    let (quick, slow) = (run(bench.clone(), |_| {}), run(Bench { think_microseconds: 1_000, ..bench }, |_| {}));
    let (quick, slow) = (load(&quick), load(&slow));
    assert!(slow.elapsed_ns >= quick.elapsed_ns + 50 * 1_000_000, "{slow:?}");
    assert!(slow.p50_ns < 2 * quick.p50_ns, "{quick:?} {slow:?}");
}

#[test]
fn where_sizes_vary_one_read_has_the_largest_whatever_is_drawn() {
    let (largest, seen) = (1 << 18, Rc::new(Cell::new(0)));
    // Only writes are drawn, so the only reads are the mandatory ones.
    let bench = Bench {
        max_block_bytes: largest,
        block_bytes: 512,
        read_percent: 0,
        depth: 2,
        operations: 5,
        ..Bench::default()
    };
    let reads = seen.clone();
    let reports = run(bench.clone(), move |server| {
        server.tamper =
            Some(Box::new(move |_, data| reads.set(reads.get() + usize::from(data.len() == largest as usize))));
    });
    assert!(passed(&reports), "{reports:?}");
    assert_eq!(seen.get(), 1);
    assert_eq!(load(&reports).reads, 0, "it is not of the mix");
    let beyond = run(Bench { max_block_bytes: 1 << 30, ..bench }, |_| {});
    assert!(!passed(&beyond) && reasons(&beyond)[0].contains("bytes instead of 1073741824"), "{beyond:?}");
}

#[test]
fn polling_client_needs_no_signals() {
    let platform = FakePlatform::new(&setup());
    assert!(passed(&run_on(&platform, &Client { polls: true, ..client(Bench::default()) })));
}

#[test]
fn every_byte_is_right_however_completions_are_awaited() {
    let ways = [Completion::Interrupt, Completion::Polled, Completion::SleepThenPoll, Completion::Automatic];
    for (completion, polls) in ways.into_iter().flat_map(|way| [(way, false), (way, true)]) {
        let load_of = Bench { completion, operations: 300, ..Bench::default() };
        let measured = Bench { measure: "device-read".into(), read_percent: 100, ..load_of.clone() };
        for bench in [load_of, measured] {
            let platform = FakePlatform::new(&Setup { alarm: true, ..setup() });
            platform.tick_who_waits();
            let reports = run_on(&platform, &Client { polls, ..client(bench) });
            assert!(passed(&reports), "{completion:?}, polls: {polls}: {reports:?}");
        }
    }
}

#[test]
fn one_flipped_bit_is_found_and_placed() {
    let mut left = 50;
    let reports = run(Bench::default(), move |server| {
        server.tamper = Some(Box::new(move |_, data| {
            left -= 1;
            data[1000] ^= u8::from(left == 0);
        }));
    });
    assert!(!passed(&reports));
    assert_eq!(load(&reports).wrong_bytes, 1);
    let reasons = reasons(&reports);
    assert!(reasons.len() == 1 && reasons[0].contains("1 wrong byte, it is damaged"), "{reasons:?}");
}

#[test]
fn lost_write_shows_as_a_stale_generation() {
    // Every read of the block that was read second returns its content at that time.
    let (mut kept, mut reads) = (None::<(Option<u64>, Vec<u8>)>, 0);
    let reports = run(Bench { read_percent: 50, operations: 20000, ..Bench::default() }, move |server| {
        server.tamper = Some(Box::new(move |request, data| {
            let block = request.access().map(|access| access.lba);
            reads += 1;
            if reads == 2 {
                kept = Some((block, data.to_vec()));
            }
            if let Some((_, old)) = kept.as_ref().filter(|(kept, _)| *kept == block) {
                data.copy_from_slice(old);
            }
        }));
    });
    assert!(!passed(&reports));
    assert!(reasons(&reports).iter().all(|reason| reason.contains("it holds generation")), "{:?}", reasons(&reports));
}

#[test]
fn block_of_another_place_is_recognised() {
    let mut last: Vec<u8> = vec![];
    let reports = run(Bench::default(), move |server| {
        server.tamper = Some(Box::new(move |_, data| {
            let now = data.to_vec();
            if last.len() == data.len() {
                data.copy_from_slice(&last);
            }
            last = now;
        }));
    });
    assert!(!passed(&reports));
    assert!(
        reasons(&reports).iter().all(|reason| reason.contains("it holds block 1099511")),
        "{:?}",
        reasons(&reports)
    );
}

#[test]
fn data_that_never_came_is_wrong() {
    let mut reads = 0;
    let reports = run(Bench { operations: 100, ..Bench::default() }, move |server| {
        server.tamper = Some(Box::new(move |_, data| {
            reads += 1;
            if reads > 1 {
                data.fill(0);
            }
        }));
    });
    assert!(!passed(&reports));
    assert!(load(&reports).wrong_bytes > 4000);
}

#[test]
fn reads_of_the_bad_block_must_fail_and_no_others() {
    let bench = Bench { bad_block: Some(100), operations: 2000, ..Bench::default() };
    let reports = run(bench.clone(), |server| server.bad_block = Some(100));
    assert!(passed(&reports), "{reports:?}");
    assert!(!passed(&run(bench.clone(), |_| {})), "it did not fail");
    assert!(!passed(&run(bench, |server| server.bad_block = Some(108))), "another block failed");
    let reports = run(Bench { operations: 2000, ..Bench::default() }, |server| server.bad_block = Some(100));
    assert!(!passed(&reports), "an unexpected failure");
    assert!(reasons(&reports).iter().all(|reason| reason.contains("media error (controller: 0x281)")));
}

/// Runs a load whose first 512 blocks the server forbids from request `from` until request `until` on these blocks.
fn forbidden(expects: Forbidden, from: u64, until: u64) -> Vec<Report> {
    let mut requests = 0;
    run(Bench { operations: 4000, forbidden: expects, ..Bench::default() }, move |server| {
        server.forbids = Some(Box::new(move |request| {
            let concerned = request.access().is_some_and(|access| access.lba < 512);
            requests += u64::from(concerned);
            concerned && (from..until).contains(&requests)
        }));
    })
}

#[test]
fn load_with_stable_rights_fails_on_one_refusal() {
    assert!(passed(&forbidden(Forbidden::Never, u64::MAX, u64::MAX)));
    let one = forbidden(Forbidden::Never, 200, 201);
    assert!(!passed(&one));
    assert!(reasons(&one).len() == 1 && reasons(&one)[0].starts_with("request at block "), "{:?}", reasons(&one));
    assert_eq!((load(&one).errors, load(&one).forbidden), (1, 0));
}

#[test]
fn load_that_loses_rights_for_good_expects_refusals_only() {
    let lost = forbidden(Forbidden::ForGood, 200, u64::MAX);
    assert!(passed(&lost) && load(&lost).forbidden > 50, "{:?}", reasons(&lost));
    let kept = forbidden(Forbidden::ForGood, u64::MAX, u64::MAX);
    assert_eq!((passed(&kept), reasons(&kept).as_slice()), (false, &["no request was forbidden"][..]));
    let back = forbidden(Forbidden::ForGood, 200, 300);
    assert!(!passed(&back));
    assert!(reasons(&back).iter().all(|reason| reason.ends_with("was done, although it had been forbidden")));
}

#[test]
fn load_that_loses_rights_for_a_while_expects_both() {
    let back = forbidden(Forbidden::ForAWhile, 200, 300);
    assert!(passed(&back), "{:?}", reasons(&back));
    assert_eq!(load(&back).forbidden, 100);
    let lost = forbidden(Forbidden::ForAWhile, 200, u64::MAX);
    assert_eq!((passed(&lost), reasons(&lost).as_slice()), (false, &["what was forbidden was never done again"][..]));
    assert!(!passed(&forbidden(Forbidden::ForAWhile, u64::MAX, u64::MAX)));
}

#[test]
fn load_of_a_system_with_an_operator_passes_whatever_becomes_of_its_rights() {
    for (from, until) in [(u64::MAX, u64::MAX), (200, 300), (200, u64::MAX)] {
        let reports = forbidden(Forbidden::Possibly, from, until);
        assert!(passed(&reports), "{:?}", reasons(&reports));
        assert_eq!((load(&reports).errors, load(&reports).forbidden > 0), (0, from == 200));
    }
}

#[test]
fn impossible_configurations_are_reported() {
    let base = Bench::default();
    let cases = [
        (Bench { block_bytes: 700, ..base.clone() }, "block_bytes 700 is not a multiple of the namespace's 512"),
        (Bench { segments: 6, ..base.clone() }, "segments must be"),
        (Bench { misalign_bytes: 3, ..base.clone() }, "segments must be"),
        (Bench { block_bytes: 64 << 20, ..base.clone() }, "less than one request"),
        (Bench { operations: 0, ..base }, "neither operations nor milliseconds"),
    ];
    for (bench, expected) in cases {
        let reports = run(bench, |_| {});
        assert!(!passed(&reports));
        assert!(reasons(&reports).iter().any(|reason| reason.contains(expected)), "{expected}: {reports:?}");
    }
}

#[test]
fn measuring_reports_what_lay_between_the_markers() {
    let shapes = [
        ("read-4k-qd1-interrupt", 1, 100, false),
        ("read-4k-qd32-polled", 32, 100, true),
        ("read-4k-qd32-interrupt", 32, 50, false),
        ("device-read-4k-qd32", 32, 100, false),
        ("device-write-4k-qd32", 32, 0, false),
        ("device-read-4k-qd32", 32, 100, true),
        ("ipc-call", 1, 100, false),
    ];
    for (name, depth, read_percent, polls) in shapes {
        let bench = Bench { measure: name.into(), depth, read_percent, operations: 500, ..Bench::default() };
        let platform = FakePlatform::new(&setup());
        platform.tick_who_waits();
        let reports = run_on(&platform, &Client { polls, ..client(bench) });
        assert!(passed(&reports), "{reports:?}");
        let Some(Report::Measured(report::Measured { name: reported, operations, .. })) = reports.first() else {
            panic!("{reports:?}")
        };
        assert_eq!((reported.as_str(), *operations), (name, 500));
    }
}

#[test]
fn measuring_submits_as_many_reads_and_writes_as_the_percentage_says() {
    for (name, read_percent) in [("device-write-4k-qd32", 0), ("read-4k-qd32", 100), ("read-4k-qd32", 50)] {
        let (reads, writes) = (Rc::new(Cell::new(0u64)), Rc::new(Cell::new(0u64)));
        let bench = Bench { measure: name.into(), depth: 32, read_percent, operations: 6400, ..Bench::default() };
        let platform = FakePlatform::new(&setup());
        platform.tick_who_waits();
        let (of_reads, of_writes) = (Rc::clone(&reads), Rc::clone(&writes));
        platform.server(|server| {
            server.loses = Some(Box::new(move |request| {
                let count = if request.opcode() == Opcode::Read { &of_reads } else { &of_writes };
                count.set(count.get() + 1);
                None
            }));
        });
        assert!(passed(&run_on(&platform, &client(bench))));
        let all = 6400 + 4 * 32;
        assert_eq!(reads.get() + writes.get(), all);
        // The first completion among those in flight is drawn.
        assert!(reads.get().abs_diff(all * u64::from(read_percent) / 100) < all / 20, "{reads:?} of {all}");
    }
}

#[test]
fn failed_or_impossible_measurement_is_none() {
    let base = Bench { measure: "device-read-4k-qd32".into(), depth: 32, read_percent: 100, ..Bench::default() };
    let cases = [
        (Bench { read_percent: 70, ..base.clone() }, "not this percentage of reads"),
        (Bench { measure: "read-4k-qd32".into(), block_bytes: 1 << 20, ..base.clone() }, "do not hold"),
        (Bench { block_bytes: 1 << 20, ..base }, "do not hold"),
    ];
    for (bench, expected) in cases {
        let reports = run(bench, |_| {});
        assert!(!passed(&reports));
        assert!(reasons(&reports).iter().any(|reason| reason.contains(expected)), "{expected}: {reports:?}");
    }
}

/// Runs a load of which the server ends every hundredth request with `status`, for `tries` tries of it.
fn lost(status: Status, tries: u64, retries: u8) -> Vec<Report> {
    let (mut requests, mut left) = (0u64, 0);
    run(Bench { operations: 2000, flush_every: 16, depth: 1, retries, ..Bench::default() }, move |server| {
        server.loses = Some(Box::new(move |_| {
            requests += 1;
            if requests.is_multiple_of(100) {
                left = tries;
            }
            let is_lost = left > 0;
            left -= u64::from(is_lost);
            is_lost.then_some(Lost { blocks: 1, status })
        }));
    })
}

#[test]
fn lost_commands_fail_no_load_and_failed_ones_are_retried() {
    for status in [Status::ControllerReset, Status::TimedOut] {
        assert!(passed(&lost(status, 3, 0)), "{status}");
        let given_up = lost(status, 4, 8);
        assert!(!passed(&given_up) && reasons(&given_up)[0].ends_with(&status.to_string()), "{given_up:?}");
    }
    for status in [Status::MediaError, Status::DeviceError] {
        assert!(passed(&lost(status, 4, 4)), "{status}");
        assert!(!passed(&lost(status, 1, 0)), "{status}");
    }
}
