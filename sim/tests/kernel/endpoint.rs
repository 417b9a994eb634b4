//! Messages, replies and extra capabilities.

use crate::machine::{Component, Machine};
use platform::*;
use sim_kernel::{Capability, Delivery, ThreadId, ThreadState};

const SEND: CPtr = CPtr::new(1);
const RECEIVE: CPtr = CPtr::new(2);
const SPARE: CPtr = CPtr::new(3);
const OWN_CNODE: CPtr = CPtr::new(4);

/// A client of badge 5 and a server of the same endpoint; both know their own CNodes.
fn pair(client_priority: u8, server_priority: u8) -> (Machine, Component, Component) {
    let mut machine = Machine::new();
    let endpoint = machine.make::<Endpoint>(ObjectType::Endpoint, 0);
    let badged = machine.mint(endpoint, Rights::CALL_WITH_CAPS, CapData::Badge(Badge(5))).unwrap();
    let client = machine.component(client_priority, CPtr::new(0));
    let server = machine.component(server_priority, CPtr::new(0));
    machine.give(client.cnode, SEND.bits(), badged, Rights::ALL);
    machine.give(server.cnode, RECEIVE.bits(), endpoint, Rights::ALL);
    for component in [client, server] {
        let guard = CapData::Guard { size: 60, value: 0 };
        let own = machine.mint(component.cnode, Rights::ALL, guard).unwrap();
        machine.give(component.cnode, OWN_CNODE.bits(), own, Rights::ALL);
    }
    (machine, client, server)
}

fn own_slot(cptr: CPtr) -> AbsoluteCPtr {
    AbsoluteCPtr { root: OWN_CNODE.cast(), index: cptr.bits(), depth: 64 }
}

fn reply(message: Message) -> Delivery {
    Delivery::Reply(Box::new(message))
}

fn message(machine: &mut Machine, thread: ThreadId) -> (u64, Message) {
    match machine.take(thread) {
        Some(Delivery::Message(badge, message)) => (badge.0, *message),
        other => panic!("{other:?} is no message"),
    }
}

#[test]
fn a_call_arrives_with_its_badge_and_is_answered() {
    let (mut machine, client, server) = pair(10, 20);
    machine.kernel.receive(server.thread, RECEIVE);
    assert_eq!(machine.take(server.thread), None);
    let words: Vec<u64> = (100..130).collect();
    machine.kernel.call(client.thread, SEND, &Message::from_words(7, &words));
    assert_eq!(machine.kernel.thread_state(client.thread), Some(ThreadState::BlockedOnReply));
    assert_eq!(machine.kernel.runnable_at(20).next(), Some(server.thread));
    let (badge, call) = message(&mut machine, server.thread);
    assert_eq!((badge, call.label, call.words()), (5, 7, &words[..]));
    machine.kernel.reply(server.thread, &Message::from_words(8, &[1]));
    assert_eq!(machine.take(client.thread), Some(reply(Message::from_words(8, &[1]))));
    assert!(machine.kernel.is_runnable(client.thread));
    // No caller is left to answer.
    machine.kernel.reply(server.thread, &Message::new(9));
    machine.check();
}

#[test]
fn a_sender_waits_in_turn_until_somebody_receives() {
    let (mut machine, client, server) = pair(10, 20);
    let second = machine.component(10, CPtr::new(0));
    let badged = machine.kernel.cap_at(client.thread, SEND).unwrap();
    assert!(matches!(badged, Capability::Endpoint { badge: 5, .. }));
    let from = machine.in_cnode(client.cnode, SEND.bits());
    let to = machine.in_cnode(second.cnode, SEND.bits());
    machine.kernel.cnode_copy(machine.me, to, from, Rights::WRITE).unwrap();
    machine.kernel.send(client.thread, SEND, &Message::new(1));
    machine.kernel.send(second.thread, SEND, &Message::new(2));
    machine.kernel.nb_receive(server.thread, RECEIVE);
    assert_eq!(message(&mut machine, server.thread).1.label, 1);
    assert_eq!(machine.take(client.thread), Some(Delivery::Nothing));
    assert_eq!(machine.take(second.thread), None);
    machine.kernel.receive(server.thread, RECEIVE);
    assert_eq!(message(&mut machine, server.thread).1.label, 2);
    machine.kernel.nb_receive(server.thread, RECEIVE);
    assert_eq!(machine.take(server.thread), Some(Delivery::Nothing));
}

