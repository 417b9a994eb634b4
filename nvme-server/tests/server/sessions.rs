//! Sessions: opened, refused, closed, opened again.

use crate::support::{Act, Object, Setup, System, WINDOW, entry, frames_of, session};
use blk_api::Status;
use blk_api::extent::Extent;
use blk_api::request::Opcode;
use blk_api::session::{CLOSE, DONE, OPEN, PING, Refusal, STATISTICS};
use nvme_spec::StatusCode;
use nvme_spec::admin::Opcode as Admin;

#[test]
fn an_open_session_has_the_geometry_it_was_configured_with() {
    let mut system = System::start(Setup::default());
    let geometry = system.open(0).unwrap();
    assert_eq!((geometry.blocks, geometry.block_bytes, geometry.writable), (1000, 512, 1));
    assert_eq!((geometry.window_bytes, geometry.queue_pairs, geometry.depth), (WINDOW as u64, 1, 8));
}

#[test]
fn window_is_mapped_only_while_its_session_is_open() {
    let mut system = System::start(Setup::default());
    assert_eq!((system.mapped_pages(0), system.mapped_pages(1)), (0, 0));
    system.open(0).unwrap();
    assert_eq!((system.mapped_pages(0), system.mapped_pages(1)), (WINDOW / 4096, 0));
    system.close(0).unwrap();
    assert_eq!((system.mapped_pages(0), system.mapped_pages(1)), (0, 0));
}

#[test]
fn teardown_order_is_commands_queues_window() {
    let mut system = System::serving(Setup::default(), 1).holding();
    system.submit(0, &[entry(Opcode::Read, 0, 1, 0), entry(Opcode::Read, 1, 1, 512)]);
    system.take_acts();
    let call = system.begin_call(1, CLOSE);
    system.pass(1);
    assert_eq!(system.answer(call), None, "commands are in flight");
    assert_eq!(system.mapped_pages(0), WINDOW / 4096);
    system.controller(|controller, bus| controller.finish(bus, 2));
    system.pass(1);
    assert!(system.answer(call).is_some());
    let acts = system.take_acts();
    let deleted = acts.iter().position(|act| matches!(act, Act::Admin(Admin::DeleteIoCq, 1))).unwrap();
    let unmapped = acts.iter().position(|act| *act == Act::Unmapped(frames_of(0).start)).unwrap();
    assert!(deleted < unmapped);
    assert_eq!(system.completions(0).iter().map(|c| c.status).collect::<Vec<_>>(), [0, 0], "reported before it closed");
}

#[test]
fn a_request_that_is_cut_short_by_closing_is_answered_as_closed() {
    let mut system = System::serving(Setup::default(), 1).holding();
    // 13 commands, of which 8 can be given.
    system.submit(0, &[entry(Opcode::Read, 0, 200, 0)]);
    let call = system.begin_call(1, CLOSE);
    system.controller(|controller, bus| controller.finish(bus, 8));
    system.pass(1);
    assert!(system.answer(call).is_some());
    assert_eq!(system.completions(0).iter().map(|c| c.status()).collect::<Vec<_>>(), [Some(Status::Closed)]);
}

#[test]
fn a_second_opening_uses_the_same_queues() {
    let mut system = System::start(Setup::default());
    let mut queues = vec![];
    for _ in 0..100 {
        system.open(1).unwrap();
        queues.push(system.world.state().controller.queues());
        assert_eq!(system.request(1, entry(Opcode::Read, 3, 1, 0)).status, 0);
        system.close(1).unwrap();
        assert_eq!(system.world.state().controller.queues(), (vec![], vec![]));
        system.tick();
    }
    queues.dedup();
    assert_eq!(queues, [(vec![2], vec![2])]);
}

#[test]
fn what_is_no_call_of_the_interface_is_refused() {
    let mut system = System::start(Setup::default());
    assert_eq!(system.call(1, 77), Err(Refusal::BadRequest));
    assert_eq!(system.call(3, OPEN), Err(Refusal::BadRequest));
    assert_eq!(system.call(0, OPEN), Err(Refusal::BadRequest));
    assert_eq!(system.call(u64::MAX, OPEN), Err(Refusal::BadRequest));
    assert_eq!(system.call(1, CLOSE), Err(Refusal::NotOpen));
    assert_eq!(system.call(1, STATISTICS), Err(Refusal::NotOpen));
    assert!(system.call(1, PING).is_ok());
    system.open(0).unwrap();
    assert_eq!(system.call(1, OPEN), Err(Refusal::AlreadyOpen));
    assert_eq!(system.request(0, entry(Opcode::Read, 0, 1, 0)).status, 0);
}

