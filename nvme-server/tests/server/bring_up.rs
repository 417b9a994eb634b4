//! Bring-up: from a claimed controller to one that takes commands.

use crate::support::{ARENA, Act, Setup, System, TICKS_PER_SECOND, entry, session};
use blk_api::session::Refusal;
use nvme_driver::{DeviceFault, Registers, wait_ready};
use nvme_spec::admin::Opcode;
use nvme_spec::feature::Feature;
use nvme_spec::registers::{Cap, Register};
use platform::{Platform, Vaddr};
use report::Report;
use sim_fault::ControllerEffect;
use sim_nvme::AccessSize;
use std::cell::Cell;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

fn position(acts: &[Act], wanted: Act) -> usize {
    acts.iter().position(|act| *act == wanted).unwrap_or_else(|| panic!("{wanted:?} in {acts:?}"))
}

#[test]
fn firmware_state_is_reset_before_bus_mastering() {
    let system = System::start(Setup::default());
    let acts = system.take_acts();
    assert!(position(&acts, Act::Reset) < position(&acts, Act::Started));
    assert!(position(&acts, Act::Started) < position(&acts, Act::Enabled));
}

#[test]
fn vectors_are_asked_for_before_the_controller_is_enabled() {
    let system = System::start(Setup::default());
    let acts = system.take_acts();
    for vector in 0..3 {
        assert!(position(&acts, Act::Vector(vector)) < position(&acts, Act::Enabled));
    }
}

#[test]
fn the_controller_is_reported_with_what_it_can() {
    let system = System::start(Setup::default());
    let reports = std::mem::take(&mut system.world.state().reports);
    let [Report::Controller(controller), Report::Namespace(namespace)] = &reports[..] else {
        panic!("a controller and a namespace, not {reports:?}")
    };
    assert_eq!((controller.queue_pairs, controller.max_transfer_bytes, controller.version), (4, 8192, [1, 4, 0]));
    assert_eq!((namespace.nsid, namespace.blocks, namespace.block_bytes), (1, 4096, 512));
}

#[test]
fn cqs_are_created_before_their_sqs_and_deleted_after() {
    let mut setup = Setup::default();
    setup.sessions[0].config.queue_pairs = 2;
    let mut system = System::start(setup);
    system.take_acts();
    system.open(0).unwrap();
    let admin = |acts: Vec<Act>| -> Vec<_> {
        let admin = |act| if let Act::Admin(opcode, id) = act { Some((opcode, id)) } else { None };
        acts.into_iter().filter_map(admin).collect()
    };
    let created = admin(system.take_acts());
    assert_eq!(
        created.iter().map(|(opcode, id)| (*opcode, id & 0xff)).collect::<Vec<_>>(),
        [(Opcode::CreateIoCq, 1), (Opcode::CreateIoSq, 1), (Opcode::CreateIoCq, 2), (Opcode::CreateIoSq, 2)]
    );
    system.close(0).unwrap();
    assert_eq!(
        admin(system.take_acts()),
        [(Opcode::DeleteIoSq, 1), (Opcode::DeleteIoCq, 1), (Opcode::DeleteIoSq, 2), (Opcode::DeleteIoCq, 2)]
    );
}

#[test]
fn missing_controller_leaves_clients_refused() {
    let mut system = System::start_with(Setup::default(), |controller, _| controller.absent = true);
    system.pass(1);
    assert_eq!(system.open(0), Err(Refusal::DeviceGone));
    assert_eq!(system.open(1), Err(Refusal::DeviceGone));
    assert_eq!(system.take_failures().len(), 1);
}

#[test]
fn a_controller_that_is_out_of_reach_for_a_moment_is_used() {
    let mut system = System::start_with(Setup::default(), |controller, _| controller.absent = true);
    let opening = system.begin_call(1, blk_api::session::OPEN);
    system.controller(|controller, _| controller.absent = false);
    system.tick();
    assert!(system.answer(opening).is_some_and(|answer| answer.label == blk_api::session::DONE));
    system.install(0).unwrap();
    assert_eq!(system.request(0, entry(blk_api::request::Opcode::Read, 0, 1, 0)).status, 0);
}

