//! Virtual functions: the part of [`super::calls`] and of [`super::config_space`] that is about them. The machine has a controller
//! with three of them, two enabled, a driver of the controller and drivers of the first two, and one of a function that is not there.
//!
//! The law over calls: every call is answered, and the receive cptr is empty then. A driver has mapped pages of its own function's
//! part of the BAR and of no other, and never one of an MSI-X table or of pending bits. Only a function that a living driver claimed
//! and started masters the bus. Nothing breaks a rule of the PCI standard.
//!
//! The law over registers that lie, in the capability of the physical function and in the virtual functions: no page of one driver
//! is another's, the server's, or outside of the PCI window.
//!
//! Of both: when all have released their functions, nothing of them is left.

use super::calls::{answer, any};
use super::system::{DRIVER_VSPACE, NVME_CLASS_CODE, OWN_VSPACE};
use super::virtual_system::{NEIGHBOUR, OnTree, PHYSICAL, SERVER, TOTAL, virtual_at};
use crate::target::Subject;
use arbitrary::{Result, Unstructured};
use pci_api::{
    CLAIM, Claim, GRANTED, INTERRUPTS, INTERRUPTS_MSIX, IO_SPACE, Index, RELEASE, RESTORE, START, VECTOR,
    VIRTUAL_FUNCTIONS, WITHDRAW,
};
use pci_spec::Bdf;
use platform::Message;
use std::ops::Range;

/// The first byte of an input that is about virtual functions.
pub(super) const FIRST_BYTE: u8 = b'V';

const DRIVERS: usize = 4;
/// Numbers of the drivers of virtual functions 0 and 1.
const OF_VIRTUAL: Range<usize> = 1..3;
const PAGE: u64 = 4096;
/// Pages of a function's part of the BAR, and those that a driver has. The table is in the third page, the pending bits in the fourth.
const PAGES: u64 = 4;
const GIVEN_PAGES: u64 = 2;
/// The register of the physical function with the place of the virtual ones' BAR.
const VIRTUAL_BAR: u16 = 0x144;
/// The PCI window.
const WINDOW: Range<u64> = 0xc000_0000..0xc800_0000;
/// Registers of the physical function that may lie: its extended capabilities.
const EXTENDED: Range<u16> = 0x100..0x180;
/// Time in which a reset of a function ends, in milliseconds.
const RESET_MS: u64 = 2_000;
/// Time in which a reset by a withdrawal ends.
const WITHDRAWN_MS: u64 = 100;
/// Calls until virtual functions are enabled: for a reset, its end, and the time in which they appear.
const CALLS: u32 = 4;
const STEPS: usize = 64;

/// The state of a driver according to the answers.
#[derive(Clone, Copy, Default, Debug)]
struct Known {
    claimed: bool,
    started: bool,
    /// The driver's function was withdrawn: the pages stay until the reset is over, even of a dead driver.
    withdrawn: bool,
    dead: bool,
}

struct Run {
    system: OnTree,
    known: [Known; DRIVERS],
    incarnations: [u32; DRIVERS],
}

/// The law over calls.
pub(super) fn calls(input: &[u8], subject: Subject) {
    let mut rest = Unstructured::new(input);
    let mut run = Run::new(OnTree::enabled(2));
    run.known[0] = Known { claimed: true, started: true, ..Known::default() };
    let base = u64::from(run.system.bus.read(PHYSICAL, VIRTUAL_BAR) & !0xf);
    for _ in 0..STEPS {
        if rest.is_empty() || run.step(&mut rest).is_err() {
            break;
        }
        run.assert_apart(base, subject);
    }
    run.end();
    // One whose command register lies may master the bus at any time: only its IOSpace holds it.
    for bdf in (0..TOTAL).map(virtual_at).chain([PHYSICAL]) {
        assert!(!run.system.is_master(bdf), "{bdf:?} masters the bus for nobody");
    }
    assert_eq!(run.system.bus.violations(), [], "after the end");
}

/// The law over registers.
pub(super) fn registers(input: &[u8], subject: Subject) {
    let mut rest = Unstructured::new(input);
    let mut run = Run::new(OnTree::start());
    // They lie from the walk on, or from a later time.
    if rest.arbitrary().unwrap_or(false) {
        while let Ok(true) = rest.arbitrary() {
            if run.lie(&mut rest).is_err() {
                break;
            }
        }
        run = Run::new(run.system.successor(None).expect("a server that nobody stops"));
        run.restart_drivers();
    }
    for _ in 0..STEPS {
        if rest.is_empty() || run.step_of_liars(&mut rest).is_err() {
            break;
        }
        run.assert_disjoint(subject);
    }
    run.system.bus.tell_the_truth();
    run.end();
}

impl Run {
    fn new(system: OnTree) -> Self {
        Self { system, known: [Known::default(); DRIVERS], incarnations: [0; DRIVERS] }
    }

