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
mod attacker;
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
use attacker::Attacker;
use blk_client::Program;
use drive::Drive;
pub(crate) use last::reports_end_itself;
use nvme_driver::{DeviceFault, Stuck};
use platform::{Abuse, Environment, Platform};
use workload::{Hostile, attacks};

/// Claims of the function while it is reset from elsewhere each time.
const CLAIMS: u32 = 16;

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
        self.verdicts.begin(&attacks::CPTRS);
        capabilities::empty_cptrs(&mut self.verdicts, self.platform.kernel(), self.environment);
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
}
