//! Fix `context-cache`: a device reaches nothing once its address space is gone, by either way of removal.

use super::edu::{Edu, REQUESTER_ID};
use crate::machine::{Frame, Machine};
use crate::sys::Slot;
use crate::verdict::{Check, defect_if, need};

const PATTERN: u64 = 0x5eed_0002_5eed_0002;
const DOMAIN: u16 = 1;
const IOVA: u64 = 0x10_0000;

/// The top IO page table is deleted.
pub(crate) fn table(machine: &mut Machine) -> Check {
    let space = Space::new(machine)?;
    machine.delete(space.top_table)?;
    defect_if(space.stores()?, "the device writes through a deleted top IO page table")
}

/// The IOSpace capability is deleted.
pub(crate) fn space(machine: &mut Machine) -> Check {
    let space = Space::new(machine)?;
    machine.delete(space.io_space)?;
    defect_if(space.stores()?, "the device writes after its IOSpace capability was deleted")
}

/// An address space of the device in which one frame is mapped.
struct Space {
    device: Edu,
    frame: Frame,
    io_space: Slot,
    top_table: Slot,
}

impl Space {
    /// Makes it, and checks that the device reaches the frame and holds the pattern in its buffer.
    fn new(machine: &mut Machine) -> Check<Self> {
        let device = Edu::new(machine)?;
        let frame = machine.frame()?;
        let io_space = machine.io_space(REQUESTER_ID, DOMAIN)?;
        let top_table = machine.map_io_table(io_space, IOVA)?;
        for _ in 0..2 {
            machine.map_io_table(io_space, IOVA)?;
        }
        machine.map_io(&frame, io_space, IOVA)?;
        frame.write(PATTERN);
        device.load(IOVA)?;
        let space = Self { device, frame, io_space, top_table };
        need(space.stores()?, "the device does not reach a mapped frame")?;
        Ok(space)
    }

    /// Whether a store of the device arrives in the frame.
    fn stores(&self) -> Check<bool> {
        self.frame.write(0);
        self.device.store(IOVA)?;
        Ok(self.frame.read() == PATTERN)
    }
}
