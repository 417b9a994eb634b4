//! Protects one class against the ones below it: measures the latency that they add, and limits them to as much of the
//! device as adds next to none.
//!
//! Three bounds on the classes below, while the protected one is active:
//! - **pace**: a share of the device's time, raised while the protected class's latency is near its baseline and cut when
//!   it is not (slowly up, quickly down, as in congestion control by delay);
//! - **held**: the cost in the device at once, steered by how rarely the protected class is late (`room`). A single command
//!   may always go;
//! - **piece**: the cost of one command, at most the bound on what is held, or one baseline if that is more. The smallest
//!   command may always go.
//!
//! Where a device hides work that it has completed (`hidden_work`), late commands cut the pace as well, and it rises slowly.
//!
//! The baseline is measured, not configured: from commands during which nothing of the lower classes was in the device.
//! Where pacing leaves too few of those, the lower classes pause now and then until there are some, as BBR pauses to
//! measure its minimum latency.

use crate::baseline::Baseline;
use crate::cost::CostModel;
use crate::flow_table::Load;
use crate::hidden_work::HiddenWork;
use crate::policy::{Commands, Quantum};
use crate::room::{MOST as MOST_RATE, Room, WHOLE};
use crate::share::{CLASSES, MIN_PIECE};
use blk_api::config::Class;

/// The least pace, in parts of the device's time of which `WHOLE` are all. No feedback cuts the pace below it.
const LEAST_RATE: u64 = WHOLE / 32;
/// The least time between two raises where the device works on commands that have completed, nanoseconds.
const RAISE_NS: u64 = 1_000_000;
/// The least pace there on commands that have completed, whose cost the model cannot learn.
const LEAST_HIDDEN_RATE: u64 = 1;
/// The initial pace.
const FIRST_RATE: u64 = WHOLE / 4;

/// The unit of excess latency: so many are one baseline.
const BASELINE: i64 = 256;
/// The mean excess that is tolerated: a twelfth of the baseline.
const TOLERANCE: i64 = BASELINE / 12;
/// Weight of a sample in the noise: one of so many parts.
const NOISE_PARTS: i64 = 16;
/// Samples that end a period.
const PERIOD_SAMPLES: i64 = 16;
/// Nanoseconds after which `FEW_SAMPLES` end it.
const PERIOD_NS: u64 = 20_000_000;
const FEW_SAMPLES: i64 = 4;

/// The class counts as active for so many of its usual gaps after its last command, within the bounds below, nanoseconds.
const HOLD_GAPS: u64 = 8;
const LEAST_HOLD_NS: u64 = 2_000_000;
const MOST_HOLD_NS: u64 = 200_000_000;
/// Weight of a gap in the usual one, as a shift.
const GAP_SHIFT: u32 = 3;

/// The protected class is stuck when none of its commands completes for so many of its usual latencies, and for this long, nanoseconds.
const STUCK_TIMES: u64 = 16;
const LEAST_STUCK_NS: u64 = 1_000_000;

/// Nanoseconds between two pauses of the lower classes, if nothing else shows the baseline.
const PROBE_EVERY_NS: u64 = 256_000_000;
/// Nanoseconds between two pauses while a baseline is unknown.
const PROBE_AGAIN_NS: u64 = 64_000_000;
/// The longest pause, nanoseconds.
const PROBE_NS: u64 = 10_000_000;
/// Commands that ran alone which end a pause.
const PROBE_SAMPLES: u32 = 8;

/// Whether a command of a lower class may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// Now, so much.
    Now(Quantum),
    /// At this time; or, without a time, when the device holds less.
    Later(Option<u64>),
}

/// The latency controller of a class.
#[derive(Clone, Debug)]
pub(crate) struct LatencyController {
    baseline: Baseline,
    /// The baseline of the class's latest command, nanoseconds; 0 if unknown.
    typical: u64,
    /// Smoothed absolute deviation of uncontended latency from the baseline, in parts of the baseline.
    noise: i64,
    /// When the last command was submitted, if the device held nothing of the lower classes then.
    began_alone: Option<u64>,
    activity: Activity,
    pace: Pace,
    period: Period,
    room: Room,
    probe: Probe,
    /// When the last command of a lower class left the device.
    lower_left: u64,
    hidden: HiddenWork,
    /// Samples from before this time do not count for the present pace. `u64::MAX` while the device still holds commands
    /// that the lower classes submitted while the protected one was away.
    clean_since: u64,
}

