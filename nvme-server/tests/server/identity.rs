//! A controller that comes back as another one, or with less. No client has another disk's data for its own, and no request is
//! submitted again to another disk. Sessions that the controller still suffices for go on.

use crate::support::{Act, Setup, System, assert_ended, busy, entry, session};
use blk_api::Status;
use blk_api::config::Quirk;
use blk_api::queue_sharing::QueueSharing;
use blk_api::request::{Entry, Opcode};
use blk_api::session::Refusal;
use nvme_spec::admin::{Cns, Opcode as Admin};
use nvme_spec::feature::NumberOfQueues;
use nvme_spec::identify::{Controller, Namespace};
use pci_api::presence::{Presence, Visit};
use sim_fault::ControllerEffect;
use zerocopy::FromBytes;

/// Ways to a recovery, each seen by the server within a second.
const WAYS: [fn(&mut System); 4] = [
    |system| system.controller(|controller, bus| controller.forge(bus, 1, |_| ())),
    |system| system.controller(|controller, bus| controller.strike(bus, ControllerEffect::FatalStatus)),
    |system| system.controller(|controller, bus| controller.strike(bus, ControllerEffect::PowerLoss)),
    |system| {
        system.controller(|controller, _| controller.absent = true);
        system.tick();
        system.tick();
        system.controller(|controller, _| controller.absent = false);
    },
];

/// Has the controller describe itself otherwise from its next Identify on.
fn describe_controller(system: &System, mut change: impl FnMut(&mut Controller) + 'static) {
    system.world.state().controller.lies.describe = Some(Box::new(move |cns, _, bytes| {
        if Cns::from_raw(cns) == Some(Cns::Controller) {
            change(Controller::mut_from_prefix(bytes).unwrap().0);
        }
    }));
}

/// Has it describe namespace 1 otherwise.
fn describe_namespace(system: &System, mut change: impl FnMut(&mut Namespace) + 'static) {
    system.world.state().controller.lies.describe = Some(Box::new(move |cns, _, bytes| {
        if Cns::from_raw(cns) == Some(Cns::Namespace) {
            change(Namespace::mut_from_prefix(bytes).unwrap().0);
        }
    }));
}

/// Lets the controller be recovered, and do what it holds.
fn recover(system: &mut System, way: fn(&mut System)) {
    way(system);
    system.controller(|controller, _| controller.hold = false);
    system.pass(1);
}

/// I/O commands that the controller has received.
fn received(system: &System) -> usize {
    system.world.state().controller.submitted.len()
}

/// All requests ended, and the disk that is there received none.
fn assert_exchanged(system: &mut System, before: usize) {
    assert_ended(system, Status::DeviceGone, Status::DeviceGone);
    assert_eq!(received(system), before, "nothing is submitted to another disk");
    let failures = system.take_failures();
    assert!(failures.iter().any(|reason| reason.contains("another disk")), "{failures:?}");
    for index in 0..2 {
        system.close(index).unwrap();
        assert_eq!(system.open(index), Err(Refusal::DeviceGone));
    }
    assert!(!system.world.state().controller.is_enabled());
}

#[test]
fn another_disk_is_not_served_in_the_place_of_the_first() {
    let changes: [fn(&mut Controller); 3] =
        [|about| about.sn = *b"another             ", |about| about.mn[0] ^= 1, |about| about.vid.set(0x1234)];
    for way in WAYS {
        for change in changes {
            let mut system = busy(Setup::default());
            let before = received(&system);
            describe_controller(&system, change);
            recover(&mut system, way);
            assert_exchanged(&mut system, before);
        }
    }
}

#[test]
fn another_disk_is_not_served_to_those_that_open_later() {
    let mut system = System::start(Setup::default());
    describe_controller(&system, |about| about.sn = *b"another             ");
    recover(&mut system, WAYS[1]);
    assert_eq!(system.open(0), Err(Refusal::DeviceGone));
}

