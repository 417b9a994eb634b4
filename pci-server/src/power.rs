//! Puts functions into D0 that something left in another power state, before anything else is done with them.
//!
//! In D3hot a function answers in configuration space alone, and a bridge forwards nothing (PCI Power Management 1.2, section
//! 5.4.1). On the way to D0 a function without No_Soft_Reset loses its registers, so those that were set before are restored: its
//! BARs, and a bridge's buses and windows. They are in the note meanwhile, for the next server. Neighbours: `server` repeats this
//! as long as it finds functions, because more of them appear behind a bridge that was woken. Left out: virtual functions, which
//! are in D0 after their enable (PCIe 9.6), and devices in slots, which get power when they arrive.

use crate::config_space::ConfigSpace;
use crate::enumerate::is_machines;
use crate::resources::Resources;
use crate::sizing::{NOTED_BRIDGE, Note};
use pci_spec::Bdf;
use pci_spec::capability::{self, id};
use pci_spec::header::{BARS_TYPE_0, DEVICES, HeaderType, Layout, offset};
use pci_spec::power::{CONTROL, Control, D0, RECOVERY_MS};
use platform::log::{info, warn};
use platform::{Memory, Mmio, OutOfBounds, Platform};
use virtio_drivers::transport::pci::bus::Command;

const MS_PER_SECOND: u64 = 1000;

/// Puts all functions on the numbered buses into D0, one after another. Returns whether any was not. One that stays in its state
/// counts as none, and is found unusable later.
///
/// Yields instead of waiting for events, because no request may be taken before the walk.
///
/// # Errors
///
/// [`OutOfBounds`] for a page that cannot hold the note.
pub(crate) async fn wake_all<P: Platform>(
    resources: &mut Resources<P>,
    note: &Note<impl Memory>,
) -> Result<bool, OutOfBounds> {
    let mut has_woken = false;
    for bus in (0..resources.config.buses()).map_while(|bus| u8::try_from(bus).ok()) {
        for bdf in resources.config.functions_on(bus, 0..DEVICES) {
            if is_machines(&resources.config, bdf) {
                continue;
            }
            let Some((register, control)) = asleep(&resources.config, bdf) else { continue };
            prepare(&mut resources.config, note, bdf)?;
            let awake = control.with_state(D0).with_event_enable(false);
            // Reading back would be an access too early.
            resources.config.write(bdf, register, awake.into_bits().into());
            wait(&resources.platform, RECOVERY_MS).await;
            note.put_back(&mut resources.config)?;
            let (is_awake, state) = (asleep(&resources.config, bdf).is_none(), control.state());
            let (bus, device, function) = (bdf.bus(), bdf.device(), bdf.function());
            if is_awake {
                info!("{:x}:{:x}.{} was in power state D{}", bus, device, function, state);
            } else {
                warn!("{:x}:{:x}.{} stays in power state D{}", bus, device, function, state);
            }
            has_woken |= is_awake;
        }
    }
    Ok(has_woken)
}

/// PMCSR and its register, of a function that is in another state than D0.
fn asleep<M: Mmio>(config: &ConfigSpace<M>, bdf: Bdf) -> Option<(u8, Control)> {
    let read = |register: u8| config.read(bdf, register);
    let found = capability::find(&read, id::POWER_MANAGEMENT).ok().flatten()?;
    let register = found.offset.checked_add(CONTROL)?;
    let [low, high, ..] = found.read32(&read, CONTROL)?.to_le_bytes();
    let control = Control::from_bits(u16::from_le_bytes([low, high]));
    (control.state() != D0).then_some((register, control))
}

/// Notes the registers that the function may lose. An endpoint is not bus master any more afterwards.
fn prepare<M: Mmio>(config: &mut ConfigSpace<M>, note: &Note<impl Memory>, bdf: Bdf) -> Result<(), OutOfBounds> {
    let layout = HeaderType::from_dword(config.read(bdf, offset::HEADER_TYPE)).layout();
    if layout == Layout::Bridge {
        return note.take(config, bdf, offset::BAR0.into(), NOTED_BRIDGE);
    }
    config.change_command(bdf, Command::INTERRUPT_DISABLE, Command::BUS_MASTER);
    note.take(config, bdf, offset::BAR0.into(), BARS_TYPE_0)
}

/// Waits `ms` milliseconds, without taking events.
pub(crate) async fn wait<P: Platform>(platform: &P, ms: u64) {
    let end = in_ms(platform, ms);
    while platform.ticks() < end {
        platform.yield_now().await;
    }
}

/// Returns the time in `ms` milliseconds, in ticks.
pub(crate) fn in_ms<P: Platform>(platform: &P, ms: u64) -> u64 {
    let ticks = platform.ticks_per_second().saturating_mul(ms).div_ceil(MS_PER_SECOND);
    platform.ticks().saturating_add(ticks)
}
