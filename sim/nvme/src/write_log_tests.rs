use proptest::prelude::*;

use super::*;
use crate::store::Zeroes;

const BLOCK: u64 = 512;
const BLOCKS: u64 = 32;

fn times(programmed_ns: u64, durable_ns: u64) -> Times {
    Times { written_ns: 0, programmed_ns, durable_ns }
}

/// A write of the random histories: blocks `start..start + count`, all bytes `tag`; zeroes when `tag` is 0.
#[derive(Clone, Copy, Debug)]
struct Write {
    start: u64,
    count: u64,
    tag: u8,
    durable: bool,
}

fn writes() -> impl Strategy<Value = Vec<Write>> {
    let write = (0..BLOCKS, 1..12_u64, any::<bool>(), any::<bool>()).prop_map(|(start, count, zeroes, durable)| {
        Write { start, count: count.min(BLOCKS - start), tag: u8::from(!zeroes), durable }
    });
    proptest::collection::vec(write, 1..30).prop_map(|mut writes| {
        for (tag, write) in (1..).zip(&mut writes) {
            write.tag *= tag;
        }
        writes
    })
}

fn do_all(log: &mut WriteLog, store: &mut Store, writes: &[Write], unit: u64) {
    for write in writes {
        let safe = if write.durable { times(5, 5) } else { times(5, 1_000) };
        if write.tag == 0 {
            let end = write.start + write.count;
            log.zero(store, write.start * BLOCK..end * BLOCK, unit * BLOCK, safe);
        } else {
            let (offset, bytes) = (write.start * BLOCK, vec![write.tag; (write.count * BLOCK) as usize]);
            let (whole, rest) = bytes.as_chunks();
            let pages: Vec<_> = whole.iter().map(SharedPage::new).collect();
            let is_whole = offset.is_multiple_of(CHUNK as u64) && rest.is_empty();
            log.write(store, offset, if is_whole { Payload::Pages(&pages) } else { Payload::Bytes(&bytes) }, safe);
        }
    }
}

fn block(store: &Store, number: u64) -> u8 {
    let mut bytes = [0; BLOCK as usize];
    store.read(number * BLOCK, &mut bytes);
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a block is never torn");
    bytes[0]
}

/// Values that a block may hold after the loss: that of the last durable write, or of any later write.
fn allowed(writes: &[Write], number: u64) -> Vec<u8> {
    let here = writes.iter().filter(|write| (write.start..write.start + write.count).contains(&number));
    let mut allowed = vec![0];
    for write in here {
        if write.durable {
            allowed.clear();
        }
        allowed.push(write.tag);
    }
    allowed
}

proptest! {
    #[test]
    fn power_loss_keeps_what_was_durable(
        writes in writes(), unit in 1..4_u64, seed in any::<u64>(),
    ) {
        let mut store = Store::new(Box::new(Zeroes));
        let mut log = WriteLog::default();
        do_all(&mut log, &mut store, &writes, unit);
        log.power_loss(&mut store, unit * BLOCK, 10, &mut Generator::new(seed));
        for number in 0..BLOCKS {
            prop_assert!(allowed(&writes, number).contains(&block(&store, number)), "block {}", number);
        }
    }

    #[test]
    fn after_a_flush_a_power_loss_takes_nothing(writes in writes(), seed in any::<u64>()) {
        let mut store = Store::new(Box::new(Zeroes));
        let mut log = WriteLog::default();
        do_all(&mut log, &mut store, &writes, 1);
        let before: Vec<u8> = (0..BLOCKS).map(|number| block(&store, number)).collect();
        let done_ns = log.flush(0);
        prop_assert_eq!(done_ns, 5);
        log.power_loss(&mut store, BLOCK, done_ns, &mut Generator::new(seed));
        let after: Vec<u8> = (0..BLOCKS).map(|number| block(&store, number)).collect();
        prop_assert_eq!(before, after);
    }

    #[test]
    fn a_write_no_larger_than_the_atomic_unit_is_kept_or_lost_whole(seed in any::<u64>(), zeroes in any::<bool>()) {
        let mut store = Store::new(Box::new(Zeroes));
        let mut log = WriteLog::default();
        log.write(&mut store, 0, Payload::Bytes(&vec![1; 8192]), times(0, 0));
        if zeroes {
            log.zero(&mut store, 512..8192, 8192, times(5, 1_000));
        } else {
            log.write(&mut store, 512, Payload::Bytes(&vec![0; 7680]), times(5, 1_000));
        }
        log.power_loss(&mut store, 8192, 10, &mut Generator::new(seed));
        let left: Vec<u8> = (1..16).map(|number| block(&store, number)).collect();
        prop_assert!(left.iter().all(|tag| *tag == left[0]), "{:?}", left);
    }
}

#[test]
fn seeds_lose_everything_nothing_and_something() {
    let mut kept = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let mut store = Store::new(Box::new(Zeroes));
        let mut log = WriteLog::default();
        for number in 0..8 {
            log.write(&mut store, number * BLOCK, Payload::Bytes(&vec![1; BLOCK as usize]), times(5, 1_000));
        }
        log.power_loss(&mut store, BLOCK, 10, &mut Generator::new(seed));
        kept.insert((0..8).map(|number| u32::from(block(&store, number))).sum::<u32>());
    }
    assert!(kept.contains(&0) && kept.contains(&8) && kept.len() > 4, "{kept:?}");
}

#[test]
fn a_full_cache_makes_room_by_its_oldest_data() {
    let mut store = Store::new(Box::new(Zeroes));
    let mut log = WriteLog::default();
    log.write(&mut store, 0, Payload::Pages(&[SharedPage::zeroes()]), times(100, 10_000));
    log.write(&mut store, 4096, Payload::Bytes(&vec![2; 4096]), times(200, 10_000));
    assert_eq!(log.room_ns(4096, 12288, 0), 0);
    assert_eq!(log.room_ns(4096, 8192, 0), 100);
    assert_eq!(log.room_ns(8192, 8192, 0), 200);
    assert_eq!(log.room_ns(4096, 8192, 150), 150, "the first has left by now");
}

#[test]
fn what_is_durable_is_forgotten_and_its_memory_used_again() {
    let mut store = Store::new(Box::new(Zeroes));
    let mut log = WriteLog::default();
    for round in 0..1_000 {
        let times = Times { written_ns: round, programmed_ns: round, durable_ns: round };
        log.write(&mut store, 0, Payload::Pages(&[SharedPage::zeroes()]), times);
    }
    assert_eq!((log.entries.len(), log.bytes), (1, 4096));
    assert!(log.spare.len() <= 1);
}

#[test]
fn zeroed_ranges_take_room_in_the_cache() {
    let (mut log, mut store) = (WriteLog::default(), Store::new(Box::new(Zeroes)));
    log.zero(&mut store, 0..BLOCK, BLOCK, times(700, 1_000));
    log.zero(&mut store, BLOCK..20 * BLOCK, BLOCK, times(900, 1_000));
    assert_eq!(log.room_ns(NOTED_BYTES, 3 * NOTED_BYTES, 0), 0);
    assert_eq!(log.room_ns(NOTED_BYTES, 2 * NOTED_BYTES, 0), 700);
    assert_eq!(log.room_ns(NOTED_BYTES, NOTED_BYTES, 0), 900);
}
