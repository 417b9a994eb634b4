//! A function that is revoked while the attacker floods it: it goes on using what it had.

use super::attacker::Attacker;
use super::content::{Content, offset_of};
use super::resets::{TARGET_PAGE, fill, flood};
use super::{Stuck, pci};
use nvme_spec::registers::Arbitration;
use pci_api::{BAR_FRAME, CLAIM, Claim, INTERRUPTS_MSIX, IO_SPACE, Index, RESTORE, Refusal, START};
use platform::{Message, Platform};
use workload::attacks;

/// Times that it is tried, a tick apart.
const ATTEMPTS: u32 = 4;
/// The content of the page that its commands fill, after the revocation.
const UNTOUCHED: Content = Content(0x4e9d_0000_0000_0000);

/// Floods the function until it is revoked, with commands in flight, and then goes on.
pub(super) async fn run<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    attacker.verdicts.begin(&attacks::KEPT);
    while !attacker.drive.pci.is_withdrawn().await {
        match flood(attacker).await {
            // It is offline or under reset, and withdrawn soon.
            Err(Stuck::Device(_)) => attacker.drive.tick().await,
            outcome => outcome?,
        }
    }
    UNTOUCHED.fill(&attacker.drive.memory, offset_of(TARGET_PAGE))?;
    let claim = Claim { bdf: attacker.drive.bdf, interrupts: INTERRUPTS_MSIX, class_code: 0 };
    let calls = [
        Message::with(CLAIM, &claim),
        Message::new(START),
        Message::new(IO_SPACE),
        Message::with(BAR_FRAME, &Index(0)),
        Message::with(RESTORE, &Index(0)),
    ];
    let (mut granted, mut works) = (None, false);
    for _ in 0..ATTEMPTS {
        for message in &calls {
            if pci::call(attacker, message).await?.is_ok() {
                granted = Some(message.label);
            }
        }
        works |= drives_on(attacker)?;
        attacker.drive.tick().await;
    }
    works |= attacker.drive.io.pair.has_completion() || attacker.drive.controller.check().is_ok();
    let arrived = !UNTOUCHED.fills(&attacker.drive.memory, offset_of(TARGET_PAGE))?;
    let name = "use a function that was revoked";
    match granted {
        Some(label) => attacker.report(name, false, format_args!("nothing: call {label} was granted")),
        None if arrived => attacker.report(name, false, format_args!("nothing: a command wrote its memory")),
        None if works => attacker.report(name, false, format_args!("nothing: its controller works")),
        None => attacker.report(name, true, format_args!("the PCI server: {}", Refusal::Withdrawn)),
    }
    Ok(())
}

/// Enables the controller and submits commands, all without waiting. Returns whether it is ready.
fn drives_on<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<bool, Stuck> {
    let drive = &mut attacker.drive;
    drive.admin.pair.reset()?;
    drive.io.pair.reset()?;
    let (sq, cq) = (&drive.admin.pair.sq, &drive.admin.pair.cq);
    // Its refusal is what is expected.
    let enabled = drive.controller.enable(sq, cq, super::drive::ENTRIES, Arbitration::RoundRobin);
    fill(attacker)?;
    Ok(enabled.is_ok() && attacker.drive.controller.check().is_ok())
}
