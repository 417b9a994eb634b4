//! I/O commands: their effects and their refusals.

use nvme_spec::nvm::{self, Blocks, CopyRange};
use nvme_spec::{Cid, DataPointer, Lba, Nsid, Sqe, Status, StatusCode};
use sim_nvme::config::CommandLimits;
use sim_nvme::{Config, NamespaceConfig, ViolationKind};
use zerocopy::IntoBytes;

use crate::driver::{Driver, NAMESPACE_BYTES, PAGE, config};

const ONE: Nsid = Nsid(1);
const CID: Cid = Cid(0);

fn blocks(start: u64, count: u32) -> Blocks {
    Blocks::new(Lba(start), count).unwrap()
}

/// A status with More: the error log has an entry about each failure.
fn failed(code: StatusCode) -> Status {
    Status::from_raw(Status::new(code).to_raw() | 1 << 13)
}

fn refused(code: StatusCode) -> Status {
    failed(code).with_do_not_retry()
}

/// Writes `len` bytes of a pattern from block `start` and returns the pattern.
fn write_pattern(driver: &mut Driver, start: u64, len: usize, salt: u8) -> Vec<u8> {
    let pattern: Vec<u8> = (0..len).map(|index| (index / 7) as u8 ^ salt).collect();
    let (address, data) = driver.buffer(len as u64);
    driver.bytes_mut(address, len).copy_from_slice(&pattern);
    let sqe = nvm::write(CID, ONE, blocks(start, (len / 512) as u32), data);
    assert_eq!(driver.execute(1, sqe).status(), Status::SUCCESS);
    pattern
}

fn read(driver: &mut Driver, start: u64, len: usize) -> Vec<u8> {
    let (address, data) = driver.buffer(len as u64);
    let sqe = nvm::read(CID, ONE, blocks(start, (len / 512) as u32), data);
    assert_eq!(driver.execute(1, sqe).status(), Status::SUCCESS);
    driver.bytes(address, len).to_vec()
}

#[test]
fn what_is_written_is_read_back_in_every_size() {
    let mut driver = Driver::with_queues(config(), 1);
    for (salt, len) in (1..).zip([512, 4096, 4608, 8192, 12288, 65536, 524_288]) {
        let pattern = write_pattern(&mut driver, 3, len, salt);
        assert!(read(&mut driver, 3, len) == pattern, "{len} bytes");
    }
    assert_eq!(read(&mut driver, 0, 1536), [0; 1536], "what was never written reads as zeroes");
    driver.assert_clean();
}

#[test]
fn namespaces_are_apart() {
    let mut driver = Driver::with_queues(config(), 1);
    write_pattern(&mut driver, 0, 4096, 1);
    let (address, data) = driver.buffer(4096);
    driver.bytes_mut(address, 4096).fill(0xff);
    assert_eq!(driver.execute(1, nvm::read(CID, Nsid(2), blocks(0, 8), data)).status(), Status::SUCCESS);
    assert_eq!(driver.bytes(address, 4096), [0; 4096]);
}

#[test]
fn blocks_of_4096_bytes_work_as_those_of_512() {
    let namespace = NamespaceConfig { format: 1, ..NamespaceConfig::zeroes(NAMESPACE_BYTES) };
    let mut driver = Driver::with_queues(Config { namespaces: vec![namespace], ..config() }, 1);
    let (address, data) = driver.buffer(8192);
    driver.bytes_mut(address, 8192).fill(0x5a);
    assert_eq!(driver.execute(1, nvm::write(CID, ONE, blocks(1, 2), data)).status(), Status::SUCCESS);
    let mut bytes = [0; 8193];
    driver.controller.read_contents(1, 4095, &mut bytes).unwrap();
    assert_eq!((bytes[0], bytes[1], bytes[8192]), (0, 0x5a, 0x5a));
    let last = NAMESPACE_BYTES / 4096 - 1;
    assert_eq!(driver.execute(1, nvm::read(CID, ONE, blocks(last, 1), data)).status(), Status::SUCCESS);
    let beyond = nvm::read(CID, ONE, blocks(last, 2), data);
    assert_eq!(driver.execute(1, beyond).status(), refused(StatusCode::LbaOutOfRange));
}

