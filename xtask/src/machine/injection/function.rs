//! Finds a controller's function from outside the machine: its configuration space, through the topology of QEMU's command line,
//! and its registers.
//!
//! Sections are of the PCI Local Bus Specification 3.0, of the PCI-to-PCI Bridge Architecture 1.2, and of PCI Express 4.0.

use super::door::Door;
use crate::machine::qemu::FIRST_DEVICE;
use anyhow::{Result, bail};
use capdl::scenario::Attach;
use kernel::Arch;

/// Address of the memory-mapped configuration space: on a q35 as firmware sets it, on a virt without high memory.
const fn ecam(arch: Arch) -> u64 {
    match arch {
        Arch::X86_64 => 0xb000_0000,
        Arch::Aarch64 => 0x3f00_0000,
    }
}

/// Command register (6.2.2).
const COMMAND: u64 = 0x04;
/// BAR0 (6.2.5.1).
const BAR0: u64 = 0x10;
/// Secondary bus number, in the second byte (bridges, 3.2.5.4).
const BUS_NUMBERS: u64 = 0x18;
/// Expansion ROM base address (6.2.5.2); bit 0 enables it.
const ROM: u64 = 0x30;
/// Pointer to the first capability (6.7).
const CAPABILITIES: u64 = 0x34;
/// Number of capabilities that fit into configuration space.
const MAX_CAPABILITIES: usize = 48;
/// The PCI Express capability, and Slot Control in it (Express, 7.5.3.10).
const EXPRESS: u8 = 0x10;
const SLOT_CONTROL: u64 = 0x18;
/// Power controller off, power indicator off.
const SLOT_OFF: u16 = 0x400 | 0x300;

/// A function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Function {
    /// The address of its configuration space.
    configuration: u64,
    /// The function's bus.
    pub(super) bus: u8,
    /// The function's device and function number in one byte.
    pub(super) devfn: u8,
    /// The configuration space of the port whose slot it sits in.
    slot: Option<u64>,
}

impl Function {
    /// Finds the controller `index` of the scenario.
    pub(crate) fn find(door: &mut Door, index: usize, attach: Attach) -> Result<Self> {
        let on_root = Self::at(door.arch(), 0, (FIRST_DEVICE + index) as u8);
        match attach {
            Attach::Root => Ok(on_root),
            Attach::RootPort => on_root.behind(door, 0),
            Attach::Switch => on_root.behind(door, 0)?.behind(door, 0)?.behind(door, 0),
            Attach::Bridge => on_root.behind(door, 1),
        }
    }

    const fn at(arch: Arch, bus: u8, device: u8) -> Self {
        let devfn = device << 3;
        let configuration = ecam(arch) + ((bus as u64) << 20) + ((devfn as u64) << 12);
        Self { configuration, bus, devfn, slot: None }
    }

    fn behind(self, door: &mut Door, device: u8) -> Result<Self> {
        let [_, secondary, ..] = door.read32(self.configuration + BUS_NUMBERS)?.to_le_bytes();
        if secondary == 0 || secondary == u8::MAX {
            bail!("there is no bus behind the bridge {:02x}:{:02x}.0", self.bus, self.devfn >> 3);
        }
        Ok(Self { slot: Some(self.configuration), ..Self::at(door.arch(), secondary, device) })
    }

    /// The address of its registers.
    pub(super) fn registers(self, door: &mut Door) -> Result<u64> {
        let bar = door.read64(self.configuration + BAR0)? & !0xf;
        if door.read32(self.configuration + COMMAND)? & 2 == 0 || bar == 0 || bar == !0xf {
            bail!("the function {:02x}:{:02x}.0 has no registers in memory", self.bus, self.devfn >> 3);
        }
        Ok(bar)
    }

    /// Puts the expansion ROM in front of the registers; returns the former value of the ROM's register.
    pub(super) fn cover(self, door: &mut Door) -> Result<u32> {
        let registers = self.registers(door)? as u32;
        let before = door.read32(self.configuration + ROM)?;
        door.write32(self.configuration + ROM, registers | 1)?;
        Ok(before)
    }

    /// Removes the expansion ROM from in front of the registers.
    pub(super) fn uncover(self, door: &mut Door, before: u32) -> Result<()> {
        door.write32(self.configuration + ROM, before & !1)
    }

    /// Removes the function from its slot: switches off the power of its port.
    pub(crate) fn pull(self, door: &mut Door) -> Result<()> {
        let Some(port) = self.slot else { bail!("the controller is in no slot") };
        let mut capability = door.read32(port + CAPABILITIES)? as u8;
        for _ in 0..MAX_CAPABILITIES {
            let [id, next, ..] = door.read32(port + u64::from(capability & !3))?.to_le_bytes();
            if id == EXPRESS {
                let control = port + u64::from(capability & !3) + SLOT_CONTROL;
                let before = door.read32(control)? as u16;
                return door.write16(control, before | SLOT_OFF);
            }
            capability = next;
        }
        bail!("the port has no PCI Express capability")
    }
}

#[cfg(test)]
mod tests {
    use super::super::door::memory::{Memory, door, get, put};
    use super::*;

    #[test]
    fn controller_behind_a_switch_is_found() {
        let memory = Memory::default();
        put(&memory, 0xb002_8018, &[0, 2, 4, 0]);
        put(&memory, 0xb020_0018, &[2, 3, 4, 0]);
        put(&memory, 0xb030_0018, &[3, 4, 4, 0]);
        let function = Function::find(&mut door(&memory), 1, Attach::Switch).unwrap();
        assert_eq!((function.bus, function.devfn, function.slot), (4, 0, Some(0xb030_0000)));
        assert!(Function::find(&mut door(&memory), 0, Attach::RootPort).is_err(), "no bus number");
    }

    #[test]
    fn the_rom_in_front_of_registers_is_taken_away_again() {
        let memory = Memory::default();
        put(&memory, 0xb002_0004, &[6]);
        put(&memory, 0xb002_0010, &0xfe60_0004u32.to_le_bytes());
        put(&memory, 0xb002_0030, &0xfe60_4000u32.to_le_bytes());
        let mut door = door(&memory);
        let function = Function::find(&mut door, 0, Attach::Root).unwrap();
        let before = function.cover(&mut door).unwrap();
        assert_eq!(get(&memory, 0xb002_0030, 4), 0xfe60_0001);
        function.uncover(&mut door, before).unwrap();
        assert_eq!(get(&memory, 0xb002_0030, 4), 0xfe60_4000);
    }

    #[test]
    fn a_controller_is_pulled_by_its_ports_slot_control() {
        let memory = Memory::default();
        put(&memory, 0xb002_0018, &[0, 1, 1, 0]);
        put(&memory, 0xb002_0034, &[0x40]);
        put(&memory, 0xb002_0040, &[0x0d, 0x54]);
        put(&memory, 0xb002_0054, &[0x10, 0]);
        put(&memory, 0xb002_006c, &[0xc0, 0x01]);
        let mut door = door(&memory);
        Function::find(&mut door, 0, Attach::RootPort).unwrap().pull(&mut door).unwrap();
        assert_eq!(get(&memory, 0xb002_006c, 2), 0x7c0);
    }
}
