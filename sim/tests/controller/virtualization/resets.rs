//! Resets and states of one controller, and their effects on the others.

use nvme_spec::admin::{self, ControllerResource};
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::registers::{NSSR_RESET, Register};
use nvme_spec::{Cid, Lba, Nsid, StatusCode};
use sim_nvme::config::{Cache, Recording};
use sim_nvme::{AccessSize, Config, Controller, Event, ViolationKind};

use super::support::{CID, Subsystem, config, read, write};
use crate::admin::support::{Driver, PAGE};

/// Submits a read of a whole namespace's start, and lets the controller fetch it.
fn start_read(driver: &mut Driver, nsid: u32) -> Cid {
    let blocks = Blocks::new(Lba(0), 8).unwrap();
    let cid = driver.submit(1, nvm::read(CID, Nsid(nsid), blocks, PAGE));
    driver.step();
    cid
}

#[test]
fn taking_one_offline_ends_its_work_and_not_that_of_another() {
    let mut subsystem = Subsystem::online(2);
    let [lost, kept] = [1, 2].map(|id| start_read(subsystem.secondary(id), id.into()));
    subsystem.primary.succeed(admin::set_offline(CID, 1));
    let first = subsystem.secondary(1);
    assert!(first.csts().cfs() && !first.csts().rdy());
    first.run();
    assert_eq!(first.completion(lost), None);
    assert!(subsystem.secondary(2).wait(kept).status().is_success());
    assert!(write(subsystem.secondary(2), 2, 4).is_success());
    let listed = subsystem.listed(0);
    assert_eq!((listed[0].is_online(), listed[0].nvq.get(), listed[0].nvi.get()), (false, 0, 0));
    assert_eq!((listed[1].is_online(), listed[1].nvq.get(), listed[1].nvi.get()), (true, 2, 2));
    let about = subsystem.capabilities();
    assert_eq!((about.queues.assigned.get(), about.interrupts.assigned.get()), (2, 2));
}

#[test]
fn controller_that_comes_back_has_its_namespace_and_nothing_else() {
    let mut subsystem = Subsystem::online(1);
    assert!(write(subsystem.secondary(1), 1, 6).is_success());
    subsystem.primary.succeed(admin::set_offline(CID, 1));
    subsystem.set_online(1, 2, 2);
    let secondary = subsystem.secondary(1);
    assert_eq!((secondary.get(Register::Cc), secondary.get(Register::Csts), secondary.get(Register::Aqa)), (0, 0, 0));
    secondary.enable();
    secondary.make_io_queue();
    assert_eq!(read(secondary, 1), Ok(6));
    secondary.assert_clean();
}

#[test]
fn doorbell_of_a_driver_that_does_not_know_is_no_violation() {
    let mut subsystem = Subsystem::online(1);
    subsystem.primary.succeed(admin::set_offline(CID, 1));
    subsystem.secondary(1).ring(1, 1);
    subsystem.set_online(1, 2, 2);
    let secondary = subsystem.secondary(1);
    secondary.ring(1, 1);
    secondary.assert_clean();
    secondary.set(Register::Cc, 0);
    secondary.run();
    secondary.ring(1, 1);
    let offset = secondary.tail_doorbell(1);
    assert!(secondary.violations().contains(&ViolationKind::DoorbellBeforeReady { offset }));
}

#[test]
fn function_level_reset_of_one_leaves_the_others_alone() {
    let mut subsystem = Subsystem::online(2);
    let [lost, kept] = [1, 2].map(|id| start_read(subsystem.secondary(id), id.into()));
    subsystem.secondary(1).controller.function_level_reset();
    let first = subsystem.secondary(1);
    assert_eq!((first.get(Register::Cc), first.get(Register::Csts)), (0, 0));
    first.run();
    assert_eq!(first.completion(lost), None);
    assert!(subsystem.secondary(2).wait(kept).status().is_success());
    assert!(subsystem.primary.csts().rdy());
    // It is still online, with the same resources and namespace.
    let listed = subsystem.listed(0);
    assert_eq!((listed[0].is_online(), listed[0].nvq.get(), listed[0].nvi.get()), (true, 2, 2));
    let first = subsystem.secondary(1);
    first.enable();
    first.make_io_queue();
    assert!(write(first, 1, 1).is_success());
    first.assert_clean();
}

#[test]
fn function_level_reset_does_not_set_a_controller_online() {
    let mut subsystem = Subsystem::new();
    subsystem.secondary(1).controller.function_level_reset();
    assert!(subsystem.secondary(1).csts().cfs());
}

