//! A session's number of queue pairs and their depth, changed while it runs: its requests wait a moment and all are
//! answered, and an impossible change changes nothing.

use crate::support::{Act, Setup, System, Tenant, entry, reads, session};
use blk_api::Status;
use blk_api::policy::{Entitlement, REMOVE, Range, Refusal, SET_SHARE, Share};
use blk_api::queue_sharing::QueueSharing;
use blk_api::request::{Entry, Opcode};
use blk_api::session::{self as door, OPEN};
use nvme_spec::admin::Opcode as Admin;
use platform::Message;
use report::Report;
use sim_fault::ControllerEffect;

/// A first session that may have up to three queue pairs of up to 16 commands, and a second one beside it.
fn setup() -> Setup {
    let mut setup = Setup::default();
    let first = &mut setup.sessions[0].config;
    (first.most_queue_pairs, first.most_depth, first.ring_entries) = (3, 16, 64);
    // The pool for exactly that: administration, three queue pairs of 16, one of 8.
    setup.dma_pages = 3 + 3 * (2 + 16) + (2 + 8);
    setup
}

fn open() -> System {
    System::serving(setup(), 2)
}

fn share_of(tenant: &Tenant, number: u32, queue_pairs: u16, depth: u16) -> Share {
    Share::new(number, &Entitlement { queue_pairs, depth, ..tenant.entitlement() })
}

/// The first session's share with this number of queue pairs of this depth.
fn queues(queue_pairs: u16, depth: u16) -> Share {
    share_of(&session("first", 0), 0, queue_pairs, depth)
}

/// The submission queues that the controller has, which are its completion queues as well.
fn there(system: &mut System) -> Vec<u16> {
    let (sqs, cqs) = system.controller(|controller, _| controller.queues());
    assert_eq!(sqs, cqs);
    sqs
}

/// Number of `count` reads that the controller gets at once; it completes all of them before the return.
fn at_once(system: &mut System, count: u64) -> usize {
    system.controller(|controller, _| {
        controller.hold = true;
        controller.submitted.clear();
    });
    system.submit(0, &reads(count));
    let submitted = system.controller(|controller, _| controller.submitted.len());
    system.finish_held();
    let answers = system.completions(0);
    assert_eq!(answers.len(), count as usize);
    assert!(answers.iter().all(|answer| answer.status() == Some(Status::Success)));
    submitted
}

fn created_and_deleted(system: &System) -> Vec<(Admin, u16)> {
    let queue = |act: Act| match act {
        Act::Admin(opcode, id) => Some((opcode, id)),
        _ => None,
    };
    system.take_acts().into_iter().filter_map(queue).collect()
}

#[test]
fn session_is_reconfigured_and_has_room_for_just_that() {
    let mut system = open();
    assert_eq!((there(&mut system), at_once(&mut system, 60)), (vec![1, 4], 8));
    for (queue_pairs, depth, ids) in [
        (3, 8, vec![1, 2, 3, 4]),
        (3, 16, vec![1, 2, 3, 4]),
        (1, 16, vec![1, 4]),
        (2, 1, vec![1, 2, 4]),
        (1, 8, vec![1, 4]),
        (3, 16, vec![1, 2, 3, 4]),
    ] {
        system.set_share(&queues(queue_pairs, depth)).unwrap();
        assert_eq!(there(&mut system), ids);
        assert_eq!(at_once(&mut system, 60), usize::from(queue_pairs * depth), "{queue_pairs} of {depth}");
    }
    assert_eq!(system.take_failures(), Vec::<String>::new());
}

#[test]
fn a_thousand_changes_use_nothing_up() {
    let mut system = open();
    for round in 0..1000 {
        system.set_share(&queues(1 + round % 3, 1 + round % 16)).unwrap();
        assert_eq!(system.request(0, entry(Opcode::Read, 3, 1, 0)).status, 0);
    }
    assert_eq!(system.request(1, entry(Opcode::Read, 3, 1, 0)).status, 0);
    system.close(0).unwrap();
    assert_eq!(there(&mut system), [4]);
}

