//! A device that does what its registers say, and a server of it in a thread of its own.

use super::client::Client;
use crate::{
    BARS, Blocked, ClientEnd, ConfigSpace, Device, Host, Image, Level, Server, Shape, Snapshot, Stop, Timeouts,
};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

/// Size of BAR 0. From [`VOLATILE`] on, reads have side effects: each counts.
pub(super) const BAR_BYTES: usize = 0x1000;
pub(super) const VOLATILE: u64 = 0x800;

/// Registers in BAR 0. Below 0x40 is memory.
pub(super) const IOVA: u64 = 0x40;
pub(super) const LENGTH: u64 = 0x48;
pub(super) const OPERATION: u64 = 0x4C;
/// 0: nothing was done yet; otherwise one of `DONE_*`.
pub(super) const STATUS: u64 = 0x50;
pub(super) const VECTOR: u64 = 0x54;
/// Number of resets.
pub(super) const RESETS: u64 = 0x58;
/// A write makes an event due after so many microseconds.
pub(super) const TIMER: u64 = 0x5C;
/// Number of events.
pub(super) const EVENTS: u64 = 0x60;
/// Data of DMA.
pub(super) const BUFFER: u64 = 0x100;

pub(super) const DO_READ: u32 = 1;
pub(super) const DO_WRITE: u32 = 2;
pub(super) const DO_INTERRUPT: u32 = 3;
pub(super) const DO_ASSERT: u32 = 4;
pub(super) const DO_DEASSERT: u32 = 5;

pub(super) const DONE_WELL: u32 = 1;
pub(super) const DONE_REFUSED: u32 = 2;
pub(super) const DONE_GONE: u32 = 3;

/// The shape of the device.
pub(super) const SHAPE: Shape = Shape {
    bar_bytes: [BAR_BYTES as u64, 0, 16, 0, 0, 0],
    config: ConfigSpace::Extended,
    msix_vectors: 32,
    msi_vectors: 4,
    pin: true,
    reset: true,
};

/// The device.
pub(super) struct TestDevice {
    bar: Vec<u8>,
    small_bar: [u8; 16],
    config: Vec<u8>,
    resets: u32,
    event_ns: Option<u64>,
}

impl TestDevice {
    pub(super) fn new() -> Self {
        let config = (0..4096_u32).map(|at| at.to_le_bytes()[0]).collect();
        Self { bar: vec![0; BAR_BYTES], small_bar: [0; 16], config, resets: 0, event_ns: None }
    }

    fn register(&self, offset: u64) -> u32 {
        let at = offset as usize;
        u32::from_le_bytes(self.bar[at..at + 4].try_into().unwrap())
    }

