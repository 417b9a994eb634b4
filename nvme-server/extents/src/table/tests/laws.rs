//! Random operations: the table does the same as the model, and keeps its laws.

use super::*;
use crate::model::{Draws, Model};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A call of the table.
#[derive(Clone, Copy, Debug)]
enum Call {
    Install(usize, Record),
    Remove(usize, u64, u64),
    Locate(usize, u64, u64, Right),
    Clear(usize),
}

const SESSIONS: usize = 4;
const NUMBERS: u64 = 64;

fn rights() -> impl Strategy<Value = Rights> {
    let some = prop_oneof![6 => Just(Rights::READ_WRITE), 2 => Just(Rights::READ), 1 => Just(Rights::WRITE)];
    prop_oneof![9 => some, 1 => Just(Rights::NONE)]
}

/// Records of few blocks in few numbers, most of which agree, so that they often join.
fn record() -> impl Strategy<Value = Record> {
    let distance = prop_oneof![8 => Just(100_u64), 1 => Just(101), 1 => Just(300)];
    (0..NUMBERS, distance, 1..6_u64, rights())
        .prop_map(|(first, distance, blocks, rights)| Record::new(first, first + distance, blocks, rights).unwrap())
}

fn call() -> impl Strategy<Value = Call> {
    let right = prop_oneof![Just(Right::Read), Just(Right::Write)];
    let session = || prop_oneof![4 => Just(0), 2 => 0..SESSIONS];
    let length = || prop_oneof![8 => 0..8_u64, 1 => Just(u64::MAX)];
    prop_oneof![
        8 => (session(), record()).prop_map(|(session, record)| Call::Install(session, record)),
        3 => (session(), 0..NUMBERS, length())
            .prop_map(|(session, first, blocks)| Call::Remove(session, first, blocks)),
        8 => (session(), 0..NUMBERS + 8, length(), right).prop_map(|(session, first, blocks, right)| {
            Call::Locate(session, first, blocks, right)
        }),
        1 => (0..SESSIONS).prop_map(Call::Clear),
    ]
}

fn merging() -> impl Strategy<Value = Merging> {
    prop_oneof![Just(Merging::On), Just(Merging::Off)]
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    proptest::collection::vec(call(), 1..150)
}

/// Makes the call on both and compares the results.
fn both(table: &mut ExtentTable, model: &mut Model, call: Call) {
    match call {
        Call::Install(session, record) => {
            assert_eq!(table.install(session, record), model.install(session, record), "{call:?}");
        }
        Call::Remove(session, first, blocks) => {
            assert_eq!(table.remove(session, first, blocks), model.remove(session, first, blocks), "{call:?}");
        }
        Call::Locate(session, first, blocks, right) => {
            let newest = table.newest(session).and_then(|newest| newest.locate(first, blocks, right));
            let modelled = model.locate(session, first, blocks, right);
            assert!(newest.is_none_or(|newest| Ok(newest) == modelled), "{call:?}");
            assert_eq!(table.locate(session, first, blocks, right), modelled, "{call:?}");
        }
        Call::Clear(session) => {
            table.clear(session);
            model.clear(session);
        }
    }
}

