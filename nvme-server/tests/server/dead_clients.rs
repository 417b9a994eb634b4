//! Clients that die: their sessions end as if they had been closed, and no other client notices.

use crate::support::{Act, Setup, System, WINDOW, entry};
use blk_api::request::{Entry, Opcode};
use blk_api::session::{OPEN, Refusal};
use nvme_spec::admin;
use report::Report;

fn ended_by(system: &System) -> Vec<String> {
    let reports = std::mem::take(&mut system.world.state().reports);
    let ended = |report: Report| match report {
        Report::Session(session) => Some(format!("{}: {}", session.tenant, session.ended_by)),
        _ => None,
    };
    reports.into_iter().filter_map(ended).collect()
}

#[test]
fn dead_clients_commands_end_before_its_window_is_unmapped() {
    let mut system = System::serving(Setup::default(), 2).holding();
    let read = |lba| Entry { user_data: lba, ..entry(Opcode::Read, lba, 1, 0) };
    system.submit(0, &[read(1), read(2)]);
    system.advance_client(0);
    assert_eq!(system.mapped_pages(0), WINDOW / 4096, "two commands may still write there");
    assert_eq!(system.teardown_ack(0), (false, 0), "so nobody may use its memory");
    system.take_acts();
    system.finish_held();
    assert_eq!((system.mapped_pages(0), system.mapped_pages(1)), (0, WINDOW / 4096));
    assert_eq!(system.teardown_ack(0), (true, 1));
    let queue = |act: &Act| match act {
        Act::Admin(opcode @ (admin::Opcode::DeleteIoSq | admin::Opcode::DeleteIoCq), _) => Some(*opcode),
        _ => None,
    };
    let deleted: Vec<_> = system.take_acts().iter().filter_map(queue).collect();
    assert_eq!(deleted, [admin::Opcode::DeleteIoSq, admin::Opcode::DeleteIoCq]);
    assert_eq!(ended_by(&system), ["first: its client died"]);
    assert_eq!(system.request(1, entry(Opcode::Read, 0, 1, 0)).status, 0, "the neighbour's");
}

#[test]
fn ten_thousand_incarnations_of_a_client_leak_nothing() {
    // Exactly the pages that the server and its sessions need.
    let mut system = System::start(Setup { dma_pages: 23, ..Setup::default() });
    for _ in 0..10_000 {
        system.open(0).unwrap();
        assert_eq!(system.request(0, entry(Opcode::Read, 3, 1, 0)).status, 0);
        system.clients[0].advance_incarnation();
        system.clients[0].advance_incarnation();
        // It calls before the server had a tick: it is answered when the session of the previous incarnation is over.
        system.take_acts();
        let opening = system.begin_call(1, OPEN);
        system.tick();
        system.tick();
        assert!(system.answer(opening).is_some_and(|answer| answer.label == blk_api::session::DONE));
        system.close(0).unwrap();
        system.take_failures();
    }
    assert_eq!(system.world.state().controller.queues(), (vec![], vec![]));
    assert_eq!(system.mapped_pages(0), 0);
}

#[test]
fn death_during_opening_leaves_no_session() {
    let mut system = System::start(Setup::default());
    system.controller(|controller, _| controller.deaf_to = Some(admin::Opcode::CreateIoSq));
    let _nobody_waits = system.begin_call(1, OPEN);
    system.clients[0].advance_incarnation();
    system.controller(|controller, _| controller.deaf_to = None);
    system.pass(12);
    assert_eq!(system.mapped_pages(0), 0);
    assert_eq!(system.world.state().controller.queues(), (vec![], vec![]));
    assert_eq!(ended_by(&system), ["first: its client died"]);
    assert_eq!(system.teardown_ack(0), (true, 1), "not while it was half open");
}

