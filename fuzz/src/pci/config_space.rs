//! Configuration space: functions with any registers, of which any bits can be written, on any buses, and a driver that may
//! claim each of them.
//!
//! The law: the walk ends, and finds each function once. Every BAR then reads as before, and so do the bits that switch
//! decoding on. The driver can map whole pages of the claimed function's BARs inside the PCI windows. None of them is a page
//! that another function or the MSI-X structures touch. The sizes and places for comparison are computed here from the bits
//! themselves, in 128 bits. Registers of virtual functions have another machine, in `virtual_functions`.

use super::bus::Device;
use super::machine::Act;
use super::system::{DRIVER_VSPACE, System, WINDOW, config, driver};
use super::virtual_functions;
use crate::target::{Subject, Target};
use arbitrary::{Result, Unstructured};
use pci_api::{INTERRUPTS_MSIX, Match};
use pci_spec::Bdf;
use report::Report;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The target.
pub const TARGET: Target = Target { name: "config-space", law, seeds };

/// Functions of one input at most.
const FUNCTIONS: usize = 12;
const PAGE: u128 = 4096;
const DECODING: u32 = 3;
const MSIX: u32 = 0x11;
/// The base class of bridges.
const BRIDGE: u32 = 6;

/// A function as the input has it.
#[derive(Clone)]
struct Registers {
    space: [u32; 64],
    writable: [u32; 64],
}

fn law(input: &[u8], subject: Subject) {
    if let Some((&virtual_functions::FIRST_BYTE, rest)) = input.split_first() {
        return virtual_functions::registers(rest, subject);
    }
    let mut rest = Unstructured::new(input);
    let mut functions = BTreeMap::new();
    while functions.len() < FUNCTIONS && !rest.is_empty() {
        let Ok((bdf, registers)) = function(&mut rest) else { break };
        functions.insert(bdf, registers);
    }
    // Each is claimed on a machine of its own, where all functions are still unchanged.
    for bdf in functions.keys() {
        claim(&functions, *bdf, subject);
    }
}

fn claim(functions: &BTreeMap<Bdf, Registers>, claimed: Bdf, subject: Subject) {
    let devices = functions.iter().map(|(bdf, registers)| (*bdf, Device::new(registers.space, registers.writable)));
    let mut config = config();
    config.drivers = vec![driver("only", Match::Bdf(claimed.to_raw()), 1)];
    let mut system = System::with(devices.collect(), config);
    assert!(!system.ended, "the server ended");
    let found = found(&system);
    let of_found = |bdf: &Bdf| functions.get(bdf).map(|registers| (*bdf, registers));
    for (bdf, registers) in found.iter().filter_map(of_found) {
        assert_unchanged(&system, bdf, registers);
    }
    system.take_acts();
    if system.claim(1, claimed, INTERRUPTS_MSIX).is_err() {
        assert!(system.mapped(DRIVER_VSPACE).is_empty(), "pages of a claim that was refused");
        return;
    }
    let moved = |act: &Act| matches!(act, Act::Config(_, super::bus::Effect::MovedWhileDecoding));
    assert!(!system.take_acts().iter().any(moved), "a BAR was moved while it was decoded");
    let mut kept: Vec<Range<u128>> = functions[&claimed].msix_pages();
    if subject == Subject::Planted {
        // The planted defect: as if the first page of registers were one that the server keeps.
        kept.extend(functions[&claimed].memory().first().map(|bar| bar.start..bar.start + PAGE));
    }
    let others = found.iter().filter(|bdf| **bdf != claimed).filter_map(|bdf| functions.get(bdf));
    kept.extend(others.flat_map(Registers::memory));
    let own = functions[&claimed].memory();
    let windows =
        [(WINDOW, 26u8), (0xc400_0000, 26)].map(|(first, bits)| u128::from(first)..u128::from(first) + (1 << bits));
    for page in system.mapped(DRIVER_VSPACE).into_iter().map(u128::from) {
        let page = page..page + PAGE;
        assert!(
            own.iter().any(|bar| bar.start <= page.start && page.start < bar.end),
            "{page:x?} is in no BAR of {own:x?}"
        );
        assert!(
            windows.iter().any(|window| window.start <= page.start && page.end <= window.end),
            "{page:x?} is no device's"
        );
        assert!(
            !kept.iter().any(|kept| kept.start < page.end && page.start < kept.end),
            "{page:x?} of {claimed:?} is in {kept:x?}, with {found:x?}"
        );
    }
}

/// The functions that the walk has found.
fn found(system: &System) -> Vec<Bdf> {
    let state = system.machine.state();
    let of = |report: &Report| match report {
        Report::PciFunction(function) => Some(Bdf::from_raw(function.bdf)),
        _ => None,
    };
    let found: Vec<_> = state.reports.iter().filter_map(of).collect();
    let distinct: BTreeSet<_> = found.iter().map(|bdf| bdf.to_raw()).collect();
    assert_eq!(distinct.len(), found.len(), "a function was found twice: {found:?}");
    found
}

fn assert_unchanged(system: &System, bdf: Bdf, before: &Registers) {
    let device = system.device(bdf);
    assert_eq!(device.read(4) & DECODING, before.space[1] & DECODING, "{bdf:?} decodes otherwise than before");
    for register in (0x10..0x28u8).step_by(4) {
        let was = before.space[usize::from(register / 4)];
        assert_eq!(device.read(register), was, "register {register:#x} of {bdf:?} is not what it was");
    }
}