#[test]
fn requests_wait_for_the_interrupt_change_and_none_is_lost() {
    let mut system = open().holding();
    system.submit(0, &reads(20));
    system.take_acts();
    assert_eq!(system.set_share(&queues(2, 4)), Err(Refusal::Busy), "eight commands are in flight");
    system.submit(0, &[Entry { user_data: 77, ..entry(Opcode::Write, 7, 1, 0) }]);
    system.tick();
    assert_eq!(created_and_deleted(&system), []);
    // The neighbour's requests go on, and so do its own session's requests to the control plane.
    system.submit(1, &[entry(Opcode::Read, 0, 1, 0)]);
    system.controller(|controller, bus| controller.finish_newest(bus));
    assert_eq!(system.completions(1).len(), 1);
    system.close(1).unwrap();
    system.open(1).unwrap();
    system.take_acts();
    system.controller(|controller, bus| controller.finish(bus, 7));
    assert_eq!(system.set_share(&queues(2, 4)), Err(Refusal::Busy), "one is");
    assert_eq!(system.controller(|controller, _| controller.submitted.len()), 8 + 1, "and no more");
    system.controller(|controller, bus| {
        controller.finish(bus, 1);
        controller.hold = false;
    });
    assert_eq!(system.set_share(&queues(2, 4)), Ok(()));
    let expected = [
        (Admin::CreateIoCq, 2),
        (Admin::CreateIoSq, 2),
        (Admin::DeleteIoSq, 1),
        (Admin::DeleteIoCq, 1),
        (Admin::CreateIoCq, 1),
        (Admin::CreateIoSq, 1),
    ];
    assert_eq!(created_and_deleted(&system), expected, "the session has one all the time, but for a moment");
    // Waiting requests were submitted as soon as there were queue pairs for them.
    system.controller(|controller, bus| controller.finish(bus, usize::MAX));
    let answers = system.completions(0);
    assert_eq!(answers.len(), 21);
    assert!(answers.iter().all(|answer| answer.status() == Some(Status::Success)));
    assert_eq!(system.take_failures(), Vec::<String>::new());
}

#[test]
fn added_queue_pairs_do_not_wait_for_the_present_ones() {
    let mut system = open().holding();
    system.submit(0, &reads(20));
    assert_eq!(system.set_share(&queues(3, 8)), Ok(()));
    assert_eq!(system.controller(|controller, _| controller.submitted.len()), 20, "what found no room has some");
    system.controller(|controller, bus| controller.finish(bus, usize::MAX));
    assert_eq!(system.completions(0).len(), 20);
}

#[test]
fn what_cannot_be_is_refused_with_its_value_and_changes_nothing() {
    let mut setup = setup();
    // The specification lets it have more than the controller's queues can hold.
    setup.sessions[0].config.most_depth = 400;
    setup.shape.mqes_z = 15;
    let mut system = System::serving(setup, 1);
    system.take_acts();
    let good = Share::new(0, &session("first", 0).entitlement());
    let [pairs, depth] = [|asked| Refusal::QueuePairs { asked, most: 3 }, |asked| Refusal::Depth { asked, most: 15 }];
    for (share, refusal) in [
        (Share { queue_pairs: 0, ..good }, pairs(0)),
        (Share { queue_pairs: 4, ..good }, pairs(4)),
        (Share { queue_pairs: 65_537, ..good }, pairs(65_537)),
        (Share { depth: 0, ..good }, depth(0)),
        (Share { depth: 16, ..good }, depth(16)),
        (Share { depth: u32::MAX, ..good }, depth(u32::MAX)),
        (Share { queue_pairs: 2, depth: 16, ..good }, depth(16)),
        (Share { queue_pairs: 2, weight: 0, ..good }, Refusal::Weight(0)),
        (Share { session: 2, queue_pairs: 2, ..good }, Refusal::NoSession(2)),
    ] {
        assert_eq!(system.set_share(&share), Err(refusal));
    }
    assert_eq!(created_and_deleted(&system), []);
    assert_eq!((there(&mut system), at_once(&mut system, 60)), (vec![1], 8));
    // No session gets more than its own, and only the policy component may call for it.
    let call = system.begin(1, Message::with(SET_SHARE, &queues(2, 8)));
    let answer = system.answer(call).expect("an answer");
    assert_eq!(door::Refusal::from_label(answer.label), door::Refusal::PolicyAlone);
    assert_eq!(there(&mut system), [1]);
}

