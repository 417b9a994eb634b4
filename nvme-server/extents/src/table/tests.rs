//! The table's behaviour by example, and held against a model of it.

mod laws;

use super::*;
use crate::record::Rights;
use crate::{places, tree};
use std::vec::Vec;

fn record(first: u64, lba: u64, blocks: u64, rights: Rights) -> Record {
    Record::new(first, lba, blocks, rights).unwrap()
}

fn readable(first: u64, lba: u64, blocks: u64) -> Record {
    record(first, lba, blocks, Rights::READ)
}

fn table(records: usize, sessions: usize) -> ExtentTable {
    ExtentTable::new(records, sessions, Merging::On).unwrap()
}

/// A session's records in the order of its numbers.
fn records(table: &ExtentTable, session: usize) -> Vec<Record> {
    let (entries, _) = tree::tests::entries(&table.nodes, &table.sessions[session].tree);
    entries.into_iter().map(|(_, place)| table.places.record(place).unwrap()).collect()
}

/// Checks the laws of every table: trees and orders have the same places, records of a session are apart, and every node
/// and place is either used once or free.
fn assert_in_order(table: &ExtentTable) {
    let (mut used_nodes, mut used_places) = (0, 0);
    for (number, session) in table.sessions.iter().enumerate() {
        let (entries, nodes) = tree::tests::entries(&table.nodes, &session.tree);
        let records = records(table, number);
        assert!(entries.iter().map(|entry| entry.0).eq(records.iter().map(Record::first)), "keys of records");
        for pair in records.windows(2) {
            let touch = pair[0].end() == pair[1].first();
            assert!(pair[0].end() <= pair[1].first(), "{pair:?} overlap");
            assert!(!(table.merging == Merging::On && touch && pair[0].agrees(&pair[1])), "{pair:?} are one record");
        }
        let mut order = places::tests::newest_first(&table.places, session.order);
        let mut found: Vec<u16> = entries.iter().map(|entry| entry.1).collect();
        order.sort_unstable();
        found.sort_unstable();
        assert_eq!(order, found, "tree and order of session {number}");
        assert_eq!(session.records, found.len());
        used_nodes += nodes;
        used_places += found.len();
    }
    assert_eq!(table.holders, table.sessions.iter().filter(|session| session.records > 0).count());
    let (free_nodes, all_nodes) = tree::tests::free(&table.nodes);
    assert_eq!(used_nodes + free_nodes, all_nodes, "nodes are used or free");
    assert_eq!(used_places + places::tests::free(&table.places), table.places.capacity(), "places are used or free");
}

#[test]
fn a_block_lies_where_its_record_says_as_far_as_that_reaches() {
    let mut table = table(8, 2);
    table.install(0, readable(0, 100, 10)).unwrap();
    table.install(0, readable(10, 5, 3)).unwrap();
    let mut locate = |first, blocks| table.locate(0, first, blocks, Right::Read);
    assert_eq!(locate(0, 4), Ok(Located { lba: 100, blocks: 4 }));
    assert_eq!(locate(9, 4), Ok(Located { lba: 109, blocks: 1 }));
    assert_eq!(locate(10, 4), Ok(Located { lba: 5, blocks: 3 }));
    assert_eq!(locate(13, 1), Err(Miss::NotInstalled));
    assert_eq!(locate(u64::MAX, u64::MAX), Err(Miss::NotInstalled));
    assert_eq!(table.locate(1, 0, 1, Right::Read), Err(Miss::NotInstalled));
}

#[test]
fn forbidden_differs_from_not_installed() {
    let mut table = table(8, 1);
    table.install(0, readable(0, 100, 10)).unwrap();
    table.install(0, record(10, 110, 10, Rights::NONE)).unwrap();
    assert_eq!(table.locate(0, 3, 1, Right::Write), Err(Miss::Forbidden));
    assert_eq!(table.locate(0, 13, 1, Right::Read), Err(Miss::Forbidden));
    assert_eq!(table.locate(0, 20, 1, Right::Write), Err(Miss::NotInstalled));
}

#[test]
fn the_last_numbers_there_are_can_be_used() {
    let mut table = table(8, 1);
    table.install(0, readable(u64::MAX - 2, 7, 2)).unwrap();
    table.install(0, readable(0, u64::MAX - 2, 2)).unwrap();
    assert_eq!(table.locate(0, u64::MAX - 1, 9, Right::Read), Ok(Located { lba: 8, blocks: 1 }));
    assert_eq!(table.locate(0, u64::MAX, 1, Right::Read), Err(Miss::NotInstalled));
    assert_eq!(table.locate(0, 1, 9, Right::Read), Ok(Located { lba: u64::MAX - 1, blocks: 1 }));
    assert_eq!(table.remove(0, u64::MAX - 1, u64::MAX).blocks, 1);
    assert_eq!(records(&table, 0), [readable(0, u64::MAX - 2, 2), readable(u64::MAX - 2, 7, 1)]);
}

