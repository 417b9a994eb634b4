//! The completion of a request is awaited as chosen, and its result is the same whatever the choice (SEEDS M6, M7).

use blk_client::{Completed, Completion, Device, Error, Status};
use fake_platform::{FakePlatform, Lost, Order, Setup, block_on, open, turn};
use platform::Platform;
use std::iter::once;

/// A way to make trouble.
type Trouble = fn(&FakePlatform);

/// Length of the longest alarm, ticks.
const ALARM_TICKS: u64 = 160_000;
/// Tries of a request that the controller gives no verdict of.
const TRIES: u64 = 4;

fn lose_requests(platform: &FakePlatform, status: Status) {
    platform.server(|server| {
        let mut left = TRIES;
        server.loses = Some(Box::new(move |_| {
            let is_lost = left > 0;
            left = left.saturating_sub(1);
            is_lost.then_some(Lost { blocks: 0, status })
        }));
    });
}

/// All choices, none included.
fn choices() -> impl Iterator<Item = Option<Completion>> {
    once(None).chain(Completion::ALL.map(Some))
}

/// The sessions in which a choice can be made: what their options are, and whether they have alarms.
fn sessions() -> impl Iterator<Item = (bool, bool)> {
    [(false, false), (false, true), (true, false), (true, true)].into_iter()
}

/// Reads the block at `lba`, with the completion awaited as chosen.
async fn read(device: &Device<FakePlatform>, lba: u64, chosen: Option<Completion>) -> Result<(), Error> {
    let range = device.window().lease(512).expect("room");
    let request = device.read(lba, &[range.whole()]);
    match chosen {
        Some(completion) => request.by(completion).await,
        None => request.await,
    }
}

#[test]
fn same_error_reaches_the_client_by_every_choice() {
    let failed = |status| Err(Error::status(status));
    let troubles: [(&str, Trouble, u64, Result<(), Error>); 8] = [
        ("none", |_| {}, 7, Ok(())),
        (
            "media error",
            |platform| platform.server(|server| server.bad_block = Some(7)),
            7,
            Err(Error::Failed { status: Status::MediaError, device_status: 0x281 }),
        ),
        ("out of range", |_| {}, 4096, failed(Status::OutsideExtents)),
        (
            "forbidden",
            |platform| platform.server(|server| server.forbids = Some(Box::new(|_| true))),
            7,
            failed(Status::Forbidden),
        ),
        ("timeout", |platform| lose_requests(platform, Status::TimedOut), 7, failed(Status::TimedOut)),
        ("reset", |platform| lose_requests(platform, Status::ControllerReset), 7, failed(Status::ControllerReset)),
        ("server gone", |platform| platform.kill_server(u32::MAX), 7, Err(Error::CLOSED)),
        (
            "unknown completion",
            |platform| platform.server(|server| server.forged.push(Completed { user_data: 9, ..Completed::default() })),
            7,
            Err(Error::UnknownCompletion),
        ),
    ];
    for ((trouble, make, lba, expected), (polls, alarm)) in
        troubles.into_iter().flat_map(|trouble| sessions().map(move |session| (trouble, session)))
    {
        for chosen in choices() {
            let (platform, device) = open(&Setup { alarm, ..Setup::default() }, polls);
            let outcome = block_on(device.run(async {
                // So that the time of such a request is known.
                assert_eq!(read(&device, 1, chosen).await, Ok(()));
                make(&platform);
                read(&device, lba, chosen).await
            }));
            assert_eq!(outcome, expected, "{trouble}, {chosen:?}, polls: {polls}, alarm: {alarm}");
        }
    }
}

