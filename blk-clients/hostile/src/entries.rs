//! Requests with invalid words: other tenants' blocks, numbers at the limits of arithmetic, ranges outside the window.

use crate::attacker::{Attacker, Stuck};
use crate::verdicts::sentence;
use alloc::vec;
use blk_client::{Entry, Opcode, Segment};
use platform::Platform;
use workload::{Hostile, attacks};

/// Runs all attacks of this module.
pub(crate) async fn run<P: Platform>(attacker: &mut Attacker<'_, P>, hostile: &Hostile) -> Result<(), Stuck> {
    attacker.verdicts.begin(&attacks::REQUESTS);
    foreign_blocks(attacker, hostile).await?;
    for lie in LIES {
        let mut entry = attacker.honest();
        let facts = Facts {
            blocks: attacker.session.geometry().blocks,
            block_bytes: attacker.session.geometry().block_bytes,
            max_blocks: attacker.session.geometry().max_blocks,
            // A window is below 4 GiB: the session checked this at opening.
            window_bytes: attacker.session.geometry().window_bytes as u32,
        };
        (lie.apply)(&mut entry, &facts);
        attacker.must_be_refused(lie.name, &entry).await?;
    }
    Ok(())
}

/// Names other tenants' blocks, by numbers that would reach them if the server added without checks.
async fn foreign_blocks<P: Platform>(attacker: &mut Attacker<'_, P>, hostile: &Hostile) -> Result<(), Stuck> {
    if hostile.foreign_blocks == 0 {
        return Ok(());
    }
    let Hostile { foreign_first_block: first, foreign_blocks: blocks, .. } = *hostile;
    let own = attacker.session.geometry().blocks;
    let middle = first.wrapping_add(blocks >> 1);
    // Before our own extent this wraps around, on purpose.
    let relative = |block: u64| block.wrapping_sub(attacker.first_block);
    let mut places = vec![
        (relative(first), sentence(format_args!("block {first}, another tenant's"))),
        (relative(middle), sentence(format_args!("block {middle}, another tenant's"))),
        (first, sentence(format_args!("block {first} of its own numbering"))),
    ];
    places.dedup_by_key(|(lba, _)| *lba);
    places.retain(|(lba, _)| *lba >= own);
    let data = attacker.honest();
    let dataless = Entry { segment_count: 0, segments: Default::default(), ..data };
    let ways = [
        ("read", Opcode::Read, data),
        ("write", Opcode::Write, data),
        ("zero", Opcode::WriteZeroes, dataless),
        ("discard", Opcode::Discard, dataless),
        ("verify", Opcode::Verify, dataless),
        ("compare", Opcode::Compare, data),
    ];
    for (lba, place) in &places {
        for (verb, opcode, entry) in ways {
            let entry = Entry { opcode: opcode as u8, lba: *lba, ..entry };
            attacker.must_be_refused(&sentence(format_args!("{verb} {place}")), &entry).await?;
        }
    }
    Ok(())
}

/// Properties of the session that the invalid requests use.
struct Facts {
    blocks: u64,
    block_bytes: u32,
    max_blocks: u32,
    window_bytes: u32,
}

/// An invalid word of an otherwise valid read.
struct Lie {
    name: &'static str,
    apply: fn(&mut Entry, &Facts),
}

const fn lie(name: &'static str, apply: fn(&mut Entry, &Facts)) -> Lie {
    Lie { name, apply }
}

/// Changes the first range.
fn first(entry: &mut Entry, change: impl FnOnce(&mut Segment)) {
    if let Some(segment) = entry.segments.first_mut() {
        change(segment);
    }
}

const LIES: &[Lie] = &[
    lie("read the block behind the last", |e, f| e.lba = f.blocks),
    lie("read across the end of the extents", |e, f| {
        e.lba = f.blocks.saturating_sub(1);
        e.blocks = 2;
        first(e, |s| s.len = f.block_bytes.saturating_mul(2));
    }),
    lie("lba of all ones", |e, _| e.lba = u64::MAX),
    lie("lba and blocks that wrap to 0", |e, f| {
        e.lba = u64::MAX;
        e.blocks = 2;
        first(e, |s| s.len = f.block_bytes.saturating_mul(2));
    }),
    lie("lba whose byte address wraps to ours", |e, f| {
        e.lba = (u64::MAX >> f.block_bytes.trailing_zeros()).wrapping_add(1)
    }),
    lie("lba with the sign bit", |e, _| e.lba = 1 << 63),
    lie("no blocks", |e, _| e.blocks = 0),
    lie("blocks of all ones", |e, _| e.blocks = u32::MAX),
    lie("more blocks than a request may have", |e, f| e.blocks = f.max_blocks.saturating_add(1)),
    lie("blocks whose bytes wrap 32 bits", |e, f| {
        e.blocks = (u32::MAX >> f.block_bytes.trailing_zeros()).wrapping_add(2)
    }),
    lie("more blocks than the range holds", |e, _| e.blocks = 2),
    lie("a range longer than the blocks", |e, f| first(e, |s| s.len = f.block_bytes.saturating_mul(2))),
    lie("a range of no bytes", |e, _| first(e, |s| s.len = 0)),
    lie("a range of all ones", |e, _| first(e, |s| s.len = u32::MAX)),
    lie("a range of part of a block", |e, f| first(e, |s| s.len = f.block_bytes.wrapping_sub(4))),
    lie("an offset behind the window", |e, f| first(e, |s| s.offset = f.window_bytes)),
    lie("a range across the window's end", |e, f| {
        first(e, |s| s.offset = f.window_bytes.wrapping_sub(f.block_bytes).wrapping_add(4));
    }),
    lie("offset and length that wrap 32 bits", |e, f| first(e, |s| s.offset = 0u32.wrapping_sub(f.block_bytes))),
    lie("an offset of all ones", |e, _| first(e, |s| s.offset = u32::MAX)),
    lie("an offset not aligned to 4", |e, _| first(e, |s| s.offset = 2)),
    lie("an offset aligned to nothing", |e, _| first(e, |s| s.offset = 1)),
    lie("a second range outside the window", |e, f| {
        (e.segment_count, e.blocks) = (2, 2);
        if let Some(second) = e.segments.get_mut(1) {
            *second = Segment { offset: f.window_bytes, len: f.block_bytes };
        }
    }),
    lie("more ranges than an entry has", |e, _| e.segment_count = 6),
    lie("255 ranges", |e, _| e.segment_count = u8::MAX),
    lie("a read without a range", |e, _| e.segment_count = 0),
    lie("a flush with a range", |e, _| (e.opcode, e.blocks) = (Opcode::Flush as u8, 0)),
    lie("a flush with blocks", |e, _| (e.opcode, e.segment_count) = (Opcode::Flush as u8, 0)),
    lie("a discard with a range", |e, _| e.opcode = Opcode::Discard as u8),
    lie("a verify with a range", |e, _| e.opcode = Opcode::Verify as u8),
    lie("a compare without a range", |e, _| (e.opcode, e.segment_count) = (Opcode::Compare as u8, 0)),
    lie("operation 0", |e, _| e.opcode = 0),
    lie("the operation after the last", |e, _| e.opcode = Opcode::UNUSED),
    lie("operation 255", |e, _| e.opcode = u8::MAX),
    lie("a reserved field that is set", |e, _| e.reserved = 1),
];
