//! Exchanges signals between two components, for an instruction counter outside: no session, no server.
//!
//! An operation is a round trip: the leader signals and waits, its peer waits and signals. Left out: the right to signal,
//! which the system's model decides.

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use blk_client::Program;
use platform::{Cap, Environment, Event, Kernel, Notification, Platform, marker};
use report::{Measured, Report};
use workload::Signal;

/// Round trips before the measured ones.
const WARM_UP: u64 = 16;

/// Runs the program: leads or answers, and reports.
pub async fn run<P: Platform>(platform: P, environment: Environment) {
    let Some(program) = Program::<P, Signal>::start(&platform, &environment) else { return };
    let Some(peer) = environment.cap::<Notification>(workload::names::PEER) else {
        return program.finish(Err("the environment has no `peer`"));
    };
    let signal = &program.config;
    if signal.leads {
        lead(&platform, peer, WARM_UP).await;
        platform.marker(marker::BEGIN);
        lead(&platform, peer, signal.operations).await;
        platform.marker(marker::END);
        let (name, operations) = (report::clip(&signal.measure), signal.operations);
        program.reporter.send(&Report::Measured(Measured { name, operations, doorbells: 0 }));
    } else {
        answer(&platform, peer, signal.operations.saturating_add(WARM_UP)).await;
    }
    program.reporter.done(true);
}

async fn lead<P: Platform>(platform: &P, peer: Cap<Notification>, round_trips: u64) {
    for _ in 0..round_trips {
        platform.kernel().signal(peer);
        peers_signal(platform).await;
    }
}

async fn answer<P: Platform>(platform: &P, peer: Cap<Notification>, round_trips: u64) {
    for _ in 0..round_trips {
        peers_signal(platform).await;
        platform.kernel().signal(peer);
    }
}

/// Waits for the peer's signal; the supervisor's tick may come in between.
async fn peers_signal<P: Platform>(platform: &P) {
    loop {
        if let Event::Signal(badge) = platform.next_event().await
            && badge.has(Signal::BADGE_BIT)
        {
            return;
        }
    }
}
