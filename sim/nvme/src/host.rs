//! The machine around the controller, as the controller sees it.
//!
//! The code that connects the model to a machine implements [`Host`]. Left out: address translation, the effect of bus
//! mastering on DMA, and the MSI-X table; these belong to the machine.

use sim_page::{PAGE_BYTES, SharedPage};

/// The controller's access to its machine: DMA and interrupts.
pub trait Host {
    /// Reads memory by DMA. The bytes may cross pages. After a refusal the content of `bytes` is undefined.
    ///
    /// # Errors
    /// [`Blocked`] when the machine does not let the access through.
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Blocked>;

    /// Writes memory by DMA. The bytes may cross pages; after a refusal some of them may be written.
    ///
    /// # Errors
    /// [`Blocked`] when the machine does not let the access through.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Blocked>;

    /// Reads `count` whole pages by DMA, from a multiple of their size on, and adds them to `pages`. A machine that can
    /// share them does.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    fn read_pages(&mut self, address: u64, count: usize, pages: &mut Vec<SharedPage>) -> Result<(), Blocked> {
        for at in (address..).step_by(PAGE_BYTES).take(count) {
            let mut page = SharedPage::zeroes();
            self.read(at, page.bytes_mut())?;
            pages.push(page);
        }
        Ok(())
    }

    /// Writes whole pages by DMA, from a multiple of their size on. A machine that can share them does.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    fn write_pages(&mut self, address: u64, pages: &[SharedPage]) -> Result<(), Blocked> {
        let places = (address..).step_by(PAGE_BYTES);
        places.zip(pages).try_for_each(|(at, page)| self.write(at, page.bytes()))
    }

    /// Sends the MSI-X message of this vector. Masking by the MSI-X table is the machine's.
    fn interrupt(&mut self, vector: u16);

    /// Whether the function may send messages: Bus Master Enable is set, on the way up too.
    fn is_bus_master(&self) -> bool;

    /// Sets the level of the INTx pin. Called only when it changes.
    fn pin(&mut self, level: Level);
}

/// A DMA access that the machine refused: no translation, no bus mastering, no such memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocked;

/// The level of an interrupt pin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Level {
    /// No interrupt is wanted.
    #[default]
    Deasserted,
    /// An interrupt is wanted.
    Asserted,
}

/// How many bytes a register access moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessSize {
    /// A single byte.
    One,
    /// Two bytes.
    Two,
    /// Four bytes.
    Four,
    /// Eight bytes.
    Eight,
}

impl AccessSize {
    /// The size of an access of `bytes` bytes, if there is such an access.
    #[must_use]
    pub const fn from_bytes(bytes: u8) -> Option<Self> {
        match bytes {
            1 => Some(Self::One),
            2 => Some(Self::Two),
            4 => Some(Self::Four),
            8 => Some(Self::Eight),
            _ => None,
        }
    }

    /// Bytes moved: 1, 2, 4 or 8.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
        }
    }

    /// `value` cut to this size.
    #[must_use]
    pub const fn truncate(self, value: u64) -> u64 {
        value & (u64::MAX >> (64 - 8 * self.bytes()))
    }
}