#[test]
fn nonblocking_send_without_receiver_is_lost() {
    let (mut machine, client, server) = pair(10, 20);
    machine.kernel.nb_send(client.thread, SEND, &Message::new(1));
    assert_eq!(machine.take(client.thread), Some(Delivery::Nothing));
    machine.kernel.nb_receive(server.thread, RECEIVE);
    assert_eq!(machine.take(server.thread), Some(Delivery::Nothing));
    machine.kernel.receive(server.thread, RECEIVE);
    machine.kernel.nb_send(client.thread, SEND, &Message::new(2));
    assert_eq!(message(&mut machine, server.thread).1.label, 2);
}

#[test]
fn without_grant_no_answer_ever_comes() {
    let (mut machine, client, server) = pair(10, 20);
    machine.kernel.cnode_delete(machine.me, machine.in_cnode(client.cnode, SEND.bits())).unwrap();
    let endpoint = machine.in_cnode(server.cnode, RECEIVE.bits());
    let to = machine.in_cnode(client.cnode, SEND.bits());
    machine.kernel.cnode_copy(machine.me, to, endpoint, Rights::WRITE).unwrap();
    machine.kernel.receive(server.thread, RECEIVE);
    machine.kernel.call(client.thread, SEND, &Message::new(1).and_cap(OWN_CNODE));
    assert_eq!(machine.kernel.thread_state(client.thread), Some(ThreadState::Inactive));
    let (_, call) = message(&mut machine, server.thread);
    assert!(!call.cap_received);
    machine.kernel.reply(server.thread, &Message::new(2));
    assert_eq!(machine.take(client.thread), None);
}

#[test]
fn a_capability_goes_along_into_the_receive_slot() {
    let (mut machine, client, server) = pair(10, 20);
    let notification = machine.make::<Notification>(ObjectType::Notification, 0);
    machine.give(client.cnode, SPARE.bits(), notification, Rights::READ);
    machine.kernel.set_receive_slot(server.thread, Some(own_slot(SPARE)));
    machine.kernel.receive(server.thread, RECEIVE);
    machine.kernel.call(client.thread, SEND, &Message::new(1).and_cap(SPARE));
    let (_, call) = message(&mut machine, server.thread);
    assert!(call.cap_received && call.cap.is_none());
    let got = machine.kernel.cap_at(server.thread, SPARE);
    assert!(matches!(got, Some(Capability::Notification { rights: Rights::READ, .. })), "{got:?}");
    // The slot is full now: the next one does not arrive, the message does.
    machine.kernel.reply_receive(server.thread, &Message::new(0), RECEIVE);
    machine.kernel.call(client.thread, SEND, &Message::new(2).and_cap(SPARE));
    let (_, call) = message(&mut machine, server.thread);
    assert_eq!((call.label, call.cap_received), (2, false));
}

/// As seL4 11.0.0 and later. On 5.0.0 grant-reply is grant.
#[test]
fn a_call_through_grant_reply_is_answered_and_carries_no_capability() {
    for is_waiting in [true, false] {
        let (mut machine, client, server) = pair(10, 20);
        let notification = machine.make::<Notification>(ObjectType::Notification, 0);
        machine.give(client.cnode, SPARE.bits(), notification, Rights::ALL);
        let (to, from) = (machine.in_cnode(client.cnode, 5), machine.in_cnode(server.cnode, RECEIVE.bits()));
        machine.kernel.cnode_mint(machine.me, to, from, Rights::CALL, CapData::Badge(Badge(6))).unwrap();
        machine.kernel.set_receive_slot(server.thread, Some(own_slot(SPARE)));
        if is_waiting {
            machine.kernel.receive(server.thread, RECEIVE);
        }
        machine.kernel.call(client.thread, CPtr::new(5), &Message::new(1).and_cap(SPARE));
        if !is_waiting {
            machine.kernel.receive(server.thread, RECEIVE);
        }
        let (badge, call) = message(&mut machine, server.thread);
        assert_eq!((badge, call.label, call.cap_received), (6, 1, false));
        assert_eq!(machine.kernel.cap_at(server.thread, SPARE), Some(Capability::Null));
        machine.kernel.reply(server.thread, &Message::new(2));
        assert_eq!(machine.take(client.thread), Some(reply(Message::new(2))));
    }
}

