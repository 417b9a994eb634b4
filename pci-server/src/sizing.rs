//! A note of a function's BARs, or of its virtual functions', while they are sized or lost, in a page that outlives the server.
//!
//! Sizing writes all ones into a BAR, with decoding off, and then restores its value. If the server is stopped in between,
//! the address that firmware gave the BAR is lost, and the next incarnation reads a size instead of an address. So the
//! server notes the registers before sizing, and a server that finds a note restores them. A function-level reset clears them
//! too, and a function loses them on the way from D3hot to D0: the server takes a note before, and restores them from it.
//!
//! The page also notes whether virtual functions may be enabled, since the next server must disable these first, and a word for
//! each slot (`slot::state::Kept`).
//!
//! Neighbours: `bars` sizes, `enable` enables, `provision` resets, `power` wakes, `predecessor` restores before any function is read. Left out: everything else
//! that a dead server leaves in configuration space, which the walk silences and the next claim sets again.

use crate::config_space::ConfigSpace;
use pci_spec::Bdf;
use pci_spec::bar::RawBar;
use pci_spec::header::BARS_TYPE_0;
use platform::{Memory, Mmio, OutOfBounds};
use virtio_drivers::transport::pci::bus::Command;

/// The function that is being sized or reset: 0 for none, otherwise [`UNDER_WAY`], the number of its BARs << 16, and its place.
const FUNCTION: usize = 0;
const UNDER_WAY: u32 = 1 << 31;
/// The function's command register.
const COMMAND: usize = 4;
/// Byte offset in its configuration space of the first BAR.
const FIRST: usize = 8;
/// The function's BARs, a word each.
const BARS: usize = 12;
/// Registers of a bridge from its first BAR on that a note can hold: its BARs, buses and windows.
pub(crate) const NOTED_BRIDGE: u8 = 9;
/// Whether virtual functions were enabled, 0 or 1.
const ENABLED: usize = 48;
/// A word for each slot.
const SLOTS: usize = 64;

/// The page.
#[derive(Debug)]
pub struct Note<M> {
    page: M,
}

impl<M: Memory> Note<M> {
    /// The note in `page`, which holds zeroes or an earlier server's note.
    #[must_use]
    pub const fn new(page: M) -> Self {
        Self { page }
    }

    /// Notes the command register of `bdf` and `count` registers, up to nine, of which the first is at byte `first`. The note ends
    /// with [`Note::strike`].
    ///
    /// # Errors
    ///
    /// [`OutOfBounds`]: then nothing is noted.
    pub fn take(&self, config: &ConfigSpace<impl Mmio>, bdf: Bdf, first: u16, count: u8) -> Result<(), OutOfBounds> {
        self.page.store_release_u32(COMMAND, u32::from(config.command(bdf).bits()))?;
        self.page.store_release_u32(FIRST, first.into())?;
        for (register, at) in words(first, count) {
            self.page.store_release_u32(at, config.read_extended(bdf, register))?;
        }
        self.page.store_release_u32(FUNCTION, UNDER_WAY | u32::from(count) << 16 | u32::from(bdf.to_raw()))
    }

    /// Whether there is a note that was not cleared.
    ///
    /// # Errors
    ///
    /// As [`Note::take`].
    pub fn is_taken(&self) -> Result<bool, OutOfBounds> {
        Ok(self.page.load_acquire_u32(FUNCTION)? != 0)
    }

    /// Clears the note, because all registers have their noted values again.
    ///
    /// # Errors
    ///
    /// As [`Note::take`].
    pub fn strike(&self) -> Result<(), OutOfBounds> {
        self.page.store_release_u32(FUNCTION, 0)
    }

    /// Notes that virtual functions may be enabled from now on.
    ///
    /// # Errors
    ///
    /// As [`Note::take`].
    pub fn mark_enabled(&self) -> Result<(), OutOfBounds> {
        self.page.store_release_u32(ENABLED, 1)
    }

