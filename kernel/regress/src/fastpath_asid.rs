//! Fix `fastpath-asid`: a thread does not run any more in an address space that lost its identifier, not even when the
//! fastpath switches to the thread.

use crate::arch;
use crate::machine::{CNODE, DEPTH, HIGHEST, Machine};
use crate::own_space::OwnSpace;
use crate::sys::{self, Slot, values};
use crate::verdict::{Check, Failure, defect_if, need};

/// log2 of the bytes of a pool.
const POOL_BITS: u8 = 12;

pub(crate) fn run(machine: &mut Machine) -> Check {
    let pool = make_pool(machine)?;
    let space = OwnSpace::new(machine, pool, arch::receiver())?;
    // Twice, because the first call shows that it runs when its address space is whole.
    for pool_is_there in [true, false] {
        let (called, endpoint) = (machine.object(values::ENDPOINT_OBJECT)?, machine.object(values::ENDPOINT_OBJECT)?);
        space.start(machine, [called, endpoint], endpoint, HIGHEST)?;
        // A less urgent thread reports that the first one waits.
        let frame = machine.frame()?;
        machine.start(sys::prober, frame.address(), endpoint, HIGHEST - 1)?;
        need(sys::receive(endpoint).label == sys::PROBED, "the less urgent thread did not run")?;
        if !pool_is_there {
            machine.delete(pool)?;
        }
        // The kernel takes its fastpath for this message.
        machine.start(sys::caller, called as usize, endpoint, HIGHEST - 1)?;
        let ran = sys::receive(endpoint).label == sys::PROBED;
        if pool_is_there {
            need(ran, "the called thread does not run in its own address space")?;
        } else {
            defect_if(ran, "a called thread runs in an address space whose identifier is gone")?;
        }
    }
    Ok(())
}

fn make_pool(machine: &mut Machine) -> Check<Slot> {
    let untyped = machine.untyped(POOL_BITS)?;
    let pool = machine.empty_slot();
    let control = values::CAP_ASID_CONTROL as Slot;
    sys::invoke(control, values::ASID_CONTROL_MAKE_POOL, &[pool, DEPTH], &[untyped, CNODE])
        .map_err(|error| Failure::Broken("making a pool of identifiers", error))?;
    Ok(pool)
}