#[test]
fn an_answer_can_carry_a_capability_too() {
    let (mut machine, client, server) = pair(10, 20);
    let notification = machine.make::<Notification>(ObjectType::Notification, 0);
    machine.give(server.cnode, SPARE.bits(), notification, Rights::ALL);
    machine.kernel.set_receive_slot(client.thread, Some(own_slot(SPARE)));
    machine.kernel.receive(server.thread, RECEIVE);
    machine.kernel.call(client.thread, SEND, &Message::new(1));
    machine.kernel.reply(server.thread, &Message::new(2).and_cap(SPARE));
    match machine.take(client.thread) {
        Some(Delivery::Reply(answer)) => assert!(answer.cap_received),
        other => panic!("{other:?}"),
    }
}

/// As seL4 11.0.0 and later. 5.0.0 lets the answer carry it: `answers_with_capabilities` of `sim/conformance`.
#[test]
fn an_answer_through_read_alone_arrives_without_its_capability() {
    for is_waiting in [true, false] {
        let (mut machine, client, server) = pair(10, 20);
        let notification = machine.make::<Notification>(ObjectType::Notification, 0);
        machine.give(server.cnode, SPARE.bits(), notification, Rights::ALL);
        let through_read = CPtr::new(5);
        let (to, from) = (through_read.bits(), machine.in_cnode(server.cnode, RECEIVE.bits()));
        machine.kernel.cnode_copy(machine.me, machine.in_cnode(server.cnode, to), from, Rights::READ).unwrap();
        machine.kernel.set_receive_slot(client.thread, Some(own_slot(SPARE)));
        if is_waiting {
            machine.kernel.receive(server.thread, through_read);
        }
        machine.kernel.call(client.thread, SEND, &Message::new(1));
        if !is_waiting {
            machine.kernel.receive(server.thread, through_read);
        }
        assert_eq!(message(&mut machine, server.thread).1.label, 1);
        machine.kernel.reply(server.thread, &Message::from_words(2, &[7]).and_cap(SPARE));
        assert_eq!(machine.take(client.thread), Some(reply(Message::from_words(2, &[7]))));
        assert_eq!(machine.kernel.cap_at(client.thread, SPARE), Some(Capability::Null));
    }
}

#[test]
fn a_capability_to_the_endpoint_itself_comes_as_its_badge() {
    let (mut machine, client, server) = pair(10, 20);
    machine.kernel.set_receive_slot(server.thread, Some(own_slot(SPARE)));
    machine.kernel.receive(server.thread, RECEIVE);
    machine.kernel.call(client.thread, SEND, &Message::new(1).and_cap(SEND));
    assert!(!message(&mut machine, server.thread).1.cap_received);
    assert_eq!(machine.kernel.cap_at(server.thread, SPARE), Some(Capability::Null));
    assert_eq!(machine.kernel.unwrapped_capabilities(), 1);
}

