//! The rules in which released kernels differ from the project's corrected one: each on both.

use crate::machine::Machine;
use platform::*;
use sim_kernel::{Access, Capability, Correction, Ports, Rules};

const FUNCTION: u16 = 0x0118;
const IOVA: Iova = Iova::new(0x4_5000);

/// A machine whose kernel lacks one correction, or has all.
fn machine(rules: Rules) -> Machine {
    Machine::with(|config| config.rules = rules)
}

fn is_there<T: CapType>(machine: &Machine, cap: Cap<T>) -> bool {
    machine.kernel.cap_at(machine.me, cap.cptr()) != Some(Capability::Null)
}

fn mint_ports(machine: &mut Machine, first: u16, last: u16) -> Result<Cap<IoPort>> {
    machine.mint(machine.root.io_ports, Rights::ALL, CapData::IoPorts(first, last))
}

fn mint_space(machine: &mut Machine, domain: u16, requester_id: u16) -> Cap<IoSpace> {
    let data = CapData::IoSpace { domain, requester_id };
    machine.mint(machine.root.io_space_master, Rights::ALL, data).unwrap()
}

/// A function's address space with a page at [`IOVA`], which the function has read.
struct Space {
    space: Cap<IoSpace>,
    /// From the top.
    tables: [Cap<IoPageTable>; 3],
    frame: Cap<Frame>,
}

/// Makes the tables and the page from an untyped of their own, which is returned.
fn space(machine: &mut Machine) -> (Cap<Untyped>, Space) {
    let untyped = machine.make::<Untyped>(ObjectType::Untyped, 16);
    (untyped, space_of(machine, untyped))
}

fn space_of(machine: &mut Machine, untyped: Cap<Untyped>) -> Space {
    let space = mint_space(machine, 1, FUNCTION);
    let (me, outer) = (machine.me, core::mem::replace(&mut machine.untyped, untyped));
    let tables = [(); 3].map(|()| machine.make::<IoPageTable>(ObjectType::IoPageTable, 0));
    let frame = machine.make::<Frame>(ObjectType::SmallPage, 0);
    machine.untyped = outer;
    for table in tables {
        machine.kernel.io_page_table_map(me, table, space, IOVA).unwrap();
    }
    machine.kernel.frame_map_io(me, frame, space, Rights::READ, IOVA).unwrap();
    Space { space, tables, frame }
}

fn reaches(machine: &mut Machine) -> Option<Paddr> {
    machine.kernel.io_translate(FUNCTION, IOVA.bits(), Access::Read).ok()
}

#[test]
fn a_range_of_minted_ports_has_any_number_of_owners() {
    let mut machine = machine(Rules::CORRECTED);
    let uart = mint_ports(&mut machine, 0x3f8, 0x3ff).unwrap();
    let other = mint_ports(&mut machine, 0x3f8, 0x3ff).unwrap();
    assert!(machine.mint(uart, Rights::ALL, CapData::IoPorts(0x3f9, 0x3f9)).is_ok());
    machine.delete(uart.cptr()).unwrap();
    assert_eq!(machine.kernel.ioport_allowed(machine.me, other, 0x3f8, 1), Ok(()));
    assert_eq!(machine.kernel.ioport_allowed(machine.me, machine.root.io_ports, 0x80, 1), Ok(()));
}

#[test]
fn issued_ports_have_one_owner() {
    let mut machine = machine(Rules { ports: Ports::Issued, ..Rules::CORRECTED });
    let (me, control) = (machine.me, machine.root.io_ports);
    let uart = mint_ports(&mut machine, 0x3f8, 0x3ff).unwrap();
    let beside = mint_ports(&mut machine, 0x400, 0x40f).unwrap();
    assert_eq!(mint_ports(&mut machine, 0x3ff, 0x400), Err(Error::RevokeFirst));
    assert_eq!(mint_ports(&mut machine, 2, 1), Err(Error::InvalidArgument(1)));
    // The control capability has no ports and no copies, and a range does not shrink.
    assert_eq!(machine.kernel.ioport_allowed(me, control, 0x80, 1), Err(Error::IllegalOperation));
    assert_eq!(machine.copy(control, Rights::ALL), Err(Error::IllegalOperation));
    let narrower = machine.mint(uart, Rights::ALL, CapData::IoPorts(0x3f9, 0x3f9));
    assert_eq!(narrower, Err(Error::IllegalOperation));
    // The ports are free after the last capability.
    let copy = machine.copy(uart, Rights::ALL).unwrap();
    machine.delete(uart.cptr()).unwrap();
    assert_eq!(mint_ports(&mut machine, 0x3f8, 0x3f8), Err(Error::RevokeFirst));
    assert_eq!(machine.kernel.ioport_allowed(me, copy, 0x3f8, 1), Ok(()));
    machine.delete(copy.cptr()).unwrap();
    let again = mint_ports(&mut machine, 0x3f8, 0x3f8).unwrap();
    machine.revoke(control.cptr()).unwrap();
    assert!(!is_there(&machine, again) && !is_there(&machine, beside));
    assert!(mint_ports(&mut machine, 0, u16::MAX).is_ok());
}

#[test]
fn dma_ends_with_the_address_space() {
    for context_cache in [Correction::Made, Correction::Missing] {
        let mut machine = machine(Rules { context_cache, ..Rules::CORRECTED });
        let (untyped, old) = space(&mut machine);
        let page = reaches(&mut machine);
        assert!(page.is_some());
        machine.delete(old.space.cptr()).unwrap();
        let goes_on = context_cache == Correction::Missing;
        assert_eq!(reaches(&mut machine), page.filter(|_| goes_on));
        // Deleted tables stay what they are until their memory is cleared.
        machine.revoke(untyped.cptr()).unwrap();
        assert_eq!(reaches(&mut machine), page.filter(|_| goes_on));
        assert_eq!(machine.kernel.io_peek(FUNCTION, IOVA.bits(), Access::Read), page.filter(|_| goes_on));
        assert_eq!(machine.kernel.io_space(FUNCTION).len(), usize::from(goes_on));
        machine.untyped = untyped;
        machine.make::<Frame>(ObjectType::SmallPage, 0);
        assert_eq!(reaches(&mut machine), None);
    }
}

