//! Arbitrary ring contents from clients and arbitrary completions from the controller: the server goes on, and data moves
//! only between a session's own blocks and its own window.

use crate::support::{Bytes, Setup, System, WINDOW};
use blk_api::config::Completion;
use blk_api::ring::{CONSUMED, PRODUCED, SLOTS};
use nvme_spec::Cqe;
use platform::Memory;
use proptest::prelude::*;
use std::ops::Range;

/// A step of a client or of the controller.
#[derive(Clone, Debug)]
enum Step {
    /// These bytes as entries from the present tail on.
    Entries(usize, Vec<[u8; 64]>),
    /// An entry that is nearly sound: operation, first block, blocks, offset, ranges.
    Entry(usize, u8, u64, u32, u32, u8),
    /// Any tail or head.
    Tail(usize, u32),
    Head(usize, u32),
    /// The controller does some of what it holds.
    Finish(usize),
    /// The controller posts a completion on an I/O queue; with its phase as it should be, or as the words say.
    Forge(u16, [u32; 4], bool),
    Open(usize),
    Close(usize),
    Call(u64, u32),
    Tick,
}

fn step() -> impl Strategy<Value = Step> {
    let session = || 0..2usize;
    let near = prop_oneof![0..1100u64, any::<u64>()];
    let entry = (session(), 0..7u8, near, 0..700u32, prop_oneof![0..WINDOW as u32, any::<u32>()], 0..3u8);
    prop_oneof![
        1 => (session(), prop::collection::vec(any::<[u8; 64]>(), 1..8)).prop_map(|(s, bytes)| Step::Entries(s, bytes)),
        6 => entry.prop_map(|(s, code, lba, blocks, offset, count)| Step::Entry(s, code, lba, blocks, offset, count)),
        1 => (session(), any::<u32>()).prop_map(|(s, tail)| Step::Tail(s, tail)),
        1 => (session(), 0..40u32).prop_map(|(s, head)| Step::Head(s, head)),
        4 => (0..9usize).prop_map(Step::Finish),
        1 => (1..3u16, any::<[u32; 4]>(), any::<bool>()).prop_map(|(q, words, phase)| Step::Forge(q, words, phase)),
        2 => session().prop_map(Step::Open),
        1 => session().prop_map(Step::Close),
        1 => (0..4u64, 0..6u32).prop_map(|(badge, label)| Step::Call(badge, label)),
        1 => Just(Step::Tick),
    ]
}

/// Puts bytes on the ring behind what is there, and publishes them.
fn publish(system: &mut System, index: usize, slots: &[[u8; 64]]) {
    let ring = &system.clients[index].ring_client;
    let tail: u32 = ring.read(PRODUCED).unwrap();
    for (number, slot) in (0..).zip(slots) {
        let place = (tail.wrapping_add(number) % 16) as usize;
        ring.put(SLOTS + place * 64, slot);
    }
    ring.write(PRODUCED, &tail.wrapping_add(slots.len() as u32)).unwrap();
    system.ring(index);
}

fn nearly_sound(opcode: u8, lba: u64, blocks: u32, offset: u32, count: u8) -> [u8; 64] {
    let mut entry = blk_api::request::Entry { opcode, lba, blocks, segment_count: count, ..Default::default() };
    let each = (blocks * 512).checked_div(u32::from(count)).unwrap_or(0) & !511;
    for segment in &mut entry.segments {
        *segment = blk_api::request::Segment { offset: offset & !3, len: each };
    }
    entry.segments[0].len = (blocks * 512).wrapping_sub(each * u32::from(count.saturating_sub(1)));
    zerocopy::transmute!(entry)
}

fn take(system: &mut System, step: Step) {
    match step {
        Step::Entries(index, slots) => publish(system, index, &slots),
        Step::Entry(index, opcode, lba, blocks, offset, count) => {
            publish(system, index, &[nearly_sound(opcode, lba, blocks, offset, count)]);
        }
        Step::Tail(index, tail) => {
            system.clients[index].ring_client.write(PRODUCED, &tail).unwrap();
            system.ring(index);
        }
        Step::Head(index, head) => system.clients[index].ring_client.write(CONSUMED, &head).unwrap(),
        Step::Finish(count) => system.controller(|controller, bus| controller.finish(bus, count)),
        Step::Forge(queue, words, keep_phase) => system.controller(|controller, bus| {
            controller.forge(bus, queue, |cqe| {
                let phase = cqe.dw3.phase();
                *cqe = Cqe::from_words(words);
                if keep_phase {
                    cqe.dw3.set_phase(phase);
                }
            });
        }),
        Step::Open(index) => {
            system.begin_call(index as u64 + 1, blk_api::session::OPEN);
            // Nothing is installed for a session that is not open, nor again for one that was open before.
            system.try_install(index);
        }
        Step::Close(index) => drop(system.begin_call(index as u64 + 1, blk_api::session::CLOSE)),
        Step::Call(badge, label) => drop(system.begin_call(badge, label)),
        Step::Tick => system.tick(),
    }
}

/// Asserts that all data went between a session's blocks and its window. The controller's own complaints are checked in
/// every step.
fn assert_apart(system: &System, windows: &[Range<u64>; 2]) {
    let state = system.world.state();
    for (queue, iova, len) in &state.controller.moved {
        let window = &windows[usize::from(*queue) - 1];
        let inside = window.contains(iova) && iova + *len as u64 <= window.end;
        assert!(inside, "queue {queue} moved {len} bytes at {iova:#x}");
    }
    for (queue, blocks) in &state.controller.named {
        let first = u64::from(queue - 1) * 1000;
        assert!(first <= blocks.start && blocks.end <= first + 1000, "queue {queue} named {blocks:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_bytes_on_a_ring_and_no_completion_move_data_elsewhere(
        steps in prop::collection::vec(step(), 1..60),
        polled in any::<bool>(),
    ) {
        let mut setup = Setup::default();
        if polled {
            setup.sessions[1].config.completion = Completion::Hybrid;
        }
        let mut system = System::start(setup);
        system.open(0).unwrap();
        system.open(1).unwrap();
        let windows = [system.window(0), system.window(1)];
        system.controller(|controller, _| controller.hold = true);
        for step in steps {
            take(&mut system, step);
        }
        // Sessions that were not expelled still work.
        system.controller(|controller, bus| {
            controller.hold = false;
            controller.finish(bus, usize::MAX);
        });
        system.pass(1);
        assert_apart(&system, &windows);
        let calls: Vec<_> = (0..2u64).map(|index| system.begin_call(index + 1, blk_api::session::CLOSE)).collect();
        system.pass(1);
        for call in calls {
            prop_assert!(system.answer(call).is_some());
        }
        prop_assert_eq!((system.mapped_pages(0), system.mapped_pages(1)), (0, 0));
    }
}
