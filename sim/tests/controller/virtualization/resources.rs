//! Resources: reports, allocation to the primary controller, assignment to secondary ones.

use nvme_spec::admin::{self, Cns, ControllerResource};
use nvme_spec::feature::{Feature, get_feature};
use nvme_spec::identify::{Cmic, Controller as About, PrimaryCapabilities, ResourceCounts};
use nvme_spec::{Nsid, Sqe, StatusCode};
use sim_nvme::{Config, Controller, Virtualization};

use super::support::{CID, Subsystem, config};
use crate::admin::support::{self, Driver, PAGE};

const KINDS: [ControllerResource; 2] = [ControllerResource::Queues, ControllerResource::Interrupts];

/// Assigned, of the primary controller.
fn in_use(counts: &ResourceCounts) -> (u32, u16) {
    (counts.assigned.get(), counts.primary.get())
}

#[test]
fn controller_without_virtual_functions_has_no_virtualization() {
    let (primary, secondaries) = Controller::with_secondaries(support::config(), 1);
    assert!(secondaries.is_empty());
    let mut driver = Driver::of(primary);
    driver.enable();
    driver.refuse(admin::set_online(CID, 1), StatusCode::InvalidOpcode);
    for cns in [Cns::PrimaryCapabilities, Cns::SecondaryControllers] {
        driver.refuse(admin::identify_controllers(CID, cns, Nsid::NONE, 0, PAGE), StatusCode::InvalidField);
    }
    driver.succeed(admin::identify_controller(CID, PAGE));
    let about: About = driver.data();
    assert!(!about.optional_admin().virtualization() && about.cmic == 0);
    driver.assert_clean();
}

#[test]
fn primary_controller_has_every_resource_after_power_on() {
    let mut subsystem = Subsystem::new();
    let about = subsystem.capabilities();
    assert_eq!((about.cntlid.get(), about.crt), (0, PrimaryCapabilities::KINDS));
    for (counts, secondary_max) in [(about.queues, 4), (about.interrupts, 3)] {
        assert_eq!((counts.flexible.get(), counts.private.get(), counts.secondary_max.get()), (8, 3, secondary_max));
        assert_eq!((in_use(&counts), counts.free(), counts.granularity.get()), ((0, 8), Some(0), 1));
    }
    let listed = subsystem.listed(0);
    let numbers = |entry: &nvme_spec::identify::SecondaryController| {
        assert!(!entry.is_online());
        [entry.scid, entry.pcid, entry.vfn, entry.nvq, entry.nvi].map(|field| field.get())
    };
    assert_eq!(listed.iter().map(numbers).collect::<Vec<_>>(), [[1, 0, 1, 0, 0], [2, 0, 2, 0, 0], [3, 0, 3, 0, 0]]);
    assert_eq!(subsystem.listed(3).len(), 1);
    assert!(subsystem.listed(4).is_empty());
    subsystem.primary.assert_clean();
}

#[test]
fn identify_controller_says_who_is_primary_and_who_secondary() {
    let mut subsystem = Subsystem::online(1);
    let about = |driver: &mut Driver| {
        driver.succeed(admin::identify_controller(CID, PAGE));
        driver.data::<About>()
    };
    let primary = about(&mut subsystem.primary);
    assert_eq!(primary.cmic, Cmic::new().with_controllers(true).into_bits());
    assert!(primary.optional_admin().virtualization() && primary.optional_admin().namespaces());
    let secondary = about(subsystem.secondary(1));
    assert_eq!(secondary.cmic, Cmic::new().with_controllers(true).with_virtual_function(true).into_bits());
    assert!(!secondary.optional_admin().virtualization() && !secondary.optional_admin().namespaces());
    assert_eq!((secondary.cntlid.get(), secondary.sn, secondary.subnqn), (1, primary.sn, primary.subnqn));
    assert_eq!((secondary.tnvmcap.get(), secondary.unvmcap.get()), (0, 0));
}

#[test]
fn capabilities_are_those_of_the_controller_that_is_named() {
    let mut subsystem = Subsystem::new();
    for (cntid, nsid) in [(1, 0), (0, 1)] {
        let sqe = admin::identify_controllers(CID, Cns::PrimaryCapabilities, Nsid(nsid), cntid, PAGE);
        subsystem.primary.refuse(sqe, StatusCode::InvalidField);
    }
}

#[test]
fn allocation_to_the_primary_waits_for_a_function_level_reset() {
    let mut subsystem = Subsystem::new();
    for kind in KINDS {
        let dw0 = subsystem.primary.succeed(admin::allocate_to_primary(CID, 0, kind, 2));
        assert_eq!(admin::modified_resources(dw0), 2);
    }
    assert_eq!(in_use(&subsystem.capabilities().queues), (0, 8));
    subsystem.primary.reset();
    assert_eq!(in_use(&subsystem.capabilities().queues), (0, 8), "a controller reset is not enough");
    subsystem.primary.controller.function_level_reset();
    subsystem.primary.enable();
    let about = subsystem.capabilities();
    assert_eq!((in_use(&about.queues), in_use(&about.interrupts)), ((0, 2), (0, 2)));
    // Three private resources and two flexible ones, of which one is the admin queue pair.
    assert_eq!(subsystem.primary.succeed(get_feature(CID, Feature::NumberOfQueues)), 0x0003_0003);
    let pair = subsystem.primary.queue_memory(4, 8);
    let [cq, sq] = crate::driver::Driver::create(&pair, nvme_spec::admin::QueuePriority::Medium);
    subsystem.primary.succeed(cq);
    subsystem.primary.succeed(sq);
    let pair = subsystem.primary.queue_memory(5, 8);
    let [cq, _] = crate::driver::Driver::create(&pair, nvme_spec::admin::QueuePriority::Medium);
    subsystem.primary.refuse(cq, StatusCode::InvalidQueueId);
}

