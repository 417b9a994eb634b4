//! Information about the device, and accesses to its regions.

use super::client::CONFIG;
use super::device::{BAR_BYTES, EVENTS, RESETS, SHAPE, Served, TIMER, VOLATILE};
use crate::message::{DeviceInfo, IrqInfo, RegionAccess, RegionInfo, SmallWrite, command};
use rustix::io::Errno;
use zerocopy::{FromBytes, IntoBytes};

const INVALID: u32 = Errno::INVAL.raw_os_error() as u32;
const NOT_SUPPORTED: u32 = Errno::NOTSUP.raw_os_error() as u32;

#[test]
fn the_shape_is_reported() {
    let (_served, mut client) = Served::with_client(1 << 20);
    let asked = DeviceInfo { argsz: 16, flags: 0, regions: 0, irq_types: 0 };
    let reply = client.ask(command::DEVICE_GET_INFO, asked.as_bytes()).unwrap();
    assert_eq!(DeviceInfo::read_from_bytes(&reply), Ok(DeviceInfo { argsz: 16, flags: 3, regions: 9, irq_types: 3 }));

    let sizes = [BAR_BYTES as u64, 0, 16, 0, 0, 0, 0, 4096, 0];
    for (index, bytes) in (0..).zip(sizes) {
        let asked = RegionInfo { argsz: 32, flags: 0, index, cap_offset: 0, bytes: 0, offset: 0 };
        let reply = client.ask(command::DEVICE_GET_REGION_INFO, asked.as_bytes()).unwrap();
        let flags = if bytes == 0 { 0 } else { 3 };
        assert_eq!(RegionInfo::read_from_bytes(&reply), Ok(RegionInfo { flags, bytes, ..asked }));
    }

    for (index, flags, count) in
        [(0, 7, 1), (1, 1, u32::from(SHAPE.msi_vectors)), (2, 1, u32::from(SHAPE.msix_vectors))]
    {
        let asked = IrqInfo { argsz: 16, flags: 0, index, count: 0 };
        let reply = client.ask(command::DEVICE_GET_IRQ_INFO, asked.as_bytes()).unwrap();
        assert_eq!(IrqInfo::read_from_bytes(&reply), Ok(IrqInfo { flags, count, ..asked }));
    }
}

#[test]
fn invalid_questions_are_refused() {
    let (_served, mut client) = Served::with_client(1 << 20);
    let no_room = DeviceInfo { argsz: 15, flags: 0, regions: 0, irq_types: 0 };
    assert_eq!(client.ask(command::DEVICE_GET_INFO, no_room.as_bytes()), Err(INVALID));
    let ninth = RegionInfo { argsz: 32, flags: 0, index: 9, cap_offset: 0, bytes: 0, offset: 0 };
    assert_eq!(client.ask(command::DEVICE_GET_REGION_INFO, ninth.as_bytes()), Err(INVALID));
    let errors = IrqInfo { argsz: 16, flags: 0, index: 3, count: 0 };
    assert_eq!(client.ask(command::DEVICE_GET_IRQ_INFO, errors.as_bytes()), Err(INVALID));
    for cut_off in [command::DEVICE_GET_INFO, command::DMA_MAP, command::DEVICE_SET_IRQS, command::REGION_READ] {
        assert_eq!(client.ask(cut_off, &[0; 8]), Err(INVALID));
    }
    let left_out = [command::DEVICE_GET_REGION_IO_FDS, command::DIRTY_PAGES, command::DEVICE_FEATURE, 17, 18];
    for left_out in left_out {
        assert_eq!(client.ask(left_out, &[0; 32]), Err(NOT_SUPPORTED));
    }
    assert_eq!(client.ask(0, &[]), Err(Errno::NOSYS.raw_os_error() as u32));
    assert_eq!(client.ask(command::VERSION, &[0; 4]), Err(INVALID));
    assert_eq!(client.read(CONFIG, 0, 2), Ok(vec![0, 1]));
}

