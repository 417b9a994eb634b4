//! Completion queue entries: a controller posts any entries while clients put any entries on their rings.
//!
//! The law: the server continues. Data moves between a session's own blocks and its own window and nowhere else. The
//! controller never sees a command or a doorbell that a sound server does not send. Every call is answered, and a closed
//! session leaves no page of its window in the device's reach.

use super::support::{Bytes, Setup, System, entry, session};
use super::window;
use crate::target::{Subject, Target};
use arbitrary::{Result, Unstructured};
use blk_api::config::Completion;
use blk_api::request::{Entry, Opcode, Segment};
use blk_api::ring::{CONSUMED, PRODUCED, SLOTS};
use blk_api::session::{CLOSE, OPEN};
use nvme_spec::Cqe;
use platform::Memory;
use std::ops::Range;
use zerocopy::IntoBytes;

/// The target.
pub const TARGET: Target = Target { name: "completions", law, seeds };

/// Blocks of each of the two sessions.
const BLOCKS: u64 = 40;
/// Steps of one input at most: too few to make the server give up on the controller for good.
const STEPS: usize = 64;

fn law(input: &[u8], subject: Subject) {
    let mut rest = Unstructured::new(input);
    let mut setup = Setup { sessions: vec![session("first", 0), session("second", BLOCKS)], ..Setup::default() };
    setup.shape.blocks = 2 * BLOCKS;
    for (number, tenant) in (0..).zip(&mut setup.sessions) {
        *tenant = tenant.clone().with(vec![blk_api::extent::Extent::new(number * BLOCKS, BLOCKS)]);
    }
    if rest.arbitrary().unwrap_or(false) {
        setup.sessions[1].config.completion = Completion::Hybrid;
    }
    let mut system = System::start(setup);
    for index in 0..2 {
        assert!(system.open(index).is_ok(), "a sound session is opened");
    }
    let windows = [0, 1].map(|index| window(&system, index));
    system.controller(|controller, _| controller.hold = true);
    for _ in 0..STEPS {
        if rest.is_empty() || take(&mut system, &mut rest, subject).is_err() {
            break;
        }
    }
    // Sessions that were not expelled still work.
    system.controller(|controller, bus| {
        controller.hold = false;
        controller.finish(bus, usize::MAX);
    });
    system.pass(1);
    assert_apart(&system, &windows);
    let calls = [1, 2].map(|badge| system.begin_call(badge, CLOSE));
    system.pass(1);
    assert!(calls.into_iter().all(|call| system.answer(call).is_some()), "a call without an answer");
    assert_eq!(
        [0, 1].map(|index| system.mapped_pages(index)),
        [0, 0],
        "pages of a closed session in the device's reach"
    );
}

/// Takes a step of a client or of the controller.
fn take(system: &mut System, input: &mut Unstructured<'_>, subject: Subject) -> Result<()> {
    let index = usize::from(input.arbitrary::<bool>()?);
    match input.int_in_range(0..=9u8)? {
        0 => publish(system, index, &input.arbitrary::<[u8; 64]>()?),
        1 => {
            let code = input.int_in_range(0..=6)?;
            publish(system, index, nearly_sound(code, input)?.as_bytes());
        }
        2 => {
            let lba = u64::from(input.int_in_range(0..=BLOCKS as u8)?);
            let opcode = if input.arbitrary()? { Opcode::Read } else { Opcode::Write };
            publish(system, index, entry(opcode, lba, input.int_in_range(1..=40)?, 0).as_bytes());
        }
        3 => {
            system.clients[index].ring_client.put(PRODUCED, &input.arbitrary::<u32>()?.to_le_bytes());
            system.ring(index);
        }
        4 => system.clients[index].ring_client.put(CONSUMED, &input.arbitrary::<u32>()?.to_le_bytes()),
        5 => {
            let count = input.int_in_range(0..=9)?;
            system.controller(|controller, bus| controller.finish(bus, count));
        }
        6 => forge(system, input, subject)?,
        7 => {
            system.begin_call(index as u64 + 1, OPEN);
            let _ = system.install(index);
        }
        8 => drop(system.begin_call(input.int_in_range(0..=3)?, input.int_in_range(0..=5)?)),
        _ => system.tick(),
    }
    Ok(())
}

