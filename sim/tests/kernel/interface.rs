//! The interface of seL4 13.0.0 and later, where it differs from that of 5.0.0: each test on both.

use crate::machine::{CNODE_BITS, Machine};
use platform::*;
use sim_kernel::{Access, Capability, Delivery, Fault, FaultReport, Interface, MachineConfig, Rules};

const BOTH: [Interface; 2] = [Interface::Old, Interface::Current];
const PLACE: Vaddr = Vaddr::new(0x8000);
const OTHER: Vaddr = Vaddr::new(0x9000);
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
fn a_frame_is_mapped_again_in_its_place_alone() {
    for interface in BOTH {
        let mut machine = machine(interface);
        let component = machine.component(10, CPtr::new(0));
        let frame = machine.make::<Frame>(ObjectType::SmallPage, 0);
        let mut map = |vspace, vaddr, rights| {
            machine.kernel.frame_map(machine.me, frame, vspace, vaddr, rights, CacheAttributes::WriteBack)
        };
        assert_eq!(map(component.vspace, PLACE, Rights::READ_WRITE), Ok(()));
        let refused = |error| by(interface, Err(Error::InvalidCapability(0)), error);
        assert_eq!(map(component.vspace, OTHER, Rights::READ), refused(Err(Error::InvalidArgument(0))));
        assert_eq!(map(machine.root.vspace, PLACE, Rights::READ), refused(Err(Error::InvalidCapability(1))));
        assert_eq!(map(component.vspace, PLACE, Rights::READ), refused(Ok(())));
        machine.check();
        let writes = machine.kernel.translate(component.thread, PLACE, Access::Write).is_ok();
        assert_eq!(writes, interface == Interface::Old, "the second mapping has fewer rights");
    }
}

#[test]
fn a_guard_has_more_bits() {
    for interface in BOTH {
        let mut machine = machine(interface);
        let cnode = machine.make::<CNode>(ObjectType::CNode, 4);
        let value = 1 << 40;
        let guarded = machine.mint(cnode, Rights::ALL, CapData::Guard { size: 50, value }).unwrap();
        let dest = AbsoluteCPtr { root: guarded, index: value << 4 | 3, depth: 54 };
        let copied = machine.kernel.cnode_copy(machine.me, dest, machine.at(machine.root.tcb.cptr()), Rights::ALL);
        assert_eq!(copied, by(interface, Err(Error::FailedLookup), Ok(())));
    }
}

#[test]
fn sizes_are_refused_with_the_limit_that_is_there() {
    for interface in BOTH {
        let mut machine = machine(interface);
        let (me, untyped, cnode) = (machine.me, machine.untyped, machine.root.cnode);
        let slot = machine.slot();
        let mut retype =
            |object, size_bits| machine.kernel.untyped_retype(me, untyped, object, size_bits, cnode, slot..slot + 1);
        let max = by(interface, 61, 47);
        for (object, size_bits) in [(ObjectType::Untyped, 48), (ObjectType::CNode, 48), (ObjectType::Endpoint, 64)] {
            assert_eq!(retype(object, size_bits), Err(Error::RangeError { min: 0, max }), "{object:?} {size_bits}");
        }
        let large = by(interface, Error::NotEnoughMemory(1 << 23), Error::RangeError { min: 0, max });
        assert_eq!(retype(ObjectType::CNode, 47), Err(large), "the object is larger than the size");
        let unused = by(interface, Err(Error::RangeError { min: 0, max }), Ok(()));
        assert_eq!(retype(ObjectType::Endpoint, 63), unused, "a size that has no meaning");
    }
}

#[test]
fn a_thread_that_is_woken_goes_behind_its_equal_that_runs() {
    for interface in BOTH {
        let mut machine = machine(interface);
        let endpoint = machine.make::<Endpoint>(ObjectType::Endpoint, 0);
        let components = [0; 3].map(|_| machine.component(10, CPtr::new(0)));
        for component in components {
            machine.give(component.cnode, SEND.bits(), endpoint, Rights::ALL);
        }
        machine.kernel.tcb_suspend(machine.me, machine.root.tcb).unwrap();
        let receiver = machine.kernel.current().unwrap();
        machine.kernel.receive(receiver, SEND);
        let sender = machine.kernel.current().unwrap();
        machine.kernel.send(sender, SEND, &Message::new(1));
        machine.check();
        let order: Vec<_> = machine.kernel.runnable_at(10).collect();
        assert_eq!(order.len(), 3);
        assert_eq!(machine.kernel.current(), Some(by(interface, receiver, sender)));
        assert_eq!(order.last() == Some(&receiver), interface == Interface::Current, "{order:?}");
    }
}

