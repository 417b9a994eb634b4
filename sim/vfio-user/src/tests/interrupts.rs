//! Interrupts by eventfd: vectors, and the pin that masks itself.

use super::client::Client;
use super::device::{DO_ASSERT, DO_DEASSERT, DO_INTERRUPT, OPERATION, Served, VECTOR};
use crate::message::{IrqSet, command, irq_set_flag};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, ioctl_fionbio};
use std::os::fd::{AsFd, OwnedFd};
use zerocopy::IntoBytes;

const INVALID: u32 = Errno::INVAL.raw_os_error() as u32;
const NOT_SUPPORTED: u32 = Errno::NOTSUP.raw_os_error() as u32;
const PIN: u32 = 0;
const MSI: u32 = 1;
const MSIX: u32 = 2;
const DISABLE: u32 = irq_set_flag::DATA_NONE | irq_set_flag::ACTION_TRIGGER;
const UNMASK: u32 = irq_set_flag::DATA_NONE | irq_set_flag::ACTION_UNMASK;
const MASK: u32 = irq_set_flag::DATA_NONE | irq_set_flag::ACTION_MASK;

fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()
}

/// How often it was signalled since the last call.
fn signals(event: &OwnedFd) -> u64 {
    let mut count = [0; 8];
    match rustix::io::read(event, &mut count) {
        Ok(_) => u64::from_ne_bytes(count),
        Err(Errno::AGAIN) => 0,
        Err(errno) => panic!("{errno}"),
    }
}

fn interrupt(client: &mut Client, vector: u32) {
    client.set_register(VECTOR, vector);
    client.set_register(OPERATION, DO_INTERRUPT);
}

#[test]
fn a_vector_signals_its_own_eventfd() {
    let (_served, mut client) = Served::with_client(1 << 20);
    let events: Vec<_> = (0..3).map(|_| event()).collect();
    client.set_events(MSIX, 4, &events.iter().collect::<Vec<_>>()).unwrap();
    interrupt(&mut client, 5);
    interrupt(&mut client, 5);
    interrupt(&mut client, 6);
    assert_eq!(events.iter().map(signals).collect::<Vec<_>>(), [0, 2, 1]);
    let by_the_client = irq_set_flag::DATA_NONE | irq_set_flag::ACTION_TRIGGER;
    client.set_irqs(by_the_client, MSIX, 4, 2).unwrap();
    assert_eq!(events.iter().map(signals).collect::<Vec<_>>(), [1, 1, 0]);
    interrupt(&mut client, 32);
    interrupt(&mut client, 0xFFFF);
}

#[test]
fn an_eventfd_is_replaced_and_taken_away() {
    let (_served, mut client) = Served::with_client(1 << 20);
    let (old, new) = (event(), event());
    client.set_events(MSI, 1, &[&old]).unwrap();
    client.set_events(MSI, 1, &[&new]).unwrap();
    interrupt(&mut client, 1);
    assert_eq!((signals(&old), signals(&new)), (0, 1));
    client.set_events(MSI, 1, &[]).unwrap();
    interrupt(&mut client, 1);
    client.set_events(MSI, 1, &[&new]).unwrap();
    client.set_irqs(DISABLE, MSI, 0, 0).unwrap();
    interrupt(&mut client, 1);
    assert_eq!((signals(&old), signals(&new)), (0, 0));
}

#[test]
fn a_vector_without_eventfd_stays_pending() {
    let (_served, mut client) = Served::with_client(1 << 20);
    let event = event();
    interrupt(&mut client, 3);
    interrupt(&mut client, 3);
    client.set_events(MSIX, 3, &[&event]).unwrap();
    assert_eq!(signals(&event), 1);
    client.set_irqs(DISABLE, MSIX, 0, 0).unwrap();
    interrupt(&mut client, 3);
    client.ask(command::DEVICE_RESET, &[]).unwrap();
    client.set_events(MSIX, 3, &[&event]).unwrap();
    assert_eq!(signals(&event), 0);
}

#[test]
fn eventfds_stay_over_a_reset() {
    let (_served, mut client) = Served::with_client(1 << 20);
    let event = event();
    client.set_events(MSIX, 0, &[&event]).unwrap();
    client.ask(command::DEVICE_RESET, &[]).unwrap();
    interrupt(&mut client, 0);
    assert_eq!(signals(&event), 1);
}

#[test]
fn a_full_eventfd_does_not_stop_the_server() {
    let (_served, mut client) = Served::with_client(1 << 20);
    let event = event();
    ioctl_fionbio(&event, false).unwrap();
    rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    client.set_events(MSIX, 0, &[&event]).unwrap();
    interrupt(&mut client, 0);
    assert_eq!(signals(&event), u64::MAX - 1);
    interrupt(&mut client, 0);
    assert_eq!(signals(&event), 1);
}

