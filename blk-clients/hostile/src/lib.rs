//! Tries every attack that a client can make with its capabilities and memory, and reports the barrier that stopped each.
//!
//! Attacks through a session, by what they abuse: the words of a request (`entries`), the ring under it (`races`), capabilities
//! (`capabilities`), addresses (`addresses`), quantity (`floods`); and those that end the attacker
//! (`last`), one of which comes last if configured, the processor (`processor`) among them. Before and after, an honest read must succeed: a refusal counts only
//! from a server that is alive. The server's death is no refusal either: the session is opened at its successor, and the
//! current stage is repeated from its beginning. With a virtual function of its own it has other attacks (`virtual_function`).
//!
//! Neighbours: `blk-client`'s session, at its barest; `report` carries the verdicts. Left out: attacks on things for
//! which it has no name, and the verdict whether a neighbour was disturbed, which the neighbour gives.

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

extern crate alloc;

mod addresses;
mod attacker;
mod capabilities;
mod entries;
mod floods;
mod last;
mod processor;
mod races;
mod verdicts;
mod virtual_function;

use attacker::{Attacker, Stuck};
use blk_client::{Program, Session};
use platform::{Abuse, Endpoint, Environment, Platform};
use verdicts::Verdicts;
use workload::Hostile;

/// Runs the program: executes the environment's configuration and reports.
pub async fn run<P: Abuse>(platform: P, environment: Environment) {
    let Some(program) = Program::<P, Hostile>::start(&platform, &environment) else { return };
    let Program { client, config: hostile, reporter } = &program;
    program.open(&platform).await;
    if environment.cap::<Endpoint>(pci_api::names::PCI).is_some() {
        let outcome = virtual_function::run(&platform, &environment, &program, Verdicts::new(reporter)).await;
        if let Err(stuck) = &outcome {
            reporter.failure(format_args!("{stuck}"));
        }
        // Attacks that end the attacker reported the end of the work before.
        if !virtual_function::reports_end_itself(hostile.last) || outcome.is_err() {
            reporter.done(outcome.unwrap_or(false));
        }
        return;
    }
    let session = match Session::open(platform.clone(), &environment, program.options()).await {
        Ok(session) => session,
        Err(error) => {
            reporter.not_open(error);
            return reporter.done(false);
        }
    };
    program.begin(&platform).await;
    let Some(mut attacker) = Attacker::new(session, &environment, client.first_block, reporter) else {
        reporter.failure(format_args!("no ring or no window to attack with"));
        return reporter.done(false);
    };
    let result = match attack(&mut attacker, &environment, hostile).await {
        Ok(()) => last::run(&mut attacker, hostile.last).await,
        Err(stuck) => Err(stuck),
    };
    if let Err(stuck) = result {
        reporter.failure(format_args!("{stuck}"));
    }
    // Attacks that end the attacker reported the end of the work before.
    if !last::reports_end_itself(hostile.last) || result.is_err() {
        reporter.done(result.is_ok() && attacker.verdicts.all_refused());
    }
}

/// Runs all rounds of all attacks that the attacker can survive.
async fn attack<P: Platform>(
    attacker: &mut Attacker<'_, P>,
    environment: &Environment,
    hostile: &Hostile,
) -> Result<(), Stuck> {
    attacker.ask_for_its_record().await;
    attacker.outlive(capabilities::open_again).await?;
    attacker.outlive(Attacker::honest_read).await?;
    let rounds = if hostile.last.is_alone() { 0 } else { hostile.rounds.max(1) };
    for _ in 0..rounds {
        attacker.outlive(async |attacker| entries::run(attacker, hostile).await).await?;
        attacker.outlive(races::run).await?;
        attacker.outlive(async |attacker| capabilities::run(attacker, environment).await).await?;
        addresses::run(attacker, environment);
        attacker.outlive(floods::run).await?;
        attacker.outlive(Attacker::honest_read).await?;
        attacker.verdicts.next_round();
    }
    Ok(())
}