    /// The drivers, which ended with a server's death, run again.
    fn restart_drivers(&mut self) {
        for (driver, incarnation) in (0..).zip(&mut self.incarnations) {
            *incarnation = 2;
            self.system.set_incarnation(driver, *incarnation);
        }
    }

    /// Something that a driver or the supervisor does.
    fn step(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let driver = input.int_in_range(0..=DRIVERS - 1)?;
        let badge = driver as u64 + 1;
        match input.int_in_range(0..=9u8)? {
            0 => self.call(badge, by_class(), None),
            1 => {
                let bdfs = [PHYSICAL, virtual_at(0), virtual_at(1), virtual_at(2), virtual_at(TOTAL), NEIGHBOUR];
                let bdf = input.choose(&bdfs)?.to_raw();
                let claim = Claim { bdf, interrupts: input.int_in_range(0..=3)?, class_code: input.arbitrary()? };
                self.call(badge, Message::with(CLAIM, &claim), None);
            }
            2 => {
                let (index, notification) = (input.int_in_range(0..=5)?, input.arbitrary()?);
                self.call(badge, Message::with(VECTOR, &Index(index)), Some(notification));
            }
            3 => self.call(badge, Message::new(*input.choose(&[IO_SPACE, START, RELEASE])?), None),
            4 => {
                let (badge, message, cap) = any(input, badge, 12)?;
                self.call(badge, message, cap);
            }
            5 => {
                let number = input.int_in_range(0..=u64::from(TOTAL) + 1)?;
                self.call(badge, Message::with(VIRTUAL_FUNCTIONS, &Index(number)), None);
            }
            6 => {
                self.incarnations[driver] += 1;
                let dead = self.incarnations[driver] % 2 == 1;
                let Known { claimed, withdrawn, .. } = self.known[driver];
                self.known[driver] = Known { dead, claimed: claimed && withdrawn, withdrawn, ..Known::default() };
                self.system.set_incarnation(driver as u64, self.incarnations[driver]);
            }
            7 => {
                let ms = u64::from(input.arbitrary::<u8>()?) * 4;
                self.system.tick(ms);
                for known in self.known.iter_mut().filter(|known| known.dead && ms >= WITHDRAWN_MS) {
                    known.claimed = false;
                }
            }
            8 => {
                let label = *input.choose(&[WITHDRAW, RESTORE])?;
                self.call(badge, Message::with(label, &Index(input.int_in_range(0..=2)?)), None);
            }
            _ => {
                let kind = Index(input.int_in_range(0..=3)?);
                self.call(badge, Message::with(INTERRUPTS, &kind), None);
            }
        }
        Ok(())
    }

    /// Takes such a step, or a register begins to lie, or all say the truth again.
    fn step_of_liars(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        match input.int_in_range(0..=3u8)? {
            0 => self.lie(input)?,
            1 => {
                // As their drivers bring them up.
                self.call(SERVER, by_class(), None);
                for _ in 0..CALLS {
                    self.call(SERVER, Message::with(VIRTUAL_FUNCTIONS, &Index(2)), None);
                    self.system.pass(RESET_MS);
                }
                let badge = input.int_in_range(2..=3)?;
                self.call(badge, by_class(), None);
            }
            2 => self.step(input)?,
            _ => self.system.bus.tell_the_truth(),
        }
        Ok(())
    }

    /// A register reads as another value from now on: any, or one that differs in some bits.
    fn lie(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let (bdf, register) = match input.int_in_range(0..=TOTAL)? {
            0 => (PHYSICAL, input.int_in_range(EXTENDED.start / 4..=EXTENDED.end / 4 - 1)? * 4),
            number => (virtual_at(number - 1), u16::from(input.int_in_range(0..=63u8)?) * 4),
        };
        let known = if input.arbitrary()? { self.system.bus.read(bdf, register) } else { 0 };
        let value = known ^ input.arbitrary::<u32>()?;
        self.system.bus.pretend(bdf, register, value);
        Ok(())
    }

    fn call(&mut self, badge: u64, message: Message, notification: Option<u64>) {
        let caller = usize::try_from(badge).ok().and_then(|badge| badge.checked_sub(1));
        if caller.and_then(|driver| self.known.get(driver)).is_some_and(|known| known.dead) {
            return; // A dead driver makes no calls.
        }
        let (label, index) = (message.label, message.payload().map(|Index(index)| index));
        let answer = answer(&mut self.system, badge, message, notification);
        if let (WITHDRAW, GRANTED, Ok(index @ (0 | 1))) = (label, answer.label, index) {
            let known = &mut self.known[OF_VIRTUAL.start + index as usize];
            (known.started, known.withdrawn) = (false, true);
        }
        let driver = caller.and_then(|driver| self.known.get_mut(driver));
        let Some(known) = driver.filter(|_| answer.label == GRANTED) else { return };
        match label {
            CLAIM => (known.claimed, known.withdrawn) = (true, false),
            START => known.started = true,
            RELEASE => *known = Known::default(),
            _ => {}
        }
    }

