//! Interrupt lines at which functions of two drivers end.

use super::bus::{Device, at};
use super::machine::{Act, Object};
use super::system::{BEHIND_BRIDGES, DRIVER_VSPACE, ON_ROOT, System, WINDOW, config, devices, driver};
use pci_api::{
    BY_SERVER, Bound, INTERRUPTS_INTX, INTERRUPTS_MSIX, Index, IntxRouting, Match, RELEASE, Refusal, VECTOR,
};
use pci_spec::Bdf;
use platform::{Badge, CapData, Message};
use std::vec::Vec;

/// Badges of the two drivers' notifications.
const SECONDS: u64 = 7;
const THIRDS: u64 = 8;
/// The line's kernel interrupt.
const IRQ: u8 = 20;

/// Two drivers at one line.
struct Pair {
    system: System,
    /// Notification that the line's handler signals.
    line: u64,
    /// Notifications that the drivers signal when they have finished.
    resume: [u64; 2],
}

impl Pair {
    fn start() -> Self {
        let mut system = System::start();
        let second = share(&mut system, 2, ON_ROOT, SECONDS);
        let third = share(&mut system, 3, BEHIND_BRIDGES, THIRDS);
        let bound = system.take_acts().into_iter().rev().find_map(|act| match act {
            Act::IrqBound { irq: IRQ, badge } => Some(badge),
            _ => None,
        });
        Self { system, line: bound.unwrap(), resume: [second, third] }
    }

    fn want(&self, bdf: Bdf, wanted: bool) {
        self.system.machine.state_mut().devices.get_mut(&bdf).unwrap().want_interrupt(wanted);
    }

    /// Raises the line's interrupt; returns the number of acknowledgements.
    fn interrupt(&mut self) -> usize {
        self.signal(self.line)
    }

    fn signal(&mut self, badge: u64) -> usize {
        self.system.take_acts();
        self.system.signal(badge);
        self.system.take_acts().iter().filter(|act| **act == Act::IrqAcked { irq: IRQ }).count()
    }

    fn enabled(&self) -> [bool; 2] {
        [ON_ROOT, BEHIND_BRIDGES].map(|bdf| self.system.device(bdf).interrupts_by_pin())
    }
}

