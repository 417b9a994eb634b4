//! Memory that devices reach.

use crate::machine::Machine;
use platform::*;
use sim_kernel::{Access, IoFault};

const FUNCTION: u16 = 0x0118;
const IOVA: Iova = Iova::new(0x4_5000);

struct Dma {
    machine: Machine,
    space: Cap<IoSpace>,
    tables: Vec<Cap<IoPageTable>>,
}

/// A machine with the IOSpace of one function and its page tables for the first 2 MiB.
fn dma() -> Dma {
    let mut machine = Machine::new();
    let space = mint(&mut machine, 1, FUNCTION);
    let tables: Vec<_> = (0..3).map(|_| machine.make::<IoPageTable>(ObjectType::IoPageTable, 0)).collect();
    for table in &tables {
        machine.kernel.io_page_table_map(machine.me, *table, space, IOVA).unwrap();
        machine.check();
    }
    Dma { machine, space, tables }
}

fn mint(machine: &mut Machine, domain: u16, requester_id: u16) -> Cap<IoSpace> {
    let data = CapData::IoSpace { domain, requester_id };
    machine.mint(machine.root.io_space_master, Rights::ALL, data).unwrap()
}

impl Dma {
    fn frame(&mut self) -> (Cap<Frame>, Paddr) {
        let frame = self.machine.make::<Frame>(ObjectType::SmallPage, 0);
        let paddr = self.machine.kernel.frame_get_address(self.machine.me, frame).unwrap();
        (frame, paddr)
    }

    fn map(&mut self, frame: Cap<Frame>, rights: Rights, iova: u64) -> Result<()> {
        let machine = &mut self.machine;
        let mapped = machine.kernel.frame_map_io(machine.me, frame, self.space, rights, Iova::new(iova));
        machine.check();
        mapped
    }

    fn reaches(&mut self, iova: u64, access: Access) -> Option<Paddr> {
        self.machine.kernel.io_translate(FUNCTION, iova, access).ok()
    }
}

#[test]
fn a_mapped_page_is_reached_by_its_function_alone() {
    let mut dma = dma();
    let (frame, paddr) = dma.frame();
    dma.map(frame, Rights::READ_WRITE, IOVA.bits()).unwrap();
    let inside = IOVA.bits() + 0x10;
    assert_eq!(dma.reaches(inside, Access::Write), paddr.checked_add(0x10));
    let fault = IoFault { requester_id: 0x0119, iova: inside, access: Access::Read };
    assert_eq!(dma.machine.kernel.io_translate(0x0119, inside, Access::Read), Err(fault));
    assert_eq!(dma.machine.kernel.io_faults(), [fault]);
    assert_eq!(dma.reaches(inside + 0x1000, Access::Read), None);
    assert_eq!(dma.reaches(inside + (1 << 39), Access::Read), None);
}

#[test]
fn rights_are_those_of_the_mapping_and_the_capability() {
    let mut dma = dma();
    let (frame, _) = dma.frame();
    let read_only = dma.machine.copy(frame, Rights::READ).unwrap();
    dma.map(frame, Rights::WRITE, 0x1000).unwrap();
    dma.map(read_only, Rights::READ_WRITE, 0x2000).unwrap();
    assert!(dma.reaches(0x1000, Access::Write).is_some() && dma.reaches(0x1000, Access::Read).is_none());
    assert!(dma.reaches(0x2000, Access::Read).is_some() && dma.reaches(0x2000, Access::Write).is_none());
    let other = dma.machine.copy(read_only, Rights::ALL).unwrap();
    assert_eq!(dma.map(other, Rights::WRITE, 0x3000), Err(Error::InvalidArgument(0)));
}

#[test]
fn an_unmapped_or_deleted_frame_is_out_of_reach() {
    let mut dma = dma();
    let (frame, _) = dma.frame();
    dma.map(frame, Rights::READ_WRITE, 0x1000).unwrap();
    let copy = dma.machine.copy(frame, Rights::ALL).unwrap();
    dma.map(copy, Rights::READ_WRITE, 0x2000).unwrap();
    dma.machine.kernel.frame_unmap(dma.machine.me, frame).unwrap();
    assert!(dma.reaches(0x1000, Access::Read).is_none() && dma.reaches(0x2000, Access::Read).is_some());
    dma.machine.delete(copy.cptr()).unwrap();
    assert_eq!(dma.reaches(0x2000, Access::Read), None);
}

#[test]
fn an_unmapped_table_is_empty_and_has_no_copies() {
    let mut dma = dma();
    let (frame, _) = dma.frame();
    dma.map(frame, Rights::READ_WRITE, 0x1000).unwrap();
    let last = dma.tables[2];
    let copy = dma.machine.copy(last, Rights::ALL).unwrap();
    let (me, space) = (dma.machine.me, dma.space);
    assert_eq!(dma.machine.kernel.io_page_table_unmap(me, last), Err(Error::RevokeFirst));
    dma.machine.delete(copy.cptr()).unwrap();
    dma.machine.kernel.io_page_table_unmap(me, last).unwrap();
    assert_eq!(dma.reaches(0x1000, Access::Read), None);
    dma.machine.kernel.io_page_table_map(me, last, space, Iova::new(0)).unwrap();
    assert_eq!(dma.reaches(0x1000, Access::Read), None);
    dma.machine.check();
}

#[test]
fn deleting_the_io_space_closes_it() {
    let mut dma = dma();
    let (frame, _) = dma.frame();
    dma.map(frame, Rights::READ_WRITE, 0x1000).unwrap();
    let copy = dma.machine.copy(dma.space, Rights::ALL).unwrap();
    dma.machine.delete(dma.space.cptr()).unwrap();
    assert!(dma.reaches(0x1000, Access::Read).is_some());
    dma.machine.delete(copy.cptr()).unwrap();
    assert_eq!(dma.reaches(0x1000, Access::Read), None);
}

#[test]
fn a_function_given_to_another_starts_from_nothing() {
    let mut dma = dma();
    let (frame, _) = dma.frame();
    dma.map(frame, Rights::READ_WRITE, 0x1000).unwrap();
    dma.machine.delete(dma.space.cptr()).unwrap();
    let space = mint(&mut dma.machine, 2, FUNCTION);
    let me = dma.machine.me;
    // The old tables still have their places and must be unmapped first.
    let kept = dma.machine.kernel.io_page_table_map(me, dma.tables[1], space, IOVA);
    assert_eq!(kept, Err(Error::InvalidCapability(0)));
    for table in dma.tables.clone() {
        dma.machine.kernel.io_page_table_unmap(me, table).unwrap();
        dma.machine.kernel.io_page_table_map(me, table, space, IOVA).unwrap();
        dma.machine.check();
    }
    assert_eq!(dma.reaches(0x1000, Access::Read), None);
    // The frame's capability still has its mapping; unmapping it has no effect.
    dma.machine.kernel.frame_unmap(me, frame).unwrap();
    dma.space = space;
    dma.map(frame, Rights::READ_WRITE, 0x1000).unwrap();
    assert!(dma.reaches(0x1000, Access::Read).is_some());
}
