//! A content in which each word has a value of its own, so that a test sees where data was read from.

/// Fills `bytes` with the content at `offset`, in bytes from the start of a namespace. All its 64-bit words, little-endian, are
/// different.
pub fn read(offset: u64, bytes: &mut [u8]) {
    // The bytes up to the next whole word come first.
    let (first, skipped) = (offset / 8, (offset % 8) as usize);
    let (head, rest) = bytes.split_at_mut(((8 - skipped) % 8).min(bytes.len()));
    if let Some(part) = word(first).get(skipped..).and_then(|bytes| bytes.get(..head.len())) {
        head.copy_from_slice(part);
    }
    let mut indices = offset.div_ceil(8)..;
    let (words, tail) = rest.as_chunks_mut();
    for (bytes, index) in words.iter_mut().zip(&mut indices) {
        *bytes = word(index);
    }
    indices.next().into_iter().for_each(|index| tail.copy_from_slice(word(index).split_at(tail.len()).0));
}

/// Word number `index`: an invertible mixture, so that no two words are equal.
fn word(index: u64) -> [u8; 8] {
    let mixed = (index ^ (index >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xd6e8_feb8_6659_fd93).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_what_the_whole_has_there() {
        let mut whole = [0; 64];
        read(1 << 20, &mut whole);
        for from in 0..whole.len() {
            for to in from..=whole.len() {
                let mut part = vec![0; to - from];
                read((1 << 20) + from as u64, &mut part);
                assert_eq!(part, whole[from..to]);
            }
        }
    }

    #[test]
    fn words_differ() {
        let mut bytes = vec![0; 1 << 16];
        read(0, &mut bytes);
        let mut words: Vec<_> = bytes.chunks(8).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), bytes.len() / 8);
    }
}
