//! Interrupts by message and by pin, through which the server learns of completions.

use crate::support::{Act, Setup, System, Wires, entry};
use blk_api::request::Opcode;

/// Far more interrupts than may come without a completion in a tick.
const STORM: u32 = 6000;

fn with_wires(wires: Wires) -> System {
    System::serving(Setup { wires, ..Setup::default() }, 2)
}

fn with_pin() -> System {
    with_wires(Wires::Intx { masked: false })
}

fn with_shared_pin() -> System {
    with_wires(Wires::SharedIntx { masked: false })
}

#[test]
fn the_pin_is_acknowledged_after_completions_were_taken() {
    let mut system = with_pin();
    system.take_acts();
    assert_eq!(system.request(0, entry(Opcode::Read, 0, 1, 0)).status, 0);
    assert_eq!(system.take_acts(), [Act::Released(1), Act::Acknowledged]);
    assert_eq!(system.world.state().bus.wires, Wires::Intx { masked: false });
}

#[test]
fn many_requests_of_several_sessions_share_the_pin() {
    let mut system = with_pin();
    for lba in 0..50 {
        system.submit(0, &[entry(Opcode::Read, lba, 20, 0), entry(Opcode::Write, lba, 20, 0)]);
        system.submit(1, &[entry(Opcode::Read, lba, 20, 0)]);
        assert_eq!((system.completions(0).len(), system.completions(1).len()), (2, 1));
    }
    assert_eq!(system.world.state().bus.wires, Wires::Intx { masked: false });
}

#[test]
fn the_pin_works_again_after_a_fault_was_seen_on_it() {
    let mut system = with_pin();
    system.controller(|controller, bus| controller.forge(bus, 1, |_| ()));
    system.pass(1);
    assert_eq!(system.take_failures().len(), 1);
    assert_eq!(system.world.state().bus.wires, Wires::Intx { masked: false });
    assert_eq!(system.request(0, entry(Opcode::Read, 0, 1, 0)).status, 0);
}

#[test]
fn signal_before_the_acknowledgement_is_not_lost() {
    let mut system = with_pin();
    // A fault and its reset, with ticks and calls in between.
    for _ in 0..5 {
        system.controller(|controller, bus| {
            controller.forge(bus, 2, |_| ());
            bus.signals |= platform::Badge::SIGNAL | platform::Badge::TICK;
        });
        system.tick();
    }
    assert_eq!(system.world.state().bus.wires, Wires::Intx { masked: false });
    assert_eq!(system.request(1, entry(Opcode::Read, 0, 1, 0)).status, 0);
}

#[test]
fn queues_share_vectors_when_there_are_fewer() {
    for vectors in [1, 2] {
        let mut system = System::serving(Setup { msix_vectors: vectors, ..Setup::default() }, 2);
        assert_eq!(system.request(0, entry(Opcode::Read, 0, 100, 0)).status, 0);
        assert_eq!(system.request(1, entry(Opcode::Read, 0, 100, 0)).status, 0);
    }
}

#[test]
fn a_lost_interrupt_costs_a_tick_and_no_hang() {
    let mut system = System::serving(Setup::default(), 1).holding();
    system.submit(0, &[entry(Opcode::Read, 0, 1, 0)]);
    system.controller(|controller, bus| {
        controller.finish(bus, 1);
        bus.signals = 0;
    });
    assert_eq!(system.completions(0), []);
    system.tick();
    assert_eq!(system.completions(0).len(), 1);
}

/// Session 0's vector interrupts without end.
fn storm(system: &mut System) {
    for _ in 0..STORM {
        system.controller(|_, bus| bus.interrupt(1));
    }
}

#[test]
fn a_vector_that_does_not_stop_is_stopped_until_the_tick() {
    let mut system = System::serving(Setup::default(), 2);
    system.take_acts();
    storm(&mut system);
    assert_eq!(system.take_acts(), [Act::Stopped(1)]);
    // The vector's session learns of completions at ticks, others as before.
    system.submit(0, &[entry(Opcode::Read, 0, 1, 0)]);
    assert_eq!(system.completions(0), []);
    assert_eq!(system.request(1, entry(Opcode::Read, 0, 1, 0)).status, 0);
    system.take_acts();
    system.tick();
    assert_eq!(system.completions(0).len(), 1);
    assert!(system.take_acts().contains(&Act::Vector(1)));
    assert_eq!(system.request(0, entry(Opcode::Read, 0, 1, 0)).status, 0);
    assert_eq!(system.take_failures(), Vec::<String>::new());
}

