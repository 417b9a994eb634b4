//! Checks that no interrupt arrives after the release: the function is released while it computes, and raises its interrupt
//! after that.
//!
//! An interrupt that was never raised would not arrive either. So the driver claims the function again and finds the bit in
//! its interrupt status. It measures before how long a computation takes, while the interrupt still arrives.

use crate::device::{COMPUTED, Device};
use crate::failure::Failure;
use crate::interrupts::{Counts, Mode, is_pending, no_interrupt_within};
use crate::pci::Pci;
use platform::log::info;
use platform::{Environment, Kernel, Platform};

/// Steps of a computation: a tenth of a second of QEMU's time, or more.
const STEPS: u32 = 100_000_000;
/// Times that a computation that was over before the release is repeated, with four times as many steps each time.
const ATTEMPTS: u32 = 3;
/// Ticks of the supervisor in a second.
const TICKS_PER_SECOND: u64 = 20;
/// Ticks that a release and all around it may take.
const SPARE_TICKS: u32 = 10;

/// Checks it for a function that interrupts by `mode`. Nothing is claimed before, nor afterwards.
///
/// # Errors
/// [`Failure::Unexpected`] for an interrupt after the release, and others.
pub(crate) async fn check<P: Platform>(
    platform: &P,
    environment: &Environment,
    mode: Mode,
    counts: &mut Counts,
) -> Result<(), Failure> {
    let pci = Pci::new(platform, environment)?;
    let mut steps = STEPS;
    for _ in 0..ATTEMPTS {
        let device = Device::new(pci.claim(mode).await?)?;
        let handler = pci.vector().await?;
        let begun = platform.ticks();
        device.compute(steps)?;
        counts.interrupt(platform, mode, "after a computation").await?;
        let took = platform.ticks().saturating_sub(begun);
        device.acknowledge(COMPUTED)?;
        platform.kernel().irq_handler_ack(handler)?;
        device.compute(steps)?;
        pci.release().await?;
        if !is_pending(platform) {
            no_interrupt_within(platform, longest(platform, took), mode, "after the release").await?;
            was_raised(platform, &pci, mode).await?;
            info!("no interrupt by {} arrives after the release", mode.name());
            return Ok(());
        }
        clear(&pci).await?;
        steps = steps.saturating_mul(4);
    }
    Err(Failure::Device("computes faster than it is released"))
}

/// Ticks after which a computation that took `took` units of the platform's clock is certainly over.
fn longest<P: Platform>(platform: &P, took: u64) -> u32 {
    let ticks = took.saturating_mul(TICKS_PER_SECOND).checked_div(platform.ticks_per_second()).unwrap_or(0);
    u32::try_from(ticks).unwrap_or(u32::MAX).saturating_mul(2).saturating_add(SPARE_TICKS)
}

/// Checks that the function has raised its interrupt meanwhile, and that the interrupt does not arrive at the claim either,
/// with no vector bound.
async fn was_raised<P: Platform>(platform: &P, pci: &Pci<'_, P>, mode: Mode) -> Result<(), Failure> {
    let device = Device::new(pci.claim(Mode::Pin).await?)?;
    if device.is_computing()? {
        return Err(Failure::Device("takes longer to compute than before"));
    }
    if device.raised()? != COMPUTED {
        return Err(Failure::Device("raised no interrupt after the release"));
    }
    no_interrupt_within(platform, 1, mode, "of an earlier claim").await?;
    device.acknowledge(COMPUTED)?;
    pci.release().await
}

/// Acknowledges an interrupt that was raised before the release.
async fn clear<P: Platform>(pci: &Pci<'_, P>) -> Result<(), Failure> {
    let device = Device::new(pci.claim(Mode::Pin).await?)?;
    device.acknowledge(COMPUTED)?;
    pci.release().await
}