    fn mapped(&self, driver: usize) -> Vec<u64> {
        self.system.mapped(DRIVER_VSPACE + driver as u64)
    }

    fn assert_apart(&self, base: u64, subject: Subject) {
        for (number_z, driver) in (0u16..).zip(OF_VIRTUAL) {
            // The planted defect: a law in which the two functions have each other's registers.
            let part = if subject == Subject::Planted { 1 - number_z } else { number_z };
            let first = base + u64::from(part) * PAGES * PAGE;
            let own = first..first + GIVEN_PAGES * PAGE;
            let (mapped, known) = (self.mapped(driver), self.known[driver]);
            assert!(mapped.iter().all(|page| own.contains(page)), "driver {driver} has {mapped:x?} and not {own:x?}");
            let masters = self.system.is_master(virtual_at(number_z));
            assert!(!masters || known.claimed && known.started, "{number_z} masters the bus for {known:?}");
        }
        let mapped = self.mapped(DRIVERS - 1);
        assert!(mapped.is_empty(), "{mapped:x?} of a function that is not there");
        assert!(!self.system.is_master(virtual_at(2)), "a function that nobody may have masters the bus");
        assert_eq!(self.system.bus.violations(), [], "a rule is broken");
        self.assert_disjoint(Subject::Real);
    }

    fn assert_disjoint(&self, subject: Subject) {
        assert!(!self.system.ended, "the server ended");
        let mut taken = self.system.mapped(OWN_VSPACE);
        for driver in 0..DRIVERS {
            let mapped = self.mapped(driver);
            // The death of the controller's driver is noticed after a reset of the controller that has begun.
            let may_have = driver == 0 || self.known[driver].claimed;
            assert!(may_have || mapped.is_empty(), "driver {driver} has {mapped:x?} without a claim");
            assert!(mapped.iter().all(|page| WINDOW.contains(page)), "driver {driver} has {mapped:x?}");
            assert!(!mapped.iter().any(|page| taken.contains(page)), "{mapped:x?} of {driver} is among {taken:x?}");
            taken.extend(&mapped);
            if subject == Subject::Planted && OF_VIRTUAL.contains(&driver) && !mapped.is_empty() {
                // The planted defect: as if the window ended before its page.
                assert!(mapped.iter().any(|page| *page < WINDOW.start), "driver {driver} has {mapped:x?}");
            }
        }
    }

    /// All release their functions. A function under reset cannot be released, so time passes first.
    fn end(&mut self) {
        self.system.tick(RESET_MS);
        for driver in (0..DRIVERS).rev() {
            self.call(driver as u64 + 1, Message::new(RELEASE), None);
        }
        self.system.tick(RESET_MS);
        for driver in 0..DRIVERS {
            assert!(self.mapped(driver).is_empty(), "a page left of a released function");
        }
        assert_eq!(self.system.passing_cptrs(), 0, "capabilities left of released functions");
    }
}

/// A claim of the caller's own function, wherever it is.
fn by_class() -> Message {
    let bdf = Bdf::from_raw(u16::MAX).to_raw();
    Message::with(CLAIM, &Claim { bdf, interrupts: INTERRUPTS_MSIX, class_code: NVME_CLASS_CODE })
}

/// Inputs of [`calls`]: claims, vectors and starts of both functions; then one is released, the controller's driver dies.
pub(super) fn seeds_of_calls() -> Vec<Vec<u8>> {
    let both: [&[u8]; 8] = [
        &[FIRST_BYTE],
        &[1, 0],
        &[1, 2, 0, 7, 0, 0, 0, 0, 0, 0, 0],
        &[1, 3, 0],
        &[1, 3, 1],
        &[2, 0],
        &[2, 3, 1],
        &[2, 7, 5],
    ];
    let ends: [&[u8]; 5] = [&[1, 3, 2], &[0, 6], &[0, 7, 255], &[0, 6], &[0, 5, 2]];
    vec![both.concat(), [both.concat(), ends.concat()].concat()]
}

/// Inputs of [`registers`]: all are brought up; a capability lies from the walk on; a virtual function lies when it is claimed.
pub(super) fn seeds_of_registers() -> Vec<Vec<u8>> {
    // The number of virtual functions is in the dword at 12c.
    let number: &[u8] = &[FIRST_BYTE, 1, 1, 0, 11, 1, 0xff, 0, 0, 0, 0, 1, 0];
    let vectors: &[u8] = &[FIRST_BYTE, 0, 1, 0, 0, 1, 16, 1, 0, 0, 0xff, 0, 2, 1, 3, 2, 1, 0, 1, 1];
    vec![vec![FIRST_BYTE, 0, 1, 0, 1, 1], number.to_vec(), vectors.to_vec()]
}
