//! Requests on the function path become commands, and each is answered once.

use crate::support::{Machine, Setup, entry, exchange, session};
use blk_client::{Completed, Entry, Opcode, Segment, Status};
use fake_platform::block_on;
use platform::Memory;

/// Both ways to notice completions.
fn both() -> [Setup; 2] {
    [Setup::default(), Setup { polls: true, ..Setup::default() }]
}

fn statuses(completed: &[Completed]) -> Vec<Status> {
    completed.iter().map(|one| one.status().expect("a status")).collect()
}

#[test]
fn written_blocks_are_on_the_namespace_and_are_read_back() {
    for setup in both() {
        let machine = Machine::new(setup);
        let mut session = session(&machine);
        let bytes: Vec<u8> = (0..4096u32).map(|n| (n / 7) as u8).collect();
        session.window().write_bytes(8192, &bytes).unwrap();
        let done = exchange(&mut session, &[entry(Opcode::Write, 100, 8, 8192)]).unwrap();
        assert_eq!(statuses(&done), [Status::Success]);
        let done = exchange(&mut session, &[entry(Opcode::Flush, 0, 0, 0), entry(Opcode::Read, 100, 8, 0)]).unwrap();
        assert_eq!(statuses(&done), [Status::Success; 2]);
        let mut read = vec![0; 4096];
        session.window().read_bytes(0, &mut read).unwrap();
        assert_eq!(read, bytes);
        assert_eq!(machine.disk(100 * 512, 4096), bytes);
        assert_eq!(machine.commands(), 3);
    }
}

#[test]
fn zeroes_and_discards_need_no_data() {
    let machine = Machine::new(Setup::default());
    let mut session = session(&machine);
    session.window().write_bytes(0, &[9; 8192]).unwrap();
    let entries =
        [entry(Opcode::Write, 10, 16, 0), entry(Opcode::WriteZeroes, 12, 4, 0), entry(Opcode::Discard, 20, 4, 0)];
    for one in entries {
        assert_eq!(statuses(&exchange(&mut session, &[one]).unwrap()), [Status::Success]);
    }
    assert_eq!(machine.disk(10 * 512, 1024), [9; 1024]);
    assert_eq!(machine.disk(12 * 512, 2048), [0; 2048]);
    assert_eq!(machine.commands(), 3);
}

#[test]
fn blocks_are_verified_and_compared() {
    let machine = Machine::new(Setup::default());
    let mut session = session(&machine);
    session.window().write_bytes(0, &[9; 8192]).unwrap();
    let compare = entry(Opcode::Compare, 10, 16, 0);
    for one in [entry(Opcode::Write, 10, 16, 0), entry(Opcode::Verify, 0, 4096, 0), compare] {
        assert_eq!(statuses(&exchange(&mut session, &[one]).unwrap()), [Status::Success]);
    }
    session.window().write_bytes(8191, &[8]).unwrap();
    assert_eq!(statuses(&exchange(&mut session, &[compare]).unwrap()), [Status::CompareFailed]);
    assert_eq!(machine.disk(10 * 512, 8192), [9; 8192]);
}

#[test]
fn missing_abilities_are_answered_without_a_command() {
    let machine = Machine::new(Setup { optional: false, ..Setup::default() });
    let mut session = session(&machine);
    let lacking = [Opcode::Discard, Opcode::WriteZeroes, Opcode::Verify, Opcode::Compare];
    let done = exchange(&mut session, &lacking.map(|opcode| entry(opcode, 12, 4, 0))).unwrap();
    assert_eq!(statuses(&done), [Status::Success, Status::Unsupported, Status::Unsupported, Status::Unsupported]);
    assert_eq!(machine.commands(), 0);
}

#[test]
fn ranges_of_the_window_are_one_request_of_several_commands() {
    for setup in both() {
        let machine = Machine::new(setup);
        let mut session = session(&machine);
        let mut write = Entry { opcode: Opcode::Write as u8, segment_count: 3, blocks: 7, lba: 50, ..Entry::default() };
        for (index, (offset, blocks)) in [(20_480, 4), (516, 1), (8192, 2)].into_iter().enumerate() {
            session.window().write_bytes(offset as usize, &vec![index as u8 + 1; blocks * 512]).unwrap();
            write.segments[index] = Segment { offset, len: blocks as u32 * 512 };
        }
        let done = exchange(&mut session, &[write]).unwrap();
        assert_eq!(statuses(&done), [Status::Success]);
        let expected: Vec<u8> = [(1, 4), (2, 1), (3, 2)].iter().flat_map(|(n, b)| vec![*n; b * 512]).collect();
        assert_eq!(machine.disk(50 * 512, 7 * 512), expected);
        assert_eq!(machine.commands(), 3);
    }
}

