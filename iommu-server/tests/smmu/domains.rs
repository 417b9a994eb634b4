//! Domains: opened by the PCI server, used by drivers.

use crate::machine::Machine;
use iommu_api::ServerConfig;
use iommu_server::{Devices, Domains};
use platform::{Error, Iova, Paddr};
use sim_smmu::{Direction, Faults, Profile};

const FUNCTION: u16 = 0x0008;
const OTHER: u16 = 0x0108;
const IOVA: Iova = Iova::new(0x1000);
const MEMORY: u64 = 0x8000_0000;
const PAGE: Paddr = Paddr::new(MEMORY);
const MESSAGES: u64 = 0x0802_0000;

fn domains() -> (Machine, Domains<Machine, Machine>) {
    let machine = Machine::new(Profile::Qemu72, 0);
    let smmu = machine.start(Devices::Quiet).unwrap();
    let config = ServerConfig {
        memory: (Paddr::new(MEMORY), 0x10_0000),
        messages: Paddr::new(MESSAGES),
        drivers: vec!["a".into(), "b".into()],
    };
    (machine.clone(), Domains::new(smmu, config))
}

fn reaches(machine: &Machine, function: u16, iova: u64, direction: Direction) -> bool {
    machine.dma(function.into(), iova, direction).is_ok()
}

#[test]
fn function_reaches_only_its_open_domain() {
    let (machine, mut domains) = domains();
    assert_eq!(domains.map(1, IOVA, PAGE, true), Err(Error::InvalidCapability(1)), "closed");
    domains.open(1, FUNCTION).unwrap();
    domains.map(1, IOVA, PAGE, true).unwrap();
    assert!(reaches(&machine, FUNCTION, IOVA.bits(), Direction::Write));
    assert!(reaches(&machine, FUNCTION, MESSAGES + 0x40, Direction::Write), "its interrupts");
    assert!(!reaches(&machine, OTHER, IOVA.bits(), Direction::Read));
    domains.close(1).unwrap();
    for iova in [IOVA.bits(), MESSAGES + 0x40] {
        assert!(!reaches(&machine, FUNCTION, iova, Direction::Write));
    }
    assert_eq!(domains.map(1, IOVA, PAGE, true), Err(Error::InvalidCapability(1)));
    assert_eq!((domains.close(1), machine.finding()), (Ok(()), None), "closed as before");
}

#[test]
fn unmapped_page_is_gone_and_read_only_page_is_not_written() {
    let (machine, mut domains) = domains();
    domains.open(1, FUNCTION).unwrap();
    domains.map(1, IOVA, PAGE, false).unwrap();
    let rights = [Direction::Read, Direction::Write].map(|way| reaches(&machine, FUNCTION, IOVA.bits(), way));
    assert_eq!(rights, [true, false]);
    assert_eq!(domains.map(1, IOVA, PAGE, true), Err(Error::DeleteFirst));
    domains.unmap(1, IOVA).unwrap();
    assert!(!reaches(&machine, FUNCTION, IOVA.bits(), Direction::Read));
    assert_eq!(domains.unmap(1, IOVA), Ok(()), "as good");
    assert_eq!(domains.unmap(1, Iova::new(MESSAGES)), Err(Error::InvalidArgument(0)));
    assert!(reaches(&machine, FUNCTION, MESSAGES + 0x40, Direction::Write));
}

#[test]
fn what_is_no_memory_is_not_mapped() {
    let (machine, mut domains) = domains();
    domains.open(1, FUNCTION).unwrap();
    for paddr in [0x1000_0000, MEMORY - 0x1000, MEMORY + 0x10_0000, !0xfff] {
        assert_eq!(domains.map(1, IOVA, Paddr::new(paddr), true), Err(Error::InvalidCapability(0)), "{paddr:#x}");
    }
    assert!(!reaches(&machine, FUNCTION, IOVA.bits(), Direction::Read));
}

#[test]
fn domains_and_functions_go_by_pairs() {
    let (machine, mut domains) = domains();
    domains.open(1, FUNCTION).unwrap();
    assert_eq!(domains.open(1, OTHER), Err(Error::DeleteFirst), "the domain is open");
    assert_eq!(domains.open(2, FUNCTION), Err(Error::DeleteFirst), "the function has a domain");
    for domain in [0, 3, u64::MAX] {
        assert_eq!(domains.open(domain, OTHER), Err(Error::InvalidArgument(0)));
        assert_eq!(domains.map(domain, IOVA, PAGE, true), Err(Error::InvalidArgument(0)));
        assert_eq!(domains.close(domain), Err(Error::InvalidArgument(0)));
    }
    domains.open(2, OTHER).unwrap();
    domains.map(2, IOVA, PAGE, true).unwrap();
    domains.close_all().unwrap();
    assert!(!reaches(&machine, OTHER, IOVA.bits(), Direction::Read));
    domains.open(1, OTHER).unwrap();
    assert!(!reaches(&machine, OTHER, IOVA.bits(), Direction::Read), "empty again");
}

#[test]
fn a_domain_is_not_closed_before_the_smmu_has_confirmed_it() {
    let (machine, mut domains) = domains();
    domains.open(1, FUNCTION).unwrap();
    domains.map(1, IOVA, PAGE, true).unwrap();
    assert!(reaches(&machine, FUNCTION, IOVA.bits(), Direction::Write));
    machine.set_faults(Faults { is_stuck: true, ..Faults::default() });
    assert_eq!(domains.close(1), Err(Error::IllegalOperation));
    assert_eq!(domains.open(1, FUNCTION), Err(Error::DeleteFirst), "its memory is not free");
    machine.set_faults(Faults::default());
    assert_eq!(domains.close(1), Ok(()));
    assert!(!reaches(&machine, FUNCTION, IOVA.bits(), Direction::Write));
    domains.open(1, FUNCTION).unwrap();
}
