//! A page of bytes that memory and disks of the simulated machine share until one of them writes to it.
//!
//! A transfer of a whole page between memory and a disk moves a reference, as long as neither side changes the page. A
//! page remembers the digest of its content, so that a content which several requests move is hashed once.
//!
//! [`pattern`] is a content for tests.
//!
//! Neighbours: `sim-kernel` keeps memory in pages, `sim-nvme` its namespaces, and `sim` reports their digests to the
//! checkers. Left out: addresses, access rights, and the function that computes a digest.

#![forbid(unsafe_code)]

pub mod pattern;

use std::fmt;
use std::sync::{Arc, OnceLock};

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

/// The content of a page.
pub type Bytes = [u8; PAGE_BYTES];

/// A page. Clones share its content; a write to one of them is not visible in the others.
#[derive(Clone)]
pub struct SharedPage(Arc<Content>);

#[derive(Clone)]
struct Content {
    bytes: Bytes,
    /// Digest of `bytes`, once it was requested.
    digest: OnceLock<u64>,
}

impl SharedPage {
    /// Creates a page with this content, shared with no other.
    #[must_use]
    pub fn new(bytes: &Bytes) -> Self {
        Self(Arc::new(Content { bytes: *bytes, digest: OnceLock::new() }))
    }

    /// Creates a page of zeroes, shared with no other.
    #[must_use]
    pub fn zeroes() -> Self {
        Self::new(&[0; PAGE_BYTES])
    }

    /// The content.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.0.bytes
    }

    /// The content, mutable. From here on it is shared with no other page.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut Bytes {
        let content = Arc::make_mut(&mut self.0);
        content.digest.take();
        &mut content.bytes
    }

    /// Writes `bytes` at `offset`; they end in the page. Content that they overwrite as a whole is not copied before.
    #[inline]
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        match bytes.try_into() {
            Ok(whole) if Arc::strong_count(&self.0) > 1 => *self = Self::new(whole),
            _ => self.bytes_mut()[offset..offset + bytes.len()].copy_from_slice(bytes),
        }
    }

    /// Returns the digest of the content, as `of` computes it. `of` is called once until the content changes, so every
    /// caller has to pass the same function.
    pub fn digest(&self, of: impl FnOnce(&Bytes) -> u64) -> u64 {
        let Content { bytes, digest } = &*self.0;
        *digest.get_or_init(|| of(bytes))
    }
}

impl PartialEq for SharedPage {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.bytes() == other.bytes()
    }
}

impl Eq for SharedPage {}

impl fmt::Debug for SharedPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedPage").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

    fn digest(bytes: &Bytes) -> u64 {
        BuildHasherDefault::<DefaultHasher>::default().hash_one(bytes)
    }

    /// Place and length of a write; one in two writes the whole page.
    fn part() -> impl Strategy<Value = (usize, usize)> {
        prop_oneof![Just((0, PAGE_BYTES)), (0..PAGE_BYTES).prop_map(|at| (at, 1))]
    }

    proptest! {
        #[test]
        fn clones_hold_what_copies_would(
            steps in prop::collection::vec((0..4_usize, 0..4_usize, any::<bool>(), part(), any::<u8>()), 1..60),
        ) {
            let mut pages = [(); 4].map(|()| SharedPage::zeroes());
            let mut copies = vec![[0; PAGE_BYTES]; 4];
            for (one, other, shares, (at, len), value) in steps {
                if shares {
                    pages[one] = pages[other].clone();
                    copies[one] = copies[other];
                } else {
                    pages[one].write(at, &vec![value; len]);
                    copies[one][at..at + len].fill(value);
                }
                for (page, copy) in pages.iter().zip(&copies) {
                    prop_assert!(page.bytes() == copy);
                    prop_assert_eq!(page.digest(digest), digest(copy), "never that of an earlier content");
                }
            }
        }
    }
}