#[test]
fn transfer_beyond_mdts_is_cut_and_waits_for_room() {
    for setup in both() {
        // 8 KiB a command, and two commands at a time: 25 commands in all.
        let machine = Machine::new(Setup { depth: 2, ..setup });
        let mut session = session(&machine);
        let bytes: Vec<u8> = (0..200 * 1024u32).map(|n| (n / 512) as u8 ^ n as u8).collect();
        session.window().write_bytes(4096, &bytes).unwrap();
        let write = entry(Opcode::Write, 3, 400, 4096);
        let done = exchange(&mut session, &[write, entry(Opcode::Flush, 0, 0, 0)]).unwrap();
        assert_eq!(statuses(&done), [Status::Success; 2]);
        assert_eq!(machine.disk(3 * 512, 200 * 1024), bytes);
        assert_eq!(machine.commands(), 26);
    }
}

#[test]
fn long_transfers_are_named_by_lists() {
    let machine = Machine::new(Setup { mdts: 7, ..Setup::default() });
    let mut session = session(&machine);
    let bytes: Vec<u8> = (0..200 * 1024u32).map(|n| (n / 512) as u8 ^ n as u8).collect();
    session.window().write_bytes(516, &bytes).unwrap();
    exchange(&mut session, &[entry(Opcode::Write, 3, 400, 516)]).unwrap();
    assert_eq!(machine.disk(3 * 512, 200 * 1024), bytes);
    assert_eq!(machine.commands(), 1);
}

#[test]
fn full_session_takes_no_more_and_goes_on() {
    for setup in both() {
        let machine = Machine::new(Setup { depth: 2, ring_entries: 4, ..setup });
        let mut session = session(&machine);
        let read = entry(Opcode::Read, 0, 1, 0);
        let taken = (0..100).take_while(|_| session.submit(&read).unwrap()).count();
        // Two commands and a backlog of as many entries as a ring has.
        assert_eq!(taken, 6);
        session.publish().unwrap();
        let mut found = 0;
        while found < taken {
            while session.complete().unwrap().is_some() {
                found += 1;
            }
            session.publish_taken().unwrap();
            if found < taken {
                block_on(session.wait()).unwrap();
            }
        }
        assert_eq!(session.complete().unwrap(), None);
        let done = exchange(&mut session, &[read; 100]).unwrap();
        assert_eq!(statuses(&done), [Status::Success; 100]);
    }
}

#[test]
fn polling_client_yields_though_completions_are_there() {
    let machine = Machine::new(Setup { polls: true, ..Setup::default() });
    let mut session = session(&machine);
    session.submit(&entry(Opcode::Read, 0, 1, 0)).unwrap();
    session.publish().unwrap();
    // Without a completion each wait yields, and the machine's time passes only then.
    let mut yields = || {
        let before = machine.now_ns();
        block_on(session.wait()).unwrap();
        machine.now_ns() > before
    };
    let waits = (0..100_000).take_while(|_| yields()).count();
    assert!(waits > 0 && waits < 100_000, "{waits}");
    let yielded: Vec<_> = (0..64).map(|_| yields()).collect();
    assert_eq!(yielded.iter().filter(|yielded| **yielded).count(), 4);
    assert!(yielded.chunks(16).all(|some| some.contains(&true)));
}

#[test]
fn refused_entries_reach_no_controller() {
    let machine = Machine::new(Setup { blocks: 8192, ..Setup::default() });
    let mut session = session(&machine);
    let entries = [
        Entry { opcode: 77, ..Entry::default() },
        entry(Opcode::Read, 8192, 1, 0),
        entry(Opcode::Write, 8191, 2, 0),
        entry(Opcode::Read, 0, 4097, 0),
        entry(Opcode::WriteZeroes, 0, 4097, 0),
        entry(Opcode::Read, 0, 1, 2),
        entry(Opcode::Read, 0, 1, 1 << 20),
        Entry { blocks: 2, ..entry(Opcode::Read, 0, 1, 0) },
    ];
    let done = exchange(&mut session, &entries).unwrap();
    let expected = [
        Status::InvalidRequest,
        Status::OutsideExtents,
        Status::OutsideExtents,
        Status::TooLarge,
        Status::TooLarge,
        Status::OutsideWindow,
        Status::OutsideWindow,
        Status::LengthMismatch,
    ];
    assert_eq!(statuses(&done), expected);
    assert_eq!(machine.commands(), 0);
}

#[test]
fn polled_session_has_no_interrupts() {
    let machine = Machine::new(Setup { polls: true, ..Setup::default() });
    let mut session = session(&machine);
    let before = machine.interrupts();
    exchange(&mut session, &[entry(Opcode::Read, 0, 1, 0); 20]).unwrap();
    assert_eq!(machine.interrupts(), before);
}

#[test]
fn masked_interrupts_are_acknowledged() {
    let machine = Machine::new(Setup { masks: true, depth: 1, ..Setup::default() });
    let mut session = session(&machine);
    let before = machine.interrupts();
    for lba in 0..20 {
        exchange(&mut session, &[entry(Opcode::Read, lba, 1, 0)]).unwrap();
    }
    assert!(machine.interrupts() >= before + 20);
    assert!(machine.acknowledged() > 0);
}
