//! Learns, while the device is busy, what commands cost it: a cost per command and a cost per byte.
//!
//! Cost is time of the whole device: its reciprocal is the rate at which it serves such commands when it has enough of
//! them. While there is enough, the time between completions is the cost of the completed commands together. That is one
//! equation for two unknowns. Each epoch moves the estimate along the direction that it measures (normalized least mean
//! squares), so the other parts stay as they are, and mixed sizes distinguish them. A load of one size cannot: its cost is
//! right for that size, and larger commands are taken to be costly, which is the cautious side.
//!
//! A device that holds commands may still do nothing, because it has lost them. So its working time counts as no longer than
//! the latencies of the completed commands together.
//!
//! Left out: writes and commands without data may cost more or less than reads, and a device may be slower with some blocks than with
//! others. The feedback in `latency_controller` corrects for both, also where the work is hidden (`hidden_work`).

use crate::flow_table::Load;
use crate::policy::Commands;

/// Fraction bits of the model's parameters.
const FRACTION: u32 = 10;
/// Bytes of a unit of data.
const UNIT_SHIFT: u32 = 12;
/// Commands after which an epoch ends, unless its length ends it before. There are enough of them to average over a device
/// that lets one command pass and delays the next for it, as a leaky bucket does.
const EPOCH_COMMANDS: u64 = 32;
/// Length of an epoch, nanoseconds.
const EPOCH_NS: u64 = 50_000_000;
/// Longer epochs count as this, nanoseconds.
const MAX_EPOCH_NS: u64 = 1_000_000_000;
/// Weight of an epoch, as a shift: a quarter of its error is corrected.
const GAIN_SHIFT: u32 = 2;
/// Before the first epoch: a tenth of a millisecond a command, and as much for each 4 KiB. That is too high for most devices,
/// so that an unknown one is tried with little. Where a latency controller never lets in enough to learn from, its feedback
/// has to correct this.
const FIRST_GUESS: i64 = 100_000 << FRACTION;
/// The charge for each of these parts meanwhile, nanoseconds: as little as the quickest devices take. A session that is
/// charged too much pays until the others have had as much; a charge that is too low is a few commands' advantage.
const FIRST_CHARGE_NS: u64 = 250;

/// The model, and the epoch from which it learns.
#[derive(Clone, Debug)]
pub(crate) struct CostModel {
    /// Nanoseconds a command.
    per_command: i64,
    /// Nanoseconds a unit.
    per_unit: i64,
    epoch: Option<Epoch>,
    /// Something was learned.
    learned: bool,
}

/// Completions since `begin`, during which the device had enough to do.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    begin: u64,
    /// When the last of them came.
    last: u64,
    done: Load,
    /// The sum of their latencies, nanoseconds.
    inside: u64,
}

impl CostModel {
    /// A model that has learned nothing.
    pub(crate) const fn new() -> Self {
        Self { per_command: FIRST_GUESS, per_unit: FIRST_GUESS, epoch: None, learned: false }
    }

    /// The cost of `load`, nanoseconds.
    #[inline]
    pub(crate) fn of(&self, load: Load) -> u64 {
        let commands = self.per_command.unsigned_abs().saturating_mul(load.commands);
        let bytes = (self.per_unit.unsigned_abs() >> FRACTION_OF_BYTES).saturating_mul(load.bytes) >> BYTES_BACK;
        commands.saturating_add(bytes) >> FRACTION
    }

    /// Whether an epoch was learned.
    #[inline]
    pub(crate) const fn is_learned(&self) -> bool {
        self.learned
    }

    /// The charge for `load` in its line, nanoseconds.
    #[inline]
    pub(crate) fn charge(&self, load: Load) -> u64 {
        if self.learned { self.of(load) } else { load.parts().saturating_mul(FIRST_CHARGE_NS) }
    }

    /// The longest command, bytes, that costs `ns` at most; 0 if none does.
    #[inline]
    pub(crate) fn bytes_within(&self, ns: u64) -> u64 {
        let rest = (ns.min(MAX_EPOCH_NS) << FRACTION).saturating_sub(self.per_command.unsigned_abs());
        let units = rest.checked_div(self.per_unit.unsigned_abs()).unwrap_or(u64::MAX >> UNIT_SHIFT);
        units.min(u64::MAX >> UNIT_SHIFT) << UNIT_SHIFT
    }

    /// A command completed after `latency` in the device, which had enough to do meanwhile.
    #[inline]
    pub(crate) fn completed_under_load(&mut self, commands: &Commands, latency: u64, now: u64) {
        let Some(epoch) = &mut self.epoch else {
            // The next command to complete takes the time from here on.
            self.epoch = Some(Epoch { begin: now, last: now, done: Load::default(), inside: 0 });
            return;
        };
        // Completions that are seen at once belong together, so an epoch ends before a later one and not among them.
        let length = epoch.last.saturating_sub(epoch.begin);
        let enough = epoch.done.commands >= EPOCH_COMMANDS || length >= EPOCH_NS;
        let ended = (now > epoch.last && length > 0 && enough).then_some((epoch.done, length.min(epoch.inside)));
        if ended.is_some() {
            (epoch.begin, epoch.done, epoch.inside) = (epoch.last, Load::default(), 0);
        }
        epoch.done = epoch.done.plus(Load::of(commands));
        epoch.inside = epoch.inside.saturating_add(latency.saturating_mul(u64::from(commands.count)));
        epoch.last = now;
        if let Some((done, length)) = ended {
            self.learn(done, length.min(MAX_EPOCH_NS));
        }
    }

