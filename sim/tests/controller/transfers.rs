//! Data of I/O commands: lengths, places in memory and in the namespace, and bits of commands that change no data.

use std::ops::Range;

use nvme_spec::nvm::{self, Blocks};
use nvme_spec::{Cid, DataPointer, Lba, Nsid, Sqe, Status, StatusCode};
use sim_nvme::{Config, NamespaceConfig};
use zerocopy::IntoBytes;

use crate::driver::{Driver, PAGE, config};

const ONE: Nsid = Nsid(1);
const CID: Cid = Cid(0);
const BLOCK: usize = 512;

fn blocks(start: u64, count: usize) -> Blocks {
    Blocks::new(Lba(start), count as u32).unwrap()
}

/// Bytes that differ from block to block and from salt to salt.
fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|index| (index + index / BLOCK + salt * 31) as u8).collect()
}

#[track_caller]
fn succeed(driver: &mut Driver, sqe: Sqe) {
    assert_eq!(driver.execute(1, sqe).status(), Status::SUCCESS, "{sqe:?}");
}

/// Returns the pointer to the first `len` bytes of a buffer, without an entry that has no use.
fn start_of(buffer: DataPointer, len: usize) -> DataPointer {
    let prp2 = match len.div_ceil(PAGE as usize) {
        1 => 0,
        2 => buffer.prp1 + PAGE,
        _ => buffer.prp2,
    };
    DataPointer { prp2, ..buffer }
}

#[test]
fn every_number_of_blocks_up_to_the_limit_is_moved() {
    let limit = 16 * PAGE;
    let mut driver = Driver::with_queues(Config { mdts: 4, ..config() }, 1);
    let ((from, source), (to, target)) = (driver.buffer(limit), driver.buffer(limit));
    for count in 1..=limit as usize / BLOCK {
        let len = count * BLOCK;
        let expected = pattern(len, count);
        driver.bytes_mut(from, len).copy_from_slice(&expected);
        driver.bytes_mut(to, limit as usize).fill(0xee);
        succeed(&mut driver, nvm::write(CID, ONE, blocks(0, count), start_of(source, len)));
        succeed(&mut driver, nvm::read(CID, ONE, blocks(0, count), start_of(target, len)));
        let (read, rest) = driver.bytes(to, limit as usize).split_at(len);
        assert!(read == expected && rest.iter().all(|&byte| byte == 0xee), "{count} blocks and no more");
    }
    driver.assert_clean();
}

/// Pages of a transfer that lie apart, the last one first, with a PRP list between two of them.
struct Scattered {
    pages: [u64; 3],
    list: u64,
}

impl Scattered {
    fn new(driver: &mut Driver) -> Self {
        let memory = driver.allocate(6 * PAGE);
        let pages = [4, 2, 0].map(|index| memory + index * PAGE);
        let list = memory + PAGE;
        driver.bytes_mut(list, 16).copy_from_slice([pages[1], pages[2]].as_bytes());
        Self { pages, list }
    }

    /// Addresses of the parts of `len` bytes that begin at an offset in the first page, with their places in the data.
    fn parts(&self, offset: u64, len: usize) -> Vec<(u64, Range<usize>)> {
        let starts = [self.pages[0] + offset, self.pages[1], self.pages[2]];
        let ends = [PAGE - offset, 2 * PAGE - offset, 3 * PAGE - offset].map(|end| (end as usize).min(len));
        let parts = starts.into_iter().zip([0, ends[0], ends[1]]).zip(ends);
        parts.map(|((start, begin), end)| (start, begin..end)).filter(|(_, part)| !part.is_empty()).collect()
    }

    fn pointer(&self, offset: u64, parts: usize) -> DataPointer {
        let prp2 = [0, self.pages[1], self.list][parts - 1];
        DataPointer { prp1: self.pages[0] + offset, prp2 }
    }
}

#[test]
fn data_may_begin_at_every_dword_of_a_page() {
    let mut driver = Driver::with_queues(config(), 1);
    let memory = Scattered::new(&mut driver);
    for offset in (0..PAGE).step_by(4) {
        for count in [1, 8, 15] {
            let len = count * BLOCK;
            let expected = pattern(len, offset as usize / 4 + count);
            let parts = memory.parts(offset, len);
            let data = memory.pointer(offset, parts.len());
            for (at, part) in &parts {
                driver.bytes_mut(*at, part.len()).copy_from_slice(&expected[part.clone()]);
            }
            succeed(&mut driver, nvm::write(CID, ONE, blocks(3, count), data));
            for (at, part) in &parts {
                driver.bytes_mut(*at, part.len()).fill(0);
            }
            succeed(&mut driver, nvm::read(CID, ONE, blocks(3, count), data));
            for (at, part) in parts {
                assert!(driver.bytes(at, part.len()) == &expected[part], "{count} blocks at {offset}");
            }
        }
    }
    driver.assert_clean();
}

