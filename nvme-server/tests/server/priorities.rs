//! Order of the sessions' commands: the scheduler seen from outside.

use crate::support::{Setup, System, Tenant, entry, reads, session};
use blk_api::Status;
use blk_api::config::{Class, RateLimit, SchedulingPolicy};
use blk_api::request::{Entry, Opcode};
use platform::Badge;

const POLICIES: [SchedulingPolicy; 4] =
    [SchedulingPolicy::RoundRobin, SchedulingPolicy::Dedicated, SchedulingPolicy::Weighted, SchedulingPolicy::Paced];

fn of_class(tenant: &str, first: u64, class: Class) -> Tenant {
    let mut tenant = session(tenant, first);
    (tenant.config.class, tenant.config.highest) = (class, class);
    tenant
}

/// A server with both sessions open, on a controller that holds commands back.
fn system(policy: SchedulingPolicy, sessions: Vec<Tenant>) -> System {
    System::serving(Setup { policy, sessions, ..Setup::default() }, 2).holding()
}

/// The queues that commands were submitted on, in order.
fn submitted(system: &System) -> Vec<u16> {
    system.world.state().controller.submitted.iter().map(|(queue, _)| *queue).collect()
}

/// Lets the supervisor's alarm go off `after_ms` milliseconds later, if the server asked for it since the last time.
fn alarm(system: &mut System, after_ms: u64) -> bool {
    let asked = std::mem::take(&mut system.world.state().alarms) > 0;
    if asked {
        let mut state = system.world.state();
        state.now += after_ms;
        state.bus.signals |= Badge::SIGNAL | Badge::ALARM;
        drop(state);
        system.settle();
    }
    asked
}

#[test]
fn limit_holds_under_every_policy() {
    for policy in POLICIES {
        let mut limited = session("limited", 0);
        limited.config.iops_limit = Some(RateLimit { per_second: 100, burst: 2 });
        let mut system = system(policy, vec![limited, session("free", 1000)]);
        system.submit(0, &reads(6));
        assert_eq!(submitted(&system), [1, 1], "{policy:?}");
        system.submit(1, &reads(8));
        assert_eq!(submitted(&system)[2..], [2; 8], "{policy:?}: nobody else waits for it");
        // A command each 10 ms.
        for (after_ms, so_far) in [(4, 10), (4, 10), (4, 11), (10, 12)] {
            assert!(alarm(&mut system, after_ms), "{policy:?}");
            assert_eq!(submitted(&system).len(), so_far, "{policy:?}");
        }
        system.tick();
        assert_eq!(submitted(&system).len(), 14, "{policy:?}: what a tick finds allowed goes as well");
        system.world.state().alarms = 0;
        system.submit(1, &reads(1));
        assert!(!alarm(&mut system, 1), "{policy:?}: nobody is held back");
    }
}

#[test]
fn the_more_urgent_class_goes_first_whatever_its_number() {
    for (classes, first) in [([Class::Low, Class::Urgent], 2), ([Class::Urgent, Class::Low], 1)] {
        for policy in [SchedulingPolicy::Dedicated, SchedulingPolicy::Weighted, SchedulingPolicy::Paced] {
            let sessions = vec![of_class("first", 0, classes[0]), of_class("second", 1000, classes[1])];
            let mut system = system(policy, sessions);
            for index in [0, 1] {
                let end = &mut system.clients[index].end;
                reads(2).iter().for_each(|entry| assert!(end.submit(entry).unwrap()));
                end.publish().unwrap();
            }
            // Both are seen in one poll.
            system.tick();
            assert_eq!(submitted(&system)[0], first, "{policy:?} {classes:?}");
        }
    }
}

#[test]
fn uncontended_session_fills_its_queue_under_every_policy() {
    for policy in POLICIES {
        let mut system = system(policy, vec![session("first", 0), session("second", 1000)]);
        system.submit(0, &reads(8));
        assert_eq!(submitted(&system), [1; 8], "{policy:?}");
        assert!(!alarm(&mut system, 1), "{policy:?}");
    }
}

#[test]
fn equals_take_turns() {
    for policy in POLICIES {
        let mut system = system(policy, vec![session("first", 0), session("second", 1000)]);
        for index in [0, 1] {
            let end = &mut system.clients[index].end;
            reads(8).iter().for_each(|entry| assert!(end.submit(entry).unwrap()));
            end.publish().unwrap();
        }
        system.tick();
        for _ in 0..40 {
            system.controller(|controller, bus| controller.finish(bus, 1));
            alarm(&mut system, 1);
            let submitted = submitted(&system);
            let ours = submitted.iter().filter(|queue| **queue == 1).count();
            assert!(ours.abs_diff(submitted.len() - ours) <= 1, "{policy:?}: {submitted:?}");
        }
        assert_eq!(submitted(&system).len(), 16, "{policy:?}");
    }
}

#[test]
fn refused_entries_hold_nobody_up_and_are_all_answered() {
    for policy in POLICIES {
        let mut system = system(policy, vec![session("first", 0), session("second", 1000)]);
        let beyond: Vec<Entry> = (0..16).map(|n| entry(Opcode::Read, 5000 + n, 1, 0)).collect();
        system.submit(0, &beyond);
        system.submit(1, &reads(1));
        let answers = system.completions(0);
        assert!(answers.len() == 16 && answers.iter().all(|one| one.status != Status::Success as u16), "{policy:?}");
        assert_eq!(submitted(&system), [2], "{policy:?}");
    }
}

#[test]
fn after_a_reset_nothing_of_before_holds_anybody_back() {
    for policy in POLICIES {
        let low = of_class("low", 1000, Class::Low);
        let mut system = system(policy, vec![of_class("urgent", 0, Class::Urgent), low]);
        system.submit(0, &reads(4));
        system.submit(1, &reads(8));
        system.pass(12);
        assert_eq!(system.world.state().controller.resets, 2, "{policy:?}: nothing was answered");
        let answered = system.completions(0).len() + system.completions(1).len();
        system.finish_held();
        for _ in 0..200 {
            alarm(&mut system, 1);
        }
        let answered = answered + system.completions(0).len() + system.completions(1).len();
        assert_eq!(answered, 12, "{policy:?}: each once");
        system.submit(1, &reads(8));
        for _ in 0..200 {
            alarm(&mut system, 1);
        }
        assert_eq!(system.completions(1).len(), 8, "{policy:?}");
    }
}
