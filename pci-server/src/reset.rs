//! Function-level resets (FLR), and the time during which a function must not be accessed afterwards (PCIe 6.6.2).
//!
//! A reset clears most of the function's configuration space. Neighbours: `claim` resets a virtual function that a driver gives
//! back, `provision` a physical one before virtual functions are enabled. Left out: restoring registers, and waiting.

use crate::config_space::ConfigSpace;
use alloc::vec::Vec;
use pci_spec::Bdf;
use pci_spec::capability::{self, id};
use pci_spec::express::{DEVICE_CAPABILITIES, DEVICE_CONTROL_STATUS, DeviceCapabilities, DeviceControl, FLR_MS};
use platform::Mmio;

const NS_PER_MS: u64 = 1_000_000;

/// Functions under reset. Times are nanoseconds of one clock.
#[derive(Clone, Debug, Default)]
pub struct Resets {
    /// A function, and the time from which it may be accessed. Each function once.
    under_way: Vec<(Bdf, u64)>,
}

impl Resets {
    /// Begins a reset of the function at `bdf`, which is not bus master. `false` if it cannot be reset alone: then nothing was
    /// written.
    pub fn begin<M: Mmio>(&mut self, config: &mut ConfigSpace<M>, bdf: Bdf, now_ns: u64) -> bool {
        let Some(register) = control_register(config, bdf) else { return false };
        let [low, high, ..] = config.read(bdf, register).to_le_bytes();
        let control = DeviceControl::from_bits(u16::from_le_bytes([low, high])).with_initiate_flr(true);
        // Zeroes above leave the status bits, which clear where a one is written. Reading back would be an access too early.
        config.write(bdf, register, control.into_bits().into());
        self.under_way.retain(|(other, at_ns)| *other != bdf && *at_ns > now_ns);
        self.under_way.push((bdf, now_ns.saturating_add(FLR_MS.saturating_mul(NS_PER_MS))));
        true
    }

    /// The time from which the function at `bdf` may be accessed; 0 when it was not reset lately.
    #[must_use]
    pub fn ready_at_ns(&self, bdf: Bdf) -> u64 {
        self.under_way.iter().find(|(other, _)| *other == bdf).map_or(0, |(_, at_ns)| *at_ns)
    }
}

/// Whether the function at `bdf` can be reset alone.
pub(crate) fn is_possible<M: Mmio>(config: &ConfigSpace<M>, bdf: Bdf) -> bool {
    control_register(config, bdf).is_some()
}

/// Byte offset of Device Control, if a reset can be initiated there.
fn control_register<M: Mmio>(config: &ConfigSpace<M>, bdf: Bdf) -> Option<u8> {
    let read = |register: u8| config.read(bdf, register);
    let found = capability::find(&read, id::EXPRESS).ok().flatten()?;
    let capabilities = DeviceCapabilities::from_bits(found.read32(&read, DEVICE_CAPABILITIES)?);
    let register = found.offset.checked_add(DEVICE_CONTROL_STATUS)?;
    capabilities.flr().then_some(register)
}
