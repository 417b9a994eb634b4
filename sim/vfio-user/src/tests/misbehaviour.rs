//! Clients that break the protocol lose their session, and the next client is served.

use super::client::Client;
use super::device::{DO_READ, OPERATION, RESETS, Served};
use crate::message::{Header, command, flag};
use rustix::event::{EventfdFlags, eventfd};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use zerocopy::IntoBytes;

/// Lets a client do something wrong, then serves a proper one. Returns how the first session ended.
fn end_of(served: Served, wrong: impl FnOnce(&Served)) -> String {
    wrong(&served);
    let mut next = Client::begin(&served.path, 1 << 20);
    assert_eq!(next.register(RESETS), 1);
    served.end().remove(0)
}

/// Whether the server has closed the connection.
fn is_closed(client: &mut Client) -> bool {
    let mut rest = Vec::new();
    client.stream.read_to_end(&mut rest).is_ok_and(|_| rest.is_empty())
}

fn header(bytes: u32, flags: u32) -> Header {
    Header { id: 1, command: command::REGION_READ, bytes, flags, error: 0 }
}

#[test]
fn a_hangup_between_messages_is_no_error() {
    let end = end_of(Served::begin(), |served| drop(Client::begin(&served.path, 1 << 20)));
    assert_eq!(end, "the client left");
}

#[test]
fn a_hangup_inside_of_a_message_is_found() {
    let end = end_of(Served::begin(), |served| {
        let mut client = Client::begin(&served.path, 1 << 20);
        client.stream.write_all(header(32, 0).as_bytes()).unwrap();
        client.stream.write_all(&[0; 5]).unwrap();
        client.stream.shutdown(Shutdown::Write).unwrap();
        assert!(is_closed(&mut client));
    });
    assert_eq!(end, "the client hung up after 21 bytes of a message");
}

#[test]
fn silence_inside_of_a_message_is_bounded() {
    let end = end_of(Served::impatient(), |served| {
        let mut client = Client::begin(&served.path, 1 << 20);
        client.stream.write_all(&header(32, 0).as_bytes()[..15]).unwrap();
        assert!(is_closed(&mut client));
    });
    assert_eq!(end, "the client was silent for 50ms inside of a message");
}

#[test]
fn a_client_that_never_begins_is_dropped() {
    let end = end_of(Served::impatient(), |served| assert!(is_closed(&mut Client::connect(&served.path))));
    assert_eq!(end, "the client was silent for 50ms inside of a message");
}

#[test]
fn a_client_may_be_silent_between_messages() {
    let served = Served::impatient();
    let mut client = Client::begin(&served.path, 1 << 20);
    std::thread::sleep(std::time::Duration::from_millis(150));
    assert_eq!(client.register(RESETS), 0);
}

#[test]
fn claimed_sizes_are_bounded() {
    for (bytes, flags) in [(15, 0), (0, 0), (u32::MAX, 0), ((1 << 20) + 65, 0), (16, 2), (16, 15)] {
        let end = end_of(Served::begin(), |served| {
            let mut client = Client::begin(&served.path, 1 << 20);
            client.stream.write_all(header(bytes, flags).as_bytes()).unwrap();
            assert!(is_closed(&mut client));
        });
        assert!(end.contains("claims a message of") || end.contains("unknown type"), "{end}");
    }
}

#[test]
fn the_first_message_is_the_version() {
    let end = end_of(Served::begin(), |served| {
        let mut client = Client::connect(&served.path);
        client.command(command::DEVICE_RESET, &[], &[]);
        assert!(is_closed(&mut client));
    });
    assert_eq!(end, "the first message is command 13, not VFIO_USER_VERSION");
}

#[test]
fn a_version_that_is_not_served_is_refused() {
    let end = end_of(Served::begin(), |served| {
        let mut client = Client::connect(&served.path);
        assert!(client.ask(command::VERSION, &[1, 0, 0, 0]).is_err());
        assert!(is_closed(&mut client));
    });
    assert_eq!(end, "version negotiation failed: major version 1 is not served");
}

#[test]
fn a_reply_to_nothing_ends_the_session() {
    let end = end_of(Served::begin(), |served| {
        let mut client = Client::begin(&served.path, 1 << 20);
        client.send(header(16, flag::TYPE_REPLY), &[], &[]);
        assert!(is_closed(&mut client));
    });
    assert_eq!(end, "a reply to command 9 with id 1 was not asked for");
}

#[test]
fn too_many_descriptors_end_the_session() {
    let end = end_of(Served::begin(), |served| {
        let mut client = Client::begin(&served.path, 1 << 20);
        let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        client.command(command::DEVICE_RESET, &[], &[event.as_fd(); 17]);
        assert!(is_closed(&mut client));
    });
    assert_eq!(end, "more file descriptors came with a message than can be received");
}

#[test]
fn unused_descriptors_are_closed() {
    let (_served, mut client) = Served::with_client(1 << 20);
    let (reader, writer) = std::io::pipe().unwrap();
    for command in [command::DEVICE_RESET, command::DEVICE_FEATURE, 99] {
        let _ = client.ask_with(command, &[], &[writer.as_fd()]);
    }
    drop(writer);
    // The end of the pipe comes when the last writer is gone.
    let mut reader = reader;
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_flood_during_a_dma_ends_the_session() {
    let end = end_of(Served::begin(), |served| {
        let mut client = Client::begin(&served.path, 1 << 20);
        client.post_write(0, OPERATION + 4, &[0]);
        client.post_write(0, super::device::LENGTH, &4_u32.to_le_bytes());
        client.post_write(0, OPERATION, &DO_READ.to_le_bytes());
        let access = crate::message::RegionAccess { offset: 0, region: 0, count: 1 };
        let write = Header { flags: flag::NO_REPLY, ..Header::of_command(1, command::REGION_WRITE, 17) };
        let message = [write.as_bytes(), access.as_bytes(), &[1]].concat();
        let many = message.repeat(1000);
        while client.stream.write_all(&many).is_ok() {}
    });
    assert_eq!(end, "too many requests arrived while the client had to do a DMA");
}

#[test]
fn a_client_that_reads_nothing_is_dropped() {
    let end = end_of(Served::impatient(), |served| {
        let mut client = Client::begin(&served.path, 1 << 20);
        let access = crate::message::RegionAccess { offset: 0, region: 0, count: 0x800 };
        let read = Header::of_command(1, command::REGION_READ, 16);
        let many = [read.as_bytes(), access.as_bytes()].concat().repeat(1000);
        while client.stream.write_all(&many).is_ok() {}
    });
    assert_eq!(end, "the client was silent for 50ms inside of a message");
}

#[test]
fn a_client_may_write_much_before_it_reads() {
    let (_served, mut client) = Served::with_client(1 << 20);
    let access = crate::message::RegionAccess { offset: 0, region: 0, count: 0x800 };
    let asked: Vec<_> = (0..600).map(|_| client.command(command::REGION_READ, access.as_bytes(), &[])).collect();
    for asked in asked {
        assert_eq!(client.reply_to(asked).unwrap().len(), 0x810);
    }
}
