//! The default policy: keeps the latency of each class near what it has alone, whatever the less urgent classes do.
//!
//! # The method
//!
//! Delay-based congestion control between the classes, with a cost model that is learned. Its parts, and their sources:
//!
//! - **Feedback by delay.** Gimbal (Min and others, SIGCOMM 2021) and, for whole control groups, Linux's blk-iocost
//!   (Heo and others, IOCost, ASPLOS 2022) take the device for a black box and steer by the latency it shows. They raise
//!   the rate while latency is near its baseline, and cut it when it is not. So do the [latency controllers](crate) here,
//!   one a class, which pace the classes below theirs. iocost needs the device's cost model and its latency target from a
//!   person, and goes badly wrong when they are wrong. Here both are measured.
//! - **Bottleneck rate and minimum latency, measured in operation.** BBR (Cardwell and others, ACM Queue 2016) keeps in
//!   flight as much as the bottleneck serves in the least round trip. Now and then it stops sending for a moment to measure
//!   that least again. The in-flight limit here works the same way, and so do the pauses that measure the baseline.
//! - **Bounded depth, in the device's time.** K2 (Miemietz and others, RTSS 2019) and SFQ(D) (Jin, Chase, Kaur,
//!   SIGMETRICS 2004) bound the commands in the device, because commands in the device cannot be reordered any more. A
//!   bound on their number is useless when one can be 32 times as long as another, so the bound is on their cost.
//!
//! Feedback alone would work without a cost model, but each change of the neighbour's request size would surprise it. A
//! model alone would work without feedback, and be as good as the model. Together, an error of the model is a constant
//! factor that the feedback removes, and the model predicts the effect of a large request before it is submitted.
//!
//! # Guarantees
//!
//! - While only lower classes have commands, they get the device's full rate. A latency controller ends its protection a few
//!   milliseconds after a busy class fell silent, and later after a class whose commands come rarely, at most 200 ms.
//! - While a higher class is active, `latency_controller` paces the lower ones. They still get a thirty-second of the device
//!   at the least, and one command each [`STARVATION_LIMIT_NS`] whatever happens.
//! - Within a class the device's time is shared by weight.

use crate::contention::ContentionTracker;
use crate::flow_table::{FlowTable, Lines, Load};
use crate::in_flight_limit::InFlightLimit;
use crate::latency_controller::{Admission, LatencyController};
use crate::policy::{Commands, Decision, Policy, Quantum};
use crate::share::{CLASSES, MIN_PIECE, SessionId, ShareError, Tenant};
use crate::starvation_guard::StarvationGuard;
use blk_api::config::Class;

#[cfg(doc)]
use crate::starvation_guard::STARVATION_LIMIT_NS;

/// The classes that have others below them, each with its latency controller.
const PROTECTED: [Class; 3] = [Class::Urgent, Class::High, Class::Medium];

/// The default policy, delay-based congestion control between the classes; the module has its method.
#[derive(Clone, Debug)]
pub struct Paced {
    flow_table: FlowTable,
    starvation: StarvationGuard,
    /// A tracker for each class.
    contention: [ContentionTracker; CLASSES],
    in_flight_limit: InFlightLimit,
    /// A controller for each of `PROTECTED`.
    controllers: [LatencyController; PROTECTED.len()],
}

impl Paced {
    /// A policy with all sessions idle, and the device unknown.
    ///
    /// # Errors
    /// [`ShareError`]: a share that is not allowed, or too many.
    pub fn new(tenants: &[Tenant]) -> Result<Self, ShareError> {
        Ok(Self {
            flow_table: FlowTable::new(tenants, Lines::PerClass)?,
            starvation: StarvationGuard::default(),
            contention: Default::default(),
            in_flight_limit: InFlightLimit::new(),
            controllers: [LatencyController::new(), LatencyController::new(), LatencyController::new()],
        })
    }

    /// Whether a command of the session, which is of `class`, may go.
    #[inline]
    fn admits(&mut self, session: SessionId, class: Class, now: u64) -> Admission {
        if self.has_device(session, class, now) {
            return Admission::Now(Quantum::ALL);
        }
        let mut piece = None;
        let above = PROTECTED.into_iter().take_while(|protected| *protected < class);
        for (protected, controller) in above.zip(&mut self.controllers) {
            if !is_active(&self.flow_table, controller, protected, now) {
                continue;
            }
            match controller.admits(
                class,
                self.flow_table.load(protected),
                self.flow_table.load_between(protected, class),
                &self.in_flight_limit.cost,
                now,
            ) {
                Admission::Now(Quantum { bytes, .. }) => {
                    piece = Some(piece.map_or(bytes, |piece: u32| piece.min(bytes)));
                }
                // The protection may end before.
                Admission::Later(at) => {
                    let released = Some(controller.active_until()).filter(|until| *until > now);
                    return Admission::Later([at, released].into_iter().flatten().min());
                }
            }
        }
        let quantum = match piece {
            // The latency controllers bound the class's load in the device more closely than the in-flight limit.
            Some(bytes) => Some(Quantum { bytes, ..Quantum::ONE }),
            // Commands of lower classes in the device do not hold it up.
            None => self.in_flight_limit.admits(self.flow_table.load_down_to(class), self.flow_table.total(), now),
        };
        quantum.map_or(Admission::Later(None), Admission::Now)
    }

