//! A controller reset: clears CC.EN and waits for CSTS.RDY (NVM Express base specification 1.4, section 7.3.2); and the shutdown
//! before a controller loses its power (section 7.6.2).

use crate::fault::DeviceFault;
use crate::registers::Registers;
use platform::{Mmio, Platform};

/// Milliseconds in which CSTS.RDY is polled in a loop, before each poll waits for a tick. Most controllers take no
/// longer, and a reset that waits for ticks costs clients a hundred times as much.
const QUICK_POLLS_MS: u64 = 10;
/// Seconds a shutdown may take. The controller's own figure, RTD3E, may be longer; but whoever waits to turn its power off does
/// not wait for ever.
const SHUTDOWN_SECONDS: u64 = 8;

/// Shuts the controller down and waits until that is complete.
///
/// # Errors
/// [`DeviceFault::TimedOut`], or [`DeviceFault::Absent`].
pub async fn shut_down<P: Platform>(
    platform: &P,
    controller: &Registers<impl Mmio>,
    mut next_tick: impl AsyncFnMut(),
) -> Result<(), DeviceFault> {
    controller.shut_down()?;
    wait_until(platform, SHUTDOWN_SECONDS, &mut next_tick, || controller.is_shut_down()).await
}

/// Resets the controller and waits until it is reset. A driver before this one may have died in the middle of enabling it:
/// the enabling ends first, unless it takes too long.
///
/// # Errors
/// As [`wait_ready`].
pub async fn disable<P: Platform>(
    platform: &P,
    controller: &Registers<P::Mmio>,
    mut next_tick: impl AsyncFnMut(),
) -> Result<(), DeviceFault> {
    match wait_until(platform, ready_seconds(controller), &mut next_tick, || controller.is_changing().map(|is| !is))
        .await
    {
        // A controller that does not come up is disabled all the same.
        Ok(()) | Err(DeviceFault::TimedOut) => {}
        Err(fault) => return Err(fault),
    }
    controller.disable()?;
    wait_ready(platform, controller, next_tick, false).await
}

/// Waits until CSTS.RDY is `ready`, as long as the controller may take ([`Registers::ready_limit`]).
///
/// # Errors
/// [`DeviceFault::TimedOut`], or [`DeviceFault::Absent`].
pub async fn wait_ready<P: Platform>(
    platform: &P,
    controller: &Registers<impl Mmio>,
    mut next_tick: impl AsyncFnMut(),
    ready: bool,
) -> Result<(), DeviceFault> {
    wait_until(platform, ready_seconds(controller), &mut next_tick, || controller.is_ready().map(|is| is == ready))
        .await
}

/// Waits until a controller that was enabled is ready, unless another driver resets it meanwhile, as the primary controller's
/// driver does with a secondary one.
///
/// # Errors
/// As [`wait_ready`]; [`DeviceFault::NotReady`] or [`DeviceFault::Fatal`] when it was reset.
pub async fn wait_enabled<P: Platform>(
    platform: &P,
    controller: &Registers<impl Mmio>,
    mut next_tick: impl AsyncFnMut(),
) -> Result<(), DeviceFault> {
    wait_until(platform, ready_seconds(controller), &mut next_tick, || controller.is_changing().map(|is| !is)).await?;
    controller.check().map(drop)
}

/// Seconds in which CSTS.RDY follows CC.EN, as the controller states, and one more.
fn ready_seconds(controller: &Registers<impl Mmio>) -> u64 {
    controller.ready_limit().as_secs().saturating_add(1)
}

/// Waits until `is_so`, at most `seconds`: polls in a loop for some milliseconds, and then once a tick, which `next_tick` waits for, so that a
/// slow controller takes no processor time from others.
async fn wait_until<P: Platform>(
    platform: &P,
    seconds: u64,
    next_tick: &mut impl AsyncFnMut(),
    is_so: impl Fn() -> Result<bool, DeviceFault>,
) -> Result<(), DeviceFault> {
    let (now, ticks_per_second) = (platform.ticks(), platform.ticks_per_second());
    let deadline = now.saturating_add(ticks_per_second.saturating_mul(seconds));
    let quick = now.saturating_add((ticks_per_second / 1000).saturating_mul(QUICK_POLLS_MS));
    while !is_so()? {
        let now = platform.ticks();
        if now > deadline {
            return Err(DeviceFault::TimedOut);
        }
        if now > quick {
            next_tick().await;
        } else {
            platform.pause();
            platform.yield_now().await;
        }
    }
    Ok(())
}
