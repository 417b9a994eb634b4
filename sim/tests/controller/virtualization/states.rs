//! Offline and online: registers, the least resources, the limits of a controller that is online, privileged commands.

use nvme_spec::admin::{self, Attachment, Cns, ControllerResource, QueuePriority};
use nvme_spec::feature::{Feature, get_feature};
use nvme_spec::identify::ControllerList;
use nvme_spec::registers::{Arbitration, Register};
use nvme_spec::{Nsid, StatusCode};
use sim_nvme::AccessSize;

use super::support::{CID, Subsystem};
use crate::admin::support::{Driver, PAGE};

/// Writes of a driver that enables its controller.
fn try_to_enable(driver: &mut Driver) {
    driver.set_admin_queues();
    driver.set(Register::Cc, crate::driver::Driver::cc(Arbitration::RoundRobin).with_en(true).into_bits());
    driver.run();
}

#[test]
fn offline_controller_reports_a_fatal_error_and_ignores_writes() {
    let mut subsystem = Subsystem::new();
    let secondary = subsystem.secondary(1);
    try_to_enable(secondary);
    assert!(secondary.csts().cfs() && !secondary.csts().rdy());
    secondary.ring(0, 1);
    for register in [Register::Cap, Register::Vs, Register::Cc, Register::Aqa, Register::Asq] {
        assert_eq!(secondary.get(register), 0, "{register:?}");
    }
    assert_eq!(secondary.controller.next_event_ns(), None);
    secondary.assert_clean();
}

#[test]
fn secondary_needs_two_queue_pairs_and_a_vector_to_be_online() {
    let mut subsystem = Subsystem::freed();
    for (queues, interrupts) in [(0, 0), (1, 1), (2, 0)] {
        let primary = &mut subsystem.primary;
        primary.succeed(admin::assign_to_secondary(CID, 1, ControllerResource::Queues, queues));
        primary.succeed(admin::assign_to_secondary(CID, 1, ControllerResource::Interrupts, interrupts));
        primary.refuse(admin::set_online(CID, 1), StatusCode::InvalidSecondaryState);
        assert!(!subsystem.listed(0)[0].is_online());
    }
    subsystem.set_online(1, 2, 1);
    let listed = subsystem.listed(0);
    assert_eq!((listed[0].is_online(), listed[0].nvq.get(), listed[0].nvi.get()), (true, 2, 1));
    assert!(!listed[1].is_online() && !listed[2].is_online());
    // Once more changes nothing.
    subsystem.secondary(1).enable();
    subsystem.primary.succeed(admin::set_online(CID, 1));
    assert!(subsystem.secondary(1).csts().rdy());
    subsystem.secondary(1).assert_clean();
}

#[test]
fn online_controller_cannot_be_assigned_resources() {
    let mut subsystem = Subsystem::online(1);
    for kind in [ControllerResource::Queues, ControllerResource::Interrupts] {
        let sqe = admin::assign_to_secondary(CID, 1, kind, 2);
        subsystem.primary.refuse(sqe, StatusCode::InvalidSecondaryState);
    }
}

#[test]
fn queues_and_vectors_are_bounded_by_the_resources_assigned() {
    let mut subsystem = Subsystem::freed();
    subsystem.set_online(1, 3, 2);
    let secondary = subsystem.secondary(1);
    secondary.enable();
    assert_eq!(secondary.succeed(get_feature(CID, Feature::NumberOfQueues)), 0x0001_0001);
    secondary.make_io_queue();
    // Vector 2 would be the third.
    let mut pair = secondary.queue_memory(2, 8);
    let [cq, _] = crate::driver::Driver::create(&pair, QueuePriority::Medium);
    secondary.refuse(cq, StatusCode::InvalidInterruptVector);
    pair.id = 3;
    let [cq, sq] = crate::driver::Driver::create(&pair, QueuePriority::Medium);
    secondary.refuse(cq, StatusCode::InvalidQueueId);
    secondary.refuse(sq, StatusCode::InvalidQueueId);
}

#[test]
fn resources_of_the_next_time_online_are_the_limits_then() {
    let mut subsystem = Subsystem::freed();
    subsystem.set_online(1, 4, 3);
    subsystem.secondary(1).enable();
    assert_eq!(subsystem.secondary(1).succeed(get_feature(CID, Feature::NumberOfQueues)), 0x0002_0002);
    subsystem.primary.succeed(admin::set_offline(CID, 1));
    subsystem.set_online(1, 2, 1);
    subsystem.secondary(1).enable();
    assert_eq!(subsystem.secondary(1).succeed(get_feature(CID, Feature::NumberOfQueues)), 0);
}

#[test]
fn secondary_controller_refuses_privileged_commands() {
    let mut subsystem = Subsystem::online(2);
    let secondary = subsystem.secondary(1);
    secondary.put(&ControllerList::of([1].into_iter()));
    for sqe in [
        admin::set_offline(CID, 2),
        admin::set_online(CID, 3),
        admin::assign_to_secondary(CID, 1, ControllerResource::Queues, 2),
        admin::allocate_to_primary(CID, 0, ControllerResource::Queues, 8),
        admin::create_namespace(CID, PAGE),
        admin::delete_namespace(CID, Nsid(2)),
        admin::namespace_attachment(CID, Attachment::Attach, Nsid(2), PAGE),
    ] {
        secondary.refuse(sqe, StatusCode::InvalidOpcode);
    }
    for cns in [Cns::Controllers, Cns::PrimaryCapabilities, Cns::SecondaryControllers] {
        secondary.refuse(admin::identify_controllers(CID, cns, Nsid::NONE, 0, PAGE), StatusCode::InvalidField);
    }
    secondary.assert_clean();
    assert!(subsystem.secondary(2).csts().rdy());
}

#[test]
fn primary_lists_the_controllers_of_the_subsystem() {
    let mut subsystem = Subsystem::online(1);
    let ids = |driver: &mut Driver, cns, nsid, first| {
        driver.succeed(admin::identify_controllers(CID, cns, Nsid(nsid), first, PAGE));
        let list: ControllerList = driver.data();
        list.listed().unwrap().iter().map(|id| id.get()).collect::<Vec<_>>()
    };
    let primary = &mut subsystem.primary;
    assert_eq!(ids(primary, Cns::Controllers, 0, 0), [0, 1, 2, 3]);
    assert_eq!(ids(primary, Cns::Controllers, 0, 2), [2, 3]);
    assert_eq!(ids(primary, Cns::AttachedControllers, 1, 0), [1]);
    assert_eq!(ids(primary, Cns::AttachedControllers, 2, 0), [0]);
    assert_eq!(ids(primary, Cns::AttachedControllers, 2, 1), [0; 0]);
}

#[test]
fn virtual_function_has_no_interrupt_pin() {
    let mut subsystem = Subsystem::online(1);
    let secondary = subsystem.secondary(1);
    secondary.succeed(get_feature(CID, Feature::NumberOfQueues));
    let cid = secondary.submit(0, get_feature(CID, Feature::NumberOfQueues));
    while secondary.step() {}
    // Its completion is there and not taken.
    assert_eq!(secondary.machine.pin, sim_nvme::Level::Deasserted);
    assert!(secondary.completion(cid).is_some());
}

#[test]
fn secondary_controller_cannot_reset_the_subsystem() {
    let mut subsystem = Subsystem::online(1);
    let secondary = subsystem.secondary(1);
    let cap = secondary.controller.read(Register::Cap as u64, AccessSize::Eight);
    assert!(!nvme_spec::registers::Cap::from_bits(cap).nssrs());
}
