//! The law of the two paths: the same requests have the same answers, and leave the same contents.
//!
//! The server's side is the server in memory of `fake-platform`. A discard leaves contents that the two need not agree on, so
//! each is followed by zeroes.

use crate::support::{Machine, Setup, device, exchange, session, turn};
use blk_client::{Completed, Entry, Opcode, Options, Segment, Session};
use fake_platform::{FakePlatform, block_on};
use platform::{Memory, Platform};
use proptest::prelude::*;

/// The largest request of a function: 2 MiB.
const MAX_BLOCKS: u32 = 4096;
const BLOCKS: u64 = MAX_BLOCKS as u64 + 64;
const WINDOW: u64 = 16 << 10;

/// Bytes between two ranges of the window: they do not overlap, since commands of one read have no order.
const STRIDE: u32 = 3072;

/// Entries of all kinds, most of them valid or almost.
fn entries() -> impl Strategy<Value = Entry> {
    let segments = proptest::array::uniform5((0u32..8, 1u32..6, 0u32..40));
    let lba = prop_oneof![0u64..66, BLOCKS - 40..BLOCKS + 2];
    let blocks = prop_oneof![9 => 0u32..26, 1 => MAX_BLOCKS - 1..MAX_BLOCKS + 2];
    let shape = (0..=Opcode::UNUSED, lba, blocks, 0u8..6, 0u32..20);
    (shape, segments).prop_map(|((opcode, lba, blocks, segment_count, lie), segments)| {
        let mut entry = Entry { opcode, lba, blocks, segment_count, ..Entry::default() };
        for (index, (segment, (shift, blocks, lie))) in (0..).zip(entry.segments.iter_mut().zip(segments)) {
            let (offset, len) = (index * STRIDE + 4 * shift, blocks * 512);
            *segment = match lie {
                0 => Segment { offset: offset + 1, len },
                1 => Segment { offset, len: len + 4 },
                2 => Segment { offset: WINDOW as u32 - len + 4, len },
                _ => Segment { offset, len },
            };
        }
        if lie == 0 {
            return entry;
        }
        // As a client makes it.
        if Opcode::from_raw(opcode).is_some_and(Opcode::moves_data) {
            let count = segment_count.clamp(1, 5);
            if count == 1 {
                entry.segments[0].len = blocks.max(1) * 512;
            }
            let counted = &entry.segments[..usize::from(count)];
            entry.blocks = counted.iter().map(|segment| segment.len / 512).sum();
            entry.segment_count = count;
        } else {
            entry.segment_count = 0;
        }
        if opcode == Opcode::Flush as u8 {
            (entry.lba, entry.blocks) = (0, 0);
        }
        entry
    })
}

/// Does the requests one after another, and returns their answers and what the window holds then.
fn run<P: Platform>(session: &mut Session<P>, entries: &[Entry]) -> (Vec<Completed>, Vec<u8>) {
    let window = session.window().clone();
    let pattern: Vec<u8> = (0..WINDOW as u32).map(|n| (n / 4) as u8 ^ (n / 1024) as u8).collect();
    window.write_bytes(0, &pattern).unwrap();
    let mut answers = vec![];
    for entry in entries {
        answers.extend(exchange(session, &[*entry]).expect("a session that works"));
        if entry.opcode == Opcode::Discard as u8 {
            let zeroes = Entry { opcode: Opcode::WriteZeroes as u8, ..*entry };
            answers.extend(exchange(session, &[zeroes]).expect("a session that works"));
        }
    }
    let mut bytes = vec![0; WINDOW as usize];
    window.read_bytes(0, &mut bytes).unwrap();
    (answers, bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn both_paths_answer_alike_and_leave_the_same_contents(
        entries in prop::collection::vec(entries(), 1..40),
        polls: bool,
        depth in 1u16..9,
    ) {
        let setup = fake_platform::Setup {
            blocks: BLOCKS,
            max_blocks: MAX_BLOCKS,
            window_bytes: WINDOW,
            ..fake_platform::Setup::default()
        };
        let platform = FakePlatform::new(&setup);
        let options = Options { ring_entries: setup.ring_entries, polls, waits: false };
        let environment = platform.environment("tenant", vec![]);
        let mut by_server = block_on(Session::open(platform.clone(), &environment, options)).expect("a session");
        let machine = Machine::new(Setup {
            blocks: BLOCKS,
            window_bytes: WINDOW,
            mdts: 1,
            polls,
            depth,
            ..Setup::default()
        });
        let mut by_function = session(&machine);
        prop_assert_eq!(run(&mut by_function, &entries), run(&mut by_server, &entries));
        let disk = platform.server(|server| server.disk.clone());
        prop_assert!(machine.disk(0, disk.len()) == disk, "the contents differ");
    }

    #[test]
    fn requests_in_flight_together_are_all_answered(
        entries in prop::collection::vec(entries(), 1..200),
        polls: bool,
        depth in 1u16..9,
    ) {
        let machine = Machine::new(Setup {
            blocks: BLOCKS,
            window_bytes: WINDOW,
            mdts: 1,
            polls,
            depth,
            ring_entries: 4,
            ..Setup::default()
        });
        let mut session = session(&machine);
        let answers = exchange(&mut session, &entries).expect("a session that works");
        // The answers do not depend on the others.
        for (entry, answer) in entries.iter().zip(answers) {
            let alone = exchange(&mut session, &[*entry]).expect("a session that works");
            prop_assert_eq!((alone[0].status, alone[0].device_status), (answer.status, answer.device_status));
        }
    }

    #[test]
    fn no_reset_loses_or_reorders_a_change(
        writes in prop::collection::vec((0u64..16, 1u32..9, prop::option::weighted(0.2, 0u64..100_000_000)), 1..60),
        polls: bool,
        depth in 1u16..9,
    ) {
        let machine = Machine::new(Setup { blocks: 32, polls, depth, ..Setup::default() });
        machine.tick_who_waits();
        let device = device(&machine);
        let ranges: Vec<_> = writes.iter().map(|_| device.window().lease(8 * 512).expect("room")).collect();
        let mut expected = vec![0; 32 * 512];
        let done = block_on(device.run(async {
            let mut requests = vec![];
            for (((lba, blocks, reset), range), byte) in writes.iter().zip(&ranges).zip(1u8..) {
                let bytes = *blocks as usize * 512;
                range.write_bytes(0, &vec![byte; bytes]).expect("memory of the window");
                expected[*lba as usize * 512..][..bytes].fill(byte);
                requests.push(device.write(*lba, &[range.part(0, bytes).expect("a part")]));
                if let Some(ns) = reset {
                    // Some of them are done before, and some are in flight.
                    turn().await;
                    machine.yield_now().await;
                    machine.reset(*ns);
                }
            }
            let mut done = vec![];
            for request in requests {
                done.push(request.await);
            }
            done
        }));
        prop_assert_eq!(done, vec![Ok(()); writes.len()]);
        prop_assert!(machine.disk(0, expected.len()) == expected, "the contents differ");
    }
}
