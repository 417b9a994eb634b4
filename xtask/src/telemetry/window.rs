//! The window by which a controller of a running system is administered: pages that the build machine and the controller share.

use super::physical::Ram;
use super::sample::Places;
use anyhow::{Context, Result, bail};
use platform::PAGE_SIZE;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The file of the lock by which commands take turns. One that administers holds it to its end, since it has all of the window.
const LOCK: &str = "administration.lock";
/// The longest wait for another command.
const LONGEST: Duration = Duration::from_secs(20);
/// Time between two tries.
const TRY: Duration = Duration::from_millis(10);

/// A window, which its holder alone uses.
#[derive(Debug)]
pub struct Window {
    ram: Ram,
    pages: Vec<u64>,
    /// Locked until it is closed.
    _lock: File,
}

impl Window {
    /// The window for this controller of the run with this folder.
    ///
    /// # Errors
    /// The system has none, another command uses it, or the machine's memory cannot be written.
    pub fn open(folder: &Path, ram: Ram, places: &Places, controller: usize) -> Result<Self> {
        let pages = places.window(controller).context("the system has no window to administer its controller")?;
        let file = folder.join(LOCK);
        let lock = File::create(&file).with_context(|| format!("cannot write {}", file.display()))?;
        let since = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Self { ram, pages, _lock: lock }),
                Err(TryLockError::WouldBlock) if since.elapsed() < LONGEST => thread::sleep(TRY),
                Err(TryLockError::WouldBlock) => {
                    bail!("another command administers a controller of this run: wait until it has ended")
                }
                Err(TryLockError::Error(error)) => {
                    return Err(error).with_context(|| format!("cannot lock {}", file.display()));
                }
            }
        }
    }

    /// Bytes of the window.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.pages.len() * PAGE_SIZE
    }

    /// Copies the window from its beginning.
    ///
    /// # Errors
    /// The run is over.
    pub fn load(&self, bytes: &mut [u8]) -> Result<()> {
        let mut pages = self.pages.iter().zip(bytes.chunks_mut(PAGE_SIZE));
        pages.try_for_each(|(page, bytes)| self.ram.load(*page, bytes))
    }

    /// Writes the window from its beginning.
    ///
    /// # Errors
    /// The machine has no such memory.
    pub fn store(&self, bytes: &[u8]) -> Result<()> {
        let mut pages = self.pages.iter().zip(bytes.chunks(PAGE_SIZE));
        pages.try_for_each(|(page, bytes)| self.ram.store(*page, bytes))
    }
}
