//! Tests of the bus walk: the functions that it finds, and the buses that it does not follow.

use super::bus::{Device, at};
use super::system::{BEHIND_BRIDGES, BEHIND_PORT, ON_ROOT, System, config, devices};
use pci_api::{Function, LIST, Refusal};
use pci_spec::Bdf;
use std::vec;
use std::vec::Vec;

fn found(system: &mut System) -> Vec<Function> {
    (0..).map_while(|index| system.ask_index(1, LIST, index).ok()).map(|answer| answer.payload().unwrap()).collect()
}

fn found_with(devices: Vec<(Bdf, Device)>) -> Vec<u16> {
    found(&mut System::with(devices, config())).into_iter().map(|function| function.bdf).collect()
}

#[test]
fn walk_goes_through_ports_bridges_and_functions_in_order() {
    let functions = found(&mut System::start());
    let places: Vec<(u16, u16)> = functions.iter().map(|function| (function.bdf, function.parent)).collect();
    let raw = |bus, device, function| at(bus, device, function).to_raw();
    assert_eq!(
        places,
        [
            (raw(0, 0, 0), 0xffff),
            (raw(0, 2, 0), 0xffff),
            (BEHIND_PORT.to_raw(), raw(0, 2, 0)),
            (ON_ROOT.to_raw(), 0xffff),
            (raw(0, 3, 1), 0xffff),
            (raw(0, 4, 0), 0xffff),
            (raw(2, 1, 0), raw(0, 4, 0)),
            (BEHIND_BRIDGES.to_raw(), raw(2, 1, 0)),
            (raw(0, 31, 0), 0xffff),
            (raw(0, 31, 2), 0xffff),
        ]
    );
}

#[test]
fn list_reports_identity_vectors_and_pin_and_ends() {
    let mut system = System::start();
    let nvme = found(&mut system)[2];
    assert_eq!((nvme.vendor, nvme.device, nvme.class_code), (0x1b36, 0x0010, 0x01_08_02));
    assert_eq!((nvme.msix_vectors, nvme.pin), (4, 1));
    assert_eq!(system.ask_index(1, LIST, 10).unwrap_err(), Refusal::NoSuchFunction);
    assert_eq!(system.ask_index(1, LIST, u64::MAX).unwrap_err(), Refusal::NoSuchFunction);
}

#[test]
fn every_function_is_reported_with_its_bars_and_buses() {
    let system = System::start();
    let state = system.machine.state();
    let functions: Vec<_> = state
        .reports
        .iter()
        .map(|report| match report {
            report::Report::PciFunction(function) => function,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(functions.len(), 10);
    assert_eq!(functions[1].buses, Some((1, 1)));
    assert_eq!(functions[2].parent, Some(at(0, 2, 0).to_raw()));
    assert_eq!(functions[2].bars.as_slice(), [(0, 0xc000_0000, 0x4000)]);
    // Ports are not mapped for any driver and are not among them.
    assert_eq!(functions[4].bars.as_slice(), [(0, 0xc401_0000, 0x1000)]);
}

#[test]
fn functions_of_a_single_function_device_are_not_looked_for() {
    let alias = (at(0, 5, 1), Device::endpoint(0x02_00_00));
    let device = (at(0, 5, 0), Device::endpoint(0x02_00_00));
    assert_eq!(found_with(vec![device, alias]), [at(0, 5, 0).to_raw()]);
}

#[test]
fn bus_masters_that_firmware_left_are_silenced_but_bridges() {
    let system = System::start();
    for (bdf, _) in devices() {
        let device = system.device(bdf);
        let bridge = device.read(0x08) >> 24 == 0x06;
        assert_eq!(device.is_master(), bridge, "{bdf}");
        assert_eq!(device.interrupts_by_pin(), bridge, "{bdf}");
    }
}

#[test]
fn unnumbered_bridge_has_nothing_behind_it() {
    let bridge = (at(0, 1, 0), Device::root_port([0, 0, 0], 0, 0));
    assert_eq!(found_with(vec![bridge]), [at(0, 1, 0).to_raw()]);
}

#[test]
fn bridge_with_impossible_buses_is_not_followed() {
    let behind = (at(1, 0, 0), Device::nvme(0xc000_0000));
    // Secondary not above its own bus, wrong primary, subordinate below secondary, beyond the ECAM, all ones.
    for buses in [[0, 0, 1], [5, 1, 1], [0, 3, 1], [0, 16, 16], [255, 255, 255]] {
        let bridge = (at(0, 1, 0), Device::bridge(buses, 0, 0));
        assert_eq!(found_with(vec![bridge, behind.clone()]), [at(0, 1, 0).to_raw()], "{buses:?}");
    }
}

#[test]
fn bus_behind_two_bridges_is_walked_once() {
    let first = (at(0, 1, 0), Device::bridge([0, 1, 1], 0, 0));
    let second = (at(0, 2, 0), Device::bridge([0, 1, 1], 0, 0));
    let behind = (at(1, 0, 0), Device::nvme(0xc000_0000));
    let found = found_with(vec![first, second, behind]);
    assert_eq!(found, [at(0, 1, 0).to_raw(), at(1, 0, 0).to_raw(), at(0, 2, 0).to_raw()]);
}

#[test]
fn bridge_cannot_claim_buses_its_parent_has_not() {
    let upper = (at(0, 1, 0), Device::bridge([0, 1, 2], 0, 0));
    let lower = (at(1, 0, 0), Device::bridge([1, 2, 7], 0, 0));
    let behind = (at(2, 0, 0), Device::nvme(0xc000_0000));
    assert_eq!(found_with(vec![upper, lower, behind]), [at(0, 1, 0).to_raw(), at(1, 0, 0).to_raw()]);
}

#[test]
fn chain_of_bridges_ends_at_the_depth_limit() {
    let chain: Vec<_> = (0..15).map(|bus| (at(bus, 0, 0), Device::root_port([bus, bus + 1, 15], 0, 0))).collect();
    assert_eq!(found_with(chain).len(), crate::enumerate::MAX_DEPTH + 1);
}

#[test]
fn bus_full_of_functions_ends_at_the_limit() {
    let all = (0..32).flat_map(|device| (0..8).map(move |function| at(0, device, function)));
    let mut crowd: Vec<_> = all.map(|bdf| (bdf, Device::endpoint(0).multifunction())).collect();
    crowd[0].1 = Device::root_port([0, 1, 1], 0, 0).multifunction();
    crowd.push((at(1, 0, 0), Device::endpoint(0)));
    assert_eq!(found_with(crowd).len(), crate::enumerate::MAX_FUNCTIONS);
}