#[derive(Clone, Debug)]
struct Activity {
    /// When its last command was submitted or completed, if there was one.
    last: Option<u64>,
    /// Nanoseconds between two commands, smoothed.
    gap: u64,
    /// When one completed last, or was submitted with no other in the device.
    progress: u64,
}

#[derive(Clone, Debug)]
struct Pace {
    /// In parts of `WHOLE`.
    rate: u64,
    /// The rate at the last cut.
    too_much: u64,
    /// When the rate was raised last.
    raised: u64,
    /// When the next command of each class may go. A command defers those of its own class and of the ones below, so
    /// that the classes below one latency controller keep their order.
    next_at: [u64; CLASSES],
}

#[derive(Clone, Debug, Default)]
struct Period {
    begin: u64,
    samples: i64,
    /// Sum of the samples' excess.
    excess: i64,
    /// Whether the pace held a command back.
    paced: bool,
}

#[derive(Clone, Debug, Default)]
struct Probe {
    begun: Option<u64>,
    until: u64,
    /// Commands of the protected class that ran alone since the probe began.
    alone: u32,
    /// Whether a command completed whose baseline is unknown.
    wanted: bool,
}

impl LatencyController {
    pub(crate) fn new() -> Self {
        Self {
            baseline: Baseline::default(),
            typical: 0,
            noise: 0,
            began_alone: None,
            activity: Activity { last: None, gap: LEAST_HOLD_NS / HOLD_GAPS, progress: 0 },
            pace: Pace { rate: FIRST_RATE, too_much: MOST_RATE, raised: 0, next_at: [0; CLASSES] },
            period: Period::default(),
            room: Room::new(),
            probe: Probe::default(),
            lower_left: 0,
            hidden: HiddenWork::default(),
            clean_since: 0,
        }
    }

    /// Until when the class counts as active if it submits nothing more.
    #[inline]
    pub(crate) fn active_until(&self) -> u64 {
        let hold = self.activity.gap.saturating_mul(HOLD_GAPS).clamp(LEAST_HOLD_NS, MOST_HOLD_NS);
        self.activity.last.map_or(0, |last| last.saturating_add(hold))
    }

    /// A command of the protected class was submitted, while the device held `lower` of the others. Whether it is the only one of its
    /// class there is `alone_in_class`.
    #[inline]
    pub(crate) fn protected_submitted(&mut self, alone_in_class: bool, lower: Load, now: u64) {
        if alone_in_class {
            self.activity.progress = now;
        }
        if now >= self.active_until() {
            self.pace.next_at = [now; CLASSES];
            self.period = Period { begin: now, ..Period::default() };
            self.clean_since = if lower.commands > 1 { u64::MAX } else { now };
        }
        let settled = self.settled(self.typical);
        self.began_alone = (lower.commands == 0 && now >= settled).then_some(now);
        let gap = now.saturating_sub(self.activity.last.unwrap_or(now)).min(MOST_HOLD_NS / HOLD_GAPS);
        let smoothed = self.activity.gap;
        self.activity.gap = smoothed.saturating_sub(smoothed >> GAP_SHIFT).saturating_add(gap >> GAP_SHIFT);
        self.activity.last = Some(now);
    }

    /// A command that was submitted at `submitted_at` completed, while the device held `lower`.
    #[inline]
    pub(crate) fn protected_completed(&mut self, commands: &Commands, lower: Load, submitted_at: u64, now: u64) {
        self.activity.last = self.activity.last.max(Some(now));
        self.activity.progress = now;
        let latency = now.saturating_sub(submitted_at);
        let known = self.baseline.of(commands);
        if known.is_some_and(|known| self.hidden.delays(latency, known, submitted_at, now)) {
            // Commands that seemed to run alone did not.
            self.noise = 0;
            self.room.forget_own();
        }
        // The device must also have had the time to settle after the last command of a lower class.
        let settled = self.settled(known.unwrap_or(0));
        let alone = lower.commands == 0 && submitted_at >= settled;
        // Beside others it was quicker than alone, by more than chance explains: the device has changed.
        let quicker = known.is_some_and(|known| excess(latency, known) < (-BASELINE / 4).saturating_sub(self.noise));
        // A command that began alone and was late is the device's own hiccup. The baseline does not see it: other commands came
        // while it was under way, so it did not run alone.
        let own = !alone && self.began_alone == Some(submitted_at);
        if let Some(known) = known.filter(|_| alone || own) {
            let off = excess(latency, known).saturating_abs();
            self.noise = self.noise.saturating_add((off.saturating_sub(self.noise)) / NOISE_PARTS);
        }
        if quicker {
            // The noise until now may have been the change.
            self.noise /= 2;
        }
        if alone || quicker {
            self.baseline.learn(commands, latency);
            self.probe.alone = self.probe.alone.saturating_add(u32::from(alone));
        }
        let Some(alone_ns) = self.baseline.of(commands) else {
            self.probe.wanted = true;
            return;
        };
        self.typical = alone_ns;
        if alone || own {
            self.room.alone(latency, alone_ns);
        }
        let is_cut = self.room.sample(latency, alone_ns, self.pace.rate, submitted_at, now);
        if is_cut && self.hidden.is_there(now) {
            // A bound on what the device holds does not reach what it hides. While the class is stuck it shows nothing, so the longer
            // it was, the deeper the cut.
            let (rate, bearable) = (self.pace.rate, alone_ns.saturating_mul(STUCK_TIMES));
            self.cut(rate.saturating_mul(bearable).checked_div(latency).unwrap_or(0).min(rate / 2), now);
        }
        // Commands that ran alone count as well, because it also matters how often the others are in the way.
        if submitted_at >= self.clean_since {
            let excess = excess(latency, alone_ns);
            self.sample(if own { excess.min(0) } else { excess }, now);
        }
    }

