//! Virtual functions that clients drive themselves: the server enables them, and sets each online and offline with its client.

use crate::support::{Act, Managed, Setup, State, System, advance_incarnation, entry};
use blk_api::config::FunctionConfig;
use blk_api::policy::{FunctionRight, Refusal, SET_FUNCTION};
use blk_api::request::Opcode;
use nvme_spec::admin::{self, Cns, ControllerResource};
use nvme_spec::{Nsid, StatusCode};
use platform::Message;
use sim_fault::ControllerEffect;

const QUEUES: ControllerResource = ControllerResource::Queues;
const INTERRUPTS: ControllerResource = ControllerResource::Interrupts;
/// Tenants with functions.
const TENANTS: [&str; 2] = ["frida", "fritz"];

/// Two functions beside two sessions, with this many flexible resources of each kind. Each function needs two.
fn setup(flexible: u16) -> Setup {
    let function = |(nsid, tenant): (u32, &str)| FunctionConfig { tenant: tenant.into(), nsid, queue_pairs: 1 };
    let mut setup = Setup { functions: (2..).zip(TENANTS).map(function).collect(), ..Setup::default() };
    (setup.shape.functions, setup.shape.flexible) = (2, flexible);
    setup
}

/// A server to which the policy component has granted both functions.
fn start(setup: Setup) -> System {
    let mut system = System::start(setup);
    for function in 0..2 {
        assert_eq!(set(&mut system, function, true), Err(Refusal::Busy));
    }
    system
}

/// The policy component's word about a function.
fn set(system: &mut System, function: u32, granted: bool) -> Result<(), Refusal> {
    system.policy(Message::with(SET_FUNCTION, &FunctionRight { function, granted: granted.into() }))
}

/// A server whose functions are all online.
fn online() -> System {
    let mut system = start(setup(4));
    system.pass(1);
    assert_eq!(online_ones(&mut system), [true, true]);
    assert_eq!(system.take_failures(), [""; 0]);
    managed(&system);
    system.take_acts();
    system
}

fn online_ones(system: &mut System) -> [bool; 2] {
    let mut state = system.world.state();
    [0, 1].map(|index| state.controller.is_online(index))
}

/// The changes of secondary controllers so far, taken.
fn managed(system: &System) -> Vec<Managed> {
    system.world.state().controller.take_managed()
}

/// The client of function `index` dies, or is alive again.
fn advance(system: &System, index: usize) {
    advance_incarnation(&system.drivers[index]);
}

/// The client of function `index` dies, or is alive again, and seconds pass.
fn advance_for(system: &mut System, index: usize, seconds: u64) {
    advance(system, index);
    system.pass(seconds);
}

/// The number of the function's namespace.
fn nsid(index: u16) -> Nsid {
    Nsid(2 + u32::from(index))
}

/// Setting function `index` online, after whatever is left of an earlier server.
fn setting_online(index: u16) -> [Managed; 5] {
    let controller = 1 + index;
    [
        Managed::Offline(controller),
        Managed::Assigned(controller, QUEUES, 2),
        Managed::Assigned(controller, INTERRUPTS, 2),
        Managed::Attached(controller, nsid(index)),
        Managed::Online(controller),
    ]
}

/// Setting it offline.
fn setting_offline(index: u16) -> [Managed; 2] {
    [Managed::Offline(1 + index), Managed::Detached(1 + index, nsid(index))]
}

fn enabled(acts: &[Act]) -> usize {
    acts.iter().filter(|act| matches!(act, Act::Functions(_))).count()
}

#[test]
fn functions_are_enabled_after_their_resources_are_free() {
    let mut system = start(setup(4));
    let acts = system.take_acts();
    let position = acts.iter().position(|act| *act == Act::Functions(2)).expect("the PCI server was asked");
    let before = &acts[..position];
    assert_eq!(before.iter().rfind(|act| matches!(act, Act::Reset | Act::Enabled)), Some(&Act::Reset));
    assert_eq!(managed(&system), [Managed::Allocated(QUEUES, 0), Managed::Allocated(INTERRUPTS, 0)]);
    assert!(!system.world.state().controller.is_enabled(), "until they are there");
    let opening = system.begin_call(1, blk_api::session::OPEN);
    system.tick();
    assert!(system.answer(opening).is_none());
    system.pass(1);
    assert!(system.answer(opening).is_some_and(|answer| answer.label == blk_api::session::DONE));
    assert_eq!(enabled(&acts) + enabled(&system.take_acts()), 1);
    assert_eq!(system.take_failures(), [""; 0]);
}

