//! Descriptions of controllers and namespaces whose bits change the meaning of the rest: honoured, or not served.

use crate::support::{Setup, System};
use blk_api::session::Refusal;
use nvme_spec::admin::Cns;
use nvme_spec::identify;
use zerocopy::FromBytes;

/// A system whose controller describes namespace 1 as `change` leaves it.
fn described(change: impl Fn(&mut identify::Namespace) + 'static) -> System {
    System::start_with(Setup::default(), |controller, _| {
        controller.lies.describe = Some(Box::new(move |cns, bytes| {
            if cns == Cns::Namespace as u8 {
                change(identify::Namespace::mut_from_prefix(bytes).expect("the whole structure").0);
            }
        }));
    })
}

/// A system whose controller describes itself as `change` leaves it.
fn about(change: impl Fn(&mut identify::Controller) + 'static) -> System {
    System::start_with(Setup::default(), |controller, _| {
        controller.lies.describe = Some(Box::new(move |cns, bytes| {
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
