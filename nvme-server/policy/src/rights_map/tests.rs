use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::string::ToString;
use std::vec;

fn holder(tenant: &str, extents: &[Extent]) -> Holder {
    Holder { tenant: tenant.to_string(), nsid: 1, extents: extents.to_vec(), writable: true }
}

fn read_only(tenant: &str, extents: &[Extent]) -> Holder {
    Holder { writable: false, ..holder(tenant, extents) }
}

#[test]
fn records_follow_the_sessions_numbering() {
    let extents = [Extent::new(100, 10), Extent { writable: false, ..Extent::new(50, 5) }, Extent::new(7, 1)];
    let rights_map = RightsMap::new(&[holder("alice", &[Extent::new(0, 4)]), holder("bob", &extents)]).unwrap();
    let record = |rights, first, lba, blocks| Record { session: 1, rights, first, lba, blocks };
    assert_eq!(rights_map.record(1, 0, 0), Some(record(READ | WRITE, 0, 100, 10)));
    assert_eq!(rights_map.record(1, 9, 0), Some(record(READ | WRITE, 0, 100, 10)));
    assert_eq!(rights_map.record(1, 9, 1), Some(record(READ, 10, 50, 5)));
    assert_eq!(rights_map.record(1, 10, 1), Some(record(READ | WRITE, 15, 7, 1)));
    assert_eq!(
        (rights_map.record(1, 15, 1), rights_map.record(1, 16, 0), rights_map.record(2, 0, 0)),
        (None, None, None)
    );
    assert_eq!((rights_map.blocks(0), rights_map.blocks(1), rights_map.blocks(2)), (Some(4), Some(16), None));
}

#[test]
fn a_read_only_session_writes_none_of_its_extents() {
    let rights_map = RightsMap::new(&[read_only("alice", &[Extent::new(0, 4)])]).unwrap();
    assert_eq!(rights_map.record(0, 0, 0).unwrap().rights, READ);
}

#[test]
fn what_two_have_neither_may_write() {
    let (alice, bob) = ([Extent::new(0, 10)], [Extent::new(9, 10)]);
    let overlaps = Unsound::Overlaps { tenant: "bob".to_string(), lba: 9, other: "alice".to_string(), other_lba: 0 };
    for holders in [
        [holder("alice", &alice), holder("bob", &bob)],
        [holder("alice", &alice), read_only("bob", &bob)],
        [read_only("alice", &alice), holder("bob", &bob)],
    ] {
        assert_eq!(RightsMap::new(&holders), Err(overlaps.clone()));
    }
    assert!(RightsMap::new(&[read_only("alice", &alice), read_only("bob", &bob)]).is_ok());
    let elsewhere = Holder { nsid: 2, ..holder("bob", &bob) };
    assert!(RightsMap::new(&[holder("alice", &alice), elsewhere]).is_ok());
}

#[test]
fn an_impossible_specification_is_no_rights_map() {
    for extents in [vec![Extent::new(5, 0)], vec![Extent::new(u64::MAX, 1)]] {
        assert_eq!(
            RightsMap::new(&[holder("alice", &extents)]),
            Err(Unsound::Impossible { tenant: "alice".to_string() })
        );
    }
    let twice = [Extent::new(4, 4), Extent::new(0, 5)];
    assert!(matches!(RightsMap::new(&[read_only("alice", &twice)]), Err(Unsound::Overlaps { .. })));
}

fn extents() -> impl Strategy<Value = Vec<Extent>> {
    let extent = (0..60u64, 1..8u64, any::<bool>());
    prop::collection::vec(extent.prop_map(|(first, blocks, writable)| Extent { first, blocks, writable }), 1..4)
}

proptest! {
    /// A rights map is made exactly when no session has a block twice, and no session has a block that another may write. Then
    /// its records have the same rights for each number as the extents.
    #[test]
    fn rights_maps_are_of_extents_that_do_not_meet(
        tenants in prop::collection::vec((extents(), any::<bool>(), 1..3u32), 1..4),
    ) {
        let mut holders = vec![];
        for (number, (extents, writable, nsid)) in tenants.into_iter().enumerate() {
            holders.push(Holder { tenant: number.to_string(), nsid, extents, writable });
        }
        let mut seen: BTreeMap<(u32, u64), Vec<(usize, bool)>> = BTreeMap::new();
        for (session, holder) in holders.iter().enumerate() {
            for extent in &holder.extents {
                for lba in extent.first..extent.first + extent.blocks {
                    seen.entry((holder.nsid, lba)).or_default().push((session, holder.writable && extent.writable));
                }
            }
        }
        let sound = seen.values().all(|having| {
            let twice = having.iter().any(|one| having.iter().filter(|other| other.0 == one.0).count() > 1);
            !twice && (having.len() == 1 || having.iter().all(|(_, writes)| !writes))
        });
        let rights_map = RightsMap::new(&holders);
        prop_assert_eq!(rights_map.is_ok(), sound);
        let Ok(rights_map) = rights_map else { return Ok(()) };
        for (session, holder) in holders.iter().enumerate() {
            let mut number = 0;
            for extent in &holder.extents {
                for inside in 0..extent.blocks {
                    let record = rights_map.record(session, number, 0).unwrap();
                    prop_assert!(record.first <= number && number < record.first + record.blocks);
                    prop_assert_eq!(record.lba + (number - record.first), extent.first + inside);
                    prop_assert_eq!(record.rights & WRITE != 0, holder.writable && extent.writable);
                    prop_assert_eq!(record.rights & READ, READ);
                    number += 1;
                }
            }
            prop_assert_eq!(rights_map.blocks(session), Some(number));
        }
    }

    /// After any changes, each block has the rights of the last change about it, numbers stay, and an invalid change has no
    /// effect.
    #[test]
    fn a_change_is_about_its_blocks_and_no_others(
        changes in prop::collection::vec((0..24u64, 1..12u64, any::<bool>(), any::<bool>()), 0..8),
    ) {
        let read = Extent { writable: false, ..Extent::new(20, 4) };
        let mut rights_map = RightsMap::new(&[holder("alice", &[Extent::new(10, 8), Extent::new(0, 6), read])]).unwrap();
        let lba = |number: u64| if number < 8 { number + 10 } else if number < 14 { number - 8 } else { number + 6 };
        let mut rights: BTreeMap<u64, u32> =
            (0..18).map(|number| (lba(number), if number < 14 { READ | WRITE } else { READ })).collect();
        for (first, blocks, gives, writable) in changes {
            let what = if gives {
                What::Grant(vec![Extent { first, blocks, writable }])
            } else {
                What::Revoke(vec![blk_api::extent::Blocks { first, blocks }])
            };
            let all_there = (first..first + blocks).all(|lba| rights.contains_key(&lba));
            let changed = rights_map.change(0, &what);
            prop_assert_eq!(changed.is_ok(), all_there);
            if let Ok(changed) = changed {
                prop_assert_eq!(changed.iter().map(|numbers| numbers.blocks).sum::<u64>(), blocks);
                let new = match (gives, writable) { (false, _) => 0, (true, false) => READ, (true, true) => READ | WRITE };
                (first..first + blocks).for_each(|lba| { rights.insert(lba, new); });
            }
            for number in 0..18 {
                let record = rights_map.record(0, number, 0).unwrap();
                prop_assert!((record.first..record.first + record.blocks).contains(&number));
                prop_assert_eq!(record.lba + number - record.first, lba(number));
                prop_assert_eq!(record.rights, rights[&lba(number)]);
            }
        }
    }
}
