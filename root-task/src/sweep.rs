//! Compares the actual contents of the CNodes with the specification, cptr by cptr, for every component.
//!
//! The kernel does not list a CNode. But it refuses to copy a capability at a cptr that is taken. So a copy of a harmless
//! capability (it signals the supervisor alone) distinguishes taken cptrs from empty ones, by two invocations a cptr. The
//! sweep runs when the specification asks for it: over all cptrs before any component runs, and at each tick over those in
//! which components receive capabilities.

use crate::BuildError;
use crate::objects::object;
use crate::state::Build;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use capdl_spec::{Component, RECEIVE_CPTR};
use platform::log::error;
use platform::{Error, Kernel, Platform, Rights};
use report::{Report, clip};

/// Ticks in a row at which a receive cptr may be found taken, a second. A received capability is moved or deleted at once, but a tick
/// may come in between.
pub(crate) const TICKS_TAKEN: u8 = 20;

impl<P: Platform> Build<P> {
    /// Reports every component, of those with these numbers, that leaves a capability at its receive cptr. Called at each tick;
    /// `taken` counts by component the ticks in a row at which its cptr was taken.
    pub(crate) fn sweep_received(
        &self,
        ids: impl Iterator<Item = u16>,
        taken: &mut BTreeMap<u16, u8>,
    ) -> Result<(), BuildError> {
        for id in ids {
            let Some(component) = self.specification.components.iter().find(|one| one.id == id) else { continue };
            if !self.receives(component) {
                continue;
            }
            let ticks = taken.entry(id).or_default();
            *ticks = if self.is_taken(component, RECEIVE_CPTR)? { ticks.saturating_add(1) } else { 0 };
            if *ticks == TICKS_TAKEN {
                self.report(component, RECEIVE_CPTR, true);
            }
        }
        Ok(())
    }

    /// Whether a component receives capabilities: one with its own CNode does.
    fn receives(&self, component: &Component) -> bool {
        self.specification.caps.iter().any(|run| run.cnode == component.cnode && run.object == component.cnode)
    }

    /// Reports every cptr that holds a capability and should be empty, or the other way round; returns whether there was none.
    pub(crate) fn sweep(&self) -> Result<bool, BuildError> {
        let mut as_specified = true;
        for component in &self.specification.components {
            for (cptr, expected) in (0u64..).zip(self.expected(component)?) {
                let taken = self.is_taken(component, cptr)?;
                if taken != expected {
                    as_specified = false;
                    self.report(component, cptr, taken);
                }
            }
        }
        Ok(as_specified)
    }

    /// For each cptr of a component's CNode, whether the specification fills it.
    fn expected(&self, component: &Component) -> Result<Vec<bool>, BuildError> {
        let bits = crate::cspace::cnode_bits(&self.specification, component.cnode)?;
        let cptrs = 1usize.checked_shl(u32::from(bits)).unwrap_or(usize::MAX);
        let mut expected = vec![false; cptrs];
        let mut fill = |cptr: u64| {
            if let Some(place) = usize::try_from(cptr).ok().and_then(|cptr| expected.get_mut(cptr)) {
                *place = true;
            }
        };
        if component.root.is_none() {
            fill(component.fault_slot);
        }
        for run in self.specification.caps.iter().filter(|run| run.cnode == component.cnode) {
            let count = u64::from(object(&self.specification, run.object)?.count);
            (run.cptr..run.cptr.saturating_add(count)).for_each(&mut fill);
        }
        Ok(expected)
    }

    /// Whether a cptr holds a capability.
    fn is_taken(&self, component: &Component, cptr: u64) -> Result<bool, BuildError> {
        let dest = self.component_cptr(component.cnode, cptr)?;
        let harmless = self.boot.absolute(self.own_endpoint());
        match self.kernel().cnode_copy(dest, harmless, Rights::default()) {
            Err(Error::DeleteFirst) => Ok(true),
            Ok(()) => {
                let deleted = self.kernel().cnode_delete(dest);
                deleted.map_err(BuildError::refused("empty a cptr of", &component.name))?;
                Ok(false)
            }
            Err(error) => Err(BuildError::refused("look at a cptr of", &component.name)(error)),
        }
    }

    fn report(&self, component: &Component, cptr: u64, taken: bool) {
        let found = if taken { "holds a capability that is not in" } else { "lacks a capability of" };
        let reason = format!("cptr {cptr} {found} the specification");
        error!("{}: {}", component.name.as_str(), reason.as_str());
        let failure =
            Report::Failure { component: clip("root-task"), reason: clip(&format!("{}: {reason}", component.name)) };
        self.platform.report(&failure.encode());
    }
}
