//! Configuration space with arbitrary answers: assigning ends, nothing panics, and no function gets another's registers.

use crate::addresses::{PciWindows, page_range};
use crate::assign::assign;
use crate::config_space::ConfigSpace;
use crate::enumerate::{MAX_FUNCTIONS, enumerate};
use crate::sizing::Note;
use core::cell::RefCell;
use platform::fake::Ram;
use platform::{Mmio, OutOfBounds, PAGE_SIZE, Paddr};
use proptest::prelude::*;
use std::rc::Rc;
use std::vec::Vec;

const BUSES: u16 = 16;
/// More accesses than any walk over this many buses needs.
const MOST_ACCESSES: u64 = 2_000_000;

/// Marks a register as written.
const GIVEN: u64 = 1 << 32;

/// A liar's way to answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manner {
    /// Something else each time.
    Fickle,
    /// The value written, in bits drawn for each register; in the other bits the value drawn at first.
    Odd,
    /// Values as those of `Odd`, with headers that are bridges' or endpoints', and bridges that keep their numbers and windows.
    Plausible,
}

#[derive(Debug)]
struct Liar {
    seed: u64,
    manner: Manner,
    /// Number of functions that answer, of 16.
    density: u64,
    accesses: u64,
    /// For each register, the value that it has been given, with [`GIVEN`]. An array, because a map takes most of the test's time.
    written: Vec<u64>,
}

impl Liar {
    /// A number drawn for a register and a purpose.
    fn draw(&self, offset: usize, about: u64) -> u32 {
        let mut state = self.seed ^ (offset as u64) << 8 ^ about;
        for _ in 0..3 {
            state = (state ^ state >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(0x9e37_79b9_7f4a_7c15);
        }
        (state >> 32) as u32
    }

    fn access(&mut self) {
        self.accesses += 1;
        assert!(self.accesses < MOST_ACCESSES, "no end of it");
    }

    fn initial(&self, offset: usize) -> u32 {
        let function = offset & !0xfff;
        match offset & 0xfff {
            0x00 if u64::from(self.draw(function, 1) % 16) >= self.density => u32::MAX,
            0x00 if self.manner != Manner::Fickle => 0x0010_1b36,
            0x04 if self.manner == Manner::Plausible => 0,
            0x08 if self.manner == Manner::Plausible => 0x0108_0200,
            0x0c if self.manner == Manner::Plausible => self.draw(offset, 2) & 0x0081_0000,
            // No prefetchable window, one of 32 bits, or one of 64.
            0x24 if self.manner == Manner::Plausible => [0, 0, 0x0001_0001][self.draw(offset, 2) as usize % 3],
            // Existing types of BARs, and up to seven virtual functions.
            0x10 | 0x124 if self.manner == Manner::Plausible => self.draw(offset, 2) & 0b1100,
            0x14 | 0x128 if self.manner == Manner::Plausible => 0,
            0x18..0x28 | 0x12c..0x13c if self.manner == Manner::Plausible => self.draw(offset, 2) & 0b1000,
            0x100 if self.manner == Manner::Plausible => 0x0001_0010,
            0x10c if self.manner == Manner::Plausible => (self.draw(offset, 2) & 7) * 0x0001_0001,
            0x114 if self.manner == Manner::Plausible => 0x0001_0001,
            0x11c if self.manner == Manner::Plausible => 0x0000_0553,
            _ => self.draw(offset, 2),
        }
    }

    fn mask(&self, offset: usize) -> u32 {
        let bridge = self.initial(offset & !0xfff | 0x0c) & 0x7f_0000 == 0x1_0000;
        match offset & 0xfff {
            0x00..0x04 | 0x08..0x10 | 0x10c | 0x114 | 0x11c => 0,
            0x04 => 0x0507,
            0x18 if bridge && self.manner == Manner::Plausible => 0x00ff_ffff,
            0x20 | 0x24 if bridge && self.manner == Manner::Plausible => 0xfff0_fff0,
            0x28 | 0x2c if bridge && self.manner == Manner::Plausible => u32::MAX,
            0x14 | 0x128 if self.initial(offset - 4) & 0b100 != 0 => u32::MAX,
            // Possible sizes; one function in sixteen keeps nothing.
            0x10..0x28 | 0x124..0x13c if self.draw(offset & !0xfff, 4).is_multiple_of(16) => 0,
            0x10..0x28 | 0x124..0x13c if self.manner == Manner::Plausible => {
                (u32::MAX << (12 + self.draw(offset, 3) % 20)) & !0xf
            }
            _ => self.draw(offset, 3),
        }
    }
}

#[derive(Clone, Debug)]
struct Registers(Rc<RefCell<Liar>>);

impl Mmio for Registers {
    fn len(&self) -> usize {
        usize::from(BUSES) << 20
    }

    fn read32(&self, offset: usize) -> Result<u32, OutOfBounds> {
        let mut liar = self.0.borrow_mut();
        liar.access();
        if liar.manner == Manner::Fickle && offset & 0xfff != 0 {
            let answer = liar.draw(offset, liar.accesses << 4);
            return Ok([answer, answer & 0x0081_0000, 0, u32::MAX][answer as usize >> 5 & 3]);
        }
        Ok(match liar.written[offset / 4] {
            0 => liar.initial(offset),
            given => given as u32,
        })
    }

    fn write32(&self, offset: usize, value: u32) -> Result<(), OutOfBounds> {
        let mut liar = self.0.borrow_mut();
        liar.access();
        let (initial, mask) = (liar.initial(offset), liar.mask(offset));
        liar.written[offset / 4] = GIVEN | u64::from(initial & !mask | value & mask);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn lying_functions_cannot_break_assignment(
        seed in any::<u64>(),
        density in 1u64..=16,
        manner in prop::sample::select(std::vec![Manner::Fickle, Manner::Odd, Manner::Plausible]),
    ) {
        let liar = Liar { seed, manner, density, accesses: 0, written: std::vec![0; usize::from(BUSES) << 18] };
        let mut config = ConfigSpace::new(Registers(Rc::new(RefCell::new(liar))), BUSES);
        let windows = PciWindows::new(&[(Paddr::new(0xc000_0000), 29), (Paddr::new(0x20_0000_0000), 36)]);
        let note = Note::new(Ram::new(PAGE_SIZE));
        let left_out = assign(&mut config, &note, &windows, &[]);
        let functions = enumerate(&mut config, &note, &windows, &left_out);
        prop_assert!(functions.len() <= MAX_FUNCTIONS);
        let usable = functions.iter().filter(|function| function.unusable.is_none());
        let mut ranges: Vec<_> = usable.flat_map(|function| function.memory_bars().map(page_range)).collect();
        let described = functions.iter().filter_map(|function| function.virtual_functions.as_ref());
        for found in described.filter(|found| found.unusable.is_none()) {
            ranges.extend(found.bars.iter().map(|bar| {
                bar.address()..bar.address() + pci_spec::sriov::bytes(bar, found.sriov.total).expect("it ends")
            }));
        }
        ranges.sort_by_key(|range| range.start);
        prop_assert!(ranges.iter().zip(ranges.iter().skip(1)).all(|(one, next)| one.end <= next.start));
        prop_assert!(ranges.iter().all(|range| windows.cover(range)));
    }
}
