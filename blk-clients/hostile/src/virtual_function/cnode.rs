//! The own CNode: every capability that can be replaced or deleted there, so that a fault has no way to the supervisor.

use super::Stuck;
use super::attacker::Attacker;
use super::io_space::FAULT_ENDPOINT;
use platform::{AbsoluteCPtr, Kernel, Platform, Rights};

/// Replaces every capability in its CNode by one to its notification, and then deletes them all, that to the CNode last. Tries
/// the CNode above its own by every path that its capability may take.
pub(super) fn clear<P: Platform>(attacker: &Attacker<'_, P>) -> Result<(), Stuck> {
    let environment = attacker.environment;
    let (kernel, missing) = (attacker.platform.kernel(), Stuck::Missing("its CNode"));
    let own = environment.cnode.ok_or(missing)?;
    let event = environment.cap::<platform::Notification>(platform::names::EVENT);
    let event = event.ok_or(Stuck::Missing("its notification"))?.cptr();
    let cptr = |index, depth| AbsoluteCPtr { root: own.cast(), index, depth };
    let cptr_of_event = cptr(event.bits(), 64);
    let cptrs = 1u64.checked_shl(environment.cnode_bits.into()).unwrap_or(u64::MAX);
    let others = (0..cptrs).filter(|index| ![own.bits(), event.bits()].contains(index));
    // Its capability has a guard for the whole path, so all but the last of these are refused.
    let above = [(FAULT_ENDPOINT.bits(), 64), (FAULT_ENDPOINT.bits(), 1), (1, 1), (0, 1), (1, 64)];
    for cptr in
        above.map(|(index, depth)| cptr(index, depth)).into_iter().chain(others.clone().map(|index| cptr(index, 64)))
    {
        let _ = kernel.cnode_revoke(cptr);
        let _ = kernel.cnode_delete(cptr);
        let _ = kernel.cnode_copy(cptr, cptr_of_event, Rights::ALL);
    }
    for index in others.chain([event.bits(), own.bits()]) {
        let _ = kernel.cnode_revoke(cptr(index, 64));
        let _ = kernel.cnode_delete(cptr(index, 64));
    }
    Ok(())
}