    /// A command completed, and the device may have been idle: drops the epoch.
    #[inline]
    pub(crate) const fn completed_idle(&mut self) {
        self.epoch = None;
    }

    /// Corrects the model: `done` took `ns`.
    fn learn(&mut self, done: Load, ns: u64) {
        let commands = small(done.commands);
        let units = small(done.bytes.div_ceil(1 << UNIT_SHIFT));
        let took = small(ns) << FRACTION;
        if !self.learned {
            // The first epoch gives the speed of the device as a whole.
            self.learned = true;
            let each = took.checked_div(commands.saturating_add(units)).unwrap_or(0);
            (self.per_command, self.per_unit) = (part(each), part(each));
            return;
        }
        let expected = self.per_command.saturating_mul(commands).saturating_add(self.per_unit.saturating_mul(units));
        let error = took.saturating_sub(expected) >> GAIN_SHIFT;
        // A part at its least cannot shrink further: the other one takes the correction.
        let counts = |value: i64, x: i64| if error < 0 && value <= LEAST_PART { 0 } else { x };
        let (commands, units) = (counts(self.per_command, commands), counts(self.per_unit, units));
        let norm = commands.saturating_mul(commands).saturating_add(units.saturating_mul(units)).max(1);
        let step =
            |value: i64, x: i64| part(value.saturating_add(error.saturating_mul(x).checked_div(norm).unwrap_or(0)));
        (self.per_command, self.per_unit) = (step(self.per_command, commands), step(self.per_unit, units));
    }
}

/// The most that a part of the model may be: a second.
const MAX_PART: i64 = (MAX_EPOCH_NS << FRACTION) as i64;
/// The least that a part of the model may be: one nanosecond.
const LEAST_PART: i64 = 1 << FRACTION;

fn part(value: i64) -> i64 {
    value.clamp(LEAST_PART, MAX_PART)
}

/// `per_unit` over 4096 is the cost of a byte. The shift has two steps, so that neither precision nor range is lost.
const FRACTION_OF_BYTES: u32 = 4;
const BYTES_BACK: u32 = UNIT_SHIFT - FRACTION_OF_BYTES;

/// As a signed number. A value that does not fit is beyond anything measured, and becomes the greatest.
fn small(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Kind;
    use crate::share::SessionId;

    fn run(model: &mut CostModel, sizes: &[u32], commands: usize, cost: impl Fn(u32) -> u64) {
        let mut now = 0;
        model.completed_idle();
        for &bytes in sizes.iter().cycle().take(commands) {
            now += cost(bytes);
            model.completed_under_load(
                &Commands { session: SessionId(0), kind: Kind::Read, bytes, count: 1 },
                now,
                now,
            );
        }
    }

    fn cost(model: &CostModel, bytes: u64) -> u64 {
        model.of(Load { commands: 1, bytes })
    }

    fn near(value: u64, wanted: u64) -> bool {
        value.abs_diff(wanted) <= wanted / 10
    }

    #[test]
    fn a_load_of_one_size_teaches_what_that_size_costs() {
        for (bytes, ns) in [(4096, 2_000), (4096, 250_000), (131_072, 8_000_000), (0, 30_000)] {
            let mut model = CostModel::new();
            run(&mut model, &[bytes], 1000, |_| ns);
            assert!(near(cost(&model, u64::from(bytes)), ns), "{bytes}: {}", cost(&model, u64::from(bytes)));
        }
    }

    #[test]
    fn sizes_that_come_apart_separate_commands_from_bytes() {
        let mut model = CostModel::new();
        for _ in 0..40 {
            run(&mut model, &[4096], 200, |_| 250_000);
            run(&mut model, &[131_072], 200, |_| 250_000);
        }
        assert!(near(cost(&model, 4096), 250_000) && near(cost(&model, 131_072), 250_000));
        assert!(model.bytes_within(300_000) >= 131_072);
    }

    #[test]
    fn small_command_is_never_dearer_than_the_large_ones() {
        let mut model = CostModel::new();
        run(&mut model, &[131_072], 1000, |_| 8_000_000);
        assert!(cost(&model, 4096) < 1_000_000);
        assert_eq!(model.bytes_within(100_000), 0);
    }

    #[test]
    fn a_change_of_rate_is_followed() {
        let mut model = CostModel::new();
        for ns in [250_000, 62_500, 250_000, 1_000_000] {
            run(&mut model, &[4096], 400, |_| ns);
            assert!(near(cost(&model, 4096), ns), "{ns}: {}", cost(&model, 4096));
        }
    }

    #[test]
    fn idle_time_is_not_cost() {
        let mut model = CostModel::new();
        run(&mut model, &[4096], 1000, |_| 250_000);
        let before = cost(&model, 4096);
        for _ in 0..100 {
            // Each run begins idle: the first completion opens an epoch and gives no sample itself.
            run(&mut model, &[4096], 1, |_| 900_000_000);
        }
        assert_eq!(cost(&model, 4096), before);
    }
}