#[test]
fn a_session_has_no_more_than_the_controller_granted() {
    let mut setup = setup();
    setup.shape.queue_pairs = 2;
    let mut system = System::serving(setup, 1);
    assert_eq!(system.set_share(&queues(3, 8)), Err(Refusal::QueuePairs { asked: 3, most: 2 }));
    assert_eq!(system.set_share(&queues(2, 8)), Ok(()));
    assert_eq!(there(&mut system), [1, 2]);
}

#[test]
fn sessions_that_share_queue_pairs_keep_them() {
    let mut setup = Setup { queues: QueueSharing::Shared { queue_pairs: 2, depth: 8 }, ..Setup::default() };
    for session in &mut setup.sessions {
        session.config.queue_pairs = 0;
    }
    let tenant = setup.sessions[1].clone();
    let mut system = System::start(setup);
    system.open(1).unwrap();
    for (queue_pairs, depth) in [(1, 8), (0, 4)] {
        let refused = system.set_share(&share_of(&tenant, 1, queue_pairs, depth));
        assert_eq!(refused, Err(Refusal::SharesQueuePairs(1)));
    }
    assert_eq!(system.set_share(&share_of(&tenant, 1, 0, 8)), Ok(()), "what they have is no change");
    assert_eq!(there(&mut system), [1, 2]);
}

#[test]
fn a_session_that_is_not_open_has_them_at_its_next_opening() {
    let mut system = System::start(setup());
    assert_eq!(system.set_share(&queues(2, 12)), Ok(()));
    assert_eq!(there(&mut system), Vec::<u16>::new());
    let geometry = system.open(0).unwrap();
    assert_eq!((geometry.queue_pairs, geometry.depth), (2, 12));
    assert_eq!((there(&mut system), at_once(&mut system, 60)), (vec![1, 2], 24));
    // And at the one after, and after a reset.
    system.close(0).unwrap();
    system.open(0).unwrap();
    system.controller(|controller, bus| controller.strike(bus, ControllerEffect::FatalStatus));
    system.tick();
    assert_eq!((there(&mut system), at_once(&mut system, 60)), (vec![1, 2], 24));
}

#[test]
fn what_the_controller_refuses_leaves_the_session_what_it_had() {
    // Whether the new ones are refused, or the first or the last that is recreated.
    for (refused, times) in
        [(Admin::CreateIoCq, 0), (Admin::CreateIoSq, 0), (Admin::CreateIoSq, 1), (Admin::CreateIoSq, 2)]
    {
        let mut system = open();
        system.set_share(&queues(2, 8)).unwrap();
        system.take_acts();
        system.controller(|controller, _| controller.refuse_later = Some((refused, times)));
        let answer = system.set_share(&queues(3, 4));
        assert_eq!(answer, Err(Refusal::NoQueuePairs { asked: 3, has: 2 }));
        assert_eq!(there(&mut system), [1, 2, 4]);
        assert_eq!(at_once(&mut system, 60), 16);
        assert_eq!(system.take_failures(), Vec::<String>::new());
        assert_eq!(system.set_share(&queues(3, 4)), Ok(()), "another time it may");
        assert_eq!((there(&mut system), at_once(&mut system, 60)), (vec![1, 2, 3, 4], 12));
    }
}

#[test]
fn controller_that_keeps_its_queues_is_reset_and_retried() {
    let mut system = open();
    system.controller(|controller, _| controller.refuse = Some((Admin::CreateIoSq, 2)));
    assert_eq!(system.set_share(&queues(1, 4)), Ok(()));
    assert_eq!(system.world.state().controller.resets, 2);
    assert_eq!((there(&mut system), at_once(&mut system, 60)), (vec![1, 4], 4));
}

#[test]
fn too_small_pool_is_reported_before_any_change() {
    let mut setup = setup();
    setup.dma_pages = 3 + 2 * (2 + 16);
    let mut system = System::serving(setup, 1);
    assert_eq!(system.set_share(&queues(3, 8)), Err(Refusal::NoQueuePairs { asked: 3, has: 1 }));
    assert_eq!(system.set_share(&queues(2, 16)), Ok(()));
    assert_eq!((there(&mut system), at_once(&mut system, 60)), (vec![1, 2], 32));
}

