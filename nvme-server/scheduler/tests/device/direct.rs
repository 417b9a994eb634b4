//! Shares by the controller's arbitration, on a model of a controller that serves queues of three classes by weight.

use crate::run::SECOND;
use scheduler::{Class, Commands, Decision, DeviceDirect, Kind, Policy, SessionId, Share, Tenant};
use std::collections::VecDeque;

/// Commands of each class in a round of the controller's arbitration (NVM Express base specification 1.4, section 4.13.2).
const WEIGHTS: [u32; 3] = [64, 8, 1];

/// A tenant that keeps so many requests of one size in flight, from a time on.
#[derive(Clone, Copy)]
struct Load {
    bytes: u32,
    depth: u32,
    weight: u16,
    from: u64,
}

fn load(bytes: u32, depth: u32) -> Load {
    Load { bytes, depth, weight: 1, from: 0 }
}

/// Serves one command after another, from the queues of a class in turn.
struct Controller {
    /// By class and session: when each command was submitted.
    queues: [Vec<VecDeque<u64>>; 3],
    /// By class: the session of the last command, and commands left in this round.
    turns: [(usize, u32); 3],
}

impl Controller {
    fn new(sessions: usize) -> Self {
        Self { queues: WEIGHTS.map(|_| vec![VecDeque::new(); sessions]), turns: WEIGHTS.map(|weight| (0, weight)) }
    }

    fn next(&mut self) -> Option<(usize, u64)> {
        for _ in 0..2 {
            for (queues, (last, left)) in self.queues.iter_mut().zip(&mut self.turns).filter(|(_, (_, left))| *left > 0)
            {
                let count = queues.len();
                let mut around = (1..=count).map(|step| (*last + step) % count);
                let Some(session) = around.find(|session| !queues[*session].is_empty()) else { continue };
                (*last, *left) = (session, *left - 1);
                return queues[session].pop_front().map(|submitted| (session, submitted));
            }
            // Every class that has commands has had its turns.
            self.turns.iter_mut().zip(WEIGHTS).for_each(|((_, left), weight)| *left = weight);
        }
        None
    }
}

/// Bytes that each tenant got from one to six seconds, by a controller that takes 2 us a command and 1 us for each 4 KiB.
fn bytes_of(loads: &[Load]) -> Vec<f64> {
    let tenants: Vec<Tenant> = loads
        .iter()
        .map(|load| {
            let share = Share { weight: load.weight, ..Share::of(Class::Medium) };
            Tenant { share, highest: Class::Medium }
        })
        .collect();
    let mut policy = DeviceDirect::new(&tenants).unwrap();
    let mut controller = Controller::new(loads.len());
    let (mut waiting, mut got, mut now) = (vec![0; loads.len()], vec![0.0; loads.len()], 0);
    let mut started = vec![false; loads.len()];
    while now < 6 * SECOND {
        for (index, load) in loads.iter().enumerate() {
            if now >= load.from && !started[index] {
                (started[index], waiting[index]) = (true, load.depth);
                policy.ready(SessionId(index as u8), now);
            }
        }
        while let Decision::Serve { session, quantum } = policy.next(now) {
            let index = usize::from(session.0);
            let queue = usize::from(quantum.fastest.expect("each command has its queue"));
            let count = waiting[index].min(u32::from(quantum.commands));
            assert!(count > 0, "only who waits is served");
            (0..count).for_each(|_| controller.queues[queue][index].push_back(now));
            waiting[index] -= count;
            policy.submitted(commands(session, loads[index].bytes, count as u16), now);
            if waiting[index] == 0 {
                policy.idle(session);
            }
        }
        let Some((index, submitted)) = controller.next() else {
            now += 1000;
            continue;
        };
        now += 2000 + 1000 * u64::from(loads[index].bytes / 4096);
        policy.completed(commands(SessionId(index as u8), loads[index].bytes, 1), submitted, now);
        if now >= SECOND {
            got[index] += f64::from(loads[index].bytes);
        }
        waiting[index] += 1;
        policy.ready(SessionId(index as u8), now);
    }
    got
}

fn commands(session: SessionId, bytes: u32, count: u16) -> Commands {
    Commands { session, kind: Kind::Read, bytes, count }
}

/// Each gets the same bytes over its weight, within 5 %.
fn assert_shares(loads: &[Load]) {
    let shares: Vec<f64> = bytes_of(loads).iter().zip(loads).map(|(got, load)| got / f64::from(load.weight)).collect();
    let (least, most) = shares.iter().fold((f64::MAX, 0f64), |(low, high), share| (low.min(*share), high.max(*share)));
    assert!(most / least <= 1.05, "{shares:?}");
}

#[test]
fn depth_and_size_get_nobody_more_of_the_device() {
    assert_shares(&[load(4096, 32), load(4096, 128)]);
    assert_shares(&[load(4096, 32), load(131_072, 8)]);
    assert_shares(&[load(4096, 64), load(16_384, 32), load(131_072, 32)]);
    assert_shares(&[load(4096, 32); 8]);
}

#[test]
fn who_comes_later_begins_where_the_others_are() {
    let loads = [load(4096, 32), Load { from: 3 * SECOND, ..load(16_384, 32) }];
    let [first, second] = bytes_of(&loads).try_into().unwrap();
    // Two of five seconds alone, at 4 KiB in 3 us; and half of the bytes of three, of both sizes in 9 us for 20 KiB.
    let (alone, both): (f64, f64) = (2e6 / 3.0 * 4096.0, 3e6 / (3.0 * 4.0 + 6.0) * 16_384.0);
    assert!((second / both - 1.0).abs() <= 0.05, "{second} and not {both}");
    assert!((first / (alone + both) - 1.0).abs() <= 0.05, "{first} and not {}", alone + both);
}

#[test]
fn weights_share_the_device() {
    let weighing = |weight, load| Load { weight, ..load };
    assert_shares(&[weighing(3, load(4096, 64)), weighing(1, load(4096, 64))]);
    assert_shares(&[weighing(6, load(4096, 64)), weighing(3, load(131_072, 16)), weighing(1, load(4096, 64))]);
}