#[test]
fn the_pin_masks_itself_until_it_is_unmasked() {
    let (_served, mut client) = Served::with_client(1 << 20);
    let event = event();
    client.set_events(PIN, 0, &[&event]).unwrap();
    client.set_register(OPERATION, DO_ASSERT);
    assert_eq!(signals(&event), 1);
    client.set_register(OPERATION, DO_DEASSERT);
    client.set_register(OPERATION, DO_ASSERT);
    assert_eq!(signals(&event), 0, "masked");
    client.set_irqs(UNMASK, PIN, 0, 1).unwrap();
    assert_eq!(signals(&event), 1, "still asserted");
    client.set_register(OPERATION, DO_DEASSERT);
    client.set_irqs(UNMASK, PIN, 0, 1).unwrap();
    assert_eq!(signals(&event), 0, "served");
    client.set_register(OPERATION, DO_ASSERT);
    assert_eq!(signals(&event), 1);
}

#[test]
fn a_masked_pin_is_silent() {
    let (_served, mut client) = Served::with_client(1 << 20);
    let event = event();
    client.set_events(PIN, 0, &[&event]).unwrap();
    client.set_irqs(MASK, PIN, 0, 1).unwrap();
    client.set_register(OPERATION, DO_ASSERT);
    assert_eq!(signals(&event), 0);
    client.set_irqs(UNMASK, PIN, 0, 1).unwrap();
    assert_eq!(signals(&event), 1);
}

#[test]
fn an_asserted_pin_signals_a_new_eventfd() {
    let (_served, mut client) = Served::with_client(1 << 20);
    client.set_register(OPERATION, DO_ASSERT);
    let event = event();
    client.set_events(PIN, 0, &[&event]).unwrap();
    assert_eq!(signals(&event), 1);
    client.set_irqs(DISABLE, PIN, 0, 0).unwrap();
    client.ask(command::DEVICE_RESET, &[]).unwrap();
    client.set_events(PIN, 0, &[&event]).unwrap();
    assert_eq!(signals(&event), 0);
}

#[test]
fn invalid_changes_are_refused() {
    use irq_set_flag::{ACTION_MASK, ACTION_TRIGGER, ACTION_UNMASK, DATA_BOOL, DATA_EVENTFD, DATA_NONE};
    let (_served, mut client) = Served::with_client(1 << 20);
    for (flags, index, start, count) in [
        (DATA_NONE | ACTION_TRIGGER, 3, 0, 0),
        (DATA_NONE | ACTION_TRIGGER, MSIX, 1, 0),
        (DATA_NONE | ACTION_MASK, PIN, 0, 0),
        (DATA_NONE | ACTION_MASK, MSIX, 0, 1),
        (DATA_EVENTFD | ACTION_TRIGGER, MSIX, 0, 0),
        (DATA_EVENTFD | ACTION_TRIGGER, MSIX, 31, 2),
        (DATA_EVENTFD | ACTION_TRIGGER, MSIX, u32::MAX, 2),
        (DATA_NONE | DATA_BOOL | ACTION_TRIGGER, MSIX, 0, 1),
        (DATA_NONE | ACTION_MASK | ACTION_UNMASK, PIN, 0, 1),
        (DATA_BOOL | ACTION_TRIGGER, MSIX, 0, 1),
        (DATA_NONE, PIN, 0, 1),
        (1 << 6 | DATA_NONE | ACTION_TRIGGER, MSIX, 0, 1),
    ] {
        assert_eq!(client.set_irqs(flags, index, start, count), Err(INVALID), "{flags:#x} {index} {start} {count}");
    }
    assert_eq!(client.set_irqs(DATA_EVENTFD | ACTION_UNMASK, PIN, 0, 1), Err(NOT_SUPPORTED));
    // Two descriptors for three vectors.
    let event = event();
    let set = IrqSet { argsz: 20, flags: DATA_EVENTFD | ACTION_TRIGGER, index: MSIX, start: 0, count: 3 };
    let fds = [event.as_fd(), event.as_fd()];
    assert_eq!(client.ask_with(command::DEVICE_SET_IRQS, set.as_bytes(), &fds), Err(INVALID));
}

#[test]
fn booleans_choose_vectors() {
    let (_served, mut client) = Served::with_client(1 << 20);
    let events: Vec<_> = (0..3).map(|_| event()).collect();
    client.set_events(MSIX, 0, &events.iter().collect::<Vec<_>>()).unwrap();
    let flags = irq_set_flag::DATA_BOOL | irq_set_flag::ACTION_TRIGGER;
    let set = IrqSet { argsz: 23, flags, index: MSIX, start: 0, count: 3 };
    client.ask(command::DEVICE_SET_IRQS, &[set.as_bytes(), &[1, 0, 2]].concat()).unwrap();
    assert_eq!(events.iter().map(signals).collect::<Vec<_>>(), [1, 0, 1]);
}
