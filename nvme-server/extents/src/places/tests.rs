//! Laws of the sessions' orders of use, and of the free places.

use super::*;
use std::vec::Vec;

/// A session's places from the one used last on, if the list is the same in both directions.
pub(crate) fn newest_first(places: &Places, order: u16) -> Vec<u16> {
    let (mut all, mut next, mut newer) = (Vec::new(), places.place(order).older, order);
    while next != order {
        let place = places.place(next);
        assert_eq!(place.newer, newer, "the list backwards");
        all.push(next);
        (newer, next) = (next, place.older);
        assert!(all.len() <= places.capacity(), "the list goes in a circle");
    }
    assert_eq!(places.place(order).newer, newer, "the list's end");
    all
}

/// The number of free places.
pub(crate) fn free(places: &Places) -> usize {
    let (mut free, mut next) = (0, places.free);
    while next != NOTHING {
        next = places.place(next).older;
        free += 1;
        assert!(free <= places.capacity(), "free places go in a circle");
    }
    free
}

/// Three places of the second of two orders, and a fourth that is free.
fn three() -> (Places, u16) {
    let mut places = Places::new(4, 2);
    let order = places.orders().last().unwrap();
    for first in [10, 20, 30] {
        places.put(order, &Record::new(first, 100, 5, Rights::READ).unwrap());
    }
    (places, order)
}

#[test]
fn a_use_moves_a_place_to_the_front_from_anywhere() {
    for (used, then) in [(0, [0, 2, 1]), (1, [1, 2, 0]), (2, [2, 1, 0])] {
        let (mut places, order) = three();
        assert_eq!(newest_first(&places, order), [2, 1, 0]);
        places.touch(order, used);
        assert_eq!(newest_first(&places, order), then);
        assert_eq!(places.oldest(order), then.last().copied());
    }
}

#[test]
fn a_place_that_was_taken_is_free() {
    let (mut places, order) = three();
    assert_eq!(places.take(1).map(|record| record.first()), Some(20));
    assert_eq!(newest_first(&places, order), [2, 0]);
    assert_eq!(free(&places), 2);
    for _ in 0..2 {
        places.clear(order);
        assert_eq!((free(&places), places.oldest(order)), (4, None));
    }
    places.put(order, &Record::new(10, 100, 5, Rights::READ).unwrap());
    assert_eq!((free(&places), newest_first(&places, order).len()), (3, 1));
}

#[test]
fn a_block_is_found_from_a_records_first_to_its_last() {
    let (places, _) = three();
    let lba = |number| places.find(1, number, Right::Read).map(|found| (found.lba, found.left));
    assert_eq!([lba(19), lba(20), lba(24), lba(25)], [None, Some((100, 5)), Some((104, 1)), None]);
    assert_eq!([lba(0), lba(u64::MAX)], [None, None]);
}
