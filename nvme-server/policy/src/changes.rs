//! The changes of rights that the configuration orders: those to come, and those that are due.
//!
//! A change is due when its moment has come and those before it are due. A moment that has come stays so. So a policy component
//! that is restarted makes the changes that were due once more, and the rest at their moments.

use crate::rights_map::{Numbers, RightsMap, Unsound};
use alloc::vec::Vec;
use blk_api::policy::Change;

/// Changes in their order.
pub(crate) struct Changes {
    pending: Vec<Change>,
}

impl Changes {
    /// These changes of the rights in `rights_map`.
    ///
    /// # Errors
    /// [`Unsound`] if one of them could not be applied after those before it.
    pub(crate) fn new(all: Vec<Change>, rights_map: &RightsMap) -> Result<Self, Unsound> {
        let mut later = rights_map.clone();
        for change in &all {
            later.change(change.session, &change.what)?;
        }
        Ok(Self { pending: all })
    }

    /// Takes all changes that are due, by the moments that have come, and applies them to `rights_map`, in their order. Returns each
    /// with the numbers it is about. Of changes long ago, later ones may partly undo earlier ones.
    pub(crate) fn take_due(
        &mut self,
        rights_map: &mut RightsMap,
        has_come: impl Fn(u16) -> bool,
    ) -> Vec<(Change, Result<Vec<Numbers>, Unsound>)> {
        let due = self.pending.iter().take_while(|change| has_come(change.moment)).count();
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
        let change = |moment, what| Change { moment, session: 0, what };
        let mut changes = Changes::new(vec![change(3, taken), change(7, given)], &rights_map).unwrap();
        let rights = |rights_map: &RightsMap| rights_map.record(0, 0, 0).unwrap().rights;
        let whole = rights(&rights_map);
        assert_eq!(changes.take_due(&mut rights_map, |moment| moment == 7).len(), 0, "the one before is not due");
        let taken = changes.take_due(&mut rights_map, |moment| moment == 3);
        assert!(taken.len() == 1 && rights(&rights_map) == 0);
        let given = changes.take_due(&mut rights_map, |_| true);
        assert!(given.len() == 1 && rights(&rights_map) == whole);
        assert_eq!(changes.take_due(&mut rights_map, |_| true).len(), 0);
        let mut all =
            Changes::new(taken.into_iter().chain(given).map(|(change, _)| change).collect(), &rights_map).unwrap();
        let both = all.take_due(&mut rights_map, |_| true);
        assert!(both.len() == 2 && both.iter().all(|(_, numbers)| numbers.is_ok()));
        assert_eq!(rights(&rights_map), whole);
    }
}
