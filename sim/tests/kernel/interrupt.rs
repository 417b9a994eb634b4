//! Interrupts reach their handlers.

use crate::machine::Machine;
use platform::*;
use sim_kernel::{Delivery, Level};

const PIN: u8 = 17;

/// A handler made by `make`, signalling a notification with badge 4 that the root task waits for.
fn handler(
    make: impl FnOnce(&mut Machine, AbsoluteCPtr) -> Result<()>,
) -> (Machine, Cap<IrqHandler>, Cap<Notification>) {
    let mut machine = Machine::new();
    let slot = CPtr::new(machine.slot());
    let dest = machine.at(slot);
    make(&mut machine, dest).unwrap();
    let notification = machine.make::<Notification>(ObjectType::Notification, 0);
    let badge = CapData::Badge(Badge(Badge::SIGNAL | 4));
    let badged = machine.mint(notification, Rights::WRITE, badge).unwrap();
    machine.kernel.irq_handler_set_notification(machine.me, slot.cast(), badged).unwrap();
    machine.check();
    (machine, slot.cast(), notification)
}

fn pin(trigger: Trigger) -> (Machine, Cap<IrqHandler>, Cap<Notification>) {
    handler(|machine, dest| {
        let control = machine.root.irq_control;
        machine.kernel.irq_control_get(machine.me, control, dest, IrqSource::Line { line: PIN, trigger }, 3)
    })
}

fn came(machine: &mut Machine, notification: Cap<Notification>) -> bool {
    machine.kernel.nb_receive(machine.me, notification.cptr());
    match machine.take(machine.me) {
        Some(Delivery::Signal(badge)) => badge == Badge(Badge::SIGNAL | 4),
        _ => false,
    }
}

#[test]
fn a_message_signals_and_needs_no_ack() {
    let (mut machine, _, notification) = handler(|machine, dest| {
        machine.kernel.irq_control_get(
            machine.me,
            machine.root.irq_control,
            dest,
            IrqSource::Message { requester_id: 0x0118 },
            5,
        )
    });
    let (address, data) = machine.kernel.msi_message(5);
    assert_eq!((address, data), (0xfee0_0000, 0x35));
    for _ in 0..2 {
        machine.kernel.message_interrupt(address, data);
        assert!(came(&mut machine, notification));
    }
    machine.kernel.message_interrupt(address, data + 1);
    machine.kernel.message_interrupt(0x1000, data);
    machine.kernel.message_interrupt(address, 0x20);
    machine.kernel.message_interrupt(address, 0xff);
    assert!(!came(&mut machine, notification));
}

#[test]
fn a_level_asks_again_after_the_ack_until_it_goes() {
    let (mut machine, handler, notification) = pin(Trigger::LevelLow);
    machine.kernel.line_interrupt(PIN, Level::Asserted);
    assert!(came(&mut machine, notification));
    assert!(!came(&mut machine, notification));
    machine.kernel.irq_handler_ack(machine.me, handler).unwrap();
    assert!(came(&mut machine, notification));
    machine.kernel.line_interrupt(PIN, Level::Deasserted);
    machine.kernel.irq_handler_ack(machine.me, handler).unwrap();
    assert!(!came(&mut machine, notification));
}

#[test]
fn an_edge_counts_once_and_is_lost_before_the_ack() {
    let (mut machine, handler, notification) = pin(Trigger::Edge);
    machine.kernel.line_interrupt(PIN, Level::Asserted);
    assert!(came(&mut machine, notification));
    machine.kernel.line_interrupt(PIN, Level::Deasserted);
    machine.kernel.line_interrupt(PIN, Level::Asserted);
    machine.kernel.irq_handler_ack(machine.me, handler).unwrap();
    assert!(!came(&mut machine, notification));
    machine.kernel.line_interrupt(PIN, Level::Asserted);
    assert!(!came(&mut machine, notification));
    machine.kernel.line_interrupt(PIN, Level::Deasserted);
    machine.kernel.line_interrupt(PIN, Level::Asserted);
    assert!(came(&mut machine, notification));
}

#[test]
fn a_deleted_handler_is_silent() {
    let (mut machine, handler, notification) = pin(Trigger::LevelLow);
    let copy = machine.copy(handler, Rights::ALL).unwrap();
    machine.delete(handler.cptr()).unwrap();
    machine.kernel.line_interrupt(PIN, Level::Asserted);
    assert!(came(&mut machine, notification));
    machine.kernel.irq_handler_ack(machine.me, copy).unwrap();
    assert!(came(&mut machine, notification));
    machine.delete(copy.cptr()).unwrap();
    machine.kernel.line_interrupt(PIN, Level::Asserted);
    assert!(!came(&mut machine, notification));
    assert_eq!(machine.kernel.irq_sources().count(), 0);
}

#[test]
fn a_new_handler_does_not_inherit_the_notification() {
    let (mut machine, handler, notification) = handler(|machine, dest| {
        machine.kernel.irq_control_get(
            machine.me,
            machine.root.irq_control,
            dest,
            IrqSource::Message { requester_id: 0x0118 },
            5,
        )
    });
    machine.delete(handler.cptr()).unwrap();
    let dest = machine.at(handler.cptr());
    machine
        .kernel
        .irq_control_get(machine.me, machine.root.irq_control, dest, IrqSource::Message { requester_id: 0x0118 }, 5)
        .unwrap();
    let (address, data) = machine.kernel.msi_message(5);
    machine.kernel.message_interrupt(address, data);
    assert!(!came(&mut machine, notification));
    assert_eq!(machine.kernel.undelivered_interrupts(), 1);
}

#[test]
fn a_cleared_handler_and_an_ended_notification_lose_interrupts() {
    let (mut machine, handler, notification) = pin(Trigger::Edge);
    machine.kernel.irq_handler_clear(machine.me, handler).unwrap();
    machine.check();
    machine.kernel.line_interrupt(PIN, Level::Asserted);
    assert!(!came(&mut machine, notification));
    assert_eq!(machine.kernel.undelivered_interrupts(), 1);
    let reader = machine.copy(notification, Rights::READ).unwrap();
    let refused = machine.kernel.irq_handler_set_notification(machine.me, handler, reader);
    assert_eq!(refused, Err(Error::InvalidCapability(0)));
    machine.kernel.irq_handler_set_notification(machine.me, handler, notification).unwrap();
    machine.revoke(notification.cptr()).unwrap();
    machine.delete(notification.cptr()).unwrap();
    machine.kernel.irq_handler_ack(machine.me, handler).unwrap();
    machine.check();
}

#[test]
fn pins_that_there_are_not_are_nobodys() {
    let mut machine = Machine::new();
    machine.kernel.line_interrupt(24, Level::Asserted);
    machine.kernel.line_interrupt(255, Level::Asserted);
    machine.check();
}
