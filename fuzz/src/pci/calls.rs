//! Calls at the PCI server: any label and words from any badge, with and without a capability, from drivers that die and are
//! restarted, about functions that vanish.
//!
//! The law: every call is answered, and after each one the receive cptr is empty. A driver has mapped pages of the BARs of
//! the function that it was granted and of no other, and never a page of an MSI-X table or of its pending bits. Only a
//! function that a living driver claimed and started masters the bus. When all have released their functions, nothing of
//! them is left: no mapping, no handler, no IOSpace. Inputs about virtual functions have another machine, in
//! `virtual_functions`.

use super::bus::Device;
use super::system::{BEHIND_BRIDGES, BEHIND_PORT, DRIVER_VSPACE, LIVENESS, ON_ROOT, RECEIVE_CPTR, System};
use super::virtual_functions;
use crate::target::{Subject, Target};
use arbitrary::{Result, Unstructured};
use pci_api::{CLAIM, Claim, GRANTED, INTERRUPTS, INTERRUPTS_MSIX, Index, RELEASE, START, VECTOR};
use pci_spec::Bdf;
use platform::{Badge, Message};

/// The target.
pub const TARGET: Target = Target { name: "pci-calls", law, seeds };

const DRIVERS: usize = 3;
/// The function of each driver, and the address of the function's 16 KiB of registers. The table of vectors is in the third
/// page, the pending bits are in the fourth.
const FUNCTIONS: [(Bdf, u64); DRIVERS] =
    [(BEHIND_PORT, 0xc000_0000), (ON_ROOT, 0xc400_0000), (BEHIND_BRIDGES, 0xc110_0000)];
const GIVEN_PAGES: u64 = 2;
const PAGE: u64 = 4096;
const STEPS: usize = 64;

/// The state of a driver according to the answers.
#[derive(Clone, Copy, Default, Debug)]
struct Known {
    claimed: bool,
    started: bool,
    dead: bool,
}

struct Run {
    system: System,
    known: [Known; DRIVERS],
    incarnations: [u32; DRIVERS],
    subject: Subject,
}

fn law(input: &[u8], subject: Subject) {
    if let Some((&virtual_functions::FIRST_BYTE, rest)) = input.split_first() {
        return virtual_functions::calls(rest, subject);
    }
    let mut rest = Unstructured::new(input);
    let mut run =
        Run { system: System::start(), known: [Known::default(); DRIVERS], incarnations: [0; DRIVERS], subject };
    for _ in 0..STEPS {
        if rest.is_empty() || run.step(&mut rest).is_err() {
            break;
        }
        run.assert_apart();
    }
    for driver in 0..DRIVERS {
        run.call(driver as u64 + 1, Message::new(RELEASE), None);
    }
    run.assert_apart();
    for driver in 0..DRIVERS {
        assert!(run.system.mapped(DRIVER_VSPACE + driver as u64).is_empty(), "a page left of a released function");
    }
    assert_eq!(run.system.passing_cptrs(), 0, "capabilities left of released functions");
}

impl Run {
    fn step(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let driver = input.int_in_range(0..=DRIVERS - 1)?;
        let badge = driver as u64 + 1;
        match input.int_in_range(0..=8u8)? {
            0 => {
                let claim = Claim { bdf: FUNCTIONS[driver].0.to_raw(), interrupts: INTERRUPTS_MSIX, class_code: 0 };
                self.call(badge, Message::with(CLAIM, &claim), None);
            }
            1 => {
                let bdf = input.choose(&FUNCTIONS)?.0.to_raw();
                let claim = Claim { bdf, interrupts: input.int_in_range(0..=3)?, class_code: input.arbitrary()? };
                self.call(badge, Message::with(CLAIM, &claim), None);
            }
            2 => {
                let (index, notification) = (input.int_in_range(0..=5)?, input.arbitrary()?);
                self.call(badge, Message::with(VECTOR, &Index(index)), Some(notification));
            }
            3 => self.call(badge, Message::new(*input.choose(&[pci_api::IO_SPACE, START, RELEASE])?), None),
            4 => {
                let (badge, message, cap) = any(input, badge, 9)?;
                self.call(badge, message, cap);
            }
            5 => {
                self.incarnations[driver] += 1;
                let dead = self.incarnations[driver] % 2 == 1;
                self.known[driver] = Known { dead, ..Known::default() };
                self.system.set_incarnation(driver as u64, self.incarnations[driver]);
            }
            6 => self.system.signal(Badge::SIGNAL | input.arbitrary::<u64>()?),
            7 => {
                let kind = Index(input.int_in_range(0..=3)?);
                self.call(badge, Message::with(INTERRUPTS, &kind), None);
            }
            _ => drop(self.system.machine.state_mut().devices.remove(&FUNCTIONS[driver].0)),
        }
        Ok(())
    }

