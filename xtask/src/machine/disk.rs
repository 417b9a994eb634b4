//! Raw disk images: created for a run, or the user's own.

use anyhow::{Context, Result, bail, ensure};
use capdl::scenario::Content;
use sha2::{Digest, Sha256};
use sim_page::pattern;
use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Bytes that must stay free on the build machine's disk besides those that a run may write.
const RESERVE: u64 = 64 << 20;

/// Bytes that `scenarios/digest.toml` needs: one block.
const LEAST_DIGESTED: u64 = 512;

/// Treatment of tenants' writes to the user's disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writing {
    /// Writes are dropped when the machine ends: the file stays as it is.
    Forgotten,
    /// Writes go to the file.
    Kept,
}

/// The user's own disk.
#[derive(Clone, Debug)]
pub struct UserDisk {
    /// The file.
    pub path: PathBuf,
    /// Treatment of tenants' writes.
    pub writing: Writing,
    /// The disk's size in bytes.
    pub bytes: u64,
}

impl UserDisk {
    /// Opens the disk at `path`, if it can be used.
    pub fn open(path: &Path, writing: Writing) -> Result<Self> {
        let shown = path.display();
        let metadata = fs::metadata(path)
            .with_context(|| format!("the disk {shown} cannot be opened: name a raw image or another file"))?;
        let kind = metadata.file_type();
        ensure!(!kind.is_dir(), "the disk {shown} is a folder: name a raw image or another file");
        // Opening a pipe would wait for its other end.
        ensure!(
            kind.is_file() || kind.is_block_device(),
            "the disk {shown} is neither a file nor a block device: name a raw image or another file"
        );
        let mut file = OpenOptions::new().read(true).write(writing == Writing::Kept).open(path).with_context(|| {
            let how = match writing {
                Writing::Kept => "read and written: change its permissions, or leave out --write",
                Writing::Forgotten => "read: change its permissions",
            };
            format!("the disk {shown} cannot be {how}")
        })?;
        // The metadata of a block device has no length.
        let bytes = file.seek(SeekFrom::End(0)).with_context(|| format!("the disk {shown} has no length"))?;
        let path = path.canonicalize().with_context(|| format!("the disk {shown} cannot be found"))?;
        Ok(Self { path, writing, bytes })
    }

    /// Fails unless the disk has room for `needed` bytes.
    pub(crate) fn ensure_holds(&self, needed: u64, scenario: &str) -> Result<()> {
        let path = self.path.display();
        let digest = match self.bytes {
            0..LEAST_DIGESTED => String::new(),
            _ => format!("; or digest its whole blocks with: cargo xtask demo digest --disk {path}"),
        };
        ensure!(
            self.bytes >= needed,
            "the disk {path} has {} bytes and the scenario '{scenario}' needs {needed}: name a larger file, or grow it \
             with: truncate -s {needed} {path}{digest}",
            self.bytes
        );
        Ok(())
    }
}

/// Creates the image `path` of `bytes` bytes, sparse where it is zero. An image that cannot be finished is removed.
pub fn create(path: &Path, bytes: u64, content: Content) -> Result<()> {
    let made = ensure_space(path, bytes, content).and_then(|()| write_image(path, bytes, content));
    if made.is_err() {
        // Removes a partial image, if there is one.
        let _ = fs::remove_file(path);
    }
    made
}

fn ensure_space(path: &Path, bytes: u64, content: Content) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    let state = rustix::fs::statvfs(folder).with_context(|| format!("cannot look at {}", folder.display()))?;
    let free = state.f_bavail.saturating_mul(state.f_frsize);
    // Tenants write a small part of a sparse image; a full one is written at once.
    let needed = RESERVE + if content == Content::Pattern { bytes } else { 0 };
    ensure!(
        free >= needed,
        "there is no space for a disk image: {} MiB are free in {} and {} are needed; make room there, for instance \
         with: cargo clean",
        free >> 20,
        folder.display(),
        needed >> 20
    );
    Ok(())
}

fn write_image(path: &Path, bytes: u64, content: Content) -> Result<()> {
    let sentence = || format!("cannot make the disk image {}", path.display());
    let file = File::create(path).with_context(sentence)?;
    file.set_len(bytes).with_context(sentence)?;
    if content == Content::Pattern {
        let mut part = vec![0; 1 << 20];
        (0..bytes)
            .step_by(part.len())
            .try_for_each(|at| {
                pattern::read(at, &mut part);
                (&file).write_all(&part)
            })
            .map_err(|error| match error.kind() {
                ErrorKind::StorageFull => {
                    anyhow::anyhow!("there is no space left for the disk image {}", path.display())
                }
                _ => anyhow::Error::new(error).context(sentence()),
            })?;
        file.set_len(bytes).with_context(sentence)?;
    }
    Ok(())
}

