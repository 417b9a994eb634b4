//! The machine's memory, by physical addresses.

use crate::machine::qemu::ram_file;
use anyhow::{Context, Result};
use capdl_spec::Arch;
use kernel::configure::VIRT_MEMORY_START;
use platform::PAGE_SIZE;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use telemetry::page::CONTENTS;

/// Memory that is read by physical addresses.
pub trait Physical {
    /// Copies the bytes from `paddr` on; `None` where there is no memory.
    fn copy(&self, paddr: u64, bytes: &mut [u8]) -> Option<()>;
}

/// The file in which QEMU has the machine's memory.
#[derive(Debug)]
pub struct Ram {
    file: File,
    /// Physical address of its first byte.
    start: u64,
}

impl Ram {
    /// The memory of the machine whose run has this folder.
    ///
    /// # Errors
    /// The file cannot be opened: the machine has no telemetry, or the run is over.
    pub fn of(folder: &Path, arch: Arch) -> Result<Self> {
        let path = ram_file(folder);
        let file =
            File::open(&path).with_context(|| format!("cannot read the machine's memory, {}", path.display()))?;
        Ok(Self { file, start: start_of(arch) })
    }

    /// As [`Ram::of`], to write to as well.
    ///
    /// # Errors
    /// As [`Ram::of`].
    pub fn writable(folder: &Path, arch: Arch) -> Result<Self> {
        let path = ram_file(folder);
        let file = File::options().read(true).write(true).open(&path);
        let file = file.with_context(|| format!("cannot write to the machine's memory, {}", path.display()))?;
        Ok(Self { file, start: start_of(arch) })
    }

    /// Copies the bytes from `paddr` on.
    ///
    /// # Errors
    /// There is no memory, or the run is over.
    pub fn load(&self, paddr: u64, bytes: &mut [u8]) -> Result<()> {
        self.copy(paddr, bytes).context("the machine's memory cannot be read: the run is over")
    }

    /// Writes the bytes from `paddr` on.
    ///
    /// # Errors
    /// There is no memory, or the file was not opened to write.
    pub fn store(&self, paddr: u64, bytes: &[u8]) -> Result<()> {
        let offset = paddr.checked_sub(self.start).context("the machine has no memory there")?;
        self.file.write_all_at(bytes, offset).context("the machine's memory cannot be written")
    }
}

/// A file for the pages of a machine that has no file of its memory: commands that watch it read it as they read [`Ram`]. The file
/// goes with the value.
#[derive(Debug)]
pub struct Mirror {
    path: PathBuf,
    file: File,
    start: u64,
}

impl Drop for Mirror {
    fn drop(&mut self) {
        // A file that cannot be removed does no harm.
        let _ = fs::remove_file(&self.path);
    }
}

impl Mirror {
    /// An empty file in the run's folder.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new(folder: &Path, arch: Arch) -> Result<Self> {
        let path = ram_file(folder);
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path, file, start: start_of(arch) })
    }

    /// Writes bytes at a physical address.
    ///
    /// # Errors
    /// The disk is full.
    pub fn write(&self, paddr: u64, bytes: &[u8]) -> Result<()> {
        let Some(offset) = paddr.checked_sub(self.start) else { return Ok(()) };
        self.file.write_all_at(bytes, offset).context("cannot write the machine's telemetry: is the disk full?")
    }

    /// Copies the page at this address, as a component writes it: with an odd version meanwhile.
    ///
    /// # Errors
    /// The disk is full.
    pub fn show(&self, memory: &dyn Physical, paddr: u64) -> Result<()> {
        let mut page = [0; PAGE_SIZE];
        let Some(offset) = paddr.checked_sub(self.start).filter(|_| memory.copy(paddr, &mut page).is_some()) else {
            return Ok(());
        };
        let (version, contents) = page.split_at(CONTENTS);
        let write = |bytes: &[u8], at: usize| self.file.write_all_at(bytes, offset.saturating_add(at as u64));
        write(&u32::MAX.to_le_bytes(), 0)
            .and_then(|()| write(contents, CONTENTS))
            .and_then(|()| write(version, 0))
            .context("cannot write the machine's telemetry: is the disk full?")
    }
}

impl Physical for Mirror {
    fn copy(&self, paddr: u64, bytes: &mut [u8]) -> Option<()> {
        self.file.read_exact_at(bytes, paddr.checked_sub(self.start)?).ok()
    }
}

/// Physical address of the first byte of memory.
const fn start_of(arch: Arch) -> u64 {
    match arch {
        Arch::X86_64 => 0,
        Arch::Aarch64 => VIRT_MEMORY_START,
    }
}

impl Physical for Ram {
    fn copy(&self, paddr: u64, bytes: &mut [u8]) -> Option<()> {
        self.file.read_exact_at(bytes, paddr.checked_sub(self.start)?).ok()
    }
}
