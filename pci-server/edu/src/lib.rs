//! Tests on the running system that a function's interrupts arrive through the PCI server: by its pin, by MSI, and in the
//! course of a change between the two.
//!
//! The function is QEMU's `edu` device, which has both and raises an interrupt when a register is written. The driver claims
//! it with its pin, has the PCI server change it to MSI and back while it is claimed, and takes a number of interrupts in
//! each mode (`checks`). Then it releases the function while this computes, and no interrupt arrives at the end of the
//! computation (`release`). The number of interrupts is reported by mode. Neighbours: the PCI server, called by `pci`;
//! `device` is the function's registers. Left out: DMA, MSI-X, and more than one vector, none of which the driver uses.

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
#[cfg(test)]
extern crate std;

mod checks;
mod device;
mod failure;
mod interrupts;
mod pci;
mod release;

use alloc::string::ToString;
use checks::Driver;
use failure::Failure;
use interrupts::{Counts, Mode};
use platform::log::error;
use platform::{Environment, Platform};
use report::{Report, clip};

/// The interrupt modes of a claim, in their order.
const MODES: [Mode; 3] = [Mode::Pin, Mode::Message, Mode::Pin];

/// Checks everything, and reports the interrupts that came and whether all of it held.
pub async fn run<P: Platform>(platform: P, environment: Environment) {
    let mut counts = Counts::default();
    let outcome = drive(&platform, &environment, &mut counts).await;
    let driver = clip(&environment.name);
    platform.report(&Report::Interrupted { driver, interrupts: counts.report() }.encode());
    if let Err(failure) = &outcome {
        let reason = failure.to_string();
        error!("{}", reason.as_str());
        let component = clip(&environment.name);
        platform.report(&Report::Failure { component, reason: clip(&reason) }.encode());
    }
    platform.report(&Report::Done { tenant: clip(&environment.name), passed: outcome.is_ok() }.encode());
}

async fn drive<P: Platform>(platform: &P, environment: &Environment, counts: &mut Counts) -> Result<(), Failure> {
    let [first, others @ ..] = MODES;
    let mut driver = Driver::claim(platform, environment, first, counts).await?;
    driver.check_mode().await?;
    for mode in others {
        driver.change(mode).await?;
        driver.check_mode().await?;
    }
    driver.release().await?;
    for mode in [Mode::Pin, Mode::Message] {
        release::check(platform, environment, mode, counts).await?;
    }
    Ok(())
}