#[test]
fn disabled_function_takes_its_controller_offline_until_it_is_enabled() {
    let mut subsystem = Subsystem::online(2);
    let [lost, kept] = [1, 2].map(|id| start_read(subsystem.secondary(id), id.into()));
    subsystem.secondary(1).controller.function_disabled();
    let first = subsystem.secondary(1);
    assert!(first.csts().cfs() && !first.csts().rdy());
    first.run();
    assert_eq!(first.completion(lost), None);
    assert!(subsystem.secondary(2).wait(kept).status().is_success());
    let listed = subsystem.listed(0);
    assert_eq!((listed[0].is_online(), listed[0].nvq.get(), listed[0].nvi.get()), (false, 0, 0));
    for kind in [ControllerResource::Queues, ControllerResource::Interrupts] {
        subsystem.primary.succeed(admin::assign_to_secondary(CID, 1, kind, 2));
    }
    subsystem.primary.refuse(admin::set_online(CID, 1), StatusCode::InvalidSecondaryState);
    subsystem.secondary(1).controller.function_enabled();
    assert!(subsystem.secondary(1).csts().cfs(), "an enabled function's controller is offline at first");
    subsystem.primary.succeed(admin::set_online(CID, 1));
    let first = subsystem.secondary(1);
    first.enable();
    first.make_io_queue();
    assert!(write(first, 1, 1).is_success());
    first.assert_clean();
}

#[test]
fn state_of_a_function_is_nothing_to_a_controller_in_no_virtual_one() {
    let mut subsystem = Subsystem::online(1);
    subsystem.primary.controller.function_disabled();
    assert!(subsystem.primary.csts().rdy() && subsystem.secondary(1).csts().rdy());
    let mut alone = Driver::of(Controller::new(Config { virtualization: None, ..config() }, 1));
    alone.enable();
    alone.controller.function_disabled();
    assert!(alone.csts().rdy());
}

#[test]
fn controller_reset_of_a_secondary_leaves_the_others_alone() {
    let mut subsystem = Subsystem::online(2);
    let kept = start_read(subsystem.secondary(2), 2);
    subsystem.secondary(1).reset();
    assert!(subsystem.secondary(2).wait(kept).status().is_success());
    assert!(subsystem.primary.csts().rdy());
}

#[test]
fn any_reset_of_the_primary_takes_the_secondaries_offline() {
    let resets: [fn(&mut Driver); 3] = [
        |primary| primary.set(Register::Cc, 0),
        |primary| primary.controller.function_level_reset(),
        |primary| primary.set(Register::Nssr, NSSR_RESET),
    ];
    for reset in resets {
        let mut subsystem = Subsystem::online(2);
        reset(&mut subsystem.primary);
        for id in [1, 2] {
            let secondary = subsystem.secondary(id);
            assert!(secondary.csts().cfs() && !secondary.csts().rdy());
            secondary.ring(1, 1);
            secondary.assert_clean();
        }
        subsystem.primary.run();
        subsystem.primary.enable();
        assert!(subsystem.listed(0).iter().all(|entry| !entry.is_online() && entry.nvq.get() == 0));
        assert_eq!(subsystem.capabilities().queues.free(), Some(8));
    }
}

#[test]
fn power_loss_takes_unflushed_writes_of_every_controller() {
    let cache = Some(Cache { bytes: 1 << 20, linger_ns: u64::MAX });
    let lost = |seed| {
        let (primary, secondaries) = Controller::with_secondaries(Config { cache, ..config() }, seed);
        let mut subsystem = Subsystem::of(primary, secondaries);
        subsystem.free();
        subsystem.bring_up(1);
        assert!(write(subsystem.secondary(1), 1, 6).is_success());
        subsystem.primary.lose_power();
        assert!(subsystem.secondary(1).csts().cfs());
        let mut byte = [0xff];
        subsystem.primary.controller.read_contents(1, 0, &mut byte).unwrap();
        byte[0] == 0
    };
    let outcomes: Vec<bool> = (0..20).map(lost).collect();
    assert!(outcomes.contains(&true) && outcomes.contains(&false), "{outcomes:?}");
    assert_eq!(outcomes, (0..20).map(lost).collect::<Vec<_>>());
}

#[test]
fn offline_is_recorded_as_a_reset() {
    let (primary, secondaries) = Controller::with_secondaries(Config { recording: Recording::Events, ..config() }, 1);
    let mut subsystem = Subsystem::of(primary, secondaries);
    subsystem.free();
    subsystem.bring_up(1);
    assert!(subsystem.secondary(1).controller.take_events().count() > 0);
    subsystem.primary.succeed(admin::set_offline(CID, 1));
    let secondary = subsystem.secondary(1);
    secondary.pass(1);
    assert_eq!(secondary.controller.take_events().collect::<Vec<_>>(), [Event::Stopped, Event::Reset]);
}

#[test]
fn the_same_calls_give_the_same_completions() {
    let run = || {
        let mut subsystem = Subsystem::online(3);
        let reads = [1, 2, 3].map(|id| start_read(subsystem.secondary(id), id.into()));
        let ends = [1, 2, 3].map(|id| {
            let secondary = subsystem.secondary(id);
            let entry = secondary.wait(reads[usize::from(id) - 1]);
            (entry, secondary.now_ns, secondary.controller.read(Register::Csts as u64, AccessSize::Four))
        });
        (ends, subsystem.primary.now_ns)
    };
    assert_eq!(run(), run());
}
