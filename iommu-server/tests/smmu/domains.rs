//! Domains: opened by the PCI server, used by drivers.

use crate::machine::{Machine, POOL_PAGES};
use iommu_api::frames::{Frames, Run};
use iommu_api::{Driver, OWN_PAGES, ServerConfig, pages, tables};
use iommu_server::{Devices, Domains};
use platform::{Error, Iova, PAGE_SIZE};
use proptest::prelude::*;
use sim_smmu::{Direction, Faults, Profile};

const FUNCTION: u16 = 0x0008;
const OTHER: u16 = 0x0108;
const IOVA: Iova = Iova::new(0x1000);
const MEMORY: u64 = 0x8000_0000;
const MESSAGES: u64 = 0x0802_0000;
/// The cptr of a driver's first frame, and of one that it may only read.
const CPTR: u64 = 8;
const READ_ONLY: u64 = 20;
/// Frames in a driver's first array.
const FRAMES: u32 = 4;
const PAGE: u64 = PAGE_SIZE as u64;
const LEAF: u64 = 512 * PAGE;
/// The addresses that NVMe servers give their pools, and their first windows; each other window is at the next multiple of [`LEAF`].
const POOL: u64 = 1 << 30;
const WINDOWS: u64 = 4 << 30;

fn run(domain: u16, cptr: u64, page: u64, frames: u32, writable: u16) -> Run {
    Run { cptr, paddr: MEMORY + page * PAGE, frames, domain, writable }
}

fn driver(name: &str, arrays: &[u64]) -> Driver {
    Driver { name: name.into(), tables: tables(arrays.iter().copied()) as u32, is_client: false }
}

/// Two drivers with an array of their own; the first has a frame that it may only read, too.
fn domains() -> (Machine, Domains<Machine, Machine>) {
    let machine = Machine::new(Profile::Qemu72, 0);
    let smmu = machine.start(Devices::Quiet).unwrap();
    let drivers = vec![driver("a", &[FRAMES.into(), 1]), driver("b", &[FRAMES.into()])];
    let config = ServerConfig { messages: platform::Paddr::new(MESSAGES), drivers };
    let frames = Frames::of(vec![run(1, CPTR, 0, FRAMES, 1), run(1, READ_ONLY, 8, 1, 0), run(2, CPTR, 16, FRAMES, 1)]);
    (machine.clone(), Domains::new(smmu, config, frames).unwrap())
}

fn reaches(machine: &Machine, function: u16, iova: u64, direction: Direction) -> bool {
    machine.dma(function.into(), iova, direction).is_ok()
}

#[test]
fn function_reaches_only_its_open_domain() {
    let (machine, mut domains) = domains();
    assert_eq!(domains.map(1, IOVA, CPTR, true), Err(Error::InvalidCapability(1)), "closed");
    domains.open(1, FUNCTION).unwrap();
    domains.map(1, IOVA, CPTR, true).unwrap();
    assert!(reaches(&machine, FUNCTION, IOVA.bits(), Direction::Write));
    assert!(reaches(&machine, FUNCTION, MESSAGES + 0x40, Direction::Write), "its interrupts");
    assert!(!reaches(&machine, OTHER, IOVA.bits(), Direction::Read));
    domains.close(1).unwrap();
    for iova in [IOVA.bits(), MESSAGES + 0x40] {
        assert!(!reaches(&machine, FUNCTION, iova, Direction::Write));
    }
    assert_eq!(domains.map(1, IOVA, CPTR, true), Err(Error::InvalidCapability(1)));
    assert_eq!((domains.close(1), machine.finding()), (Ok(()), None), "closed as before");
}

#[test]
fn unmapped_page_is_gone_and_read_only_page_is_not_written() {
    let (machine, mut domains) = domains();
    domains.open(1, FUNCTION).unwrap();
    domains.map(1, IOVA, CPTR, false).unwrap();
    let rights = [Direction::Read, Direction::Write].map(|way| reaches(&machine, FUNCTION, IOVA.bits(), way));
    assert_eq!(rights, [true, false]);
    assert_eq!(domains.map(1, IOVA, CPTR, true), Err(Error::DeleteFirst));
    domains.unmap(1, IOVA).unwrap();
    assert!(!reaches(&machine, FUNCTION, IOVA.bits(), Direction::Read));
    assert_eq!(domains.unmap(1, IOVA), Ok(()), "as good");
    assert_eq!(domains.unmap(1, Iova::new(MESSAGES)), Err(Error::InvalidArgument(0)));
    assert!(reaches(&machine, FUNCTION, MESSAGES + 0x40, Direction::Write));
}