#[test]
fn a_base_is_seen_until_written_over_and_not_after_deallocation() {
    let base = |offset: u64, bytes: &mut [u8]| {
        for (index, byte) in (offset..).zip(bytes) {
            *byte = (index / 512) as u8;
        }
    };
    let namespace = NamespaceConfig { base: Box::new(base), ..NamespaceConfig::zeroes(1 << 20) };
    let mut driver = Driver::with_queues(Config { namespaces: vec![namespace], ..config() }, 1);
    assert_eq!(read(&mut driver, 7, 512), [7; 512]);
    write_pattern(&mut driver, 1, 512, 9);
    assert_eq!(read(&mut driver, 2, 512), [2; 512], "the neighbours in the chunk stay");
    let sqe = nvm::write_zeroes(CID, ONE, blocks(8, 16)).with_deallocate();
    assert_eq!(driver.execute(1, sqe).status(), Status::SUCCESS);
    assert_eq!(read(&mut driver, 8, 16 * 512), [0; 16 * 512]);
    assert_eq!(read(&mut driver, 24, 512), [24; 512]);
    assert!(driver.controller.written(1).eq(std::iter::once(0..12288)));
}

#[test]
fn dataset_management_deallocates_all_ranges_or_none() {
    let mut driver = Driver::with_queues(config(), 1);
    let pattern = write_pattern(&mut driver, 0, 16384, 3);
    let (list, data) = driver.buffer(PAGE);
    let range = |start, count| nvm::Range::new(Lba(start), count).unwrap();
    let bad = [range(0, 1), range(NAMESPACE_BYTES / 512, 1)];
    driver.bytes_mut(list, 32).copy_from_slice(bad.as_bytes());
    assert_eq!(driver.execute(1, nvm::deallocate(CID, ONE, 1, data)).status(), refused(StatusCode::LbaOutOfRange));
    assert!(read(&mut driver, 0, 16384) == pattern);
    driver.bytes_mut(list, 32).copy_from_slice([range(1, 2), range(8, 8)].as_bytes());
    assert_eq!(driver.execute(1, nvm::deallocate(CID, ONE, 1, data)).status(), Status::SUCCESS);
    let after = read(&mut driver, 0, 16384);
    assert_eq!(after[512..1536], [0; 1024]);
    assert_eq!(after[4096..8192], [0; 4096]);
    assert_eq!((&after[..512], &after[1536..4096]), (&pattern[..512], &pattern[1536..4096]));
    assert_eq!(after[8192..], pattern[8192..]);
}

#[test]
fn hints_of_dataset_management_change_nothing() {
    let mut driver = Driver::with_queues(config(), 1);
    let pattern = write_pattern(&mut driver, 0, 4096, 3);
    let (list, data) = driver.buffer(PAGE);
    driver.bytes_mut(list, 16).copy_from_slice(nvm::Range::new(Lba(0), 8).unwrap().as_bytes());
    let mut sqe = nvm::deallocate(CID, ONE, 0, data);
    sqe.cdw11 = 1;
    assert_eq!(driver.execute(1, sqe).status(), Status::SUCCESS);
    assert!(read(&mut driver, 0, 4096) == pattern);
}

#[test]
fn compare_distinguishes_equal_from_different() {
    let mut driver = Driver::with_queues(config(), 1);
    let pattern = write_pattern(&mut driver, 5, 8192, 1);
    let (address, data) = driver.buffer(8192);
    driver.bytes_mut(address, 8192).copy_from_slice(&pattern);
    let sqe = nvm::compare(CID, ONE, blocks(5, 16), data);
    assert_eq!(driver.execute(1, sqe).status(), Status::SUCCESS);
    driver.bytes_mut(address + 8191, 1)[0] ^= 1;
    assert_eq!(driver.execute(1, sqe).status(), failed(StatusCode::CompareFailure));
}

#[test]
fn copy_gathers_ranges_even_onto_themselves() {
    let mut driver = Driver::with_queues(config(), 1);
    let pattern = write_pattern(&mut driver, 0, 8192, 1);
    let (list, data) = driver.buffer(PAGE);
    let ranges = [CopyRange::new(blocks(8, 8)), CopyRange::new(blocks(0, 8))];
    driver.bytes_mut(list, 64).copy_from_slice(ranges.as_bytes());
    assert_eq!(driver.execute(1, nvm::copy(CID, ONE, Lba(0), 1, data)).status(), Status::SUCCESS);
    let after = read(&mut driver, 0, 8192);
    assert_eq!((&after[..4096], &after[4096..]), (&pattern[4096..], &pattern[..4096]));
    driver.assert_clean();
}