    /// Whether an earlier server may have left virtual functions enabled, or disabled them only now.
    ///
    /// # Errors
    ///
    /// As [`Note::take`].
    pub fn is_marked_enabled(&self) -> Result<bool, OutOfBounds> {
        Ok(self.page.load_acquire_u32(ENABLED)? != 0)
    }

    /// Notes that all virtual functions are disabled, and that enough time has passed since.
    ///
    /// # Errors
    ///
    /// As [`Note::take`].
    pub fn strike_enabled(&self) -> Result<(), OutOfBounds> {
        self.page.store_release_u32(ENABLED, 0)
    }

    /// The word that was kept last of slot `index`, in the order of the configuration; 0 at first.
    ///
    /// # Errors
    ///
    /// As [`Note::take`].
    pub fn of_slot(&self, index: usize) -> Result<u32, OutOfBounds> {
        self.page.load_acquire_u32(slot(index))
    }

    /// Keeps a word of slot `index`.
    ///
    /// # Errors
    ///
    /// As [`Note::take`].
    pub fn keep_of_slot(&self, index: usize, word: u32) -> Result<(), OutOfBounds> {
        self.page.store_release_u32(slot(index), word)
    }

    /// Restores the values of a note that was not cleared, and clears it. Returns the function.
    ///
    /// # Errors
    ///
    /// As [`Note::take`].
    pub fn put_back(&self, config: &mut ConfigSpace<impl Mmio>) -> Result<Option<Bdf>, OutOfBounds> {
        let word = self.page.load_acquire_u32(FUNCTION)?;
        let [low, high, count, mark] = word.to_le_bytes();
        if mark == 0 {
            return Ok(None);
        }
        let bdf = Bdf::from_raw(u16::from_le_bytes([low, high]));
        config.change_command(bdf, Command::empty(), Command::IO_SPACE | Command::MEMORY_SPACE);
        let [low, high, ..] = self.page.load_acquire_u32(FIRST)?.to_le_bytes();
        for (register, at) in words(u16::from_le_bytes([low, high]), count) {
            config.write_extended(bdf, register, self.page.load_acquire_u32(at)?);
        }
        let [low, high, ..] = self.page.load_acquire_u32(COMMAND)?.to_le_bytes();
        let command = Command::from_bits_truncate(u16::from_le_bytes([low, high]));
        config.change_command(bdf, command, command.complement());
        self.strike()?;
        Ok(Some(bdf))
    }
}

const fn slot(index: usize) -> usize {
    index.saturating_mul(size_of::<u32>()).saturating_add(SLOTS)
}

/// The registers of `count` BARs from `first` on, and their places in the note.
fn words(first: u16, count: u8) -> impl Iterator<Item = (u16, usize)> {
    let registers = (first..).step_by(size_of::<u32>()).take(count.min(NOTED_BRIDGE).into());
    registers.zip((BARS..).step_by(size_of::<u32>()))
}

/// Reads the values and sizes of `count` BARs of `bdf`, up to six, of which the first is at byte `first`. Otherwise as
/// [`size`](crate::bars::size).
pub(crate) fn read_sizes<M: Mmio>(
    config: &mut ConfigSpace<M>,
    note: &Note<impl Memory>,
    bdf: Bdf,
    first: u16,
    count: u8,
) -> Result<heapless::Vec<RawBar, 6>, OutOfBounds> {
    note.take(config, bdf, first, count)?;
    let decoding = Command::IO_SPACE | Command::MEMORY_SPACE;
    let before = config.change_command(bdf, Command::empty(), decoding);
    let registers = (first..).step_by(4).take(count.min(BARS_TYPE_0).into());
    let raw = registers
        .map(|register| {
            let value = config.read_extended(bdf, register);
            config.write_extended(bdf, register, u32::MAX);
            let sized = config.read_extended(bdf, register);
            config.write_extended(bdf, register, value);
            RawBar { value, sized }
        })
        .collect();
    config.change_command(bdf, before.intersection(decoding), Command::empty());
    note.strike()?;
    Ok(raw)
}
