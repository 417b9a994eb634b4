//! A case for each law, with the defect that breaks it beside it.

use sim_check::Checker;

use super::*;

const ONE: BlockRange = BlockRange { first: 5, count: 1 };

fn strict() -> Bench {
    Bench::new(Discard::Zeroes, WriteCache::None)
}

fn cached() -> Bench {
    Bench::new(Discard::Zeroes, WriteCache::Volatile)
}

#[test]
fn untouched_blocks_hold_their_initial_content() {
    let mut bench = strict();
    assert!(bench.reads(1, 9, initial(9)));
    assert!(!bench.reads(2, 9, initial(8)));
    assert!(bench.reads(3, u64::MAX - 1, initial(u64::MAX - 1)));
}

#[test]
fn an_acknowledged_write_is_there() {
    let mut bench = strict();
    bench.written(1, BlockRange { first: 3, count: 12 }, 77);
    for block in 3..15 {
        assert!(bench.reads(block, block, Hash(77)));
        assert!(!bench.reads(block, block, initial(block)), "a lost write");
    }
    assert!(bench.reads(20, 2, initial(2)));
    assert!(bench.reads(21, 15, initial(15)));
}

#[test]
fn a_finding_names_read_block_and_what_should_have_been() {
    let mut bench = strict();
    bench.written(1, BlockRange { first: 4, count: 3 }, 0xab);
    bench.submit(2, Operation::Read(BlockRange { first: 4, count: 3 }));
    bench.answer(2, Outcome::Read(&[Hash(0xab), zeroes(), Hash(0xcd)]));
    let finding = &bench.findings.kept()[0];
    assert_eq!(bench.findings.counted_by(Checker::Data), 1);
    assert_eq!(
        finding.text,
        "read 2, submitted at 2 ns, returned zeroes for block 5 of namespace 1 on controller 0, which should have been \
         00000000000000ab; 1 more of its blocks are wrong"
    );
}

#[test]
fn a_short_answer_is_reported() {
    let mut bench = strict();
    bench.submit(1, Operation::Read(BlockRange { first: 0, count: 2 }));
    bench.answer(1, Outcome::Read(&[initial(0)]));
    bench.submit(2, Operation::Read(BlockRange { first: 0, count: 2 }));
    bench.answer(2, Outcome::Done);
    assert_eq!(bench.findings.counted(), 2);
    bench.submit(3, Operation::Read(BlockRange { first: 0, count: 2 }));
    bench.answer(3, Outcome::Failed);
    bench.answer(4, Outcome::Read(&[Hash(1)]));
    assert_eq!(bench.findings.counted(), 2);
}

#[test]
fn read_during_a_write_returns_either_monotonically() {
    let mut bench = strict();
    bench.write(1, ONE, 1, Persistence::Cached);
    assert!(bench.reads(2, 5, initial(5)));
    assert!(bench.reads(3, 5, Hash(1)));
    assert!(!bench.reads(4, 5, initial(5)), "old content after new content");
    bench.answer(1, Outcome::Done);
    assert!(bench.reads(5, 5, Hash(1)));
}

#[test]
fn a_slow_read_may_return_what_was_replaced_meanwhile() {
    let mut bench = strict();
    bench.submit(1, Operation::Read(ONE));
    for content in 2..20 {
        bench.written(content, ONE, content);
    }
    bench.submit(30, Operation::Read(ONE));
    bench.answer(1, Outcome::Read(&[Hash(7)]));
    assert!(bench.findings.is_empty(), "{}", bench.findings);
    bench.answer(30, Outcome::Read(&[Hash(18)]));
    assert_eq!(bench.findings.counted(), 1, "a stale read");
}

#[test]
fn what_is_overwritten_stays_so_while_its_write_is_under_way() {
    let mut bench = strict();
    bench.write(1, ONE, 1, Persistence::Cached);
    bench.submit(2, Operation::Read(ONE));
    bench.written(3, ONE, 3);
    bench.write(4, ONE, 4, Persistence::Cached);
    bench.answer(2, Outcome::Read(&[Hash(1)]));
    assert!(bench.reads(5, 5, Hash(3)), "1 was before 3");
    bench.answer(4, Outcome::Done);
    assert!(bench.findings.is_empty(), "{}", bench.findings);
    assert!(!bench.reads(6, 5, Hash(1)), "and 3 before 4, which is known");
    bench.data.repeated(request(1));
    assert!(bench.reads(7, 5, Hash(1)));
}

#[test]
fn zeroes_are_a_content_like_any_other() {
    let mut bench = strict();
    bench.written(1, ONE, 1);
    bench.submit(2, Operation::Zeroes { range: ONE, persistence: Persistence::Cached });
    assert!(bench.reads(3, 5, Hash(1)));
    bench.answer(2, Outcome::Done);
    assert!(!bench.reads(4, 5, Hash(1)));
    assert!(bench.reads(5, 5, zeroes()));
}