#[test]
fn another_disk_in_a_slot_is_let_go_of() {
    let here = Visit { arrivals: 1, presence: Presence::Present };
    let mut system = busy(Setup { slot: Some(here), ..Setup::default() });
    describe_controller(&system, |about| about.sn = *b"another             ");
    recover(&mut system, WAYS[3]);
    assert!(system.world.state().is_released);
    assert_ended(&mut system, Status::DeviceGone, Status::DeviceGone);
    assert!(system.take_failures().iter().any(|reason| reason.contains("another disk")));
}

#[test]
fn other_capabilities_are_another_controllers() {
    for way in WAYS {
        let mut system = busy(Setup::default());
        let before = received(&system);
        system.world.state().controller.lies.shape.mqes_z = 31;
        recover(&mut system, way);
        assert_ended(&mut system, Status::DeviceGone, Status::DeviceGone);
        assert_eq!(received(&system), before);
    }
}

#[test]
fn another_namespace_is_not_served_in_the_place_of_the_first() {
    let changes: [fn(&mut Namespace); 6] = [
        |about| about.nguid = [7; 16],
        |about| about.eui64 = [7; 8],
        |about| about.nsze.set(4095),
        // Without an identifier, its size identifies it.
        |about| about.nsze.set(4097),
        |about| about.lbaf[0].set(12 << 16),
        |about| about.lbaf[0].set(9 << 16 | 8),
    ];
    for way in WAYS {
        for change in changes {
            let mut system = busy(Setup::default());
            let before = received(&system);
            describe_namespace(&system, change);
            recover(&mut system, way);
            assert_ended(&mut system, Status::DeviceGone, Status::DeviceGone);
            assert_eq!(received(&system), before);
            let failures = system.take_failures();
            assert!(failures.iter().any(|reason| reason.contains("another namespace")), "{failures:?}");
            for index in 0..2 {
                system.close(index).unwrap();
                assert_eq!(system.open(index), Err(Refusal::NoSuchBlocks));
            }
        }
    }
}

#[test]
fn a_namespace_that_returns_is_served_again() {
    let mut system = busy(Setup::default());
    describe_namespace(&system, |about| about.nguid = [7; 16]);
    recover(&mut system, WAYS[0]);
    assert_ended(&mut system, Status::DeviceGone, Status::DeviceGone);
    system.world.state().controller.lies.describe = None;
    recover(&mut system, WAYS[1]);
    // The sessions that ended stay so.
    assert_eq!(system.request(0, entry(Opcode::Read, 1, 1, 0)).status(), Some(Status::DeviceGone));
    system.close(0).unwrap();
    system.open(0).unwrap();
    assert_eq!(system.request(0, entry(Opcode::Read, 1, 1, 0)).status(), Some(Status::Success));
}

/// A system whose namespace has an NGUID.
fn identified(quirks: &[Quirk]) -> System {
    let mut system = System::start_with(Setup { quirks: quirks.to_vec(), ..Setup::default() }, |controller, _| {
        controller.lies.describe = Some(Box::new(|cns, _, bytes| {
            if Cns::from_raw(cns) == Some(Cns::Namespace) {
                Namespace::mut_from_prefix(bytes).unwrap().0.nguid = [1; 16];
            }
        }));
    });
    for index in 0..2 {
        system.open(index).unwrap();
    }
    system
}

#[test]
fn a_namespace_with_an_identifier_may_grow() {
    let mut system = identified(&[]);
    describe_namespace(&system, |about| {
        about.nguid = [1; 16];
        about.nsze.set(5000);
    });
    recover(&mut system, WAYS[0]);
    assert_eq!(system.request(0, entry(Opcode::Read, 1, 1, 0)).status(), Some(Status::Success));
}

#[test]
fn a_disk_whose_nguid_changes_at_resets_is_known_by_the_rest() {
    for way in WAYS {
        let mut system = identified(&[Quirk::NguidChangesAtReset]);
        let mut times = 1;
        describe_namespace(&system, move |about| {
            times += 1;
            about.nguid = [times; 16];
        });
        for _ in 0..3 {
            recover(&mut system, way);
            assert_eq!(system.request(0, entry(Opcode::Read, 1, 1, 0)).status(), Some(Status::Success));
        }
        describe_controller(&system, |about| about.sn = *b"another             ");
        recover(&mut system, way);
        assert_eq!(system.request(0, entry(Opcode::Read, 1, 1, 0)).status(), Some(Status::DeviceGone));
    }
}