#[test]
fn interrupts_with_completions_are_no_storm() {
    let mut system = System::serving(Setup::default(), 1);
    for lba in 0..u64::from(STORM) {
        assert_eq!(system.request(0, entry(Opcode::Read, lba % 900, 1, 0)).status, 0);
    }
    assert!(!system.take_acts().contains(&Act::Stopped(1)));
}

#[test]
fn departed_session_leaves_vector_allowances_unchanged() {
    // One vector for both sessions.
    let mut system = System::serving(Setup { msix_vectors: 2, ..Setup::default() }, 2);
    for lba in 0..u64::from(STORM) {
        assert_eq!(system.request(0, entry(Opcode::Read, lba % 900, 1, 0)).status, 0);
    }
    system.close(0).unwrap();
    assert_eq!(system.request(1, entry(Opcode::Read, 0, 1, 0)).status, 0);
    assert!(!system.take_acts().contains(&Act::Stopped(1)));
}

#[test]
fn a_session_that_left_does_not_hide_a_storm() {
    let mut system = System::serving(Setup { msix_vectors: 2, ..Setup::default() }, 2);
    for lba in 0..10 {
        assert_eq!(system.request(0, entry(Opcode::Read, lba, 1, 0)).status, 0);
    }
    system.tick();
    system.close(0).unwrap();
    storm(&mut system);
    assert!(system.take_acts().contains(&Act::Stopped(1)));
}

#[test]
fn a_vector_that_storms_tick_after_tick_leads_to_a_reset() {
    let mut system = System::serving(Setup::default(), 1);
    for _ in 0..20 {
        assert_eq!(system.take_failures(), Vec::<String>::new());
        storm(&mut system);
        system.tick();
    }
    let failures = system.take_failures();
    assert!(failures.len() == 1 && failures[0].contains("vector 1 interrupts without end"), "{failures:?}");
    assert_eq!(system.world.state().controller.resets, 2);
    assert_eq!(system.request(0, entry(Opcode::Read, 0, 1, 0)).status, 0);
}

#[test]
fn a_stormy_tick_now_and_then_is_no_reason_for_a_reset() {
    let mut system = System::start(Setup::default());
    for _ in 0..25 {
        storm(&mut system);
        system.tick();
        system.tick();
    }
    assert_eq!(system.take_failures(), Vec::<String>::new());
}

#[test]
fn a_pin_that_does_not_stop_stays_masked_until_the_tick() {
    let mut system = with_pin();
    for _ in 0..STORM {
        system.controller(|_, bus| bus.raise_pin());
    }
    assert_eq!(system.world.state().bus.wires, Wires::Intx { masked: true });
    system.tick();
    assert_eq!(system.world.state().bus.wires, Wires::Intx { masked: false });
    assert_eq!(system.request(0, entry(Opcode::Read, 0, 1, 0)).status, 0);
}

#[test]
fn shared_pin_is_acknowledged_by_the_pci_server() {
    let mut system = with_shared_pin();
    system.take_acts();
    assert_eq!(system.request(0, entry(Opcode::Read, 0, 1, 0)).status, 0);
    assert_eq!(system.take_acts(), [Act::Released(1), Act::Acknowledged]);
    for lba in 0..50 {
        system.submit(0, &[entry(Opcode::Read, lba, 20, 0), entry(Opcode::Write, lba, 20, 0)]);
        system.submit(1, &[entry(Opcode::Read, lba, 20, 0)]);
        assert_eq!((system.completions(0).len(), system.completions(1).len()), (2, 1));
    }
    assert_eq!(system.world.state().bus.wires, Wires::SharedIntx { masked: false });
}

#[test]
fn a_shared_pin_works_again_after_a_fault_was_seen_on_it() {
    let mut system = with_shared_pin();
    system.controller(|controller, bus| controller.forge(bus, 1, |_| ()));
    system.pass(1);
    assert_eq!(system.take_failures().len(), 1);
    assert_eq!(system.request(0, entry(Opcode::Read, 0, 1, 0)).status, 0);
    assert_eq!(system.world.state().bus.wires, Wires::SharedIntx { masked: false });
}

#[test]
fn a_shared_pin_that_does_not_stop_stays_masked_until_the_tick() {
    let mut system = with_shared_pin();
    // Far fewer than on a pin of its own: each costs the PCI server too.
    for _ in 0..STORM / 20 {
        system.controller(|_, bus| bus.raise_pin());
    }
    assert_eq!(system.world.state().bus.wires, Wires::SharedIntx { masked: true });
    system.tick();
    assert_eq!(system.world.state().bus.wires, Wires::SharedIntx { masked: false });
    assert_eq!(system.request(0, entry(Opcode::Read, 0, 1, 0)).status, 0);
}