#[test]
fn regions_read_back_as_written() {
    let (_served, mut client) = Served::with_client(1 << 20);
    client.write(0, 8, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    client.write(2, 12, &[9, 10, 11, 12]).unwrap();
    client.write(CONFIG, 0x44, &[13, 14]).unwrap();
    assert_eq!(client.read(0, 10, 4), Ok(vec![3, 4, 5, 6]));
    assert_eq!(client.read(2, 15, 1), Ok(vec![12]));
    let config = client.read(CONFIG, 0, 4096).unwrap();
    assert_eq!(config[0x40..0x48], [0x40, 0x41, 0x42, 0x43, 13, 14, 0x46, 0x47]);
}

#[test]
fn accesses_outside_of_a_region_are_refused() {
    let (_served, mut client) = Served::with_client(1 << 20);
    for (region, offset, count) in [
        (0, 0xFFD, 4),
        (0, 0x1000, 1),
        (0, u64::MAX, 4),
        (1, 0, 1),
        (2, 0, 17),
        (6, 0, 1),
        (7, 4095, 2),
        (8, 0, 1),
        (9, 0, 1),
        (0, 0, 0),
        (1, 0, 0),
    ] {
        assert_eq!(client.read(region, offset, count), Err(INVALID), "{region} {offset:#x}");
        assert_eq!(client.write(region, offset, &vec![0; count as usize]), Err(INVALID), "{region} {offset:#x}");
    }
    let more_than_it_has = RegionAccess { offset: 0, region: 0, count: 5 };
    assert_eq!(client.ask(command::REGION_WRITE, &[more_than_it_has.as_bytes(), &[0; 4]].concat()), Err(INVALID));
    assert_eq!(client.read(0, 0xFFC, 4).map(|bytes| bytes.len()), Ok(4));
}

#[test]
fn posted_writes_are_not_answered_and_keep_their_order() {
    let (_served, mut client) = Served::with_client(1 << 20);
    for value in 0..100_u32 {
        client.post_write(0, 0, &value.to_le_bytes());
    }
    client.post_write(0, 0x1000, &[0]);
    assert_eq!(client.register(0), 99);
}

#[test]
fn many_writes_come_in_one_message() {
    let (_served, mut client) = Served::with_client(1 << 20);
    let write = |offset, count, data| SmallWrite { access: RegionAccess { offset, region: 0, count }, data: [data; 8] };
    let message = |writes: &[SmallWrite]| [(writes.len() as u64).as_bytes(), writes.as_bytes()].concat();
    let good = message(&[write(0, 8, 1), write(4, 2, 2), write(16, 1, 3)]);
    assert_eq!(client.ask(command::REGION_WRITE_MULTI, &good), Ok(3_u64.as_bytes().to_vec()));
    assert_eq!(client.read(0, 0, 8), Ok(vec![1, 1, 1, 1, 2, 2, 1, 1]));
    client.post(command::REGION_WRITE_MULTI, &message(&[write(0, 1, 4)]));
    assert_eq!(client.read(0, 0, 1), Ok(vec![4]));

    let too_wide = message(&[write(0, 1, 5), write(0, 9, 5)]);
    let outside = message(&[write(0, 1, 5), write(0xFFF, 2, 5)]);
    let mut cut_off = message(&[write(0, 1, 5), write(1, 1, 5)]);
    cut_off.pop();
    let mut countless = message(&[write(0, 1, 5)]);
    countless[..8].copy_from_slice(u64::MAX.as_bytes());
    for bad in [too_wide, outside, cut_off, countless, vec![0; 7]] {
        assert_eq!(client.ask(command::REGION_WRITE_MULTI, &bad), Err(INVALID));
    }
    assert_eq!(client.read(0, 0, 1), Ok(vec![4]));
}

#[test]
fn a_reset_is_done_before_it_is_answered() {
    let (_served, mut client) = Served::with_client(1 << 20);
    client.set_register(0, 7);
    assert_eq!(client.ask(command::DEVICE_RESET, &[]), Ok(vec![]));
    assert_eq!((client.register(0), client.register(RESETS)), (0, 1));
}

#[test]
fn events_happen_when_they_are_due() {
    let (_served, mut client) = Served::with_client(1 << 20);
    for (number, delay_us) in (1..).zip([0, 10, 1000, 20_000]) {
        let began = std::time::Instant::now();
        client.set_register(TIMER, delay_us);
        while client.register(EVENTS) != number {
            assert!(began.elapsed().as_secs() < 20);
        }
        assert!(began.elapsed().as_micros() >= u128::from(delay_us));
    }
}

#[test]
fn a_sleeping_server_wakes_up_for_an_event() {
    let (_served, mut client) = Served::with_client(1 << 20);
    client.set_register(TIMER, 2_000);
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(client.register(EVENTS), 1);
}

#[test]
fn reads_with_side_effects_happen_once() {
    let (_served, mut client) = Served::with_client(1 << 20);
    assert_eq!(client.register(VOLATILE), 1);
    assert_eq!(client.register(VOLATILE), 2);
}