#[test]
fn copy_has_limits() {
    let mut driver = Driver::with_queues(config(), 1);
    let (list, data) = driver.buffer(PAGE);
    driver.bytes_mut(list, 32).copy_from_slice(CopyRange::new(blocks(0, 5000)).as_bytes());
    let too_long = refused(StatusCode::from_bits(0x183));
    assert_eq!(driver.execute(1, nvm::copy(CID, ONE, Lba(0), 0, data)).status(), too_long);
    driver.bytes_mut(list, 32).copy_from_slice(CopyRange::new(blocks(0, 8)).as_bytes());
    let beyond = nvm::copy(CID, ONE, Lba(NAMESPACE_BYTES / 512 - 7), 0, data);
    assert_eq!(driver.execute(1, beyond).status(), refused(StatusCode::LbaOutOfRange));
}

#[test]
fn verify_and_flush_succeed_and_move_nothing() {
    let mut driver = Driver::with_queues(config(), 1);
    for sqe in [nvm::verify(CID, ONE, blocks(0, 100)), nvm::flush(CID, ONE), nvm::flush(CID, Nsid::ALL)] {
        assert_eq!(driver.execute(1, sqe).status(), Status::SUCCESS);
    }
    driver.assert_clean();
}

/// Returns commands that are refused, each with the status that it must have.
fn refusals() -> Vec<(Sqe, Status)> {
    let data = DataPointer::page(0x10_0000);
    let good = nvm::read(CID, ONE, blocks(0, 1), data);
    let end = NAMESPACE_BYTES / 512;
    let with = |change: fn(&mut Sqe)| {
        let mut sqe = good;
        change(&mut sqe);
        sqe
    };
    let invalid_field = refused(StatusCode::InvalidField);
    let invalid_namespace = refused(StatusCode::InvalidNamespaceOrFormat);
    vec![
        (nvm::read(CID, Nsid(3), blocks(0, 1), data), invalid_field),
        (nvm::read(CID, Nsid(1000), blocks(0, 1), data), invalid_namespace),
        (nvm::read(CID, Nsid::NONE, blocks(0, 1), data), invalid_namespace),
        (nvm::read(CID, Nsid::ALL, blocks(0, 1), data), invalid_field),
        (nvm::flush(CID, Nsid(9)), invalid_field),
        (nvm::read(CID, ONE, blocks(end, 1), data), refused(StatusCode::LbaOutOfRange)),
        (nvm::write_zeroes(CID, ONE, blocks(end - 1, 2)), refused(StatusCode::LbaOutOfRange)),
        (nvm::verify(CID, ONE, blocks(u64::MAX - 1, 1)), refused(StatusCode::LbaOutOfRange)),
        (nvm::read(CID, ONE, blocks(0, 1025), data), invalid_field),
        (with(|sqe| sqe.cdw0 = sqe.cdw0.with_opc(0x04)), refused(StatusCode::InvalidOpcode)),
        (with(|sqe| sqe.cdw0 = sqe.cdw0.with_opc(0x77)), refused(StatusCode::InvalidOpcode)),
        (with(|sqe| sqe.cdw0 = sqe.cdw0.with_fuse(1)), invalid_field),
        (with(|sqe| sqe.cdw0 = sqe.cdw0.with_psdt(1)), invalid_field),
        (with(|sqe| sqe.cdw2 = 1), invalid_field),
        (with(|sqe| sqe.mptr = 1 << 40), invalid_field),
        (with(|sqe| sqe.cdw12 |= 1 << 20), invalid_field),
    ]
}

#[test]
fn every_refusal_has_its_status() {
    let mut driver = Driver::with_queues(config(), 1);
    for (sqe, status) in refusals() {
        assert_eq!(driver.execute(1, sqe).status(), status, "{sqe:?}");
    }
    let reserved = |kind: &ViolationKind| matches!(kind, ViolationKind::CommandField { .. });
    assert_eq!(driver.violations().iter().filter(|kind| reserved(kind)).count(), 5);
}