/// The controller posts an entry: any words, or a sound one with one field changed.
fn forge(system: &mut System, input: &mut Unstructured<'_>, subject: Subject) -> Result<()> {
    let queue = input.int_in_range(0..=2)?;
    let (words, kind) = (input.arbitrary::<[u32; 4]>()?, input.int_in_range(0..=4u8)?);
    system.controller(|controller, bus| {
        controller.forge(bus, queue, |cqe| {
            let phase = cqe.dw3.phase();
            match kind {
                0 => *cqe = Cqe::from_words(words),
                1 => {
                    *cqe = Cqe::from_words(words);
                    cqe.dw3.set_phase(phase);
                }
                2 => cqe.dw3.set_cid(words[0] as u16),
                3 => cqe.dw2.set_sqhd(words[0] as u16),
                _ => cqe.dw2.set_sqid(words[0] as u16),
            }
        });
        // The planted defect: a command that an earlier entry ended is submitted once more, into memory that belongs to no
        // session.
        if subject == Subject::Planted && kind == 3 && words[0] & 3 == 3 {
            controller.moved.push((1, 0, 512));
        }
    });
    Ok(())
}

/// Puts an entry on the ring behind those that are there, and publishes it.
fn publish(system: &mut System, index: usize, slot: &[u8]) {
    let ring = &system.clients[index].ring_client;
    let tail: u32 = ring.read(PRODUCED).unwrap_or_default();
    ring.put(SLOTS + (tail % 16) as usize * 64, slot);
    ring.put(PRODUCED, &tail.wrapping_add(1).to_le_bytes());
    system.ring(index);
}

fn nearly_sound(opcode: u8, input: &mut Unstructured<'_>) -> Result<Entry> {
    let (lba, blocks, offset) =
        (input.arbitrary::<u64>()?, input.int_in_range(0..=700u32)?, input.arbitrary::<u32>()? & !3);
    let segment_count = input.int_in_range(0..=2u8)?;
    let mut entry = Entry { opcode, lba, blocks, segment_count, ..Entry::default() };
    let bytes = blocks * 512;
    let each = bytes.checked_div(segment_count.into()).unwrap_or(0) & !511;
    entry.segments = [Segment { offset, len: each }; 5];
    entry.segments[0].len = bytes.wrapping_sub(each * u32::from(segment_count.saturating_sub(1)));
    Ok(entry)
}

/// Checks that all data went between a session's blocks and its window. The controller's own complaints are checked in every
/// step.
fn assert_apart(system: &System, windows: &[Range<u64>; 2]) {
    let state = system.world.state();
    for (queue, iova, len) in &state.controller.moved {
        let window = &windows[usize::from(*queue) - 1];
        let inside = window.contains(iova) && iova + *len as u64 <= window.end;
        assert!(inside, "queue {queue} moved {len} bytes at {iova:#x}");
    }
    for (queue, blocks) in &state.controller.named {
        let first = u64::from(queue - 1) * BLOCKS;
        assert!(first <= blocks.start && blocks.end <= first + BLOCKS, "queue {queue} named {blocks:?}");
    }
}

/// Reads and writes, some completed, and a forged entry: as [`take`] reads them. Numbers in ranges are read as they are.
fn seeds() -> Vec<Vec<u8>> {
    let steps: [&[u8]; 5] = [&[0, 2, 3, 1, 8], &[1, 2, 5, 0, 20], &[0, 5, 9], &[0, 9], &[0, 7]];
    let all = steps.concat();
    vec![[&[0], &all[..]].concat(), [&[1], &all[..], &all[..]].concat()]
}
