//! QEMU's `fw_cfg` files, one of which names the test to run.
//!
//! Source: QEMU, docs/specs/fw_cfg. Neighbours: the architecture's module reaches the device. Left out: writing, and
//! transfers by DMA.

#[cfg(target_arch = "aarch64")]
use crate::arch::devices as device;
#[cfg(target_arch = "x86_64")]
use crate::arch::ports as device;
use crate::verdict::{Check, Failure};

/// The item with the list of files.
const DIRECTORY: u16 = 0x19;
/// A sensible limit for the list, so that a missing device does not look like one with 2^32 files.
const MOST_FILES: u32 = 256;
/// Bytes of a file's name in the list.
const NAME_BYTES: usize = 56;

/// Reads the file `name` into `into` and returns its length.
pub(crate) fn read_file(name: &str, into: &mut [u8]) -> Check<usize> {
    let (selector, length) = find(name)?;
    let length = length as usize;
    let room = into.get_mut(..length).ok_or(Failure::Broken("the fw_cfg file is too long", length as u64))?;
    device::select(selector)?;
    read(room)?;
    Ok(length)
}

/// The selector and the length of a file.
fn find(name: &str) -> Check<(u16, u32)> {
    device::select(DIRECTORY)?;
    let files = number::<4>()?.min(MOST_FILES);
    for _ in 0..files {
        let length = number::<4>()?;
        let selector = number::<2>()? as u16;
        let _reserved = number::<2>()?;
        let mut entry = [0; NAME_BYTES];
        read(&mut entry)?;
        let end = entry.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
        if entry.get(..end) == Some(name.as_bytes()) {
            return Ok((selector, length));
        }
    }
    Err(Failure::Broken("there is no fw_cfg file that names a test", files.into()))
}

fn read(into: &mut [u8]) -> Check {
    for byte in into {
        *byte = device::read()?;
    }
    Ok(())
}

/// A number of `N` bytes, the highest first.
fn number<const N: usize>() -> Check<u32> {
    let mut bytes = [0; N];
    read(&mut bytes)?;
    Ok(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}
