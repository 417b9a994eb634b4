//! The root task's capabilities and memory at boot.

use crate::machine::Machine;
use platform::*;
use sim_kernel::{Access, Iommu, Kernel, MachineConfig};

#[test]
fn the_root_task_runs_and_reads_its_payload() {
    let machine = Machine::new();
    assert_eq!(machine.kernel.current(), Some(machine.me));
    let payload = &machine.root.payload;
    assert_eq!(payload.len, 4096);
    let paddr = machine.kernel.translate(machine.me, payload.vaddr, Access::Read).unwrap();
    assert_eq!(&machine.kernel.memory().page(paddr).unwrap()[..7], b"payload");
}

#[test]
fn untypeds_cover_what_is_free_and_do_not_overlap() {
    let (kernel, root) = Kernel::boot(MachineConfig::q35(256 << 20, vec![1; 3 << 20]));
    let mut ranges: Vec<_> = root.untypeds.iter().map(|u| (u.paddr.bits(), 1u64 << u.size_bits, u.is_device)).collect();
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:x?}");
    }
    for (paddr, size, is_device) in ranges {
        assert_eq!(paddr % size, 0);
        assert_eq!(kernel.memory().contains(Paddr::new(paddr)), !is_device, "{paddr:#x}");
    }
    let memory: u64 = root.untypeds.iter().filter(|u| !u.is_device).map(|u| 1u64 << u.size_bits).sum();
    assert!(memory > 220 << 20, "{memory}");
}

#[test]
fn the_interrupt_controllers_are_nobodys() {
    let (_, root) = Kernel::boot(MachineConfig::q35(256 << 20, Vec::new()));
    for page in [0xfec0_0000u64, 0xfee0_0000] {
        let holder =
            root.untypeds.iter().find(|u| (u.paddr.bits()..u.paddr.bits() + (1 << u.size_bits)).contains(&page));
        assert_eq!(holder, None);
    }
}

#[test]
fn without_an_iommu_there_is_no_master_and_dma_goes_everywhere() {
    let mut machine = Machine::with(|config| config.iommu = Iommu::Absent);
    assert_eq!(machine.root.iommu_levels, 0);
    let data = CapData::IoSpace { domain: 1, requester_id: 8 };
    let minted = machine.mint(machine.root.io_space_master, Rights::ALL, data);
    assert_eq!(minted, Err(Error::FailedLookup));
    assert_eq!(machine.kernel.io_translate(8, 0x1234, Access::Write), Ok(Paddr::new(0x1234)));
}

#[test]
fn the_window_lacks_structures_below_the_second_level() {
    let mut machine = Machine::new();
    let (directory, table) = (
        machine.make(ObjectType::TranslationTable(TableLevel::Two), 0),
        machine.make(ObjectType::TranslationTable(TableLevel::Three), 0),
    );
    let (vspace, vaddr) = (machine.root.vspace, machine.root.mapping_area.vaddr);
    let (me, kernel) = (machine.me, &mut machine.kernel);
    assert_eq!(kernel.translation_table_map(me, table, TableLevel::Three, vspace, vaddr), Err(Error::FailedLookup));
    assert_eq!(kernel.translation_table_map(me, directory, TableLevel::Two, vspace, vaddr), Ok(()));
    assert_eq!(kernel.translation_table_map(me, table, TableLevel::Three, vspace, vaddr), Ok(()));
    machine.check();
}
