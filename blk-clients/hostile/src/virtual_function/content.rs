//! Contents of pages and blocks by which an attack is judged: word `n` is a base plus `n`, so that no part looks like another.

use super::Stuck;
use platform::{Memory, PAGE_SIZE};

/// Words of a page, and of the least block.
const PAGE_WORDS: usize = PAGE_SIZE / 8;
const BLOCK_WORDS: usize = 512 / 8;

/// Offset of page `page` in the window.
pub(super) const fn offset_of(page: u32) -> usize {
    (page as usize).saturating_mul(PAGE_SIZE)
}

/// A content, by its base.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Content(pub(super) u64);

impl Content {
    const fn word(self, index: usize) -> u64 {
        self.0.wrapping_add(index as u64)
    }

    /// Fills the page at `offset` of `memory`.
    pub(super) fn fill(self, memory: &impl Memory, offset: usize) -> Result<(), Stuck> {
        for index in 0..PAGE_WORDS {
            memory.write(offset.wrapping_add(index.wrapping_mul(8)), &self.word(index))?;
        }
        Ok(())
    }

    /// Whether every word of the page at `offset` is this.
    pub(super) fn fills(self, memory: &impl Memory, offset: usize) -> Result<bool, Stuck> {
        Ok(self.matching(memory, offset, PAGE_WORDS)? == PAGE_WORDS)
    }

    /// Whether the least block at `offset` is this.
    pub(super) fn is_block(self, memory: &impl Memory, offset: usize) -> Result<bool, Stuck> {
        Ok(self.matching(memory, offset, BLOCK_WORDS)? == BLOCK_WORDS)
    }

    /// Whether any word of the least block at `offset` is this.
    pub(super) fn is_part_of_block(self, memory: &impl Memory, offset: usize) -> Result<bool, Stuck> {
        Ok(self.matching(memory, offset, BLOCK_WORDS)? > 0)
    }

    fn matching(self, memory: &impl Memory, offset: usize, words: usize) -> Result<usize, Stuck> {
        let mut matching: usize = 0;
        for index in 0..words {
            let word: u64 = memory.read(offset.wrapping_add(index.wrapping_mul(8)))?;
            matching = matching.saturating_add(usize::from(word == self.word(index)));
        }
        Ok(matching)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::fake::Ram;

    #[test]
    fn a_changed_word_and_a_single_word_are_seen() {
        let memory = Ram::new(2 * PAGE_SIZE);
        let (one, other) = (Content(0x1000), Content(0x9000_0000));
        one.fill(&memory, PAGE_SIZE).unwrap();
        assert!(one.fills(&memory, PAGE_SIZE).unwrap() && one.is_block(&memory, PAGE_SIZE).unwrap());
        assert!(!other.is_part_of_block(&memory, PAGE_SIZE).unwrap());
        memory.write(PAGE_SIZE + 16, &other.word(2)).unwrap();
        assert!(!one.fills(&memory, PAGE_SIZE).unwrap() && !one.is_block(&memory, PAGE_SIZE).unwrap());
        assert!(other.is_part_of_block(&memory, PAGE_SIZE).unwrap());
    }
}
