//! The interfaces: the exported function ([`Device`]), and the client's machine as the function uses it ([`Host`]).

use crate::snapshot::Snapshot;
use core::fmt;

/// Number of BARs of a function (PCI, type 0 header).
pub const BARS: usize = 6;

/// The exported PCI function. The server calls it from one thread and never twice at a time.
///
/// `now_ns` is the server's time in nanoseconds; it does not go back. Registers are little endian. A call should return
/// within milliseconds: QEMU and its guest wait for it, and QEMU gives a request up after five seconds.
pub trait Device {
    /// Describes the function to a client. Called once for each client; must not change while one is attached.
    fn shape(&self) -> Shape;

    /// Reads configuration space from byte `offset` on: at least one byte, inside of [`Shape::config`], also across
    /// registers. QEMU reads all of it at once when it starts.
    fn config_read(&mut self, offset: u16, bytes: &mut [u8], now_ns: u64);

    /// Writes configuration space, as [`Device::config_read`]. QEMU forwards each of its guest's writes, also those to
    /// BARs and to the MSI-X capability, which it emulates itself.
    fn config_write(&mut self, offset: u16, bytes: &[u8], now_ns: u64, host: &mut dyn Host);

    /// Reads BAR `bar` (0 to 5) from byte `offset` on, inside of its size. QEMU sends 1, 2, 4 or 8 bytes; another client
    /// may send any number. The MSI-X table belongs to the client and is not read here; the pending bits are. A read has
    /// no [`Host`]: until it is answered, QEMU's processor holds the lock that the answer to a DMA message needs.
    fn bar_read(&mut self, bar: u8, offset: u64, bytes: &mut [u8], now_ns: u64);

    /// Writes BAR `bar`, as [`Device::bar_read`].
    fn bar_write(&mut self, bar: u8, offset: u64, bytes: &[u8], now_ns: u64, host: &mut dyn Host);

    /// Resets the function: at the client's request, if [`Shape::reset`], and when a client has left. DMA is refused
    /// during the reset, and interrupts are ignored. The server lowers the pin and clears pending vectors by itself. A
    /// function level reset is not this: it comes as a write to configuration space.
    fn reset(&mut self, now_ns: u64, host: &mut dyn Host);

    /// Executes everything that is due at `now_ns`.
    fn advance(&mut self, now_ns: u64, host: &mut dyn Host);

    /// Time at which [`Device::advance`] has something to do next; may lie in the past.
    fn next_event_ns(&self) -> Option<u64>;

    /// Fills in what the client may read while the device waits for DMA by message: the registers whose reads have no
    /// side effects. The server calls it before each call that has a [`Host`], so it should cost little; `snapshot` is
    /// empty, and keeps its memory from call to call.
    ///
    /// Reads outside of the snapshot are refused during such DMA, and QEMU's guest then reads ones. A device for QEMU
    /// covers all of its configuration space and of its BARs, the MSI-X table excepted.
    fn snapshot(&mut self, now_ns: u64, snapshot: &mut Snapshot);
}

/// The client's machine, as the device uses it.
pub trait Host {
    /// Reads memory by DMA. The bytes may cross pages and regions.
    ///
    /// # Errors
    ///
    /// [`Blocked`]; `bytes` is then as it was or partly overwritten.
    fn dma_read(&mut self, iova: u64, bytes: &mut [u8]) -> Result<(), Blocked>;

    /// Writes memory by DMA, as [`Host::dma_read`]. The bytes are in memory when it returns.
    ///
    /// # Errors
    ///
    /// [`Blocked`]; some of `bytes` may have been written.
    fn dma_write(&mut self, iova: u64, bytes: &[u8]) -> Result<(), Blocked>;

    /// Signals a vector: of MSI while the client has eventfds for that, otherwise of MSI-X. A vector of MSI-X that has
    /// no eventfd yet stays pending until it gets one. A vector outside of the shape is ignored.
    fn interrupt(&mut self, vector: u16);

    /// Sets the level of the interrupt pin. The level is remembered. Ignored if the function has no pin.
    fn pin(&mut self, level: Level);
}

/// The description of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Sizes of the BARs in bytes. Zero: there is no such BAR, or it is the upper half of a 64-bit BAR.
    pub bar_bytes: [u64; BARS],
    /// Size of configuration space.
    pub config: ConfigSpace,
    /// Number of MSI-X vectors, at most 2048. Zero: no MSI-X.
    pub msix_vectors: u16,
    /// Number of MSI vectors, at most 32. Zero: no MSI.
    pub msi_vectors: u16,
    /// Whether the function has an interrupt pin.
    pub pin: bool,
    /// Whether a client may reset the function by `VFIO_USER_DEVICE_RESET`.
    pub reset: bool,
}

/// Size of a function's configuration space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConfigSpace {
    /// 256 bytes (PCI). QEMU then does not treat the function as PCI Express.
    Conventional,
    /// 4096 bytes (PCI Express).
    Extended,
}

impl ConfigSpace {
    /// The size in bytes.
    pub const fn bytes(self) -> u16 {
        match self {
            Self::Conventional => 256,
            Self::Extended => 4096,
        }
    }
}

/// State of an interrupt pin, whatever its polarity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Level {
    /// An interrupt is wanted.
    Asserted,
    /// No interrupt is wanted.
    #[default]
    Deasserted,
}

/// The reason why a DMA did not happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blocked {
    /// The client refused: no such memory, no right, or its IOMMU has no translation.
    Refused,
    /// The client is leaving, or has asked for a reset that waits for this call to return.
    Gone,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "refused by the client",
            Self::Gone => "the client is leaving or resets the device",
        })
    }
}

impl core::error::Error for Blocked {}
