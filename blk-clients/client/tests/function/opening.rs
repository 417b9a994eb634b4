//! Opening and closing a session on a function: the order of calls, the waits, and everything that may be missing.

use crate::support::{Machine, Setup, device, entry, exchange, session, try_session};
use blk_client::{Device, DeviceFault, Error, Geometry, Opcode, OpenError, PciError, Refusal};
use fake_platform::block_on;
use pci_api::{CLAIM, IO_SPACE, LIST, RELEASE, START, VECTOR};
use platform::Memory;
use sim_fault::ControllerEffect;

/// A second in the machine's time.
const SECOND_NS: u64 = 1_000_000_000;
/// The calls of an opening at which nothing is missing.
const OPENING: [u32; 5] = [CLAIM, IO_SPACE, VECTOR, VECTOR, START];

/// The machine of `setup` refuses the session.
fn refused(setup: Setup) -> OpenError {
    try_session(&Machine::new(setup)).err().expect("no session")
}

/// A machine whose client is ticked while it waits.
fn ticked(setup: Setup) -> Machine {
    let machine = Machine::new(setup);
    machine.tick_who_waits();
    machine
}

/// Writes a block, and finds it on the namespace.
#[track_caller]
fn works(machine: &Machine, session: &mut blk_client::Session<Machine>, byte: u8) {
    session.window().write_bytes(0, &[byte; 512]).unwrap();
    let done = exchange(session, &[entry(Opcode::Write, 9, 1, 0)]).unwrap();
    assert_eq!(done[0].status, 0);
    assert_eq!(machine.disk(9 * 512, 512), [byte; 512]);
}

#[test]
fn pci_server_is_the_only_one_called() {
    let machine = Machine::new(Setup::default());
    let session = session(&machine);
    assert_eq!(machine.take_calls(), OPENING);
    assert!(!session.server_died());
}

#[test]
fn geometry_is_the_controllers_own() {
    let setup = || Setup { blocks: 5000, ..Setup::default() };
    let geometry = |setup| *session(&Machine::new(setup)).geometry();
    let media = geometry(setup()).media;
    let expected = Geometry {
        blocks: 5000,
        block_bytes: 512,
        max_blocks: 4096,
        window_bytes: 1 << 20,
        queue_pairs: 1,
        depth: 8,
        writable: 1,
        media,
    };
    assert_eq!(geometry(setup()), expected);
    assert_eq!(geometry(Setup { ring_entries: 4, ..setup() }), Geometry { depth: 4, ..expected });
}

#[test]
fn function_with_one_vector_or_without_an_iommu_is_used() {
    for setup in [Setup { vectors: 1, ..Setup::default() }, Setup { iommu: false, ..Setup::default() }] {
        let machine = Machine::new(setup);
        works(&machine, &mut session(&machine), 7);
    }
}

#[test]
fn function_is_awaited_until_it_can_be_claimed() {
    for claim_refusal in [pci_api::Refusal::NoSuchFunction, pci_api::Refusal::NotReady] {
        let machine = ticked(Setup { claimable_at_ns: SECOND_NS, claim_refusal, ..Setup::default() });
        let mut session = session(&machine);
        assert!((SECOND_NS..2 * SECOND_NS).contains(&machine.now_ns()), "{} ns", machine.now_ns());
        let calls = machine.take_calls();
        let refused = calls.iter().take_while(|call| **call == CLAIM).count() - 1;
        assert!((2..=21).contains(&refused), "{refused} claims, at most one a tick");
        assert_eq!(calls[refused..], OPENING);
        works(&machine, &mut session, 1);
    }
}

#[test]
fn controller_is_awaited_until_it_is_online() {
    let machine = ticked(Setup { online_at_ns: 3 * SECOND_NS, ..Setup::default() });
    let mut session = session(&machine);
    assert!((3 * SECOND_NS..4 * SECOND_NS).contains(&machine.now_ns()), "{} ns", machine.now_ns());
    let calls = machine.take_calls();
    assert_eq!(calls.into_iter().filter(|label| *label != LIST).collect::<Vec<_>>(), OPENING);
    works(&machine, &mut session, 2);
}