#[test]
fn a_session_is_told_the_same_media_whatever_the_nguid_of_such_a_disk() {
    let media = |nguid: u8, quirks: &[Quirk]| {
        let mut system = System::start_with(Setup { quirks: quirks.to_vec(), ..Setup::default() }, |controller, _| {
            controller.lies.describe = Some(Box::new(move |cns, _, bytes| {
                if Cns::from_raw(cns) == Some(Cns::Namespace) {
                    Namespace::mut_from_prefix(bytes).unwrap().0.nguid = [nguid; 16];
                }
            }));
        });
        system.open(0).unwrap().media
    };
    let quirks = &[Quirk::NguidChangesAtReset];
    assert_eq!(media(1, quirks), media(2, quirks));
    assert_ne!(media(1, &[]), media(2, &[]));
}

#[test]
fn smaller_transfers_after_a_reset_are_kept_to() {
    let mut setup = Setup::default();
    setup.shape.mdts = 3;
    for way in WAYS {
        let mut system = System::serving(Setup { shape: setup.shape.clone(), ..Setup::default() }, 1);
        assert_eq!(system.request(0, entry(Opcode::Read, 0, 128, 0)).status(), Some(Status::Success));
        assert_eq!(received(&system), 2);
        system.controller(|controller, _| controller.lies.shape.mdts = 1);
        recover(&mut system, way);
        assert_eq!(system.request(0, entry(Opcode::Read, 0, 128, 0)).status(), Some(Status::Success));
        assert_eq!(received(&system), 2 + 8, "commands of 8 KiB");
        // It may be as before again.
        system.controller(|controller, _| controller.lies.shape.mdts = 3);
        recover(&mut system, way);
        assert_eq!(system.request(0, entry(Opcode::Read, 0, 128, 0)).status(), Some(Status::Success));
        assert_eq!(received(&system), 2 + 8 + 2);
    }
}

#[test]
fn an_operation_that_is_lost_at_a_reset_is_not_submitted() {
    let mut system = System::serving(Setup::default(), 1);
    assert_eq!(system.request(0, entry(Opcode::WriteZeroes, 0, 8, 0)).status(), Some(Status::Success));
    let before = received(&system);
    system.controller(|controller, _| controller.lies.shape.optional = false);
    recover(&mut system, WAYS[0]);
    assert_eq!(system.request(0, entry(Opcode::WriteZeroes, 0, 8, 0)).status(), Some(Status::Unsupported));
    assert_eq!(system.request(0, entry(Opcode::Discard, 0, 8, 0)).status(), Some(Status::Success));
    assert_eq!(received(&system), before);
}

/// Has the controller grant this many I/O queue pairs from its next reset on.
fn grant(system: &System, pairs: u16) {
    system.world.state().controller.lies.granted = Some(NumberOfQueues::pairs(pairs).unwrap().into_bits());
}

/// The largest number of a CQ that was created since the last look.
fn largest_created(system: &System) -> u16 {
    let created = |act| if let Act::Admin(Admin::CreateIoCq, id) = act { Some(id) } else { None };
    system.take_acts().into_iter().filter_map(created).max().unwrap_or(0)
}

#[test]
fn sessions_that_fit_fewer_queue_pairs_go_on() {
    for way in WAYS {
        let mut system = busy(Setup::default());
        system.take_acts();
        grant(&system, 1);
        recover(&mut system, way);
        assert_eq!(largest_created(&system), 1);
        let mut statuses = system.completions(0).into_iter().map(|one| one.status().unwrap());
        assert!(statuses.all(|status| matches!(status, Status::ControllerReset | Status::Success)));
        assert_eq!(system.request(0, entry(Opcode::Read, 3, 60, 0)).status(), Some(Status::Success));
        // The other one is told, and the device reaches its window no more.
        assert!(system.client_signals(1) > 0);
        let statuses: Vec<_> = system.completions(1).into_iter().map(|one| one.status().unwrap()).collect();
        assert_eq!(statuses, [Status::Closed; 3]);
        assert_eq!(system.request(1, entry(Opcode::Read, 3, 60, 0)).status(), Some(Status::Closed));
        assert_eq!(system.mapped_pages(1), 0);
        let failures = system.take_failures();
        assert!(failures.iter().any(|reason| reason.contains("too few queue pairs")), "{failures:?}");
        system.close(1).unwrap();
        assert_eq!(system.open(1), Err(Refusal::NoQueuePairs));
        // With more at a later reset it can be opened again.
        grant(&system, 4);
        recover(&mut system, way);
        system.open(1).unwrap();
        for index in 0..2 {
            assert_eq!(system.request(index, entry(Opcode::Read, 3, 60, 0)).status(), Some(Status::Success));
        }
    }
}

