//! Whatever a client sends, the server does not panic and serves the next client.

use super::client::{CONFIG, Client, region};
use super::device::Served;
use crate::message::{Header, IrqSet, RegionAccess, command, flag, irq_set_flag};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use zerocopy::IntoBytes;

/// A message with a header that is right about its size.
#[derive(Clone, Debug)]
struct Sent {
    command: u16,
    flags: u32,
    body: Vec<u8>,
    fds: usize,
}

/// Lets the server come to an end with a client that has nothing more to say.
fn leave(client: &mut Client) {
    let _ = client.stream.shutdown(Shutdown::Write);
    let _ = client.stream.read_to_end(&mut Vec::new());
}

fn assert_serves(served: &Served) {
    let mut proper = Client::begin(&served.path, 1 << 20);
    proper.set_register(0, 0x600D);
    assert_eq!(proper.register(0), 0x600D);
    assert_eq!(proper.read(CONFIG, 0, 4096).unwrap().len(), 4096);
}

/// Any command with any body. Its numbers are small often, so that they mean something now and then.
fn random() -> impl Strategy<Value = Sent> {
    let number = prop_oneof![4 => 0..4_u32, 2 => 0..0x120_u32, 1 => any::<u32>()];
    let flags = prop_oneof![8 => Just(0), 2 => Just(flag::NO_REPLY), 1 => Just(flag::TYPE_REPLY), 1 => 0..64_u32];
    let fds = prop_oneof![8 => Just(0_usize), 2 => 1..4_usize, 1 => Just(17)];
    (0..20_u16, flags, vec(number, 0..16), fds).prop_map(|(command, flags, body, fds)| {
        let body = body.into_iter().flat_map(u32::to_le_bytes).collect();
        Sent { command, flags, body, fds }
    })
}

/// An access that often is right: also one that starts DMA, interrupts and events.
fn access() -> impl Strategy<Value = Sent> {
    let place = prop_oneof![
        8 => (Just(0_u32), (0..0x19_u64).prop_map(|register| 4 * register)),
        1 => (0..9_u32, 0..0x1100_u64),
    ];
    let flags = select(vec![0, 0, flag::NO_REPLY]);
    (place, 0..8_u32, select(vec![command::REGION_READ, command::REGION_WRITE]), flags).prop_map(
        |((region, offset), value, command, flags)| {
            let access = RegionAccess { offset, region, count: 4 };
            let data = if command == command::REGION_WRITE { value.to_le_bytes().to_vec() } else { Vec::new() };
            Sent { command, flags, body: [access.as_bytes(), &data].concat(), fds: 0 }
        },
    )
}

/// A map, an unmap or a change of interrupts that often is right.
fn setting() -> impl Strategy<Value = Sent> {
    let map = (0..4_u64, 0..2_usize).prop_map(|(page, fds)| Sent {
        command: command::DMA_MAP,
        flags: 0,
        body: region(page * 4, 4, page).as_bytes().to_vec(),
        fds,
    });
    let irqs = (0..3_u32, 0..4_u32, 0..3_u32, 0..6_u32, 0..3_usize).prop_map(|(index, start, count, action, fds)| {
        use irq_set_flag::{ACTION_MASK, ACTION_TRIGGER, ACTION_UNMASK, DATA_BOOL, DATA_EVENTFD, DATA_NONE};
        let data = [DATA_NONE, DATA_BOOL, DATA_EVENTFD][fds];
        let action = [ACTION_TRIGGER, ACTION_TRIGGER, ACTION_TRIGGER, ACTION_MASK, ACTION_UNMASK, 0][action as usize];
        let set = IrqSet { argsz: 20, flags: data | action, index, start, count };
        Sent {
            command: command::DEVICE_SET_IRQS,
            flags: 0,
            body: [set.as_bytes(), &[1, 0, 1]].concat(),
            fds: if data == DATA_EVENTFD { count as usize } else { 0 },
        }
    });
    prop_oneof![map, irqs]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_leave_the_server_in_order(bytes in vec(any::<u8>(), 0..200), begins in any::<bool>()) {
        let served = Served::begin();
        let mut client = if begins { Client::begin(&served.path, 4096) } else { Client::connect(&served.path) };
        let _ = client.stream.write_all(&bytes);
        leave(&mut client);
        assert_serves(&served);
        served.end();
    }

    #[test]
    fn any_messages_leave_the_server_in_order(
        messages in vec(prop_oneof![1 => random(), 8 => access(), 4 => setting()], 0..60),
    ) {
        let served = Served::impatient();
        let mut client = Client::begin(&served.path, 4096);
        let file = memfd_create("memory", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 8).unwrap();
        for Sent { command, flags, body, fds } in messages {
            let header = Header { flags, ..Header::of_command(1, command, body.len() as u32) };
            // The server may have closed the connection already.
            if client.try_send(&[header.as_bytes(), &body].concat(), &vec![file.as_fd(); fds]).is_err() {
                break;
            }
        }
        leave(&mut client);
        assert_serves(&served);
        served.end();
    }
}
