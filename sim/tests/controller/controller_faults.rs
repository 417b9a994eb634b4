//! Faults of the controller as a whole.

use nvme_spec::registers::{Arbitration, Register};
use nvme_spec::{Cid, Nsid, Sqe, Status, nvm};
use sim_fault::{ControllerEffect, ControllerFault, Fault};
use sim_nvme::config::Recording;
use sim_nvme::{AccessSize, Config, Event, ViolationKind};

use crate::driver::{Driver, config};

const FLUSH: Sqe = nvm::flush(Cid(0), Nsid(1));
const AT_NS: u64 = 10_000_000;

fn driver(effects: &[ControllerEffect]) -> Driver {
    let fault = |&effect| Fault::Controller(ControllerFault { controller: String::new(), at_ns: AT_NS, effect });
    let mut driver = Driver::new(Config { faults: effects.iter().map(fault).collect(), ..config() });
    // The faults keep the controller from being idle, so that bringing it up must stop before them.
    driver.set_admin_queues();
    driver.set(Register::Cc, Driver::cc(Arbitration::RoundRobin).with_en(true).into_bits());
    driver.advance_to(2_000_000);
    driver.create_pair(1, 8, nvme_spec::admin::QueuePriority::Urgent);
    assert_eq!(driver.execute(1, FLUSH).status(), Status::SUCCESS);
    assert!(driver.now_ns < AT_NS);
    driver
}

fn missed(driver: &Driver) -> Vec<bool> {
    driver.controller.faults_missed().collect()
}

#[test]
fn a_spurious_interrupt_comes_without_a_completion() {
    let spurious = |vector| ControllerEffect::SpuriousInterrupt { vector };
    let mut driver = driver(&[spurious(1), spurious(5)]);
    let before = driver.machine.messages.get(&1).copied().unwrap_or(0);
    driver.advance_to(AT_NS - 1);
    assert_eq!(driver.machine.messages.get(&5), None);
    driver.advance_to(AT_NS);
    assert_eq!(driver.machine.messages.get(&1), Some(&(before + 1)));
    assert_eq!(driver.machine.messages.get(&5), Some(&1));
    assert_eq!(driver.controller.faults_hit().collect::<Vec<_>>(), [1, 0], "no queue is on the other vector");
    assert_eq!(missed(&driver), [false, true]);
}

#[test]
fn a_function_that_is_not_bus_master_raises_nothing_for_nothing() {
    let mut driver = driver(&[ControllerEffect::SpuriousInterrupt { vector: 5 }]);
    driver.machine.is_bus_master = false;
    driver.advance_to(AT_NS);
    assert_eq!(driver.machine.messages.get(&5), None);
}

#[test]
fn fault_of_the_controller_is_missed_before_its_time_and_where_nothing_is_to_be_hit() {
    let stuck = |pair| ControllerEffect::StuckQueuePair { pair };
    let mut driver = driver(&[stuck(1), stuck(7), ControllerEffect::SpuriousInterrupt { vector: 5 }]);
    driver.machine.is_bus_master = false;
    driver.advance_to(AT_NS);
    assert_eq!(missed(&driver), [true; 3]);
    driver.submit(1, FLUSH);
    driver.ring(1);
    driver.run();
    assert_eq!(missed(&driver), [false, true, true], "a completion was held back");
}

#[test]
fn fatal_error_in_a_controller_that_has_failed_is_missed() {
    let mut driver = driver(&[ControllerEffect::FatalStatus; 2]);
    driver.advance_to(AT_NS);
    assert_eq!(missed(&driver), [false, true]);
}

#[test]
fn after_a_fatal_error_nothing_is_done_until_a_reset() {
    let mut driver = driver(&[ControllerEffect::FatalStatus]);
    driver.advance_to(AT_NS);
    assert!(driver.csts().cfs());
    driver.submit(1, FLUSH);
    driver.ring(1);
    driver.run();
    assert_eq!(driver.take_all(1), []);
    driver.set(Register::Cc, 0);
    driver.run();
    assert!(!driver.csts().cfs());
    driver.enable(Arbitration::RoundRobin);
    driver.create_pair(1, 8, nvme_spec::admin::QueuePriority::Urgent);
    assert_eq!(driver.execute(1, FLUSH).status(), Status::SUCCESS);
    driver.assert_clean();
}

#[test]
fn hidden_registers_read_as_ones_and_come_back() {
    let mut driver = driver(&[ControllerEffect::AllOnes { for_ns: Some(1_000) }]);
    driver.advance_to(AT_NS);
    assert_eq!(missed(&driver), [true], "nobody has looked");
    assert!(driver.csts().is_absent());
    assert_eq!(missed(&driver), [false]);
    assert_eq!(driver.controller.read(0, AccessSize::Eight), u64::MAX);
    driver.set(Register::Cc, 0);
    driver.advance_to(AT_NS + 1_000);
    assert!(driver.csts().rdy() && !driver.csts().is_absent(), "the write was lost");
    assert_eq!(driver.execute(1, FLUSH).status(), Status::SUCCESS);
}

#[test]
fn absence_that_nobody_notices_is_missed() {
    let mut driver = driver(&[ControllerEffect::AllOnes { for_ns: Some(1_000) }]);
    driver.advance_to(AT_NS + 1_000);
    assert!(!driver.csts().is_absent());
    driver.controller.strike(ControllerEffect::Removal, &mut driver.machine);
    assert!(driver.csts().is_absent());
    assert_eq!(missed(&driver), [true], "this absence has another cause");
}

