//! The script that is played on QEMU's SMMU, on the model with QEMU's profile.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use iommu_server::{Devices, Direction, Smmu};
use sim_smmu::Profile;

use crate::machine::Machine;
use crate::script::{Bench, STREAM, play};

/// The machine, data in memory, and a device that moves words.
struct Model {
    machine: Machine,
    memory: RefCell<BTreeMap<u64, u64>>,
    buffer: Cell<u64>,
}

impl Bench for Model {
    type Registers = Machine;
    type Tables = Machine;

    fn start(&self, devices: Devices) -> Smmu<Machine, Machine> {
        self.machine.start(devices).unwrap()
    }

    fn read(&self, paddr: u64) -> u64 {
        self.memory.borrow().get(&paddr).copied().unwrap_or(0)
    }

    fn write(&self, paddr: u64, value: u64) {
        self.memory.borrow_mut().insert(paddr, value);
    }

    fn transfer(&self, iova: u64, direction: Direction, bytes: u64) {
        let way = match direction {
            Direction::Read => sim_smmu::Direction::Read,
            Direction::Write => sim_smmu::Direction::Write,
        };
        for at in (iova..iova + bytes).step_by(8) {
            match (self.machine.dma(STREAM.0, at, way), direction) {
                (Ok(paddr), Direction::Read) => self.buffer.set(self.read(paddr.bits())),
                (Ok(paddr), Direction::Write) => self.write(paddr.bits(), self.buffer.get()),
                (Err(_), _) => {}
            }
        }
    }
}

#[test]
fn the_device_reaches_what_it_is_given_on_the_model_as_on_qemu() {
    let machine = Machine::new(Profile::Qemu72, 0);
    let model = Model { machine, memory: RefCell::default(), buffer: Cell::new(0) };
    play(&model);
    assert_eq!(model.machine.finding(), None);
}
