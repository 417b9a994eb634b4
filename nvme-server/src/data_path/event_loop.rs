//! The event loop: waits in one place, handles the event, and serves the ready sessions.

use crate::control_path::functions;
use crate::control_path::interrupts_change;
use crate::control_path::requests::Control;
use crate::data_path::alarm::Alarm;
use crate::data_path::pass::{Pass, serve};
use crate::recovery::removal;
use crate::sessions::calls;
use crate::sessions::policy;
use crate::sessions::slot::completed;
use crate::shared::Shared;
use nvme_driver::controller::Health;
use platform::{Badge, Event, Platform};

/// Passes over the ready sessions between two events.
const PASSES: u8 = 4;
/// Idle rounds, while sessions are polled, between two polls of the kernel for events.
const ROUNDS_PER_EVENT: u8 = 8;

/// Runs for ever.
pub(crate) async fn run<P: Platform>(shared: &Shared<P>) {
    let mut state = State { pass: Pass::default(), idle_rounds: 0, alarm: Alarm::default() };
    loop {
        let event = if state.pass.again {
            state.poll(shared).await
        } else {
            if let Some(until_ns) = state.pass.waits_until_ns {
                state.alarm.ask(shared, until_ns);
            }
            // The control plane wakes the task when it is to be polled (`OnWake`).
            Some(shared.platform.sleep_for_event().await)
        };
        match event {
            Some(Event::Signal(badge)) => {
                // At a tick too: the alarm is then asked for again, so that no single one is relied on.
                if badge.has(Badge::ALARM | Badge::TICK) {
                    state.alarm = Alarm::default();
                }
                on_signal(shared, badge);
            }
            Some(Event::Message(badge, message)) => calls::on_message(shared, badge, &message),
            None => {}
        }
        state.serve(shared);
        policy::notify_drained(shared);
        interrupts_change::go_on_when_drained(shared);
    }
}

/// The loop's state from one event to the next.
struct State {
    /// The last pass.
    pass: Pass,
    /// Rounds in a row without progress.
    idle_rounds: u8,
    alarm: Alarm,
}

impl State {
    /// The next event, if there is one, while sessions are polled.
    async fn poll<P: Platform>(&mut self, shared: &Shared<P>) -> Option<Event> {
        if self.idle_rounds > 0 {
            shared.platform.pause();
        }
        // A component of the same priority may produce the event that is polled for.
        shared.platform.yield_now().await;
        if self.idle_rounds.is_multiple_of(ROUNDS_PER_EVENT) { shared.platform.poll_event() } else { None }
    }

    /// Serves the ready sessions, a few passes while there is progress.
    fn serve<P: Platform>(&mut self, shared: &Shared<P>) {
        self.idle_rounds = self.idle_rounds.wrapping_add(1);
        for _ in 0..PASSES {
            self.pass = serve(shared);
            if !self.pass.progress {
                break;
            }
            self.idle_rounds = 0;
            if !self.pass.again {
                break;
            }
        }
    }
}

/// Makes the sessions ready that the signal may concern.
fn on_signal<P: Platform>(shared: &Shared<P>, badge: Badge) {
    let vectors = shared.controller.vectors.borrow();
    if vectors.may_concern_admin(badge) {
        poll_admin(shared);
    }
    let mut slots = shared.slots.borrow_mut();
    vectors.count(&shared.platform, badge, |bit| completed(&slots, bit));
    for index in shared.ready.listeners(badge) {
        let Some(slot) = slots.get_mut(index) else { continue };
        let raised = badge.has(slot.vector_bits);
        // Other clients signal with the same bit.
        if raised || (badge.has(slot.client_bit) && slot.budget.hears_signal() && !slot.is_asleep()) {
            slot.poll();
        }
        if let Some(session) = slot.phase.session_mut().filter(|_| raised) {
            session.count_interrupt(vectors.by());
        }
    }
    drop((slots, vectors));
    if badge.has(Badge::TICK) {
        on_tick(shared);
    }
}

/// Checks the controller's status and timeouts, decides deferred calls, and polls every session once, because a signal may have
/// been lost.
#[inline(never)]
fn on_tick<P: Platform>(shared: &Shared<P>) {
    let storm =
        shared.controller.vectors.borrow().on_tick(&shared.platform, |bit| completed(&shared.slots.borrow(), bit));
    poll_admin(shared);
    shared.controller.tick.signal(());
    calls::on_tick(shared);
    functions::on_tick(shared);
    removal::on_tick(shared);
    shared.acknowledge_deaths();
    match shared.controller.health.get() {
        Health::Up => {}
        Health::Down => return,
        Health::Dead | Health::Gone => {
            // The device reaches no window any more, so the sessions of clients that die now are torn down as any other.
            for slot in shared.slots.borrow_mut().iter_mut() {
                slot.poll();
                slot.check_client();
            }
            return;
        }
    }
    if let Some(fault) = shared.controller.registers.check().err().or(storm) {
        return shared.fail(fault);
    }
    let (now, ticks_per_second) = (shared.platform.ticks(), shared.platform.ticks_per_second());
    for slot in shared.slots.borrow_mut().iter_mut() {
        slot.poll();
        slot.check_client();
    }
    let mut schedule = shared.schedule.borrow_mut();
    shared.queues.borrow_mut().discount(&mut schedule.batch(now), now, ticks_per_second);
    drop(schedule);
    if shared.queues.borrow().overdue(now, ticks_per_second).is_some() {
        shared.control.pass(Control::RecoverQueuePairs);
    }
}

/// Takes what the controller has completed in the admin queue.
fn poll_admin<P: Platform>(shared: &Shared<P>) {
    match shared.controller.admin.poll() {
        Ok(true) => shared.control.pass(Control::Event),
        Ok(false) => {}
        Err(fault) => shared.fail(fault),
    }
}
