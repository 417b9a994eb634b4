//! Misbehaves without end, in ways that the kernel and the server permit: it uses as much of everything as a client can.
//!
//! Its configuration ([`workload::Flood`]) selects requests (`entries`), or calls, signals and sessions (`calls`). The flood
//! outlives its server and the end of its session: it reopens the session, or goes on with signals and calls.
//!
//! Neighbours: `blk-client`'s session, at its barest; `report` carries how much was done. Left out: any verdict. The
//! tenants beside a flood measure its cost, and `hostile` has the attacks that must fail.

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

extern crate alloc;

mod calls;
mod counts;
mod entries;
mod flooder;

use blk_client::Program;
use flooder::Flooder;
use platform::{Environment, Platform};
use report::{Attack, Progress, Report};
use workload::{Flood, attacks};

/// The limits of a flood; the tenants beside it show whether they suffice.
const STOPPED_BY: &str = "its share and its budgets";

/// Runs the program: executes the environment's configuration and reports.
pub async fn run<P: Platform>(platform: P, environment: Environment) {
    let Some(program) = Program::<P, Flood>::start(&platform, &environment) else { return };
    let Program { config: flood, reporter, .. } = &program;
    let ends = flood.milliseconds > 0;
    if !ends {
        reporter.done(true);
    }
    program.open(&platform).await;
    program.begin(&platform).await;
    let since = platform.ticks();
    let counts = Flooder::new(platform.clone(), environment, program.options(), flood).run().await;
    if counts.done > 0 {
        let (since_ns, until_ns) = (reporter.ns_of(since), reporter.ns_of(platform.ticks()));
        let (operations, bytes) = (counts.done, counts.bytes);
        let tenant = reporter.tenant();
        reporter.send(&Report::Progress(Progress { tenant, since_ns, until_ns, operations, bytes, max_ns: 0 }));
    }
    let (kind, attack, stopped_by) =
        (report::clip(attacks::QUANTITY.name), counts.sentence(), report::clip(STOPPED_BY));
    platform::log::info!("{}", attack.as_str());
    reporter.send(&Report::Attack(Attack { tenant: reporter.tenant(), kind, attack, refused: true, stopped_by }));
    if ends {
        reporter.done(true);
    }
}
