//! Reads a range of its session through the whole stack, in order, and reports its SHA-256.
//!
//! Several reads are in flight; they are hashed in the order of the blocks. Neighbours: `blk-client` reads, `workload`
//! names the range, `report` carries the digest, which the build machine compares with its own of the disk image.

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

extern crate alloc;

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use blk_client::{Device, Error, Geometry, OpenError, Program, Reporter, Request, WindowRange};
use core::fmt;
use platform::{Environment, OutOfBounds, PAGE_SIZE, Platform};
use report::Report;
use sha2::{Digest as _, Sha256};
use workload::Digest;

/// Reason why there is no digest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Failure {
    Open(OpenError),
    /// The range does not consist of whole blocks of the session, or the request size of whole blocks.
    Range,
    /// The window holds less than one request.
    WindowTooSmall,
    Read {
        lba: u64,
        error: Error,
    },
    Window(OutOfBounds),
    Close(Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => write!(f, "open: {error}"),
            Self::Range => f.write_str("the range or the request size is not one of whole blocks of the session"),
            Self::WindowTooSmall => f.write_str("the window holds less than one request"),
            Self::Read { lba, error } => write!(f, "read at block {lba}: {error}"),
            Self::Window(error) => write!(f, "window: {error}"),
            Self::Close(error) => write!(f, "close: {error}"),
        }
    }
}

/// Runs the program: executes the environment's configuration and reports.
pub async fn run<P: Platform>(platform: P, environment: Environment) {
    let Some(program) = Program::<P, Digest>::start(&platform, &environment) else { return };
    program.open(&platform).await;
    let result = read_all(platform, &environment, &program).await;
    let reporter = &program.reporter;
    let passed = result.is_ok();
    match result {
        Ok(digest) => reporter.send(&Report::Digest(digest)),
        Err(Failure::Open(error)) => reporter.not_open(error),
        Err(failure) => reporter.failure(format_args!("{failure}")),
    }
    reporter.done(passed);
}

async fn read_all<P: Platform>(
    platform: P,
    environment: &Environment,
    program: &Program<P, Digest>,
) -> Result<report::Digest, Failure> {
    let Program { client, config: digest, reporter } = program;
    let device = Device::open(platform.clone(), environment, program.options()).await.map_err(Failure::Open)?;
    let range = Range::new(digest, device.geometry()).ok_or(Failure::Range)?;
    program.begin(&platform).await;
    let sha256 = device.run(hash(&device, range, digest.depth, reporter)).await?;
    device.close().await.map_err(Failure::Close)?;
    let first_byte = client.first_block.saturating_add(range.first).saturating_mul(u64::from(range.block_bytes));
    Ok(report::Digest {
        tenant: reporter.tenant(),
        first_byte,
        bytes: range.blocks.saturating_mul(u64::from(range.block_bytes)),
        sha256,
    })
}

/// The range in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Range {
    first: u64,
    blocks: u64,
    /// Blocks of a request.
    step: u32,
    block_bytes: u32,
}

impl Range {
    fn new(digest: &Digest, geometry: &Geometry) -> Option<Self> {
        let block = u64::from(geometry.block_bytes);
        let in_blocks = |bytes: u64| bytes.is_multiple_of(block).then_some(bytes.checked_div(block)?);
        let first = in_blocks(digest.first_byte)?;
        let left = geometry.blocks.checked_sub(first)?;
        let blocks = if digest.bytes == 0 { left } else { in_blocks(digest.bytes)? };
        let step = in_blocks(u64::from(digest.block_bytes))?;
        let step = u32::try_from(step).ok()?.min(geometry.max_blocks);
        (blocks <= left && step > 0).then_some(Self { first, blocks, step, block_bytes: geometry.block_bytes })
    }

    /// Returns the first block and the number of blocks of the request that starts `done` blocks into the range.
    fn request(&self, done: u64) -> Option<(u64, u32)> {
        let left = self.blocks.checked_sub(done).filter(|left| *left > 0)?;
        let blocks = u32::try_from(left).unwrap_or(u32::MAX).min(self.step);
        Some((self.first.checked_add(done)?, blocks))
    }
}

/// A read in flight. Its window range is reused after its data are hashed.
struct Reading<P: Platform> {
    request: Request<P>,
    lba: u64,
    bytes: usize,
    buffer: WindowRange<P::Memory>,
}

async fn hash<P: Platform>(
    device: &Device<P>,
    range: Range,
    depth: u16,
    reporter: &Reporter<P>,
) -> Result<[u8; 32], Failure> {
    let block_bytes = range.block_bytes as usize;
    let bytes = (range.step as usize).saturating_mul(block_bytes);
    let mut free: Vec<_> = (0..depth.max(1)).map_while(|_| device.window().lease(bytes)).collect();
    if free.is_empty() {
        return Err(Failure::WindowTooSmall);
    }
    let mut reading: VecDeque<Reading<P>> = VecDeque::with_capacity(free.len());
    let mut page = vec![0; PAGE_SIZE];
    let mut hasher = Sha256::new();
    let (mut begun, mut is_first) = (0u64, true);
    loop {
        while let Some((lba, blocks)) = range.request(begun)
            && let Some(buffer) = free.pop()
        {
            let bytes = (blocks as usize).saturating_mul(block_bytes);
            let part = buffer.part(0, bytes).unwrap_or(buffer.whole());
            reading.push_back(Reading { request: device.read(lba, &[part]), lba, bytes, buffer });
            begun = begun.saturating_add(u64::from(blocks));
        }
        let Some(Reading { request, lba, bytes, buffer }) = reading.pop_front() else { break };
        request.await.map_err(|error| Failure::Read { lba, error })?;
        if core::mem::take(&mut is_first) {
            reporter.first_io();
        }
        for offset in (0..bytes).step_by(PAGE_SIZE) {
            let len = bytes.saturating_sub(offset).min(PAGE_SIZE);
            let Some(piece) = page.get_mut(..len) else { continue };
            buffer.read_bytes(offset, piece).map_err(Failure::Window)?;
            hasher.update(piece);
        }
        free.push(buffer);
    }
    Ok(hasher.finalize().into())
}
