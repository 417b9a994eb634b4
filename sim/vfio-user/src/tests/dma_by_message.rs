//! DMA by messages, and requests that arrive while the server waits for the client's reply to one.

use super::client::{CONFIG, Client, region};
use super::device::{
    BUFFER, DO_READ, DO_WRITE, DONE_REFUSED, DONE_WELL, IOVA, LENGTH, OPERATION, RESETS, STATUS, Served, VOLATILE,
};
use crate::message::{command, irq_set_flag};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use zerocopy::IntoBytes;

/// Has the device begin with a DMA, without waiting for the answer to the write that starts it.
fn start(client: &mut Client, operation: u32, iova: u64, length: u32) {
    client.post_write(0, IOVA, &iova.to_le_bytes());
    client.post_write(0, LENGTH, &length.to_le_bytes());
    client.post_write(0, OPERATION, &operation.to_le_bytes());
}

#[test]
fn memory_is_read_and_written_by_messages() {
    let (_served, mut client) = Served::with_client(1 << 20);
    start(&mut client, DO_READ, 0x1234, 5);
    let (asked, _) = client.dma_message(command::DMA_READ, 0x1234, 5);
    client.answer_dma(asked, 0x1234, 5, b"hello");
    assert_eq!(client.read(0, BUFFER, 5).unwrap(), b"hello");
    assert_eq!(client.register(STATUS), DONE_WELL);

    start(&mut client, DO_WRITE, 0x4321, 4);
    let (asked, data) = client.dma_message(command::DMA_WRITE, 0x4321, 4);
    assert_eq!(data, b"hell");
    client.answer_dma(asked, 0x4321, 4, &[]);
    assert_eq!(client.register(STATUS), DONE_WELL);
    start(&mut client, DO_WRITE, 0x4321, 4);
    let (asked, _) = client.dma_message(command::DMA_WRITE, 0x4321, 4);
    // As QEMU does: the header alone.
    client.send(asked.reply(0), &[], &[]);
    assert_eq!(client.register(STATUS), DONE_WELL);
}

#[test]
fn a_message_carries_what_was_agreed_at_most() {
    let (_served, mut client) = Served::with_client(4);
    start(&mut client, DO_READ, 0x1000, 10);
    for (iova, data) in [(0x1000, &b"0123"[..]), (0x1004, b"4567"), (0x1008, b"89")] {
        let (asked, _) = client.dma_message(command::DMA_READ, iova, data.len() as u64);
        client.answer_dma(asked, iova, data.len() as u64, data);
    }
    assert_eq!(client.read(0, BUFFER, 10).unwrap(), b"0123456789");
}

#[test]
fn a_dma_crosses_from_a_file_to_messages_and_back() {
    let (_served, mut client) = Served::with_client(1 << 20);
    let fd = memfd_create("memory", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&fd, 0x2000).unwrap();
    client.map(region(0x1000, 0x1000, 0), Some(&fd)).unwrap();
    client.map(region(0x2000, 4, 0), None).unwrap();
    client.map(region(0x2008, 0x1000, 0x1000), Some(&fd)).unwrap();
    start(&mut client, DO_READ, 0x1FFE, 12);
    // The region without a file, and then the gap.
    let (asked, _) = client.dma_message(command::DMA_READ, 0x2000, 4);
    client.answer_dma(asked, 0x2000, 4, b"abcd");
    let (asked, _) = client.dma_message(command::DMA_READ, 0x2004, 4);
    client.answer_dma(asked, 0x2004, 4, b"efgh");
    assert_eq!(client.read(0, BUFFER, 12).unwrap(), b"\0\0abcdefgh\0\0");
}

#[test]
fn a_refused_message_is_a_refused_dma() {
    let (_served, mut client) = Served::with_client(1 << 20);
    for operation in [DO_READ, DO_WRITE] {
        start(&mut client, operation, 0x1000, 4);
        let (asked, _) = client.receive();
        client.refuse_dma(asked);
        assert_eq!(client.register(STATUS), DONE_REFUSED);
    }
}

