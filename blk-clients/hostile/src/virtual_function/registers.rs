//! Registers and doorbells: those of its own page that belong to no queue of its own, values that are impossible, and registers
//! that only controllers change.

use super::Stuck;
use super::attacker::Attacker;
use super::drive::{ENTRIES, IO_QUEUE};
use blk_api::names;
use nvme_spec::QueueId;
use nvme_spec::registers::{NSSR_RESET, Register};
use pci_api::names::ARENA;
use platform::{Mmio, PAGE_SIZE, Platform};
use workload::attacks;

/// The last queue whose doorbells are tried.
const LAST_QUEUE: u16 = 128;

/// Runs all attacks of this module.
pub(super) async fn run<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    attacker.verdicts.begin(&attacks::REGISTERS);
    other_doorbells(attacker).await?;
    impossible_values(attacker).await?;
    constants(attacker).await?;
    subsystem(attacker).await?;
    beyond_its_registers(attacker);
    Ok(())
}

/// Rings doorbells of all queues that it does not have, on its own registers' pages. A neighbour's queue of that number is rung
/// on the neighbour's pages alone.
async fn other_doorbells<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let (layout, registers) = (attacker.drive.controller.cap().doorbells(), &attacker.drive.registers);
    let mut rung: u32 = 0;
    for queue in (IO_QUEUE.0.saturating_add(1)..=LAST_QUEUE).map(QueueId) {
        for offset in [layout.sq_tail(queue), layout.cq_head(queue)].into_iter().flatten() {
            if offset.saturating_add(4) <= registers.len() {
                registers.write32(offset, 1)?;
                rung = rung.saturating_add(1);
            }
        }
    }
    attacker.honest().await?;
    let stopped_by = format_args!("its function's own page: no queue has any of {rung}");
    attacker.report("ring doorbells of queues that it does not have", rung > 0, stopped_by);
    Ok(())
}

async fn impossible_values<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let (layout, registers) = (attacker.drive.controller.cap().doorbells(), &attacker.drive.registers);
    for queue in [QueueId::ADMIN, IO_QUEUE] {
        for offset in [layout.sq_tail(queue), layout.cq_head(queue)].into_iter().flatten() {
            for value in [u32::from(ENTRIES), 0xffff, u32::MAX] {
                registers.write32(offset, value)?;
            }
        }
    }
    attacker.honest().await?;
    attacker.report("ring its own doorbells with impossible values", true, format_args!("the controller: ignored"));
    Ok(())
}

async fn constants<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let registers = attacker.drive.registers.clone();
    let (cap, version) = (registers.read64(Register::Cap.offset())?, registers.read32(Register::Vs.offset())?);
    registers.write64(Register::Cap.offset(), u64::MAX >> 1)?;
    registers.write32(Register::Vs.offset(), 0x0009_0000)?;
    let same = registers.read64(Register::Cap.offset())? == cap && registers.read32(Register::Vs.offset())? == version;
    attacker.honest().await?;
    attacker.report_barrier("write the controller's constants", same, format_args!("the controller: they stay"));
    Ok(())
}

/// An NVM subsystem reset would reset every controller (base specification 1.4, section 7.3.1).
async fn subsystem<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    if attacker.drive.controller.cap().nssrs() {
        return Err(Stuck::Control("its controller can reset the whole subsystem, and so its neighbours'"));
    }
    attacker.drive.registers.write32(Register::Nssr.offset(), NSSR_RESET)?;
    attacker.honest().await?;
    attacker.report(
        "reset the whole subsystem",
        true,
        format_args!("the controller: a function's has no such register"),
    );
    Ok(())
}

/// Memory behind its window through a forged region, and registers outside of its arena.
fn beyond_its_registers<P: Platform>(attacker: &mut Attacker<'_, P>) {
    let (environment, platform) = (attacker.environment, attacker.platform);
    for (name, region) in [("registers behind its arena", ARENA), ("registers in its window", names::WINDOW)] {
        let Some(region) = environment.region(region) else { continue };
        let place = if region.name == ARENA { region.vaddr.checked_add(region.len) } else { Some(region.vaddr) };
        let refused = place.is_none_or(|place| platform.mmio(place, PAGE_SIZE).is_err());
        let stopped_by =
            if refused { "the seam in its own program (of the kernel: last = foreign-registers)" } else { "nothing" };
        attacker.report(name, refused, format_args!("{stopped_by}"));
    }
}
