//! Differences of the AArch64 machine: memory, interrupts, and the objects that its kernel lacks.

use crate::machine::{CNODE_BITS, Machine};
use platform::*;
use sim_kernel::{Access, Delivery, Level, MachineConfig, Rules};

/// The first interrupt of PCI's pins, and one of the GICv2m's.
const PIN: u8 = 35;
const MESSAGE: u8 = 111;

fn virt() -> Machine {
    virt_with(Rules::CORRECTED)
}

fn virt_with(rules: Rules) -> Machine {
    Machine::with(|config| {
        let kernel_bytes = config.kernel_bytes;
        let virt = MachineConfig::virt(16 << 20, b"payload".to_vec());
        *config = MachineConfig { cnode_bits: CNODE_BITS, kernel_bytes, rules, ..virt };
    })
}

fn get(machine: &mut Machine, source: IrqSource, irq: u8) -> Result<Cap<IrqHandler>> {
    let slot = CPtr::new(machine.slot());
    let (control, dest) = (machine.root.irq_control, machine.at(slot));
    machine.kernel.irq_control_get(machine.me, control, dest, source, irq)?;
    machine.check();
    Ok(slot.cast())
}

/// A handler, and the notification that it signals.
fn handler(machine: &mut Machine, source: IrqSource) -> (Cap<IrqHandler>, Cap<Notification>) {
    let handler = get(machine, source, MESSAGE).unwrap();
    let notification = machine.make::<Notification>(ObjectType::Notification, 0);
    let badge = CapData::Badge(Badge(Badge::SIGNAL | 4));
    let badged = machine.mint(notification, Rights::WRITE, badge).unwrap();
    machine.kernel.irq_handler_set_notification(machine.me, handler, badged).unwrap();
    (handler, notification)
}

fn came(machine: &mut Machine, notification: Cap<Notification>) -> bool {
    machine.kernel.nb_receive(machine.me, notification.cptr());
    matches!(machine.take(machine.me), Some(Delivery::Signal(_)))
}

#[test]
fn memory_is_where_the_platform_has_it() {
    let machine = virt();
    let covers = |paddr: u64, is_device: bool| {
        machine.root.untypeds.iter().any(|untyped| {
            let first = untyped.paddr.bits();
            untyped.is_device == is_device && (first..first + (1 << untyped.size_bits)).contains(&paddr)
        })
    };
    for device in [0x0802_0000, 0x0900_0000, 0x0905_0000, 0x0906_ffff, 0x1000_0000, 0x3fff_ffff] {
        assert!(covers(device, true), "{device:#x}");
    }
    assert!(covers(0x4080_0000, false) && !covers(0x4080_0000, true));
    // The interrupt controller is the kernel's.
    assert!(!covers(0x0800_0000, true) && !covers(0x0801_0000, true));
}

#[test]
fn message_is_masked_until_the_ack_and_not_lost() {
    let mut machine = virt();
    assert!(machine.kernel.irq_masks_messages());
    let (handler, notification) = handler(&mut machine, IrqSource::Message { requester_id: 8 });
    let (address, data) = machine.kernel.msi_message(MESSAGE);
    assert_eq!((address, data), (0x0802_0040, u32::from(MESSAGE)));
    machine.kernel.message_interrupt(address, data);
    assert!(came(&mut machine, notification));
    machine.kernel.message_interrupt(address, data);
    machine.kernel.message_interrupt(address, data);
    assert!(!came(&mut machine, notification));
    machine.kernel.irq_handler_ack(machine.me, handler).unwrap();
    assert!(came(&mut machine, notification), "edges that came while it was masked are pending, as one");
    machine.kernel.irq_handler_ack(machine.me, handler).unwrap();
    for (address, data) in [(address + 4, data), (address, data + 1), (address, 144), (address, 79)] {
        machine.kernel.message_interrupt(address, data);
    }
    assert!(!came(&mut machine, notification));
}

#[test]
fn a_line_is_a_level_whatever_was_asked_for() {
    let mut machine = virt();
    let (handler, notification) = handler(&mut machine, IrqSource::Line { line: PIN, trigger: Trigger::Edge });
    machine.kernel.line_interrupt(PIN, Level::Asserted);
    assert!(came(&mut machine, notification) && !came(&mut machine, notification));
    machine.kernel.irq_handler_ack(machine.me, handler).unwrap();
    assert!(came(&mut machine, notification));
    machine.kernel.line_interrupt(PIN, Level::Deasserted);
    machine.kernel.irq_handler_ack(machine.me, handler).unwrap();
    assert!(!came(&mut machine, notification));
}

#[test]
fn io_spaces_and_ports_are_not_there() {
    for rules in [Rules::CORRECTED, Rules::STOCK] {
        let mut machine = virt_with(rules);
        let slot = machine.slot();
        let cnode = machine.root.cnode;
        let (me, untyped) = (machine.me, machine.untyped);
        let made = machine.kernel.untyped_retype(me, untyped, ObjectType::IoPageTable, 0, cnode, slot..slot + 1);
        assert_eq!(made, Err(Error::InvalidArgument(0)));
        let (space, ports) = (CapData::IoSpace { domain: 1, requester_id: 8 }, CapData::IoPorts(1, 2));
        assert_eq!(machine.mint(machine.root.io_space_master, Rights::ALL, space), Err(Error::IllegalOperation));
        assert_eq!(machine.mint(machine.root.io_ports, Rights::ALL, ports), Err(Error::IllegalOperation));
        assert!(machine.kernel.ioport_allowed(me, machine.root.io_ports, 0x3f8, 1).is_err());
    }
}

#[test]
fn pages_that_can_be_written_are_not_executed_and_others_are() {
    let mut machine = virt();
    let component = machine.component(100, CPtr::new(0));
    let executes = |machine: &mut Machine, rights, attributes| {
        let frame = machine.make::<Frame>(ObjectType::SmallPage, 0);
        let vaddr = Vaddr::new(0x5000);
        machine.kernel.frame_map(machine.me, frame, component.vspace, vaddr, rights, attributes).unwrap();
        let executes = machine.kernel.translate(component.thread, vaddr, Access::Execute).is_ok();
        machine.kernel.frame_unmap(machine.me, frame).unwrap();
        machine.check();
        executes
    };
    let memory = CacheAttributes::WriteBack;
    assert!(executes(&mut machine, Rights::READ, memory));
    assert!(executes(&mut machine, Rights::default(), memory), "execute needs no read right");
    assert!(!executes(&mut machine, Rights::READ_WRITE, memory) && !executes(&mut machine, Rights::WRITE, memory));
    assert!(!executes(&mut machine, Rights::READ, CacheAttributes::Uncached));
}

#[test]
fn there_are_128_pools_of_identifiers() {
    let mut machine = virt();
    let mut make = || {
        let page = machine.make::<Untyped>(ObjectType::Untyped, 12);
        let dest = CPtr::new(machine.slot());
        let (control, dest) = (machine.root.asid_control, machine.at(dest));
        machine.kernel.asid_control_make_pool(machine.me, control, page, dest)
    };
    // One is the root task's.
    for _ in 1..128 {
        make().unwrap();
    }
    assert_eq!(make(), Err(Error::DeleteFirst));
}
