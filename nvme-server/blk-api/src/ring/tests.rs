//! The ring pair over memory that two ends share, and that a liar may write.

use super::*;
use platform::fake::Ram;
use proptest::prelude::*;
use std::collections::VecDeque;

extern crate std;

fn pair(entries: u32) -> (ClientEnd<Ram>, ServerEnd<Ram>, Ram, Ram) {
    let client = Ram::new(client_region_bytes(entries) as usize);
    let server = Ram::new(server_region_bytes(entries) as usize);
    let ours = ClientEnd::new(client.clone(), server.clone(), entries).unwrap();
    let theirs = ServerEnd::new(client.clone(), server.clone(), entries).unwrap();
    (ours, theirs, client, server)
}

fn entry(user_data: u64) -> Entry {
    Entry { user_data, ..Entry::default() }
}

#[test]
fn regions_are_whole_pages_that_hold_every_slot() {
    assert_eq!(client_region_bytes(32), 4096);
    assert_eq!(client_region_bytes(64), 8192);
    assert_eq!(server_region_bytes(4096), 192u64.saturating_add(65536).next_multiple_of(4096));
}

#[test]
fn entries_arrive_after_publishing_and_in_order() {
    let (mut client, mut server, ..) = pair(4);
    assert!(client.submit(&entry(1)).unwrap());
    assert!(client.submit(&entry(2)).unwrap());
    assert_eq!(server.take().unwrap(), None);
    assert!(client.publish().unwrap(), "the server starts asleep");
    assert_eq!(server.take().unwrap().unwrap().user_data, 1);
    assert_eq!(server.take().unwrap().unwrap().user_data, 2);
    assert_eq!(server.take().unwrap(), None);
}

#[test]
fn a_full_ring_takes_no_more_until_the_server_releases() {
    let (mut client, mut server, ..) = pair(2);
    assert!(client.submit(&entry(1)).unwrap() && client.submit(&entry(2)).unwrap());
    assert!(!client.submit(&entry(3)).unwrap());
    client.publish().unwrap();
    server.take().unwrap();
    assert!(!client.submit(&entry(3)).unwrap());
    server.publish_taken().unwrap();
    assert!(client.submit(&entry(3)).unwrap());
}

#[test]
fn an_awake_peer_is_not_signalled() {
    let (mut client, mut server, ..) = pair(2);
    server.awake().unwrap();
    client.submit(&entry(1)).unwrap();
    assert!(!client.publish().unwrap());
    assert!(server.prepare_sleep().unwrap(), "looking again finds what came meanwhile");
}

#[test]
fn tail_beyond_the_ring_is_an_error() {
    let (_, mut server, client_region, _) = pair(4);
    client_region.store_release_u32(PRODUCED, 5).unwrap();
    assert_eq!(server.take(), Err(RingError::IndexOutOfRange));
    client_region.store_release_u32(PRODUCED, u32::MAX).unwrap();
    assert_eq!(server.has_entries(), Err(RingError::IndexOutOfRange));
}

#[test]
fn head_beyond_what_was_answered_is_an_error() {
    let (_, mut server, client_region, _) = pair(2);
    client_region.store_release_u32(CONSUMED, 1).unwrap();
    assert!(server.answerable(0).unwrap() > 0, "not looked at while room is known");
    assert_eq!(server.answerable(2), Err(RingError::IndexOutOfRange));
}

#[test]
fn rings_of_impossible_size_are_refused() {
    let memory = Ram::new(4096);
    for entries in [0, 3, 8192] {
        assert!(ServerEnd::new(memory.clone(), memory.clone(), entries).is_err());
    }
}

proptest! {
    #[test]
    fn every_submission_is_answered_once_in_order(steps in proptest::collection::vec(0u8..6, 1..400)) {
        let (mut client, mut server, ..) = pair(8);
        let (mut sent, mut taken, mut seen) = (0u64, VecDeque::new(), 0u64);
        for step in steps {
            match step {
                0 | 1 => if client.submit(&entry(sent)).unwrap() { sent += 1 },
                2 => { client.publish().unwrap(); }
                3 => {
                    let room = server.answerable(taken.len() as u32).unwrap() > 0;
                    if room && let Some(entry) = server.take().unwrap() { taken.push_back(entry.user_data) }
                    server.publish_taken().unwrap();
                }
                4 => {
                    if let Some(user_data) = taken.pop_front() {
                        server.reply(&Completed { user_data, ..Completed::default() });
                    }
                    server.publish().unwrap();
                }
                _ => {
                    while let Some(completed) = client.complete().unwrap() {
                        prop_assert_eq!(completed.user_data, seen);
                        seen += 1;
                    }
                    client.publish_taken().unwrap();
                }
            }
        }
        prop_assert!(seen <= sent);
    }

    #[test]
    fn server_never_takes_more_than_the_ring_holds(tail: u32, head: u32) {
        let (_, mut server, client_region, _) = pair(8);
        client_region.store_release_u32(PRODUCED, tail).unwrap();
        client_region.store_release_u32(CONSUMED, head).unwrap();
        let mut taken = 0;
        while let Ok(Some(_)) = server.take() { taken += 1; prop_assert!(taken <= 8); }
    }
}