#[test]
fn a_record_between_two_makes_them_one() {
    let mut table = table(8, 1);
    table.install(0, readable(0, 100, 10)).unwrap();
    table.install(0, readable(20, 120, 10)).unwrap();
    table.install(0, readable(10, 110, 10)).unwrap();
    assert_eq!(records(&table, 0), [readable(0, 100, 30)]);
    assert_in_order(&table);
}

#[test]
fn runs_merge_only_with_equal_rights_in_both_numberings() {
    let mut table = table(8, 1);
    table.install(0, readable(0, 100, 10)).unwrap();
    table.install(0, readable(10, 111, 10)).unwrap();
    table.install(0, readable(21, 121, 10)).unwrap();
    table.install(0, record(31, 131, 10, Rights::READ_WRITE)).unwrap();
    assert_eq!(table.records(0), 4);
}

#[test]
fn without_merging_records_stay_as_installed() {
    let mut table = ExtentTable::new(8, 1, Merging::Off).unwrap();
    table.install(0, readable(0, 100, 10)).unwrap();
    table.install(0, readable(10, 110, 10)).unwrap();
    assert_eq!(table.records(0), 2);
    table.install(0, readable(5, 105, 10)).unwrap();
    assert_eq!(records(&table, 0), [readable(0, 100, 20)], "a block is in one record");
}

#[test]
fn what_is_installed_already_may_be_installed_again() {
    let mut table = table(8, 1);
    table.install(0, readable(0, 100, 10)).unwrap();
    for part in [readable(0, 100, 10), readable(3, 103, 2), readable(9, 109, 1)] {
        assert_eq!(table.install(0, part), Ok(None));
        assert_eq!(records(&table, 0), [readable(0, 100, 10)]);
    }
}

#[test]
fn a_contradiction_is_refused_and_changes_nothing() {
    let mut table = table(8, 1);
    table.install(0, readable(0, 100, 5)).unwrap();
    table.install(0, readable(10, 110, 5)).unwrap();
    // The first agrees with one of them and contradicts the other.
    for wrong in [record(2, 102, 1, Rights::READ_WRITE), readable(2, 103, 1)] {
        assert_eq!(table.install(0, wrong), Err(InstallError::Contradicts(readable(0, 100, 5))));
    }
    table.install(0, readable(20, 200, 5)).unwrap();
    assert_eq!(table.install(0, readable(12, 112, 10)), Err(InstallError::Contradicts(readable(20, 200, 5))));
    assert_eq!(records(&table, 0), [readable(0, 100, 5), readable(10, 110, 5), readable(20, 200, 5)]);
    assert_in_order(&table);
}

#[test]
fn sessions_do_not_see_each_others_records() {
    let mut table = table(8, 2);
    table.install(0, readable(0, 100, 10)).unwrap();
    table.install(1, readable(5, 500, 10)).unwrap();
    assert_eq!(table.locate(1, 0, 1, Right::Read), Err(Miss::NotInstalled));
    assert_eq!(table.locate(1, 5, 1, Right::Read), Ok(Located { lba: 500, blocks: 1 }));
    table.clear(1);
    assert_eq!(table.locate(0, 5, 1, Right::Read), Ok(Located { lba: 105, blocks: 1 }));
}

#[test]
fn a_session_that_does_not_exist_has_nothing_and_gets_nothing() {
    let mut table = table(8, 2);
    assert_eq!(table.install(2, readable(0, 0, 1)), Err(InstallError::NoSession(2)));
    assert_eq!(table.locate(2, 0, 1, Right::Read), Err(Miss::NotInstalled));
    assert_eq!(table.remove(2, 0, 1), Removed::default());
    table.clear(2);
    assert_eq!((table.records(2), table.record_of(2, 0)), (0, None));
}