#[test]
fn what_the_primary_still_has_is_not_free_before_its_reset() {
    let mut subsystem = Subsystem::new();
    let assign = admin::assign_to_secondary(CID, 1, ControllerResource::Queues, 2);
    subsystem.primary.succeed(admin::allocate_to_primary(CID, 0, ControllerResource::Queues, 0));
    subsystem.primary.refuse(assign, StatusCode::InvalidResourceId);
    subsystem.primary.controller.function_level_reset();
    subsystem.primary.enable();
    subsystem.primary.succeed(assign);
}

#[test]
fn allocation_outlives_a_power_loss() {
    let mut subsystem = Subsystem::new();
    subsystem.primary.succeed(admin::allocate_to_primary(CID, 0, ControllerResource::Queues, 5));
    subsystem.primary.lose_power();
    assert_eq!(in_use(&subsystem.capabilities().queues), (0, 5));
    subsystem.primary.lose_power();
    assert_eq!(in_use(&subsystem.capabilities().queues), (0, 5));
}

#[test]
fn primary_cannot_have_more_than_there_is_or_what_others_have() {
    let mut subsystem = Subsystem::freed();
    let allocate = |count| admin::allocate_to_primary(CID, 0, ControllerResource::Queues, count);
    subsystem.primary.refuse(allocate(9), StatusCode::InvalidResourceCount);
    subsystem.primary.succeed(admin::assign_to_secondary(CID, 1, ControllerResource::Queues, 3));
    subsystem.primary.refuse(allocate(6), StatusCode::InvalidResourceId);
    subsystem.primary.succeed(allocate(5));
    // The resources promised to the primary controller are not free any more.
    let assign = admin::assign_to_secondary(CID, 2, ControllerResource::Queues, 1);
    subsystem.primary.refuse(assign, StatusCode::InvalidResourceId);
}

#[test]
fn assignment_is_bounded_by_a_limit_for_each_and_by_what_is_free() {
    let mut subsystem = Subsystem::freed();
    let assign = |id, count| admin::assign_to_secondary(CID, id, ControllerResource::Queues, count);
    subsystem.primary.refuse(assign(1, 5), StatusCode::InvalidResourceCount);
    for (id, count) in [(1, 4), (2, 3)] {
        let dw0 = subsystem.primary.succeed(assign(id, count));
        assert_eq!(admin::modified_resources(dw0), count);
    }
    subsystem.primary.refuse(assign(3, 2), StatusCode::InvalidResourceId);
    assert_eq!(in_use(&subsystem.capabilities().queues), (7, 0));
    // An assignment replaces the one before it.
    subsystem.primary.succeed(assign(1, 3));
    subsystem.primary.succeed(assign(3, 2));
    assert_eq!(in_use(&subsystem.capabilities().queues), (8, 0));
    let queues: Vec<u16> = subsystem.listed(0).iter().map(|entry| entry.nvq.get()).collect();
    assert_eq!(queues, [3, 3, 2]);
    subsystem.primary.assert_clean();
}

#[test]
fn unknown_controllers_resources_and_actions_are_refused() {
    let mut subsystem = Subsystem::freed();
    let primary = &mut subsystem.primary;
    let queues = ControllerResource::Queues;
    for sqe in [
        admin::allocate_to_primary(CID, 1, queues, 0),
        admin::assign_to_secondary(CID, 0, queues, 2),
        admin::assign_to_secondary(CID, 4, queues, 2),
        admin::set_online(CID, 0),
        admin::set_online(CID, 4),
        admin::set_offline(CID, 0),
        admin::set_offline(CID, u16::MAX),
    ] {
        primary.refuse(sqe, StatusCode::InvalidControllerId);
    }
    let assign = admin::assign_to_secondary(CID, 1, queues, 2);
    primary.refuse(Sqe { cdw10: assign.cdw10 | 2 << 8, ..assign }, StatusCode::InvalidResourceId);
    primary.assert_clean();
    primary.refuse_field(Sqe { cdw10: 1 << 16 | 2, ..assign }, 10);
    primary.refuse_field(Sqe { cdw10: assign.cdw10 | 1 << 4, ..assign }, 10);
    primary.refuse_field(Sqe { cdw11: 1 << 16, ..assign }, 11);
}

#[test]
fn impossible_configuration_becomes_the_nearest_possible_one() {
    let virtualization = Virtualization {
        functions: u8::MAX,
        flexible_queues: u16::MAX,
        flexible_interrupts: u16::MAX,
        secondary_queues: 0,
        secondary_interrupts: u16::MAX,
    };
    let mut config = Config { virtualization: Some(virtualization), ..config() };
    config.identity.controller_id = u16::MAX;
    let (primary, secondaries) = Controller::with_secondaries(config, 1);
    assert_eq!(secondaries.len(), 127);
    let mut primary = Driver::of(primary);
    primary.enable();
    primary.succeed(admin::identify_controller(CID, PAGE));
    let id = primary.data::<About>().cntlid.get();
    assert_eq!(id, 0xffef - 127);
    primary.succeed(admin::identify_controllers(CID, Cns::PrimaryCapabilities, Nsid::NONE, id, PAGE));
    let about: PrimaryCapabilities = primary.data();
    let limits = |counts: &ResourceCounts| (counts.flexible.get(), counts.private.get(), counts.secondary_max.get());
    assert_eq!((limits(&about.queues), limits(&about.interrupts)), ((9, 2, 2), (10, 1, 10)));
}