    /// Whether `class` may submit a command while the device holds `own` of the protected class and `lower` of it and of those
    /// between them. Called only while the protected class is active.
    #[inline]
    pub(crate) fn admits(&mut self, class: Class, own: Load, lower: Load, cost: &CostModel, now: u64) -> Admission {
        if own.commands > 0 && now >= self.stuck_at() && self.hidden.lingers_until() > now {
            // Hidden work of the lower classes may delay the protected class, which has no late command yet to show it.
            return Admission::Later(Some(self.hidden.lingers_until()));
        }
        let pause = self.pause(now);
        if pause > now {
            return Admission::Later(Some(pause));
        }
        let next_at = self.pace.next_at.get(class.index()).copied().unwrap_or(0);
        if next_at > now {
            self.period.paced = true;
            return Admission::Later(Some(next_at));
        }
        if !self.holds_little(lower, cost) {
            self.period.paced = true;
            self.room.held_back = true;
            return Admission::Later(None);
        }
        let piece = cost.bytes_within(self.bearable().max(self.typical)).max(u64::from(MIN_PIECE));
        Admission::Now(Quantum { bytes: u32::try_from(piece).unwrap_or(u32::MAX), ..Quantum::ONE })
    }

    /// `class` submitted a command of this cost, while the protected class was active.
    #[inline]
    pub(crate) fn lower_submitted(&mut self, class: Class, cost: u64, now: u64) {
        let interval = cost.saturating_mul(WHOLE).checked_div(self.pace.rate).unwrap_or(cost);
        // A class that submits late catches up by one interval at most.
        for next_at in self.pace.next_at.iter_mut().skip(class.index()) {
            *next_at = (*next_at).max(now.saturating_sub(interval)).saturating_add(interval);
        }
    }

    /// A command of a lower class left the device, which holds `lower` now.
    #[inline]
    pub(crate) fn lower_left(&mut self, lower: Load, cost: &CostModel, now: u64) {
        if lower.commands == 0 {
            self.lower_left = now;
        }
        if self.clean_since == u64::MAX && self.holds_little(lower, cost) {
            self.clean_since = now;
        }
    }

    /// Measures everything again: the device was reset, holds nothing any more, and may behave differently.
    pub(crate) fn reset(&mut self, now: u64) {
        *self = Self { activity: self.activity.clone(), lower_left: now, clean_since: now, ..Self::new() };
    }

    /// A command of a lower class that was submitted at `submitted_at` completed.
    #[inline]
    pub(crate) fn lower_completed(&mut self, commands: &Commands, submitted_at: u64, now: u64) {
        self.hidden.completed(commands, submitted_at, now);
    }

    /// When the protected class is stuck, if none of its commands completes before.
    #[inline]
    fn stuck_at(&self) -> u64 {
        self.activity.progress.saturating_add(self.typical.saturating_mul(STUCK_TIMES).max(LEAST_STUCK_NS))
    }

    /// When the device has settled after the last command of a lower class, if `alone` is the latency of one of the protected class.
    #[inline]
    fn settled(&self, alone: u64) -> u64 {
        self.lower_left.saturating_add(alone).max(self.hidden.ends())
    }

