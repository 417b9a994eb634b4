//! The changes of rights that the configuration orders: those to come, and those that are due.
//!
//! Their times count from the system's start. So a policy component that is restarted makes the changes that were due once
//! more, and the rest at their times.

use crate::rights_map::{Numbers, RightsMap, Unsound};
use alloc::vec::Vec;
use blk_api::policy::Change;

/// Changes, the earliest first.
pub(crate) struct Changes {
    pending: Vec<Change>,
}

impl Changes {
    /// These changes of the rights in `rights_map`.
    ///
    /// # Errors
    /// [`Unsound`] if one of them could not be applied at its time.
    pub(crate) fn new(mut all: Vec<Change>, rights_map: &RightsMap) -> Result<Self, Unsound> {
        all.sort_by_key(|change| change.after_ms);
        let mut later = rights_map.clone();
        for change in &all {
            later.change(change.session, &change.what)?;
        }
        Ok(Self { pending: all })
    }

    /// Takes all changes that are due after so many milliseconds and applies them to `rights_map`, in their order. Returns each
    /// with the numbers it is about. Of changes long ago, later ones may partly undo earlier ones.
    pub(crate) fn take_due(
        &mut self,
        rights_map: &mut RightsMap,
        elapsed_ms: u64,
    ) -> Vec<(Change, Result<Vec<Numbers>, Unsound>)> {
        let due = self.pending.partition_point(|change| u64::from(change.after_ms) <= elapsed_ms);
        let taken = self.pending.drain(..due);
        let written = |change: Change| {
            let numbers = rights_map.change(change.session, &change.what);
            (change, numbers)
        };
        taken.map(written).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blk_api::extent::{Blocks, Extent};
    use blk_api::policy::{Holder, What};
    use std::string::ToString;
    use std::vec;

    #[test]
    fn rights_taken_and_restored_exist_before_either_change() {
        let holder =
            Holder { tenant: "alice".to_string(), nsid: 1, extents: vec![Extent::new(8, 100)], writable: true };
        let mut rights_map = RightsMap::new(&[holder]).unwrap();
        let taken = What::Revoke(vec![Blocks { first: 8, blocks: 10 }]);
        let given = What::Grant(vec![Extent::new(8, 10)]);
        let change = |after_ms, what| Change { after_ms, session: 0, what };
        let mut changes = Changes::new(vec![change(700, given), change(300, taken)], &rights_map).unwrap();
        let rights = |rights_map: &RightsMap| rights_map.record(0, 0, 0).unwrap().rights;
        let whole = rights(&rights_map);
        assert_eq!(changes.take_due(&mut rights_map, 299).len(), 0);
        let taken = changes.take_due(&mut rights_map, 300);
        assert!(taken.len() == 1 && rights(&rights_map) == 0);
        let given = changes.take_due(&mut rights_map, 700);
        assert!(given.len() == 1 && rights(&rights_map) == whole);
        assert_eq!(changes.take_due(&mut rights_map, u64::MAX).len(), 0);
        let mut all =
            Changes::new(given.into_iter().chain(taken).map(|(change, _)| change).collect(), &rights_map).unwrap();
        let both = all.take_due(&mut rights_map, 700);
        assert!(both.len() == 2 && both.iter().all(|(_, numbers)| numbers.is_ok()));
        assert_eq!(rights(&rights_map), whole);
    }
}