#[test]
fn supervisor_is_notified_once_of_each_client_death() {
    let mut system = System::start(Setup::default());
    system.pass(1);
    assert_eq!(system.teardown_ack(0), (false, 0), "it is alive");
    for reported in 1..4 {
        system.open(0).unwrap();
        system.clients[0].advance_incarnation();
        assert!(!system.teardown_ack(0).0, "what was said of the death before");
        system.pass(1);
        assert_eq!(system.teardown_ack(0), (true, reported));
        system.clients[0].advance_incarnation();
        system.pass(1);
        assert_eq!(
            (system.teardown_ack(0), system.teardown_ack(1)),
            ((false, reported), (false, reported)),
            "they are alive"
        );
    }
    // One that had no session.
    system.clients[1].advance_incarnation();
    system.pass(1);
    assert_eq!(system.teardown_ack(1), (true, 4));
}

#[test]
fn death_during_close_is_acknowledged_afterwards() {
    let mut system = System::serving(Setup::default(), 1).holding();
    system.submit(0, &[entry(Opcode::Read, 1, 1, 0)]);
    let _nobody_waits = system.begin_call(1, blk_api::session::CLOSE);
    system.advance_client(0);
    assert_eq!(system.teardown_ack(0), (false, 0), "its command may still write");
    system.finish_held();
    system.tick();
    assert_eq!((system.teardown_ack(0), system.mapped_pages(0)), ((true, 1), 0));
    // It opens and closes until it is beyond its budget, is kept until the tick, and dies before that.
    system.clients[0].advance_incarnation();
    for _ in 0..2 {
        system.open(0).unwrap();
        system.close(0).unwrap();
    }
    let _nobody_waits = system.begin_call(1, OPEN);
    system.advance_client(0);
    assert_eq!((system.teardown_ack(0), system.mapped_pages(0)), ((true, 2), 0), "it is not opened for the dead");
    system.advance_client(0);
    system.open(0).unwrap();
    assert_eq!(system.request(0, entry(Opcode::Read, 3, 1, 0)).status, 0);
}

#[test]
fn who_broke_the_protocol_does_not_get_out_of_that_by_dying() {
    let mut system = System::serving(Setup::default(), 1);
    system.clients[0].break_tail();
    system.ring(0);
    system.tick();
    system.advance_client(0);
    assert!(system.teardown_ack(0).0);
    system.advance_client(0);
    assert_eq!(system.open(0), Err(Refusal::Expelled));
}

#[test]
fn requests_before_a_death_are_not_done_in_next_incarnation() {
    let mut system = System::serving(Setup::default(), 1).holding();
    system.submit(0, &[entry(Opcode::Read, 1, 1, 0)]);
    // Entries published after its death was seen are not taken.
    system.advance_client(0);
    system.submit(0, &[entry(Opcode::Write, 7, 1, 0)]);
    system.finish_held();
    system.tick();
    assert!(system.teardown_ack(0).0);
    system.advance_client(0);
    system.open(0).unwrap();
    system.pass(1);
    assert_eq!(system.completions(0), []);
    assert_eq!(system.request(0, entry(Opcode::Read, 3, 1, 0)).status, 0);
}

#[test]
fn death_is_acknowledged_when_the_controller_is_given_up() {
    let mut system = System::serving(Setup::default(), 2);
    system.controller(|controller, _| (controller.hold, controller.absent) = (true, true));
    system.submit(0, &[entry(Opcode::Read, 1, 1, 0)]);
    system.clients[0].advance_incarnation();
    for _ in 0..20 {
        system.tick();
        assert_eq!(system.teardown_ack(0), (false, 0), "its command may still write, if the controller comes back");
    }
    system.pass(1);
    assert!(system.take_failures().iter().any(|reason| reason.contains("the controller is gone")));
    assert_eq!((system.teardown_ack(0), system.mapped_pages(0)), ((true, 1), 0));
    // One that dies only now.
    system.advance_client(1);
    assert_eq!((system.teardown_ack(1), system.mapped_pages(1)), ((true, 2), 0));
    for index in 0..2 {
        system.advance_client(index);
        assert_eq!(system.open(index), Err(Refusal::DeviceGone), "in its next liveness");
    }
}
