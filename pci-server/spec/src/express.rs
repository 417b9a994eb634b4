//! The PCI Express capability: what kind of port a function is, and how it is reset (PCIe 7.5.3).

use bitfield_struct::bitfield;

/// Byte offset of [`DeviceCapabilities`] from the capability's start.
pub const DEVICE_CAPABILITIES: u8 = 4;
/// Byte offset of the dword with [`DeviceControl`] (15:0) and [`DeviceStatus`] (31:16) from the capability's start.
pub const DEVICE_CONTROL_STATUS: u8 = 8;
/// Byte offset of Device Control 2 (15:0) from the capability's start, from version 2 on (PCIe 7.5.3.16).
pub const DEVICE_CONTROL_2: u8 = 0x28;
/// Device Control 2 of a port: it forwards to all device numbers below, as functions of one device (ARI Forwarding Enable).
pub const ARI_FORWARDING: u32 = 1 << 5;
/// Milliseconds from [`DeviceControl::initiate_flr`] to the next access to the function (PCIe 6.6.2).
pub const FLR_MS: u64 = 100;

/// PCI Express capabilities: the upper half of the capability's first dword (PCIe 7.5.3.2).
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct Capabilities {
    /// Version of the structure, 1 or 2.
    #[bits(4)]
    pub version: u8,
    /// Device or port type.
    #[bits(4)]
    pub port: PortType,
    /// The port has a slot.
    pub slot: bool,
    /// MSI or MSI-X vector of the port's own events.
    #[bits(5)]
    pub vector: u8,
    #[bits(2)]
    __: u8,
}

/// Device or port type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PortType {
    /// 0: endpoint.
    Endpoint = 0,
    /// 1: legacy endpoint.
    LegacyEndpoint = 1,
    /// 4: root port of a root complex.
    RootPort = 4,
    /// 5: a switch's port towards the root.
    SwitchUpstream = 5,
    /// 6: a switch's port towards a device.
    SwitchDownstream = 6,
    /// 7: bridge from PCI Express down to conventional PCI.
    ExpressToPci = 7,
    /// 8: bridge from conventional PCI down to PCI Express.
    PciToExpress = 8,
    /// 9: endpoint integrated into the root complex.
    IntegratedEndpoint = 9,
    /// 10: event collector of a root complex.
    EventCollector = 10,
    /// A type that the standard reserves.
    Reserved = 15,
}

impl PortType {
    const fn from_bits(bits: u8) -> Self {
        match bits {
            0 => Self::Endpoint,
            1 => Self::LegacyEndpoint,
            4 => Self::RootPort,
            5 => Self::SwitchUpstream,
            6 => Self::SwitchDownstream,
            7 => Self::ExpressToPci,
            8 => Self::PciToExpress,
            9 => Self::IntegratedEndpoint,
            10 => Self::EventCollector,
            _ => Self::Reserved,
        }
    }

    const fn into_bits(self) -> u8 {
        self as u8
    }
}

/// Device capabilities (PCIe 7.5.3.3).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DeviceCapabilities {
    /// Largest payload: 128 << n bytes.
    #[bits(3)]
    pub max_payload: u8,
    #[bits(12)]
    __: u16,
    /// Role-based error reporting.
    pub role_based_errors: bool,
    #[bits(12)]
    __: u16,
    /// FLR: the function can be reset alone.
    pub flr: bool,
    #[bits(3)]
    __: u8,
}

/// Device control (PCIe 7.5.3.4).
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct DeviceControl {
    /// Everything else: to be written back as read.
    #[bits(15)]
    pub others: u16,
    /// Writing 1 begins an FLR, if [`DeviceCapabilities::flr`]; reads 0. The function needs up to 100 ms.
    pub initiate_flr: bool,
}

/// Device status (PCIe 7.5.3.5).
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct DeviceStatus {
    /// Errors seen: correctable, non-fatal, fatal, unsupported request, in bits 0 to 3.
    #[bits(4)]
    pub errors: u8,
    __: bool,
    /// Requests of this function are not all answered yet: wait before an FLR.
    pub transactions_pending: bool,
    #[bits(10)]
    __: u16,
}

#[cfg(test)]
#[path = "express_tests.rs"]
mod tests;
