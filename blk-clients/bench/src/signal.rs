//! Signals to and fro between two components, for whoever counts instructions from outside: no session, no server.
//!
//! An operation is a round trip: the leader signals and waits, its peer waits and signals. Left out: who may signal
//! whom, which the system's model decides.

use blk_client::Reporter;
use platform::{Cap, Environment, Event, Kernel, Notification, Platform, marker};
use report::Report;
use workload::Signal;

/// Round trips before the measured ones.
const WARM_UP: u64 = 16;

/// Leads or answers; whether it came about.
pub(crate) async fn run<P: Platform>(
    platform: &P,
    environment: &Environment,
    signal: &Signal,
    reporter: &Reporter<P>,
) -> bool {
    let Some(peer) = environment.cap::<Notification>(workload::names::PEER) else {
        reporter.failure(format_args!("the environment has no `peer`"));
        return false;
    };
    if !signal.leads {
        answer(platform, peer, signal.operations.saturating_add(WARM_UP)).await;
        return true;
    }
    lead(platform, peer, WARM_UP).await;
    platform.marker(marker::BEGIN);
    lead(platform, peer, signal.operations).await;
    platform.marker(marker::END);
    let (name, operations) = (report::clip(&signal.measure), signal.operations);
    reporter.send(&Report::Measured(report::Measured { name, operations, doorbells: 0 }));
    true
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

/// Waits for the peer; the supervisor's tick may come in between.
async fn peers_signal<P: Platform>(platform: &P) {
    loop {
        if let Event::Signal(badge) = platform.next_event().await
            && badge.has(Signal::BADGE_BIT)
        {
            return;
        }
    }
}
