//! What holds of every session's order, and of the places that none has.

use super::*;
use std::vec::Vec;

/// A session's places from the one used last on, if the list is the same in both directions.
pub(crate) fn newest_first(places: &Places, order: &Recency) -> Vec<u16> {
    let (mut all, mut next, mut newer) = (Vec::new(), order.newest, NOTHING);
    while next != NOTHING {
        let place = places.place(next);
        assert_eq!(place.newer, newer, "the list backwards");
        all.push(next);
        (newer, next) = (next, place.older);
        assert!(all.len() <= places.count(), "the list goes in a circle");
    }
    assert_eq!(order.oldest, newer, "the list's end");
    all
}

/// How many places are free.
pub(crate) fn free(places: &Places) -> usize {
    let (mut free, mut next) = (0, places.free);
    while next != NOTHING {
        next = places.place(next).older;
        free += 1;
        assert!(free <= places.count(), "free places go in a circle");
    }
    free
}

fn three() -> (Places, Recency) {
    let (mut places, mut order) = (Places::new(4), Recency::EMPTY);
    for first in [10, 20, 30] {
        places.put(&mut order, &Record::new(first, 100, 5, Rights::READ).unwrap());
    }
    (places, order)
}

#[test]
fn a_use_moves_a_place_to_the_front_from_anywhere() {
    for (used, then) in [(0, [0, 2, 1]), (1, [1, 2, 0]), (2, [2, 1, 0])] {
        let (mut places, mut order) = three();
        assert_eq!(newest_first(&places, &order), [2, 1, 0]);
        places.touch(&mut order, used);
        assert_eq!(newest_first(&places, &order), then);
        assert_eq!(order.oldest(), then.last().copied());
    }
}

#[test]
fn a_place_that_was_taken_is_free() {
    let (mut places, mut order) = three();
    assert_eq!(places.take(&mut order, 1).map(|record| record.first()), Some(20));
    assert_eq!(newest_first(&places, &order), [2, 0]);
    assert_eq!(free(&places), 2);
    places.clear(&mut order);
    assert_eq!((free(&places), order.oldest()), (4, None));
    places.clear(&mut order);
    assert_eq!(free(&places), 4);
}

#[test]
fn a_block_is_found_from_a_records_first_to_its_last() {
    let (places, _) = three();
    let lba = |number| places.find(1, number, Right::Read).map(|found| (found.lba, found.left));
    assert_eq!([lba(19), lba(20), lba(24), lba(25)], [None, Some((100, 5)), Some((104, 1)), None]);
    assert_eq!([lba(0), lba(u64::MAX)], [None, None]);
}