#[test]
fn registers_are_read_while_a_dma_waits() {
    let (_served, mut client) = Served::with_client(1 << 20);
    client.set_register(8, 0x5555);
    start(&mut client, DO_READ, 0x1000, 4);
    let (asked, _) = client.dma_message(command::DMA_READ, 0x1000, 4);
    assert_eq!(client.register(8), 0x5555);
    assert_eq!(client.register(STATUS), 0);
    assert_eq!(client.read(CONFIG, 0x10, 4), Ok(vec![0x10, 0x11, 0x12, 0x13]));
    client.answer_dma(asked, 0x1000, 4, b"data");
    assert_eq!(client.register(STATUS), DONE_WELL);
}

#[test]
fn writes_during_a_dma_are_done_after_it_in_order() {
    let (_served, mut client) = Served::with_client(1 << 20);
    start(&mut client, DO_READ, 0x1000, 4);
    let (asked, _) = client.dma_message(command::DMA_READ, 0x1000, 4);
    client.set_register(8, 1);
    client.post_write(0, 8, &2_u32.to_le_bytes());
    client.write(0, BUFFER, b"wr").unwrap();
    client.write(CONFIG, 4, &[6, 7]).unwrap();
    // Bits that read back as written do so at once, others when the device has them.
    assert_eq!(client.register(8), 2);
    assert_eq!(client.read(CONFIG, 4, 2), Ok(vec![6, 7]));
    assert_eq!(client.read(0, BUFFER, 2), Ok(vec![0, 0]));
    client.answer_dma(asked, 0x1000, 4, b"data");
    assert_eq!(client.read(0, BUFFER, 4).unwrap(), b"wrta");
    assert_eq!(client.register(8), 2);
    assert_eq!(client.read(CONFIG, 4, 2), Ok(vec![6, 7]));
}

#[test]
fn a_dma_started_during_a_dma_follows_it() {
    let (_served, mut client) = Served::with_client(1 << 20);
    start(&mut client, DO_READ, 0x1000, 4);
    let (first, _) = client.dma_message(command::DMA_READ, 0x1000, 4);
    start(&mut client, DO_WRITE, 0x2000, 4);
    client.answer_dma(first, 0x1000, 4, b"data");
    let (second, data) = client.dma_message(command::DMA_WRITE, 0x2000, 4);
    assert_eq!(data, b"data");
    assert_ne!(second.id, first.id);
    client.answer_dma(second, 0x2000, 4, &[]);
    assert_eq!(client.register(STATUS), DONE_WELL);
}

#[test]
fn requests_without_device_are_done_during_a_dma() {
    let (_served, mut client) = Served::with_client(4);
    client.map(region(0x1000, 0x1000, 0), None).unwrap();
    start(&mut client, DO_READ, 0x1000, 8);
    let (asked, _) = client.dma_message(command::DMA_READ, 0x1000, 4);
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    client.set_events(2, 0, &[&event]).unwrap();
    client.set_irqs(irq_set_flag::DATA_NONE | irq_set_flag::ACTION_UNMASK, 0, 0, 1).unwrap();
    // The region is unmapped while it is in use; another one takes its place.
    client.unmap(0, 0x1000, 0x1000).unwrap();
    let fd = memfd_create("memory", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&fd, 0x1000).unwrap();
    client.map(region(0x1000, 0x1000, 0), Some(&fd)).unwrap();
    client.answer_dma(asked, 0x1000, 4, b"data");
    assert_eq!(client.read(0, BUFFER, 8).unwrap(), b"data\0\0\0\0");
}