#[test]
fn namespaces_that_an_earlier_host_left_at_functions_are_taken_from_them() {
    let mut setup = setup(4);
    setup.shape.left_attached_to = Some(1);
    let mut system = start(setup);
    let left = [Managed::Detached(1, nsid(0)), Managed::Detached(1, nsid(1))];
    let allocated = [Managed::Allocated(QUEUES, 0), Managed::Allocated(INTERRUPTS, 0)];
    assert_eq!(managed(&system), [&left[..], &allocated].concat());
    system.pass(1);
    assert_eq!(online_ones(&mut system), [true, true]);
    assert_eq!(managed(&system), [setting_online(0), setting_online(1)].concat());
    assert_eq!(system.take_failures(), [""; 0]);
}

#[test]
fn namespaces_of_other_controllers_of_the_subsystem_stay_where_they_are() {
    let system = start(setup(4));
    let mut other = setup(4);
    other.shape.left_attached_to = Some(77);
    assert_eq!(managed(&start(other)), managed(&system));
    assert_eq!(system.take_failures(), [""; 0]);
}

#[test]
fn refusal_that_passes_keeps_no_function_from_being_enabled() {
    let mut setup = setup(4);
    setup.shape.left_attached_to = Some(1);
    let mut system = System::start_with(setup, |controller, _| {
        controller.refusal = StatusCode::InternalError.into();
        controller.refuse = Some((admin::Opcode::NamespaceAttachment, 2));
    });
    system.pass(1);
    assert_eq!(system.take_failures(), [""; 0]);
    assert!(system.world.state().functions_at.is_some());
}

#[test]
fn server_without_functions_manages_no_resources() {
    let mut without = setup(4);
    without.functions.clear();
    let mut system = System::start(without);
    system.pass(1);
    assert_eq!(enabled(&system.take_acts()), 0);
    assert_eq!(managed(&system), []);
}

#[test]
fn functions_of_live_clients_are_online_with_their_namespaces() {
    let mut system = start(setup(4));
    managed(&system);
    system.pass(1);
    assert_eq!(managed(&system), [setting_online(0), setting_online(1)].concat());
    assert_eq!(online_ones(&mut system), [true, true]);
    system.pass(5);
    assert_eq!(managed(&system), [], "nothing is to do");
    assert_eq!(system.function_ack(0), (false, 0), "it is alive");
}

#[test]
fn dead_clients_function_is_offline_before_the_death_is_acknowledged() {
    let mut system = online().holding();
    advance(&system, 1);
    assert_eq!(system.function_ack(1), (false, 0));
    system.pass(1);
    assert_eq!(managed(&system), setting_offline(1));
    assert_eq!(online_ones(&mut system), [true, false]);
    assert_eq!(system.function_ack(1), (true, 1));
    assert_eq!(system.function_ack(0), (false, 1), "it is alive");
    system.pass(5);
    assert_eq!((managed(&system), system.function_ack(1)), (vec![], (true, 1)), "once");
}

#[test]
fn death_is_not_acknowledged_while_the_function_is_online() {
    for opcode in [admin::Opcode::VirtualizationManagement, admin::Opcode::NamespaceAttachment] {
        let mut system = online();
        system.controller(|controller, _| controller.deaf_to = Some(opcode));
        advance(&system, 0);
        for _ in 0..20 {
            system.tick();
            assert_eq!(system.function_ack(0), (false, 0), "{opcode:?} is not done");
        }
        // The command is late, and the controller is reset.
        system.controller(|controller, _| controller.deaf_to = None);
        system.pass(20);
        assert_eq!(system.function_ack(0), (true, 1));
        assert_eq!(online_ones(&mut system), [false, true]);
        assert_eq!(enabled(&system.take_acts()), 0);
    }
}

#[test]
fn next_incarnation_has_the_function_again() {
    let mut system = online();
    for death in 1..4 {
        advance_for(&mut system, 0, 1);
        assert_eq!((online_ones(&mut system), system.function_ack(0)), ([false, true], (true, death)));
        managed(&system);
        advance_for(&mut system, 0, 1);
        assert_eq!(managed(&system), setting_online(0));
        assert_eq!(online_ones(&mut system), [true, true]);
        assert_eq!(system.function_ack(0), (false, death), "it is alive");
    }
    assert_eq!(system.take_failures(), [""; 0]);
}

