//! Opening and closing a session on a function: the order of calls, and everything that may be missing.

use crate::support::{Machine, Setup, entry, exchange, session, try_session};
use blk_api::session::{CLOSE, OPEN};
use blk_client::{DeviceFault, Opcode, OpenError, PciError};
use fake_platform::block_on;
use pci_api::{CLAIM, IO_SPACE, RELEASE, START, VECTOR};
use platform::Memory;
use sim_fault::ControllerEffect;

/// A call of the PCI server, as the machine records it.
const fn pci(label: u32) -> u32 {
    100 + label
}

/// The machine of `setup` refuses the session, which is closed again.
fn refused(setup: Setup) -> OpenError {
    let machine = Machine::new(setup);
    let error = try_session(&machine).err().expect("no session");
    assert_eq!(machine.take_calls().last(), Some(&CLOSE));
    error
}

#[test]
fn server_opens_the_session_before_the_function_is_claimed() {
    let machine = Machine::new(Setup::default());
    let session = session(&machine);
    assert_eq!(machine.take_calls(), [OPEN, pci(CLAIM), pci(IO_SPACE), pci(VECTOR), pci(VECTOR), pci(START)]);
    assert_eq!(session.geometry().blocks, 4096);
    assert!(!session.server_died());
    assert_eq!(machine.complaints(), [""; 0]);
}

#[test]
fn function_with_one_vector_or_without_an_iommu_is_used() {
    for setup in [Setup { vectors: 1, ..Setup::default() }, Setup { iommu: false, ..Setup::default() }] {
        let machine = Machine::new(setup);
        let mut session = session(&machine);
        session.window().write_bytes(0, &[7; 512]).unwrap();
        let done = exchange(&mut session, &[entry(Opcode::Write, 5, 1, 0)]).unwrap();
        assert_eq!(done[0].status, 0);
        assert_eq!(machine.disk(5 * 512, 512), [7; 512]);
    }
}

#[test]
fn failed_opening_closes_the_session() {
    let no_namespace = DeviceFault::Unusable("the function has no namespace");
    assert_eq!(refused(Setup { attached: false, ..Setup::default() }), OpenError::Device(no_namespace));
    assert_eq!(refused(Setup { session_blocks: 4097, ..Setup::default() }), OpenError::BadGeometry);
    assert_eq!(refused(Setup { dma_pages: 7, ..Setup::default() }), OpenError::Device(DeviceFault::OwnMemory));
    assert_eq!(refused(Setup { io_tables: 1, ..Setup::default() }), OpenError::Device(DeviceFault::OwnMemory));
    let window_unmapped = PciError::Kernel(platform::Error::NotEnoughMemory(0));
    assert_eq!(refused(Setup { io_tables: 3, ..Setup::default() }), OpenError::Pci(window_unmapped));
}

#[test]
fn controller_that_never_gets_ready_is_reported() {
    let machine = Machine::new(Setup::default());
    machine.strike(ControllerEffect::NeverReady);
    assert_eq!(try_session(&machine).err(), Some(OpenError::Device(DeviceFault::TimedOut)));
}

#[test]
fn controller_that_is_gone_is_reported() {
    let machine = Machine::new(Setup::default());
    machine.strike(ControllerEffect::Removal);
    assert_eq!(try_session(&machine).err(), Some(OpenError::Device(DeviceFault::Absent)));
}

#[test]
fn geometry_that_no_window_holds_is_refused() {
    let machine = Machine::new(Setup::default());
    machine.change_geometry(|geometry| geometry.window_bytes += 1);
    assert_eq!(try_session(&machine).err(), Some(OpenError::BadGeometry));
}

#[test]
fn next_session_of_a_component_claims_the_function_again() {
    let machine = Machine::new(Setup::default());
    for round in 0..3u8 {
        let mut session = session(&machine);
        session.window().write_bytes(0, &[round + 1; 512]).unwrap();
        let done = exchange(&mut session, &[entry(Opcode::Write, 9, 1, 0)]).unwrap();
        assert_eq!(done[0].status, 0);
        assert_eq!(machine.disk(9 * 512, 512), [round + 1; 512]);
        block_on(session.control().close()).unwrap();
    }
    let releases = machine.take_calls().into_iter().filter(|call| *call == pci(RELEASE)).count();
    assert_eq!(releases, 2, "the first finds nothing claimed");
    assert_eq!(machine.complaints(), [""; 0]);
}
