//! The event loop: waits in one place, handles the event, and serves the ready sessions.

use crate::control_plane::{administration, functions, remove};
use crate::data_plane::DataPlane;
use crate::data_plane::alarm::Alarm;
use crate::data_plane::pass::Pass;
use crate::doors;
use crate::jobs::Job;
use crate::link::Link;
use nvme_driver::Health;
use platform::{Badge, Event, Platform};

/// Passes over the ready sessions between two events.
const PASSES: u8 = 4;
/// Idle rounds, while sessions are polled, between two polls of the kernel for events.
const ROUNDS_PER_EVENT: u8 = 8;

/// Runs for ever.
pub(crate) async fn run<P: Platform>(link: &Link<P>) {
    let mut state = State { pass: Pass::default(), idle_rounds: 0, wake_ups: 0, alarm: Alarm::default() };
    loop {
        let event = if state.pass.again {
            state.poll(&link.platform).await
        } else {
            if let Some(until_ns) = state.pass.waits_until_ns {
                state.alarm.ask(link, until_ns);
            }
            // The control plane wakes the task when it is to be polled (`OnWake`).
            Some(link.platform.sleep_for_event().await)
        };
        state.wake_ups = state.wake_ups.wrapping_add(u64::from(event.is_some()));
        match event {
            Some(Event::Signal(badge)) => {
                // At a tick too: the alarm is then asked for again, so that no single one is relied on.
                if badge.has(Badge::ALARM | Badge::TICK) {
                    state.alarm = Alarm::default();
                }
                on_signal(link, badge, state.wake_ups);
            }
            Some(Event::Message(badge, message)) => doors::on_message(link, badge, &message),
            None => {}
        }
        state.serve(link);
    }
}

/// The loop's state from one event to the next.
struct State {
    /// The last pass.
    pass: Pass,
    /// Rounds in a row without progress.
    idle_rounds: u8,
    /// Events so far.
    wake_ups: u64,
    alarm: Alarm,
}

impl State {
    /// The next event, if there is one, while sessions are polled.
    async fn poll<P: Platform>(&mut self, platform: &P) -> Option<Event> {
        if self.idle_rounds > 0 {
            platform.pause();
        }
        // A component of the same priority may produce the event that is polled for.
        platform.yield_now().await;
        if self.idle_rounds.is_multiple_of(ROUNDS_PER_EVENT) { platform.poll_event() } else { None }
    }

    /// Serves the ready sessions, a few passes while there is progress.
    fn serve<P: Platform>(&mut self, link: &Link<P>) {
        self.idle_rounds = self.idle_rounds.wrapping_add(1);
        let served = link.with(|data| {
            for _ in 0..PASSES {
                self.pass = data.serve()?;
                if !self.pass.progress {
                    break;
                }
                self.idle_rounds = 0;
                if !self.pass.again {
                    break;
                }
            }
            data.report_ends();
            Ok(())
        });
        if let Err(fault) = served {
            self.pass = Pass::default();
            link.fail(fault);
        }
    }
}

fn on_signal<P: Platform>(link: &Link<P>, badge: Badge, wake_ups: u64) {
    if link.controller.vectors.borrow().may_concern_admin(badge) {
        poll_admin(link);
    }
    link.with(|data| data.on_signal(badge));
    if badge.has(Badge::TICK) {
        on_tick(link, wake_ups);
    }
}

/// Checks the controller's status and timeouts, decides deferred calls, and polls every session once.
#[inline(never)]
fn on_tick<P: Platform>(link: &Link<P>, wake_ups: u64) {
    let storm = link.with(|data| data.begin_tick(wake_ups));
    poll_admin(link);
    link.controller.tick.signal(());
    functions::on_tick(link);
    remove::on_tick(link);
    link.acknowledge_deaths();
    match link.controller.health.get() {
        Health::Up => {
            let fault = link.controller.registers.check().err().or(storm);
            if let Some(fault) = fault.or_else(|| administration::overdue(link)) {
                return link.fail(fault);
            }
        }
        Health::Down => return,
        Health::Dead | Health::Gone => {}
    }
    if link.with(DataPlane::end_tick) {
        link.jobs.pass(Job::RecoverQueuePairs);
    }
}

/// Takes what the controller has completed in the admin queue.
fn poll_admin<P: Platform>(link: &Link<P>) {
    let polled = link.controller.admin.poll().and_then(|found| {
        if found.event {
            link.jobs.pass(Job::Event);
        }
        administration::poll(link)
    });
    if let Err(fault) = polled {
        link.fail(fault);
    }
}
