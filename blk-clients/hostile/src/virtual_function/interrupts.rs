//! Interrupts that are not its own, written as messages by DMA.
//!
//! Neither kernel remaps interrupts, so nothing refuses such a message: it arrives like the device's that owns the interrupt. It
//! must do no more than wake the owner, who finds no completion. The neighbours' own results show that.

use super::Stuck;
use super::attacker::Attacker;
use super::content::Content;
use platform::{Iova, Kernel, Memory, PAGE_SIZE, Platform};
use workload::attacks;

/// Words of 32 bits in a page.
const WORDS: usize = PAGE_SIZE / 4;

/// Sends the message of every interrupt that a device can have, and the function's own among them.
pub(super) async fn run<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    attacker.verdicts.begin(&attacks::INTERRUPTS);
    let kernel = attacker.platform.kernel().clone();
    let mut sent: u32 = 0;
    for irq in 0..kernel.irq_count() {
        let (address, data) = kernel.msi_message(irq);
        send(attacker, Iova::new(address), data).await?;
        sent = sent.saturating_add(1);
    }
    attacker.drive.put(Content(0)).await?;
    attacker.honest().await?;
    let stopped_by = format_args!("nobody: harmless, its owner finds nothing to do ({sent} sent)");
    attacker.report("raise every interrupt by DMA", sent > 0, stopped_by);
    Ok(())
}

/// Has a block of which every word is the message's data read to the message's address: only one of them is that of the message
/// for one interrupt controller, and each of them for the other.
async fn send<P: Platform>(attacker: &mut Attacker<'_, P>, address: Iova, data: u32) -> Result<(), Stuck> {
    let drive = &mut attacker.drive;
    for word in 0..WORDS {
        drive.memory.write(word.wrapping_mul(4), &data)?;
    }
    drive.put_page().await?;
    // The controller may report a transfer that went wrong.
    drive.read_to(address).await.map(drop)
}
