//! The server's adapter to the scheduling policy: asks it for the next turn, and reports submitted and completed commands.
//!
//! A scheduling policy counts nanoseconds and runs of commands that are alike; the data plane has ticks and single commands. Left
//! out: the policies themselves (`nvme-server/scheduler`), and the use of a turn (`session`).

use crate::data_plane::in_flight::{Accounting, Command, Work};
use alloc::boxed::Box;
use alloc::vec::Vec;
use blk_api::config::{Class, RateLimit, SchedulingPolicy, ServerConfig, SessionConfig};
use blk_api::request::Opcode;
use scheduler::{
    Commands, Decision, DeviceDirect, MAX_SESSIONS, Policy, Quantum, SessionId, Share, ShareError, StrictUrgent,
    Tenant, boxed,
};

/// The configured scheduling policy, with its state of the sessions.
pub(crate) struct Schedule {
    policy: Box<dyn Policy>,
    clock: Clock,
    bypass: Bypass,
    /// Sessions that had a turn in this pass, in the order of their first.
    pub served: Vec<usize>,
}

/// Whether the policy is bypassed, because there is one session, without limits, and so nothing to decide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bypass {
    /// The policy is bypassed; `waits` is whether the session waits for its turn.
    On { waits: bool },
    /// The policy decides, and knows which sessions wait.
    Off,
}

impl Schedule {
    /// Creates the schedule, with no session waiting.
    ///
    /// # Errors
    /// [`ShareError`]: the configuration has an invalid share.
    pub(crate) fn new(config: &ServerConfig, ticks_per_second: u64) -> Result<Self, ShareError> {
        let tenants: Vec<Tenant> = config.sessions.iter().map(tenant).collect();
        let policy = scheduler::configured(config.policy, &tenants, config.class_weights)?;
        Ok(Self {
            policy,
            clock: Clock::new(ticks_per_second),
            bypass: match tenants.as_slice() {
                [one] if is_unlimited(&one.share) => Bypass::On { waits: false },
                _ => Bypass::Off,
            },
            served: Vec::with_capacity(MAX_SESSIONS),
        })
    }

    /// Leaves the weighing to the controller, by class or by speed: all requests are submitted to it. No session waits yet, and
    /// the controller holds no commands.
    ///
    /// # Errors
    /// As [`Schedule::new`].
    pub(crate) fn leave_weighing(&mut self, config: &ServerConfig) -> Result<(), ShareError> {
        let numbered = (0..).map(SessionId).zip(&config.sessions);
        let tenants: Vec<Tenant> = numbered
            .map(|(session, config)| {
                let tenant = tenant(config);
                Tenant { share: self.policy.share(session).unwrap_or(tenant.share), ..tenant }
            })
            .collect();
        self.policy = match config.policy {
            SchedulingPolicy::DeviceDirect => boxed(|| DeviceDirect::new(&tenants))?,
            _ => boxed(|| StrictUrgent::new(&tenants))?,
        };
        Ok(())
    }

    /// Changes the share of session `index`; `limits` are of commands and of bytes. Returns the share before.
    ///
    /// # Errors
    /// [`ShareError`], and nothing has changed.
    pub(crate) fn set_share(
        &mut self,
        index: usize,
        class: Class,
        weight: u16,
        [iops_limit, bandwidth_limit]: [Option<RateLimit>; 2],
        now: u64,
    ) -> Result<Share, ShareError> {
        let session = session(index);
        let share = Share { class, weight, iops_limit, bandwidth_limit };
        let before = self.policy.share(session);
        self.put_share(index, share, now)?;
        Ok(before.unwrap_or(share))
    }

    /// Sets the share of session `index`, which is an earlier share of it or is checked here.
    ///
    /// # Errors
    /// As [`Schedule::set_share`].
    pub(crate) fn put_share(&mut self, index: usize, share: Share, now: u64) -> Result<(), ShareError> {
        let session = session(index);
        self.policy.set_share(session, share)?;
        if let Bypass::On { waits } = self.bypass
            && !is_unlimited(&share)
        {
            // The policy decides from now on. Commands in the device were not reported to it and are not when they complete.
            self.bypass = Bypass::Off;
            self.set_waiting(index, waits, now);
        }
        Ok(())
    }