    /// Records that a session submitted commands or got some back.
    #[inline]
    fn seen(&mut self, session: SessionId, class: Class, now: u64) {
        self.contention.get_mut(class.index()).into_iter().for_each(|contention| contention.seen(session, now));
    }

    /// Whether the session may fill the device: no equal waits or is only away for a moment, and no more urgent class has
    /// sessions. One of those could come and find too much before it. Lower classes do not hold it back.
    #[inline]
    fn has_device(&self, session: SessionId, class: Class, now: u64) -> bool {
        let beside = self.contention.get(class.index()).and_then(|contention| contention.seen_beside(session));
        self.flow_table.is_alone_in(class)
            && !self.flow_table.has_above(class)
            && beside.is_none_or(|at| now >= at.saturating_add(self.starvation.length()))
    }
}

/// Whether the latency controller of `class` has commands to protect.
#[inline]
fn is_active(flow_table: &FlowTable, controller: &LatencyController, class: Class, now: u64) -> bool {
    flow_table.load(class).commands > 0 || flow_table.class_waits(class) || now < controller.active_until()
}

/// The latency controllers above `class`.
#[inline]
fn above(
    controllers: &mut [LatencyController; PROTECTED.len()],
    class: Class,
) -> impl Iterator<Item = (Class, &mut LatencyController)> {
    PROTECTED.into_iter().zip(controllers).take_while(move |(protected, _)| *protected < class)
}

impl Policy for Paced {
    #[inline]
    fn flow_table(&self) -> &FlowTable {
        &self.flow_table
    }

    #[inline]
    fn flow_table_mut(&mut self) -> &mut FlowTable {
        &mut self.flow_table
    }

    fn ready(&mut self, session: SessionId, now: u64) {
        if self.flow_table.ready(session) {
            self.flow_table.class(session).into_iter().for_each(|class| self.starvation.asked(class, now));
        }
    }

    fn next(&mut self, now: u64) -> Decision {
        self.flow_table.unpark(now);
        if let Some(session) = self.starvation.overdue(&mut self.flow_table, now) {
            let quantum = Quantum { bytes: MIN_PIECE, ..Quantum::ONE };
            return Decision::Serve { session, quantum: self.flow_table.within_limits(session, quantum, now) };
        }
        let mut wake: Option<u64> = None;
        for class in Class::ALL {
            let Some(session) = self.flow_table.head(class, now) else { continue };
            match self.admits(session, class, now) {
                Admission::Now(quantum) => {
                    return Decision::Serve { session, quantum: self.flow_table.within_limits(session, quantum, now) };
                }
                Admission::Later(at) => wake = [wake, at].into_iter().flatten().min(),
            }
        }
        let (limit, starvation) = (self.flow_table.next_unpark(), self.starvation.next_end(&self.flow_table));
        Decision::wait([wake, limit, starvation].into_iter().flatten().min())
    }

    fn refused(&mut self, session: SessionId, count: u16, now: u64) {
        let cost = self.in_flight_limit.cost.charge(Load { commands: u64::from(count), bytes: 0 });
        self.flow_table.refused(session, count, cost, now);
    }

    fn submitted(&mut self, commands: Commands, now: u64) {
        let cost = self.in_flight_limit.cost.of(Load::of(&commands));
        let charge = self.in_flight_limit.cost.charge(Load::of(&commands));
        let Some(class) = self.flow_table.submitted(&commands, charge, now) else { return };
        self.seen(commands.session, class, now);
        self.in_flight_limit.submitted(self.flow_table.total(), now);
        self.starvation.served(class, &self.flow_table, now);
        self.starvation.learn(charge, commands.count);
        if !self.flow_table.has_other(class) {
            return;
        }
        for (protected, controller) in above(&mut self.controllers, class) {
            if is_active(&self.flow_table, controller, protected, now) {
                controller.lower_submitted(class, cost, now);
            }
        }
        let alone = self.flow_table.load(class).commands == u64::from(commands.count);
        let lower = self.flow_table.load_below(class);
        if let Some(controller) = self.controllers.get_mut(class.index()) {
            controller.protected_submitted(alone, lower, now);
        }
    }

    fn completed(&mut self, commands: Commands, submitted_at: u64, now: u64) {
        let Some(class) = self.flow_table.left_device(&commands) else { return };
        self.seen(commands.session, class, now);
        self.starvation.completed(now);
        let held = self.flow_table.total();
        self.in_flight_limit.completed(&commands, held, submitted_at, now);
        if !self.flow_table.has_other(class) {
            return;
        }
        for (protected, controller) in above(&mut self.controllers, class) {
            controller.lower_completed(&commands, submitted_at, now);
            controller.lower_left(self.flow_table.load_below(protected), &self.in_flight_limit.cost, now);
        }
        let lower = self.flow_table.load_below(class);
        if let Some(controller) = self.controllers.get_mut(class.index()) {
            controller.protected_completed(&commands, lower, submitted_at, now);
        }
    }

    fn aborted(&mut self, commands: Commands, now: u64) {
        let Some(class) = self.flow_table.left_device(&commands) else { return };
        for (protected, controller) in above(&mut self.controllers, class) {
            controller.lower_left(self.flow_table.load_below(protected), &self.in_flight_limit.cost, now);
        }
    }

    fn reset(&mut self, now: u64) {
        self.flow_table.reset();
        self.in_flight_limit.reset();
        self.controllers.iter_mut().for_each(|controller| controller.reset(now));
    }
}
