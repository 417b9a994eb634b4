//! Attacks that end the attacker, or its claim. As on rings, the end of the work is reported before a fault.

use super::attacker::Attacker;
use super::{Stuck, calls, cnode, kept, resets};
use pci_api::names::ARENA;
use platform::{Abuse, PAGE_SIZE, Vaddr};
use workload::{LastAttack, attacks};

/// An address that no component has mapped: below every program.
const UNMAPPED: Vaddr = Vaddr::new(0x1000);

/// Whether the attack reports the end of the work before it begins.
pub(crate) const fn reports_end_itself(last: LastAttack) -> bool {
    !matches!(last, LastAttack::Close | LastAttack::KeepFunction)
}

/// Runs the last attack.
pub(super) async fn run<P: Abuse>(attacker: &mut Attacker<'_, P>, last: LastAttack) -> Result<(), Stuck> {
    attacker.verdicts.last_round();
    match last {
        LastAttack::Close => {
            resets::fill(attacker)?;
            attacker.drive.pci.release().await?;
            attacker.verdicts.begin(&attacks::RELEASE);
            attacker.report("release its function with commands in flight", true, format_args!("the PCI server"));
        }
        LastAttack::UnmappedRead => poke(attacker, "read unmapped memory", UNMAPPED, None),
        LastAttack::ForeignRegisters => {
            let arena = attacker.environment.region(ARENA).ok_or(Stuck::Missing("an arena"))?;
            let offset = arena.len.saturating_sub(PAGE_SIZE as u64);
            let place = arena.vaddr.checked_add(offset).ok_or(Stuck::Missing("an arena"))?;
            poke(attacker, "write registers that are not its own", place, Some(1));
        }
        LastAttack::Silence => {
            resets::fill(attacker)?;
            attacker.verdicts.report_end();
            loop {
                attacker.platform.next_event().await;
            }
        }
        LastAttack::Panic => {
            attacker.verdicts.report_end();
            crate::last::end_by_panic();
        }
        LastAttack::Flood => {
            attacker.verdicts.report_end();
            loop {
                attacker.outlive(resets::flood).await?;
            }
        }
        LastAttack::KeepFunction => kept::run(attacker).await?,
        LastAttack::FloodServers => {
            attacker.verdicts.report_end();
            calls::flood(attacker).await?;
        }
        LastAttack::ClearCspace => {
            attacker.verdicts.report_end();
            cnode::clear(attacker)?;
            // Nothing can be reported any more: the supervisor's report of the fault is the verdict.
            let _ = attacker.platform.poke(UNMAPPED, None);
        }
        LastAttack::TailBeyondRing
        | LastAttack::TailBackwards
        | LastAttack::HeadBeyondRing
        | LastAttack::ReadOnlyWrite
        | LastAttack::ForbiddenInstructions => return Err(Stuck::Missing("rings, which its last attack needs")),
    }
    Ok(())
}

/// Accesses memory without asking the platform.
fn poke<P: Abuse>(attacker: &mut Attacker<'_, P>, name: &str, vaddr: Vaddr, write: Option<u8>) {
    attacker.verdicts.begin(&attacks::OWN_MEMORY);
    attacker.verdicts.report_end();
    match attacker.platform.poke(vaddr, write) {
        Err(_) => attacker.report(name, true, format_args!("the platform: it does not touch what was not given")),
        Ok(_) => attacker.report(name, false, format_args!("nothing: it came back from {:#x}", vaddr.bits())),
    }
}
