//! Waits for completions: by polling, or asleep until a signal or an alarm.
//!
//! Requests without a choice are awaited as the session's options say. Where requests in flight made a choice, the most demanding
//! of them decides, each time that a poll found nothing ([`crate::completion`]).

use super::{Device, PollResult, Shared, State};
use crate::completion::Wait;
use core::future::Future;
use core::pin::Pin;
use core::task::Context;
use platform::{Badge, Event, Kernel, Platform};

/// Polls without a completion after which the work gets its turn again.
const POLLS_A_TURN: u32 = 64;

impl<P: Platform> Device<P> {
    /// Waits until there is a reason to poll again: yields, or sleeps until the next event.
    pub(super) async fn pause(&self, polls: bool) {
        if polls {
            self.shared.platform.yield_now().await;
        } else if let Event::Signal(badge) = self.shared.platform.next_event().await
            && badge.has(Badge::ALARM | Badge::TICK)
        {
            // At a tick too: the alarm is then asked for again, so that no single one is relied on.
            self.shared.state.borrow_mut().alarm_at = 0;
        }
    }

    /// Publishes requests, takes completions, and prepares to be woken when there were none. `pause` yields if `polls`; otherwise
    /// it sleeps.
    pub(super) fn progress<F: Future>(
        &self,
        context: &mut Context<'_>,
        mut pause: Pin<&mut F>,
        polls: &mut bool,
        rearm: impl Fn(bool) -> F,
    ) {
        for _ in 0..POLLS_A_TURN {
            if self.shared.state.borrow_mut().poll_ring(self.shared.options.ring_entries) != PollResult::Nothing {
                break;
            }
            let Some(wait) = self.prepare() else { break };
            if self.server_died() {
                break;
            }
            if wait.polls != *polls {
                *polls = wait.polls;
                pause.set(rearm(*polls));
            }
            if pause.as_mut().poll(context).is_pending() {
                return;
            }
            pause.set(rearm(*polls));
        }
        let state = &mut *self.shared.state.borrow_mut();
        if let Err(error) = state.session.awake() {
            state.end(error);
        }
        // Tasks with news were woken through this same context. After many polls without result, the work gets a turn.
        if state.slots.in_flight() > 0 {
            context.waker().wake_by_ref();
        }
    }

    /// Decides how to wait, and asks for the signal or alarm that ends a sleep. Returns nothing when a completion came in between.
    fn prepare(&self) -> Option<Wait> {
        let Shared { state, means, .. } = &*self.shared;
        let state = &mut *state.borrow_mut();
        let wait = if state.slots.awaited.is_empty() { means.default_wait() } else { self.choose(state) };
        if !wait.signal {
            return Some(wait);
        }
        let is_ready = state.session.prepare_sleep().unwrap_or_else(|error| {
            state.end(error);
            true
        });
        (!is_ready).then_some(wait)
    }

    /// Decides how to wait for requests of which some made a choice, and asks for the alarm.
    #[cold]
    #[inline(never)]
    fn choose(&self, state: &mut State<P>) -> Wait {
        let Shared { platform, means, alarms, .. } = &*self.shared;
        let others = state.slots.in_flight() > state.slots.awaited.count();
        let now = platform.ticks();
        let wait = state.slots.awaited.wait(*means, now, others);
        if !wait.signal {
            // It may be asked for from an earlier wait.
            let _ = state.session.awake();
        }
        if let Some(length) = wait.alarm.map(usize::from) {
            let at = now.saturating_add(means.alarm_ticks.get(length).copied().unwrap_or_default());
            // One that goes off before serves as well. One that should have gone off was noticed by another wait of the program.
            if state.alarm_at <= now || at < state.alarm_at {
                state.alarm_at = at;
                alarms.get(length).into_iter().for_each(|alarm| platform.kernel().signal(*alarm));
            }
        }
        wait
    }
}