#[test]
fn a_discarded_block_keeps_to_what_it_showed_first() {
    let mut bench = strict();
    bench.written(1, ONE, 1);
    bench.submit(2, Operation::Discard(&[BlockRange { first: 0, count: 2 }, ONE]));
    bench.answer(2, Outcome::Done);
    assert!(bench.reads(3, 1, zeroes()));
    assert!(!bench.reads(4, 5, Hash(1)));

    for (first, second) in [(Hash(1), zeroes()), (zeroes(), Hash(1))] {
        let mut bench = Bench::new(Discard::OldOrZeroes, WriteCache::None);
        bench.written(1, ONE, 1);
        for discard in 2..6 {
            bench.submit(discard, Operation::Discard(&[ONE]));
            bench.answer(discard, Outcome::Done);
        }
        assert!(bench.reads(6, 5, first));
        assert!(!bench.reads(7, 5, second));
        assert!(!bench.reads(8, 5, initial(5)));
    }
}

#[test]
fn a_failed_write_was_done_or_not_block_by_block() {
    let mut bench = strict();
    bench.write(1, BlockRange { first: 0, count: 4 }, 1, Persistence::Cached);
    bench.answer(1, Outcome::Failed);
    assert!(bench.reads(2, 0, Hash(1)));
    assert!(!bench.reads(3, 0, initial(0)), "it was seen");
    assert!(bench.reads(4, 1, initial(1)));
    assert!(!bench.reads(5, 1, Hash(1)), "a failed write is over");
    assert!(!bench.reads(6, 2, Hash(2)));
    bench.written(7, BlockRange { first: 3, count: 1 }, 9);
    assert!(!bench.reads(8, 3, Hash(1)), "overwritten");
}

#[test]
fn an_unknown_write_may_come_late_until_the_reset() {
    let mut bench = strict();
    bench.write(1, BlockRange { first: 0, count: 2 }, 1, Persistence::Cached);
    bench.answer(1, Outcome::Unknown);
    assert!(bench.reads(2, 0, initial(0)));
    bench.written(3, BlockRange { first: 0, count: 2 }, 2);
    assert!(bench.reads(4, 0, Hash(2)));
    assert!(bench.reads(5, 0, Hash(1)), "done after all");
    bench.data.ended(CONTROLLER);
    assert!(bench.reads(6, 1, Hash(2)));
    assert!(!bench.reads(7, 1, Hash(1)), "nothing comes after the reset");
}

#[test]
fn a_repeated_write_may_be_seen_twice() {
    for repeated in [false, true] {
        let mut bench = strict();
        bench.write(1, ONE, 1, Persistence::Cached);
        assert!(bench.reads(2, 5, Hash(1)));
        bench.written(3, ONE, 3);
        assert!(bench.reads(4, 5, Hash(3)));
        if repeated {
            bench.data.repeated(request(1));
        }
        assert_eq!(bench.reads(5, 5, Hash(1)), repeated);
        bench.answer(1, Outcome::Done);
    }
}

#[test]
fn power_loss_without_a_cache_loses_nothing_completed() {
    let mut bench = strict();
    bench.written(1, ONE, 1);
    bench.data.power_lost(CONTROLLER);
    assert!(!bench.reads(2, 5, initial(5)));
    assert!(bench.reads(3, 5, Hash(1)));
}

#[test]
fn what_no_flush_covers_may_be_lost_and_stays_so() {
    for (first, second) in [(initial(5), Hash(1)), (Hash(1), Hash(2)), (Hash(2), initial(5))] {
        let mut bench = cached();
        bench.written(1, ONE, 1);
        bench.written(2, ONE, 2);
        assert!(!bench.reads(3, 5, Hash(1)), "the cache shows the latest");
        bench.data.power_lost(CONTROLLER);
        assert!(bench.reads(4, 5, first));
        assert!(!bench.reads(5, 5, second), "the loss left one content");
        bench.data.power_lost(CONTROLLER);
        assert!(bench.reads(6, 5, first));
        assert_eq!(bench.data.unjudged(), 0);
    }
}

#[test]
fn a_flush_covers_the_writes_answered_before_it() {
    let cases = [(initial(5), false), (Hash(1), false), (Hash(2), true), (Hash(3), true), (Hash(4), false)];
    for (content, allowed) in cases {
        let mut bench = cached();
        bench.written(1, ONE, 1);
        bench.written(2, ONE, 2);
        bench.flushed(3);
        bench.written(4, ONE, 3);
        bench.data.power_lost(CONTROLLER);
        assert_eq!(bench.reads(5, 5, content), allowed, "{content}");
    }
}