/// Whether `bytes`, from the byte `at` of an image, have the content that [`create`] wrote there.
pub(crate) fn is_initial(content: Content, at: u64, bytes: &[u8]) -> bool {
    let mut initial = vec![0; bytes.len()];
    if content == Content::Pattern {
        pattern::read(at, &mut initial);
    }
    initial == bytes
}

/// The SHA-256 of `bytes` bytes from `first` of the file at `path`. Bytes beyond its end, up to a block, count as zeroes, as in
/// QEMU.
pub(crate) fn sha256(path: &Path, first: u64, bytes: u64) -> Result<[u8; 32]> {
    let sentence = || format!("cannot read {}", path.display());
    let mut file = BufReader::new(File::open(path).with_context(sentence)?);
    file.seek(SeekFrom::Start(first)).with_context(sentence)?;
    sha256_of(file, bytes).with_context(sentence)
}

/// The SHA-256 of the next `bytes` bytes of `reader`, as [`sha256`].
pub fn sha256_of(mut reader: impl Read, bytes: u64) -> Result<[u8; 32]> {
    let mut hash = Sha256::new();
    let mut left = bytes;
    let mut buffer = vec![0; 1 << 16];
    while left > 0 {
        let part = buffer.get_mut(..left.min(1 << 16) as usize).unwrap_or_default();
        let read = reader.read(part)?;
        if read == 0 && left < 512 {
            part.fill(0);
            hash.update(&*part);
            break;
        }
        if read == 0 {
            bail!("it ends {left} bytes before the end of the range");
        }
        hash.update(part.get(..read).unwrap_or_default());
        left -= read as u64;
    }
    Ok(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_of_zeroes_takes_no_space() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("zeroes.img");
        create(&path, 1 << 30, Content::Zeroes).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.len(), 1 << 30);
        assert!(metadata.blocks() < 100);
    }

    #[test]
    fn patterned_image_differs_by_block_and_not_by_run() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one.img"), folder.path().join("two.img"));
        create(&one, 65_536, Content::Pattern).unwrap();
        create(&two, 65_536, Content::Pattern).unwrap();
        assert_eq!(fs::read(&one).unwrap(), fs::read(&two).unwrap());
        assert_ne!(sha256(&one, 0, 4096).unwrap(), sha256(&one, 4096, 4096).unwrap());
    }

    #[test]
    fn the_hash_of_a_range_is_that_of_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        fs::write(&path, b"xxabcxx").unwrap();
        let expected = <[u8; 32]>::from(Sha256::digest(b"abc"));
        assert_eq!(sha256(&path, 2, 3).unwrap(), expected);
        assert!(format!("{:#}", sha256(&path, 0, 4096).unwrap_err()).contains("ends"));
    }

    #[test]
    fn a_disk_that_cannot_serve_is_refused_in_one_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let missing = UserDisk::open(&folder.path().join("none"), Writing::Forgotten).unwrap_err().to_string();
        assert!(missing.contains("cannot be opened"), "{missing}");
        assert!(UserDisk::open(folder.path(), Writing::Forgotten).unwrap_err().to_string().contains("is a folder"));
        let path = folder.path().join("small");
        fs::write(&path, [0; 1000]).unwrap();
        let disk = UserDisk::open(&path, Writing::Forgotten).unwrap();
        let small = disk.ensure_holds(4096, "demo").unwrap_err().to_string();
        assert!(
            small.contains("has 1000 bytes") && small.contains("truncate -s 4096") && small.contains("demo digest"),
            "{small}"
        );
        fs::write(&path, [0; 511]).unwrap();
        let disk = UserDisk::open(&path, Writing::Forgotten).unwrap();
        let smaller = disk.ensure_holds(512, "digest").unwrap_err().to_string();
        assert!(smaller.contains("needs 512") && !smaller.contains("demo digest"), "{smaller}");
        fs::write(&path, [0; 1000]).unwrap();
        let disk = UserDisk::open(&path, Writing::Forgotten).unwrap();
        assert!(disk.ensure_holds(1000, "demo").is_ok());
    }
}
