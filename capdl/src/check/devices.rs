//! Rules about devices: the PCI server's, and the console's serial port.

use super::private::Part;
use super::{Role, Rule, System, is_control};
use capdl_spec::{Mapping, Object, ObjectKind};

impl<'a> System<'a> {
    /// Who holds or maps devices, and what clients hold.
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
                if self.roles[index] != Role::Client {
                    continue;
                }
                let who = self.who(index);
                if matches!(object.kind, ObjectKind::Untyped { .. } | ObjectKind::DeviceUntyped { .. }) {
                    self.refuse(
                        Rule::NoUntypedOut,
                        format!("{who} reaches the untyped {} by {}", object.name, held.path),
                    );
                } else if is_control(object.kind) || matches!(object.kind, ObjectKind::IoPorts { .. }) {
                    self.refuse(Rule::ClientsHoldNoDevice, format!("{who} reaches {} by {}", object.name, held.path));
                }
            }
        }
    }

    fn device_reached(&mut self, index: usize, object: &Object, way: &str) {
        if self.roles[index] == Role::PciServer {
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

    /// The PCI server's device untyped that this device object lies in.
    fn pci_window_with(&self, object: &Object) -> Option<&'a str> {
        let (paddr, _) = device_range(object)?;
        let objects = self.specification.objects.iter();
        let mut windows = objects.filter(|other| matches!(other.kind, ObjectKind::DeviceUntyped { .. }));
        windows
            .find(|window| device_range(window).is_some_and(|(first, end)| (first..end).contains(&paddr)))
            .map(|window| window.name.as_str())
    }

    /// The serial port, and what the console reads.
    pub(super) fn console(&mut self) {
        for index in self.indices() {
            if self.roles[index] == Role::Console {
                self.console_reads(index);
                continue;
            }
            for held in self.holdings[index].clone() {
                let object = self.object(held.object);
                if matches!(object.kind, ObjectKind::IoPorts { .. }) {
                    let who = self.who(index);
                    self.refuse(
                        Rule::ConsoleOnlyReads,
                        format!("{who} reaches the I/O ports {} by {}", object.name, held.path),
                    );
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

/// Devices that are the PCI server's.
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

/// First and end address of a device object.
fn device_range(object: &Object) -> Option<(u64, u64)> {
    let (paddr, bytes) = match object.kind {
        ObjectKind::DeviceUntyped { paddr, size_bits } => (paddr, 1u64.checked_shl(u32::from(size_bits))?),
        ObjectKind::SmallDeviceFrame { paddr } | ObjectKind::LargeDeviceFrame { paddr } => {
            (paddr, crate::model::frame_bytes(object.kind)?)
        }
        _ => return None,
    };
    Some((paddr, paddr.checked_add(bytes.checked_mul(u64::from(object.count))?)?))
}