#[test]
fn registers_may_be_hidden_for_ever() {
    let mut driver = driver(&[ControllerEffect::AllOnes { for_ns: None }]);
    driver.run();
    driver.advance_to(u64::MAX / 2);
    assert!(driver.csts().is_absent());
}

#[test]
fn a_controller_that_is_never_ready_again_stays_so() {
    let mut driver = driver(&[ControllerEffect::NeverReady]);
    driver.advance_to(AT_NS);
    assert!(driver.csts().rdy(), "until it is reset");
    driver.set(Register::Cc, 0);
    driver.run();
    assert_eq!(missed(&driver), [true]);
    driver.controller.function_level_reset();
    driver.set_admin_queues();
    driver.set(Register::Cc, Driver::cc(Arbitration::RoundRobin).with_en(true).into_bits());
    driver.run();
    assert!(!driver.csts().rdy());
    assert_eq!(missed(&driver), [false]);
}

#[test]
fn controller_is_not_ready_after_a_power_loss() {
    let mut driver = driver(&[ControllerEffect::PowerLoss]);
    driver.submit(1, FLUSH);
    driver.advance_to(AT_NS);
    driver.ring(1);
    driver.run();
    assert_eq!(driver.take_all(1), []);
    assert_eq!((driver.get(Register::Cc), driver.get(Register::Csts), driver.get(Register::Aqa)), (0, 0, 0));
    let counters = driver.controller.counters();
    assert_eq!((counters.power_cycles, counters.unsafe_shutdowns), (2, 1));
    driver.set(Register::Cc, 0);
    driver.enable(Arbitration::RoundRobin);
    driver.create_pair(1, 8, nvme_spec::admin::QueuePriority::Urgent);
    assert_eq!(driver.execute(1, FLUSH).status(), Status::SUCCESS);
    driver.assert_clean();
}

#[test]
fn reset_after_a_power_loss_informs_the_driver() {
    let mut driver = driver(&[ControllerEffect::PowerLoss]);
    driver.advance_to(AT_NS);
    driver.set(Register::Cc, 0);
    driver.submit(1, FLUSH);
    driver.ring(1);
    let kinds: Vec<_> = driver.controller.violations().iter().map(|violation| violation.kind).collect();
    assert!(matches!(kinds[..], [ViolationKind::DoorbellBeforeReady { .. }]), "{kinds:?}");
}

#[test]
fn fate_of_commands_at_a_power_loss_is_reported_in_order() {
    let fault = ControllerFault { controller: String::new(), at_ns: AT_NS, effect: ControllerEffect::PowerLoss };
    let faults = vec![Fault::Controller(fault)];
    let mut driver = Driver::new(Config { faults, recording: Recording::Events, ..config() });
    driver.set_admin_queues();
    driver.set(Register::Cc, Driver::cc(Arbitration::RoundRobin).with_en(true).into_bits());
    driver.advance_to(2_000_000);
    driver.create_pair(1, 8, nvme_spec::admin::QueuePriority::Urgent);
    drop(driver.controller.take_events());
    // Fetched before the loss, and not finished by then.
    driver.advance_to(AT_NS - 1_000);
    driver.submit(1, FLUSH);
    driver.ring(1);
    driver.advance_to(AT_NS);
    let events: Vec<_> = driver.controller.take_events().collect();
    assert!(matches!(events[..], [Event::Fetched { sq: 1, .. }, Event::Stopped, Event::PowerLost]), "{events:?}");
    driver.set(Register::Cc, Driver::cc(Arbitration::RoundRobin).into_bits());
    driver.set_admin_queues();
    driver.set(Register::Cc, Driver::cc(Arbitration::RoundRobin).with_en(true).into_bits());
    driver.run();
    driver.set(Register::Cc, 0);
    driver.run();
    assert_eq!(driver.controller.take_events().collect::<Vec<_>>(), [Event::Stopped, Event::Reset]);
}

#[test]
fn a_controller_that_is_pulled_out_is_silent() {
    let mut driver = driver(&[ControllerEffect::Removal, ControllerEffect::SpuriousInterrupt { vector: 5 }]);
    driver.submit(1, FLUSH);
    driver.advance_to(AT_NS - 10);
    driver.ring(1);
    driver.run();
    assert!(driver.controller.is_removed() && driver.csts().is_absent());
    assert_eq!(driver.take_all(1), []);
    assert_eq!(driver.machine.messages.get(&5), None);
}

#[test]
fn a_stuck_queue_pair_posts_nothing_until_it_is_created_again() {
    let mut driver = driver(&[ControllerEffect::StuckQueuePair { pair: 1 }]);
    driver.advance_to(AT_NS);
    driver.submit(1, FLUSH);
    driver.ring(1);
    driver.run();
    assert_eq!(driver.take_all(1), []);
    driver.create_pair(2, 8, nvme_spec::admin::QueuePriority::Urgent);
    assert_eq!(driver.execute(2, FLUSH).status(), Status::SUCCESS, "others go on");
    driver.set(Register::Cc, 0);
    driver.run();
    driver.enable(Arbitration::RoundRobin);
    driver.create_pair(1, 8, nvme_spec::admin::QueuePriority::Urgent);
    assert_eq!(driver.execute(1, FLUSH).status(), Status::SUCCESS);
    driver.assert_clean();
}