#[test]
fn a_driver_maps_its_own_frames_alone() {
    let (machine, mut domains) = domains();
    domains.open(1, FUNCTION).unwrap();
    domains.open(2, OTHER).unwrap();
    for cptr in [0, 1, 3, CPTR - 1, CPTR + u64::from(FRAMES), READ_ONLY + 1, 1 << 32 | CPTR, u64::MAX] {
        assert_eq!(domains.map(1, IOVA, cptr, true), Err(Error::InvalidCapability(0)), "cptr {cptr}");
    }
    assert_eq!(domains.map(2, IOVA, READ_ONLY, true), Err(Error::InvalidCapability(0)), "it is the other's");
    assert!(!reaches(&machine, FUNCTION, IOVA.bits(), Direction::Read));
    let last = u64::from(FRAMES) - 1;
    for (domain, function, page) in [(1, FUNCTION, 0), (2, OTHER, 16)] {
        domains.map(domain, IOVA, CPTR + last, true).unwrap();
        let reached = machine.dma(function.into(), IOVA.bits(), Direction::Write).map(|paddr| paddr.bits());
        assert_eq!(reached.ok(), Some(MEMORY + (page + last) * PAGE), "each its own");
    }
}

#[test]
fn the_right_to_write_is_the_specifications() {
    let (machine, mut domains) = domains();
    domains.open(1, FUNCTION).unwrap();
    domains.map(1, IOVA, READ_ONLY, true).unwrap();
    let rights = [Direction::Read, Direction::Write].map(|way| reaches(&machine, FUNCTION, IOVA.bits(), way));
    assert_eq!(rights, [true, false]);
}

#[test]
fn invalid_addresses_are_refused_and_take_nothing() {
    let (_, mut domains) = domains();
    domains.open(1, FUNCTION).unwrap();
    for iova in [1, 0xfff, 0x1001, 1 << 39, 1 << 63, !0xfff, u64::MAX] {
        for _ in 0..POOL_PAGES {
            assert_eq!(domains.map(1, Iova::new(iova), CPTR, true), Err(Error::InvalidArgument(0)), "{iova:#x}");
        }
        assert_eq!(domains.unmap(1, Iova::new(iova)), Err(Error::InvalidArgument(0)), "{iova:#x}");
    }
    assert_eq!(domains.map(1, Iova::new(MESSAGES), CPTR, true), Err(Error::DeleteFirst));
    domains.map(1, IOVA, CPTR, true).unwrap();
}

/// A frame at addresses that share no table takes as many tables as the domain may have, and no other domain's.
#[test]
fn sparse_addresses_take_no_page_of_another_domain() {
    let (machine, mut domains) = domains();
    domains.open(1, FUNCTION).unwrap();
    let sparse = (1..512).map(|gigabyte| Iova::new(gigabyte << 30));
    let mapped: Vec<Iova> = sparse.take_while(|iova| domains.map(1, *iova, CPTR, true).is_ok()).collect();
    assert!(!mapped.is_empty() && mapped.len() < POOL_PAGES / 2, "{} are mapped", mapped.len());
    let refused = domains.map(1, Iova::new(1 << 37), CPTR, true);
    assert_eq!(refused, Err(Error::NotEnoughMemory(0)));
    // Its neighbour opens later, and maps all that it has.
    domains.open(2, OTHER).unwrap();
    for index in 0..u64::from(FRAMES) {
        domains.map(2, Iova::new(IOVA.bits() + index * PAGE), CPTR + index, true).unwrap();
    }
    assert!(reaches(&machine, OTHER, IOVA.bits(), Direction::Write));
    // The tables are its own again when it unmaps.
    mapped.iter().for_each(|iova| domains.unmap(1, *iova).unwrap());
    for index in 0..u64::from(FRAMES) {
        domains.map(1, Iova::new(IOVA.bits() + index * PAGE), CPTR + index, true).unwrap();
    }
}

