//! Files by their paths, on `hadris-fat`.
//!
//! A file is read and written whole. Left out: times (a session has no clock for them, so all are the first day of 1980),
//! and volumes behind a partition table.

use alloc::vec::Vec;
use blk_client::{ByteStream, IoError};
use embedded_io_async::{Read as _, ReadExactError, Seek as _, SeekFrom};
use hadris_fat::r#async::format::{FatFormatOptions, FatTypeSelection, FatVolumeFormatter, SectorSize};
use hadris_fat::r#async::{FatVolume, FatVolumeWriteExt as _};
use hadris_fat::{Error, Result};
use hadris_io::r#async::FromEmbedded;
use platform::Platform;

/// Bytes of the first block's part that every FAT volume begins with, whatever its sector size.
const BOOT_SECTOR_BYTES: usize = 512;
/// The last bytes of that part.
const SIGNATURE: [u8; 2] = [0x55, 0xaa];
/// Maximum bytes of a new volume's allocation table: the library holds all of it on the heap once, and a program has 1 MiB.
const MAX_TABLE_BYTES: usize = 512 << 10;
/// The largest volume that this permits, with the largest clusters.
const MAX_VOLUME_BYTES: u64 = (MAX_TABLE_BYTES as u64 / 4) * (32 << 10);

/// Bytes at the beginning in which other file systems, volume managers and partition tables have their signatures.
const LOOKED_AT: u64 = 128 << 10;

/// Kind of content, by the beginning of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// A FAT volume, which may be damaged.
    Volume,
    /// Zeroes.
    Nothing,
    /// Something else.
    Other,
}

/// Looks at the beginning of the stream.
///
/// # Errors
/// The stream's error.
pub(crate) async fn content<P: Platform>(stream: &mut ByteStream<P>) -> core::result::Result<Content, IoError> {
    let mut sector = [0; BOOT_SECTOR_BYTES];
    let mut is_blank = true;
    stream.seek(SeekFrom::Start(0)).await?;
    for at in (0..LOOKED_AT).step_by(BOOT_SECTOR_BYTES) {
        match stream.read_exact(&mut sector).await {
            Ok(()) if at == 0 && sector.ends_with(&SIGNATURE) => return Ok(Content::Volume),
            Ok(()) => is_blank &= sector.iter().all(|byte| *byte == 0),
            Err(ReadExactError::UnexpectedEof) => break,
            Err(ReadExactError::Other(error)) => return Err(error),
        }
    }
    Ok(if is_blank { Content::Nothing } else { Content::Other })
}

/// A mounted volume: all of a session's blocks.
pub(crate) struct Volume<'a, P: Platform> {
    fat: FatVolume<FromEmbedded<&'a mut ByteStream<P>>>,
}

impl<'a, P: Platform> Volume<'a, P> {
    /// Mounts the existing volume.
    pub(crate) async fn open(stream: &'a mut ByteStream<P>) -> Result<Self> {
        rewind(stream).await?;
        Ok(Self { fat: FatVolume::open(FromEmbedded::new(stream)).await? })
    }

    /// Makes a new volume.
    pub(crate) async fn format(stream: &'a mut ByteStream<P>, label: &str) -> Result<Self> {
        let options = options(stream.bytes(), stream.block_bytes())?.volume_label(label);
        Ok(Self { fat: FatVolumeFormatter::format(FromEmbedded::new(stream), options).await? })
    }

    /// Reads the contents of a file.
    pub(crate) async fn read(&self, path: &str) -> Result<Vec<u8>> {
        self.fat.open_file_path(path).await?.read_to_vec().await
    }

    /// Replaces the contents of a file with `bytes`. Makes the file and its folders where there are none.
    pub(crate) async fn write(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let name = parts.next_back().ok_or(Error::InvalidPath)?;
        let mut folder = self.fat.root_dir();
        for part in parts {
            folder = match folder.find(part).await? {
                Some(entry) => folder.open_entry(&entry)?,
                None => self.fat.create_dir(&folder, part).await?,
            };
        }
        let file = match folder.find(name).await? {
            Some(file) => file,
            None => self.fat.create_file(&folder, name).await?,
        };
        let mut writer = self.fat.write_file(&file)?;
        writer.write(bytes).await?;
        writer.finish().await
    }

    /// Brings all written data onto stable media.
    pub(crate) async fn sync(&self) -> Result<()> {
        self.fat.sync().await
    }
}

/// Chooses the format of a volume of that size, with sectors as large as blocks. The library chooses the type of FAT only
/// by the size, which gives some sizes too many or too few clusters. So other types and cluster sizes are tried.
fn options(bytes: u64, block_bytes: u32) -> Result<FatFormatOptions> {
    let sector_size = SectorSize::try_from(block_bytes as usize);
    let sector_size = sector_size.map_err(|()| Error::UnsupportedFatType("blocks larger than 4096 bytes"))?;
    let options = FatFormatOptions::new(bytes).sector_size(sector_size);
    let first = FatVolumeFormatter::calculate_params(&options);
    let clusters = |options: FatFormatOptions| {
        let sizes = core::iter::once(None).chain((0..=7).map(|shift| Some(1 << shift)));
        sizes.map(move |sectors_per_cluster| FatFormatOptions { sectors_per_cluster, ..options.clone() })
    };
    let others = [FatTypeSelection::Fat16, FatTypeSelection::Fat12, FatTypeSelection::Fat32].into_iter();
    let others = others.flat_map(|fat_type| clusters(options.clone().fat_type(fat_type)));
    let is_possible = |options: &FatFormatOptions| {
        let params = FatVolumeFormatter::calculate_params(options);
        params
            .is_ok_and(|params| (params.sectors_per_fat as usize).saturating_mul(params.sector_size) <= MAX_TABLE_BYTES)
    };
    let chosen = core::iter::once(options.clone()).chain(others).find(is_possible);
    match (chosen, first) {
        (Some(chosen), _) => Ok(chosen),
        (None, Ok(_)) => Err(Error::VolumeTooLarge { size: bytes, max_size: MAX_VOLUME_BYTES }),
        (None, Err(error)) => Err(error),
    }
}

async fn rewind<P: Platform>(stream: &mut ByteStream<P>) -> Result<()> {
    hadris_io::r#async::Seek::seek(&mut FromEmbedded::new(stream), SeekFrom::Start(0)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_up_to_the_largest_is_that_of_a_volume() {
        for block_bytes in [512, 1024, 2048, 4096] {
            for megabytes in (1..300).chain((300..4096).step_by(37)).chain([4095]) {
                // Sessions have any number of blocks.
                for bytes in [megabytes << 20, (megabytes << 20) + 13 * u64::from(block_bytes)] {
                    let options = options(bytes, block_bytes).unwrap_or_else(|error| panic!("{bytes} bytes: {error}"));
                    let params = FatVolumeFormatter::calculate_params(&options).unwrap();
                    assert_eq!(u64::from(params.total_sectors), bytes / u64::from(block_bytes));
                }
            }
        }
    }

    #[test]
    fn sizes_that_are_none_of_a_volume_are_errors() {
        assert!(matches!(options(4096, 512), Err(Error::VolumeTooSmall { .. })));
        assert!(matches!(options(64 << 30, 512), Err(Error::VolumeTooLarge { max_size: MAX_VOLUME_BYTES, .. })));
        assert!(matches!(options(16 << 20, 8192), Err(Error::UnsupportedFatType(_))));
    }
}