#[test]
fn a_flush_does_not_cover_what_was_under_way_or_its_own_failure() {
    let mut bench = cached();
    bench.write(1, ONE, 1, Persistence::Cached);
    bench.submit(2, Operation::Flush);
    bench.answer(1, Outcome::Done);
    bench.answer(2, Outcome::Done);
    bench.data.power_lost(CONTROLLER);
    assert!(bench.reads(3, 5, initial(5)));

    let mut bench = cached();
    bench.written(1, ONE, 1);
    bench.submit(2, Operation::Flush);
    bench.answer(2, Outcome::Failed);
    bench.data.power_lost(CONTROLLER);
    assert!(bench.reads(3, 5, initial(5)));
}

#[test]
fn a_forced_write_outlasts_the_loss() {
    let mut bench = cached();
    bench.written(1, ONE, 1);
    bench.write(2, ONE, 2, Persistence::Forced);
    bench.answer(2, Outcome::Done);
    bench.data.power_lost(CONTROLLER);
    assert!(!bench.reads(3, 5, Hash(1)));
    assert!(bench.reads(4, 5, Hash(2)));
}

#[test]
fn a_flush_of_all_namespaces_covers_each_of_one_controller_only() {
    let mut bench = cached();
    let rules =
        NamespaceRules { block_bytes: BLOCK_BYTES, discard: Discard::Zeroes, write_cache: WriteCache::Volatile };
    bench.data.namespace(1, NSID, rules, Box::new(initial));
    bench.written(1, ONE, 1);
    let write = Operation::Write { range: ONE, hashes: &[Hash(1)], persistence: Persistence::Cached };
    bench.data.submitted(request(2), 0, 1, NSID, write);
    bench.answer(2, Outcome::Done);
    bench.data.submitted(request(3), 0, CONTROLLER, u32::MAX, Operation::Flush);
    bench.answer(3, Outcome::Done);
    bench.data.power_lost(CONTROLLER);
    bench.data.power_lost(1);
    assert!(!bench.reads(4, 5, initial(5)));
    bench.data.submitted(request(5), 0, 1, NSID, Operation::Read(ONE));
    let before = bench.findings.counted();
    bench.answer(5, Outcome::Read(&[initial(5)]));
    assert_eq!(bench.findings.counted(), before);
}

#[test]
fn overwrites_beyond_the_bound_are_counted_not_judged() {
    let mut bench = cached();
    for content in 1..=1_000 {
        bench.written(content, ONE, content);
    }
    bench.data.power_lost(CONTROLLER);
    assert!(bench.reads(2_000, 5, Hash(3)), "long forgotten, but possible");
    assert_eq!(bench.data.unjudged(), 1);
    assert!(!bench.reads(2_001, 5, Hash(1_000)), "one content is left");
    bench.written(2_002, ONE, 7);
    bench.flushed(2_003);
    bench.data.power_lost(CONTROLLER);
    assert!(!bench.reads(2_004, 5, Hash(3)));
    assert!(bench.reads(2_005, 5, Hash(7)));
    assert_eq!(bench.data.unjudged(), 1);
}

#[test]
fn a_namespace_declared_again_begins_again() {
    let mut bench = strict();
    bench.written(1, ONE, 1);
    bench.submit(2, Operation::Read(ONE));
    bench.write(3, ONE, 3, Persistence::Cached);
    let rules = NamespaceRules { block_bytes: BLOCK_BYTES, discard: Discard::Zeroes, write_cache: WriteCache::None };
    bench.data.namespace(CONTROLLER, NSID, rules, Box::new(|_| zeroes()));
    bench.answer(2, Outcome::Failed);
    bench.answer(3, Outcome::Failed);
    assert!(!bench.reads(4, 5, Hash(1)));
    assert!(bench.reads(5, 5, zeroes()));
}

#[test]
fn memory_follows_the_blocks_and_not_the_run() {
    let mut bench = strict();
    for number in 0..100_000 {
        bench.written(number, BlockRange { first: number % 64, count: 4 }, number);
    }
    assert_eq!((bench.data.busy_blocks(), bench.data.in_flight()), (0, 0));
    let mut bench = cached();
    for number in 0..100_000 {
        bench.written(number, BlockRange { first: number % 64, count: 1 }, number);
    }
    assert_eq!(bench.data.busy_blocks(), 64);
    bench.flushed(100_000);
    for block in 0..64 {
        let latest = (0..100_000).rev().find(|number| number % 64 == block).unwrap();
        assert!(bench.reads(200_000, block, Hash(latest)));
    }
    assert_eq!(bench.data.busy_blocks(), 0);
}