#[test]
fn a_pool_without_room_for_all_domains_is_refused() {
    let machine = Machine::new(Profile::Qemu72, 0);
    let config = |room: u64| {
        let tables = (POOL_PAGES as u64 - OWN_PAGES) / 2 - 1;
        let drivers =
            [tables, tables + room].map(|tables| Driver { name: "a".into(), tables: tables as u32, is_client: false });
        ServerConfig { messages: platform::Paddr::new(MESSAGES), drivers: drivers.into() }
    };
    let start = || machine.start(Devices::Quiet).unwrap();
    assert!(Domains::new(start(), config(0), Frames::default()).is_ok());
    assert_eq!(Domains::new(start(), config(1), Frames::default()).err(), Some(iommu_server::Error::NoPages));
}

/// The arrays of a driver, by their frames: the pool and windows.
fn arrays() -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec(prop_oneof![1..5u64, 510..516u64], 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every driver maps all that it has, as NVMe servers do. Meanwhile a neighbour holds as many tables as it can get.
    #[test]
    fn honest_drivers_never_lack_tables(one in arrays(), two in arrays()) {
        let drivers = vec![driver("a", &one), driver("b", &two), driver("c", &[1])];
        let needed = pages(drivers.iter().map(|driver| driver.tables.into()));
        prop_assume!(needed <= POOL_PAGES as u64);
        let machine = Machine::new(Profile::Qemu72, 0);
        let smmu = machine.start(Devices::Quiet).unwrap();
        let config = ServerConfig { messages: platform::Paddr::new(MESSAGES), drivers };
        let frames = |domain: u16, arrays: &[u64]| run(domain, 0, 0, arrays.iter().sum::<u64>() as u32, 1);
        let frames = Frames::of(vec![frames(1, &one), frames(2, &two), frames(3, &[1])]);
        let mut domains = Domains::new(smmu, config, frames).unwrap();
        domains.open(3, 0x0200).unwrap();
        let greedy = (1..512u64).take_while(|at| domains.map(3, Iova::new(at << 30), 0, true).is_ok()).count();
        prop_assert!(greedy > 0);
        for (domain, function, arrays) in [(1, FUNCTION, &one), (2, OTHER, &two)] {
            domains.open(domain, function).unwrap();
            let (mut cptr, mut next) = (0, WINDOWS);
            for (number, frames) in arrays.iter().enumerate() {
                let first = if number == 0 { POOL } else { next };
                for page in 0..*frames {
                    domains.map(domain, Iova::new(first + page * PAGE), cptr, true).unwrap();
                    cptr += 1;
                }
                if number > 0 {
                    next = (first + frames * PAGE).next_multiple_of(LEAF);
                }
            }
        }
        prop_assert_eq!(machine.finding(), None);
    }
}

#[test]
fn domains_and_functions_go_by_pairs() {
    let (machine, mut domains) = domains();
    domains.open(1, FUNCTION).unwrap();
    assert_eq!(domains.open(1, OTHER), Err(Error::DeleteFirst), "the domain is open");
    assert_eq!(domains.open(2, FUNCTION), Err(Error::DeleteFirst), "the function has a domain");
    for domain in [0, 3, u64::MAX] {
        assert_eq!(domains.open(domain, OTHER), Err(Error::InvalidArgument(0)));
        assert_eq!(domains.map(domain, IOVA, CPTR, true), Err(Error::InvalidArgument(0)));
        assert_eq!(domains.close(domain), Err(Error::InvalidArgument(0)));
    }
    domains.open(2, OTHER).unwrap();
    domains.map(2, IOVA, CPTR, true).unwrap();
    domains.close_all().unwrap();
    assert!(!reaches(&machine, OTHER, IOVA.bits(), Direction::Read));
    domains.open(1, OTHER).unwrap();
    assert!(!reaches(&machine, OTHER, IOVA.bits(), Direction::Read), "empty again");
}

#[test]
fn a_domain_is_not_closed_before_the_smmu_has_confirmed_it() {
    let (machine, mut domains) = domains();
    domains.open(1, FUNCTION).unwrap();
    domains.map(1, IOVA, CPTR, true).unwrap();
    assert!(reaches(&machine, FUNCTION, IOVA.bits(), Direction::Write));
    machine.set_faults(Faults { is_stuck: true, ..Faults::default() });
    assert_eq!(domains.close(1), Err(Error::IllegalOperation));
    assert_eq!(domains.open(1, FUNCTION), Err(Error::DeleteFirst), "its memory is not free");
    machine.set_faults(Faults::default());
    assert_eq!(domains.close(1), Ok(()));
    assert!(!reaches(&machine, FUNCTION, IOVA.bits(), Direction::Write));
    domains.open(1, FUNCTION).unwrap();
}
