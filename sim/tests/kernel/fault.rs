//! Faults go to the thread's handler.

use crate::machine::{Component, Machine};
use platform::*;
use sim_kernel::{Delivery, Fault, FaultReport};

const FAULTS: CPtr = CPtr::new(1);

/// A component whose faults arrive at an endpoint of the root task's, with badge 9.
fn watched() -> (Machine, Component, Cap<Endpoint>) {
    let mut machine = Machine::new();
    let endpoint = machine.make::<Endpoint>(ObjectType::Endpoint, 0);
    let badged = machine.mint(endpoint, Rights::CALL, CapData::Badge(Badge(9))).unwrap();
    let component = machine.component(10, FAULTS);
    machine.give(component.cnode, FAULTS.bits(), badged, Rights::ALL);
    (machine, component, endpoint)
}

fn report(machine: &mut Machine, endpoint: Cap<Endpoint>) -> FaultReport {
    machine.kernel.nb_receive(machine.me, endpoint.cptr());
    match machine.take(machine.me) {
        Some(Delivery::Message(Badge(9), message)) => FaultReport::decode(&message).unwrap(),
        other => panic!("{other:?} is no fault"),
    }
}

#[test]
fn a_wrong_path_is_reported_with_why_it_ends() {
    let (mut machine, component, endpoint) = watched();
    let wild = CPtr::new(1 << 30);
    machine.kernel.receive(component.thread, wild);
    machine.kernel.nb_receive(machine.me, endpoint.cptr());
    let Some(Delivery::Message(_, message)) = machine.take(machine.me) else { panic!("no fault came") };
    let report = FaultReport::decode(&message).unwrap();
    assert_eq!(report.fault, Fault::Capability { cptr: wild, is_receiving: true });
    // A guard that differs: its number, bits left, the guard, its bits.
    assert_eq!(message.words()[3..], [4, 64, 0, 60]);
}

#[test]
fn an_exception_is_survived_when_the_answer_says_so() {
    for (label, goes_on) in [(0, true), (1, false)] {
        let (mut machine, component, endpoint) = watched();
        machine.kernel.fault(component.thread, Fault::Exception(6));
        assert_eq!(report(&mut machine, endpoint).fault, Fault::Exception(6));
        machine.kernel.reply(machine.me, &Message::from_words(label, &[0x40_0002, 0x9000]));
        assert_eq!(machine.kernel.is_runnable(component.thread), goes_on);
        assert_eq!(machine.kernel.registers(component.thread).instruction_pointer, 0x40_0002);
        machine.check();
    }
}

#[test]
fn an_unknown_system_call_is_reported_by_number() {
    let (mut machine, component, endpoint) = watched();
    machine.kernel.fault(component.thread, Fault::UnknownSyscall(77));
    let report = report(&mut machine, endpoint);
    assert_eq!((report.fault, report.instruction), (Fault::UnknownSyscall(77), 0x40_0000));
}

#[test]
fn ordinary_messages_are_no_faults() {
    assert_eq!(FaultReport::decode(&Message::new(0)), None);
    assert_eq!(FaultReport::decode(&Message::from_words(5, &[1])), None);
    assert_eq!(FaultReport::decode(&Message::from_words(4, &[1; 8])), None);
}
