//! Data through the whole server: rings, commands, page lists, the controller and back.

use crate::support::{Bytes, Setup, System, WINDOW, entry, open, session};
use blk_api::Status;
use blk_api::config::Completion;
use blk_api::extent::Extent;
use blk_api::request::{Entry, Opcode, Segment};
use blk_api::session::{STATISTICS, Statistics};
use nvme_spec::nvm;

fn disk(system: &System, block: usize, blocks: usize) -> Vec<u8> {
    system.world.state().controller.disk(block * 512..(block + blocks) * 512)
}

fn success(system: &mut System, index: usize, entry: Entry) {
    let completed = system.request(index, entry);
    assert_eq!((completed.status(), completed.device_status), (Some(Status::Success), 0));
}

#[test]
fn a_read_brings_the_blocks_of_the_sessions_own_numbering() {
    let mut system = open();
    success(&mut system, 1, entry(Opcode::Read, 7, 3, 516));
    assert_eq!(system.clients[1].window.get(516..516 + 1536), disk(&system, 1007, 3));
    assert_eq!(system.clients[1].window.get(0..516), [0; 516]);
}

#[test]
fn a_write_reaches_its_blocks_and_no_others() {
    let mut system = open();
    let (before, data) = (disk(&system, 0, 4096), [0xa5; 1024]);
    system.clients[0].window.put(4, &data);
    success(&mut system, 0, entry(Opcode::Write, 998, 2, 4));
    assert_eq!(disk(&system, 998, 2), data);
    assert_eq!(disk(&system, 0, 998), before[..998 * 512]);
    assert_eq!(disk(&system, 1000, 3096), before[1000 * 512..]);
}

#[test]
fn zeroes_discard_and_flush_move_no_data() {
    let mut system = open();
    let before = disk(&system, 1007, 1);
    success(&mut system, 1, entry(Opcode::Discard, 5, 2, 0));
    assert_eq!(disk(&system, 1005, 3), [vec![0; 1024], before].concat());
    success(&mut system, 1, entry(Opcode::WriteZeroes, 0, 900, 0));
    assert_eq!(disk(&system, 1000, 900), vec![0; 900 * 512]);
    success(&mut system, 1, Entry { opcode: Opcode::Flush as u8, ..Entry::default() });
    assert_eq!(system.world.state().controller.moved, []);
}

#[test]
fn a_compare_reads_the_window_and_reports_a_difference() {
    let mut system = open();
    let data = disk(&system, 1007, 100);
    // Several commands.
    system.clients[1].window.put(516, &data);
    let compare = entry(Opcode::Compare, 7, 100, 516);
    success(&mut system, 1, compare);
    assert_eq!(system.world.state().controller.submitted.len(), 7);
    for at in [0, 51_199] {
        let mut other = data.clone();
        other[at] ^= 1;
        system.clients[1].window.put(516, &other);
        let completed = system.request(1, compare);
        let compare_failure = nvme_spec::Status::new(nvme_spec::StatusCode::CompareFailure).to_raw();
        assert_eq!((completed.status(), completed.device_status), (Some(Status::CompareFailed), compare_failure));
        assert_eq!(system.clients[1].window.get(516..516 + data.len()), other, "it stays as it is");
    }
    assert_eq!(disk(&system, 1007, 100), data);
    let statistics: Statistics = system.call(2, STATISTICS).unwrap().payload().unwrap();
    assert_eq!((statistics.written_bytes, statistics.errors), (0, 2));
}

#[test]
fn a_verify_moves_no_data_and_reports_bad_media() {
    let mut system = open();
    success(&mut system, 1, entry(Opcode::Verify, 7, 100, 0));
    assert_eq!(system.world.state().controller.moved, []);
    let named: Vec<_> = system.world.state().controller.named.iter().map(|(_, blocks)| blocks.clone()).collect();
    assert_eq!((named.first().map(|first| first.start), named.last().map(|last| last.end)), (Some(1007), Some(1107)));
    let unread = nvme_spec::StatusCode::UnrecoveredRead;
    system.controller(|controller, _| controller.fails = Some((unread.into(), 1)));
    assert_eq!(system.request(1, entry(Opcode::Verify, 7, 1, 0)).status(), Some(Status::MediaError));
    let statistics: Statistics = system.call(2, STATISTICS).unwrap().payload().unwrap();
    assert_eq!((statistics.read_bytes, statistics.written_bytes), (51_200, 0));
}