#[test]
fn too_many_queue_pairs_are_refused_at_no_cost() {
    let mut setup = Setup { dma_pages: 48, ..Setup::default() };
    setup.sessions.push(session("third", 2000));
    setup.sessions[2].config.queue_pairs = 3;
    let mut system = System::start(setup);
    for _ in 0..50 {
        assert_eq!(system.open(2), Err(Refusal::NoQueuePairs));
        assert_eq!(system.mapped_pages(2), 0);
        system.tick();
    }
    system.open(0).unwrap();
    system.open(1).unwrap();
    assert_eq!(system.world.state().controller.queues(), (vec![1, 2], vec![1, 2]));
}

#[test]
fn session_without_memory_takes_none_from_others() {
    let mut setup = Setup { dma_pages: 22, ..Setup::default() };
    // Two pairs at 10 pages each do not fit beside the server's own three; one does.
    setup.sessions[0].config.queue_pairs = 2;
    let mut system = System::start(setup);
    for _ in 0..3 {
        assert_eq!(system.open(0), Err(Refusal::Device));
        system.tick();
    }
    system.open(1).unwrap();
}

#[test]
fn blocks_the_namespace_lacks_are_refused() {
    let mut setup = Setup::default();
    setup.sessions[0] = session("first", 0).with(vec![Extent::new(0, 4097)]);
    setup.sessions[1].config.nsid = 2;
    let mut system = System::start(setup);
    assert_eq!(system.open(0), Err(Refusal::NoSuchBlocks));
    assert_eq!(system.open(1), Err(Refusal::NoSuchBlocks));
}

#[test]
fn stopped_client_that_calls_again_gets_the_answer() {
    for label in [OPEN, CLOSE] {
        let mut system = System::start(Setup::default());
        if label == CLOSE {
            system.open(0).unwrap();
        }
        system.controller(|controller, _| controller.deaf = true);
        let first = system.begin_call(1, label);
        // Its reply capability goes when it is stopped.
        system.world.state().slots.retain(|_, object| *object != Object::Caller(first));
        let again = system.begin_call(1, label);
        assert_eq!((system.answer(first), system.answer(again)), (None, None));
        system.controller(|controller, _| controller.deaf = false);
        system.pass(12);
        assert_eq!(system.answer(first), None);
        assert_eq!(system.answer(again).map(|answer| answer.label), Some(DONE), "label {label}");
    }
}

#[test]
fn a_refused_queue_leaves_nothing_behind() {
    for opcode in [Admin::CreateIoCq, Admin::CreateIoSq] {
        let mut setup = Setup::default();
        setup.sessions[0].config.queue_pairs = 2;
        let mut system = System::start(setup);
        system.controller(|controller, _| controller.refuse = Some((opcode, 1)));
        assert_eq!(system.open(0), Err(Refusal::NoQueuePairs));
        assert_eq!(system.world.state().controller.queues(), (vec![], vec![]));
        assert_eq!(system.mapped_pages(0), 0);
        system.open(0).unwrap();
        assert_eq!(system.request(0, entry(Opcode::Read, 0, 1, 0)).status, 0);
    }
}

#[test]
fn a_queue_that_cannot_be_deleted_is_gone_after_a_reset() {
    let mut system = System::serving(Setup::default(), 2);
    system.controller(|controller, _| controller.refuse = Some((Admin::DeleteIoSq, 1)));
    system.close(0).unwrap();
    assert_eq!((system.mapped_pages(0), system.mapped_pages(1)), (0, WINDOW / 4096));
    let refused = format!("{:#x}", nvme_spec::Status::new(StatusCode::InternalError).with_more().to_raw());
    assert!(system.take_failures().iter().any(|reason| reason.contains(&refused)));
    assert_eq!(system.request(1, entry(Opcode::Read, 0, 1, 0)).status, 0);
    system.open(0).unwrap();
    assert_eq!(system.request(0, entry(Opcode::Read, 0, 1, 0)).status, 0);
}

#[test]
fn unmappable_page_table_is_kept_for_the_next_attempt() {
    // Exactly the tables that the pool and two windows need.
    let mut system = System::start(Setup { io_tables: 6, ..Setup::default() });
    system.world.state().refused_tables = 1;
    assert_eq!(system.open(0), Err(Refusal::Device));
    system.open(0).unwrap();
    system.open(1).unwrap();
    assert_eq!(system.world.state().tables_left.len(), 0);
}
