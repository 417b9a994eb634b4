//! Starts from every earlier state.

use iommu_server::{Config, Devices, Error, Pool, Rights, Smmu, StreamId};
use platform::fake::Ram;
use platform::{Iova, Mmio, PAGE_SIZE, Paddr};
use sim_smmu::{Direction, Profile};
use smmu_spec::registers::{Gbpa, Register};

use crate::machine::{Machine, POLLS};

const STREAM: StreamId = StreamId(0x0108);

/// Makes the SMMU live with a stream table that is not the pool's.
fn live_with_other_tables(machine: &Machine) {
    drop(machine.start(Devices::Quiet).unwrap());
    machine.model(|smmu, memory| {
        smmu.write32(memory, Register::Cr0.offset(), 0);
        smmu.write64(Register::StrtabBase.offset(), 0x5000_0000);
        smmu.write32(memory, Register::Cr0.offset(), 1);
    });
}

#[test]
fn nothing_passes_after_the_first_start() {
    for profile in [Profile::Standard, Profile::Qemu72] {
        let machine = Machine::new(profile, 0);
        assert!(!machine.reached().is_empty(), "an SMMU that is off lets everything pass");
        let _smmu = machine.start(Devices::Quiet).unwrap();
        assert!(machine.reached().is_empty());
        assert_eq!(machine.finding(), None);
    }
}

#[test]
fn running_smmu_is_taken_over_without_a_gap() {
    let machine = Machine::new(Profile::Standard, 0);
    live_with_other_tables(&machine);
    machine.allow(Some(Default::default()));
    let _smmu = machine.start(Devices::MaySend).unwrap();
    assert_eq!(machine.finding(), None);
    assert!(machine.reached().is_empty());
}

#[test]
fn start_without_abort_requires_quiet_devices() {
    let machine = Machine::new(Profile::Qemu72, 0);
    live_with_other_tables(&machine);
    machine.allow(Some(Default::default()));
    assert_eq!(machine.start(Devices::MaySend).err(), Some(Error::Unguarded));
    assert_eq!(machine.finding(), None);
    machine.allow(None);
    let _smmu = machine.start(Devices::Quiet).unwrap();
    assert!(machine.reached().is_empty());
}

#[test]
fn a_stop_after_every_access_of_a_restart_opens_nothing() {
    for profile in [Profile::Standard, Profile::Qemu72] {
        let machine = Machine::new(profile, 0);
        let mut stops = 0;
        loop {
            machine.set_fuse(None);
            let mut smmu = machine.start(Devices::Quiet).unwrap();
            smmu.attach(STREAM, usize::MAX).unwrap();
            smmu.map(STREAM, Iova::new(0x1000), Paddr::new(0x8000_0000), Rights::ReadWrite).unwrap();
            let given = machine.reached();
            assert_eq!(given.len(), 2);
            machine.allow(Some(given));
            stops += 1;
            machine.set_fuse(Some(stops));
            let restarted = machine.start(Devices::MaySend);
            assert_eq!(machine.finding(), None, "stopped after {stops} accesses");
            if restarted.is_ok() {
                break;
            }
            machine.set_fuse(None);
            let _again = machine.start(Devices::MaySend).unwrap();
            assert!(machine.reached().is_empty(), "stopped after {stops} accesses");
            machine.allow(None);
        }
        println!("{profile:?}: {stops} places to stop");
        assert!(stops > 40);
    }
}

#[test]
fn the_smmu_aborts_when_it_is_turned_off_later() {
    let machine = Machine::new(Profile::Standard, 0);
    let _smmu = machine.start(Devices::Quiet).unwrap();
    assert!(Gbpa::from_bits(machine.read32(Register::Gbpa.offset()).unwrap()).abort());
    machine.write32(Register::Cr0.offset(), 0).unwrap();
    assert!(machine.dma(STREAM.0, 0x1000, Direction::Read).is_err());
}

#[test]
fn pools_that_cannot_be_are_refused() {
    let paddr = |page: u64| Paddr::new(0x4000_0000 + page * PAGE_SIZE as u64);
    let pages: Vec<Paddr> = (0..4).map(paddr).collect();
    assert_eq!(Pool::new(Ram::new(3 * PAGE_SIZE), &pages).err(), Some(Error::OutOfBounds));
    assert_eq!(Pool::new(Ram::new(4 * PAGE_SIZE), &pages[..3]).err(), Some(Error::NoPages));
    let with = |odd| [pages[0], pages[1], pages[2], odd];
    assert_eq!(Pool::new(Ram::new(4 * PAGE_SIZE), &with(pages[0])).err(), Some(Error::Address));
    assert_eq!(Pool::new(Ram::new(4 * PAGE_SIZE), &with(Paddr::new(0x4000_3004))).err(), Some(Error::Address));
    assert_eq!(Pool::new(Ram::new(4 * PAGE_SIZE), &with(Paddr::new(1 << 48))).err(), Some(Error::Address));
}

#[test]
fn registers_that_are_too_short_are_refused() {
    let pages: Vec<Paddr> = (0..4).map(|page| Paddr::new(0x4000_0000 + page * 4096)).collect();
    let pool = Pool::new(Ram::new(4 * PAGE_SIZE), &pages).unwrap();
    let config = Config { polls: POLLS, devices: Devices::Quiet };
    let short = platform::fake::Registers::new(0x1000);
    assert_eq!(Smmu::start(short, pool, config).err(), Some(Error::OutOfBounds));
}