#[test]
fn death_and_restart_between_two_ticks_reset_the_function() {
    let mut system = online();
    advance(&system, 0);
    advance_for(&mut system, 0, 1);
    assert_eq!(managed(&system), [setting_offline(0).as_slice(), &setting_online(0)].concat());
    assert_eq!(online_ones(&mut system), [true, true]);
}

#[test]
fn many_incarnations_use_nothing_up() {
    let mut system = online();
    for _ in 0..1000 {
        advance(&system, 0);
        advance(&system, 1);
        system.tick();
        assert_eq!(online_ones(&mut system), [false, false]);
        advance(&system, 0);
        advance(&system, 1);
        system.tick();
        assert_eq!(online_ones(&mut system), [true, true]);
        system.take_acts();
    }
    assert_eq!(system.function_ack(0), (false, 1000), "two deaths with one signal");
    assert_eq!(system.take_failures(), [""; 0]);
}

#[test]
fn functions_are_restored_after_a_reset_of_the_controller() {
    let mut system = online();
    system.open(0).unwrap();
    advance_for(&mut system, 0, 1);
    managed(&system);
    system.controller(|controller, bus| controller.strike(bus, ControllerEffect::FatalStatus));
    assert!(online_ones(&mut system)[1], "until the reset");
    system.pass(1);
    // The namespace is still attached.
    assert_eq!(managed(&system), [setting_offline(1).as_slice(), &setting_online(1)[1..]].concat());
    assert_eq!(online_ones(&mut system), [false, true], "the other's client is dead");
    assert_eq!(enabled(&system.take_acts()), 0, "they were enabled before");
    assert_eq!(system.take_failures().len(), 1, "the reset");
    assert_eq!(system.request(0, entry(Opcode::Read, 3, 1, 0)).status, 0);
    // Its next incarnation.
    advance_for(&mut system, 0, 1);
    assert_eq!(managed(&system), setting_online(0));
}

#[test]
fn refused_function_is_reported_and_stops_nobody() {
    // There are resources for one function.
    let mut system = start(setup(2));
    system.pass(1);
    assert_eq!(online_ones(&mut system), [true, false]);
    let resets = system.world.state().controller.resets;
    let [failure] = &system.take_failures()[..] else { panic!("one failure") };
    assert!(failure.starts_with("the function of fritz is refused with status "), "{failure}");
    for index in 0..2 {
        system.open(index).unwrap();
        assert_eq!(system.request(index, entry(Opcode::Read, 3, 1, 0)).status, 0);
    }
    managed(&system);
    system.pass(5);
    assert_eq!((managed(&system), system.take_failures()), (vec![], vec![]), "it is not tried for this client again");
    // The other one's client dies, and so does its own, and is started again.
    advance(&system, 0);
    advance_for(&mut system, 1, 1);
    assert_eq!((system.function_ack(0).0, system.function_ack(1).0), (true, true));
    advance_for(&mut system, 1, 1);
    assert_eq!(online_ones(&mut system), [false, true]);
    assert_eq!(system.take_failures(), [""; 0]);
    assert_eq!(system.world.state().controller.resets, resets);
}

#[test]
fn refused_commands_of_each_kind_are_reported_and_stop_nobody() {
    for opcode in [admin::Opcode::VirtualizationManagement, admin::Opcode::NamespaceAttachment] {
        let mut system = online();
        system.open(0).unwrap();
        advance_for(&mut system, 0, 1);
        managed(&system);
        system.controller(|controller, _| controller.refuse = Some((opcode, 1)));
        advance_for(&mut system, 0, 1);
        let failures = system.take_failures();
        assert!(failures.iter().all(|failure| failure.contains("the function of frida is refused")), "{failures:?}");
        assert_eq!((failures.len(), online_ones(&mut system)), (1, [false, true]), "{opcode:?}");
        assert_eq!(system.request(0, entry(Opcode::Read, 3, 1, 0)).status, 0);
        // It is tried again for the next incarnation.
        advance_for(&mut system, 0, 1);
        advance_for(&mut system, 0, 1);
        assert_eq!(online_ones(&mut system), [true, true]);
    }
}

