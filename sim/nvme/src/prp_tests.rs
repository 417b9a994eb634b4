use proptest::prelude::*;

use super::*;
use crate::host::{Blocked, Level};

const OWNER: Owner = Owner { sq: 3, cid: 9 };

/// List pages by address; everything else in this memory cannot be read.
#[derive(Default)]
struct Lists(std::collections::BTreeMap<u64, Vec<u8>>);

impl Host for Lists {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Blocked> {
        let (start, page) = self.0.range(..=address).next_back().ok_or(Blocked)?;
        let from = (address - start) as usize;
        bytes.copy_from_slice(page.get(from..from + bytes.len()).ok_or(Blocked)?);
        Ok(())
    }

    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), Blocked> {
        Err(Blocked)
    }

    fn interrupt(&mut self, _: u16) {}

    fn is_bus_master(&self) -> bool {
        true
    }

    fn pin(&mut self, _: Level) {}
}

/// Lays entries out as a driver does: a list page at a time, chained by the last place of each.
fn lay_out(entries: &[u64], offset: u64, page: u64, lists: &mut Lists) -> u64 {
    let mut next_list = 1 << 40;
    let mut at = next_list + offset;
    let first = at;
    let mut rest = entries;
    loop {
        let places = ((page - at % page) / 8) as usize;
        let (here, more) = if rest.len() > places { rest.split_at(places - 1) } else { (rest, &rest[rest.len()..]) };
        next_list += 1 << 32;
        let mut words: Vec<u64> = here.to_vec();
        if !more.is_empty() {
            words.push(next_list);
        }
        lists.0.insert(at, words.iter().flat_map(|word| word.to_le_bytes()).collect());
        if more.is_empty() {
            return first;
        }
        at = next_list;
        rest = more;
    }
}

/// Result of a byte-for-byte reading of the rules: the address of every `step`th byte.
fn naive(first: u64, entries: &[u64], bytes: u64, page: u64, step: u64) -> Vec<u64> {
    let in_first = page - first % page;
    (0..bytes)
        .step_by(step as usize)
        .map(|byte| match byte.checked_sub(in_first) {
            None => first + byte,
            Some(beyond) => entries[(beyond / page) as usize] + beyond % page,
        })
        .collect()
}

/// Addresses from the walker's pieces.
fn walked(pieces: &[Piece], step: u64) -> Vec<u64> {
    pieces
        .iter()
        .flat_map(|piece| (0..u64::from(piece.bytes)).map(|byte| piece.address + byte))
        .step_by(step as usize)
        .collect()
}

proptest! {
    #[test]
    fn the_walker_finds_what_a_page_by_page_reading_finds(
        page_bits in 12..15_u32,
        offset in 0..4096_u64,
        length in 1..3_000_000_u64,
        list_offset in 0..512_u64,
        seed in any::<u64>(),
    ) {
        let page = 1_u64 << page_bits;
        let first = (7 << 20) + offset * 4 % page;
        let in_first = page - first % page;
        let pages = length.saturating_sub(in_first).div_ceil(page);
        // Some adjoin, some do not.
        let entries: Vec<u64> = (0..pages)
            .map(|index| ((index * 2) + (seed.rotate_left(index as u32) & 1) + 4096) << page_bits)
            .collect();
        let mut lists = Lists::default();
        let prp2 = match entries.as_slice() {
            [] => 0,
            [only] => *only,
            entries => lay_out(entries, list_offset * 8 % page, page, &mut lists),
        };
        let mut walker = Walker::default();
        let data = DataPointer { prp1: first, prp2 };
        prop_assert_eq!(walker.walk(data, length, page_bits, OWNER, &mut lists), Ok(None));
        let total: u64 = walker.pieces().iter().map(|piece| u64::from(piece.bytes)).sum();
        prop_assert_eq!(total, length);
        prop_assert_eq!(walked(walker.pieces(), 509), naive(first, &entries, length, page, 509));
    }
}

fn refusal(data: DataPointer, bytes: u64, lists: &mut Lists) -> Refusal {
    Walker::default().walk(data, bytes, 12, OWNER, lists).unwrap_err()
}

#[test]
fn offsets_are_allowed_in_first_entry_and_list_pointer() {
    let mut lists = Lists::default();
    lists.0.insert(0x9000, [0x3000_u64, 0x4008].iter().flat_map(|word| word.to_le_bytes()).collect());
    let offset = |entry| Refusal {
        status: StatusCode::PrpOffset,
        kind: ViolationKind::PrpOffset { sq: OWNER.sq, cid: OWNER.cid, entry },
    };
    let data = |prp1, prp2| DataPointer { prp1, prp2 };
    assert_eq!(refusal(data(0x1002, 0), 512, &mut lists), offset(0x1002));
    assert_eq!(refusal(data(0x1000, 0x2200), 8192, &mut lists), offset(0x2200));
    assert_eq!(refusal(data(0x1000, 0x9004), 12288, &mut lists), offset(0x9004));
    assert_eq!(refusal(data(0x1000, 0x9000), 12288, &mut lists), offset(0x4008));
}

#[test]
fn a_chain_goes_on_at_the_start_of_a_page() {
    let mut lists = Lists::default();
    let words = [0x3000_u64, 0xa008];
    lists.0.insert(0x9ff0, words.iter().flat_map(|word| word.to_le_bytes()).collect());
    let data = DataPointer { prp1: 0x1000, prp2: 0x9ff0 };
    assert_eq!(refusal(data, 4 * 4096, &mut lists).status, StatusCode::PrpOffset);
}

#[test]
fn a_list_that_cannot_be_read_is_a_transfer_error() {
    let data = DataPointer { prp1: 0x1000, prp2: 0x9000 };
    let refusal = refusal(data, 12288, &mut Lists::default());
    assert_eq!(refusal.status, StatusCode::DataTransferError);
    assert_eq!(refusal.kind, ViolationKind::DmaBlocked { address: 0x9000 });
}

#[test]
fn an_entry_without_use_is_reported() {
    let mut walker = Walker::default();
    let data = DataPointer { prp1: 0x1000, prp2: 0x7000 };
    assert_eq!(walker.walk(data, 4096, 12, OWNER, &mut Lists::default()), Ok(Some(0x7000)));
    assert_eq!(walker.pieces(), [Piece { address: 0x1000, bytes: 4096 }]);
}

#[test]
fn a_queues_pages_come_out_one_by_one_even_where_they_adjoin() {
    let mut lists = Lists::default();
    lists.0.insert(0x9000, [0x3000_u64, 0x4000, 0x8000].iter().flat_map(|word| word.to_le_bytes()).collect());
    assert_eq!(Walker::default().pages(0x9000, 3, 12, &mut lists), Ok(vec![0x3000, 0x4000, 0x8000]));
}
