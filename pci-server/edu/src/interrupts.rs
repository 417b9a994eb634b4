//! Waiting for interrupts, and counting them by mode.

use crate::failure::Failure;
use pci_api::{INTERRUPTS_INTX, INTERRUPTS_MSI};
use platform::{Badge, Event, Platform};

/// The bit of a badge for the function's interrupt.
pub(crate) const INTERRUPT: u64 = 1;
/// Ticks of the supervisor, 50 ms each, within which an interrupt must come.
const LIMIT_TICKS: u32 = 160;
/// Ticks without an interrupt after which none is pending.
const QUIET_TICKS: u32 = 3;

/// An interrupt mode of the function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// By its pin.
    Pin,
    /// By MSI.
    Message,
}

impl Mode {
    /// The mode's number in the PCI server's interface.
    pub(crate) const fn to_api(self) -> u16 {
        match self {
            Self::Pin => INTERRUPTS_INTX,
            Self::Message => INTERRUPTS_MSI,
        }
    }

    /// The mode's name, for people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pin => "INTx",
            Self::Message => "MSI",
        }
    }
}

/// Interrupts that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    pins: u64,
    messages: u64,
}

impl Counts {
    /// These counts for a report.
    pub(crate) const fn report(self) -> report::Interrupts {
        report::Interrupts { msix: 0, msi: self.messages, intx: self.pins }
    }

    /// Waits for an interrupt. `when` names the step before it in an error.
    ///
    /// # Errors
    /// [`Failure::NoInterrupt`] when none comes within the limit.
    pub(crate) async fn interrupt<P: Platform>(
        &mut self,
        platform: &P,
        mode: Mode,
        when: &'static str,
    ) -> Result<(), Failure> {
        if !next(platform, LIMIT_TICKS).await {
            return Err(Failure::NoInterrupt(mode, when));
        }
        let count = match mode {
            Mode::Pin => &mut self.pins,
            Mode::Message => &mut self.messages,
        };
        *count = count.saturating_add(1);
        Ok(())
    }
}

/// Waits for as long as a pending interrupt could take. `when` names the step before it in an error.
///
/// # Errors
/// [`Failure::Unexpected`] for an interrupt.
pub(crate) async fn no_interrupt<P: Platform>(platform: &P, mode: Mode, when: &'static str) -> Result<(), Failure> {
    no_interrupt_within(platform, QUIET_TICKS, mode, when).await
}

/// Waits this many ticks. `when` names the step before it in an error.
pub(crate) async fn no_interrupt_within<P: Platform>(
    platform: &P,
    ticks: u32,
    mode: Mode,
    when: &'static str,
) -> Result<(), Failure> {
    if next(platform, ticks).await { Err(Failure::Unexpected(mode, when)) } else { Ok(()) }
}

/// Whether an interrupt has come without a wait for it.
pub(crate) fn is_pending<P: Platform>(platform: &P) -> bool {
    let mut pending = false;
    while let Some(event) = platform.poll_event() {
        pending |= matches!(event, Event::Signal(badge) if badge.has(INTERRUPT));
    }
    pending
}

/// Waits for an interrupt, at most for this many ticks; returns whether it came.
async fn next<P: Platform>(platform: &P, ticks: u32) -> bool {
    let mut left = ticks;
    while left > 0 {
        // The driver has no callers, and no other senders of signals.
        let Event::Signal(badge) = platform.next_event().await else { continue };
        if badge.has(INTERRUPT) {
            return true;
        }
        if badge.has(Badge::TICK) {
            left = left.saturating_sub(1);
        }
    }
    false
}
