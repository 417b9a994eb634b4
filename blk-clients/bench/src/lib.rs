//! A load generator that verifies: it compares every block it reads byte by byte with the data that it wrote.
//!
//! Ways of working, by configuration: load with verification (`load`), load without, and measuring
//! (`measure`): a bare loop between two markers, for an instruction counter outside.
//!
//! Neighbours: `blk-client` does the I/O, `workload` has the configuration, `report` carries the results. Left out: the
//! verdict on the numbers, which the build machine gives.

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

extern crate alloc;

mod area;
mod buffer;
mod certain;
mod choice;
mod compares;
mod delay;
pub mod histogram;
mod load;
mod measure;
mod outcome;
mod progress;
mod shape;
pub mod stamp;
mod workers;
mod zeroes;

use blk_client::{Device, Program, Reporter};
use delay::after;
use measure::{Measured, Unmeasured};
use platform::{Environment, Platform};
use report::Report;
use workload::Bench;

/// Runs the program: executes the environment's configuration and reports.
pub async fn run<P: Platform>(platform: P, environment: Environment) {
    let Some(program) = Program::<P, Bench>::start(&platform, &environment) else { return };
    let (options, Program { config: bench, reporter, .. }) = (program.options(), &program);
    program.open(&platform).await;
    let end = after(&platform, bench.delay_milliseconds.saturating_mul(1000));
    while platform.ticks() < end {
        platform.next_event().await;
    }
    let passed = if bench.measure.is_empty() {
        loaded(&platform, &environment, &program).await
    } else {
        measured(measure::run(&platform, &environment, options, bench).await, bench, reporter)
    };
    reporter.done(passed);
}

/// Runs the load, with or without verification. Returns whether it passed.
async fn loaded<P: Platform>(platform: &P, environment: &Environment, program: &Program<P, Bench>) -> bool {
    let Program { client, config: bench, reporter } = program;
    let device = match Device::open(platform.clone(), environment, program.options()).await {
        Ok(device) => device,
        Err(error) => {
            reporter.not_open(error);
            return false;
        }
    };
    let result = load::run(platform, &device, program).await;
    let closed = device.close().await;
    if device.retries() > 0 {
        platform::log::info!("resubmitted, for the controller gave no verdict: {} requests", device.retries());
    }
    if let Err(error) = closed {
        reporter.failure(format_args!("close: {error}"));
    }
    match result {
        Ok(outcome) => {
            reporter.send(&Report::Load(outcome.record(client, bench, reporter.tenant())));
            outcome.passed() && closed.is_ok()
        }
        Err(reason) => {
            reporter.failure(format_args!("{reason}"));
            false
        }
    }
}

/// Reports the result of a measurement. Returns whether it succeeded.
fn measured<P: Platform>(result: Result<Measured, Unmeasured>, bench: &Bench, reporter: &Reporter<P>) -> bool {
    match result {
        Ok(Measured { operations, doorbells }) => {
            let name = report::clip(&bench.measure);
            reporter.send(&Report::Measured(report::Measured { name, operations, doorbells }));
            true
        }
        Err(Unmeasured::Open(error)) => {
            reporter.not_open(error);
            false
        }
        Err(reason) => {
            reporter.failure(format_args!("{}: {reason}", bench.measure));
            false
        }
    }
}
