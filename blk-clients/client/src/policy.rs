//! Calls to the policy component, for records that a request missed in the server's table.

use blk_api::names;
use blk_api::policy::{ASK, Asked, Covered, DONE, Refusal};
use platform::{Badge, Cap, Endpoint, Environment, Event, Kernel, Message, Platform};

/// Seconds to wait for a policy component that refuses further calls as too many.
const TIMEOUT_SECONDS: u64 = 10;

/// The capability to call the policy component. A call to a dead one waits for its successor, or for the kernel's answer
/// that there is none.
#[derive(Clone, Debug)]
pub(crate) struct Policy<P: Platform> {
    platform: P,
    endpoint: Cap<Endpoint>,
}

impl<P: Platform> Policy<P> {
    /// Returns the policy component of this environment's client. `None` if there is none: a miss is then reported to the caller.
    pub(crate) fn of(platform: P, environment: &Environment) -> Option<Self> {
        let endpoint = environment.cap(names::POLICY)?;
        Some(Self { platform, endpoint })
    }

    /// Asks for the records of the first of `blocks` blocks, before any request needs them. A record that this does not
    /// install is asked for when a request misses it.
    pub(crate) async fn ask_ahead(&self, blocks: u64) {
        let _ = self.ask(0, blocks).await;
    }

    /// Asks for the records of `blocks` blocks from `first` on, as often as it takes for all of them.
    ///
    /// # Errors
    /// The [`Refusal`]; [`Refusal::Dead`] also for a policy component that stays dead, and [`Refusal::Busy`] for one
    /// that stays busy for ten seconds.
    pub(crate) async fn cover(&self, first: u64, blocks: u64) -> Result<(), Refusal> {
        let timeout = self.platform.ticks_per_second().saturating_mul(TIMEOUT_SECONDS);
        let deadline = self.platform.ticks().saturating_add(timeout);
        let (mut first, end) = (first, first.saturating_add(blocks));
        while let Some(left) = end.checked_sub(first).filter(|left| *left > 0) {
            match self.ask(first, left).await {
                Ok(covered) => first = first.saturating_add(covered.max(1)),
                Err(Refusal::Busy) if self.platform.ticks() < deadline => self.tick().await,
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(())
    }

    /// Makes one call; returns the number of blocks that have records now.
    async fn ask(&self, first: u64, blocks: u64) -> Result<u64, Refusal> {
        let asked = Message::with(ASK, &Asked { first, blocks });
        let answer = self.platform.kernel().call(self.endpoint, &asked).await;
        match (answer.label, answer.payload::<Covered>()) {
            (DONE, Ok(covered)) => Ok(covered.blocks),
            _ => Err(Refusal::of(&answer)),
        }
    }

    /// Waits for the next tick: until then the policy component refuses every call, and each costs other clients time.
    /// Polling clients sleep here, too.
    async fn tick(&self) {
        loop {
            if let Event::Signal(badge) = self.platform.next_event().await
                && badge.has(Badge::TICK)
            {
                return;
            }
        }
    }
}
