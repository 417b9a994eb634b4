//! Firmware Image Download and Firmware Commit (sections 5.12, 5.11 and 8.1), and the log page of the slots.
//!
//! An image runs from the next reset of the primary controller on, or at once. In the second case the controller announces it, and
//! pauses. Left out: boot partitions, images that need a reset of another kind, pauses of secondary controllers.

use nvme_spec::admin::{CommitAction, CommitDw10, FirmwarePiece};
use nvme_spec::event::AsyncEvent;
use nvme_spec::identify::Frmw;
use nvme_spec::log::{ActiveFirmware, FirmwareSlots};
use nvme_spec::{Sqe, Status, StatusCode};
use zerocopy::FromZeros;

use super::commands::bad_field;
use super::config::AdminConfig;
use crate::command::{Command, Outcome, refused};
use crate::controller::Controller;
use crate::firmware::{self, Firmware, MOST_BYTES, UNIT_BYTES};
use crate::host::Host;

/// The slot whose image stays.
const READ_ONLY_SLOT: u8 = 1;

/// FRMW. The first slot is read-only.
pub(super) const fn attributes(config: &AdminConfig) -> Frmw {
    let slots = Frmw::new().with_first_read_only(true).with_slots(config.slots());
    slots.with_activate_without_reset(config.commands.firmware)
}

/// Executes Firmware Image Download. A piece that does not keep to FWUG, or that is beyond the largest image, is refused.
pub(super) fn download(controller: &mut Controller, command: &Command, host: &mut dyn Host) -> Result<Outcome, Status> {
    let sqe = &command.sqe;
    let piece = FirmwarePiece::from_sqe(sqe);
    let (offset, bytes) = (piece.offset(), piece.bytes());
    if controller.exceeds_transfer_limit(bytes) {
        return Err(bad_field(controller, sqe, 10));
    }
    let is_odd = !offset.is_multiple_of(UNIT_BYTES) || !bytes.is_multiple_of(UNIT_BYTES);
    if is_odd || offset.saturating_add(bytes) > MOST_BYTES {
        return Err(refused(StatusCode::InvalidField));
    }
    controller.admin.download.check(offset, bytes).map_err(refused)?;
    let mut data = vec![0; bytes as usize];
    controller.data_from_host(command, &mut data, host)?;
    controller.admin.download.add(offset, data);
    Ok(Outcome::SUCCESS)
}

/// Executes Firmware Commit.
pub(super) fn commit(controller: &mut Controller, sqe: &Sqe) -> Result<Outcome, Status> {
    let dw10 = CommitDw10::from_bits(sqe.cdw10);
    // Of actions about boot partitions too, which FRMW does not promise.
    let action = CommitAction::from_raw(dw10.action()).filter(|_| !dw10.boot_partition());
    let action = action.ok_or(refused(StatusCode::InvalidField))?;
    let slot = place(controller, action, dw10.slot()).map_err(refused)?;
    match action {
        CommitAction::Replace => {}
        CommitAction::ReplaceAndActivate | CommitAction::Activate => controller.subsystem.firmware.choose(slot),
        CommitAction::ActivateNow => return Ok(activate(controller, slot)),
    }
    Ok(Outcome::SUCCESS)
}

/// Puts the downloaded image into its slot, if the action is about one. Returns the slot, which holds an image.
fn place(controller: &mut Controller, action: CommitAction, slot: u8) -> Result<u8, StatusCode> {
    let firmware = &controller.subsystem.firmware;
    if slot > firmware.count() {
        return Err(StatusCode::InvalidFirmwareSlot);
    }
    let takes_image = match action {
        CommitAction::Replace | CommitAction::ReplaceAndActivate => true,
        CommitAction::ActivateNow => !controller.admin.download.is_empty(),
        CommitAction::Activate => false,
    };
    if !takes_image {
        return match slot {
            0 => Err(StatusCode::InvalidFirmwareSlot),
            _ => firmware.revision(slot).map(|_| slot).ok_or(StatusCode::InvalidFirmwareImage),
        };
    }
    let chosen = if slot == 0 { firmware.free_slot() } else { Some(slot) };
    let slot = chosen.filter(|&slot| slot != READ_ONLY_SLOT).ok_or(StatusCode::InvalidFirmwareSlot)?;
    let image = controller.admin.download.take();
    let revision = image.and_then(|image| firmware::revision_of(&image)).ok_or(StatusCode::InvalidFirmwareImage)?;
    controller.subsystem.firmware.replace(slot, revision);
    Ok(slot)
}

/// Runs the image of a slot now, after an announcement to those who want it.
fn activate(controller: &mut Controller, slot: u8) -> Outcome {
    controller.subsystem.firmware.activate(slot);
    if controller.admin.features.current().events.firmware_activation() {
        controller.admin.events.report(AsyncEvent::FIRMWARE_ACTIVATION);
    }
    let ns = controller.config.admin.activation_ns;
    controller.registers.pause(controller.clock_ns.saturating_add(ns));
    Outcome::After { ns, dw0: 0, status: Status::SUCCESS }
}

/// The log page (section 5.14.1.3).
pub(super) fn slots(firmware: &Firmware) -> FirmwareSlots {
    let mut log = FirmwareSlots::new_zeroed();
    log.afi = ActiveFirmware::new().with_active(firmware.active()).with_next(firmware.next()).into_bits();
    for (slot, place) in (1..).zip(&mut log.revisions) {
        *place = firmware.revision(slot).unwrap_or_default();
    }
    log
}
