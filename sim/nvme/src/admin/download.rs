//! Pieces of a firmware image that were downloaded and not committed yet (section 5.12).

use std::collections::BTreeMap;

use nvme_spec::StatusCode;

/// Pieces by their place in the image, in bytes. None overlaps another.
#[derive(Debug, Default)]
pub(crate) struct Download(BTreeMap<u64, Vec<u8>>);

impl Download {
    /// Whether a piece of this length fits between the others.
    ///
    /// # Errors
    /// Overlapping Range.
    pub(super) fn check(&self, offset: u64, bytes: u64) -> Result<(), StatusCode> {
        let end = offset.saturating_add(bytes);
        let before = self.0.range(..end).next_back();
        let overlaps = before.is_some_and(|(start, piece)| start.saturating_add(piece.len() as u64) > offset);
        if overlaps { Err(StatusCode::OverlappingRange) } else { Ok(()) }
    }

    /// Adds a piece that [`check`](Self::check) found to fit.
    pub(super) fn add(&mut self, offset: u64, piece: Vec<u8>) {
        self.0.insert(offset, piece);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the image, and forgets all pieces. `None` when pieces are missing.
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        let mut image = Vec::new();
        let mut is_whole = true;
        for (offset, piece) in std::mem::take(&mut self.0) {
            is_whole &= offset == image.len() as u64;
            image.extend(piece);
        }
        (is_whole && !image.is_empty()).then_some(image)
    }

    /// Forgets all pieces: the controller is reset.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_in_any_order_and_none_twice() {
        let mut download = Download::default();
        assert_eq!((download.is_empty(), download.take()), (true, None));
        for offset in [8, 0] {
            assert_eq!(download.check(offset, 4), Ok(()));
            download.add(offset, vec![offset as u8; 4]);
        }
        for (offset, bytes) in [(0, 4), (0, 8), (4, 8), (8, 4), (3, 1), (2, 20), (0, u64::MAX)] {
            assert_eq!(download.check(offset, bytes), Err(StatusCode::OverlappingRange), "{offset} {bytes}");
        }
        assert_eq!(download.check(4, 4), Ok(()));
        assert_eq!(download.take(), None, "a piece is missing");
        assert!(download.is_empty());
        for offset in [4, 0] {
            download.add(offset, vec![offset as u8; 4]);
        }
        assert_eq!(download.take(), Some(vec![0, 0, 0, 0, 4, 4, 4, 4]));
        download.add(0, vec![0]);
        download.clear();
        assert!(download.is_empty());
    }
}
