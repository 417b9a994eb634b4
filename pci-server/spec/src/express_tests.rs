use super::*;
use crate::capability::{find, id};
use crate::recorded::Recorded;

#[test]
fn nvme_function_is_an_endpoint_that_can_be_reset_alone() {
    let config = Recorded::nvme();
    let capability = find(&config, id::EXPRESS).unwrap().unwrap();
    let express = Capabilities::from_bits(capability.control);
    assert_eq!((express.version(), express.port(), express.slot()), (2, PortType::Endpoint, false));
    let device = DeviceCapabilities::from_bits(capability.read32(&config, DEVICE_CAPABILITIES).unwrap());
    assert!(device.flr() && device.role_based_errors());
    assert_eq!(device.max_payload(), 0);
    let both = capability.read32(&config, DEVICE_CONTROL_STATUS).unwrap();
    assert!(DeviceStatus::from_bits((both >> 16) as u16).transactions_pending());
    assert!(!DeviceControl::from_bits(both as u16).initiate_flr());
}

#[test]
fn root_port_with_a_slot_is_decoded() {
    let express = Capabilities::from_bits(0x0142);
    assert_eq!(express.port(), PortType::RootPort);
    assert!(express.slot());
}

#[test]
fn reserved_port_types_are_reported_as_such() {
    for reserved in [2u16, 3, 11, 15] {
        assert_eq!(Capabilities::from_bits(reserved << 4).port(), PortType::Reserved);
    }
}

#[test]
fn flr_is_begun_by_the_top_bit_and_leaves_the_others() {
    assert_eq!(DeviceControl::from_bits(0x2810).with_initiate_flr(true).into_bits(), 0xa810);
    assert!(DeviceCapabilities::from_bits(1 << 28).flr());
    assert!(!DeviceCapabilities::from_bits(!(1 << 28)).flr());
}