#[test]
fn refusal_to_set_a_dead_clients_function_offline_is_no_acknowledgement() {
    for opcode in [admin::Opcode::VirtualizationManagement, admin::Opcode::NamespaceAttachment] {
        let mut system = online();
        system.controller(|controller, _| controller.refuse = Some((opcode, 1)));
        advance(&system, 0);
        system.tick();
        let (is_acknowledged, _) = system.function_ack(0);
        assert!(!is_acknowledged || !online_ones(&mut system)[0], "{opcode:?}");
        system.pass(10);
        assert_eq!((system.function_ack(0), online_ones(&mut system)), ((true, 1), [false, true]), "{opcode:?}");
    }
}

#[test]
fn deaths_are_acknowledged_when_the_controller_is_given_up() {
    let mut system = online();
    system.controller(|controller, _| controller.absent = true);
    system.pass(3);
    assert!(system.take_failures().iter().any(|reason| reason.contains("the controller is gone")));
    advance_for(&mut system, 0, 1);
    assert_eq!(system.function_ack(0), (true, 1), "the PCI server has taken the function from it");
    // Its next incarnation has none, and dies as well.
    advance_for(&mut system, 0, 1);
    advance_for(&mut system, 0, 1);
    assert_eq!(system.function_ack(0), (true, 2));
    assert_eq!(managed(&system), []);
}

#[test]
fn death_is_not_acknowledged_while_the_controller_is_away() {
    for returns in [true, false] {
        let mut system = online();
        // Both in one tick.
        system.controller(|controller, _| controller.absent = true);
        advance(&system, 0);
        for _ in 0..10 {
            system.tick();
            assert_eq!(system.function_ack(0), (false, 0), "its controller is online, if it comes back");
        }
        system.controller(|controller, _| controller.absent = !returns);
        system.pass(3);
        assert_eq!(system.function_ack(0), (true, 1));
        if returns {
            assert_eq!(online_ones(&mut system), [false, true]);
        }
    }
}

#[test]
fn death_is_not_acknowledged_when_the_controller_fails_after_another_functions_end() {
    let mut system = online();
    system.controller(|controller, _| controller.deaf_to = Some(admin::Opcode::NamespaceAttachment));
    advance(&system, 0);
    advance(&system, 1);
    system.tick();
    assert_eq!(managed(&system), [Managed::Offline(1)]);
    // The end of the first function and the fault arrive together.
    {
        let mut state = system.world.state();
        let State { controller, bus, .. } = &mut *state;
        controller.hear(bus);
        controller.absent = true;
    }
    for _ in 0..10 {
        system.tick();
        assert!(!system.function_ack(1).0, "its controller is online, if it comes back");
    }
    system.controller(|controller, _| controller.absent = false);
    system.pass(3);
    assert_eq!((system.function_ack(0).0, system.function_ack(1).0), (true, true));
    assert_eq!(online_ones(&mut system), [false, false]);
}

#[test]
fn functions_that_do_not_appear_are_reported_and_sessions_do_without() {
    let mut system = System::start_with(setup(4), |_, _| ());
    // They appear later than any limit.
    system.world.state().functions_at = Some(u64::MAX);
    system.pass(60);
    assert_eq!(system.take_failures(), ["0 of 2 virtual functions appear"]);
    system.open(0).unwrap();
    assert_eq!(system.request(0, entry(Opcode::Read, 0, 1, 0)).status, 0);
}

#[test]
fn a_function_without_a_secondary_controller_is_refused_alone() {
    let mut system = System::start_with(setup(4), |controller, _| {
        controller.lies.describe = Some(Box::new(|cns, _, bytes| {
            // The list has one entry.
            if Cns::from_raw(cns) == Some(Cns::SecondaryControllers) {
                bytes[0] = 1;
            }
        }));
    });
    system.pass(5);
    assert_eq!((set(&mut system, 0, true), set(&mut system, 1, true)), (Err(Refusal::Busy), Err(Refusal::Busy)));
    system.pass(2);
    assert_eq!(online_ones(&mut system), [true, false]);
    let failures = system.take_failures();
    assert!(failures.iter().all(|failure| failure.contains("is refused with status")), "{failures:?}");
    system.open(0).unwrap();
    assert_eq!(system.request(0, entry(Opcode::Read, 0, 1, 0)).status, 0);
}

