//! An enumerator as an operating system has one: it believes the registers, and knows nothing of the model.

use super::system::{System, bdf};
use pci_spec::Bdf;

/// A function that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Seen {
    pub(super) bdf: Bdf,
    /// Vendor and device id.
    pub(super) id: u32,
    /// Address and size of each memory BAR.
    pub(super) bars: Vec<(u64, u64)>,
    /// Ids of its capabilities, in order.
    pub(super) capabilities: Vec<u8>,
    /// The bus below a bridge.
    pub(super) secondary: Option<u8>,
}

/// Returns all functions, a bridge before what is below it. Decoding is off while BARs are sized, and as before
/// afterwards.
pub(super) fn walk(system: &mut System) -> Vec<Seen> {
    let mut seen = Vec::new();
    walk_bus(system, 0, &mut seen);
    seen
}

fn walk_bus(system: &mut System, bus: u8, seen: &mut Vec<Seen>) {
    for device in 0..32 {
        for function in 0..8 {
            let at = bdf(bus, device, function);
            if system.read(at, 0) & 0xffff == 0xffff {
                continue;
            }
            let found = look(system, at);
            let secondary = found.secondary;
            seen.push(found);
            // A bridge without a bus number leads nowhere.
            if let Some(secondary) = secondary.filter(|secondary| *secondary > bus) {
                walk_bus(system, secondary, seen);
            }
            if function == 0 && system.read(at, 0x0c) & 1 << 23 == 0 {
                break;
            }
        }
    }
}

fn look(system: &mut System, at: Bdf) -> Seen {
    let is_bridge = system.read(at, 0x0c) >> 16 & 0x7f == 1;
    let command = system.read(at, 0x04) & 0xffff;
    system.write16(at, 0x04, command as u16 & !0b11);
    let bars = size_bars(system, at, if is_bridge { 0x14 } else { 0x24 });
    system.write16(at, 0x04, command as u16);
    let secondary = is_bridge.then(|| (system.read(at, 0x18) >> 8) as u8);
    Seen { bdf: at, id: system.read(at, 0), bars, capabilities: capabilities(system, at), secondary }
}

fn size_bars(system: &mut System, at: Bdf, last: u16) -> Vec<(u64, u64)> {
    let mut bars = Vec::new();
    let mut register = 0x10;
    while register <= last {
        let low = system.read(at, register);
        let wide = low & 0b111 == 0b100;
        let address = u64::from(low & !0xf) | if wide { u64::from(system.read(at, register + 4)) << 32 } else { 0 };
        let mut mask = u64::from(stuck(system, at, register) & !0xf);
        mask |= if wide { u64::from(stuck(system, at, register + 4)) << 32 } else { 0xffff_ffff << 32 };
        if mask as u32 != 0 && low & 1 == 0 {
            bars.push((address, mask.wrapping_neg()));
        }
        register += if wide { 8 } else { 4 };
    }
    bars
}

/// Returns the value that a register reads after all ones were written, and restores the value before.
fn stuck(system: &mut System, at: Bdf, register: u16) -> u32 {
    let before = system.read(at, register);
    system.write(at, register, u32::MAX);
    let stuck = system.read(at, register);
    system.write(at, register, before);
    stuck
}

fn capabilities(system: &mut System, at: Bdf) -> Vec<u8> {
    let mut found = Vec::new();
    if system.read(at, 0x04) & 1 << 20 == 0 {
        return found;
    }
    let mut next = system.read(at, 0x34) & 0xff;
    while next != 0 {
        assert!(found.len() < 48 && next >= 0x40, "a list that cannot be");
        let header = system.read(at, next as u16);
        found.push(header as u8);
        next = header >> 8 & 0xff;
    }
    found
}