impl Registers {
    /// The ranges of its memory BARs. An endpoint has six BARs and a bridge two. The standard defines none for other
    /// headers, and host and ISA bridges decode for the machine itself. If a BAR's bits are no address and size, its range
    /// is unknown.
    fn memory(&self) -> Vec<Range<u128>> {
        self.bars().into_values().collect()
    }

    fn bars(&self) -> BTreeMap<usize, Range<u128>> {
        let count = match (self.space[3] >> 16 & 0x7f, self.space[2] >> 24) {
            (1, _) => 2,
            (0, class) if class != BRIDGE => 6,
            _ => 0,
        };
        let (mut bars, mut index) = (BTreeMap::new(), 0);
        while index < count {
            let (low, mask) = (self.space[4 + index], self.writable[4 + index]);
            let wide = low & 7 == 4 && index + 1 < count;
            let upper = |dwords: &[u32; 64]| if wide { u128::from(dwords[5 + index]) << 32 } else { 0 };
            // The value that reads back after ones were written, as the standard sizes a BAR.
            let sized =
                u128::from((low | mask) & !15) | upper(&std::array::from_fn(|n| self.space[n] | self.writable[n]));
            let address = u128::from(low & !15) | upper(&self.space);
            let (size, end) = (sized & sized.wrapping_neg(), if wide { 1 << 64 } else { 1u128 << 32 });
            if low & 1 == 0 && (low | mask) & 15 == low & 15 && sized != 0 && sized + size == end && address % size == 0
            {
                bars.insert(index, address..address + size);
            }
            index += if wide { 2 } else { 1 };
        }
        bars
    }

    /// The pages of its MSI-X table and its pending bits, where it has them.
    fn msix_pages(&self) -> Vec<Range<u128>> {
        let mut pages = Vec::new();
        let mut at = if self.space[1] >> 20 & 1 == 1 { (self.space[13] & 0xfc) as usize } else { 0 };
        for _ in 0..48 {
            let Some(head) = self.space.get(at / 4).filter(|_| at >= 0x40) else { break };
            if head & 0xff == MSIX {
                let vectors = u128::from(head >> 16 & 0x7ff) + 1;
                for (dword, bytes) in [(1, vectors * 16), (2, vectors.div_ceil(64) * 8)] {
                    let place = self.space.get(at / 4 + dword).copied().unwrap_or(0);
                    let Some(bar) = self.bars().remove(&((place & 7) as usize)) else { continue };
                    let first = bar.start + u128::from(place & !7);
                    pages.push(first / PAGE * PAGE..(first + bytes).next_multiple_of(PAGE));
                }
                break;
            }
            at = (head >> 8 & 0xfc) as usize;
        }
        pages
    }
}

/// A function: a sound one of some kind, with any dwords changed and any bits made writable.
fn function(input: &mut Unstructured<'_>) -> Result<(Bdf, Registers)> {
    let bus = input.int_in_range(0..=3)?;
    let (device, number) = (input.int_in_range(0..=5)?, input.int_in_range(0..=1)?);
    let mut registers = match input.int_in_range(0..=2u8)? {
        0 => nvme(u32::from(input.int_in_range(0..=3u8)?) * 0x4000 + WINDOW as u32),
        1 => bridge(bus, input.int_in_range(0..=3)?, input.int_in_range(0..=3)?),
        _ => Registers { space: [0; 64], writable: [0; 64] },
    };
    for _ in 0..input.int_in_range(0..=16)? {
        let dword = usize::from(input.int_in_range(0..=63u8)?);
        registers.space[dword] = input.arbitrary()?;
        registers.writable[dword] = input.arbitrary()?;
    }
    // Decoding can be switched off and on, as the standard has it: without that no BAR can be sized.
    registers.writable[1] |= 0x0407;
    let bdf = Bdf::new(bus, device, number).ok_or(arbitrary::Error::IncorrectFormat)?;
    Ok((bdf, registers))
}

/// As the server's own tests have it: a 64-bit BAR of 16 KiB, the MSI-X table in its third page, pending bits in the fourth.
fn nvme(address: u32) -> Registers {
    let mut registers = Registers { space: [0; 64], writable: [0; 64] };
    let space = &mut registers.space;
    (space[0], space[1], space[2]) = (0x0010_1b36, 1 << 20 | 6, 0x0108_0200);
    (space[4], space[13]) = (address | 4, 0x40);
    (space[16], space[17], space[18]) = (3 << 16 | MSIX, 0x2000, 0x3000);
    (registers.writable[4], registers.writable[5], registers.writable[16]) = (!0x3fff, u32::MAX, 0xc000_0000);
    registers
}

fn bridge(primary: u8, secondary: u8, subordinate: u8) -> Registers {
    let mut registers = Registers { space: [0; 64], writable: [0; 64] };
    let space = &mut registers.space;
    (space[0], space[2], space[3]) = (0x000c_1b36, 0x0604_0000, 1 << 16);
    space[6] = u32::from_le_bytes([primary, secondary, subordinate, 0]);
    (space[8], space[9]) = (0xc0f0_c000, 0x0000_fff0);
    registers.writable[6] = u32::MAX;
    registers
}

/// A controller on the root bus; one behind a bridge; two that overlap.
fn seeds() -> Vec<Vec<u8>> {
    let controller = |bus, device, place| [bus, device, 0, 0, place, 0];
    let bridge: &[u8] = &[0, 2, 0, 1, 1, 1, 0];
    let alone = controller(0, 1, 0);
    let behind = [bridge, &controller(1, 0, 1)].concat();
    let both = [controller(0, 1, 0), controller(0, 3, 0), controller(0, 4, 2)].concat();
    let mut seeds = virtual_functions::seeds_of_registers();
    seeds.extend([alone.to_vec(), behind, both]);
    seeds
}