#[test]
fn a_reset_ends_the_dma_and_is_answered_after_it() {
    let (served, mut client) = Served::with_client(1 << 20);
    start(&mut client, DO_READ, 0x1000, 4);
    let (asked, _) = client.dma_message(command::DMA_READ, 0x1000, 4);
    client.post_write(0, 8, &[1]);
    assert_eq!(client.ask(command::DEVICE_RESET, &[]), Ok(vec![]));
    assert_eq!((client.register(8), client.register(RESETS)), (0, 1));
    // The late reply is dropped; a new DMA works, and is answered by its own reply only.
    start(&mut client, DO_READ, 0x2000, 4);
    let (next, _) = client.dma_message(command::DMA_READ, 0x2000, 4);
    client.answer_dma(asked, 0x1000, 4, b"late");
    client.answer_dma(next, 0x2000, 4, b"next");
    assert_eq!(client.read(0, BUFFER, 4).unwrap(), b"next");
    assert_eq!(served.end(), ["the server was stopped"]);
}

#[test]
fn reads_outside_of_the_snapshot_are_refused() {
    let (_served, mut client) = Served::with_client(1 << 20);
    start(&mut client, DO_READ, 0x1000, 4);
    let (asked, _) = client.dma_message(command::DMA_READ, 0x1000, 4);
    assert_eq!(client.read(0, VOLATILE, 4), Err(Errno::AGAIN.raw_os_error() as u32));
    assert_eq!(client.read(2, 0, 4), Err(Errno::AGAIN.raw_os_error() as u32));
    client.answer_dma(asked, 0x1000, 4, b"data");
    assert_eq!(client.register(VOLATILE), 1);
}

#[test]
fn a_client_that_leaves_during_a_dma_blocks_it() {
    let (served, mut client) = Served::with_client(1 << 20);
    start(&mut client, DO_READ, 0x1000, 4);
    let _ = client.dma_message(command::DMA_READ, 0x1000, 4);
    drop(client);
    let mut next = Client::begin(&served.path, 1 << 20);
    assert_eq!(next.register(RESETS), 1);
    drop(next);
    assert_eq!(served.end()[0], "the client left");
}

#[test]
fn a_dma_that_is_never_answered_ends_the_session() {
    let served = Served::impatient();
    let mut client = Client::begin(&served.path, 1 << 20);
    start(&mut client, DO_READ, 0x1000, 4);
    let _ = client.dma_message(command::DMA_READ, 0x1000, 4);
    let mut next = Client::begin(&served.path, 1 << 20);
    assert_eq!(next.register(RESETS), 1);
    assert_eq!(served.end()[0], "the client did not answer a DMA message within 200ms");
}

#[test]
fn a_reply_that_is_shifted_by_four_bytes_is_found() {
    let (served, mut client) = Served::with_client(1 << 20);
    start(&mut client, DO_READ, 0x1000, 4);
    let (asked, _) = client.dma_message(command::DMA_READ, 0x1000, 4);
    // As QEMU 10.1 does: 32 bits of count, then the data.
    let body = [0x1000_u64.as_bytes(), 4_u32.as_bytes(), b"data", &[0; 4]].concat();
    client.send(asked.reply(20), &body, &[]);
    let mut next = Client::begin(&served.path, 1 << 20);
    assert_eq!(next.register(STATUS), 0);
    assert!(served.end()[0].contains("32-bit counts"));
}

#[test]
fn dma_is_gone_while_a_reset_waits() {
    let (_served, mut client) = Served::with_client(1 << 20);
    start(&mut client, DO_READ, 0x1000, 4);
    let (dma, _) = client.dma_message(command::DMA_READ, 0x1000, 4);
    // A second DMA waits in the queue before the reset: it sends no message.
    start(&mut client, DO_WRITE, 0x2000, 4);
    let reset = client.command(command::DEVICE_RESET, &[], &[]);
    assert_eq!(client.reply_to(reset), Ok(vec![]));
    client.answer_dma(dma, 0x1000, 4, b"late");
    assert_eq!((client.register(STATUS), client.register(RESETS)), (0, 1));
}
