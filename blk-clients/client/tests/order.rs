//! Changes of the same blocks under all faults that repeat requests: missed records, servers that die, controllers that
//! lose requests done wholly or in part, and users that do not wait.
//!
//! Each block is a register. Its changes have an order, the one in which they were submitted. In the end it has the
//! content of the last acknowledged change, or of an unacknowledged one after that. A read returns a content that is
//! possible at its time.

use blk_client::{Device, Error, Status, WindowRange};
use fake_platform::{FakePlatform, Lost, Order, Setup, block_on, open};
use platform::fake::Ram;
use proptest::prelude::*;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

const BLOCK: usize = 512;
const BLOCKS: u64 = 12;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Read,
    Write,
    Discard,
    WriteZeroes,
    Flush,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    kind: Kind,
    lba: u64,
    blocks: u32,
    /// The task goes on before the request is done, and drops its result.
    is_dropped: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![
        3 => Just(Kind::Read),
        5 => Just(Kind::Write),
        1 => Just(Kind::Discard),
        1 => Just(Kind::WriteZeroes),
        1 => Just(Kind::Flush),
    ];
    let place = (0..BLOCKS).prop_flat_map(|lba| (Just(lba), 1..=(BLOCKS - lba).min(4) as u32));
    (kind, place, prop::bool::weighted(0.1)).prop_map(|(kind, (lba, blocks), is_dropped)| Step {
        kind,
        lba,
        blocks,
        is_dropped,
    })
}

/// Faults of a run.
#[derive(Clone, Debug)]
struct Faults {
    seed: u64,
    /// Lost requests of 100.
    lost: u64,
    /// Records of one block each; without, none are needed.
    records: Option<usize>,
    /// Turns that each of the first servers has before it dies.
    deaths: Vec<u32>,
    polls: bool,
}

fn faults() -> impl Strategy<Value = Faults> {
    let records = prop_oneof![Just(None), (4usize..12).prop_map(Some)];
    (any::<u64>(), 0u64..60, records, prop::collection::vec(0u32..30, 0..4), any::<bool>())
        .prop_map(|(seed, lost, records, deaths, polls)| Faults { seed, lost, records, deaths, polls })
}

/// A change, in the order of submission.
#[derive(Debug)]
struct Change {
    lba: u64,
    blocks: u32,
    byte: u8,
    /// When it was submitted and when it was acknowledged, if it was.
    submitted: u64,
    acknowledged: Option<u64>,
}

/// The changes, and the time in events.
#[derive(Debug, Default)]
struct History {
    now: u64,
    changes: Vec<Change>,
    wrong: Vec<String>,
}

impl History {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// Returns the possible contents of a block from one moment to another.
    fn possible(&self, block: u64, from: u64, until: u64) -> Vec<u8> {
        let mut possible = vec![0];
        let concerns = |change: &&Change| (change.lba..change.lba + u64::from(change.blocks)).contains(&block);
        for change in self.changes.iter().filter(concerns).filter(|change| change.submitted < until) {
            if change.acknowledged.is_some_and(|acknowledged| acknowledged < from) {
                possible.clear();
            }
            possible.push(change.byte);
        }
        possible
    }

    fn judge(&mut self, what: &str, lba: u64, found: &[u8], from: u64, until: u64) {
        for (block, found) in (lba..).zip(found.chunks(BLOCK)) {
            let possible = self.possible(block, from, until);
            if found.iter().any(|byte| *byte != found[0]) || !possible.contains(&found[0]) {
                self.wrong.push(format!("{what}: block {block} holds {} instead of {possible:?}", found[0]));
            }
        }
    }
}

struct World {
    device: Device<FakePlatform>,
    history: RefCell<History>,
}

impl World {
    fn open(faults: &Faults) -> (FakePlatform, Self) {
        let setup = Setup {
            blocks: BLOCKS,
            order: Order::Drawn(faults.seed),
            records: faults.records,
            ring_entries: 64,
            ..Setup::default()
        };
        let (platform, device) = open(&setup, faults.polls);
        let (mut state, percent) = (faults.seed, faults.lost);
        platform.server(|server| {
            server.loses = Some(Box::new(move |request| {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                let status = if state >> 63 == 0 { Status::ControllerReset } else { Status::TimedOut };
                let blocks = (state >> 40) as u32 % (request.access().map_or(0, |access| access.blocks) + 1);
                ((state >> 33) % 100 < percent).then_some(Lost { blocks, status })
            }));
        });
        (platform, Self { device, history: RefCell::default() })
    }