    fn call(&mut self, badge: u64, message: Message, notification: Option<u64>) {
        let caller = usize::try_from(badge).ok().and_then(|badge| badge.checked_sub(1));
        if caller.and_then(|driver| self.known.get(driver)).is_some_and(|known| known.dead) {
            return; // A dead driver makes no calls.
        }
        let label = message.label;
        let answer = answer(&mut self.system, badge, message, notification);
        let driver = caller.and_then(|driver| self.known.get_mut(driver));
        let Some(known) = driver.filter(|_| answer.label == GRANTED) else { return };
        match label {
            CLAIM => known.claimed = true,
            START => known.started = true,
            // The planted defect: a forgotten release, so that the driver still seems to have its function.
            RELEASE if self.subject == Subject::Real => *known = Known::default(),
            RELEASE => known.claimed = !known.started,
            _ => {}
        }
    }

    fn assert_apart(&self) {
        for (driver, (known, (bdf, first))) in self.known.iter().zip(FUNCTIONS).enumerate() {
            let mapped = self.system.mapped(DRIVER_VSPACE + driver as u64);
            let own = first..first + GIVEN_PAGES * PAGE;
            assert!(mapped.iter().all(|page| own.contains(page)), "driver {driver} has {mapped:x?} and not {own:x?}");
            assert!(known.claimed || mapped.is_empty(), "driver {driver} has {mapped:x?} and claimed nothing");
            let masters = self.system.machine.state().devices.get(&bdf).is_some_and(Device::is_master);
            assert!(!masters || known.claimed && known.started && !known.dead, "{bdf:?} masters the bus for {known:?}");
            let is_there = self.system.machine.state().devices.contains_key(&bdf);
            assert!(masters || !is_there || !known.started, "{bdf:?} was started and masters nothing");
        }
        assert!(LIVENESS > 0 && !self.system.ended, "the server ended");
    }
}

/// The answer to a call, with a notification capability of this badge or without one.
pub(super) fn answer(system: &mut System, badge: u64, message: Message, notification: Option<u64>) -> Message {
    let answer = match notification {
        // A notification's badge has [`Badge::SIGNAL`], or it cannot be minted.
        Some(notification) => system.call_with_cap(badge, message, Badge::SIGNAL | notification),
        None => system.call(badge, message),
    };
    assert!(!system.machine.state().holds(RECEIVE_CPTR), "a capability is left at the receive cptr");
    answer
}

/// Any call, as from any capability to the endpoint, with a label of up to `labels`.
pub(super) fn any(input: &mut Unstructured<'_>, badge: u64, labels: u32) -> Result<(u64, Message, Option<u64>)> {
    let badge = if input.arbitrary()? { badge } else { input.arbitrary()? };
    let words: Vec<u64> = (0..input.int_in_range(0..=8)?).map(|_| input.arbitrary()).collect::<Result<_>>()?;
    let message = Message::from_words(input.int_in_range(0..=labels)?, &words);
    let cap = if input.arbitrary()? { Some(input.arbitrary()?) } else { None };
    Ok((badge, message, cap))
}

/// Claim, vector, IOSpace, start, the pin, release; then a death.
fn seeds() -> Vec<Vec<u8>> {
    let cycle: &[&[u8]] =
        &[&[0, 0], &[0, 2, 0, 7, 0, 0, 0, 0, 0, 0, 0], &[0, 3, 0], &[0, 3, 1], &[0, 7, 1], &[0, 3, 2]];
    let dies: &[&[u8]] = &[&[1, 0], &[1, 3, 1], &[1, 5], &[1, 5], &[1, 0], &[2, 0], &[2, 3, 1], &[2, 8]];
    let mut seeds = virtual_functions::seeds_of_calls();
    seeds.extend([cycle.concat(), [cycle.concat(), dies.concat()].concat()]);
    seeds
}
