//! Keeps files in a FAT file system on its session: makes the file system where there is none, writes files and reads them
//! back.
//!
//! An example of a file system from crates.io on a session. Neighbours: `blk-client` gives it the session as a stream of
//! bytes, `hadris-fat` is the file system, and `config` names the files. Any other reader finds them in the image: the
//! session's blocks are a volume without a partition table.

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

extern crate alloc;

mod config;
mod failure;
mod files;

pub use config::{Config, File};

use blk_client::{ByteStream, CopyingDevice, Device, Program, Reporter};
use failure::{Failure, Step};
use files::{Content, Volume};
use platform::{Environment, Platform};

/// Runs the program: executes the environment's configuration and reports.
pub async fn run<P: Platform>(platform: P, environment: Environment) {
    let Some(program) = Program::<P, Config>::start(&platform, &environment) else { return };
    let result = keep_files(platform, &environment, &program).await;
    if let Err(Failure::Open(error)) = result {
        program.reporter.not_open(error);
        return program.reporter.done(false);
    }
    program.finish(result);
}

async fn keep_files<P: Platform>(
    platform: P,
    environment: &Environment,
    program: &Program<P, Config>,
) -> Result<(), Failure> {
    let Program { client: _, config, reporter } = program;
    let device = Device::open(platform, environment, program.options()).await.map_err(Failure::Open)?;
    let kept = keep_on(&device, config, reporter).await;
    let closed = device.close().await.map_err(Failure::Close);
    kept.and(closed)
}

async fn keep_on<P: Platform>(device: &Device<P>, config: &Config, reporter: &Reporter<P>) -> Result<(), Failure> {
    let mut stream = ByteStream::new(CopyingDevice::new(device, config.buffer_bytes as usize)?);
    let kept = device.run(write_and_check(&mut stream, config, reporter)).await;
    kept.map_err(|failure| failure.with_cause(stream.last_error()))
}

/// Reads the existing files and writes the others. Then reads those from the device, as the next program to mount the
/// volume finds them.
async fn write_and_check<P: Platform>(
    stream: &mut ByteStream<P>,
    config: &Config,
    reporter: &Reporter<P>,
) -> Result<(), Failure> {
    let is_new = config.format
        || match files::content(stream).await? {
            Content::Volume => false,
            Content::Nothing => true,
            Content::Other => return Err(Failure::HoldsOther),
        };
    let volume = if is_new { Volume::format(stream, &config.label).await } else { Volume::open(stream).await };
    let volume = volume.map_err(Step::Mount { is_new }.failed())?;
    check(&volume, &config.expect).await?;
    for file in &config.write {
        let written = volume.write(&file.path, file.contents().as_bytes()).await;
        written.map_err(Step::Write(file.path.clone()).failed())?;
    }
    volume.sync().await.map_err(Step::Sync.failed())?;
    drop(volume);
    let volume = Volume::open(stream).await.map_err(Step::Mount { is_new: false }.failed())?;
    check(&volume, &config.write).await?;
    reporter.first_io();
    Ok(())
}

/// Checks that the files exist, with their contents.
async fn check<P: Platform>(volume: &Volume<'_, P>, files: &[File]) -> Result<(), Failure> {
    for file in files {
        let found = volume.read(&file.path).await.map_err(Step::Read(file.path.clone()).failed())?;
        let contents = file.contents();
        let differs = found.iter().zip(contents.as_bytes()).position(|(found, expected)| found != expected);
        let ends = found.len().min(contents.len());
        if let Some(at) = differs.or((found.len() != contents.len()).then_some(ends)) {
            return Err(Failure::Differs { path: file.path.clone(), at });
        }
        platform::log::info!("{} holds its {} bytes", file.path.as_str(), found.len());
    }
    Ok(())
}
