//! The control plane: slow requests, one after another, while the data plane goes on serving.
//!
//! Every wait in here ends: with the controller's answer, or by ticks, which bound the time for it.

use crate::control_path::events;
use crate::control_path::functions;
use crate::control_path::identity::Identity;
use crate::control_path::interrupts_change;
use crate::control_path::reconfiguration::Outcome;
use crate::control_path::requests::Control;
use crate::recovery::controller::{bring_up_again, recover};
use crate::recovery::queue_pairs::recover_queue_pairs;
use crate::recovery::removal::leave;
use crate::sessions::calls::answer_pending;
use crate::sessions::opening::open;
use crate::sessions::teardown::tear_down;
use crate::shared::Shared;
use blk_api::session::{DONE, Geometry, Refusal};
use nvme_driver::controller::Health;
use platform::log::warn;
use platform::{Message, Platform};
use report::clip;

/// Times a session is opened while the controller fails each time.
const OPENINGS: u8 = 3;

/// Runs for ever.
pub(crate) async fn run<P: Platform>(shared: &Shared<P>) {
    let mut identity = recover(shared).await;
    loop {
        let control = shared.control.next().await;
        // Recovery comes before any request, because a failed controller can do nothing else. So a queued recovery may be
        // done already when its turn comes.
        if shared.controller.health.get() == Health::Down {
            identity = recover(shared).await;
        }
        match control {
            // It was done above.
            Control::Recover => {}
            Control::RecoverQueuePairs => recover_queue_pairs(shared).await,
            Control::Reconfigure => reconfigure(shared, &mut identity).await,
            Control::Functions => functions::follow_clients(shared).await,
            Control::Event => events::act(shared, &mut identity).await,
            Control::ChangeInterrupts => change_interrupts(shared, &mut identity).await,
            Control::Leave => {
                leave(shared).await;
                identity = None;
            }
            Control::Open(index) => {
                let answer = open_through_faults(shared, &mut identity, index).await;
                answer_open(shared, index, answer);
            }
            Control::TearDown(index) => {
                tear_down(shared, &mut identity, index).await;
                // A reconfiguration of this session waits for its commands no longer.
                if shared.changes.reconfiguration.get().is_some_and(|change| change.index == index) {
                    reconfigure(shared, &mut identity).await;
                }
            }
        }
        shared.acknowledge_deaths();
    }
}

/// Opens a session. If the controller fails meanwhile, it is recovered first: that costs the client time, not its session.
async fn open_through_faults<P: Platform>(
    shared: &Shared<P>,
    identity: &mut Option<Identity>,
    index: usize,
) -> Result<Geometry, Refusal> {
    for _ in 0..OPENINGS {
        let known = identity.as_ref().ok_or_else(|| shared.refusal())?;
        match open(shared, known, index).await {
            Err(_) if shared.controller.health.get() == Health::Down => *identity = recover(shared).await,
            answer => return answer,
        }
    }
    Err(shared.refusal())
}

/// Reconfigures a session's queue pairs, likewise.
async fn reconfigure<P: Platform>(shared: &Shared<P>, identity: &mut Option<Identity>) {
    let Some(change) = shared.changes.reconfiguration.get() else { return };
    for _ in 0..OPENINGS {
        let Some(known) = identity.as_ref() else { break };
        match change.carry_out(shared, known).await {
            Outcome::Waits => return,
            Outcome::Over(done) => return change.end(shared, done),
            Outcome::Faulty => *identity = recover(shared).await,
        }
    }
    change.end(shared, Err(change.failed()));
}

/// Changes the controller's interrupt mode. A controller that fails meanwhile is recovered first.
async fn change_interrupts<P: Platform>(shared: &Shared<P>, identity: &mut Option<Identity>) {
    let Some(change) = shared.changes.interrupts.get() else { return };
    for _ in 0..OPENINGS {
        match change.carry_out(shared).await {
            interrupts_change::Outcome::Waits => return,
            interrupts_change::Outcome::Over => break,
            interrupts_change::Outcome::Disabled => {
                *identity = bring_up_again(shared).await;
                break;
            }
            interrupts_change::Outcome::Faulty(fault) => {
                shared.report_reset(fault);
                *identity = recover(shared).await;
            }
        }
    }
    change.end(shared);
}

fn answer_open<P: Platform>(shared: &Shared<P>, index: usize, answer: Result<Geometry, Refusal>) {
    let message = match answer {
        Ok(geometry) => Message::with(DONE, &geometry),
        Err(refusal) => {
            warn!("session {} refused: {}", index, clip::<64>(&alloc::format!("{refusal}")).as_str());
            Message::new(refusal as u32)
        }
    };
    answer_pending(shared, index, &message);
}