fn assert_same_records(table: &ExtentTable, model: &Model) {
    for session in 0..SESSIONS {
        let own = model.entries.iter().filter(|entry| entry.session == session);
        let mut own: Vec<Record> = own.map(|entry| entry.record).collect();
        own.sort_by_key(Record::first);
        assert_eq!(records(table, session), own);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_table_does_what_the_model_does(calls in calls(), capacity in SESSIONS..24, merging in merging()) {
        let mut table = ExtentTable::new(capacity, SESSIONS, merging).unwrap();
        let mut model = Model::new(capacity, SESSIONS, merging);
        for call in calls {
            both(&mut table, &mut model, call);
            assert_in_order(&table);
            assert_same_records(&table, &model);
        }
    }

    #[test]
    fn whoever_holds_its_fair_share_loses_nothing_by_others(calls in calls(), capacity in SESSIONS..12) {
        let mut table = ExtentTable::new(capacity, SESSIONS, Merging::Off).unwrap();
        for call in calls {
            let held: Vec<usize> = (0..SESSIONS).map(|session| table.records(session)).collect();
            let (caller, evicted) = match call {
                Call::Install(session, record) => (session, table.install(session, record).ok().flatten()),
                Call::Remove(session, first, blocks) => (session, table.remove(session, first, blocks).evicted),
                _ => continue,
            };
            let holders = (0..SESSIONS).filter(|one| *one == caller || held[*one] > 0).count();
            if let Some(Evicted { session, .. }) = evicted && session != caller {
                prop_assert!(held[session] > capacity / holders, "{session} held {} of {capacity}", held[session]);
            }
        }
    }

    #[test]
    fn whoever_holds_its_fair_part_loses_its_own_first(calls in calls(), capacity in SESSIONS..12) {
        let mut table = ExtentTable::new(capacity, SESSIONS, Merging::Off).unwrap();
        let mut model = Model::new(capacity, SESSIONS, Merging::Off);
        for call in calls {
            if let Call::Install(session, record) = call {
                let holds_its_part = model.held(session) >= model.fair_share(session);
                let most = (0..SESSIONS).map(|one| model.held(one)).max().unwrap_or(0);
                if let Ok(Some(Evicted { session: loser, .. })) = table.install(session, record) {
                    let expected = if holds_its_part { loser == session } else { model.held(loser) == most };
                    prop_assert!(expected, "{loser} lost one for {session}");
                }
                let _ = model.install(session, record);
            } else {
                both(&mut table, &mut model, call);
            }
        }
    }

    /// The least fair part is the one with all sessions, whichever of them hold records at the moment.
    #[test]
    fn session_within_its_fair_part_keeps_every_record(
        calls in calls(),
        capacity in SESSIONS..24,
        merging in merging(),
        own in proptest::collection::vec(0..150_usize, 0..6),
    ) {
        const HONEST: usize = SESSIONS;
        let part = capacity.div_ceil(SESSIONS).max(1);
        let mut table = ExtentTable::new(part * (SESSIONS + 1), SESSIONS + 1, merging).unwrap();
        let mut kept = Vec::new();
        for (turn, call) in calls.into_iter().enumerate() {
            // Far enough apart that none of them become one.
            let due = own.iter().zip(0_u64..).take(part).filter(|(at, _)| **at == turn);
            for (_, number) in due {
                let record = Record::new(number * 10, 5000 + number * 20, 3, Rights::READ).unwrap();
                table.install(HONEST, record).unwrap();
                kept.push(record);
            }
            match call {
                Call::Install(session, record) => drop(table.install(session, record)),
                Call::Remove(session, first, blocks) => drop(table.remove(session, first, blocks)),
                Call::Locate(session, first, blocks, right) => drop(table.locate(session, first, blocks, right)),
                Call::Clear(session) => table.clear(session),
            }
            for record in &kept {
                prop_assert_eq!(table.record_of(HONEST, record.first()), Some(*record), "after {:?}", call);
            }
        }
    }

    #[test]
    fn nothing_is_granted_that_was_not_installed_or_is_removed(calls in calls(), merging in merging()) {
        let mut table = ExtentTable::new(SESSIONS, SESSIONS, merging).unwrap();
        let mut granted = BTreeMap::new();
        for call in calls {
            match call {
                Call::Install(session, record) if table.install(session, record).is_ok() => {
                    let blocks = (0..record.blocks()).map(|block| {
                        ((session, record.first() + block), (record.lba() + block, record.rights()))
                    });
                    granted.extend(blocks);
                }
                Call::Remove(session, first, blocks) => {
                    table.remove(session, first, blocks);
                    let removed = first..first.saturating_add(blocks);
                    granted.retain(|(one, number), _| *one != session || !removed.contains(number));
                }
                Call::Clear(session) => {
                    table.clear(session);
                    granted.retain(|(one, _), _| *one != session);
                }
                _ => {}
            }
            for (session, number) in (0..SESSIONS).flat_map(|one| (0..NUMBERS + 8).map(move |number| (one, number))) {
                for right in [Right::Read, Right::Write] {
                    if let Ok(Located { lba, .. }) = table.locate(session, number, 1, right) {
                        let (block, rights) = granted.get(&(session, number)).expect("an installed block");
                        prop_assert!(*block == lba && rights.allow(right));
                    }
                }
            }
        }
    }
}

#[test]
fn a_hundred_thousand_calls_leak_nothing() {
    let mut table = ExtentTable::new(200, SESSIONS, Merging::On).unwrap();
    let mut draws = Draws(1);
    for turn in 0..100_000 {
        let session = usize::try_from(draws.below(4)).unwrap();
        let (first, blocks) = (draws.below(1000), 1 + draws.below(6));
        match draws.below(1000) {
            0 => table.clear(session),
            1..300 => drop(table.remove(session, first, blocks)),
            _ => drop(table.install(session, readable(first, first + 7, blocks))),
        }
        if turn % 100 == 0 {
            assert_in_order(&table);
        }
    }
    (0..SESSIONS).for_each(|session| table.clear(session));
    assert_in_order(&table);
    assert_eq!(tree::tests::free(&table.nodes), (most_nodes(200, SESSIONS), most_nodes(200, SESSIONS)));
    assert_eq!(places::tests::free(&table.places), 200);
}
