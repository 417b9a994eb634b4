//! Any command of the component that administers the controller: those that reach a queue are on the list, and move data nowhere else
//! than in their own range.

use crate::administration::{UNTOUCHED, administered, collect, commands, submit};
use crate::support::{System, WINDOW};
use blk_api::administration::Command;
use platform::Memory;
use proptest::prelude::*;

/// A command of any opcode and fields, often near ones that pass.
fn any_command() -> impl Strategy<Value = Command> {
    let dword = || prop_oneof![Just(0u32), 0..4u32, 0..0x100u32, any::<u32>()];
    let opcodes = prop_oneof![0..0x100u32, prop::sample::select(vec![0x02, 0x06, 0x09, 0x0a, 0x0d, 0x15, 0x80, 0x84])];
    let place =
        (prop_oneof![(0..64u64).prop_map(|n| n * 4096 - n * 4), any::<u64>()], prop_oneof![Just(4096u32), dword()]);
    let head = (0..2u32, opcodes, prop_oneof![0..4u32, Just(u32::MAX), any::<u32>()]);
    (any::<u64>(), place, head, [dword(), dword()], prop::array::uniform6(dword())).prop_map(
        |(token, (offset, bytes), (queue, opcode, nsid), cdw2, cdw10)| Command {
            token,
            offset,
            bytes,
            queue,
            opcode,
            nsid,
            cdw2,
            cdw10,
        },
    )
}

/// Whether the standard has a command that this project lets an administrator give, written apart from the server's list.
fn is_listed(command: &Command) -> bool {
    let first = command.cdw10[0] & 0xff;
    match (command.queue, command.opcode) {
        (0, 0x06) => first < 0xe0,
        (0, 0x02) => first < 0xc0,
        (0, 0x0a) => matches!(first, 0x01..=0x0f | 0x16 | 0x81),
        (0, 0x09) => [0x02, 0x04, 0x06, 0x0c, 0x0e, 0x81].contains(&first),
        (0, 0x0d | 0x15) => first & 0xf < 2,
        (0, 0x10 | 0x11 | 0x14 | 0x80 | 0x84) => true,
        (1, 0x00..=0x02 | 0x04 | 0x05 | 0x08 | 0x09 | 0x0c) => true,
        (1, 0x19) => command.cdw10[2] & 0xf00 == 0,
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_command_outside_of_the_list_reaches_a_queue_and_none_moves_data_elsewhere(
        commands_drawn in prop::collection::vec(any_command(), 1..12),
    ) {
        let mut system = System::serving(administered(), 1);
        system.world.state().controller.forgives_fields = true;
        for command in commands_drawn {
            system.asker.write_bytes(0, &vec![UNTOUCHED; WINDOW]).unwrap();
            system.clients[0].window.write_bytes(0, &vec![UNTOUCHED; WINDOW]).unwrap();
            commands(&system);
            system.controller(|controller, _| controller.submitted.clear());
            let accepted = submit(&mut system, &command);
            system.pass(1);
            let seen = commands(&system);
            if accepted.is_err() {
                prop_assert!(seen.is_empty() && system.world.state().controller.submitted.is_empty(), "{command:?}");
                continue;
            }
            prop_assert!(is_listed(&command), "{command:?}");
            // Commands of a controller that lost its namespaces end, too.
            let ended = collect(&mut system);
            prop_assert!(ended.is_ok_and(|completion| completion.token == command.token));
            let range = command.offset as usize..command.offset as usize + command.bytes as usize;
            let mut window = vec![0; WINDOW];
            system.asker.read_bytes(0, &mut window).unwrap();
            let outside = window.iter().enumerate().filter(|(at, _)| !range.contains(at));
            prop_assert!(outside.into_iter().all(|(_, byte)| *byte == UNTOUCHED), "{command:?}");
            system.clients[0].window.read_bytes(0, &mut window).unwrap();
            prop_assert!(window.iter().all(|byte| *byte == UNTOUCHED), "{command:?}");
        }
    }
}
