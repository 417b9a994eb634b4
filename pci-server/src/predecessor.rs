//! Puts in order what a dead server left in configuration space, before its successor walks the buses: BARs that were being
//! sized or lost by a reset, and virtual functions that were enabled.
//!
//! A kept page has a note of both (`sizing`). Virtual functions are disabled on every bus that has a number, before any bus
//! gets another one. Resets that were under way end before, and capabilities of the physical functions must not be read for a
//! second afterwards. The server sleeps meanwhile, and no driver of it lives. Left out: power states (`power`), and everything else,
//! which the walk silences.

use crate::config_space::ConfigSpace;
use crate::enumerate::is_machines;
use crate::power;
use crate::resources::{Resources, refused};
use crate::sizing::Note;
use crate::virtual_functions::disable;
use pci_api::Refusal;
use pci_spec::express::FLR_MS;
use pci_spec::header::DEVICES;
use pci_spec::power::RECOVERY_MS;
use pci_spec::sriov::DISABLE_MS;
use platform::log::warn;
use platform::{CPtr, Event, Kernel, Memory, Message, Mmio, OutOfBounds, Platform};

/// Puts in order what `note` names. Capabilities that arrive meanwhile are at `receive_cptr`, and are dropped.
///
/// # Errors
///
/// [`OutOfBounds`] for a page that cannot hold the note.
pub(crate) async fn tidy<P: Platform>(
    resources: &mut Resources<P>,
    note: &Note<impl Memory>,
    receive_cptr: CPtr,
) -> Result<(), OutOfBounds> {
    let is_marked = note.is_marked_enabled()?;
    if is_marked {
        // Only servers that enable virtual functions reset any function, and they mark it first.
        wait(resources, receive_cptr, FLR_MS).await;
    }
    if note.is_taken()? {
        // It may be on its way out of D3hot.
        power::wait(&resources.platform, RECOVERY_MS).await;
    }
    if let Some(bdf) = note.put_back(&mut resources.config)? {
        warn!("{:x}:{:x}.{} was being sized, reset or woken: put back", bdf.bus(), bdf.device(), bdf.function());
    }
    if is_marked {
        disable_all(&mut resources.config);
        wait(resources, receive_cptr, DISABLE_MS).await;
        // Not before: a server that is stopped while it waits leaves the wait to its successor.
        note.strike_enabled()?;
    }
    Ok(())
}

/// Disables the virtual functions of every function on the numbered buses.
pub(crate) fn disable_all<M: Mmio>(config: &mut ConfigSpace<M>) {
    for bus in (0..config.buses()).map_while(|bus| u8::try_from(bus).ok()) {
        for bdf in config.functions_on(bus, 0..DEVICES) {
            if !is_machines(config, bdf) {
                disable(config, bdf);
            }
        }
    }
}

/// Waits `ms` milliseconds. The supervisor's ticks wake the server.
async fn wait<P: Platform>(resources: &Resources<P>, receive_cptr: CPtr, ms: u64) {
    let platform = &resources.platform;
    let end = power::in_ms(platform, ms);
    while platform.ticks() < end {
        match platform.next_event().await {
            Event::Signal(_) => {}
            Event::Message(_, message) => {
                if message.cap_received {
                    let dropped = resources.kernel().cnode_delete(resources.absolute(receive_cptr));
                    // The log says so; the next capability does not arrive.
                    let _ = dropped.map_err(refused("deleting a received capability"));
                }
                resources.kernel().reply(&Message::new(Refusal::Busy as u32));
            }
        }
    }
}
