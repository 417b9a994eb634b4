//! Arbitration: a controller that can weigh queues is configured with the classes of its queues and their weights.

use crate::support::{RAB, Setup, System, session};
use blk_api::config::{Class, ClassWeights, SchedulingPolicy};
use blk_api::policy::{Entitlement, Refusal, Share};
use nvme_spec::admin::{Opcode, QueuePriority};
use nvme_spec::feature::ArbitrationWeights;
use nvme_spec::registers::Arbitration;
use sim_fault::ControllerEffect;

const CLASSES: [Class; 4] = [Class::Urgent, Class::High, Class::Medium, Class::Low];
const PRIORITIES: [QueuePriority; 4] =
    [QueuePriority::Urgent, QueuePriority::High, QueuePriority::Medium, QueuePriority::Low];

/// A session of each class, all of them open.
fn classes(policy: SchedulingPolicy, weighted: bool) -> System {
    let sessions = CLASSES.map(|class| {
        let mut session = session(class.name(), class as u64 * 1000);
        (session.config.class, session.config.highest) = (class, class);
        session
    });
    let mut setup = Setup { sessions: sessions.to_vec(), policy, ..Setup::default() };
    setup.class_weights = ClassWeights { high: 12, medium: 4, low: 1 };
    setup.shape.weighted = weighted;
    let mut system = System::start(setup);
    for index in 0..CLASSES.len() {
        system.open(index).unwrap();
    }
    system
}

fn arbitration(system: &mut System) -> (Arbitration, Option<ArbitrationWeights>) {
    system.controller(|controller, _| (controller.arbitration(), controller.weights))
}

#[test]
fn arbitration_is_configured_and_again_after_a_reset() {
    let mut system = classes(SchedulingPolicy::Weighted, true);
    let weights = ArbitrationWeights::new().with_burst(RAB).with_high_z(11).with_medium_z(3).with_low_z(0);
    for resets in [1, 2] {
        assert_eq!(arbitration(&mut system), (Arbitration::WeightedUrgent, Some(weights)));
        system.controller(|controller, bus| {
            assert_eq!((controller.priorities(), controller.resets), (PRIORITIES.to_vec(), resets));
            controller.strike(bus, ControllerEffect::FatalStatus);
        });
        system.tick();
    }
}

#[test]
fn a_controller_that_cannot_weigh_is_left_to_its_round_robin() {
    assert_eq!(arbitration(&mut classes(SchedulingPolicy::Weighted, false)), (Arbitration::RoundRobin, None));
}

#[test]
fn policy_without_weights_leaves_round_robin() {
    for policy in [SchedulingPolicy::RoundRobin, SchedulingPolicy::Dedicated, SchedulingPolicy::Paced] {
        assert_eq!(arbitration(&mut classes(policy, true)), (Arbitration::RoundRobin, None));
    }
}

#[test]
fn changed_class_applies_to_the_queues_at_once() {
    let mut system = classes(SchedulingPolicy::Weighted, true);
    let entitlement = Entitlement { class: Class::Low, ..session("high", 0).entitlement() };
    system.set_share(&Share::new(1, &entitlement)).unwrap();
    let low = QueuePriority::Low;
    let expected = [QueuePriority::Urgent, low, QueuePriority::Medium, low];
    system.controller(|controller, _| assert_eq!(controller.priorities(), expected));
    system.close(1).unwrap();
    system.open(1).unwrap();
    system.controller(|controller, bus| {
        assert_eq!(controller.priorities(), expected);
        controller.strike(bus, ControllerEffect::FatalStatus);
    });
    system.tick();
    system.controller(|controller, _| assert_eq!((controller.priorities(), controller.resets), (expected.to_vec(), 2)));
}

#[test]
fn class_that_the_controller_refuses_is_undone() {
    let mut system = classes(SchedulingPolicy::Weighted, true);
    system.controller(|controller, _| controller.refuse = Some((Opcode::CreateIoSq, 1)));
    let high = Entitlement { class: Class::High, ..session("high", 0).entitlement() };
    let low = Share::new(1, &Entitlement { class: Class::Low, ..high });
    let refused = system.set_share(&low);
    assert_eq!(refused, Err(Refusal::NoQueuePairs { asked: 1, has: 1 }));
    system
        .controller(|controller, _| assert_eq!((controller.priorities(), controller.resets), (PRIORITIES.to_vec(), 1)));
    // Nothing is left of it in the server either: a share that the session has already needs no command.
    system.take_acts();
    system.set_share(&Share::new(1, &high)).unwrap();
    assert!(system.take_acts().is_empty());
    system.set_share(&low).unwrap();
    assert_eq!(system.controller(|controller, _| controller.priorities())[1], QueuePriority::Low);
}

/// Two sessions with a queue pair of each speed, and maybe a controller that weighs them.
fn speeds(weighted: bool) -> System {
    let sessions = [Class::Urgent, Class::Low].map(|class| {
        let mut session = session(class.name(), class as u64 * 1000);
        (session.config.class, session.config.highest) = (class, Class::Urgent);
        (session.config.queue_pairs, session.config.most_queue_pairs) = (3, 3);
        session
    });
    let mut setup = Setup { sessions: sessions.to_vec(), policy: SchedulingPolicy::DeviceDirect, ..Setup::default() };
    (setup.shape.weighted, setup.shape.queue_pairs) = (weighted, 6);
    let mut system = System::start(setup);
    (0..2).for_each(|index| assert!(system.open(index).is_ok()));
    system
}

#[test]
fn device_direct_session_has_a_queue_of_each_speed() {
    let mut system = speeds(true);
    let weights = ArbitrationWeights::new().with_burst(RAB).with_high_z(63).with_medium_z(7).with_low_z(0);
    assert_eq!(arbitration(&mut system), (Arbitration::WeightedUrgent, Some(weights)));
    let of_one = [QueuePriority::High, QueuePriority::Medium, QueuePriority::Low];
    let expected = [of_one, of_one].concat();
    system.controller(|controller, _| assert_eq!(controller.priorities(), expected));
    // Another class needs no command, and a reset changes nothing.
    system.take_acts();
    let medium = Entitlement { class: Class::Medium, queue_pairs: 3, ..session("low", 0).entitlement() };
    system.set_share(&Share::new(1, &medium)).unwrap();
    assert!(system.take_acts().is_empty());
    system.controller(|controller, bus| controller.strike(bus, ControllerEffect::FatalStatus));
    system.tick();
    system.controller(|controller, _| assert_eq!((controller.priorities(), controller.resets), (expected.clone(), 2)));
}

#[test]
fn device_direct_without_arbitration_uses_round_robin() {
    assert_eq!(arbitration(&mut speeds(false)), (Arbitration::RoundRobin, None));
}
