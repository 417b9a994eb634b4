//! The attacks of a tenant that drives a virtual function: it writes commands, doorbells and addresses for DMA itself, and no
//! server checks them.
//!
//! Attacks by what they abuse: addresses (`dma`), registers and doorbells (`registers`), namespaces (`namespaces`),
//! administrative commands (`admin`), interrupts (`interrupts`), the PCI server (`pci`), the IOMMU server (`io_space`), resets
//! (`resets`), a revocation (`kept`), the time of both servers (`calls`), its own CNode (`cnode`). A verdict comes from the contents of memory and blocks where there are any: QEMU's
//! controller reports success for a transfer that the IOMMU blocked. After each group an honest read must bring what was
//! written. A function that was reset from elsewhere is claimed again, and the group is repeated.
//!
//! Left out: the verdict whether a neighbour was disturbed, which the neighbour gives; and messages that are exceptions or
//! resets of the processor, which no part of a machine without interrupt remapping refuses (`docs/limits.md`).

mod admin;
mod calls;
mod cnode;
mod content;
mod dma;
mod drive;
mod interrupts;
mod io_space;
mod kept;
mod last;
mod namespaces;
mod pci;
mod registers;
mod resets;

use crate::capabilities;
use crate::verdicts::Verdicts;
use blk_client::Program;
use core::fmt;
use drive::Drive;
pub(crate) use last::reports_end_itself;
use nvme_driver::{DeviceFault, Stuck};
use nvme_spec::Status;
use platform::{Abuse, Environment, Platform};
use workload::{Hostile, attacks};

/// Claims of the function while it is reset from elsewhere each time.
const CLAIMS: u32 = 16;

/// An attacker with a function.
pub(crate) struct Attacker<'a, P: Platform> {
    platform: &'a P,
    environment: &'a Environment,
    drive: Drive<'a, P>,
    verdicts: Verdicts<'a, P>,
    /// Whether the attacker detaches neighbours' namespaces.
    detaches: bool,
}

/// Runs all rounds of all attacks, and then the last one. Returns whether all were refused.
pub(crate) async fn run<P: Abuse>(
    platform: &P,
    environment: &Environment,
    program: &Program<P, Hostile>,
    verdicts: Verdicts<'_, P>,
) -> Result<bool, Stuck> {
    let hostile = &program.config;
    let drive = Drive::claim(platform, environment).await?;
    program.begin(platform).await;
    let mut attacker = Attacker { platform, environment, drive, verdicts, detaches: hostile.detaches };
    attacker.outlive(Attacker::honest).await?;
    let rounds = if hostile.last.is_alone() { 0 } else { hostile.rounds.max(1) };
    for _ in 0..rounds {
        attacker.round().await?;
        attacker.verdicts.next_round();
    }
    last::run(&mut attacker, hostile.last).await?;
    Ok(attacker.verdicts.all_refused())
}

impl<P: Platform> Attacker<'_, P> {
    async fn round(&mut self) -> Result<(), Stuck> {
        self.outlive(dma::run).await?;
        self.outlive(registers::run).await?;
        self.outlive(namespaces::run).await?;
        self.outlive(admin::run).await?;
        self.outlive(interrupts::run).await?;
        self.outlive(resets::run).await?;
        self.outlive(pci::run).await?;
        self.outlive(io_space::run).await?;
        self.verdicts.begin(&attacks::SLOTS);
        capabilities::empty_slots(&mut self.verdicts, self.platform.kernel(), self.environment);
        Ok(())
    }

    /// Runs `group` and an honest read after it. If the function was reset from elsewhere meanwhile, claims it again and
    /// repeats the group.
    async fn outlive(&mut self, group: impl AsyncFn(&mut Self) -> Result<(), Stuck>) -> Result<(), Stuck> {
        for _ in 0..CLAIMS {
            let outcome = match group(self).await {
                Ok(()) => self.honest().await,
                stuck => stuck,
            };
            match outcome {
                Err(Stuck::Device(fault)) if fault.shows_reset() || self.drive.was_reset() => {
                    self.drive.claim_again().await?;
                }
                outcome => return outcome,
            }
        }
        Err(Stuck::Device(DeviceFault::NotReady))
    }

    /// Checks that its own function works: what it writes to a block comes back.
    async fn honest(&mut self) -> Result<(), Stuck> {
        let spare = self.drive.spare();
        if self.drive.round_trip(spare).await? && self.drive.brought_all()? {
            return Ok(());
        }
        Err(Stuck::Control("its own function does not bring back what it wrote"))
    }

    fn report(&mut self, attack: &str, refused: bool, stopped_by: fmt::Arguments<'_>) {
        self.verdicts.report(attack, refused, stopped_by);
    }

    /// Reports an attack that `barrier` is to stop.
    fn report_barrier(&mut self, attack: &str, refused: bool, barrier: fmt::Arguments<'_>) {
        if refused {
            self.report(attack, true, barrier);
        } else {
            self.report(attack, false, format_args!("nothing"));
        }
    }

    /// Reports an attack of several commands, all of which must be refused: by the first refusal, or by the first that was not.
    fn report_all(&mut self, attack: &str, tally: Tally) {
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
struct Tally {
    tried: u32,
    /// The first refusal.
    refused: Option<Status>,
    /// The first target at which a command succeeded.
    done: Option<u32>,
}

impl Tally {
    /// Adds the outcome of a command to `target`.
    fn add(&mut self, target: u32, status: Status) {
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
