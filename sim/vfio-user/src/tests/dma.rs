//! DMA to memory that the client has mapped by files, and the mapping itself.

use super::client::{Client, region};
use super::device::{BUFFER, DO_READ, DO_WRITE, DONE_REFUSED, DONE_WELL, IOVA, LENGTH, OPERATION, STATUS, Served};
use crate::message::{DmaMap, UNMAP_ALL, command};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use zerocopy::IntoBytes;

const INVALID: u32 = Errno::INVAL.raw_os_error() as u32;
const EXISTS: u32 = Errno::EXIST.raw_os_error() as u32;

fn memory_file(bytes: u64) -> OwnedFd {
    let fd = memfd_create("memory", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&fd, bytes).unwrap();
    fd
}

/// Has the device do a DMA that needs no messages. Returns its status.
fn operate(client: &mut Client, operation: u32, iova: u64, length: u32) -> u32 {
    client.write(0, IOVA, &iova.to_le_bytes()).unwrap();
    client.set_register(LENGTH, length);
    client.set_register(OPERATION, operation);
    client.register(STATUS)
}

#[test]
fn memory_is_read_and_written_by_its_file() {
    let (_served, mut client) = Served::with_client(1 << 20);
    let fd = memory_file(0x4000);
    client.map(region(0x10_0000, 0x2000, 0x1000), Some(&fd)).unwrap();
    let file = File::from(fd);
    file.write_all_at(b"to the device", 0x1FF8).unwrap();
    assert_eq!(operate(&mut client, DO_READ, 0x10_0FF8, 13), DONE_WELL);
    assert_eq!(client.read(0, BUFFER, 13).unwrap(), b"to the device");

    client.write(0, BUFFER, b"from it").unwrap();
    assert_eq!(operate(&mut client, DO_WRITE, 0x10_1FF9, 7), DONE_WELL);
    let mut bytes = [0; 7];
    file.read_exact_at(&mut bytes, 0x2FF9).unwrap();
    assert_eq!(&bytes, b"from it");
}

#[test]
fn a_dma_crosses_regions() {
    let (_served, mut client) = Served::with_client(1 << 20);
    let (low, high) = (memory_file(0x1000), memory_file(0x1000));
    client.map(region(0x2000, 0x1000, 0), Some(&high)).unwrap();
    client.map(region(0x1000, 0x1000, 0), Some(&low)).unwrap();
    client.write(0, BUFFER, b"both").unwrap();
    assert_eq!(operate(&mut client, DO_WRITE, 0x1FFE, 4), DONE_WELL);
    let mut bytes = [0; 2];
    File::from(low).read_exact_at(&mut bytes, 0xFFE).unwrap();
    assert_eq!(&bytes, b"bo");
    File::from(high).read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"th");
}

#[test]
fn a_region_for_reading_is_not_written() {
    let (_served, mut client) = Served::with_client(1 << 20);
    let fd = memory_file(0x1000);
    client.map(DmaMap { flags: 1, ..region(0, 0x1000, 0) }, Some(&fd)).unwrap();
    client.map(DmaMap { flags: 2, ..region(0x1000, 0x1000, 0) }, Some(&fd)).unwrap();
    assert_eq!(operate(&mut client, DO_READ, 0, 4), DONE_WELL);
    assert_eq!(operate(&mut client, DO_WRITE, 0, 4), DONE_REFUSED);
    assert_eq!(operate(&mut client, DO_READ, 0x1000, 4), DONE_REFUSED);
    assert_eq!(operate(&mut client, DO_WRITE, 0x1000, 4), DONE_WELL);
}

#[test]
fn a_region_that_shrank_refuses_dma() {
    let (_served, mut client) = Served::with_client(1 << 20);
    let fd = memory_file(0x2000);
    client.map(region(0, 0x2000, 0), Some(&fd)).unwrap();
    ftruncate(&fd, 0x1000).unwrap();
    assert_eq!(operate(&mut client, DO_READ, 0xFFE, 4), DONE_REFUSED);
}

#[test]
fn maps_and_unmaps_are_checked() {
    let (_served, mut client) = Served::with_client(1 << 20);
    let fd = memory_file(0x1000);
    client.map(region(0x1000, 0x1000, 0), Some(&fd)).unwrap();
    assert_eq!(client.map(region(0x1FFF, 0x1000, 0), None), Err(EXISTS));
    assert_eq!(client.map(region(0x5000, 0, 0), None), Err(INVALID));
    assert_eq!(client.map(region(u64::MAX, 2, 0), None), Err(INVALID));
    assert_eq!(client.map(region(0x5000, 0x1000, u64::MAX - 0xFFF), Some(&fd)), Err(INVALID));
    assert_eq!(client.map(DmaMap { flags: 4, ..region(0x5000, 0x1000, 0) }, None), Err(INVALID));
    let map = region(0x5000, 0x1000, 0);
    let two = [fd.as_fd(), fd.as_fd()];
    assert_eq!(client.ask_with(command::DMA_MAP, map.as_bytes(), &two), Err(INVALID));
    for (flags, iova, bytes) in
        [(0, 0x1000, 0x800), (1, 0x1000, 0x1000), (UNMAP_ALL, 0x1000, 0x1000), (0, 0, 0), (0, u64::MAX, 2)]
    {
        assert_eq!(client.unmap(flags, iova, bytes), Err(INVALID), "{iova:#x}");
    }
    assert_eq!(client.map(region(0x1000, 0x1000, 0), Some(&fd)), Err(EXISTS));
    client.unmap(0, 0x1000, 0x1000).unwrap();
    client.unmap(0, 0x1000, 0x1000).unwrap();
    client.map(region(0x1000, 0x1000, 0), Some(&fd)).unwrap();
    client.unmap(0, 0, 0x8000_0000).unwrap();
    client.map(region(0x1000, 0x1000, 0), Some(&fd)).unwrap();
    client.unmap(UNMAP_ALL, 0, 0).unwrap();
    client.map(region(0, u64::MAX, 0), None).unwrap();
    client.unmap(0, 0, u64::MAX).unwrap();
}

#[test]
fn thousands_of_pages_of_one_file_are_mapped() {
    let (_served, mut client) = Served::with_client(1 << 20);
    let fd = memory_file(0x1000_0000);
    for page in 0..5000 {
        client.map(region(page * 0x1000, 0x1000, page * 0x1000), Some(&fd)).unwrap();
    }
    client.write(0, BUFFER, b"far").unwrap();
    assert_eq!(operate(&mut client, DO_WRITE, 4999 * 0x1000, 3), DONE_WELL);
    let mut bytes = [0; 3];
    File::from(fd).read_exact_at(&mut bytes, 4999 * 0x1000).unwrap();
    assert_eq!(&bytes, b"far");
}
