//! Descriptions of controllers and namespaces whose bits change the meaning of the rest: honoured, or not served.

use crate::support::{Setup, System, entry, session};
use blk_api::request::Opcode;
use blk_api::session::Refusal;
use nvme_spec::admin::{self, Cns};
use nvme_spec::identify::{self, CommandSetId};
use nvme_spec::registers::Vs;
use zerocopy::FromBytes;

/// A system whose controller describes namespace 1 as `change` leaves it.
fn described(change: impl Fn(&mut identify::Namespace) + 'static) -> System {
    System::start_with(Setup::default(), |controller, _| {
        controller.lies.describe = Some(Box::new(move |cns, _, bytes| {
            if cns == Cns::Namespace as u8 {
                change(identify::Namespace::mut_from_prefix(bytes).expect("the whole structure").0);
            }
        }));
    })
}

/// A system whose controller describes itself as `change` leaves it.
fn about(change: impl Fn(&mut identify::Controller) + 'static) -> System {
    System::start_with(Setup::default(), |controller, _| {
        controller.lies.describe = Some(Box::new(move |cns, _, bytes| {
            if cns == Cns::Controller as u8 {
                change(identify::Controller::mut_from_prefix(bytes).expect("the whole structure").0);
            }
        }));
    })
}

/// Format 16 has blocks of 4096 bytes and is in use; format 0 has 512.
fn format_16(namespace: &mut identify::Namespace) {
    namespace.nlbaf_z = 16;
    namespace.flbas = 0x20;
    namespace.lbaf[16].set(12 << 16);
}

#[test]
fn blocks_are_those_of_the_format_with_the_upper_bits_of_its_index() {
    let mut system = described(format_16);
    assert_eq!(system.open(0).map(|geometry| geometry.block_bytes), Ok(4096));
}

#[test]
fn namespace_of_a_format_that_is_not_described_is_not_served() {
    let mut system = described(|namespace| {
        format_16(namespace);
        namespace.nlbaf_z = 15;
    });
    assert_eq!(system.open(0).map(|_| ()), Err(Refusal::NoSuchBlocks));
}

#[test]
fn namespace_with_metadata_or_protection_information_is_not_served() {
    let mut system = described(|namespace| namespace.lbaf[0].set(9 << 16 | 8));
    assert_eq!(system.open(0).map(|_| ()), Err(Refusal::NoSuchBlocks));
    let mut system = described(|namespace| namespace.dps = 1);
    assert_eq!(system.open(0).map(|_| ()), Err(Refusal::NoSuchBlocks));
}

#[test]
fn namespace_of_more_bytes_than_can_be_counted_is_not_served() {
    let mut system = described(|namespace| namespace.nsze.set(1 << 60));
    assert_eq!(system.open(0).map(|_| ()), Err(Refusal::NoSuchBlocks));
}

#[test]
fn controller_that_is_for_discovery_or_administration_is_not_used() {
    for kind in [2, 3, 0xff] {
        let mut system = about(move |controller| controller.cntrltype = kind);
        system.pass(1);
        assert_eq!(system.open(0).map(|_| ()), Err(Refusal::Device), "CNTRLTYPE {kind}");
        assert!(system.take_failures().iter().any(|reason| reason.contains("cannot be brought up")));
    }
    for kind in [0, 1] {
        let mut system = about(move |controller| controller.cntrltype = kind);
        assert_eq!(system.open(0).map(|_| ()), Ok(()), "CNTRLTYPE {kind}");
    }
}

#[test]
fn controllers_without_a_list_of_namespaces_are_used() {
    // Without the list of active namespaces, and without identifiers of namespaces.
    for version in [(1, 0), (1, 1), (1, 2), (1, 3), (2, 0)] {
        let mut setup = Setup::default();
        setup.shape.version = version;
        let mut system = System::start(setup);
        assert_eq!(system.open(0).map(|geometry| geometry.block_bytes), Ok(512), "{version:?}");
        assert_eq!(system.request(0, entry(Opcode::Read, 0, 1, 0)).status, 0);
        assert_eq!(system.take_failures(), Vec::<String>::new());
    }
}

#[test]
fn list_of_namespaces_that_a_newer_controller_does_not_have_is_done_without() {
    let mut setup = Setup::default();
    setup.shape.version = (1, 0);
    let claim = Vs::new().with_mjr(1).with_mnr(1);
    let mut system = System::start_with(setup, |controller, _| controller.claimed_version = Some(claim));
    assert_eq!(system.open(0).map(|_| ()), Ok(()));
}

#[test]
fn namespaces_of_other_command_sets_are_not_served_and_others_are() {
    let tenant = |nsid| {
        let mut tenant = session(&format!("of-{nsid}"), 0);
        tenant.config.nsid = nsid;
        tenant.config.depth = 2;
        tenant
    };
    let mut setup = Setup { sessions: (1..=4).map(tenant).collect(), ..Setup::default() };
    setup.shape.command_sets = vec![CommandSetId::Zoned, CommandSetId::KeyValue, CommandSetId::Nvm];
    let mut system = System::start(setup);
    let opened: Vec<_> = (0..4).map(|index| system.open(index).map(|_| ())).collect();
    let refused = Err(Refusal::NoSuchBlocks);
    // The zoned one has the blocks that a session wants, and the other none.
    assert_eq!(opened, [Ok(()), refused, refused, Ok(())]);
    assert_eq!(system.request(0, entry(Opcode::Read, 0, 1, 0)).status, 0);
}

#[test]
fn identify_may_take_most_of_a_minute() {
    for seconds in [12, 55] {
        let identify = Some(admin::Opcode::Identify);
        let mut system = System::start_with(Setup::default(), |controller, _| controller.deaf_to = identify);
        system.pass(seconds);
        assert_eq!(system.take_failures(), Vec::<String>::new(), "after {seconds} seconds");
        system.controller(|controller, bus| controller.hear(bus));
        assert_eq!(system.open(0).map(|_| ()), Ok(()));
        assert_eq!(system.world.state().controller.resets, 1);
    }
}
