//! The control plane's loop: its jobs, one after another.
//!
//! Every wait in here ends: with the controller's answer, or by ticks, which bound the time for it.

use super::ControlPlane;
use crate::control_plane::functions;
use crate::control_plane::interrupts;
use crate::control_plane::late_queues::recover_queue_pairs;
use crate::control_plane::remove::leave;
use crate::control_plane::reshape::Outcome;
use crate::jobs::Job;
use blk_api::session::{DONE, Geometry, Refusal};
use nvme_driver::Health;
use platform::log::warn;
use platform::{Message, Platform};
use report::clip;

/// Times a job is begun while the controller fails each time.
const ATTEMPTS: u8 = 3;

impl<P: Platform> ControlPlane<'_, P> {
    /// Runs for ever.
    pub(crate) async fn run(mut self) {
        self.recover().await;
        loop {
            let job = self.link.jobs.next().await;
            // Recovery comes before any other job, because a failed controller can do nothing else. So a queued recovery may be
            // done already when its turn comes.
            if self.is_down() {
                self.recover().await;
            }
            match job {
                // It was done above.
                Job::Recover => {}
                Job::RecoverQueuePairs => recover_queue_pairs(self.link).await,
                Job::Reshape => self.reshape().await,
                Job::Functions => functions::follow_clients(self.link).await,
                Job::Event => self.act_on_event().await,
                Job::Administer => self.administer().await,
                Job::ChangeInterrupts => self.change_interrupts().await,
                Job::Leave => {
                    leave(self.link).await;
                    self.identity = None;
                }
                Job::Open(index) => {
                    let answer = self.open_through_faults(index).await;
                    self.answer_open(index, answer);
                }
                Job::TearDown(index) => {
                    self.tear_down(index).await;
                    // A change of this session's queue pairs waits for its commands no longer.
                    if self.link.changes.reconfiguration.get().is_some_and(|change| change.index == index) {
                        self.reshape().await;
                    }
                }
            }
            self.link.acknowledge_deaths();
        }
    }

    /// Returns whether the controller is to be brought up.
    pub(super) fn is_down(&self) -> bool {
        self.link.controller.health.get() == Health::Down
    }

    /// Opens a session. If the controller fails meanwhile, it is recovered first: that costs the client time, not its session.
    async fn open_through_faults(&mut self, index: usize) -> Result<Geometry, Refusal> {
        for _ in 0..ATTEMPTS {
            match self.open(index).await {
                Err(_) if self.is_down() => self.recover().await,
                answer => return answer,
            }
        }
        Err(self.link.refusal())
    }

    /// Changes a session's queue pairs, likewise.
    async fn reshape(&mut self) {
        let Some(change) = self.link.changes.reconfiguration.get() else { return };
        for _ in 0..ATTEMPTS {
            let Some(identity) = &self.identity else { break };
            match change.carry_out(self.link, identity.max_transfer).await {
                Outcome::Waits => return,
                Outcome::Over(done) => return change.end(self.link, done),
                Outcome::Faulty => self.recover().await,
            }
        }
        change.end(self.link, Err(change.failed()));
    }

    /// Changes the controller's interrupt mode. A controller that fails meanwhile is recovered first.
    async fn change_interrupts(&mut self) {
        let Some(to) = self.link.changes.interrupts.get() else { return };
        for _ in 0..ATTEMPTS {
            match interrupts::carry_out(self.link, to).await {
                interrupts::Outcome::Waits => return,
                interrupts::Outcome::Over => break,
                interrupts::Outcome::Disabled => {
                    self.bring_up_again().await;
                    break;
                }
                interrupts::Outcome::Faulty(fault) => {
                    self.link.report_reset(fault);
                    self.recover().await;
                }
            }
        }
        interrupts::end(self.link, to);
    }

    fn answer_open(&self, index: usize, answer: Result<Geometry, Refusal>) {
        let message = match answer {
            Ok(geometry) => Message::with(DONE, &geometry),
            Err(refusal) => {
                warn!("session {} refused: {}", index, clip::<64>(&alloc::format!("{refusal}")).as_str());
                Message::new(refusal as u32)
            }
        };
        self.link.with(|data| data.answer(index, &message));
    }
}