    /// The class of session `index`.
    pub(crate) fn class(&self, index: usize) -> Option<Class> {
        self.policy.share(session(index)).map(|share| share.class)
    }

    /// Sets whether session `index` waits for its turn.
    #[inline]
    pub(crate) fn set_waiting(&mut self, index: usize, waits: bool, now: u64) {
        let session = session(index);
        match &mut self.bypass {
            Bypass::On { waits: known } => *known = waits,
            Bypass::Off if waits => self.policy.ready(session, self.clock.ns(now)),
            Bypass::Off => self.policy.idle(session),
        }
    }

    /// Whether any session waits for its turn.
    #[inline]
    pub(crate) fn has_waiters(&self) -> bool {
        match self.bypass {
            Bypass::On { waits } => waits,
            Bypass::Off => self.policy.any_waits(),
        }
    }

    /// Chooses the session whose turn it is.
    #[inline]
    pub(crate) fn next(&mut self, now: u64) -> Decision {
        match self.bypass {
            Bypass::On { waits: true } => {
                Decision::Serve { session: SessionId(0), quantum: Quantum { commands: BYPASS_BATCH, ..Quantum::ALL } }
            }
            Bypass::On { waits: false } => Decision::Nothing,
            Bypass::Off if !self.policy.any_waits() => Decision::Nothing,
            Bypass::Off => self.policy.next(self.clock.ns(now)),
        }
    }

    /// The time of a count of ticks on the policy's clock.
    pub(crate) fn ns(&self, ticks: u64) -> u64 {
        self.clock.ns(ticks)
    }

    /// Notes that the controller was reset and holds no commands.
    pub(crate) fn reset(&mut self, now: u64) {
        self.policy.reset(self.clock.ns(now));
    }

    /// A batch of events for the policy.
    #[inline]
    pub(crate) const fn batch(&mut self, now: u64) -> Batch<'_> {
        // Work without a tag is submitted work.
        let (run, event) = (Work::new(0, Opcode::Flush, 0), Event::Submitted);
        Batch { schedule: self, now, run, event, count: 0, submitted: 0 }
    }
}

/// Commands on their way to the policy and back: those of one session that are alike are reported together, at the latest
/// when this is dropped.
pub(crate) struct Batch<'a> {
    schedule: &'a mut Schedule,
    now: u64,
    /// The work that the commands of the run have in common, tagged with the event: one comparison tells whether another joins.
    run: Work,
    event: Event,
    /// Number of them that were not reported yet.
    count: u16,
    /// For a run of completed ones, the time at which the first was submitted, in ticks.
    submitted: u64,
}

/// An event of commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Submitted,
    Completed,
    /// They will not complete.
    Aborted,
    /// Entries that were answered without a command, in their session's turn.
    Refused,
}

