//! Arbitrary software: nothing panics, fixed parts stay, and a repetition gives the same result.

use super::machine::Worker;
use super::system::{System, WINDOW, bdf};
use pci_spec::Bdf;
use proptest::prelude::*;
use sim_pci::{BusId, Endpoint, FunctionConfig, Level, MsiConfig, PortConfig, Record, SlotState};

#[derive(Clone, Debug)]
enum Act {
    /// Bus, device and function number, dword, value, and which bytes.
    Config(u8, u8, u16, u32, u8),
    /// A pattern with a meaning in the register: all ones, zero, or one bit.
    Meant(u8, u8, u16, u32),
    Memory(u64, u64, u8),
    Insert,
    Remove,
    Button,
}

fn act() -> impl Strategy<Value = Act> {
    let devfn = || prop_oneof![Just(0u8), 0u8..4, Just(8), Just(16), any::<u8>()];
    let dword = || prop_oneof![0u16..16, 16u16..0x38, 0x48u16..0x57, 0u16..1024];
    // Addresses at which firmware puts the BAR of the device in the slot: its registers, its table; and any others.
    let address = prop_oneof![0u64..0x40, 0x2000u64..0x2090, Just(0x3000), 0u64..0x80_0000];
    let pattern = prop_oneof![Just(0), Just(u32::MAX), (0u32..32).prop_map(|bit| 1 << bit), Just(0x000f_0100)];
    prop_oneof![
        4 => (0u8..4, devfn(), dword(), any::<u32>(), 0u8..7).prop_map(|(b, f, d, v, w)| Act::Config(b, f, d, v, w)),
        8 => (0u8..4, devfn(), dword(), pattern).prop_map(|(b, f, d, v)| Act::Meant(b, f, d, v)),
        8 => (address, 0u64..70, 0u8..4).prop_map(|(at, value, log2)| Act::Memory(at, value, log2)),
        1 => Just(Act::Insert),
        1 => Just(Act::Remove),
        1 => Just(Act::Button),
    ]
}

fn rich() -> (System, BusId) {
    let mut system = System::bare();
    system.tree.attach_q35().unwrap();
    let slot = system.tree.attach_port(BusId::ROOT, 1, 0, PortConfig::root_port(1)).unwrap();
    let bridge = system.tree.attach_port(BusId::ROOT, 2, 0, PortConfig::conventional()).unwrap();
    insert(&mut system, slot);
    let config = FunctionConfig { msi: Some(MsiConfig { vectors_log2: 5 }), ..FunctionConfig::nvme(0x1000, 70) };
    system.attach(bridge, 0, 0, config);
    system.boot();
    (system, slot)
}

fn insert(system: &mut System, slot: BusId) {
    let config = FunctionConfig::nvme(0x2000, 8).with_virtual_nvme(3, 0x2000, 4);
    let virtual_functions = (0..3).map(|_| Worker::default()).collect();
    let endpoint = Endpoint { config, device: Worker::default(), virtual_functions };
    // A full slot refuses.
    let _ = system.tree.insert(slot, vec![endpoint], system.now_ns, &mut system.above);
}

fn perform(system: &mut System, slot: BusId, act: &Act) -> u64 {
    system.now_ns += 1;
    match *act {
        Act::Config(bus, devfn, dword, value, part) => {
            let (skip, bytes) = [(0, 4), (0, 2), (2, 2), (0, 1), (1, 1), (2, 1), (3, 1)][usize::from(part)];
            let offset = u64::from(bus) << 20 | u64::from(devfn) << 12 | u64::from(dword * 4 + skip);
            system.tree.config_write(offset, bytes, value.into(), system.now_ns, &mut system.above).unwrap();
            system.tree.config_read(offset, bytes, system.now_ns).unwrap()
        }
        Act::Meant(bus, devfn, dword, value) => {
            let at = Bdf::from_raw(u16::from(bus) << 8 | u16::from(devfn));
            system.write(at, dword * 4, value);
            system.read(at, dword * 4).into()
        }
        Act::Memory(at, value, log2) => {
            let (address, bytes) = (WINDOW.start + (at >> log2 << log2), 1 << log2);
            system.tree.memory_write(address, bytes, value, system.now_ns, &mut system.above).unwrap();
            system.tree.advance(system.now_ns, &mut system.above);
            system.tree.memory_read(address, bytes, system.now_ns).unwrap()
        }
        Act::Insert => {
            insert(system, slot);
            0
        }
        Act::Remove => system.tree.remove(slot, system.now_ns, &mut system.above).len() as u64,
        Act::Button => {
            system.tree.press_attention_button(slot, system.now_ns, &mut system.above);
            0
        }
    }
}

/// Everything that can be observed of a run.
type Seen = (Vec<u64>, Vec<Record>, Vec<(u16, u64, u32)>, Vec<(u8, Level)>);

fn run(acts: &[Act]) -> Seen {
    let (mut system, slot) = rich();
    let values = acts.iter().map(|act| perform(&mut system, slot, act)).collect();
    check(&mut system, slot);
    let System { tree, above, .. } = system;
    (values, tree.violations().to_vec(), above.messages, above.pins)
}

fn check(system: &mut System, slot: BusId) {
    assert_eq!(system.read(bdf(0, 0, 0), 0), 0x29c0_8086);
    assert_eq!(system.read(bdf(0, 1, 0), 0), 0x000c_1b36);
    let present = system.read(bdf(0, 1, 0), 0x98) & 1 << 22 != 0;
    assert_eq!(present, system.tree.slot(slot) != Some(SlotState::Empty));
    for region in system.tree.regions() {
        assert!(WINDOW.start <= region.range.start && region.range.end <= WINDOW.end, "{region:x?}");
        assert!(system.tree.bdf(region.function).is_some());
    }
    for pin in 16..24 {
        let levels = system.above.pins.iter().filter(|(at, _)| *at == pin).map(|(_, level)| *level);
        let expected = [Level::Asserted, Level::Deasserted].into_iter().cycle();
        assert!(levels.zip(expected).all(|(level, expected)| level == expected), "up and down by turns");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn nothing_software_does_breaks_the_tree(acts in prop::collection::vec(act(), 1..150)) {
        prop_assert_eq!(run(&acts), run(&acts));
    }
}
