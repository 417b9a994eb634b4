//! Writes blocks of its session, reads them back, and fails if one differs.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec;
use blk_client::{Device, Error, OpenError, Program};
use core::fmt;
use platform::log::info;
use platform::{Environment, OutOfBounds, Platform};
use serde::{Deserialize, Serialize};

/// Configuration: `[tenant.program.config]` of the scenario.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Number of blocks to write and read, from the first on.
    pub blocks: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { blocks: 64 }
    }
}

/// Reason of a failure.
enum Failure {
    Open(OpenError),
    /// The session has fewer blocks than the configuration names, or the window is too small for one.
    TooSmall,
    Request { lba: u64, error: Error },
    Window(OutOfBounds),
    WrongByte { lba: u64 },
    Close(Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => write!(f, "open: {error}"),
            Self::TooSmall => f.write_str("the session or its window is too small"),
            Self::Request { lba, error } => write!(f, "block {lba}: {error}"),
            Self::Window(error) => write!(f, "window: {error}"),
            Self::WrongByte { lba } => write!(f, "block {lba} is not as it was written"),
            Self::Close(error) => write!(f, "close: {error}"),
        }
    }
}

/// The whole program. The platform is seL4, the simulator, or a test's.
pub async fn run<P: Platform>(platform: P, environment: Environment) {
    let Some(program) = Program::<P, Config>::start(&platform, &environment) else { return };
    program.finish(work(platform, &environment, &program).await);
}

async fn work<P: Platform>(
    platform: P,
    environment: &Environment,
    program: &Program<P, Config>,
) -> Result<(), Failure> {
    let device = Device::open(platform, environment, program.options()).await.map_err(Failure::Open)?;
    info!("{} blocks of {} bytes", device.geometry().blocks, device.geometry().block_bytes);
    // Requests make progress only inside of `Device::run`.
    let checked = device.run(check(&device, program)).await;
    let closed = device.close().await.map_err(Failure::Close);
    program.reporter.value("blocks", checked? as f64, "blocks");
    closed
}

/// Writes each block and reads it back; returns the number of blocks.
async fn check<P: Platform>(device: &Device<P>, program: &Program<P, Config>) -> Result<u64, Failure> {
    let (blocks, bytes) = (program.config.blocks, device.geometry().block_bytes as usize);
    let buffer = device.window().lease(bytes).filter(|_| blocks <= device.geometry().blocks);
    let buffer = buffer.ok_or(Failure::TooSmall)?;
    let mut read = vec![0; bytes];
    for lba in 0..blocks {
        let written = vec![lba as u8 | 1; bytes];
        buffer.write_bytes(0, &written).map_err(Failure::Window)?;
        device.write(lba, &[buffer.whole()]).await.map_err(|error| Failure::Request { lba, error })?;
        buffer.write_bytes(0, &vec![0; bytes]).map_err(Failure::Window)?;
        device.read(lba, &[buffer.whole()]).await.map_err(|error| Failure::Request { lba, error })?;
        buffer.read_bytes(0, &mut read).map_err(Failure::Window)?;
        if read != written {
            return Err(Failure::WrongByte { lba });
        }
        if lba == 0 {
            program.reporter.first_io();
        }
    }
    Ok(blocks)
}