#[test]
fn an_ipc_buffer_is_aligned_to_more() {
    for interface in BOTH {
        let mut machine = machine(interface);
        let component = machine.component(10, CPtr::new(0));
        let frame = machine.make::<Frame>(ObjectType::SmallPage, 0);
        let (me, buffer) = (machine.me, Vaddr::new(0x20_0200));
        let (tcb, cnode, vspace) = (component.tcb, component.cnode, component.vspace);
        let configured = machine.kernel.tcb_configure(me, tcb, CPtr::new(0), 10, cnode, 60, vspace, buffer, frame);
        assert_eq!(configured, by(interface, Ok(()), Err(Error::AlignmentError)));
        machine.check();
    }
}

#[test]
fn a_table_of_aarch64_serves_the_next_level_that_lacks_one() {
    for interface in BOTH {
        let mut machine = virt(interface);
        let vspace = machine.make::<VSpace>(ObjectType::VSpace, 0);
        machine.kernel.asid_pool_assign(machine.me, machine.root.asid_pool, vspace).unwrap();
        let lowest = ObjectType::TranslationTable(TableLevel::Three);
        let mut map = || {
            let table = machine.make(lowest, 0);
            machine.kernel.translation_table_map(machine.me, table, TableLevel::Three, vspace, PLACE)
        };
        let results: [_; 4] = core::array::from_fn(|_| map());
        let missing = [Err(Error::FailedLookup); 4];
        assert_eq!(results, by(interface, missing, [Ok(()), Ok(()), Ok(()), Err(Error::DeleteFirst)]));
        let frame = machine.make::<Frame>(ObjectType::SmallPage, 0);
        let (me, rights) = (machine.me, Rights::READ);
        let mapped = machine.kernel.frame_map(me, frame, vspace, PLACE, rights, CacheAttributes::WriteBack);
        assert_eq!(mapped, by(interface, Err(Error::FailedLookup), Ok(())));
        machine.check();
    }
}

#[test]
fn addresses_of_aarch64_end_earlier() {
    for interface in BOTH {
        let mut machine = virt(interface);
        let vspace = machine.make::<VSpace>(ObjectType::VSpace, 0);
        machine.kernel.asid_pool_assign(machine.me, machine.root.asid_pool, vspace).unwrap();
        let table = machine.make(ObjectType::TranslationTable(TableLevel::One), 0);
        let beyond = Vaddr::new(1 << 47);
        let mapped = machine.kernel.translation_table_map(machine.me, table, TableLevel::One, vspace, beyond);
        assert_eq!(mapped, by(interface, Ok(()), Err(Error::InvalidArgument(0))));
    }
}

#[test]
fn a_second_frame_replaces_the_first() {
    for interface in BOTH {
        let mut machine = machine(interface);
        let component = machine.component(10, CPtr::new(0));
        let frames = [(); 2].map(|()| machine.make::<Frame>(ObjectType::SmallPage, 0));
        let (me, vspace) = (machine.me, component.vspace);
        let map = |machine: &mut Machine, frame| {
            machine.kernel.frame_map(me, frame, vspace, PLACE, Rights::READ, CacheAttributes::WriteBack)
        };
        assert_eq!(map(&mut machine, frames[0]), Ok(()));
        assert_eq!(map(&mut machine, frames[1]), by(interface, Err(Error::DeleteFirst), Ok(())));
        let there = machine.kernel.translate(component.thread, PLACE, Access::Read).unwrap();
        let of = |machine: &mut Machine, frame| machine.kernel.frame_get_address(me, frame).unwrap();
        assert_eq!(there, of(&mut machine, by(interface, frames[0], frames[1])));
        machine.check();
    }
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
fn an_unknown_call_of_an_irq_control_is_no_truncated_message() {
    for interface in BOTH {
        let mut machine = machine(interface);
        let control = machine.root.irq_control.cptr().cast();
        let unknown = machine.kernel.irq_handler_ack(machine.me, control);
        assert_eq!(unknown, Err(by(interface, Error::TruncatedMessage, Error::IllegalOperation)));
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

#[test]
fn a_fault_reports_the_whole_address() {
    for interface in BOTH {
        let mut machine = machine(interface);
        let endpoint = machine.make::<Endpoint>(ObjectType::Endpoint, 0);
        let component = machine.component(10, SEND);
        machine.give(component.cnode, SEND.bits(), endpoint, Rights::ALL);
        let far = 0x12_3456_7000;
        machine.kernel.fault(component.thread, Fault::Vm { vaddr: far, access: Access::Read });
        machine.kernel.nb_receive(machine.me, endpoint.cptr());
        let Some(Delivery::Message(_, message)) = machine.kernel.take(machine.me) else { panic!("no fault") };
        let reported = FaultReport::decode(&message).unwrap().fault;
        let Fault::Vm { vaddr, .. } = reported else { panic!("{reported:?}") };
        assert_eq!(vaddr, by(interface, far & 0xffff_ffff, far));
    }
}
