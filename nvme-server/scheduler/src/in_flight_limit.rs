//! Bounds how much the device holds at once: enough to keep it busy, and not more.
//!
//! A device that holds everything serves in its own order, so the scheduler's order has no effect; one that holds too
//! little is idle in between. The limit is the depth of SFQ(D) (Jin, Chase, Kaur, SIGMETRICS 2004) and K2 (Miemietz
//! and others, RTSS 2019), counted in the device's time and not in commands, so that large commands use it up as they
//! fill the device.

use crate::cost::CostModel;
use crate::flow_table::Load;
use crate::policy::{Commands, Quantum};
use crate::share::MIN_PIECE;

/// The least limit: work that the device holds before a session has to wait, nanoseconds.
const LEAST_NS: u64 = 100_000;
/// The greatest limit, nanoseconds.
const MOST_NS: u64 = 64_000_000;
/// Commands that are always admitted: fewer would leave a device idle between two of them.
const LEAST_COMMANDS: u64 = 2;
/// The limit of an unknown device, in parts: enough commands for an epoch of the cost model, and two large ones.
const UNKNOWN_PARTS: u64 = 64;
/// Commands in the device from which on it counts as busy even if no session has to wait.
const BUSY_COMMANDS: u64 = 8;

/// Nanoseconds between two probes for the least latency, if a session has to wait.
const PROBE_EVERY_NS: u64 = 256_000_000;
/// The longest probe, nanoseconds, beyond the time for the commands that the device holds.
const PROBE_NS: u64 = 10_000_000;

/// The in-flight limit, with the cost model that it is counted in.
#[derive(Clone, Debug)]
pub(crate) struct InFlightLimit {
    /// The cost model.
    pub cost: CostModel,
    /// The least latency seen since the last probe and in the period before it, nanoseconds: the time of a command in a
    /// device that does nothing else.
    least_latency: [u64; 2],
    probe: Probe,
    /// Whether a session had to wait since the last command was submitted.
    full: bool,
}

/// The state of the probe for the least latency.
///
/// A device that always has enough to do never shows the latency of a command alone: large commands that were there first
/// would keep the limit high for ever. So now and then it runs empty, and one small command goes alone, as BBR does to
/// measure its least round trip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Probe {
    /// The probe begins when a session has to wait after this time.
    From(u64),
    /// Nothing is submitted until the device is empty; the probe is abandoned at `end`.
    Empties { end: u64 },
    /// The command that was submitted at `at` is alone.
    Alone { at: u64, end: u64 },
}

impl InFlightLimit {
    pub(crate) const fn new() -> Self {
        Self { cost: CostModel::new(), least_latency: [MOST_NS; 2], probe: Probe::From(0), full: false }
    }

    /// The quantum that may go now; `None` if the device, which holds `held` in all, has enough. Of `held` only `ahead` delays
    /// the commands. Where `ahead` is less than `held`, they do not wait for a probe either.
    #[inline]
    pub(crate) fn admits(&mut self, ahead: Load, held: Load, now: u64) -> Option<Quantum> {
        let waits_for_probe = match self.probe {
            Probe::From(_) => false,
            Probe::Empties { end } | Probe::Alone { end, .. } => now < end && ahead == held,
        };
        let admits = if waits_for_probe {
            (held.commands == 0).then_some(Quantum { bytes: MIN_PIECE, ..Quantum::ONE })
        } else {
            self.room(ahead).map(|commands| Quantum { commands, ..Quantum::ALL })
        };
        if admits.is_none() {
            self.full = true;
            if let Probe::From(from) = self.probe
                && now >= from
            {
                let end = now.saturating_add(self.cost.of(held).saturating_mul(2)).saturating_add(PROBE_NS);
                self.probe = Probe::Empties { end };
            }
        }
        admits
    }

    /// Commands of the smallest piece that reach the limit together with `held`, if it is not reached.
    #[inline]
    fn room(&self, held: Load) -> Option<u16> {
        let piece = Load { commands: 1, bytes: u64::from(MIN_PIECE) };
        let (left, each) = if self.cost.is_learned() {
            (self.limit_ns().saturating_sub(self.cost.of(held)), self.cost.of(piece))
        } else {
            (UNKNOWN_PARTS.saturating_sub(held.parts()), piece.parts())
        };
        let commands = left.checked_div(each).unwrap_or(u64::MAX).max(1);
        (left > 0 || held.commands < LEAST_COMMANDS).then_some(u16::try_from(commands).unwrap_or(u16::MAX))
    }

    /// The limit, nanoseconds: four times the work that the device serves during the latency of one command (the
    /// bandwidth-delay product, as in BBR). The factor keeps it busy while completions are on their way and are taken in
    /// batches.
    #[inline]
    fn limit_ns(&self) -> u64 {
        let [recent, before] = self.least_latency;
        recent.min(before).saturating_mul(4).clamp(LEAST_NS, MOST_NS)
    }

    /// A command was submitted, and the device holds `held` now.
    #[inline]
    pub(crate) const fn submitted(&mut self, held: Load, now: u64) {
        self.full = false;
        if let Probe::Empties { end } = self.probe
            && held.commands == 1
        {
            self.probe = Probe::Alone { at: now, end };
        }
    }

    /// A command that was submitted at `submitted_at` completed and left the device with `held`.
    #[inline]
    pub(crate) fn completed(&mut self, commands: &Commands, held: Load, submitted_at: u64, now: u64) {
        let [recent, before] = &mut self.least_latency;
        let latency = now.saturating_sub(submitted_at);
        if let Probe::Empties { end } | Probe::Alone { end, .. } = self.probe {
            let alone = matches!(self.probe, Probe::Alone { at, .. } if at == submitted_at);
            if alone || now >= end {
                (*recent, *before) = (MOST_NS, *recent);
                self.probe = Probe::From(now.saturating_add(PROBE_EVERY_NS));
            }
            *recent = (*recent).min(latency);
            return self.cost.completed_idle();
        }
        *recent = (*recent).min(latency);
        if self.full || held.commands >= BUSY_COMMANDS {
            self.cost.completed_under_load(commands, latency, now);
        } else {
            self.cost.completed_idle();
        }
    }

    /// The device was reset: it holds nothing any more, and may behave differently afterwards.
    pub(crate) const fn reset(&mut self) {
        (self.full, self.least_latency, self.probe) = (false, [MOST_NS; 2], Probe::From(0));
        self.cost.completed_idle();
    }
}