#[test]
fn the_last_blocks_are_reached_and_none_behind_them() {
    let end = 2048;
    let namespaces = vec![NamespaceConfig::zeroes(end << 9)];
    let mut driver = Driver::with_queues(Config { namespaces, ..config() }, 1);
    let (_, data) = driver.buffer(PAGE);
    let commands: [fn(Blocks, DataPointer) -> Sqe; 5] = [
        |blocks, data| nvm::read(CID, ONE, blocks, data),
        |blocks, data| nvm::write(CID, ONE, blocks, data),
        |blocks, data| nvm::compare(CID, ONE, blocks, data),
        |blocks, _| nvm::verify(CID, ONE, blocks),
        |blocks, _| nvm::write_zeroes(CID, ONE, blocks),
    ];
    for command in commands {
        succeed(&mut driver, command(blocks(end - 2, 2), data));
        succeed(&mut driver, command(blocks(end - 1, 1), data));
        for start in [end - 1, end, u64::from(u32::MAX), 1 << 55, 1 << 63, u64::MAX - 1] {
            let status = driver.execute(1, command(blocks(start, 2), data)).status();
            assert_eq!(status.code(), StatusCode::LbaOutOfRange, "from {start:#x}");
        }
    }
    driver.assert_clean();
}

#[test]
fn hints_retries_and_protection_without_metadata_change_no_data() {
    let mut driver = Driver::with_queues(config(), 1);
    let (address, data) = driver.buffer(BLOCK as u64);
    // FUA, LR, and the four bits of PRINFO.
    let flags = (0..64).map(|bits| (bits << 26, 0));
    // DSM: access frequency, latency, sequential and incompressible.
    let hints = (0..=0xff).map(|dsm| (0, dsm));
    for (salt, (flags, dsm)) in flags.chain(hints).enumerate() {
        let with = |sqe: Sqe| Sqe { cdw12: sqe.cdw12 | flags, cdw13: dsm, ..sqe };
        let expected = pattern(BLOCK, salt);
        driver.bytes_mut(address, BLOCK).copy_from_slice(&expected);
        succeed(&mut driver, with(nvm::write(CID, ONE, blocks(9, 1), data)));
        driver.bytes_mut(address, BLOCK).fill(0);
        succeed(&mut driver, with(nvm::read(CID, ONE, blocks(9, 1), data)));
        assert!(driver.bytes(address, BLOCK) == expected, "{flags:#x} {dsm:#x}");
    }
    driver.assert_clean();
}

#[test]
fn lists_of_ranges_have_any_length_place_and_attributes() {
    let mut driver = Driver::with_queues(config(), 1);
    let (whole, all) = driver.buffer(256 * BLOCK as u64);
    let memory = driver.allocate(2 * PAGE);
    let reference = pattern(256 * BLOCK, 7);
    for count in 1..=256 {
        for offset in [0, 4, 2048, PAGE - 16, PAGE - 4] {
            driver.bytes_mut(whole, reference.len()).copy_from_slice(&reference);
            succeed(&mut driver, nvm::write(CID, ONE, blocks(0, 256), all));
            let list = |index: u32| nvm::Range {
                // Frequency, latency, sequential access, and the size of accesses to come.
                attributes: (index * 5 % 64) | (index & 7) << 8 | (index % 11) << 24,
                ..nvm::Range::new(Lba(u64::from(index)), 1).unwrap()
            };
            let list: Vec<_> = (0..count).map(list).collect();
            let len = list.as_bytes().len();
            driver.bytes_mut(memory + offset, len).copy_from_slice(list.as_bytes());
            let crosses = offset as usize + len > PAGE as usize;
            let data = DataPointer { prp1: memory + offset, prp2: if crosses { memory + PAGE } else { 0 } };
            let sqe = nvm::deallocate(CID, ONE, (count - 1) as u8, data);
            // With a hint for the whole at odd counts.
            succeed(&mut driver, Sqe { cdw11: sqe.cdw11 | count & 1, ..sqe });
            driver.bytes_mut(whole, reference.len()).fill(0xee);
            succeed(&mut driver, nvm::read(CID, ONE, blocks(0, 256), all));
            let gone = count as usize * BLOCK;
            assert!(driver.bytes(whole, gone).iter().all(|&byte| byte == 0), "{count} ranges at {offset}");
            assert!(driver.bytes(whole, reference.len())[gone..] == reference[gone..], "{count} ranges at {offset}");
        }
    }
    driver.assert_clean();
}
