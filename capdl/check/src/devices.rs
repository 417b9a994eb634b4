//! Rules about devices: the PCI server's, and the console's serial port. Untyped memory is checked with them, since most of it
//! is device memory.

use super::private::Part;
use super::{Role, Rule, System, is_control};
use crate::machine::{Machine, Smmu};
use capdl_spec::{Mapping, Object, ObjectKind};

impl<'a> System<'a> {
    /// Checks who holds or maps devices, and what clients hold.
    pub(super) fn devices(&mut self) {
        for index in self.indices() {
            for mapping in self.frames[index].clone() {
                let object = self.object(mapping.object);
                if is_device(object.kind) {
                    self.device_reached(index, object, &format!("its mapping at {:#x}", mapping.vaddr));
                }
            }
            for held in self.holdings[index].clone() {
                let object = self.object(held.object);
                if is_device(object.kind) {
                    self.device_reached(index, object, &held.path);
                }
                self.untyped_reached(index, object, &held.path);
                if self.roles[index] != Role::Client {
                    continue;
                }
                let who = self.who(index);
                // A client with a function of its own has the CNode and the page tables of a driver.
                let component = &self.specification.components[index];
                let is_drivers =
                    held.object == component.cnode || object.name == format!("{}.io-table", component.name);
                if self.drives(index) && is_drivers {
                    continue;
                }
                if is_control(object.kind) || matches!(object.kind, ObjectKind::IoPorts { .. }) {
                    self.refuse(Rule::ClientsHoldNoDevice, format!("{who} reaches {} by {}", object.name, held.path));
                }
            }
        }
    }

    /// Only a probe reaches ordinary untyped memory. Only the PCI server reaches device untyped memory, and only in the PCI
    /// window: behind it lie the timer's and the interrupt controller's registers.
    fn untyped_reached(&mut self, index: usize, object: &Object, way: &str) {
        let (role, name) = (self.roles[index], &object.name);
        let reason = match object.kind {
            ObjectKind::Untyped { .. } if role != Role::Probe => "which is not for it",
            ObjectKind::DeviceUntyped { .. } if role != Role::PciServer => "which is not for it",
            ObjectKind::DeviceUntyped { .. } if !is_in_pci_window(self.machine(), object) => {
                "which lies outside of the PCI window"
            }
            _ => return,
        };
        let who = self.who(index);
        self.refuse(Rule::NoUntypedOut, format!("{who} reaches the untyped {name} by {way}, {reason}"));
    }

    fn device_reached(&mut self, index: usize, object: &Object, way: &str) {
        let machine = self.machine();
        let is_own = match self.roles[index] {
            Role::PciServer => true,
            Role::Console => object.kind == machine.serial && object.count == 1,
            Role::IommuServer => machine.smmu.as_ref().is_some_and(|smmu| {
                let registers = ObjectKind::SmallDeviceFrame { paddr: smmu.registers };
                object.kind == registers && u64::from(object.count) == Smmu::REGISTER_PAGES
            }),
            _ => false,
        };
        if is_own {
            return;
        }
        let who = self.who(index);
        let mut path = format!("{who} reaches {} by {way}", object.name);
        if let Some(window) = self.pci_window_with(object) {
            path += &format!(", inside the PCI window {window} and so every MSI-X table there");
        }
        let rule =
            if self.roles[index] == Role::Client { Rule::ClientsHoldNoDevice } else { Rule::DevicesArePciServers };
        self.refuse(rule, path);
    }

    /// The PCI server's device untyped that contains this device object.
    fn pci_window_with(&self, object: &Object) -> Option<&'a str> {
        let (paddr, _) = device_range(object)?;
        let objects = self.specification.objects.iter();
        let mut windows = objects.filter(|other| matches!(other.kind, ObjectKind::DeviceUntyped { .. }));
        windows
            .find(|window| device_range(window).is_some_and(|(first, end)| (first..end).contains(&paddr)))
            .map(|window| window.name.as_str())
    }

    /// Checks the serial port and the memory that the console reads.
    pub(super) fn console(&mut self) {
        for index in self.indices() {
            if self.roles[index] == Role::Console {
                self.console_reads(index);
            }
            for held in self.holdings[index].clone() {
                let object = self.object(held.object);
                let ObjectKind::IoPorts { first, last } = object.kind else { continue };
                if self.roles[index] != Role::Console || object.kind != self.machine().serial || object.count != 1 {
                    let (who, name, way) = (self.who(index), &object.name, &held.path);
                    let path = format!("{who} reaches the I/O ports {name} ({first:#x} to {last:#x}) by {way}");
                    self.refuse(Rule::ConsoleOnlyReads, path);
                }
            }
        }
    }

    fn console_reads(&mut self, console: usize) {
        for other in self.indices().filter(|other| *other != console) {
            let theirs = &self.frames[other];
            let is_theirs = |mapping: &&&Mapping| theirs.iter().any(|their| their.object == mapping.object);
            let shared: Vec<&Mapping> = self.frames[console].iter().filter(is_theirs).copied().collect();
            let who = self.who(other);
            let mut more = Vec::new();
            if let Some(mapping) = shared.iter().find(|mapping| mapping.writable) {
                let name = &self.object(mapping.object).name;
                self.refuse(
                    Rule::ConsoleOnlyReads,
                    format!("the console can write {name} of {who} at {:#x}", mapping.vaddr),
                );
            }
            for mapping in shared.iter().filter(|mapping| self.part(other, mapping.object) != Some(Part::Log)) {
                let name = &self.object(mapping.object).name;
                more.push(format!("the console reads more than the log of {who}: {name} at {:#x}", mapping.vaddr));
            }
            for path in more {
                self.refuse(Rule::ConsoleOnlyReads, path);
            }
        }
    }
}

/// Whether devices of this kind belong to the PCI server, except a serial port in memory and an SMMU.
const fn is_device(kind: ObjectKind) -> bool {
    matches!(
        kind,
        ObjectKind::DeviceUntyped { .. }
            | ObjectKind::SmallDeviceFrame { .. }
            | ObjectKind::LargeDeviceFrame { .. }
            | ObjectKind::IrqControl
            | ObjectKind::IoSpaceMaster
    )
}

/// Whether a device object lies completely in the machine's PCI window.
fn is_in_pci_window(machine: &Machine, object: &Object) -> bool {
    let window = &machine.pci_window;
    device_range(object).is_some_and(|(first, end)| first >= window.start && end <= window.end)
}

/// First and end address of a device object.
fn device_range(object: &Object) -> Option<(u64, u64)> {
    let (paddr, bytes) = match object.kind {
        ObjectKind::DeviceUntyped { paddr, size_bits } => (paddr, 1u64.checked_shl(u32::from(size_bits))?),
        ObjectKind::SmallDeviceFrame { paddr } | ObjectKind::LargeDeviceFrame { paddr } => {
            (paddr, crate::layout::frame_bytes(object.kind)?)
        }
        _ => return None,
    };
    Some((paddr, paddr.checked_add(bytes.checked_mul(u64::from(object.count))?)?))
}