    /// Records the change; returns its number.
    fn begin(&self, step: &Step, byte: u8) -> usize {
        let history = &mut *self.history.borrow_mut();
        let submitted = history.tick();
        let Step { lba, blocks, .. } = *step;
        history.changes.push(Change { lba, blocks, byte, submitted, acknowledged: None });
        history.changes.len() - 1
    }

    fn end(&self, number: usize, outcome: Result<(), Error>) {
        let history = &mut *self.history.borrow_mut();
        let now = history.tick();
        history.changes[number].acknowledged = outcome.is_ok().then_some(now);
    }

    fn lease(&self, step: &Step, byte: u8) -> WindowRange<Ram> {
        let range = self.device.window().lease(step.blocks as usize * BLOCK).unwrap();
        range.write_bytes(0, &vec![byte; range.len()]).unwrap();
        range
    }

    async fn read(&self, step: &Step) {
        let range = self.lease(step, 0xee);
        let from = self.history.borrow_mut().tick();
        let outcome = self.device.read(step.lba, &[range.whole()]).await;
        let mut found = vec![0; range.len()];
        range.read_bytes(0, &mut found).unwrap();
        let history = &mut *self.history.borrow_mut();
        let until = history.tick();
        if outcome.is_ok() {
            history.judge("a read", step.lba, &found, from, until);
        }
    }

    async fn change(&self, step: &Step, byte: u8) {
        let (range, byte) = match step.kind {
            Kind::Discard => (None, 0xdd),
            Kind::WriteZeroes => (None, 0),
            _ => (Some(self.lease(step, byte)), byte),
        };
        let number = self.begin(step, byte);
        let request = match (step.kind, &range) {
            (_, Some(range)) => self.device.write(step.lba, &[range.whole()]),
            (Kind::Discard, None) => self.device.discard(step.lba, step.blocks),
            (_, None) => self.device.write_zeroes(step.lba, step.blocks),
        };
        if !step.is_dropped {
            self.end(number, request.await);
        }
    }

    /// Runs task number `task`; each of its writes has a byte that no other write has.
    async fn task(&self, task: usize, steps: &[Step]) {
        for (number, step) in steps.iter().enumerate() {
            match step.kind {
                Kind::Read if step.is_dropped => drop(self.device.read(step.lba, &[self.lease(step, 0).whole()])),
                Kind::Read => self.read(step).await,
                // Its result has no effect on contents.
                Kind::Flush => drop(self.device.flush().await),
                _ => self.change(step, (1 + task * MOST_STEPS + number) as u8).await,
            }
        }
    }

    /// Runs all tasks, the deaths of some servers, and the requests that no task waits for.
    async fn work(&self, platform: &FakePlatform, tasks: &[Vec<Step>], deaths: &[u32]) {
        let mut deaths = deaths.iter();
        let mut works: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = vec![];
        for (task, steps) in tasks.iter().enumerate() {
            works.push(Box::pin(self.task(task, steps)));
        }
        let mut turns = 0;
        poll_fn(|context| {
            // Another death for a server that has not died by then.
            if turns % 16 == 0
                && let Some(server_turns) = deaths.next()
            {
                platform.kill_server_after(*server_turns, 3);
            }
            turns += 1;
            works.retain_mut(|work| work.as_mut().poll(context).is_pending());
            if works.is_empty() && self.device.in_flight() == 0 {
                return Poll::Ready(());
            }
            if works.is_empty() {
                context.waker().wake_by_ref();
            }
            Poll::Pending
        })
        .await;
    }
}

const MOST_TASKS: usize = 6;
const MOST_STEPS: usize = 16;

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn changes_are_neither_lost_nor_reordered(
        tasks in prop::collection::vec(prop::collection::vec(step(), 1..=MOST_STEPS), 1..=MOST_TASKS),
        faults in faults(),
    ) {
        let (platform, world) = World::open(&faults);
        block_on(world.device.run(world.work(&platform, &tasks, &faults.deaths)));
        let history = &mut *world.history.borrow_mut();
        let disk = platform.server(|server| server.disk.clone());
        let now = history.tick();
        history.judge("in the end", 0, &disk, now, now);
        prop_assert!(history.wrong.is_empty(), "{:#?}\n{:#?}", history.wrong, history.changes);
        prop_assert_eq!(world.device.window().free_bytes(), world.device.window().len());
    }
}