    fn set_register(&mut self, offset: u64, value: u32) {
        let at = offset as usize;
        self.bar[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn operate(&mut self, host: &mut dyn Host) {
        let iova = u64::from(self.register(IOVA)) | u64::from(self.register(IOVA + 4)) << 32;
        let start = BUFFER as usize;
        let length = (self.register(LENGTH) as usize).min(BAR_BYTES - start);
        let mut data = self.bar[start..start + length].to_vec();
        let done = match u32::from_le_bytes(self.bar[OPERATION as usize..][..4].try_into().unwrap()) {
            DO_READ => {
                let done = host.dma_read(iova, &mut data);
                self.bar[start..start + length].copy_from_slice(&data);
                done
            }
            DO_WRITE => host.dma_write(iova, &data),
            DO_INTERRUPT => {
                host.interrupt(self.register(VECTOR) as u16);
                Ok(())
            }
            DO_ASSERT => {
                host.pin(Level::Asserted);
                Ok(())
            }
            DO_DEASSERT => {
                host.pin(Level::Deasserted);
                Ok(())
            }
            _ => return,
        };
        self.set_register(
            STATUS,
            match done {
                Ok(()) => DONE_WELL,
                Err(Blocked::Refused) => DONE_REFUSED,
                Err(Blocked::Gone) => DONE_GONE,
            },
        );
    }
}

impl Device for TestDevice {
    fn shape(&self) -> Shape {
        SHAPE
    }

    fn config_read(&mut self, offset: u16, bytes: &mut [u8], _now_ns: u64) {
        bytes.copy_from_slice(&self.config[usize::from(offset)..][..bytes.len()]);
    }

    fn config_write(&mut self, offset: u16, bytes: &[u8], _now_ns: u64, _host: &mut dyn Host) {
        self.config[usize::from(offset)..][..bytes.len()].copy_from_slice(bytes);
    }

    fn bar_read(&mut self, bar: u8, offset: u64, bytes: &mut [u8], _now_ns: u64) {
        let at = offset as usize;
        match bar {
            0 => {
                if offset >= VOLATILE {
                    let reads = self.register(VOLATILE).wrapping_add(1);
                    self.set_register(VOLATILE, reads);
                }
                bytes.copy_from_slice(&self.bar[at..][..bytes.len()]);
            }
            2 => bytes.copy_from_slice(&self.small_bar[at..][..bytes.len()]),
            other => panic!("there is no BAR {other}"),
        }
    }

    fn bar_write(&mut self, bar: u8, offset: u64, bytes: &[u8], now_ns: u64, host: &mut dyn Host) {
        let at = offset as usize;
        match bar {
            0 => self.bar[at..][..bytes.len()].copy_from_slice(bytes),
            2 => self.small_bar[at..][..bytes.len()].copy_from_slice(bytes),
            other => panic!("there is no BAR {other}"),
        }
        match (bar, offset) {
            (0, OPERATION) => self.operate(host),
            (0, TIMER) => self.event_ns = Some(now_ns.saturating_add(u64::from(self.register(TIMER)) * 1000)),
            _ => {}
        }
    }

    fn reset(&mut self, _now_ns: u64, host: &mut dyn Host) {
        assert_eq!(host.dma_write(0, &[0]), Err(Blocked::Gone));
        let Self { bar, small_bar, config: _, resets, event_ns } = self;
        bar.fill(0);
        small_bar.fill(0);
        *resets += 1;
        *event_ns = None;
        let resets = *resets;
        self.set_register(RESETS, resets);
    }

    fn advance(&mut self, now_ns: u64, _host: &mut dyn Host) {
        let due = self.event_ns.take().expect("advanced without an event");
        assert!(due <= now_ns, "advanced {} ns too early", due - now_ns);
        let events = self.register(EVENTS) + 1;
        self.set_register(EVENTS, events);
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.event_ns
    }

    fn snapshot(&mut self, _now_ns: u64, snapshot: &mut Snapshot) {
        let Snapshot { config, bars } = snapshot;
        assert!(config.bytes.is_empty() && bars.len() == BARS);
        let Image { bytes, kept } = config;
        bytes.extend_from_slice(&self.config);
        kept.resize(self.config.len(), 0xFF);
        bars[0].bytes.extend_from_slice(&self.bar[..VOLATILE as usize]);
        bars[0].kept.resize(0x40, 0xFF);
    }
}

/// A server of a [`TestDevice`] in a thread of its own.
pub(super) struct Served {
    pub(super) path: PathBuf,
    stop: Stop,
    thread: JoinHandle<Vec<String>>,
    _folder: TempDir,
}

impl Served {
    pub(super) fn begin() -> Self {
        Self::with(Timeouts::default())
    }

    /// With a client of transfers of at most `transfer` bytes.
    pub(super) fn with_client(transfer: u32) -> (Self, Client) {
        let served = Self::begin();
        let client = Client::begin(&served.path, transfer);
        (served, client)
    }

    /// With short timeouts.
    pub(super) fn impatient() -> Self {
        let timeouts = Timeouts { message: Duration::from_millis(50), dma: Duration::from_millis(200) };
        Self::with(timeouts)
    }

    fn with(timeouts: Timeouts) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut server = Server::bind(&path).unwrap();
        server.set_timeouts(timeouts);
        let stop = server.stop();
        let thread = std::thread::spawn(move || {
            let mut device = TestDevice::new();
            let mut ends = Vec::new();
            server.run(&mut device, &mut |end: &ClientEnd| ends.push(end.to_string())).unwrap();
            ends
        });
        Self { path, stop, thread, _folder: folder }
    }

    /// Stops the server. Returns how its clients' sessions ended.
    pub(super) fn end(self) -> Vec<String> {
        self.stop.raise();
        self.thread.join().expect("the server does not panic")
    }
}
