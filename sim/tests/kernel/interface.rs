//! The interface of seL4 13.0.0 and later, where it differs from that of 5.0.0: each difference on both.

use crate::machine::{CNODE_BITS, Machine};
use platform::*;
use sim_kernel::{Access, Interface, MachineConfig, Rules};

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

/// Whether the interface is that of later kernels: `value` there, `old` on 5.0.0.
fn by<T>(interface: Interface, old: T, value: T) -> T {
    if interface == Interface::Current { value } else { old }
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
