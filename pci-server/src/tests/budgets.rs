//! Clients that call without end: their calls are answered a few at a tick, and nobody else waits.

use super::system::{NVME_CLASS_CODE, OTHERS, RECEIVE_CPTR, System};
use super::virtual_system::{FIRST, OnTree, SECOND, SERVER};
use pci_api::{CLAIM, GRANTED, INTERRUPTS, INTERRUPTS_MSIX, IO_SPACE, Index, LIST, START, VECTOR};
use platform::{Badge, CapData, Message};

/// More calls than any budget has at once.
const MANY: usize = 200;
/// Ticks after which every budget is full.
const TICKS: usize = 40;

/// Makes the call, unless the client waits for an answer; returns whether it has one now.
fn call(system: &mut System, badge: u64, message: &Message) -> bool {
    system.machine.push(badge, message.clone());
    system.poll();
    system.machine.state_mut().replies.pop_front().is_some()
}

/// Calls of a client that are answered before it is made to wait.
fn answered(system: &mut System, badge: u64, message: &Message) -> usize {
    (0..MANY).take_while(|_| call(system, badge, message)).count()
}

fn interrupts() -> Message {
    Message::with(INTERRUPTS, &Index(INTERRUPTS_MSIX.into()))
}

/// A server with two clients, whose functions are claimed and started, and their budgets full.
fn started() -> OnTree {
    let mut system = OnTree::enabled(2);
    for badge in [FIRST, SECOND] {
        system.run_driver(badge).unwrap();
    }
    (0..TICKS).for_each(|_| system.tick(50));
    system
}

#[test]
fn a_client_that_calls_without_end_is_answered_a_few_times_at_a_tick() {
    for message in
        [interrupts(), Message::new(START), Message::new(IO_SPACE), Message::with(LIST, &Index(0)), Message::new(99)]
    {
        let mut system = started();
        let at_once = answered(&mut system, FIRST, &message);
        assert!((8..64).contains(&at_once), "label {}: {at_once} at once", message.label);
        for _ in 0..3 {
            // It waits with its call.
            system.tick(50);
            assert!(system.machine.state_mut().replies.pop_front().is_some(), "label {}", message.label);
            let more = answered(&mut system, FIRST, &message);
            assert!(more < 4, "label {}: {more} more after a tick", message.label);
        }
    }
}

#[test]
fn nobody_else_waits_because_of_a_flood() {
    let mut system = started();
    answered(&mut system, FIRST, &interrupts());
    assert!(answered(&mut system, SECOND, &Message::new(START)) >= 8);
    assert_eq!(answered(&mut system, SERVER, &Message::with(LIST, &Index(0))), MANY, "a server has no budget");
}

#[test]
fn a_kept_call_is_carried_out_with_its_capability() {
    let mut system = started();
    answered(&mut system, FIRST, &Message::new(START));
    system.tick(50);
    system.machine.state_mut().replies.clear();
    let mut vector = Message::with(VECTOR, &Index(1));
    vector.cap_received = true;
    loop {
        system.receive(OTHERS, CapData::Badge(Badge(Badge::SIGNAL | 9)));
        if !call(&mut system, FIRST, &vector) {
            break;
        }
    }
    assert!(!system.machine.state().holds(RECEIVE_CPTR), "the next capability would not arrive");
    let before = system.given().len();
    system.tick(50);
    let answer = system.machine.state_mut().replies.pop_front().expect("an answer after the tick");
    assert_eq!((answer.label, answer.cap_received), (GRANTED, true));
    assert_eq!(system.given().len(), before + 1);
    assert!(!system.machine.state().holds(RECEIVE_CPTR));
}

#[test]
fn the_call_of_a_client_that_died_is_not_carried_out() {
    let mut system = started();
    let list = Message::with(LIST, &Index(0));
    answered(&mut system, FIRST, &list);
    let mut ticks = 0;
    // Its claim ends with it; the call that waits would claim the function once more.
    system.tick(50);
    system.machine.state_mut().replies.clear();
    let claim = pci_api::Claim { bdf: u16::MAX, interrupts: INTERRUPTS_MSIX, class_code: NVME_CLASS_CODE };
    let claim = Message::with(CLAIM, &claim);
    while call(&mut system, FIRST, &claim) {
        ticks += 1;
        assert!(ticks < MANY);
    }
    let callers = system.machine.state().callers.len();
    system.set_incarnation(1, 1);
    assert_eq!(system.machine.state().callers.len(), callers - 1);
    for _ in 0..TICKS {
        system.tick(50);
        assert!(system.machine.state_mut().replies.pop_front().is_none());
    }
}

#[test]
fn a_client_that_sends_while_its_call_waits_is_not_heard() {
    let mut system = started();
    answered(&mut system, FIRST, &Message::new(START));
    for _ in 0..MANY {
        system.receive(OTHERS, CapData::Badge(Badge(Badge::SIGNAL | 9)));
        let mut sent = Message::with(VECTOR, &Index(1));
        sent.cap_received = true;
        assert!(!call(&mut system, FIRST, &sent));
        assert!(!system.machine.state().holds(RECEIVE_CPTR));
    }
    system.tick(50);
    let answer = system.machine.state_mut().replies.pop_front().expect("an answer");
    assert_eq!((answer.label, answer.cap_received), (GRANTED, false), "the call that waited");
}