#[test]
fn client_death_during_reconfiguration_keeps_the_change() {
    let mut system = open().holding();
    system.submit(0, &reads(4));
    assert_eq!(system.set_share(&queues(2, 4)), Err(Refusal::Busy));
    system.advance_client(0);
    assert_eq!(system.set_share(&queues(2, 4)), Err(Refusal::Busy));
    system.finish_held();
    assert_eq!(system.set_share(&queues(2, 4)), Ok(()));
    assert_eq!((there(&mut system), system.mapped_pages(0)), (vec![4], 0));
    let report = std::mem::take(&mut system.world.state().reports).into_iter().find_map(|report| match report {
        Report::Session(session) => Some((session.ended_by.to_string(), session.queue_pairs, session.depth)),
        _ => None,
    });
    assert_eq!(report, Some(("its client died".into(), 1, 8)), "it had what it had");
    system.clients[0].advance_incarnation();
    let geometry = system.open(0).unwrap();
    assert_eq!((geometry.queue_pairs, geometry.depth), (2, 4));
    assert_eq!(at_once(&mut system, 60), 8);
}

#[test]
fn close_or_protocol_error_meanwhile_ends_as_usual() {
    for breaks in [false, true] {
        let mut system = open().holding();
        system.submit(0, &reads(4));
        assert_eq!(system.set_share(&queues(3, 16)), Err(Refusal::Busy));
        let closing = (!breaks).then(|| system.begin_call(1, door::CLOSE));
        if breaks {
            system.clients[0].break_tail();
            system.ring(0);
        }
        system.finish_held();
        system.tick();
        assert_eq!(system.set_share(&queues(3, 16)), Ok(()));
        assert_eq!(closing.map(|call| system.answer(call).expect("an answer").label), closing.map(|_| door::DONE));
        assert_eq!((there(&mut system), system.mapped_pages(0)), (vec![4], 0));
    }
}

#[test]
fn a_reset_in_the_middle_delays_the_change_and_loses_nothing() {
    // While commands are awaited, and while queue pairs are made.
    for deaf_to in
        [None, Some(Admin::CreateIoCq), Some(Admin::DeleteIoSq), Some(Admin::DeleteIoCq), Some(Admin::CreateIoSq)]
    {
        let mut system = open();
        system.controller(|controller, _| {
            controller.hold = true;
            controller.deaf_to = deaf_to;
        });
        system.submit(0, &reads(20));
        assert_eq!(system.set_share(&queues(2, 4)), Err(Refusal::Busy));
        if deaf_to.is_some() {
            system.controller(|controller, bus| controller.finish(bus, usize::MAX));
        }
        assert_eq!(system.set_share(&queues(2, 4)), Err(Refusal::Busy));
        system.controller(|controller, bus| {
            (controller.deaf_to, controller.hold) = (None, false);
            controller.strike(bus, ControllerEffect::FatalStatus);
        });
        system.tick();
        assert_eq!(system.set_share(&queues(2, 4)), Ok(()), "{deaf_to:?}");
        assert_eq!(system.world.state().controller.resets, 2);
        let answers = system.completions(0);
        assert_eq!(answers.len(), 20);
        let lost = answers.iter().filter(|answer| answer.status() == Some(Status::ControllerReset)).count();
        assert_eq!(lost, if deaf_to.is_none() { 8 } else { 0 }, "those in flight, {deaf_to:?}");
        assert_eq!((there(&mut system), at_once(&mut system, 60)), (vec![1, 2, 4], 8));
    }
}

#[test]
fn repeated_controller_failure_is_reported_and_undone() {
    let mut system = open();
    system.controller(|controller, _| controller.deaf_to = Some(Admin::DeleteIoSq));
    assert_eq!(system.set_share(&queues(2, 4)), Err(Refusal::Busy));
    system.pass(40);
    assert_eq!(system.set_share(&queues(2, 4)), Err(Refusal::Device(0)));
    assert_eq!((there(&mut system), at_once(&mut system, 60)), (vec![1, 4], 8));
}

#[test]
fn a_refusal_is_reported_once_and_then_the_same_is_tried_again() {
    let mut system = open();
    system.controller(|controller, _| controller.deaf_to = Some(Admin::DeleteIoSq));
    assert_eq!(system.set_share(&queues(2, 4)), Err(Refusal::Busy));
    system.pass(40);
    system.controller(|controller, _| controller.deaf_to = None);
    assert_eq!(system.set_share(&queues(2, 4)), Err(Refusal::Device(0)));
    assert_eq!(system.set_share(&queues(2, 4)), Ok(()));
    // A refusal is not reported to a caller that asked for something else meanwhile.
    system.controller(|controller, _| controller.deaf_to = Some(Admin::DeleteIoSq));
    assert_eq!(system.set_share(&queues(1, 8)), Err(Refusal::Busy));
    system.pass(40);
    system.controller(|controller, _| controller.deaf_to = None);
    assert_eq!(system.set_share(&queues(3, 4)), Ok(()));
    assert_eq!(system.set_share(&queues(1, 8)), Ok(()));
}

