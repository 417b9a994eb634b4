//! A library for `LD_PRELOAD` that leads an unmodified nvme-cli to a controller behind a socket.
//!
//! The functions that nvme-cli and libnvme import from the C library for devices are hidden by those of `interposed`. Files `/dev/nvme*`
//! and `/dev/ng*` become connections (`connection`), and the ioctls of Linux's NVMe driver messages on them (`ioctl`). Paths of the
//! driver below `/sys` are moved into a folder (`place`). All else goes to the C library.
//!
//! No command reaches a device of this machine: nodes that the server does not have are absent, and NVMe's ioctls on any other file
//! are refused. Neighbours: `nvme-passthrough` has the messages, `lab` the server. Left out: `mmap` (registers are a file of the
//! folder), asynchronous passthrough by io_uring, metadata.

#![allow(unsafe_code, reason = "a library for C: its functions get pointers from nvme-cli")]

mod connection;
mod interposed;
mod ioctl;
mod place;

use libc::c_int;

/// An error number of the C library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Errno(c_int);

type Result<T> = std::result::Result<T, Errno>;

/// Prints a sentence for people beside the output of nvme-cli.
fn say(sentence: &str) {
    use std::io::Write as _;
    // Nobody may be there to read it.
    let _ = writeln!(std::io::stderr(), "capnvme: {sentence}");
}