#[test]
fn removing_cuts_records_at_both_ends_and_in_the_middle() {
    let mut table = table(8, 1);
    table.install(0, readable(0, 100, 10)).unwrap();
    table.install(0, readable(12, 200, 4)).unwrap();
    table.install(0, readable(20, 300, 10)).unwrap();
    assert_eq!(table.remove(0, 8, 14), Removed { blocks: 8, evicted: None });
    assert_eq!(records(&table, 0), [readable(0, 100, 8), readable(22, 302, 8)]);
    assert_eq!(table.remove(0, 3, 2), Removed { blocks: 2, evicted: None });
    assert_eq!(records(&table, 0), [readable(0, 100, 3), readable(5, 105, 3), readable(22, 302, 8)]);
    assert_eq!(table.remove(0, 3, 0), Removed::default());
    assert_eq!(table.remove(0, 1, u64::MAX).blocks, 2 + 3 + 8);
    assert_eq!(records(&table, 0), [readable(0, 100, 1)]);
    assert_in_order(&table);
}

#[test]
fn cut_in_a_full_table_evicts_for_the_second_piece() {
    let mut table = table(2, 1);
    table.install(0, readable(0, 100, 10)).unwrap();
    table.install(0, readable(20, 200, 10)).unwrap();
    let removed = table.remove(0, 24, 2);
    assert_eq!(removed, Removed { blocks: 2, evicted: Some(Evicted { session: 0, record: readable(0, 100, 10) }) });
    assert_eq!(records(&table, 0), [readable(20, 200, 4), readable(26, 206, 4)]);
    // A table of one record keeps the second piece.
    let mut table = self::table(1, 1);
    table.install(0, readable(0, 100, 10)).unwrap();
    let removed = table.remove(0, 4, 2);
    assert_eq!(removed, Removed { blocks: 2, evicted: Some(Evicted { session: 0, record: readable(0, 100, 4) }) });
    assert_eq!(records(&table, 0), [readable(6, 106, 4)]);
    assert_in_order(&table);
}

#[test]
fn rights_change_by_removing_and_installing() {
    let mut table = table(8, 1);
    table.install(0, record(0, 100, 10, Rights::READ_WRITE)).unwrap();
    let changed = readable(4, 104, 2);
    assert_eq!(table.install(0, changed), Err(InstallError::Contradicts(record(0, 100, 10, Rights::READ_WRITE))));
    table.remove(0, changed.first(), changed.blocks());
    table.install(0, changed).unwrap();
    assert_eq!(table.locate(0, 4, 1, Right::Write), Err(Miss::Forbidden));
    assert_eq!(table.locate(0, 6, 1, Right::Write), Ok(Located { lba: 106, blocks: 1 }));
}

#[test]
fn the_record_not_used_for_longest_goes() {
    let mut table = table(3, 1);
    for first in [0, 10, 20] {
        table.install(0, readable(first, 100 + 2 * first, 5)).unwrap();
    }
    table.locate(0, 0, 1, Right::Read).unwrap();
    // Neither `record_of` nor a refusal counts as a use.
    assert!(table.record_of(0, 10).is_some());
    assert_eq!(table.locate(0, 10, 1, Right::Write), Err(Miss::Forbidden));
    let evicted = table.install(0, readable(30, 160, 5)).unwrap();
    assert_eq!(evicted, Some(Evicted { session: 0, record: readable(10, 120, 5) }));
}

#[test]
fn one_session_cannot_evict_everybodys() {
    let mut table = table(8, 2);
    table.install(1, readable(0, 1000, 1)).unwrap();
    for first in 0..100 {
        table.install(0, readable(2 * first, 4 * first, 1)).unwrap();
    }
    assert_eq!((table.records(0), table.records(1)), (7, 1));
    // The other gets its half, and no more than that.
    for first in 1..100 {
        table.install(1, readable(2 * first, 1000 + 4 * first, 1)).unwrap();
    }
    assert_eq!((table.records(0), table.records(1)), (4, 4));
}

#[test]
fn those_that_hold_equally_many_lose_in_turn() {
    let mut table = table(9, 4);
    for session in 0..3 {
        for first in 0..3 {
            table.install(session, readable(2 * first, 4 * first, 1)).unwrap();
        }
    }
    let mut losers = Vec::new();
    for round in 0..4 {
        losers.push(table.install(3, readable(0, 0, 1)).unwrap().unwrap().session);
        table.clear(3);
        table.install(losers[round], readable(100, 0, 1)).unwrap();
    }
    assert_eq!(losers, [1, 2, 0, 1]);
}

#[test]
fn a_table_that_cannot_be_is_refused() {
    let error = |records, sessions| ExtentTable::new(records, sessions, Merging::On).err();
    assert_eq!(error(65_535, 1), Some(SizeError::TooManyRecords(65_535)));
    assert_eq!(error(3, 4), Some(SizeError::TooManySessions(4)));
    assert_eq!(error(4, 4), None);
    assert_eq!(error(0, 0), None);
}
