//! Changes an entry after it was published: the server may act on either version, as a whole and checked, and on nothing
//! else.
//!
//! The first own block has a mark. A request that succeeds must have been the honest version, so it moved exactly the mark
//! to exactly its place. Another block, another place or more bytes show that the server read the entry twice.

use crate::attacker::{Attacker, CHUNK, Stuck};
use alloc::vec;
use alloc::vec::Vec;
use blk_api::ring::SLOTS;
use blk_client::{Entry, Opcode, Status};
use platform::{Memory, Platform};
use workload::attacks;

/// Changes between two polls for the completion.
const FLIPS: u32 = 64;
/// Requests for each pair of versions.
const REQUESTS: u32 = 8;

/// The byte of which the mark consists.
const MARK: u8 = 0x3d;

/// Runs all races.
pub(crate) async fn run<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    attacker.verdicts.begin(&attacks::RACES);
    let mark = mark(attacker).await?;
    let honest = attacker.honest();
    let geometry = *attacker.session.geometry();
    let beyond = Entry { lba: geometry.blocks, ..honest };
    let mut outside = honest;
    if let Some(segment) = outside.segments.first_mut() {
        // Across the window's end by the smallest amount: data that land there show at the end of the window.
        let end = geometry.window_bytes as u32;
        segment.offset = end.wrapping_sub(geometry.block_bytes).wrapping_add(4);
    }
    let mut longer = honest;
    if let Some(segment) = longer.segments.first_mut() {
        segment.len = geometry.block_bytes.saturating_mul(2);
    }
    let races = [
        ("change the block after publishing", beyond),
        ("change the offset after publishing", outside),
        ("change the length after publishing", longer),
        ("change the operation after publishing", Entry { opcode: u8::MAX, ..honest }),
    ];
    for (name, dishonest) in races {
        race(attacker, name, &mark, &honest, &dishonest).await?;
    }
    Ok(())
}

async fn race<P: Platform>(
    attacker: &mut Attacker<'_, P>,
    name: &str,
    mark: &[u8],
    honest: &Entry,
    dishonest: &Entry,
) -> Result<(), Stuck> {
    let (mut taken, mut refused) = (0u32, 0u32);
    for request in 0..REQUESTS {
        attacker.set_canary()?;
        attacker.set_last_canary()?;
        // Half of the requests are published honest, half dishonest: the change comes when the server may read.
        let (published, other) = if request.is_multiple_of(2) { (dishonest, honest) } else { (honest, dishonest) };
        let place = slot(attacker.produced(), attacker.session.options().ring_entries);
        if !attacker.submit(published)? {
            return Err(Stuck::Full);
        }
        attacker.session.publish()?;
        let status = loop {
            for _ in 0..FLIPS {
                attacker.ring.write(place, other)?;
                attacker.ring.write(place, published)?;
            }
            if let Some(completed) = attacker.session.complete()? {
                attacker.session.publish_taken()?;
                break completed.status();
            }
            attacker.wait().await?;
        };
        // An honest read writes the first block of the window and no byte behind it; a refused one writes nothing.
        let untouched_from = usize::from(status == Some(Status::Success));
        let intact = attacker.canary_intact(untouched_from)? && attacker.last_canary_intact()?;
        if !intact || status.is_none() {
            attacker.report(name, false, format_args!("nothing: the window was written beyond the request"));
            return Ok(());
        }
        if status == Some(Status::Success) && !brought(attacker, mark)? {
            attacker.report(name, false, format_args!("nothing: another block came, or came elsewhere"));
            return Ok(());
        }
        let counter = if status == Some(Status::Success) { &mut taken } else { &mut refused };
        *counter = counter.saturating_add(1);
    }
    let words = format_args!("the server's private copy: {taken} as the honest one, {refused} refused");
    attacker.report(name, true, words);
    Ok(())
}

/// Marks the first own block and returns its content. The content of a read-only block is its mark.
async fn mark<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<Vec<u8>, Stuck> {
    let mut block = vec![MARK; attacker.session.geometry().block_bytes as usize];
    if attacker.session.geometry().writable != 0 {
        attacker.session.window().write_bytes(0, &block)?;
        let write = Entry { opcode: Opcode::Write as u8, ..attacker.honest() };
        let written = attacker.outcome(&write).await?;
        if written.status != Status::Success as u16 {
            return Err(Stuck::Honest(written.status));
        }
    }
    attacker.set_canary()?;
    attacker.honest_read().await?;
    if attacker.session.geometry().writable != 0 && !brought(attacker, &block)? {
        return Err(Stuck::NoMark);
    }
    attacker.session.window().read_bytes(0, &mut block)?;
    Ok(block)
}

/// Whether the first block of the window equals `mark`.
fn brought<P: Platform>(attacker: &Attacker<'_, P>, mark: &[u8]) -> Result<bool, Stuck> {
    let mut offset = 0usize;
    for expected in mark.chunks(CHUNK) {
        let mut buffer = [0; CHUNK];
        let Some(chunk) = buffer.get_mut(..expected.len()) else { return Ok(false) };
        attacker.session.window().read_bytes(offset, chunk)?;
        if chunk != expected {
            return Ok(false);
        }
        offset = offset.saturating_add(CHUNK);
    }
    Ok(true)
}

/// Returns the offset of the slot of ring index `index`.
fn slot(index: u32, entries: u32) -> usize {
    let slot = index & entries.wrapping_sub(1);
    (slot as usize).saturating_mul(size_of::<Entry>()).saturating_add(SLOTS)
}
