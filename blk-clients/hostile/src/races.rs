//! An entry changed after it was published: the server may act on either version, as a whole, checked; on nothing else.

use crate::attacker::{Attacker, Stuck};
use blk_api::ring::SLOTS;
use blk_client::{Entry, Segment, Status};
use platform::{Memory, Platform};

/// Changes between two looks for the completion.
const FLIPS: u32 = 64;
/// Requests for each pair of versions.
const REQUESTS: u32 = 8;

/// All races.
pub(crate) async fn run<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let honest = attacker.honest();
    let geometry = *attacker.session.geometry();
    let beyond = Entry { lba: geometry.blocks, ..honest };
    let mut outside = honest;
    if let Some(segment) = outside.segments.first_mut() {
        *segment = Segment { offset: geometry.window_bytes as u32, len: geometry.block_bytes };
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
        race(attacker, name, &honest, &dishonest).await?;
    }
    Ok(())
}

async fn race<P: Platform>(
    attacker: &mut Attacker<'_, P>,
    name: &str,
    honest: &Entry,
    dishonest: &Entry,
) -> Result<(), Stuck> {
    let (mut taken, mut refused) = (0u32, 0u32);
    for request in 0..REQUESTS {
        attacker.set_canary()?;
        // Half of the requests are published honest, half dishonest: the change comes when the server may look.
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
                attacker.session.release()?;
                break completed.status();
            }
            attacker.session.wait().await?;
        };
        // An honest read writes the first block and nothing behind it; a refused one nothing.
        let untouched_from = usize::from(status == Some(Status::Success));
        if !attacker.canary_intact(untouched_from)? || status.is_none() {
            attacker.tell(name, false, format_args!("nothing: the window was written beyond the request"));
            return Ok(());
        }
        let counter = if status == Some(Status::Success) { &mut taken } else { &mut refused };
        *counter = counter.saturating_add(1);
    }
    let words = format_args!("the server's private copy: {taken} as the honest one, {refused} refused");
    attacker.tell(name, true, words);
    Ok(())
}

/// Where the slot of ring index `index` lies.
fn slot(index: u32, entries: u32) -> usize {
    let slot = index & entries.wrapping_sub(1);
    (slot as usize).saturating_mul(size_of::<Entry>()).saturating_add(SLOTS)
}