impl Batch<'_> {
    /// Sets whether a session waits for another turn. It costs the policy less before the session's commands are reported.
    #[inline]
    pub(crate) fn set_waiting(&mut self, session: u8, waits: bool) {
        self.schedule.set_waiting(usize::from(session), waits, self.now);
    }

    /// A command was submitted.
    #[inline(always)]
    pub(crate) fn submitted(&mut self, command: &Command) {
        self.add(Event::Submitted, command.work, command.submitted);
    }

    /// A command came back.
    #[inline(always)]
    pub(crate) fn completed(&mut self, command: &Command, accounting: Accounting) {
        if accounting == Accounting::Counted {
            self.add(Event::Completed, command.work, command.submitted);
        }
    }

    /// A command will not come back.
    pub(crate) fn aborted(&mut self, command: &Command, accounting: Accounting) {
        if accounting == Accounting::Counted {
            self.discount(command);
        }
    }

    /// Discounts a command whose completion has become uncertain.
    pub(crate) fn discount(&mut self, command: &Command) {
        self.add(Event::Aborted, command.work, command.submitted);
    }

    /// An entry of a session was answered without a command.
    #[inline]
    pub(crate) fn refused(&mut self, session: u8) {
        self.add(Event::Refused, Work::new(session, Opcode::Flush, 0), 0);
    }

    #[inline(always)]
    fn add(&mut self, event: Event, work: Work, submitted: u64) {
        let run = work.tagged(event as u8);
        match self.count.checked_add(1) {
            Some(count) if run == self.run => self.count = count,
            _ => {
                self.flush();
                (self.run, self.event, self.count, self.submitted) = (run, event, 1, submitted);
            }
        }
    }

    /// Reports the run, if it has commands and there is something to decide.
    #[inline(always)]
    fn flush(&mut self) {
        if self.count > 0 && matches!(self.schedule.bypass, Bypass::Off) {
            self.report();
        }
    }

    /// Reports the run to the policy.
    #[inline(never)]
    fn report(&mut self) {
        let count = core::mem::take(&mut self.count);
        let work = self.run;
        let Schedule { policy, clock, .. } = &mut *self.schedule;
        let (session, now) = (SessionId(work.session()), clock.ns(self.now));
        let commands = Commands { session, kind: work.kind(), bytes: work.bytes(), count };
        match self.event {
            Event::Submitted => policy.submitted(commands, now),
            Event::Completed => policy.completed(commands, clock.ns(self.submitted), now),
            Event::Aborted => policy.aborted(commands, now),
            Event::Refused => policy.refused(session, count, now),
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Commands that the only session submits before completions are polled again.
const BYPASS_BATCH: u16 = 64;

/// The policy's number of session `index`.
fn session(index: usize) -> SessionId {
    SessionId(u8::try_from(index).unwrap_or(u8::MAX))
}

const fn is_unlimited(share: &Share) -> bool {
    share.iops_limit.is_none() && share.bandwidth_limit.is_none()
}

/// Turns ticks into nanoseconds without a division.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// Nanoseconds of a tick, 32 bits of them behind the point.
    ns_per_tick: u64,
}

impl Clock {
    fn new(ticks_per_second: u64) -> Self {
        let ns = (1_000_000_000u128 << 32).checked_div(u128::from(ticks_per_second)).unwrap_or(0);
        Self { ns_per_tick: u64::try_from(ns).unwrap_or(u64::MAX) }
    }

    #[inline]
    fn ns(self, ticks: u64) -> u64 {
        // 64 by 64 bits; it overflows after 584 years.
        (u128::from(ticks).wrapping_mul(u128::from(self.ns_per_tick)) >> 32) as u64
    }
}

const fn tenant(session: &SessionConfig) -> Tenant {
    let SessionConfig { class, weight, iops_limit, bandwidth_limit, highest, .. } = *session;
    Tenant { share: Share { class, weight, iops_limit, bandwidth_limit }, highest }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_plane::in_flight::Served;
    use alloc::rc::Rc;
    use alloc::vec;
    use blk_api::config::{ClassWeights, Completion, Interrupts};
    use blk_api::queue_sharing::QueueSharing;
    use blk_api::trace::Kinds;
    use core::cell::RefCell;
    use scheduler::{FlowTable, Kind, Lines};

    /// Notes the calls.
    struct Notes(Rc<RefCell<Vec<(&'static str, Commands)>>>, FlowTable);

    impl Policy for Notes {
        fn flow_table(&self) -> &FlowTable {
            &self.1
        }
        fn flow_table_mut(&mut self) -> &mut FlowTable {
            &mut self.1
        }
        fn next(&mut self, _: u64) -> Decision {
            Decision::Nothing
        }
        fn refused(&mut self, session: SessionId, count: u16, _: u64) {
            self.0.borrow_mut().push(("refused", Commands { session, kind: Kind::Other, bytes: 0, count }));
        }
        fn submitted(&mut self, commands: Commands, _: u64) {
            self.0.borrow_mut().push(("submitted", commands));
        }
        fn completed(&mut self, commands: Commands, submitted_at: u64, now: u64) {
            assert_eq!((submitted_at, now), (2000, 5000));
            self.0.borrow_mut().push(("completed", commands));
        }
        fn aborted(&mut self, commands: Commands, _: u64) {
            self.0.borrow_mut().push(("aborted", commands));
        }
    }

    fn of_session(session: u8, bytes: u32, kind: Kind) -> Command {
        let opcode = match kind {
            Kind::Read => Opcode::Read,
            Kind::Write => Opcode::Write,
            Kind::Other => Opcode::Flush,
        };
        let work = Work::new(session, opcode, bytes);
        Command { work, request: Served::Whole(0), submitted: 2, first: 0, offset: 0 }
    }

    fn command(bytes: u32, kind: Kind) -> Command {
        of_session(3, bytes, kind)
    }

    #[test]
    fn like_commands_are_reported_together_and_none_is_kept() {
        let notes = Rc::default();
        let policy = Box::new(Notes(Rc::clone(&notes), FlowTable::new(&[], Lines::One).unwrap()));
        let mut schedule = Schedule { policy, clock: Clock::new(1_000_000), bypass: Bypass::Off, served: vec![] };
        {
            let mut batch = schedule.batch(5);
            [4096, 4096, 8192].iter().for_each(|bytes| batch.submitted(&command(*bytes, Kind::Read)));
            batch.submitted(&command(0, Kind::Other));
            batch.refused(3);
            [4096, 4096].iter().for_each(|bytes| batch.completed(&command(*bytes, Kind::Write), Accounting::Counted));
            // A discounted command is reported at that moment, and not again.
            batch.discount(&command(4096, Kind::Read));
            batch.completed(&command(4096, Kind::Read), Accounting::Discounted);
            batch.aborted(&command(4096, Kind::Read), Accounting::Discounted);
        }
        let reported = |kind, bytes, count| Commands { session: SessionId(3), kind, bytes, count };
        let expected = vec![
            ("submitted", reported(Kind::Read, 4096, 2)),
            ("submitted", reported(Kind::Read, 8192, 1)),
            ("submitted", reported(Kind::Other, 0, 1)),
            ("refused", reported(Kind::Other, 0, 1)),
            ("completed", reported(Kind::Write, 4096, 2)),
            ("aborted", reported(Kind::Read, 4096, 1)),
        ];
        assert_eq!(*notes.borrow(), expected);
    }

    #[test]
    fn first_session_may_begin_a_batch_without_data() {
        let notes = Rc::default();
        let policy = Box::new(Notes(Rc::clone(&notes), FlowTable::new(&[], Lines::One).unwrap()));
        let mut schedule = Schedule { policy, clock: Clock::new(1_000_000), bypass: Bypass::Off, served: vec![] };
        schedule.batch(5).submitted(&of_session(0, 0, Kind::Other));
        let commands = Commands { session: SessionId(0), kind: Kind::Other, bytes: 0, count: 1 };
        assert_eq!(*notes.borrow(), [("submitted", commands)]);
    }

    fn session(class: Class) -> SessionConfig {
        SessionConfig {
            tenant: class.name().into(),
            class,
            highest: Class::Urgent,
            weight: 1,
            iops_limit: None,
            bandwidth_limit: None,
            queue_pairs: 1,
            depth: 1024,
            most_queue_pairs: 1,
            most_depth: 1024,
            core: 0,
            nsid: 1,
            blocks: 0,
            writable: true,
            completion: Completion::Interrupt,
            ring_entries: 1024,
            window_bytes: 4096,
            traced: Kinds::NONE,
        }
    }

    /// Turns of session 1, of the first sixty while session 0 wants some, too.
    fn turns_of_the_second(schedule: &mut Schedule) -> usize {
        [0, 1].iter().for_each(|index| schedule.set_waiting(*index, true, 0));
        let turn = |_: &usize| {
            let Decision::Serve { session, .. } = schedule.next(0) else { panic!("one of them has a turn") };
            // Done at once, so that the device always has room.
            let command = Command { submitted: 0, ..of_session(session.0, 4096, Kind::Read) };
            schedule.batch(0).submitted(&command);
            schedule.batch(0).completed(&command, Accounting::Counted);
            session.0 == 1
        };
        (0..60).filter(turn).count()
    }

    #[test]
    fn sole_session_is_scheduled_from_its_first_limit_on() {
        let config = ServerConfig {
            interrupts: Interrupts::Msix,
            policy: SchedulingPolicy::Paced,
            class_weights: ClassWeights::default(),
            queue_sharing: QueueSharing::Dedicated,
            sessions: vec![session(Class::Low)],
            functions: Vec::new(),
            records: 1,
            merging: true,
            quirks: Vec::new(),
            administration: None,
        };
        let mut schedule = Schedule::new(&config, 1_000_000_000).unwrap();
        assert_eq!(schedule.next(0), Decision::Nothing);
        schedule.set_waiting(0, true, 0);
        let Decision::Serve { quantum, .. } = schedule.next(0) else { panic!("it has a turn") };
        assert_eq!(quantum, Quantum { commands: BYPASS_BATCH, ..Quantum::ALL });
        [0; 5].iter().for_each(|_| schedule.batch(0).submitted(&of_session(0, 4096, Kind::Read)));
        let limit = RateLimit { per_second: 1000, burst: 2 };
        schedule.set_share(0, Class::Low, 1, [Some(limit), None], 0).unwrap();
        assert!(schedule.has_waiters());
        for _ in 0..2 {
            assert!(matches!(schedule.next(0), Decision::Serve { .. }));
            schedule.batch(0).submitted(&of_session(0, 4096, Kind::Read));
        }
        assert_eq!(schedule.next(0), Decision::Wait { until_ns: 1_000_000 });
        // Commands that were submitted during the bypass complete without being counted.
        [0; 7].iter().for_each(|_| schedule.batch(10).completed(&of_session(0, 4096, Kind::Read), Accounting::Counted));
        schedule.set_waiting(0, false, 10);
        assert_eq!(schedule.next(10), Decision::Nothing);
    }

    #[test]
    fn weighing_controller_gets_the_higher_class_first() {
        let sessions = vec![session(Class::High), session(Class::Low)];
        let weights = ClassWeights::default();
        let config = ServerConfig {
            interrupts: Interrupts::Msix,
            policy: SchedulingPolicy::Weighted,
            class_weights: weights,
            queue_sharing: QueueSharing::Dedicated,
            sessions,
            functions: Vec::new(),
            records: 1,
            merging: true,
            quirks: Vec::new(),
            administration: None,
        };
        let schedule = || Schedule::new(&config, 1_000_000_000).unwrap();
        assert!(turns_of_the_second(&mut schedule()) > 5, "the server weighs");
        let mut left = schedule();
        let share = Share { weight: 7, ..Share::of(Class::Medium) };
        left.policy.set_share(SessionId(1), share).unwrap();
        left.leave_weighing(&config).unwrap();
        assert_eq!(left.policy.share(SessionId(1)), Some(share));
        assert_eq!(turns_of_the_second(&mut left), 0);
    }

    #[test]
    fn ticks_of_any_clock_are_nanoseconds() {
        assert_eq!(Clock::new(1_000_000_000).ns(12_345), 12_345);
        assert_eq!(Clock::new(1000).ns(3), 3_000_000);
        // A year of a 3 GHz counter, to within a part in ten thousand million.
        let ns = Clock::new(3_000_000_000).ns(3_000_000_000 * 31_536_000);
        assert!(ns.abs_diff(31_536_000_000_000_000) < 10_000_000, "{ns}");
    }
}
