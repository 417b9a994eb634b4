//! Contents of blocks as hashes. Left out: any meaning of the bytes.

use std::fmt;

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

/// The content of a block, as far as the checker compares it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Hash(pub u64);

/// Returns the hash of a block's content. Two contents share one by chance with a probability of about 2^-64, and the same
/// content has the same hash in every run.
#[must_use]
pub fn hash_block(block: &[u8]) -> Hash {
    const SECRETS: RapidSecrets = RapidSecrets::seed_cpp(0);
    Hash(rapidhash_v3_seeded(block, &SECRETS))
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bit_makes_another_hash() {
        let mut block = [0; 4096];
        let zeroes = hash_block(&block);
        block[4095] ^= 0x80;
        assert_ne!(hash_block(&block), zeroes);
        block[4095] ^= 0x80;
        assert_eq!(hash_block(&block), zeroes);
        assert_ne!(hash_block(&block[..512]), zeroes);
    }
}
