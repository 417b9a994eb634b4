//! The request door: any 64 bytes on a ring, against any bounds of a session.
//!
//! The law: `Entry::check` accepts an entry exactly when an oracle finds no error in it. It refuses it otherwise with one of
//! the statuses that the oracle finds, and an accepted entry is unchanged. The oracle is written apart, in arithmetic of 128
//! bits, where no sum of the door's numbers can wrap.

use crate::target::{Subject, Target};
use arbitrary::{Result, Unstructured};
use blk_api::Status;
use blk_api::request::{Bounds, Entry, Request, Segment};
use zerocopy::{FromBytes, IntoBytes};

/// The target.
pub const TARGET: Target = Target { name: "door", law, seeds };

const ENTRY: usize = size_of::<Entry>();

fn law(input: &[u8], subject: Subject) {
    let mut rest = Unstructured::new(input);
    let Ok(bounds) = bounds(&mut rest) else { return };
    for bytes in rest.take_rest().chunks_exact(ENTRY) {
        let Ok(entry) = Entry::read_from_bytes(bytes) else { continue };
        holds(&entry, &bounds, subject);
    }
}

fn holds(entry: &Entry, bounds: &Bounds, subject: Subject) {
    let outcome = match subject {
        Subject::Real => entry.check(bounds),
        Subject::Planted => narrow(entry, bounds),
    };
    let wrong = oracle(entry, bounds);
    match outcome {
        Ok(request) => {
            assert!(wrong.is_empty(), "accepted, although {wrong:?}: {entry:?} under {bounds:?}");
            assert_same(entry, &request);
        }
        Err(status) => {
            assert!(wrong.contains(&status), "refused as {status:?}, not {wrong:?}: {entry:?} under {bounds:?}")
        }
    }
}

fn assert_same(entry: &Entry, request: &Request) {
    let (lba, blocks) = request.access().map_or((0, 0), |access| (access.lba, access.blocks));
    let named = usize::from(entry.segment_count);
    let is_same = (request.opcode() as u8, lba, blocks) == (entry.opcode, entry.lba, entry.blocks);
    assert!(is_same && request.ranges() == &entry.segments[..named], "{request:?} is not {entry:?}");
}

/// All errors of an entry.
fn oracle(entry: &Entry, bounds: &Bounds) -> Vec<Status> {
    const READ: u8 = 1;
    const WRITE: u8 = 2;
    const FLUSH: u8 = 3;
    const VERIFY: u8 = 6;
    const COMPARE: u8 = 7;
    let (lba, blocks) = (u128::from(entry.lba), u128::from(entry.blocks));
    let (window, block) = (u128::from(bounds.window_bytes), 1u128 << bounds.block_shift);
    let moves = [READ, WRITE, COMPARE].contains(&entry.opcode);
    let known = (READ..=COMPARE).contains(&entry.opcode);
    let named = usize::from(entry.segment_count);
    let mut wrong = Vec::new();
    let mut is = |wrongly: bool, status| wrong.extend(wrongly.then_some(status));
    is(!known || entry.reserved != 0 || named > 5 || moves != (named > 0), Status::InvalidRequest);
    is(entry.opcode == FLUSH && (lba != 0 || blocks != 0), Status::InvalidRequest);
    if known && entry.opcode != FLUSH {
        let changes = ![READ, VERIFY, COMPARE].contains(&entry.opcode);
        is(changes && !bounds.writable, Status::ReadOnly);
        is(blocks == 0 || lba + blocks > u128::from(bounds.blocks), Status::OutsideExtents);
        is(blocks > u128::from(bounds.max_blocks), Status::TooLarge);
    }
    if moves {
        let ranges: Vec<_> =
            entry.segments.iter().take(named).map(|s| (u128::from(s.offset), u128::from(s.len))).collect();
        is(ranges.iter().any(|(offset, len)| offset % 4 != 0 || offset + len > window), Status::OutsideWindow);
        let odd = ranges.iter().any(|(_, len)| *len == 0 || len % block != 0);
        is(odd || ranges.iter().map(|(_, len)| len).sum::<u128>() != blocks * block, Status::LengthMismatch);
    }
    wrong
}

/// The planted defect: a door that adds offset and length in 32 bits.
fn narrow(entry: &Entry, bounds: &Bounds) -> core::result::Result<Request, Status> {
    let wraps = |s: &Segment| u64::from(s.offset.wrapping_add(s.len)) <= bounds.window_bytes;
    let wide = Bounds { window_bytes: u64::MAX, ..bounds.clone() };
    if entry.segments.iter().take(usize::from(entry.segment_count)).all(wraps) {
        entry.check(&wide)
    } else {
        entry.check(bounds)
    }
}

fn bounds(input: &mut Unstructured<'_>) -> Result<Bounds> {
    Ok(Bounds {
        block_shift: input.int_in_range(9..=12)?,
        writable: input.arbitrary()?,
        max_blocks: input.arbitrary()?,
        window_bytes: input.arbitrary()?,
        blocks: input.arbitrary()?,
    })
}

fn seeds() -> Vec<Vec<u8>> {
    let entry = |opcode, segment_count, lba, blocks, segments| Entry {
        opcode,
        segment_count,
        reserved: 0,
        blocks,
        lba,
        user_data: 7,
        segments,
    };
    let none = [Segment::default(); 5];
    let mut one = none;
    one[0] = Segment { offset: 512, len: 4096 };
    let all = [0u32, 1, 2, 3, 4].map(|n| Segment { offset: n * 1024, len: 512 });
    let entries = [
        entry(1, 1, 4, 8, one),
        entry(2, 5, 0, 5, all),
        entry(3, 0, 0, 0, none),
        entry(4, 0, 100, 28, none),
        entry(5, 0, 0, 64, none),
    ];
    // Block size, rights, blocks a request, window, blocks of the session: as `bounds` reads them.
    let mut seed = vec![0, 1];
    seed.extend(64u32.to_le_bytes());
    seed.extend(65536u64.to_le_bytes());
    seed.extend(128u64.to_le_bytes());
    entries.iter().for_each(|entry| seed.extend(entry.as_bytes()));
    vec![seed]
}
