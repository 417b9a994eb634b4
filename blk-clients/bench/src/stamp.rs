//! Content that identifies a block: its owner, its place and its generation, and bytes derived from the three. No block
//! can be mistaken for another.
//!
//! A block starts with a header of five little-endian words: [`MAGIC`], the tenant's number ([`tenant_number`]), the
//! absolute LBA on the namespace, the generation, and a checksum of these. Each word of the rest is derived from the
//! checksum and its place. So a single wrong bit is detected, and the header identifies a wrong block. The build machine
//! checks disk images with the same code.

/// First word of every stamped block: `capnvme` and the layout's number.
pub const MAGIC: u64 = u64::from_le_bytes(*b"capnvme2");

const WORD: usize = size_of::<u64>();
/// 2^64 divided by the golden ratio: its multiples are spread over all words.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Identity of a block: its owner, its place, and how often it was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// [`tenant_number`] of the owner.
    pub tenant: u64,
    /// The block on the namespace.
    pub lba: u64,
    /// Counts writes, from 1.
    pub generation: u32,
}

/// Difference between a block and its stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// Bytes that differ from what they should be.
    pub wrong_bytes: u64,
    /// The cause, as far as the block itself shows it.
    pub cause: Cause,
}

/// Content of a wrong block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A block of another tenant.
    OtherTenant,
    /// The tenant's block of this LBA instead.
    OtherLba(u64),
    /// The right block as it was, or will be, at this generation.
    OtherGeneration(u32),
    /// Not a whole block of any tenant.
    Damaged,
}

impl core::fmt::Display for Cause {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::OtherTenant => f.write_str("holds another tenant's block"),
            Self::OtherLba(lba) => write!(f, "holds block {lba}"),
            Self::OtherGeneration(generation) => write!(f, "holds generation {generation}"),
            Self::Damaged => f.write_str("is damaged"),
        }
    }
}

/// Returns the number of the tenant named `name`: FNV-1a, 64 bits.
#[must_use]
pub fn tenant_number(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Stamp {
    /// Writes the whole block; its length is a multiple of 8 and holds the header.
    pub fn fill(&self, block: &mut [u8]) {
        let (header, payload) = self.words();
        let mut rooms = block.chunks_exact_mut(WORD);
        for (word, room) in header.into_iter().zip(&mut rooms) {
            room.copy_from_slice(&word.to_le_bytes());
        }
        for (room, word) in rooms.zip(payload) {
            room.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Compares every byte.
    ///
    /// # Errors
    /// [`Mismatch`].
    pub fn verify(&self, block: &[u8]) -> Result<(), Mismatch> {
        if self.is(block) { Ok(()) } else { Err(self.mismatch(block)) }
    }

    /// Returns the stamp of a block that is valid as a whole, of any owner.
    #[must_use]
    pub fn of(block: &[u8]) -> Option<Self> {
        let mut words = block.chunks_exact(WORD).map(to_word);
        let (magic, tenant, lba) = (words.next()?, words.next()?, words.next()?);
        let stamp = Self { tenant, lba, generation: u32::try_from(words.next()?).ok()? };
        (magic == MAGIC && stamp.is(block)).then_some(stamp)
    }

    /// Whether the whole block matches. No early exit: most blocks match.
    fn is(&self, block: &[u8]) -> bool {
        let (header, payload) = self.words();
        let mut words = block.chunks_exact(WORD).map(to_word);
        let mut difference = 0;
        for expected in header {
            difference |= expected ^ words.next().unwrap_or(!expected);
        }
        for (word, expected) in words.zip(payload) {
            difference |= expected ^ word;
        }
        difference == 0
    }

    /// The words of the header, and those that follow. A processor computes several of these at a time.
    fn words(&self) -> ([u64; 5], impl Iterator<Item = u64>) {
        let said = [MAGIC, self.tenant, self.lba, u64::from(self.generation)];
        let checksum = said.iter().fold(0, |sum, word| scramble(sum ^ word));
        let [magic, tenant, lba, generation] = said;
        let mut place = checksum;
        let payload = core::iter::repeat_with(move || {
            place = place.wrapping_add(GOLDEN);
            place ^ (place >> 29)
        });
        ([magic, tenant, lba, generation, checksum], payload)
    }

    fn mismatch(&self, block: &[u8]) -> Mismatch {
        let (header, payload) = self.words();
        let expected = header.into_iter().chain(payload).flat_map(u64::to_le_bytes);
        let wrong_bytes = expected.zip(block).filter(|(expected, is)| expected != *is).count() as u64;
        let cause = match Self::of(block) {
            Some(found) if found.tenant != self.tenant => Cause::OtherTenant,
            Some(found) if found.lba != self.lba => Cause::OtherLba(found.lba),
            Some(found) => Cause::OtherGeneration(found.generation),
            None => Cause::Damaged,
        };
        Mismatch { wrong_bytes, cause }
    }
}

fn to_word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// Mixes every bit into all others: two rounds of multiply and shift.
const fn scramble(word: u64) -> u64 {
    let word = (word ^ (word >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let word = (word ^ (word >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    word ^ (word >> 32)
}

/// Marsaglia's xorshift with shifts 13, 7, 17.
pub(crate) struct Generator(u64);

impl Generator {
    /// Makes a generator from `seed`.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(scramble(seed) | 1)
    }

    pub(crate) const fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Draws a number below `limit`; 0 when `limit` is 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        // The high half of a product spreads evenly enough, without dividing.
        (u128::from(self.draw()).wrapping_mul(u128::from(limit)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAMP: Stamp = Stamp { tenant: 77, lba: 1234, generation: 5 };

    fn filled(stamp: Stamp) -> [u8; 512] {
        let mut block = [0; 512];
        stamp.fill(&mut block);
        block
    }

    #[test]
    fn a_filled_block_is_right_and_shows_whose_it_is() {
        assert_eq!(STAMP.verify(&filled(STAMP)), Ok(()));
        assert_eq!(Stamp::of(&filled(STAMP)), Some(STAMP));
        assert_eq!(Stamp::of(&[0; 512]), None);
    }

    #[test]
    fn a_block_that_is_another_says_which() {
        let cause = |found| STAMP.verify(&filled(found)).unwrap_err().cause;
        assert_eq!(cause(Stamp { generation: 4, ..STAMP }), Cause::OtherGeneration(4));
        assert_eq!(cause(Stamp { lba: 9, ..STAMP }), Cause::OtherLba(9));
        assert_eq!(cause(Stamp { tenant: 78, ..STAMP }), Cause::OtherTenant);
    }

    #[test]
    fn neighbouring_blocks_share_almost_no_byte() {
        let other = STAMP.verify(&filled(Stamp { lba: 1235, ..STAMP })).unwrap_err();
        assert!(other.wrong_bytes > 450, "{}", other.wrong_bytes);
    }

    proptest! {
        #[test]
        fn one_flipped_bit_anywhere_is_found(at in 0usize..512, bit in 0u32..8) {
            let mut block = filled(STAMP);
            block[at] ^= 1 << bit;
            let expected = Mismatch { wrong_bytes: 1, cause: Cause::Damaged };
            prop_assert_eq!(STAMP.verify(&block), Err(expected));
        }

        #[test]
        fn draws_stay_below_their_limit(seed: u64, limit in 1u64..) {
            prop_assert!(Generator::new(seed).below(limit) < limit);
        }
    }
}