    /// Whether the pace may be raised: hidden work shows late, so what the last raise did must be seen first.
    fn may_raise(&self, now: u64) -> bool {
        let seen = now >= self.pace.raised.saturating_add(RAISE_NS) && self.room.has_credit();
        seen || !self.hidden.is_there(now)
    }

    /// Cuts the pace to `rate`.
    fn cut(&mut self, rate: u64, now: u64) {
        let least = if self.hidden.is_there(now) { LEAST_HIDDEN_RATE } else { LEAST_RATE };
        self.pace.too_much = self.pace.rate;
        self.pace.rate = rate.max(least);
        self.clean_since = self.clean_since.max(now);
    }

    /// Whether a further command of the lower classes stays within the bound.
    #[inline]
    fn holds_little(&self, lower: Load, cost: &CostModel) -> bool {
        lower.commands == 0 || cost.of(lower.plus(Load { commands: 1, bytes: u64::from(MIN_PIECE) })) <= self.bearable()
    }

    /// Cost that the lower classes may have in the device at once, nanoseconds.
    #[inline]
    fn bearable(&self) -> u64 {
        self.room.of(self.typical, self.pace.rate)
    }

    /// Until when the lower classes pause; `now` or before if they do not.
    #[inline]
    fn pause(&mut self, now: u64) -> u64 {
        let probe = &mut self.probe;
        if now < probe.until {
            if probe.alone < PROBE_SAMPLES {
                return probe.until;
            }
            probe.until = now;
        }
        let every = if probe.wanted { PROBE_AGAIN_NS } else { PROBE_EVERY_NS };
        if probe.begun.is_some_and(|begun| now < begun.saturating_add(every)) {
            return now;
        }
        let needed = probe.wanted || probe.alone < PROBE_SAMPLES;
        let until = if needed { now.saturating_add(PROBE_NS) } else { now };
        *probe = Probe { begun: Some(now), until, alone: 0, wanted: false };
        until
    }

    /// Adds the excess latency of a command of the protected class; ends the period if it has enough samples.
    fn sample(&mut self, excess: i64, now: u64) {
        let period = &mut self.period;
        period.samples = period.samples.saturating_add(1);
        period.excess = period.excess.saturating_add(excess);
        let long = now.saturating_sub(period.begin) >= PERIOD_NS && period.samples >= FEW_SAMPLES;
        if period.samples >= PERIOD_SAMPLES || long {
            let mean = period.excess.checked_div(period.samples).unwrap_or(0);
            self.adjust(mean, now);
            self.period = Period { begin: now, ..Period::default() };
        }
    }

    /// How far the mean of a period is off by chance: half of the noise with all samples, the whole noise with the fewest
    /// that end a period.
    fn chance(&self) -> i64 {
        let samples = self.period.samples.saturating_add(8);
        self.noise.saturating_mul(12).checked_div(samples).unwrap_or(self.noise)
    }

    /// Raises or cuts the pace, by the mean excess of a period.
    fn adjust(&mut self, mean: i64, now: u64) {
        let mean = mean.saturating_sub(self.chance());
        let may_raise = self.may_raise(now);
        let Pace { rate, too_much, raised, .. } = &mut self.pace;
        if mean > TOLERANCE {
            // The class is still slow beside the least pace: the device may have changed.
            self.probe.wanted |= *rate <= LEAST_RATE;
            let rate = if mean > BASELINE / 2 { *rate / 2 } else { rate.saturating_mul(3) / 4 };
            self.cut(rate, now);
        } else if self.period.paced && may_raise {
            *raised = now;
            // Quickly where the pace is known to be harmless, slowly near the rate of the last cut, quickly again beyond it.
            let step = if rate.saturating_mul(4) < too_much.saturating_mul(3) {
                *rate / 4
            } else if rate.saturating_mul(4) < too_much.saturating_mul(5) {
                *rate / 32
            } else {
                *rate / 8
            };
            *rate = rate.saturating_add(step.max(1)).min(MOST_RATE);
        }
    }
}

/// Excess of `latency` over that alone, in parts of `BASELINE`. It is capped at twice as long, so that a hiccup of the
/// device does not count against the lower classes.
fn excess(latency: u64, alone: u64) -> i64 {
    let parts = |ns: u64| ns.saturating_mul(BASELINE.unsigned_abs()).checked_div(alone.max(1)).unwrap_or(0);
    let capped = parts(latency.min(alone.saturating_mul(2)));
    i64::try_from(capped).unwrap_or(i64::MAX).saturating_sub(BASELINE)
}
