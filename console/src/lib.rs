//! Holds the serial port and sends every component's log and records to the build machine.
//!
//! Its neighbours are the components' log rings, which it maps read-only ([`report::ring`]), and the reader at the other
//! end of the line, with which it shares the frame format ([`report::frame`]). It waits for no component: one that is
//! faster than the line loses its own oldest records, and the line reports how many bytes those were. Rings are emptied
//! in turn, a few records each. A component that floods its ring delays the others by those few records and no more.
//!
//! Left out: the meaning of records, and input from the line.

#![no_std]
#![forbid(unsafe_code)]
#![warn(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

extern crate alloc;

pub mod ns16550;
pub mod pl011;

use alloc::vec::Vec;
use platform::{Environment, Memory, Platform, ticks_to_ns};
use report::frame::{self, MAX_FRAME};
use report::ring::{Consumer, MAX_RECORD};
use report::{Report, clip};

/// Records taken from a ring before the next one's turn.
const RECORDS_A_TURN: usize = 8;
/// Component numbers that are searched in the environment: the root task has 0.
const COMPONENTS: u16 = 1024;

/// The serial port: each machine's is a module here.
#[expect(async_fn_in_trait, reason = "the console awaits it where it stands")]
pub trait Uart {
    /// Writes all of `bytes`, or as many as the line takes.
    async fn write(&mut self, bytes: &[u8]);
}

/// Polls of a port without room before others of the console's priority run.
const POLLS: u32 = 64;
/// Rounds of polls before the port counts as stuck; then its bytes are lost, and the build machine sees a damaged frame.
const TIMEOUT: u32 = 10_000;

/// Waits until the port `has_room`; `false` for one that is stuck.
async fn wait_for_room<P: Platform>(platform: &P, has_room: impl Fn() -> bool) -> bool {
    for _ in 0..TIMEOUT {
        if (0..POLLS).any(|_| has_room()) {
            return true;
        }
        platform.yield_now().await;
    }
    false
}

/// Runs the console on its port: never returns, unless its environment lacks the port.
async fn run<P: Platform>(platform: P, environment: Environment, uart: Option<impl Uart>) {
    let Some(mut uart) = uart else {
        let reason = clip("the environment has no serial port");
        return platform.report(&Report::Failure { component: clip(&environment.name), reason }.encode());
    };
    let mut rings = open_rings(&platform, &environment);
    let mut clock = Clock { component: environment.component, next_ticks: 0 };
    loop {
        clock.send_if_due(&platform, &mut uart).await;
        while send_a_round(&mut rings, &mut uart).await {
            clock.send_if_due(&platform, &mut uart).await;
            // The others' rings fill meanwhile; components of the console's priority run here.
            platform.yield_now().await;
        }
        // Every component signals after a write, so a record that came since the round has signalled.
        platform.next_event().await;
    }
}

/// Sends the machine's time to the build machine, at most ten times a second.
struct Clock {
    component: u16,
    next_ticks: u64,
}

impl Clock {
    async fn send_if_due<P: Platform>(&mut self, platform: &P, line: &mut impl Uart) {
        let (now, per_second) = (platform.ticks(), platform.ticks_per_second());
        if now >= self.next_ticks {
            self.next_ticks = now.saturating_add(per_second / 10);
            let ns = ticks_to_ns(now, per_second);
            send(line, self.component, frame::Kind::Clock, &ns.to_le_bytes()).await;
        }
    }
}

/// A component's ring and what was reported about it.
struct Ring<M> {
    component: u16,
    consumer: Consumer<M>,
    lost_reported: u64,
}

fn open_rings<P: Platform>(platform: &P, environment: &Environment) -> Vec<Ring<P::Memory>> {
    let open = |component: u16| {
        let region = environment.region(&report::names::log_of(component))?;
        let consumer = Consumer::new(platform.memory(region).ok()?).ok()?;
        Some(Ring { component, consumer, lost_reported: 0 })
    };
    (0..COMPONENTS).filter_map(open).collect()
}

/// Gives every ring its turn; returns whether there was anything to send.
async fn send_a_round<M: Memory>(rings: &mut [Ring<M>], line: &mut impl Uart) -> bool {
    let mut sent = false;
    for ring in rings {
        sent |= ring.send_some(line).await;
    }
    sent
}

impl<M: Memory> Ring<M> {
    async fn send_some(&mut self, line: &mut impl Uart) -> bool {
        let mut record = [0; MAX_RECORD];
        for turn in 0..RECORDS_A_TURN {
            let next = self.consumer.pop(&mut record);
            self.report_lost(line).await;
            let Some((kind, len)) = next else { return turn != 0 };
            send(line, self.component, kind.into(), record.get(..len).unwrap_or_default()).await;
        }
        true
    }

    async fn report_lost(&mut self, line: &mut impl Uart) {
        let lost = self.consumer.lost_bytes();
        if lost != self.lost_reported {
            self.lost_reported = lost;
            send(line, self.component, frame::Kind::Lost, &lost.to_le_bytes()).await;
        }
    }
}

async fn send(line: &mut impl Uart, component: u16, kind: frame::Kind, bytes: &[u8]) {
    let mut frame = [0; MAX_FRAME];
    if let Some(len) = frame::encode(component, kind, bytes, &mut frame) {
        line.write(frame.get(..len).unwrap_or_default()).await;
    }
}

#[cfg(test)]
mod tests;
