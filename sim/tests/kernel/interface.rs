//! The interface of seL4 13.0.0 and later, where it differs from that of 5.0.0: each test on both.

use crate::machine::{CNODE_BITS, Machine};
use platform::*;
use sim_kernel::{Capability, Delivery, Interface, MachineConfig, Rules};

const BOTH: [Interface; 2] = [Interface::Old, Interface::Current];
const SEND: CPtr = CPtr::new(1);

fn machine(interface: Interface) -> Machine {
    Machine::with(|config| config.rules = Rules { interface, ..Rules::CORRECTED })
}

fn virt(interface: Interface) -> Machine {
    Machine::with(|config| {
        let kernel_bytes = config.kernel_bytes;
        let rules = Rules { interface, ..Rules::CORRECTED };
        let virt = MachineConfig::virt(16 << 20, Vec::new());
        *config = MachineConfig { cnode_bits: CNODE_BITS, kernel_bytes, rules, ..virt };
    })
}

/// `old` on 5.0.0, `current` on later kernels.
fn by<T>(interface: Interface, old: T, current: T) -> T {
    if interface == Interface::Current { current } else { old }
}

#[test]
fn the_last_addresses_of_a_pc_are_refused_for_the_range_or_the_alignment() {
    for interface in BOTH {
        let mut machine = machine(interface);
        let component = machine.component(10, CPtr::new(0));
        let frame = machine.make::<Frame>(ObjectType::SmallPage, 0);
        let (me, vspace) = (machine.me, component.vspace);
        let mut map = |vaddr| {
            let vaddr = Vaddr::new(vaddr);
            machine.kernel.frame_map(me, frame, vspace, vaddr, Rights::READ, CacheAttributes::WriteBack)
        };
        let range = Err(Error::InvalidArgument(0));
        assert_eq!(map(0x7fff_ffff_e800), by(interface, range, Err(Error::AlignmentError)));
        assert_eq!(map(0x7fff_ffff_f000), range);
        assert_eq!(map(0xffff_ffff_ffff_f000), by(interface, Err(Error::FailedLookup), range));
    }
}

#[test]
fn an_endpoints_badge_has_more_bits() {
    for interface in BOTH {
        let mut machine = machine(interface);
        let endpoint = machine.make::<Endpoint>(ObjectType::Endpoint, 0);
        // A word that the seam makes of no badge.
        let minted = machine.mint(endpoint, Rights::ALL, CapData::Guard { size: 0, value: 1 << 17 });
        let badge = minted.ok().map(|cap| machine.kernel.cap_at(machine.me, cap.cptr()));
        let is_large = |cap| matches!(cap, Some(Capability::Endpoint { badge, .. }) if badge == 1 << 23);
        assert_eq!(badge.is_some_and(is_large), interface == Interface::Current);
    }
}

#[test]
fn no_guard_leaves_that_of_the_capability() {
    for interface in BOTH {
        let mut machine = machine(interface);
        let component = machine.component(10, CPtr::new(0));
        let guarded = machine.mint(component.cnode, Rights::ALL, CapData::Guard { size: 60, value: 0 }).unwrap();
        let none = Cap::from_bits(0);
        let (me, tcb, vspace, zero) = (machine.me, component.tcb, component.vspace, Vaddr::new(0));
        machine.kernel.tcb_configure(me, tcb, CPtr::new(0), 10, guarded, 0, vspace, zero, none).unwrap();
        machine.give(component.cnode, SEND.bits(), tcb, Rights::ALL);
        let found = machine.kernel.cap_at(component.thread, SEND);
        let is_own = found == Some(Capability::Thread(component.thread));
        assert_eq!(is_own, interface == Interface::Current, "{found:?}");
    }
}

#[test]
fn a_priority_needs_a_tcb_of_the_caller() {
    for interface in BOTH {
        let mut machine = machine(interface);
        let component = machine.component(10, CPtr::new(0));
        machine.copy(machine.root.tcb, Rights::ALL).unwrap();
        machine.delete(machine.root.tcb.cptr()).unwrap();
        let (me, none, zero) = (machine.me, Cap::from_bits(0), Vaddr::new(0));
        let (tcb, cnode, vspace) = (component.tcb, component.cnode, component.vspace);
        let configured = machine.kernel.tcb_configure(me, tcb, CPtr::new(0), 20, cnode, 60, vspace, zero, none);
        assert_eq!(configured, by(interface, Ok(()), Err(Error::InvalidCapability(1))));
        let order = [20, 10].map(|priority| machine.kernel.runnable_at(priority).count());
        assert_eq!(order, by(interface, [1, 0], [0, 1]));
    }
}

#[test]
fn a_configuration_that_reaches_an_endpoint_has_as_many_words_as_the_kernel_takes() {
    for interface in BOTH {
        let mut machine = machine(interface);
        let endpoint = machine.make::<Endpoint>(ObjectType::Endpoint, 0);
        let component = machine.component(10, CPtr::new(0));
        machine.give(component.cnode, SEND.bits(), endpoint, Rights::ALL);
        let (me, none, zero) = (machine.me, Cap::from_bits(0), Vaddr::new(0));
        let (cnode, vspace) = (component.cnode, component.vspace);
        let _ =
            machine.kernel.tcb_configure(me, endpoint.cptr().cast(), CPtr::new(0), 20, cnode, 60, vspace, zero, none);
        machine.kernel.receive(component.thread, SEND);
        let Some(Delivery::Message(_, message)) = machine.kernel.take(component.thread) else { panic!("no message") };
        assert_eq!(message.words().len(), by(interface, 5, 4));
    }
}

#[test]
fn interrupts_of_aarch64_end_earlier() {
    for interface in BOTH {
        let mut machine = virt(interface);
        let last = by(interface, 255, 159);
        assert_eq!(machine.kernel.irq_count(), last);
        let slot = CPtr::new(machine.slot());
        let (control, dest) = (machine.root.irq_control, machine.at(slot));
        let source = IrqSource::Line { line: 160, trigger: Trigger::LevelLow };
        let made = machine.kernel.irq_control_get(machine.me, control, dest, source, 160);
        assert_eq!(made, by(interface, Ok(()), Err(Error::RangeError { min: 0, max: last.into() })));
    }
}
