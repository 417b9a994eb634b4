//! An attacker with a function, and the reports of the attacks.

use super::drive::Drive;
use crate::verdicts::Verdicts;
use core::fmt;
use nvme_driver::Stuck;
use nvme_spec::Status;
use platform::{Environment, Platform};

/// An attacker with a function.
pub(super) struct Attacker<'a, P: Platform> {
    pub(super) platform: &'a P,
    pub(super) environment: &'a Environment,
    pub(super) drive: Drive<'a, P>,
    pub(super) verdicts: Verdicts<'a, P>,
    /// Whether the attacker detaches neighbours' namespaces.
    pub(super) detaches: bool,
}

impl<P: Platform> Attacker<'_, P> {
    /// Checks that its own function works: what it writes to a block comes back.
    pub(super) async fn honest(&mut self) -> Result<(), Stuck> {
        let spare = self.drive.spare();
        if self.drive.round_trip(spare).await? && self.drive.brought_all()? {
            return Ok(());
        }
        Err(Stuck::Control("its own function does not bring back what it wrote"))
    }

    pub(super) fn report(&mut self, attack: &str, refused: bool, stopped_by: fmt::Arguments<'_>) {
        self.verdicts.report(attack, refused, stopped_by);
    }

    /// Reports an attack that `barrier` is to stop.
    pub(super) fn report_barrier(&mut self, attack: &str, refused: bool, barrier: fmt::Arguments<'_>) {
        if refused {
            self.report(attack, true, barrier);
        } else {
            self.report(attack, false, format_args!("nothing"));
        }
    }

    /// Reports an attack of several commands, all of which must be refused: by the first refusal, or by the first that was not.
    pub(super) fn report_all(&mut self, attack: &str, tally: Tally) {
        match tally {
            Tally { done: Some(target), .. } => {
                self.report(attack, false, format_args!("nothing: {target} succeeded"));
            }
            Tally { refused: Some(status), tried, .. } => {
                self.report(attack, true, format_args!("the controller: {status}, {tried} times"));
            }
            Tally { .. } => self.report(attack, false, format_args!("nothing was tried")),
        }
    }
}

/// Outcomes of the commands of one attack.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Tally {
    tried: u32,
    /// The first refusal.
    refused: Option<Status>,
    /// The first target at which a command succeeded.
    done: Option<u32>,
}

impl Tally {
    /// Adds the outcome of a command to `target`.
    pub(super) fn add(&mut self, target: u32, status: Status) {
        self.tried = self.tried.saturating_add(1);
        if status.is_success() {
            self.done.get_or_insert(target);
        } else {
            self.refused.get_or_insert(status);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvme_spec::StatusCode;

    #[test]
    fn one_success_among_refusals_is_kept() {
        let mut tally = Tally::default();
        tally.add(1, StatusCode::InvalidOpcode.into());
        tally.add(2, Status::SUCCESS);
        tally.add(3, StatusCode::InvalidField.into());
        assert_eq!((tally.tried, tally.done), (3, Some(2)));
        assert_eq!(tally.refused, Some(StatusCode::InvalidOpcode.into()));
    }
}
