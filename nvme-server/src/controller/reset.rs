//! A controller reset: CC.EN cleared, and CSTS.RDY waited for (NVM Express base specification 1.4, section 7.3.2).

use crate::controller::fault::DeviceFault;
use crate::controller::registers::Controller;
use nvme_spec::registers::Cap;
use platform::{Mmio, Platform};

/// Milliseconds in which CSTS.RDY is polled again and again, before each poll waits for a tick: most controllers take
/// no longer, and a reset that costs clients ticks costs them a hundred times what it takes.
const QUICK_POLLS_MS: u64 = 10;
/// The most seconds CSTS.RDY is waited for, whatever CAP.TO says: that is the device's own word, up to two minutes.
const READY_LIMIT_SECONDS: u64 = 30;

/// Resets the controller and waits until it is. Whoever had it before may have died in the middle of enabling it: that
/// comes to its end first, unless it takes too long.
///
/// # Errors
/// As [`wait_ready`].
pub async fn disable<P: Platform>(
    platform: &P,
    controller: &Controller<P::Mmio>,
    mut next_tick: impl AsyncFnMut(),
) -> Result<(), DeviceFault> {
    match wait_until(platform, controller.cap(), &mut next_tick, || controller.is_changing().map(|is| !is)).await {
        // One that does not come up cannot be asked any better.
        Ok(()) | Err(DeviceFault::TimedOut) => {}
        Err(fault) => return Err(fault),
    }
    controller.disable()?;
    wait_ready(platform, controller, next_tick, false).await
}

/// Waits until CSTS.RDY is `ready`, as long as CAP.TO allows.
///
/// # Errors
/// [`DeviceFault::TimedOut`], or [`DeviceFault::Absent`].
pub async fn wait_ready<P: Platform>(
    platform: &P,
    controller: &Controller<impl Mmio>,
    mut next_tick: impl AsyncFnMut(),
    ready: bool,
) -> Result<(), DeviceFault> {
    wait_until(platform, controller.cap(), &mut next_tick, || controller.is_ready().map(|is| is == ready)).await
}

/// Waits until `is_so`: after some milliseconds from one tick, which `next_tick` waits for, to the next, so that a slow
/// controller costs nobody else the processor.
async fn wait_until<P: Platform>(
    platform: &P,
    cap: Cap,
    next_tick: &mut impl AsyncFnMut(),
    is_so: impl Fn() -> Result<bool, DeviceFault>,
) -> Result<(), DeviceFault> {
    let seconds = cap.timeout().as_secs().saturating_add(1).min(READY_LIMIT_SECONDS);
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
