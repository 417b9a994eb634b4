//! Copies of registers, taken before the device is called, for a client that reads while the device waits for DMA by
//! message.

use crate::device::BARS;
use crate::request::Region;

/// Copies of those registers of a device whose reads have no side effects.
#[derive(Clone, Default, Debug)]
pub struct Snapshot {
    /// Configuration space, from byte 0 on.
    pub config: Image,
    /// The BARs, each from byte 0 on.
    pub bars: [Image; BARS],
}

/// The first bytes of a region.
#[derive(Clone, Default, Debug)]
pub struct Image {
    /// The bytes. Reads behind them are refused during the DMA.
    pub bytes: Vec<u8>,
    /// Bits that read back as they are written, from byte 0 on. Bytes that are missing at the end have none. A write
    /// that arrives during the DMA shows in these bits at once, and in the others when the device has executed it.
    pub kept: Vec<u8>,
}

impl Snapshot {
    /// Forgets everything and keeps the memory.
    pub(crate) fn clear(&mut self) {
        let Self { config, bars } = self;
        config.clear();
        bars.iter_mut().for_each(Image::clear);
    }

    /// Copies a part of a region, if all of it is known.
    pub(crate) fn read(&self, region: Region, offset: u64, bytes: &mut [u8]) -> Option<()> {
        let image = match region {
            Region::Config => &self.config,
            Region::Bar(bar) => self.bars.get(usize::from(bar))?,
        };
        bytes.copy_from_slice(image.bytes.get(span(offset, bytes.len())?)?);
        Some(())
    }

    /// Shows a write, as far as it is known what it changes.
    pub(crate) fn write(&mut self, region: Region, offset: u64, bytes: &[u8]) {
        let image = match region {
            Region::Config => Some(&mut self.config),
            Region::Bar(bar) => self.bars.get_mut(usize::from(bar)),
        };
        let (Some(image), Ok(offset)) = (image, usize::try_from(offset)) else { return };
        let old = image.bytes.iter_mut().skip(offset);
        let kept = image.kept.iter().skip(offset);
        for ((old, kept), new) in old.zip(kept).zip(bytes) {
            *old = (*old & !kept) | (new & kept);
        }
    }
}

impl Image {
    fn clear(&mut self) {
        let Self { bytes, kept } = self;
        bytes.clear();
        kept.clear();
    }
}

fn span(offset: u64, bytes: usize) -> Option<core::ops::Range<usize>> {
    let start = usize::try_from(offset).ok()?;
    Some(start..start.checked_add(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(snapshot: &Snapshot, offset: u64, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        snapshot.read(Region::Bar(0), offset, &mut bytes).map(|()| bytes)
    }

    #[test]
    fn reads_end_with_the_image() {
        let mut snapshot = Snapshot::default();
        snapshot.bars[0].bytes.extend([1, 2, 3, 4]);
        assert_eq!(read(&snapshot, 2, 2), Some(vec![3, 4]));
        assert_eq!(read(&snapshot, 3, 2), None);
        assert_eq!(read(&snapshot, u64::MAX, 2), None);
        snapshot.clear();
        assert_eq!(read(&snapshot, 0, 1), None);
    }

    #[test]
    fn a_write_shows_in_kept_bits_only() {
        let mut snapshot = Snapshot::default();
        snapshot.bars[0].bytes.extend([0xAA; 4]);
        snapshot.bars[0].kept.extend([0xFF, 0x0F]);
        snapshot.write(Region::Bar(0), 0, &[0x11; 4]);
        assert_eq!(read(&snapshot, 0, 4), Some(vec![0x11, 0xA1, 0xAA, 0xAA]));
        snapshot.write(Region::Bar(0), u64::MAX, &[0x22; 4]);
        snapshot.write(Region::Bar(9), 0, &[0x22; 4]);
        assert_eq!(read(&snapshot, 0, 1), Some(vec![0x11]));
    }
}