#[test]
fn no_function_is_online_without_the_policy_components_word() {
    let mut system = System::start(setup(4));
    system.pass(5);
    let signals = system.policy_signals();
    assert_eq!((online_ones(&mut system), set(&mut system, 1, true)), ([false, false], Err(Refusal::Busy)));
    system.pass(1);
    assert_eq!((online_ones(&mut system), set(&mut system, 1, true)), ([false, true], Ok(())));
    assert!(system.policy_signals() > signals);
    for function in [2, u32::MAX] {
        assert_eq!(set(&mut system, function, true), Err(Refusal::NoFunction(function)));
    }
    assert_eq!(system.policy(Message::new(SET_FUNCTION)), Err(Refusal::BadRequest));
}

#[test]
fn revoked_function_is_offline_then_withdrawn_then_without_namespace() {
    let mut system = online();
    assert_eq!(set(&mut system, 0, false), Err(Refusal::Busy));
    let acts = system.take_acts();
    let order = acts.iter().filter(|act| {
        let of_functions = [admin::Opcode::VirtualizationManagement, admin::Opcode::NamespaceAttachment];
        matches!(act, Act::Withdrawn(_)) || matches!(act, Act::Admin(opcode, _) if of_functions.contains(opcode))
    });
    let order: Vec<_> = order.collect();
    assert!(
        matches!(
            order[..],
            [
                Act::Admin(admin::Opcode::VirtualizationManagement, _),
                Act::Withdrawn(0),
                Act::Admin(admin::Opcode::NamespaceAttachment, _)
            ]
        ),
        "{acts:?}"
    );
    assert_eq!((managed(&system), online_ones(&mut system)), (setting_offline(0).to_vec(), [false, true]));
    assert_eq!(set(&mut system, 0, false), Ok(()));
    assert_eq!(system.function_ack(0), (false, 0), "its client is alive");
    // Its client dies, and the next one does not have it either.
    advance_for(&mut system, 0, 1);
    assert_eq!(system.function_ack(0), (true, 1));
    advance_for(&mut system, 0, 1);
    assert_eq!((managed(&system), online_ones(&mut system)), (vec![], [false, true]));
    assert_eq!(set(&mut system, 0, true), Err(Refusal::Busy));
    assert_eq!((managed(&system), system.take_acts().contains(&Act::Restored(0))), (setting_online(0).to_vec(), true));
    assert_eq!((set(&mut system, 0, true), online_ones(&mut system)), (Ok(()), [true, true]));
}

#[test]
fn revocation_of_a_dead_clients_function_waits_for_nobody() {
    let mut system = online();
    advance_for(&mut system, 1, 1);
    assert_eq!(set(&mut system, 1, false), Err(Refusal::Busy));
    assert_eq!((set(&mut system, 1, false), set(&mut system, 1, true)), (Ok(()), Err(Refusal::Busy)));
    assert_eq!((set(&mut system, 1, true), online_ones(&mut system)), (Ok(()), [true, false]), "until it is started");
}

#[test]
fn withdrawal_that_the_pci_server_refuses_is_repeated() {
    let mut system = online();
    system.world.state().refused_withdrawals = 3;
    assert_eq!(set(&mut system, 0, false), Err(Refusal::Busy));
    assert_eq!(online_ones(&mut system), [false, true]);
    assert_eq!(set(&mut system, 0, false), Err(Refusal::Busy));
    system.pass(1);
    assert_eq!(set(&mut system, 0, false), Ok(()));
    assert_eq!(system.take_acts().iter().filter(|act| **act == Act::Withdrawn(0)).count(), 1);
}

#[test]
fn revoked_function_stays_offline_after_a_reset_of_the_controller() {
    let mut system = online();
    assert_eq!(set(&mut system, 0, false), Err(Refusal::Busy));
    system.controller(|controller, bus| controller.strike(bus, ControllerEffect::FatalStatus));
    system.pass(1);
    assert_eq!((online_ones(&mut system), set(&mut system, 0, false)), ([false, true], Ok(())));
    // The controller fails while it is being revoked.
    system.controller(|controller, _| controller.deaf_to = Some(admin::Opcode::VirtualizationManagement));
    assert_eq!(set(&mut system, 1, false), Err(Refusal::Busy));
    system.controller(|controller, _| controller.deaf_to = None);
    system.pass(20);
    assert_eq!((online_ones(&mut system), set(&mut system, 1, false)), ([false, false], Ok(())));
}