#[test]
fn a_controller_that_never_becomes_ready_leaves_clients_refused() {
    let mut system =
        System::start_with(Setup::default(), |controller, bus| controller.strike(bus, ControllerEffect::NeverReady));
    // Three attempts, each as long as the controller may take.
    system.pass(120);
    assert_eq!(system.open(0), Err(Refusal::Device));
    assert!(system.take_failures().iter().any(|reason| reason.contains("cannot be brought up")));
}

#[test]
fn a_controller_whose_queues_hold_nothing_is_not_used() {
    let mut system = System::start_with(Setup::default(), |controller, _| controller.lies.shape.mqes_z = 0);
    system.pass(1);
    assert_eq!(system.open(0), Err(Refusal::Device));
}

#[test]
fn queues_are_no_longer_than_the_controller_allows() {
    let mut setup = Setup { sessions: vec![session("only", 0)], ..Setup::default() };
    setup.shape.mqes_z = 3;
    let mut system = System::serving(setup, 1);
    let entry = crate::support::entry(blk_api::request::Opcode::Read, 0, 40, 0);
    assert_eq!(system.request(0, entry).status, 0);
}

#[test]
fn controller_that_never_gets_ready_is_reported() {
    // CAP.TO is half a second; one second is added.
    assert_time_out(1, 15..25);
    // The longest, of two minutes.
    assert_time_out(255, 2540..2580);
}

/// Asserts that a controller with this CAP.TO, which never gets ready, is waited for so many ticks.
fn assert_time_out(to: u8, expected: std::ops::Range<u32>) {
    let never_ready = ControllerEffect::NeverReady;
    let system = System::start_with(Setup::default(), |controller, bus| controller.strike(bus, never_ready));
    let known = system.world.state().controller.read(Register::Cap.offset(), AccessSize::Eight);
    system.world.state().controller.lies.shape.cap = Some(Cap::from_bits(known).with_to(to).into_bits());
    let registers = system.world.mmio(Vaddr::new(ARENA), 8192).unwrap();
    let controller = Registers::new(registers);
    controller.identify().unwrap();
    let ticks = Cell::new(0);
    let tick = async || {
        ticks.set(ticks.get() + 1);
        system.world.state().now += TICKS_PER_SECOND / 20;
    };
    let mut waiting = pin!(wait_ready(&system.world, &controller, tick, true));
    let outcome = (0..10_000).find_map(|_| match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    });
    assert_eq!(outcome, Some(Err(DeviceFault::TimedOut)));
    assert!(expected.contains(&ticks.get()), "{} ticks", ticks.get());
}

/// The features that the server set since, by identifier, but for 0Bh, which it always sets.
fn features_set(system: &System) -> Vec<u16> {
    let set = |act| match act {
        Act::Admin(Opcode::SetFeatures, id) if id != Feature::AsyncEvents as u16 => Some(id),
        _ => None,
    };
    system.take_acts().into_iter().filter_map(set).collect()
}

#[test]
fn features_that_an_earlier_driver_saved_are_set_at_each_bring_up() {
    let usual = features_set(&System::start(Setup::default()));
    assert_eq!(usual, [7], "the number of queues alone");
    let mut setup = Setup::default();
    // Coalescing, error recovery of the namespace, and a temperature that does not matter.
    setup.shape.saved = vec![(8, 0xff07), (5, 20), (4, 350)];
    let mut system = System::start(setup);
    let mut set = features_set(&system);
    set.sort_unstable();
    assert_eq!(set, [5, 7, 8]);
    system.controller(|controller, bus| controller.strike(bus, ControllerEffect::FatalStatus));
    system.pass(20);
    let mut set = features_set(&system);
    set.sort_unstable();
    assert_eq!(set, [5, 7, 8], "a reset brings the saved values back");
}
