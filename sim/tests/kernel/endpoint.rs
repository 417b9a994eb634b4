//! Messages, replies and extra capabilities.

use crate::machine::{Component, Machine};
use platform::*;
use sim_kernel::{Capability, Delivery, ThreadId};

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

/// As seL4 11.0.0 and later. On 5.0.0 grant-reply is grant.
#[test]
fn a_call_through_grant_reply_is_answered_and_carries_no_capability() {
    for is_waiting in [true, false] {
        let (mut machine, client, server) = pair(10, 20);
        let notification = machine.make::<Notification>(ObjectType::Notification, 0);
        machine.give(client.cnode, SPARE.bits(), notification, Rights::ALL);
        let (to, from) = (machine.in_cnode(client.cnode, 5), machine.in_cnode(server.cnode, RECEIVE.bits()));
        machine.kernel.cnode_mint(machine.me, to, from, Rights::CALL, CapData::Badge(Badge(6))).unwrap();
        machine.kernel.set_receive_cptr(server.thread, Some(own_slot(SPARE)));
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
