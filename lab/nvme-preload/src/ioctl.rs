//! The ioctls of Linux's NVMe driver and of its block devices (*linux/nvme_ioctl.h*, *linux/fs.h*), as requests.

use crate::connection::{PATIENCE, ask};
use crate::{Errno, Result};
use libc::{EFAULT, EINVAL, ENOTTY, EPROTO, c_int, c_void};
use nvme_passthrough::{Command, Data, MOST_DATA, Node, Queue, Reply, Request};
use std::os::fd::RawFd;
use std::slice;
use std::time::Duration;

const ID: u32 = 0x4e40;
const ADMIN: u32 = 0xc048_4e41;
const SUBMIT_IO: u32 = 0x4030_4e42;
const IO: u32 = 0xc048_4e43;
const RESET: u32 = 0x4e44;
const SUBSYSTEM_RESET: u32 = 0x4e45;
const RESCAN: u32 = 0x4e46;
const ADMIN_64: u32 = 0xc050_4e47;
const IO_64: u32 = 0xc050_4e48;
const READ_PARTITIONS: u32 = 0x125f;
const FLUSH_BUFFERS: u32 = 0x1261;
const BLOCK_BYTES: u32 = 0x1268;
const SET_BLOCK_BYTES: u32 = 0x4008_1271;
const DEVICE_BYTES: u32 = 0x8008_1272;

/// Requests whose argument is a pointer.
const WITH_ARGUMENT: [u32; 7] = [ADMIN, SUBMIT_IO, IO, ADMIN_64, IO_64, BLOCK_BYTES, DEVICE_BYTES];
/// Opcodes that [`SUBMIT_IO`] may have: write, read, compare.
const WITH_BLOCKS: [u8; 3] = [1, 2, 5];

/// The structure `nvme_passthru_cmd`. `nvme_passthru_cmd64` differs in its result alone.
#[repr(C)]
struct Passthrough {
    opcode: u8,
    flags: u8,
    reserved: u16,
    nsid: u32,
    cdw2: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    cdw10: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

/// Offset of the result in `nvme_passthru_cmd64`.
const RESULT_64: usize = 72;

/// The structure `nvme_user_io`.
#[repr(C)]
struct UserIo {
    opcode: u8,
    flags: u8,
    control: u16,
    blocks_z: u16,
    reserved: u16,
    metadata: u64,
    address: u64,
    first: u64,
    management: u32,
    reference_tag: u32,
    application_tag: u16,
    application_mask: u16,
}

const _: () = assert!(size_of::<Passthrough>() == 72 && size_of::<UserIo>() == 48);

/// Width of a result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Short,
    Long,
}

/// Whether a request is the NVMe driver's own: of type 'N'.
pub(crate) const fn is_nvme(request: u32) -> bool {
    request >> 8 & 0xff == b'N' as u32
}

/// Executes an ioctl on an open node.
///
/// # Safety
/// `argument` points to the structure that belongs to `request`, and the addresses in it to as many bytes as it says.
pub(crate) unsafe fn execute(fd: RawFd, node: Node, request: u32, argument: *mut c_void) -> Result<c_int> {
    let is_controller = node == Node::Controller;
    match request {
        ID => node.nsid().and_then(|nsid| c_int::try_from(nsid).ok()).ok_or(Errno(ENOTTY)),
        RESET if is_controller => plain(fd, &Request::Reset),
        SUBSYSTEM_RESET if is_controller => plain(fd, &Request::ResetSubsystem),
        RESCAN if is_controller => plain(fd, &Request::Rescan),
        READ_PARTITIONS | FLUSH_BUFFERS | SET_BLOCK_BYTES if matches!(node, Node::Block(_)) => Ok(0),
        _ if !WITH_ARGUMENT.contains(&request) => Err(Errno(ENOTTY)),
        _ if argument.is_null() => Err(Errno(EFAULT)),
        // SAFETY: the caller promises that the argument is the structure of the request.
        ADMIN => unsafe { passthrough(fd, node, Queue::Admin, Form::Short, argument) },
        // SAFETY: as above.
        ADMIN_64 => unsafe { passthrough(fd, node, Queue::Admin, Form::Long, argument) },
        // SAFETY: as above.
        IO => unsafe { passthrough(fd, node, Queue::Io, Form::Short, argument) },
        // SAFETY: as above.
        IO_64 => unsafe { passthrough(fd, node, Queue::Io, Form::Long, argument) },
        // SAFETY: as above.
        SUBMIT_IO => unsafe { submit(fd, node, argument) },
        BLOCK_BYTES if matches!(node, Node::Block(_)) => {
            let (block_bytes, _) = geometry(fd)?;
            // SAFETY: as above; the argument is an `int`.
            unsafe { argument.cast::<u32>().write_unaligned(block_bytes) };
            Ok(0)
        }
        DEVICE_BYTES if matches!(node, Node::Block(_)) => {
            let (block_bytes, blocks) = geometry(fd)?;
            // SAFETY: as above; the argument is a `uint64_t`.
            unsafe { argument.cast::<u64>().write_unaligned(blocks.saturating_mul(block_bytes.into())) };
            Ok(0)
        }
        _ => Err(Errno(ENOTTY)),
    }
}