#[test]
fn requests_with_every_choice_in_flight_together_are_all_done() {
    for ((polls, alarm), order) in sessions()
        .flat_map(|session| [Order::Submitted, Order::Reversed, Order::Drawn(5)].map(|order| (session, order)))
    {
        let (platform, device) = open(&Setup { alarm, order, ..Setup::default() }, polls);
        platform.server(|server| server.bad_block = Some(2));
        block_on(device.run(async {
            for _ in 0..20 {
                let range = device.window().lease(512).unwrap();
                // More than there are slots, so that some are submitted later.
                let requests: Vec<_> = (0..4u64)
                    .flat_map(|lba| choices().map(move |chosen| (lba, chosen)))
                    .map(|(lba, chosen)| {
                        let request = device.read(lba, &[range.whole()]);
                        (lba, chosen.into_iter().fold(request, |request, chosen| request.by(chosen)))
                    })
                    .collect();
                for (lba, request) in requests {
                    assert_eq!(request.await.is_err(), lba == 2);
                }
            }
        }));
        assert_eq!((device.in_flight(), device.window().free_bytes()), (0, device.window().len()));
    }
}

/// Makes a flush that takes longer than three alarms. It is polled for, because its time is unknown.
async fn flush_slowly(platform: &FakePlatform, device: &Device<FakePlatform>) {
    platform.server(|server| server.order = Order::Silent);
    let long = device.flush().by(Completion::SleepThenPoll);
    while platform.alarms() == 0 && platform.ticks() < 3 * ALARM_TICKS {
        turn().await;
    }
    platform.server(|server| server.order = Order::Submitted);
    assert_eq!((long.await, platform.alarms()), (Ok(()), 0));
}

#[test]
fn alarm_that_the_program_takes_is_asked_for_again() {
    let (platform, device) = open(&Setup { alarm: true, ..Setup::default() }, false);
    block_on(device.run(async {
        flush_slowly(&platform, &device).await;
        let (sleeper, other) = (device.flush().by(Completion::SleepThenPoll), device.flush());
        assert_eq!((sleeper.await, other.await, platform.alarms()), (Ok(()), Ok(()), 0), "a signal was first");
        assert!(platform.poll_event().is_some());
        assert_eq!(platform.alarms(), 1, "the program took it");
        assert_eq!(device.flush().by(Completion::SleepThenPoll).await, Ok(()));
        assert_eq!(platform.alarms(), 2);
    }));
}

#[test]
fn sleeper_sleeps_by_alarms_and_asks_for_no_signal() {
    let setup = Setup { alarm: true, ..Setup::default() };
    let (platform, device) = open(&setup, false);
    block_on(device.run(async {
        flush_slowly(&platform, &device).await;
        assert_eq!(device.flush().by(Completion::SleepThenPoll).await, Ok(()));
        assert_eq!(platform.alarms(), 1, "it slept, and found the completion then");
        assert_eq!(device.flush().by(Completion::Polled).await, Ok(()));
        assert_eq!(platform.alarms(), 1);
    }));
}

#[test]
fn request_that_never_ends_is_not_polled_for_ever() {
    for completion in [Completion::SleepThenPoll, Completion::Automatic] {
        let (platform, device) = open(&Setup { alarm: true, ..Setup::default() }, false);
        block_on(device.run(async {
            assert_eq!(device.flush().by(completion).await, Ok(()));
            platform.server(|server| server.order = Order::Silent);
            let late = device.flush().by(completion);
            while platform.ticks() < 40 * ALARM_TICKS {
                turn().await;
            }
            let before = platform.alarms();
            turn().await;
            assert_eq!(platform.alarms(), before, "{completion:?}: it sleeps until it is signalled");
            platform.server(|server| server.order = Order::Submitted);
            assert_eq!(late.await, Ok(()));
        }));
    }
}

#[test]
fn choice_survives_the_death_of_the_server() {
    for (completion, (polls, alarm)) in
        Completion::ALL.into_iter().flat_map(|completion| sessions().map(move |session| (completion, session)))
    {
        let (platform, device) = open(&Setup { alarm, ..Setup::default() }, polls);
        block_on(device.run(async {
            assert_eq!(read(&device, 1, Some(completion)).await, Ok(()));
            platform.kill_server(3);
            assert_eq!(read(&device, 2, Some(completion)).await, Ok(()), "{completion:?}");
        }));
    }
}
