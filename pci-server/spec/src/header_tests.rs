use std::string::ToString;

use super::*;
use crate::Pin;
use crate::capability::ConfigRead;
use crate::recorded::Recorded;

#[test]
fn header_types_report_layout_and_multifunction() {
    assert_eq!(HeaderType::from_raw(0x00).layout(), Layout::Endpoint);
    assert_eq!(HeaderType::from_raw(0x81).layout(), Layout::Bridge);
    assert_eq!(HeaderType::from_raw(0x02).layout(), Layout::Other(2));
    assert!(HeaderType::from_raw(0x80).is_multifunction());
    assert!(!HeaderType::from_raw(0x01).is_multifunction());
    assert_eq!(HeaderType::from_raw(0x80).bars(), 6);
    assert_eq!(HeaderType::from_raw(0x01).bars(), 2);
    assert_eq!(HeaderType::from_raw(0x7f).bars(), 0);
    assert_eq!(HeaderType::from_dword(0x0081_0000), HeaderType::from_raw(0x81));
}

#[test]
fn class_code_is_above_the_revision() {
    assert_eq!(ClassCode::from_dword(0x0108_02ff), ClassCode::NVME);
    assert_eq!(ClassCode::from_dword(0x0604_0000), ClassCode::PCI_BRIDGE);
    assert_eq!(ClassCode::NVME.to_string(), "010802");
}

#[test]
fn command_bits_stand_where_the_standard_puts_them() {
    assert_eq!(Command::new().with_io_space(true).into_bits(), 0x0001);
    assert_eq!(Command::new().with_memory_space(true).into_bits(), 0x0002);
    assert_eq!(Command::new().with_bus_master(true).into_bits(), 0x0004);
    assert_eq!(Command::new().with_parity_error_response(true).into_bits(), 0x0040);
    assert_eq!(Command::new().with_serr(true).into_bits(), 0x0100);
    assert_eq!(Command::new().with_interrupt_disable(true).into_bits(), 0x0400);
}

#[test]
fn status_bits_stand_where_the_standard_puts_them() {
    assert!(Status::from_bits(0x0008).interrupt());
    assert!(Status::from_bits(0x0010).capabilities());
    assert!(Status::from_bits(0x0100).master_data_parity_error());
    assert!(Status::from_bits(0x0800).signaled_target_abort());
    assert!(Status::from_bits(0x1000).received_target_abort());
    assert!(Status::from_bits(0x2000).received_master_abort());
    assert!(Status::from_bits(0x4000).signaled_system_error());
    assert!(Status::from_bits(0x8000).detected_parity_error());
}

#[test]
fn bars_are_four_bytes_apart() {
    assert_eq!(offset::bar(0), Some(0x10));
    assert_eq!(offset::bar(4), Some(0x20));
    assert_eq!(offset::bar(5), Some(0x24));
    assert_eq!(offset::bar(6), None);
}

#[test]
fn header_of_the_nvme_function_is_decoded() {
    let config = Recorded::nvme();
    assert_eq!(config.read32(offset::ID), 0x0010_1b36);
    assert_eq!(ClassCode::from_dword(config.read32(offset::CLASS_REVISION)), ClassCode::NVME);
    let header = HeaderType::from_dword(config.read32(offset::HEADER_TYPE));
    assert_eq!((header.layout(), header.is_multifunction()), (Layout::Endpoint, false));
    let both = config.read32(offset::COMMAND_STATUS);
    let command = Command::from_bits(both as u16);
    assert!(command.memory_space() && command.bus_master() && command.interrupt_disable());
    assert!(!command.io_space());
    assert!(Status::from_bits((both >> 16) as u16).capabilities());
    let pin = (config.read32(offset::INTERRUPT) >> 8) as u8;
    assert_eq!(Pin::from_register(pin), Some(Pin::A));
}