#[test]
fn operations_the_controller_lacks_are_answered_without_it() {
    let mut setup = Setup::default();
    setup.shape.optional = false;
    let mut system = System::serving(setup, 1);
    success(&mut system, 0, entry(Opcode::Discard, 0, 8, 0));
    for opcode in [Opcode::WriteZeroes, Opcode::Verify, Opcode::Compare] {
        assert_eq!(system.request(0, entry(opcode, 0, 8, 0)).status(), Some(Status::Unsupported), "{opcode:?}");
    }
    assert!(system.world.state().controller.submitted.is_empty());
}

#[test]
fn a_request_larger_than_a_command_is_split_and_answered_once() {
    let mut system = open();
    // 100 KiB at 8 KiB a command, with 8 commands in flight at most.
    success(&mut system, 0, entry(Opcode::Read, 1, 200, 1024));
    assert_eq!(system.clients[0].window.get(1024..1024 + 200 * 512), disk(&system, 1, 200));
    assert_eq!(system.world.state().controller.submitted.len(), 13);
    system.settle();
    assert_eq!(system.completions(0), []);
}

#[test]
fn a_request_over_extents_and_ranges_is_put_together_in_order() {
    let only = session("only", 0).with(vec![Extent::new(3000, 5), Extent::new(64, 10)]);
    let mut system = System::serving(Setup { sessions: vec![only], ..Setup::default() }, 1);
    let mut read = entry(Opcode::Read, 2, 8, 0);
    read.segment_count = 3;
    read.segments[..3].copy_from_slice(&[
        Segment { offset: 8192, len: 1024 },
        Segment { offset: 4, len: 2048 },
        Segment { offset: WINDOW as u32 - 1024, len: 1024 },
    ]);
    success(&mut system, 0, read);
    let expected = [disk(&system, 3002, 3), disk(&system, 64, 5)].concat();
    let window = &system.clients[0].window;
    let found = [window.get(8192..9216), window.get(4..2052), window.get(WINDOW - 1024..WINDOW)].concat();
    assert_eq!(found, expected);
}

#[test]
fn blocks_whose_record_had_to_go_are_a_miss_and_not_a_mistake() {
    const EXTENTS: u64 = 64 + 1;
    // Backwards, so that no two of them become one record.
    let only = session("only", 0).with((0..EXTENTS).rev().map(|first| Extent::new(first, 1)).collect());
    let setup = Setup { sessions: vec![only], records: EXTENTS as u32 - 1, ..Setup::default() };
    let mut system = System::serving(setup, 1);
    assert_eq!(system.request(0, entry(Opcode::Read, 0, 1, 0)).status(), Some(Status::NotInstalled));
    assert!(system.world.state().controller.submitted.is_empty());
    success(&mut system, 0, entry(Opcode::Read, EXTENTS - 2, 2, 1024));
    let expected = [disk(&system, 1, 1), disk(&system, 0, 1)].concat();
    assert_eq!(system.clients[0].window.get(1024..2048), expected);
    let statistics: Statistics = system.call(1, STATISTICS).unwrap().payload().unwrap();
    assert_eq!((statistics.not_installed, statistics.forbidden, statistics.refused), (1, 0, 0));
}

#[test]
fn without_a_transfer_limit_one_command_carries_a_page_list() {
    let mut setup = Setup { sessions: vec![session("only", 0)], ..Setup::default() };
    setup.shape.mdts = 0;
    let mut system = System::serving(setup, 1);
    success(&mut system, 0, entry(Opcode::Read, 0, 500, 516));
    assert_eq!(system.clients[0].window.get(516..516 + 500 * 512), disk(&system, 0, 500));
    assert_eq!(system.world.state().controller.submitted.len(), 1);
}

#[test]
fn requests_beyond_what_may_be_in_flight_wait_for_places() {
    let mut system = open().holding();
    let entries: Vec<_> = (0..16).map(|lba| Entry { user_data: lba, ..entry(Opcode::Read, lba, 1, 0) }).collect();
    system.submit(0, &entries);
    assert_eq!(system.world.state().controller.submitted.len(), 8);
    for done in 1..=16 {
        system.controller(|controller, bus| controller.finish(bus, 1));
        assert_eq!(system.completions(0).iter().map(|c| c.user_data).collect::<Vec<_>>(), [done - 1]);
    }
    assert_eq!(system.completions(0), []);
}

