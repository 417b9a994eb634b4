//! Sanitize operations of the subsystem (section 8.15).
//!
//! A plain table. [`crate::admin`] has the command that begins an operation, and ends it. The data are gone at the beginning, and no
//! command reaches a namespace until the end. Resets and losses of power change nothing. Left out: operations that fail.

use nvme_spec::admin::{SanitizeAction, SanitizeDw10};
use nvme_spec::log::{SanitizeLog, SanitizeState, SanitizeStatus};
use zerocopy::FromZeros;

/// Passes that 0 stands for.
const MOST_PASSES: u8 = 16;
const NS_PER_SECOND: u64 = 1_000_000_000;
/// Denominator of the progress.
const WHOLE: u128 = 1 << 16;

/// The last operation, and what became of its result.
#[derive(Debug, Default)]
pub(crate) struct Sanitization {
    /// Whether there are such operations.
    is_offered: bool,
    /// How long an erase takes, and each pass of an overwrite, in nanoseconds.
    pass_ns: u64,
    last: Option<Operation>,
    /// Nothing was written since the last operation.
    is_erased: bool,
}

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Operation {
    how: SanitizeDw10,
    began_ns: u64,
    ends_ns: u64,
}

impl Sanitization {
    /// Creates the state before the first operation.
    pub(crate) const fn new(is_offered: bool, pass_ns: u64) -> Self {
        Self { is_offered, pass_ns, last: None, is_erased: false }
    }

    pub(crate) const fn is_offered(&self) -> bool {
        self.is_offered
    }

    /// Begins an operation. Returns the time of its end.
    pub(crate) fn begin(&mut self, how: SanitizeDw10, now_ns: u64) -> u64 {
        let is_overwrite = SanitizeAction::from_raw(how.action()) == Some(SanitizeAction::Overwrite);
        let passes = if is_overwrite { passes(how) } else { 1 };
        let ends_ns = now_ns.saturating_add(self.pass_ns.saturating_mul(passes.into()));
        self.last = Some(Operation { how, began_ns: now_ns, ends_ns });
        self.is_erased = true;
        ends_ns
    }

    pub(crate) fn is_running(&self, now_ns: u64) -> bool {
        self.last.is_some_and(|last| now_ns < last.ends_ns)
    }

    /// When the last operation began.
    pub(crate) fn began_ns(&self) -> Option<u64> {
        self.last.map(|last| last.began_ns)
    }

    /// Records that data were written.
    pub(crate) const fn was_written(&mut self) {
        self.is_erased = false;
    }

    /// The log page (section 5.14.1.16.2).
    pub(crate) fn log(&self, now_ns: u64) -> SanitizeLog {
        let mut log = SanitizeLog::new_zeroed();
        log.progress.set(SanitizeLog::NOT_RUNNING);
        let mut status = SanitizeStatus::new();
        if let Some(last) = self.last {
            log.cdw10.set(last.how.into_bits());
            let elapsed_ns = now_ns.saturating_sub(last.began_ns);
            status = status.with_passes(self.passes_done(last, elapsed_ns));
            if self.is_running(now_ns) {
                let whole_ns = last.ends_ns.saturating_sub(last.began_ns).max(1);
                let done = u128::from(elapsed_ns) * WHOLE / u128::from(whole_ns);
                log.progress.set(u16::try_from(done).unwrap_or(u16::MAX));
                status = status.with_state(SanitizeState::Running as u8);
            } else {
                status = status.with_state(SanitizeState::Succeeded as u8).with_erased(self.is_erased);
            }
        }
        log.status.set(status.into_bits());
        let erase = u32::try_from(self.pass_ns.div_ceil(NS_PER_SECOND)).unwrap_or(u32::MAX);
        let overwrite = erase.saturating_mul(MOST_PASSES.into());
        for (place, seconds) in [
            (&mut log.overwrite_seconds, overwrite),
            (&mut log.erase_seconds, erase),
            (&mut log.crypto_seconds, SanitizeLog::NO_ESTIMATE),
            (&mut log.overwrite_keeping_seconds, overwrite),
            (&mut log.erase_keeping_seconds, erase),
            (&mut log.crypto_keeping_seconds, SanitizeLog::NO_ESTIMATE),
        ] {
            place.set(seconds);
        }
        log
    }

    /// Passes of an overwrite that are complete; 0 for another operation.
    fn passes_done(&self, last: Operation, elapsed_ns: u64) -> u8 {
        if SanitizeAction::from_raw(last.how.action()) != Some(SanitizeAction::Overwrite) {
            return 0;
        }
        let done = elapsed_ns / self.pass_ns.max(1);
        u8::try_from(done).unwrap_or(u8::MAX).min(passes(last.how))
    }
}

fn passes(how: SanitizeDw10) -> u8 {
    if how.passes() == 0 { MOST_PASSES } else { how.passes() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overwrite_makes_progress_by_passes() {
        let mut state = Sanitization::new(true, 2 * NS_PER_SECOND);
        assert_eq!(state.log(0).status().state(), SanitizeState::Never as u8);
        let how = SanitizeDw10::new().with_action(SanitizeAction::Overwrite as u8).with_passes(2);
        assert_eq!(state.begin(how, NS_PER_SECOND), 5 * NS_PER_SECOND);
        let log = state.log(4 * NS_PER_SECOND);
        assert_eq!((log.progress.get(), log.status().passes(), log.status().erased()), (0xc000, 1, false));
        assert_eq!(log.status().state(), SanitizeState::Running as u8);
        assert!(state.is_running(5 * NS_PER_SECOND - 1) && !state.is_running(5 * NS_PER_SECOND));
        let log = state.log(5 * NS_PER_SECOND);
        assert_eq!((log.progress.get(), log.status().passes(), log.status().erased()), (u16::MAX, 2, true));
        assert_eq!((log.erase_seconds.get(), log.overwrite_seconds.get()), (2, 32));
        state.was_written();
        assert!(!state.log(6 * NS_PER_SECOND).status().erased());
        assert_eq!(state.begin(how.with_passes(0), 0), 32 * NS_PER_SECOND);
    }
}