#[test]
fn a_caller_can_be_kept_and_answered_later_and_once() {
    let (mut machine, client, server) = pair(10, 20);
    machine.kernel.receive(server.thread, RECEIVE);
    machine.kernel.call(client.thread, SEND, &Message::new(1));
    machine.kernel.cnode_save_caller(server.thread, own_slot(SPARE)).unwrap();
    let taken = machine.kernel.cnode_save_caller(server.thread, own_slot(SPARE));
    assert_eq!(taken, Err(Error::DeleteFirst));
    machine.kernel.receive(server.thread, RECEIVE);
    assert_eq!(machine.kernel.thread_state(client.thread), Some(ThreadState::BlockedOnReply));
    machine.check();
    // The server waits; it continues at the next call.
    let second = machine.component(10, CPtr::new(0));
    let (to, from) = (machine.in_cnode(second.cnode, SEND.bits()), machine.in_cnode(client.cnode, SEND.bits()));
    machine.kernel.cnode_copy(machine.me, to, from, Rights::ALL).unwrap();
    machine.kernel.call(second.thread, SEND, &Message::new(3));
    machine.kernel.send(server.thread, SPARE, &Message::new(4));
    assert_eq!(machine.take(client.thread), Some(reply(Message::new(4))));
    assert_eq!(machine.kernel.cap_at(server.thread, SPARE), Some(Capability::Null));
    machine.kernel.reply(server.thread, &Message::new(5));
    assert_eq!(machine.take(second.thread), Some(reply(Message::new(5))));
}

#[test]
fn receiving_again_gives_up_the_caller() {
    let (mut machine, client, server) = pair(10, 20);
    machine.kernel.receive(server.thread, RECEIVE);
    machine.kernel.call(client.thread, SEND, &Message::new(1));
    machine.kernel.receive(server.thread, RECEIVE);
    machine.check();
    machine.kernel.tcb_suspend(machine.me, client.tcb).unwrap();
    machine.kernel.tcb_resume(machine.me, client.tcb).unwrap();
    // It repeats its operation.
    assert_eq!(machine.take(client.thread), Some(Delivery::Restart));
    machine.check();
}

#[test]
fn who_waits_at_an_endpoint_that_ends_tries_again_and_faults() {
    let (mut machine, client, server) = pair(10, 20);
    machine.kernel.send(client.thread, SEND, &Message::new(1));
    let me = machine.me;
    for (node, slot) in [(client.cnode, SEND), (server.cnode, RECEIVE)] {
        machine.kernel.cnode_delete(me, machine.in_cnode(node, slot.bits())).unwrap();
        machine.check();
    }
    assert_eq!(machine.take(client.thread), None);
    // The root task's own two were the last.
    let slots = machine.root.free_slots.start..machine.root.free_slots.start + 2;
    slots.for_each(|slot| machine.delete(CPtr::new(slot)).unwrap());
    assert_eq!(machine.take(client.thread), Some(Delivery::Restart));
    machine.kernel.send(client.thread, SEND, &Message::new(1));
    // An empty slot is no fault: the send does nothing.
    assert_eq!(machine.take(client.thread), Some(Delivery::Nothing));
}

#[test]
fn a_call_that_cannot_be_sent_is_answered_by_the_kernel() {
    let (mut machine, client, server) = pair(10, 20);
    machine.kernel.call(server.thread, SPARE, &Message::new(1));
    assert_eq!(machine.take(server.thread), Some(reply(Message::from_words(2, &[0]))));
    let receive_only = machine.in_cnode(client.cnode, RECEIVE.bits());
    let endpoint = machine.in_cnode(server.cnode, RECEIVE.bits());
    machine.kernel.cnode_copy(machine.me, receive_only, endpoint, Rights::READ).unwrap();
    machine.kernel.call(client.thread, RECEIVE, &Message::new(1));
    assert_eq!(machine.take(client.thread), Some(reply(Message::from_words(2, &[0]))));
}

#[test]
fn long_messages_are_cut_without_a_buffer() {
    let (mut machine, client, server) = pair(10, 20);
    let (me, cnode, vspace) = (machine.me, client.cnode, client.vspace);
    let frame = machine.root.ipc_buffer_frame;
    let none = Vaddr::new(0);
    machine.kernel.tcb_configure(me, client.tcb, CPtr::new(0), 10, cnode, 60, vspace, none, frame).unwrap();
    machine.kernel.receive(server.thread, RECEIVE);
    machine.kernel.call(client.thread, SEND, &Message::from_words(1, &[1, 2, 3, 4, 5, 6]).and_cap(SEND));
    assert_eq!(message(&mut machine, server.thread).1.words(), [1, 2, 3, 4]);
}