#[test]
fn waits_for_function_and_controller_have_one_limit() {
    let within = 300 * SECOND_NS..301 * SECOND_NS;
    let ends = |setup: Setup, expected: OpenError| {
        let machine = ticked(setup);
        assert_eq!(try_session(&machine).err(), Some(expected));
        assert!(within.contains(&machine.now_ns()), "{} ns", machine.now_ns());
    };
    for claim_refusal in [pci_api::Refusal::NoSuchFunction, pci_api::Refusal::NotReady] {
        let never = Setup { claimable_at_ns: u64::MAX, claim_refusal, ..Setup::default() };
        ends(never, OpenError::Pci(PciError::Refused(claim_refusal)));
    }
    let offline = OpenError::Device(DeviceFault::Fatal);
    ends(Setup { online_at_ns: u64::MAX, ..Setup::default() }, offline);
    ends(Setup { claimable_at_ns: 15 * SECOND_NS, online_at_ns: u64::MAX, ..Setup::default() }, offline);
}

#[test]
fn other_refusals_of_a_claim_are_not_awaited() {
    let claim_refusal = pci_api::Refusal::BadRequest;
    let error = refused(Setup { claimable_at_ns: u64::MAX, claim_refusal, ..Setup::default() });
    assert_eq!(error, OpenError::Pci(PciError::Refused(claim_refusal)));
}

#[test]
fn next_opening_after_a_failed_one_claims_the_function_again() {
    let machine = ticked(Setup { online_at_ns: u64::MAX, ..Setup::default() });
    assert_eq!(try_session(&machine).err(), Some(OpenError::Device(DeviceFault::Fatal)));
    machine.set_online();
    machine.take_calls();
    let mut session = session(&machine);
    assert_eq!(machine.take_calls()[..3], [CLAIM, RELEASE, CLAIM]);
    works(&machine, &mut session, 3);
}

/// A component's stack is 128 KiB, and each future that this one is a part of may have a copy on it for a moment.
#[test]
fn future_of_an_opening_is_small() {
    let machine = Machine::new(Setup::default());
    let environment = machine.environment();
    let opening = Device::open(machine.clone(), &environment, machine.options());
    let bytes = size_of_val(&opening);
    assert!(bytes <= 4096, "{bytes} bytes");
}

#[test]
fn what_is_missing_is_reported() {
    let no_namespace = DeviceFault::Unusable("the function has no namespace");
    assert_eq!(refused(Setup { attached: false, ..Setup::default() }), OpenError::Device(no_namespace));
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
    let machine = ticked(Setup::default());
    machine.strike(ControllerEffect::Removal);
    assert_eq!(try_session(&machine).err(), Some(OpenError::Device(DeviceFault::Absent)));
    assert!(machine.now_ns() < SECOND_NS, "registers that read as all ones are no controller that is offline");
}

#[test]
fn closing_releases_the_function() {
    let machine = Machine::new(Setup::default());
    for round in 1..4u8 {
        let mut session = session(&machine);
        works(&machine, &mut session, round);
        assert!(machine.is_claimed());
        block_on(session.close()).unwrap();
        assert!(!machine.is_claimed());
        assert_eq!(machine.take_calls(), [OPENING.as_slice(), &[RELEASE]].concat());
    }
    let device = device(&machine);
    block_on(device.close()).unwrap();
    assert!(!machine.is_claimed());
    assert_eq!(machine.take_calls(), [OPENING.as_slice(), &[RELEASE]].concat());
}

#[test]
fn next_session_of_a_component_ends_the_one_before() {
    let machine = Machine::new(Setup::default());
    let mut first = session(&machine);
    works(&machine, &mut first, 1);
    drop(first);
    machine.take_calls();
    let mut next = session(&machine);
    assert_eq!(machine.take_calls(), [[CLAIM, RELEASE].as_slice(), &OPENING].concat());
    works(&machine, &mut next, 2);
}

#[test]
fn calls_to_a_server_are_refused_as_not_open() {
    let machine = Machine::new(Setup::default());
    let mut session = session(&machine);
    machine.take_calls();
    let control = session.control();
    block_on(async {
        assert_eq!(control.open().await, Err(Refusal::NotOpen));
        assert_eq!(control.close().await, Err(Refusal::NotOpen));
        assert_eq!(control.statistics().await.err(), Some(Refusal::NotOpen));
        assert_eq!(control.ping().await, Err(Refusal::NotOpen));
        assert_eq!(control.call(77).await.err(), Some(Refusal::NotOpen));
    });
    assert_eq!(machine.take_calls(), [0; 0]);
    block_on(session.close()).unwrap();
    let device = device(&machine);
    assert_eq!(block_on(device.statistics()).err(), Some(Error::Refused(Refusal::NotOpen)));
}