#[test]
fn transfers_up_to_the_limit_are_done_and_none_beyond() {
    let mut driver = Driver::with_queues(Config { mdts: 2, ..config() }, 1);
    let (_, data) = driver.buffer(20480);
    let read = |bytes: u32| nvm::read(CID, ONE, blocks(0, bytes / 512), data);
    assert_eq!(driver.execute(1, read(16384)).status(), Status::SUCCESS);
    assert_eq!(driver.execute(1, read(16896)).status(), refused(StatusCode::InvalidField));
    let unmoved = nvm::write_zeroes(CID, ONE, blocks(0, 65536));
    assert_eq!(driver.execute(1, unmoved).status(), Status::SUCCESS, "MDTS is for what moves data");
}

#[test]
fn commands_without_data_have_limits_of_their_own() {
    let limits = CommandLimits { vsl: 2, wzsl: 1, dmrl: 2, dmrsl: 10, dmsl: 15 };
    let mut driver = Driver::with_queues(Config { limits, ..config() }, 1);
    let zero = |count| nvm::write_zeroes(CID, ONE, blocks(0, count));
    assert_eq!(driver.execute(1, zero(16)).status(), Status::SUCCESS);
    assert_eq!(driver.execute(1, zero(17)).status(), refused(StatusCode::InvalidField));
    let verify = |count| nvm::verify(CID, ONE, blocks(0, count));
    assert_eq!(driver.execute(1, verify(32)).status(), Status::SUCCESS);
    assert_eq!(driver.execute(1, verify(33)).status(), refused(StatusCode::InvalidField));
    let (address, data) = driver.buffer(4096);
    let mut deallocate = |counts: &[u32]| {
        let ranges: Vec<u8> =
            counts.iter().flat_map(|count| nvm::Range::new(Lba(0), *count).unwrap().as_bytes().to_vec()).collect();
        driver.bytes_mut(address, ranges.len()).copy_from_slice(&ranges);
        driver.execute(1, nvm::deallocate(CID, ONE, counts.len() as u8 - 1, data)).status()
    };
    assert_eq!([deallocate(&[10]), deallocate(&[10, 5])], [Status::SUCCESS; 2]);
    for counts in [&[11][..], &[10, 6], &[1, 1, 1]] {
        assert_eq!(deallocate(counts), refused(StatusCode::CommandSizeLimit), "{counts:?}");
    }
    let beyond = |kind: &ViolationKind| matches!(kind, ViolationKind::CommandSize { .. });
    assert_eq!(driver.violations().iter().filter(|kind| beyond(kind)).count(), 5);
}

#[test]
fn memory_that_the_machine_refuses_fails_the_command_alone() {
    let mut driver = Driver::with_queues(config(), 1);
    let (address, data) = driver.buffer(4096);
    driver.machine.blocked = address..address + 1;
    let sqe = nvm::write(CID, ONE, blocks(0, 8), data);
    assert_eq!(driver.execute(1, sqe).status(), failed(StatusCode::DataTransferError));
    assert_eq!(driver.violations(), [ViolationKind::DmaBlocked { address }]);
    driver.machine.blocked = 0..0;
    assert_eq!(driver.execute(1, sqe).status(), Status::SUCCESS);
}

#[test]
fn wrong_prps_are_refused_and_useless_ones_reported() {
    let mut driver = Driver::with_queues(config(), 1);
    let (address, _) = driver.buffer(8192);
    let read = |prp1, prp2| nvm::read(CID, ONE, blocks(0, 8), DataPointer { prp1, prp2 });
    assert_eq!(driver.execute(1, read(address + 1, 0)).status(), refused(StatusCode::PrpOffset));
    assert_eq!(driver.execute(1, read(address + 8, address + 8)).status(), refused(StatusCode::PrpOffset));
    assert_eq!(driver.execute(1, read(address, address)).status(), Status::SUCCESS);
    assert!(matches!(
        driver.violations()[..],
        [ViolationKind::PrpOffset { .. }, ViolationKind::PrpOffset { .. }, ViolationKind::PrpUnused { entry, .. }]
            if entry == address
    ));
}
