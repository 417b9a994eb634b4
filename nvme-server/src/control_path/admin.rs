//! Admin commands to the controller, one after another, each repeated where the controller asks for that.

use crate::controller::fault::DeviceFault;
use crate::controller::inquiry::Asks;
use crate::controller::queue_pair::Ring;
use crate::shared::Shared;
use nvme_spec::{Cid, Cqe, Sqe};
use platform::Platform;

/// Submits an admin command and waits for it; again where the controller asks for that, until it says that it fails.
///
/// # Errors
/// As [`AdminQueue::execute`](crate::controller::admin::AdminQueue::execute).
pub(crate) async fn execute<P: Platform>(shared: &Shared<P>, build: impl Fn(Cid) -> Sqe) -> Result<Cqe, DeviceFault> {
    let mut retries = 0u8;
    loop {
        let outcome = execute_once(shared, &build).await;
        let Err(DeviceFault::Refused(status)) = outcome else { return outcome };
        let Some(delay_ms) = shared.device.retry_delays.get().before_retry(status, retries) else { return outcome };
        if !stays(shared, delay_ms).await {
            return outcome;
        }
        retries = retries.saturating_add(1);
    }
}

/// Waits for some milliseconds, to the next tick. Returns whether the controller neither failed nor went meanwhile.
async fn stays<P: Platform>(shared: &Shared<P>, delay_ms: u32) -> bool {
    let health = shared.device.health.get();
    let ticks = shared.platform.ticks_per_second().saturating_mul(delay_ms.into()) / 1000;
    let until = shared.platform.ticks().saturating_add(ticks);
    while shared.platform.ticks() < until {
        shared.device.tick.reset();
        shared.device.tick.wait().await;
        if shared.device.health.get() != health || shared.is_gone() {
            return false;
        }
    }
    true
}

async fn execute_once<P: Platform>(shared: &Shared<P>, build: impl FnOnce(Cid) -> Sqe) -> Result<Cqe, DeviceFault> {
    shared.device.admin.execute(&shared.platform, &shared.device.tick, build).await
}

impl<P: Platform> Asks for &Shared<P> {
    type Memory = P::Memory;

    fn page(&self) -> &Ring<P::Memory> {
        &self.device.identify_page
    }

    async fn must(&mut self, build: impl Fn(Cid) -> Sqe) -> Result<Cqe, DeviceFault> {
        execute(self, build).await
    }

    async fn wait(&mut self) {
        self.device.tick.reset();
        self.device.tick.wait().await;
    }
}