#[test]
fn a_session_that_ended_for_want_of_queue_pairs_is_torn_down_when_its_client_dies() {
    let mut system = busy(Setup::default());
    grant(&system, 1);
    recover(&mut system, WAYS[0]);
    system.advance_client(1);
    system.tick();
    assert!(system.teardown_ack(1).0);
}

#[test]
fn shared_queue_pairs_above_the_grant_are_not_created() {
    let queues = QueueSharing::PerCore { cores: 2, depth: 8 };
    let mut setup = Setup { queues, ..Setup::default() };
    setup.sessions[1].config.core = 1;
    for tenant in &mut setup.sessions {
        tenant.config.queue_pairs = 0;
    }
    let mut system = busy(setup);
    system.take_acts();
    grant(&system, 1);
    recover(&mut system, WAYS[0]);
    assert_eq!(largest_created(&system), 1);
    system.completions(0);
    assert_eq!(system.request(0, entry(Opcode::Read, 3, 60, 0)).status(), Some(Status::Success));
    assert_eq!(system.completions(1).len(), 3);
    assert_eq!(system.request(1, entry(Opcode::Read, 3, 60, 0)).status(), Some(Status::Closed));
}

#[test]
fn a_queue_pair_that_is_refused_after_each_reset_ends_its_session_alone() {
    let mut system = busy(Setup::default());
    // It grants four, and refuses all but one.
    grant(&system, 4);
    system.world.state().controller.lies.shape.queue_pairs = 1;
    recover(&mut system, WAYS[0]);
    system.completions(0);
    assert_eq!(system.request(0, entry(Opcode::Read, 3, 60, 0)).status(), Some(Status::Success));
    let statuses: Vec<_> = system.completions(1).into_iter().map(|one| one.status().unwrap()).collect();
    assert_eq!(statuses, [Status::ControllerReset; 3]);
    assert_eq!(system.request(1, entry(Opcode::Read, 3, 60, 0)).status(), Some(Status::Closed));
    assert_eq!(system.mapped_pages(1), 0);
    system.close(1).unwrap();
    assert_eq!(system.open(1), Err(Refusal::NoQueuePairs));
    system.world.state().controller.lies.shape.queue_pairs = 4;
    system.open(1).unwrap();
    assert_eq!(system.request(1, entry(Opcode::Read, 3, 60, 0)).status(), Some(Status::Success));
}

/// Sessions on namespace 1, and on namespace 2, which the controller lists and does not identify.
fn with_a_refused_namespace() -> System {
    let mut second = session("second", 1000);
    second.config.nsid = 2;
    let setup = Setup { sessions: vec![session("first", 0), second], ..Setup::default() };
    System::start_with(setup, |controller, _| {
        controller.lies.describe = Some(Box::new(|cns, _, bytes| {
            if Cns::from_raw(cns) == Some(Cns::ActiveNamespaces) {
                bytes[4] = 2;
            }
        }));
    })
}

#[test]
fn a_namespace_that_identify_refuses_is_missing_alone() {
    let mut system = with_a_refused_namespace();
    system.pass(1);
    assert_eq!(system.open(1), Err(Refusal::NoSuchBlocks));
    system.open(0).unwrap();
    assert_eq!(system.request(0, entry(Opcode::Read, 3, 60, 0)).status(), Some(Status::Success));
    recover(&mut system, WAYS[1]);
    system.pass(1);
    let read = Entry { user_data: 1, ..entry(Opcode::Read, 3, 60, 0) };
    assert_eq!(system.request(0, read).status(), Some(Status::Success));
}