fn plain(fd: RawFd, request: &Request) -> Result<c_int> {
    match ask(fd, request, PATIENCE)? {
        Reply::Done => Ok(0),
        _ => Err(Errno(EPROTO)),
    }
}

/// Bytes of a block and number of blocks of the node's namespace.
fn geometry(fd: RawFd) -> Result<(u32, u64)> {
    match ask(fd, &Request::Geometry, PATIENCE)? {
        Reply::Geometry { block_bytes, blocks } => Ok((block_bytes, blocks)),
        _ => Err(Errno(EPROTO)),
    }
}

/// # Safety
/// As [`execute`].
unsafe fn passthrough(fd: RawFd, node: Node, queue: Queue, form: Form, argument: *mut c_void) -> Result<c_int> {
    // SAFETY: both forms begin with these 72 bytes.
    let Passthrough { opcode, flags, nsid, cdw2, address, metadata_bytes, data_bytes, cdw10, timeout_ms, .. } =
        unsafe { argument.cast::<Passthrough>().read_unaligned() };
    // Linux, too, refuses an I/O command for another namespace than the node's.
    let is_others = queue == Queue::Io && node.nsid().is_some_and(|own| own != nsid);
    if flags != 0 || metadata_bytes != 0 || is_others {
        return Err(Errno(EINVAL));
    }
    let command = Command { queue, opcode, nsid, cdw2, cdw10 };
    let patience = PATIENCE + Duration::from_millis(timeout_ms.into());
    // SAFETY: the caller promises the bytes at the address.
    let (status, result) = unsafe { exchange(fd, command, address, data_bytes, patience)? };
    // SAFETY: the structure has its result there, and the caller lets it be written.
    unsafe {
        match form {
            Form::Short => (&raw mut (*argument.cast::<Passthrough>()).result).write_unaligned(result as u32),
            Form::Long => argument.byte_add(RESULT_64).cast::<u64>().write_unaligned(result),
        }
    }
    Ok(status)
}

/// # Safety
/// As [`execute`].
unsafe fn submit(fd: RawFd, node: Node, argument: *mut c_void) -> Result<c_int> {
    // SAFETY: the caller promises the structure.
    let io = unsafe { argument.cast::<UserIo>().read_unaligned() };
    let nsid = node.nsid().ok_or(Errno(ENOTTY))?;
    if io.flags != 0 || !WITH_BLOCKS.contains(&io.opcode) {
        return Err(Errno(EINVAL));
    }
    let bytes = (u32::from(io.blocks_z) + 1).checked_mul(geometry(fd)?.0).ok_or(Errno(EINVAL))?;
    let cdw10 = [
        io.first as u32,
        (io.first >> 32) as u32,
        u32::from(io.blocks_z) | u32::from(io.control) << 16,
        io.management,
        io.reference_tag,
        u32::from(io.application_tag) | u32::from(io.application_mask) << 16,
    ];
    let command = Command { queue: Queue::Io, opcode: io.opcode, nsid, cdw2: [0; 2], cdw10 };
    // SAFETY: the caller promises the blocks' bytes at the address.
    unsafe { exchange(fd, command, io.address, bytes, PATIENCE) }.map(|(status, _)| status)
}

/// Executes a command with its data; returns status and result.
///
/// # Safety
/// There are `bytes` bytes at `address`: readable, and writable for a command that reads.
unsafe fn exchange(fd: RawFd, command: Command, address: u64, bytes: u32, patience: Duration) -> Result<(c_int, u64)> {
    if bytes > MOST_DATA {
        return Err(Errno(EINVAL));
    }
    let place = std::ptr::with_exposed_provenance_mut::<u8>(usize::try_from(address).map_err(|_| Errno(EFAULT))?);
    if bytes > 0 && place.is_null() {
        return Err(Errno(EFAULT));
    }
    let data = match bytes {
        0 => Data::None,
        // The lowest bits of an opcode are the direction of its data.
        // SAFETY: the caller promises the bytes, and the pointer is not null.
        _ if command.opcode & 1 != 0 => Data::Out(unsafe { slice::from_raw_parts(place, bytes as usize) }.to_vec()),
        _ => Data::In(bytes),
    };
    let is_read = matches!(data, Data::In(_));
    let Reply::Completed { status, result, data } = ask(fd, &Request::Execute(command, data), patience)? else {
        return Err(Errno(EPROTO));
    };
    if is_read && status == 0 {
        if data.len() != bytes as usize {
            return Err(Errno(EPROTO));
        }
        // SAFETY: the caller promises that so many bytes may be written there, and a message's bytes are elsewhere.
        unsafe { place.copy_from_nonoverlapping(data.as_ptr(), data.len()) };
    }
    Ok((status.into(), result))
}
