//! Fix `endpoint-badge`: a badge that does not fit is an error, and the machine continues.

use crate::machine::Machine;
use crate::sys::values;
use crate::verdict::{Check, Failure, defect_if, need};

pub(crate) fn run(machine: &mut Machine) -> Check {
    let endpoint = machine.object(values::ENDPOINT_OBJECT)?;
    let first_too_large = 1 << values::BADGE_BITS;
    machine.mint(endpoint, first_too_large - 1).map_err(|error| Failure::Broken("the largest badge", error))?;
    for badge in [first_too_large, 1 << 63, u64::MAX] {
        match machine.mint(endpoint, badge) {
            Ok(_) => defect_if(true, "a badge that does not fit was cut off silently")?,
            Err(error) => need(error == values::ERROR_ILLEGAL_OPERATION as u64, "another error than expected")?,
        }
    }
    Ok(())
}