#[test]
fn what_one_batch_brings_is_rung_once() {
    let mut system = open();
    let entries: Vec<_> = (0..8).map(|lba| entry(Opcode::Read, lba, 1, 0)).collect();
    system.submit(0, &entries);
    assert_eq!(system.completions(0).len(), 8);
    let statistics: blk_api::session::Statistics =
        system.call(1, blk_api::session::STATISTICS).unwrap().payload().unwrap();
    assert_eq!((statistics.requests, statistics.commands, statistics.doorbells), (8, 8, 2));
    assert_eq!((statistics.read_bytes, statistics.errors, statistics.refused), (8 * 512, 0, 0));
}

#[test]
fn each_queue_pairs_doorbells_are_counted() {
    let mut setup = Setup::default();
    setup.sessions[0].config.queue_pairs = 2;
    let mut system = System::serving(setup, 1).holding();
    // A batch on each pair, and all their completions in one poll.
    for lba in [0, 10] {
        system.submit(0, &[entry(Opcode::Read, lba, 1, 0), entry(Opcode::Read, lba + 1, 1, 512)]);
    }
    system.controller(|controller, bus| controller.finish(bus, 4));
    assert_eq!(system.completions(0).len(), 4);
    let statistics: blk_api::session::Statistics =
        system.call(1, blk_api::session::STATISTICS).unwrap().payload().unwrap();
    assert_eq!((statistics.commands, statistics.doorbells), (4, 4), "two tails, two heads");
}

#[test]
fn every_way_of_noticing_completions_serves() {
    for completion in [Completion::Interrupt, Completion::Polled, Completion::Hybrid] {
        let mut setup = Setup::default();
        setup.sessions[0].config.completion = completion;
        let mut system = System::serving(setup, 1);
        for lba in 0..100 {
            success(&mut system, 0, entry(Opcode::Read, lba, 1, 0));
        }
        system.controller(|controller, _| controller.hold = true);
        system.submit(0, &[entry(Opcode::Read, 0, 1, 0)]);
        system.controller(|controller, bus| controller.finish(bus, 1));
        assert_eq!(system.completions(0).len(), 1);
    }
}

#[test]
fn only_a_sleeping_client_is_signalled() {
    let mut system = open();
    system.submit(0, &[entry(Opcode::Read, 0, 1, 0)]);
    assert_eq!((system.client_signals(0), system.completions(0).len()), (0, 1));
    assert_eq!(system.clients[0].end.prepare_sleep(), Ok(false));
    system.submit(0, &[entry(Opcode::Read, 0, 1, 0)]);
    assert_eq!((system.client_signals(0), system.client_signals(1)), (1, 0));
}

#[test]
fn a_media_error_reaches_the_request_that_asked_and_no_other() {
    let mut system = open();
    system.controller(|controller, _| controller.bad_block = Some(1010));
    let read = |lba| Entry { user_data: lba, ..entry(Opcode::Read, lba, 1, 0) };
    system.submit(0, &[read(9), read(10), read(11)]);
    system.submit(1, &[read(9), read(10), read(11)]);
    let outcome = |system: &mut System, index| -> Vec<_> {
        system.completions(index).iter().map(|c| (c.user_data, c.status().unwrap(), c.device_status)).collect()
    };
    assert_eq!(outcome(&mut system, 0), [9, 10, 11].map(|lba| (lba, Status::Success, 0)));
    assert_eq!(
        outcome(&mut system, 1),
        [(9, Status::Success, 0), (10, Status::MediaError, 0x281), (11, Status::Success, 0)]
    );
    // In the middle of a split request it is the whole request's error, reported once.
    let split = system.request(1, entry(Opcode::Read, 0, 100, 0));
    assert_eq!((split.status(), split.device_status), (Some(Status::MediaError), 0x281));
    assert!(system.take_failures().is_empty());
}

#[test]
fn an_entry_changed_after_it_was_taken_has_no_effect() {
    let mut system = open().holding();
    // Split, so that most of its commands are submitted after the change.
    system.submit(0, &[Entry { user_data: 5, ..entry(Opcode::Read, 0, 400, 0) }]);
    assert_eq!(system.world.state().controller.submitted.len(), 8);
    let changed = entry(Opcode::Write, 900, 100, 4);
    system.clients[0].ring_client.put(blk_api::ring::SLOTS, zerocopy::IntoBytes::as_bytes(&changed));
    while system.completions(0).is_empty() {
        system.controller(|controller, bus| controller.finish(bus, 1));
    }
    let state = system.world.state();
    assert_eq!(state.controller.submitted.len(), 25);
    assert!(state.controller.submitted.iter().all(|(_, sqe)| sqe.opcode() == nvm::Opcode::Read as u8));
    drop(state);
    assert_eq!(system.clients[0].window.get(0..400 * 512), disk(&system, 0, 400));
}
