//! Resets of its own controller and function without end, with commands in flight. The neighbours' results show whether they
//! are disturbed.

use super::Stuck;
use super::attacker::Attacker;
use super::content::{Content, offset_of};
use super::drive::Drive;
use blk_api::names;
use nvme_spec::Cid;
use nvme_spec::nvm;
use nvme_spec::{DataPointer, Lba};
use platform::{Cap, Frame, Kernel, Platform, Rights};
use workload::attacks;

/// Resets of the controller, and of the function, in a row.
const CONTROLLER_RESETS: u32 = 16;
const FUNCTION_RESETS: u32 = 3;
/// Commands in flight at a reset.
const IN_FLIGHT: u16 = 6;
/// The page that they fill, and its content before.
pub(super) const TARGET_PAGE: u32 = 6;
const UNTOUCHED: Content = Content(0x0dd5_0000_0000_0000);

/// Runs all attacks of this module.
pub(super) async fn run<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    attacker.verdicts.begin(&attacks::RESETS);
    for _ in 0..CONTROLLER_RESETS {
        fill(attacker)?;
        attacker.drive.bring_up().await?;
    }
    attacker.honest().await?;
    let stopped_by = format_args!("its own controller alone was reset, {CONTROLLER_RESETS} times");
    attacker.report("reset its controller with commands in flight", true, stopped_by);
    let (mut arrived, mut mapped) = (false, false);
    for _ in 0..FUNCTION_RESETS {
        fill(attacker)?;
        attacker.drive.pci.release().await?;
        // From here on nothing of the function may reach memory.
        let offset = offset_of(TARGET_PAGE);
        UNTOUCHED.fill(&attacker.drive.memory, offset)?;
        mapped |= maps_without_claim(attacker)?;
        attacker.drive.tick().await;
        arrived |= !UNTOUCHED.fills(&attacker.drive.memory, offset)?;
        attacker.drive.claim_again().await?;
    }
    let stopped_by = format_args!("the PCI server: its own function alone was reset, {FUNCTION_RESETS} times");
    attacker.report_barrier("reset its function with commands in flight", !arrived, stopped_by);
    let stopped_by = format_args!("the PCI server: RELEASE ended it");
    attacker.report_barrier("map memory by the IOSpace of a released claim", !mapped, stopped_by);
    Ok(())
}

/// Submits reads that nobody waits for.
pub(super) fn fill<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let drive = &mut attacker.drive;
    let (nsid, data) = (drive.nsid, DataPointer::page(drive.page(TARGET_PAGE)?.bits()));
    let blocks = Drive::<P>::block(Lba(0))?;
    for number in 0..IN_FLIGHT {
        drive.io.pair.submit(&nvm::read(Cid(0x100 | number), nsid, blocks, data));
    }
    drive.io.pair.ring()?;
    Ok(())
}

/// Whether the IOSpace of the released claim still takes a frame.
fn maps_without_claim<P: Platform>(attacker: &Attacker<'_, P>) -> Result<bool, Stuck> {
    let (kernel, io_space) = (attacker.platform.kernel(), attacker.drive.io_space);
    let frame: Cap<Frame> =
        attacker.environment.cap_at(names::WINDOW, TARGET_PAGE).ok_or(Stuck::Missing("a page of its window"))?;
    kernel.frame_unmap(frame)?;
    Ok(kernel.frame_map_io(frame, io_space, Rights::READ_WRITE, attacker.drive.page(TARGET_PAGE)?).is_ok())
}

/// Submits as many reads as there is room for and waits for them.
pub(super) async fn flood<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    fill(attacker)?;
    let mut left = IN_FLIGHT;
    while left > 0 {
        if attacker.drive.io.pair.complete()?.is_some() {
            attacker.drive.io.pair.ring_head()?;
            left = left.saturating_sub(1);
        } else {
            attacker.drive.controller.check()?;
            attacker.platform.yield_now().await;
        }
    }
    Ok(())
}
