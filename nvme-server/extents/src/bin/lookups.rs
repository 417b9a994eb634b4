//! A number of lookups, to have their instructions counted.
//!
//! ```text
//! cargo build --release -p extent-table --bin lookups
//! valgrind --tool=callgrind --toggle-collect='lookups::locate' target/release/lookups 16384 1000000
//! ```
//!
//! Callgrind's count, divided by the lookups, is the cost of one lookup as a call of its own. Without the option, a second
//! run with 0 lookups counts everything that is not lookups. The blocks are spread without pattern over all records of one
//! session, and every lookup succeeds.

#![forbid(unsafe_code)]

use extent_table::{ExtentTable, Located, Merging, Miss, Record, Right, Rights};
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

/// The most lookups.
const MOST: u64 = 1 << 20;

fn main() -> ExitCode {
    let arguments: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let [records, lookups @ 0..=MOST] = arguments[..] else {
        eprintln!("usage: lookups RECORDS LOOKUPS, with at most {MOST} lookups");
        return ExitCode::FAILURE;
    };
    let Some(mut table) = table(records) else {
        eprintln!("{records} records are none, or too many");
        return ExitCode::FAILURE;
    };
    let blocks: Vec<u64> = (0..MOST).map(|turn| spread(turn) % records * 16 + turn % 8).collect();
    let (asked, _) = blocks.split_at(usize::try_from(lookups).unwrap_or(0));
    let begin = Instant::now();
    let found = asked.iter().filter(|block| locate(&mut table, black_box(0), **block, black_box(1)).is_ok()).count();
    if lookups > 0 {
        println!("each takes {:.1} ns", begin.elapsed().as_nanos() as f64 / lookups as f64);
    }
    println!("{found} of {lookups} blocks found among {records} records");
    if found as u64 == lookups { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A lookup as a call, with everything in it that the compiler could leave out where it knows the surroundings.
#[inline(never)]
fn locate(table: &mut ExtentTable, session: usize, block: u64, blocks: u64) -> Result<Located, Miss> {
    table.locate(session, block, blocks, Right::Read)
}

/// A table with so many records of one session, 8 blocks each and 8 between them, installed in an order without
/// pattern.
fn table(records: u64) -> Option<ExtentTable> {
    let mut table = ExtentTable::new(usize::try_from(records).ok()?, 1, Merging::On).ok()?;
    let mut order: Vec<u64> = (0..records).collect();
    order.sort_by_key(|index| spread(*index));
    for index in order {
        table.install(0, Record::new(index * 16, index * 24, 8, Rights::READ).ok()?).ok()?;
    }
    Some(table)
}

/// A number without pattern for each: twice multiplied, with the upper bits mixed into the lower ones.
const fn spread(turn: u64) -> u64 {
    let mixed = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 32)
}