#[test]
fn a_function_that_did_no_dma_is_in_no_context_cache() {
    let mut machine = machine(Rules::STOCK);
    let (_, old) = space(&mut machine);
    machine.delete(old.space.cptr()).unwrap();
    assert_eq!(reaches(&mut machine), None);
}

#[test]
fn a_new_address_space_is_in_force_where_the_context_cache_is_emptied() {
    for context_cache in [Correction::Made, Correction::Missing] {
        let mut machine = machine(Rules { context_cache, ..Rules::CORRECTED });
        let (_, old) = space(&mut machine);
        let before = reaches(&mut machine);
        machine.delete(old.space.cptr()).unwrap();
        let (_, new) = space(&mut machine);
        let page = machine.kernel.frame_get_address(machine.me, new.frame).ok();
        assert_ne!(before, page);
        let expected = if context_cache == Correction::Made { page } else { before };
        assert_eq!(reaches(&mut machine), expected);
    }
}

#[test]
fn tables_made_anew_in_the_same_memory_are_in_force() {
    let mut machine = machine(Rules::STOCK);
    let (untyped, old) = space(&mut machine);
    assert!(reaches(&mut machine).is_some());
    machine.delete(old.space.cptr()).unwrap();
    machine.revoke(untyped.cptr()).unwrap();
    let new = space_of(&mut machine, untyped);
    let page = machine.kernel.frame_get_address(machine.me, new.frame).ok();
    assert_eq!(reaches(&mut machine), page);
}

#[test]
fn a_table_that_is_mapped_again_is_empty() {
    for io_page_table in [Correction::Made, Correction::Missing] {
        let mut machine = machine(Rules { io_page_table, ..Rules::CORRECTED });
        let (_, Space { space, tables, .. }) = space(&mut machine);
        let page = reaches(&mut machine);
        let (me, last) = (machine.me, tables[2]);
        let is_corrected = io_page_table == Correction::Made;
        let copy = machine.copy(last, Rights::ALL).unwrap();
        let refused = if is_corrected { Err(Error::RevokeFirst) } else { Ok(()) };
        assert_eq!(machine.kernel.io_page_table_unmap(me, last), refused);
        machine.delete(copy.cptr()).unwrap();
        machine.kernel.io_page_table_unmap(me, last).unwrap();
        assert_eq!(reaches(&mut machine), None);
        machine.kernel.io_page_table_map(me, last, space, IOVA).unwrap();
        assert_eq!(reaches(&mut machine), page.filter(|_| !is_corrected));
        let other = machine.make::<Frame>(ObjectType::SmallPage, 0);
        let taken = if is_corrected { Ok(()) } else { Err(Error::DeleteFirst) };
        assert_eq!(machine.kernel.frame_map_io(me, other, space, Rights::READ, IOVA), taken);
        machine.check();
    }
}

#[test]
fn a_table_that_keeps_its_entries_shows_one_level_lower_where_its_tables_are() {
    let mut machine = machine(Rules::STOCK);
    let (_, Space { space, tables: [_, middle, last], .. }) = space(&mut machine);
    let me = machine.me;
    machine.kernel.io_page_table_unmap(me, middle).unwrap();
    let between = machine.make::<IoPageTable>(ObjectType::IoPageTable, 0);
    machine.kernel.io_page_table_map(me, between, space, Iova::new(0)).unwrap();
    machine.kernel.io_page_table_map(me, middle, space, Iova::new(0)).unwrap();
    let shown = machine.kernel.io_translate(FUNCTION, 0x10, Access::Write).unwrap();
    let shown_page = Paddr::new(shown.bits() - 0x10);
    // The function reaches the memory of the table that mapped the page, also after its end.
    machine.delete(last.cptr()).unwrap();
    assert_eq!(machine.kernel.io_peek(FUNCTION, 0, Access::Read), Some(shown_page));
    assert_eq!(machine.kernel.io_space(FUNCTION).first().map(|page| page.paddr), Some(shown_page.bits()));
}

#[test]
fn revoking_finds_io_spaces_where_they_derive_from_others() {
    for io_space_revoke in [Correction::Made, Correction::Missing] {
        let mut machine = machine(Rules { io_space_revoke, ..Rules::CORRECTED });
        let space = mint_space(&mut machine, 1, FUNCTION);
        let copy = machine.copy(space, Rights::ALL).unwrap();
        let is_corrected = io_space_revoke == Correction::Made;
        machine.revoke(space.cptr()).unwrap();
        assert_eq!(is_there(&machine, copy), !is_corrected);
        machine.revoke(machine.root.io_space_master.cptr()).unwrap();
        assert_eq!(is_there(&machine, space), !is_corrected);
    }
}

#[test]
fn only_the_master_mints_io_spaces_where_it_is_told_by_its_domain() {
    for io_space_revoke in [Correction::Made, Correction::Missing] {
        let mut machine = machine(Rules { io_space_revoke, ..Rules::CORRECTED });
        let of_bridge = mint_space(&mut machine, 1, 0);
        let data = CapData::IoSpace { domain: 2, requester_id: FUNCTION };
        let minted = machine.mint(of_bridge, Rights::ALL, data);
        assert_eq!(minted.is_ok(), io_space_revoke == Correction::Missing);
    }
}