#[test]
fn a_controller_that_is_beyond_help_keeps_nobody_waiting() {
    let mut system = open().holding();
    system.submit(0, &reads(4));
    assert_eq!(system.set_share(&queues(1, 4)), Err(Refusal::Busy));
    system.controller(|controller, bus| {
        controller.strike(bus, ControllerEffect::FatalStatus);
        controller.strike(bus, ControllerEffect::NeverReady);
    });
    system.pass(60);
    assert_eq!(system.set_share(&queues(1, 4)), Err(Refusal::Device(0)));
    assert_eq!(system.completions(0).len(), 4);
}

#[test]
fn a_command_that_never_ends_is_given_up_on_first() {
    let mut system = open();
    system.controller(|controller, _| (controller.hold, controller.aborts) = (true, true));
    system.submit(0, &reads(2));
    assert_eq!(system.set_share(&queues(1, 4)), Err(Refusal::Busy));
    system.pass(15);
    assert_eq!(system.set_share(&queues(1, 4)), Err(Refusal::Busy), "one is");
    system.pass(15);
    assert_eq!(system.set_share(&queues(1, 4)), Ok(()));
    let answers: Vec<_> = system.completions(0).iter().map(|answer| answer.status()).collect();
    assert_eq!(answers, [Some(Status::TimedOut); 2]);
    assert_eq!(system.world.state().controller.resets, 1);
    assert_eq!(at_once(&mut system, 60), 4);
}

#[test]
fn late_queue_pair_that_is_recreated_still_gets_its_change() {
    let mut system = open();
    system.controller(|controller, _| (controller.hold, controller.lets_go) = (true, true));
    system.submit(0, &reads(20));
    assert_eq!(system.set_share(&queues(1, 4)), Err(Refusal::Busy));
    system.pass(15);
    assert_eq!(system.set_share(&queues(1, 4)), Ok(()));
    system.finish_held();
    assert_eq!(system.completions(0).len(), 20);
    assert_eq!(system.world.state().controller.resets, 1);
    assert_eq!(at_once(&mut system, 60), 4);
}

#[test]
fn reconfigurations_are_sequential_and_reported() {
    let mut system = open().holding();
    system.submit(0, &reads(1));
    assert_eq!(system.set_share(&queues(2, 4)), Err(Refusal::Busy));
    // A restarted policy component removes rights of another session, and sets shares again.
    let range = Range { session: 1, first: 0, blocks: 1 };
    assert_eq!(system.policy(Message::with(REMOVE, &range)), Ok(()));
    assert_eq!(system.set_share(&share_of(&session("second", 1000), 1, 1, 4)), Err(Refusal::Busy));
    assert_eq!(system.set_share(&queues(2, 4)), Err(Refusal::Busy));
    assert_eq!(system.policy_signals(), 0);
    system.controller(|controller, bus| controller.finish(bus, 1));
    assert_eq!(system.policy_signals(), 1);
    assert_eq!(system.set_share(&queues(2, 4)), Ok(()), "done already");
    assert_eq!(there(&mut system), [1, 2, 4]);
}

#[test]
fn change_during_opening_is_made_afterwards() {
    let mut system = System::start(setup());
    system.controller(|controller, _| controller.deaf_to = Some(Admin::CreateIoSq));
    let opening = system.begin_call(1, OPEN);
    assert_eq!((system.answer(opening), system.set_share(&queues(2, 4))), (None, Err(Refusal::Busy)));
    system.controller(|controller, bus| {
        controller.deaf_to = None;
        controller.strike(bus, ControllerEffect::FatalStatus);
    });
    system.tick();
    assert_eq!(system.answer(opening).map(|answer| answer.label), Some(door::DONE));
    assert_eq!(system.set_share(&queues(2, 4)), Ok(()));
    assert_eq!(there(&mut system), [1, 2]);
}
