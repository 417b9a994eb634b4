//! The verdicts: one report an attack, and whether all were refused.

use blk_client::Reporter;
use core::fmt;
use core::fmt::Write as _;
use platform::Platform;
use report::{Attack, Report, Text, clip};
use workload::attacks::Kind;

/// Formats an attack's name, or the barrier that stopped it.
pub(crate) fn sentence(words: fmt::Arguments<'_>) -> Text {
    let mut text = Text::new();
    // Text that does not fit is cut off.
    let _ = text.write_fmt(words);
    text
}

/// The verdicts of one attacker.
pub(crate) struct Verdicts<'a, P: Platform> {
    reporter: &'a Reporter<P>,
    kind: &'static str,
    is_first_round: bool,
    all_refused: bool,
}

impl<'a, P: Platform> Verdicts<'a, P> {
    pub(crate) const fn new(reporter: &'a Reporter<P>) -> Self {
        Self { reporter, kind: "", is_first_round: true, all_refused: true }
    }

    /// Whether nothing has succeeded so far.
    pub(crate) const fn all_refused(&self) -> bool {
        self.all_refused
    }

    /// Begins the attacks of a kind.
    pub(crate) const fn begin(&mut self, kind: &Kind) {
        self.kind = kind.name;
    }

    /// Begins a later round: from then on, only bad verdicts are reported.
    pub(crate) const fn next_round(&mut self) {
        self.is_first_round = false;
    }

    /// Begins the last attack, which runs for the first time.
    pub(crate) const fn last_round(&mut self) {
        self.is_first_round = true;
    }

    /// Reports the end of the work, before an attack after which no report is possible.
    pub(crate) fn report_end(&self) {
        self.reporter.done(self.all_refused);
    }

    /// Reports a verdict.
    pub(crate) fn report(&mut self, attack: &str, refused: bool, stopped_by: fmt::Arguments<'_>) {
        self.all_refused &= refused;
        if refused && !self.is_first_round {
            return;
        }
        let text = sentence(stopped_by);
        platform::log::info!("attack: {}: {}", attack, text.as_str());
        let (tenant, kind) = (self.reporter.tenant(), clip(self.kind));
        self.reporter.send(&Report::Attack(Attack { tenant, kind, attack: clip(attack), refused, stopped_by: text }));
    }
}