/// Claims the function, and returns the badge of the capability that came for its vector.
fn share(system: &mut System, driver: u64, bdf: Bdf, notification: u64) -> u64 {
    system.claim(driver, bdf, INTERRUPTS_INTX).unwrap();
    let answer = system.vector(driver, 0, notification).unwrap();
    assert_eq!(answer.payload(), Ok(Bound { by: BY_SERVER }));
    match system.last_given() {
        Object::Notification { badge } => badge,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_handler_of_a_shared_line_is_nobodys_but_the_servers() {
    let pair = Pair::start();
    assert!(pair.system.given().iter().all(|given| matches!(given, Object::Notification { .. })));
    let [second, third] = pair.resume;
    let own = [pair.line, second, third];
    assert!(own.iter().all(|badge| badge & Badge::SIGNAL != 0 && badge & Badge::TICK == 0));
    assert!(second & third == Badge::SIGNAL && pair.line & (second | third) == Badge::SIGNAL, "{own:x?}");
    assert_eq!(pair.enabled(), [true, true]);
}

#[test]
fn shared_interrupt_goes_to_the_driver_until_it_finishes() {
    let mut pair = Pair::start();
    pair.want(ON_ROOT, true);
    assert_eq!(pair.interrupt(), 1, "acknowledged at once");
    assert_eq!(pair.system.signalled(), [SECONDS]);
    assert_eq!(pair.enabled(), [false, true]);
    pair.want(ON_ROOT, false);
    pair.signal(pair.resume[0]);
    assert_eq!(pair.enabled(), [true, true]);
    assert!(pair.system.signalled().is_empty());
}

#[test]
fn interrupts_at_once_are_everybodys_who_wants_one() {
    let mut pair = Pair::start();
    pair.want(ON_ROOT, true);
    pair.want(BEHIND_BRIDGES, true);
    assert_eq!(pair.interrupt(), 1);
    assert_eq!(pair.system.signalled(), [SECONDS, THIRDS]);
    // Both have finished, and one function wants another already, in one wake-up.
    pair.want(BEHIND_BRIDGES, false);
    assert_eq!(pair.signal(pair.resume[0] | pair.resume[1] | pair.line), 1);
    assert_eq!(pair.system.signalled(), [SECONDS]);
    assert_eq!(pair.enabled(), [false, true]);
}

#[test]
fn driver_that_never_finishes_does_not_block_neighbours() {
    let mut pair = Pair::start();
    pair.want(ON_ROOT, true);
    pair.interrupt();
    pair.system.signalled();
    for _ in 0..3 {
        pair.want(BEHIND_BRIDGES, true);
        assert_eq!(pair.interrupt(), 1);
        assert_eq!(pair.system.signalled(), [THIRDS], "and not the hanging one again");
        pair.want(BEHIND_BRIDGES, false);
        pair.signal(pair.resume[1]);
        assert_eq!(pair.enabled(), [false, true]);
    }
}

#[test]
fn a_driver_that_is_through_with_nothing_changes_nothing() {
    let mut pair = Pair::start();
    pair.want(BEHIND_BRIDGES, true);
    pair.interrupt();
    pair.system.take_acts();
    assert_eq!(pair.signal(pair.resume[0]), 0);
    assert_eq!(pair.enabled(), [true, false]);
}

#[test]
fn interrupts_that_no_function_wants_are_stopped_until_the_tick() {
    let mut pair = Pair::start();
    let acknowledged: usize = (0..2000).map(|_| pair.interrupt()).sum();
    assert_eq!(acknowledged, 1024);
    assert!(pair.system.signalled().is_empty());
    assert_eq!(pair.signal(Badge::SIGNAL | Badge::TICK), 1);
    assert_eq!(pair.signal(Badge::SIGNAL | Badge::TICK), 0);
    pair.want(ON_ROOT, true);
    assert_eq!(pair.interrupt(), 1);
    assert_eq!(pair.system.signalled(), [SECONDS]);
}

#[test]
fn a_function_that_does_not_answer_wants_nothing() {
    let mut pair = Pair::start();
    let gone = pair.system.device(ON_ROOT).stuck(0x04);
    pair.system.machine.state_mut().devices.insert(ON_ROOT, gone);
    pair.interrupt();
    assert!(pair.system.signalled().is_empty());
}

#[test]
fn the_last_share_takes_the_handler_with_it() {
    let mut pair = Pair::start();
    pair.system.ask(2, RELEASE).unwrap();
    assert_eq!(pair.enabled(), [false, true]);
    assert_eq!(pair.system.given().len(), 1, "the neighbour's");
    pair.want(BEHIND_BRIDGES, true);
    pair.interrupt();
    assert_eq!(pair.system.signalled(), [THIRDS]);
    pair.system.ask(3, RELEASE).unwrap();
    assert!(pair.system.given().is_empty());
    assert_eq!(pair.system.passing_cptrs(), 0);
}

#[test]
fn shares_can_follow_each_other_without_end() {
    let mut config = config();
    config.irqs = (IRQ, 1);
    let mut system = System::with(devices(), config);
    for _ in 0..300 {
        share(&mut system, 2, ON_ROOT, SECONDS);
        share(&mut system, 3, BEHIND_BRIDGES, THIRDS);
        system.ask(2, RELEASE).unwrap();
        system.ask(3, RELEASE).unwrap();
    }
}

#[test]
fn a_dead_drivers_share_ends_and_its_next_incarnation_has_one() {
    let mut pair = Pair::start();
    pair.want(ON_ROOT, true);
    pair.interrupt();
    pair.system.set_incarnation(1, 1);
    assert_eq!(pair.enabled(), [false, true]);
    pair.want(BEHIND_BRIDGES, true);
    pair.system.signalled();
    pair.interrupt();
    assert_eq!(pair.system.signalled(), [THIRDS]);
    pair.system.set_incarnation(1, 2);
    share(&mut pair.system, 2, ON_ROOT, SECONDS + 100);
    pair.interrupt();
    assert_eq!(pair.system.signalled(), [SECONDS + 100]);
}

#[test]
fn a_vector_asked_for_again_is_bound_to_the_new_notification() {
    let mut pair = Pair::start();
    let before = pair.system.passing_cptrs();
    pair.system.vector(2, 0, SECONDS + 1).unwrap();
    assert_eq!(pair.system.last_given(), Object::Notification { badge: pair.resume[0] });
    assert_eq!(pair.system.passing_cptrs(), before);
    pair.want(ON_ROOT, true);
    pair.interrupt();
    assert_eq!(pair.system.signalled(), [SECONDS + 1]);
}

#[test]
fn what_is_no_notification_is_refused_and_never_signalled() {
    let mut pair = Pair::start();
    pair.system.ask(2, RELEASE).unwrap();
    pair.system.claim(2, ON_ROOT, INTERRUPTS_INTX).unwrap();
    let before = pair.system.passing_cptrs();
    pair.system.receive(DRIVER_VSPACE, CapData::Badge(Badge(0)));
    let mut message = Message::with(VECTOR, &Index(0));
    message.cap_received = true;
    assert_eq!(Refusal::from_label(pair.system.call(2, message).label), Refusal::Kernel);
    assert_eq!(pair.system.passing_cptrs(), before);
    assert_eq!(pair.enabled(), [false, true]);
    pair.want(BEHIND_BRIDGES, true);
    assert_eq!(pair.interrupt(), 1);
    assert_eq!(pair.system.signalled(), [THIRDS]);
}

#[test]
fn a_share_that_fails_for_want_of_an_interrupt_leaves_nothing() {
    let mut config = config();
    config.irqs = (IRQ, 1);
    let mut system = System::with(devices(), config);
    system.claim(3, BEHIND_BRIDGES, INTERRUPTS_MSIX).unwrap();
    system.vector(3, 0, THIRDS).unwrap();
    system.claim(2, ON_ROOT, INTERRUPTS_INTX).unwrap();
    let before = system.passing_cptrs();
    assert_eq!(system.vector(2, 0, SECONDS).unwrap_err(), Refusal::Exhausted);
    assert_eq!(system.passing_cptrs(), before);
    system.ask(3, RELEASE).unwrap();
    system.vector(2, 0, SECONDS).unwrap();
}

#[test]
fn lines_shared_at_once_are_distinguished() {
    // On virt: devices 1 and 5 end at line 36, devices 2 and 6 at line 37.
    let places = [at(0, 1, 0), at(0, 5, 0), at(0, 2, 0), at(0, 6, 0)];
    let bar = |index: u64| WINDOW + index * 0x4000;
    let functions = (0..).zip(places).map(|(index, bdf)| (bdf, Device::nvme(bar(index)))).collect();
    let mut config = config();
    config.intx_pins = IntxRouting::Virt;
    config.drivers = (1..).zip(places).map(|(domain, bdf)| driver("one", Match::Bdf(bdf.to_raw()), domain)).collect();
    let mut system = System::with(functions, config);
    for (driver, bdf) in (1..).zip(places) {
        share(&mut system, driver, bdf, driver);
    }
    let acts = system.take_acts();
    let bound = |irq| {
        let badge = |act: &Act| match act {
            Act::IrqBound { irq: bound, badge } if *bound == irq => Some(*badge),
            _ => None,
        };
        acts.iter().rev().find_map(badge).unwrap()
    };
    for (irq, drivers) in [(36, [1, 2]), (37, [3, 4])] {
        for bdf in places {
            system.machine.state_mut().devices.get_mut(&bdf).unwrap().want_interrupt(true);
        }
        system.signal(bound(irq));
        assert_eq!(system.signalled(), drivers);
        let acked: Vec<_> = system.take_acts().into_iter().filter(|act| matches!(act, Act::IrqAcked { .. })).collect();
        assert_eq!(acked, [Act::IrqAcked { irq }]);
    }
}
