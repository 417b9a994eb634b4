use super::*;
use std::collections::BTreeSet;

use proptest::prelude::*;

const ENTRY: u64 = 16;
const CONTROL_AT: u64 = 12;

fn msix(vectors: u16) -> Msix {
    Msix::new(MsixConfig { vectors, table: (0, 0x2000), pending: (0, 0xb000) })
}

fn programmed(vectors: u16) -> Msix {
    let mut msix = msix(vectors);
    for vector in 0..vectors {
        let at = u64::from(vector) * ENTRY;
        msix.write(at, 0xfee0_0000, Gate::Open);
        msix.write(at + 8, u32::from(vector), Gate::Open);
    }
    msix
}

#[test]
fn entries_are_masked_after_reset() {
    let msix = msix(65);
    assert_eq!(msix.read(Place::Table(64 * ENTRY + CONTROL_AT), 4), 1);
}

#[test]
fn pending_bits_of_vector_64_are_in_the_second_word() {
    let mut msix = programmed(65);
    assert_eq!(msix.raise(64, Gate::Open), Raised::Pending);
    assert_eq!(msix.read(Place::Pending(8), 8), 1);
    assert_eq!(msix.read(Place::Pending(0), 8), 0);
}

#[test]
fn a_vector_beyond_the_table_is_none() {
    assert_eq!(msix(4).raise(4, Gate::Open), Raised::NoSuchVector);
}

#[test]
fn changing_a_message_that_can_be_sent_is_noticed() {
    let mut msix = programmed(2);
    msix.write(ENTRY + CONTROL_AT, 0, Gate::Open);
    assert_eq!(msix.write(ENTRY, 0xfee0_0000, Gate::Open).changed_unmasked, None, "the same value");
    assert_eq!(msix.write(ENTRY, 0xfee0_1000, Gate::Masked).changed_unmasked, None);
    assert_eq!(msix.write(ENTRY, 0xfee0_2000, Gate::Open).changed_unmasked, Some(1));
    assert_eq!(msix.write(0, 0xfee0_2000, Gate::Open).changed_unmasked, None, "masked");
}

#[test]
fn places_end_with_the_last_entry() {
    let msix = msix(2);
    assert_eq!(msix.place(0, 0x201f), Some(Place::Table(0x1f)));
    assert_eq!(msix.place(0, 0x2020), None);
    assert_eq!(msix.place(0, 0xb007), Some(Place::Pending(7)));
    assert_eq!(msix.place(0, 0xb008), None);
    assert_eq!(msix.place(1, 0x2000), None);
}

#[derive(Clone, Debug)]
enum Act {
    Raise(u16),
    Mask(u16, bool),
    Gate(Gate),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0u16..130).prop_map(Act::Raise),
        (0u16..130, any::<bool>()).prop_map(|(vector, masked)| Act::Mask(vector, masked)),
        prop_oneof![Just(Gate::Off), Just(Gate::Masked), Just(Gate::Open)].prop_map(Act::Gate),
    ]
}

proptest! {
    /// A raise while masked is delivered exactly once, when nothing masks it any more; several raises meanwhile count
    /// as one.
    #[test]
    fn masked_vectors_are_delivered_once_at_unmask(acts in prop::collection::vec(act(), 1..200)) {
        let mut msix = programmed(130);
        let mut gate = Gate::Off;
        let mut masked: BTreeSet<u16> = (0..130).collect();
        let mut waiting = BTreeSet::new();
        for act in acts {
            match act {
                Act::Raise(vector) => {
                    let open = gate == Gate::Open && !masked.contains(&vector);
                    match msix.raise(vector, gate) {
                        Raised::Send(message) => prop_assert!(open && message.data == u32::from(vector)),
                        Raised::Pending => {
                            prop_assert!(!open);
                            waiting.insert(vector);
                        }
                        Raised::NoSuchVector => prop_assert!(false),
                    }
                }
                Act::Mask(vector, mask) => {
                    msix.write(u64::from(vector) * ENTRY + CONTROL_AT, u32::from(mask), gate);
                    if mask { masked.insert(vector); } else { masked.remove(&vector); }
                }
                Act::Gate(next) => gate = next,
            }
            let mut due: Vec<u16> = waiting.iter().copied().filter(|vector| !masked.contains(vector)).collect();
            if gate != Gate::Open { due.clear(); }
            for vector in due {
                prop_assert_eq!(msix.take_deliverable(gate).map(|(vector, _)| vector), Some(vector));
                waiting.remove(&vector);
            }
            prop_assert_eq!(msix.take_deliverable(gate), None);
        }
    }
}
