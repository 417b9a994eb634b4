use zerocopy::IntoBytes;

use super::*;
use crate::expected::bytes;

const CID: Cid = Cid(0xbeef);
const NSID: Nsid = Nsid(1);
const DATA: DataPointer = DataPointer { prp1: 0x0000_0001_2345_6200, prp2: 0x0000_0000_89ab_c000 };
const DATA_BYTES: &[u8] = &[0x00, 0x62, 0x45, 0x23, 0x01, 0, 0, 0, 0x00, 0xc0, 0xab, 0x89, 0, 0, 0, 0];

fn blocks() -> Blocks {
    Blocks::new(Lba(0x0102_0304_0506_0708), 8).unwrap()
}

/// A command over [`blocks`] with its data, if any.
fn io_bytes(opcode: u8, data: &[u8], flags: u8) -> [u8; 64] {
    bytes(&[
        (0, &[opcode, 0, 0xef, 0xbe]),
        (4, &[1, 0, 0, 0]),
        (24, data),
        (40, &[8, 7, 6, 5, 4, 3, 2, 1]), // SLBA
        (48, &[7, 0, 0, flags]),         // NLB, flags
    ])
}

#[test]
fn read_and_write_have_the_bytes_of_the_standard() {
    assert_eq!(read(CID, NSID, blocks(), DATA).as_bytes(), io_bytes(0x02, DATA_BYTES, 0));
    assert_eq!(write(CID, NSID, blocks(), DATA).as_bytes(), io_bytes(0x01, DATA_BYTES, 0));
}

#[test]
fn write_through_sets_bit_30() {
    let sqe = write(CID, NSID, blocks(), DATA).with_force_unit_access();
    assert_eq!(sqe.as_bytes(), io_bytes(0x01, DATA_BYTES, 0x40));
}

#[test]
fn compare_and_verify_have_the_bytes_of_the_standard() {
    assert_eq!(compare(CID, NSID, blocks(), DATA).as_bytes(), io_bytes(0x05, DATA_BYTES, 0));
    assert_eq!(verify(CID, NSID, blocks()).as_bytes(), io_bytes(0x0c, &[], 0));
}

#[test]
fn write_zeroes_may_deallocate_by_bit_25() {
    assert_eq!(write_zeroes(CID, NSID, blocks()).as_bytes(), io_bytes(0x08, &[], 0));
    assert_eq!(write_zeroes(CID, NSID, blocks()).with_deallocate().as_bytes(), io_bytes(0x08, &[], 0x02));
}

#[test]
fn flush_has_the_bytes_of_the_standard() {
    assert_eq!(flush(CID, Nsid::ALL).as_bytes(), bytes::<64>(&[(0, &[0, 0, 0xef, 0xbe]), (4, &[0xff; 4])]));
}

#[test]
fn deallocate_and_its_range_have_the_bytes_of_the_standard() {
    let expected = bytes::<64>(&[
        (0, &[0x09, 0, 0xef, 0xbe]),
        (4, &[1]),
        (24, DATA_BYTES),
        (40, &[0xff]), // NR: 256 ranges
        (44, &[0x04]), // AD
    ]);
    assert_eq!(deallocate(CID, NSID, 255, DATA).as_bytes(), expected);

    let range = Range::new(Lba(0x0102_0304_0506_0708), 0x1000).unwrap();
    assert_eq!(range.as_bytes(), [0, 0, 0, 0, 0x00, 0x10, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1]);
}

#[test]
fn common_fields_are_read_back() {
    let sqe = read(CID, NSID, blocks(), DATA);
    assert_eq!(sqe.opcode(), 0x02);
    assert_eq!(sqe.cid(), CID);
    assert_eq!(sqe.nsid(), NSID);
    assert_eq!(sqe.data_pointer(), Some(DATA));
    assert_eq!(Blocks::from_sqe(&sqe), Some(blocks()));
    assert_eq!(sqe.with_cid(Cid(3)).cid(), Cid(3));
    assert_eq!(sqe.with_cid(Cid(3)).opcode(), 0x02);
}

#[test]
fn sgl_commands_have_no_prps() {
    let mut sqe = read(CID, NSID, blocks(), DATA);
    sqe.cdw0 = sqe.cdw0.with_psdt(1);
    assert_eq!(sqe.cdw0.into_bits(), 0xbeef_4002);
    assert_eq!(sqe.data_pointer(), None);
}

#[test]
fn blocks_are_one_to_65536_and_have_addresses() {
    assert_eq!(Blocks::new(Lba(0), 0), None);
    assert_eq!(Blocks::new(Lba(0), 65537), None);
    assert_eq!(Blocks::new(Lba(0), 65536).unwrap().nlb_z(), 0xffff);
    assert_eq!(Blocks::new(Lba(0), 65536).unwrap().count(), 65536);
    assert!(Blocks::new(Lba(u64::MAX), 1).is_some());
    assert_eq!(Blocks::new(Lba(u64::MAX), 2), None);
    assert_eq!(Range::new(Lba(0), 0), None);
    assert_eq!(Range::new(Lba(u64::MAX), 2), None);
}

#[test]
fn blocks_below_an_end_are_those_that_have_addresses_before_it() {
    let edges = [0, 1, 2, 7, 8, 65535, 65536, 65537, u64::MAX - 65536, u64::MAX - 1, u64::MAX];
    for (start, end) in edges.into_iter().flat_map(|start| edges.map(|end| (start, end))) {
        for count in [0, 1, 2, 8, 65535, 65536, 65537, u32::MAX] {
            let is_below = start.checked_add(count.into()).is_some_and(|behind| behind <= end);
            let expected = Blocks::new(Lba(start), count).filter(|_| is_below);
            assert_eq!(Blocks::below(Lba(start), count, Lba(end)), expected, "{count} from {start} to {end}");
        }
    }
}

#[test]
fn blocks_beyond_every_address_in_a_command_are_refused() {
    let mut sqe = read(CID, NSID, blocks(), DATA);
    sqe.cdw10 = u32::MAX;
    sqe.cdw11 = u32::MAX;
    assert_eq!(Blocks::from_sqe(&sqe), None);
}

#[test]
fn opcodes_are_recognised() {
    for raw in 0..=0xff {
        assert!(Opcode::from_raw(raw).is_none_or(|opcode| opcode as u8 == raw));
    }
    assert_eq!(Opcode::from_raw(2), Some(Opcode::Read));
    assert_eq!(Opcode::from_raw(3), None);
}

#[test]
fn copy_names_its_target_and_its_ranges() {
    let sqe = copy(Cid(1), Nsid(2), Lba(0x1_0000_0002), 3, DataPointer::page(0x4000));
    assert_eq!((sqe.opcode(), sqe.cdw10, sqe.cdw11, sqe.cdw12), (0x19, 2, 1, 3));
    let range = CopyRange::new(Blocks::new(Lba(7), 8).unwrap());
    let bytes = range.as_bytes();
    assert_eq!((&bytes[8..10], bytes[16]), (&[7, 0][..], 7));
    assert!(CopyDw12::from_bits(1 << 30).fua());
}
