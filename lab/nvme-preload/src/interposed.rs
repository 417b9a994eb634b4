//! The functions that hide those of the C library.
//!
//! `open64` and `ioctl` have a variable number of arguments in C. On x86_64 and AArch64 their first arguments are in the same registers
//! as those of a function with a fixed number; an argument that was not passed has any value, and is not used then.

use crate::place::Place;
use crate::{Errno, Result, connection, ioctl, say};
use libc::{
    DIR, EINVAL, ENOSYS, ENOTTY, S_IFBLK, S_IFCHR, c_char, c_int, c_ulong, c_void, mode_t, size_t, ssize_t,
    stat64 as Status,
};
use nvme_passthrough::Node;
use std::ffi::{CStr, CString};
use std::sync::OnceLock;

/// The C library's function of this name, if it has one.
macro_rules! hidden {
    ($name:ident($($argument:ty),*) -> $result:ty) => {{
        static FOUND: OnceLock<Option<unsafe extern "C" fn($($argument),*) -> $result>> = OnceLock::new();
        let name = concat!(stringify!($name), "\0");
        // SAFETY: the name ends in a zero. The C library's headers declare the function so; a null pointer is `None`.
        *FOUND.get_or_init(|| unsafe { std::mem::transmute(libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast())) })
    }};
}

/// Calls the C library's function of this name.
macro_rules! call {
    ($name:ident($($value:expr => $argument:ty),*) -> $result:ty, else $failed:expr) => {
        match hidden!($name($($argument),*) -> $result) {
            // SAFETY: our caller's arguments are those of this function, and a moved path is a string, too.
            Some(function) => unsafe { function($($value),*) },
            None => failed(Errno(ENOSYS), $failed),
        }
    };
}

/// Sets the error number; returns the value that reports it.
fn failed<T>(Errno(number): Errno, value: T) -> T {
    // SAFETY: the C library returns a valid place of this thread.
    unsafe { *libc::__errno_location() = number };
    value
}

fn number(result: Result<c_int>) -> c_int {
    result.unwrap_or_else(|error| failed(error, -1))
}

/// The place of a path.
///
/// # Safety
/// `path` is null or a string of C.
unsafe fn place(path: *const c_char) -> Result<Place> {
    if path.is_null() {
        return Ok(Place::File(None));
    }
    // SAFETY: the caller promises a string.
    Place::of(unsafe { CStr::from_ptr(path) }.to_bytes())
}

/// The path at which the C library finds a file.
fn at(path: *const c_char, moved: Option<&CString>) -> *const c_char {
    moved.map_or(path, |moved| moved.as_ptr())
}

/// Like [`place`], for functions that nodes do not have.
///
/// # Safety
/// As [`place`].
unsafe fn file(path: *const c_char) -> Result<Option<CString>> {
    // SAFETY: the caller promises a string.
    match unsafe { place(path)? } {
        Place::File(moved) => Ok(moved),
        Place::Node(_) => Err(Errno(EINVAL)),
    }
}

/// Fills in the status of a node.
///
/// # Safety
/// `status` may be written.
unsafe fn describe(node: Node, status: *mut Status) -> c_int {
    let kind = if matches!(node, Node::Block(_)) { S_IFBLK } else { S_IFCHR };
    // SAFETY: all bytes of the structure may be zeroes, and the caller lets it be written.
    unsafe {
        status.write_bytes(0, 1);
        (*status).st_mode = kind | 0o600;
    }
    0
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the path is a string.
    match unsafe { place(path) } {
        Ok(Place::Node(node)) => number(connection::open(node)),
        Ok(Place::File(moved)) => {
            let path = at(path, moved.as_ref());
            call!(open64(path => *const c_char, flags => c_int, mode => mode_t) -> c_int, else -1)
        }
        Err(error) => {
            say("there is no such node: the controller is /dev/nvme0");
            failed(error, -1)
        }
    }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn __open64_2(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: without a mode, as the flags say.
    unsafe { open64(path, flags, 0) }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn close(fd: c_int) -> c_int {
    // The connection closes the descriptor itself, by this function.
    if connection::close(fd) { 0 } else { call!(close(fd => c_int) -> c_int, else -1) }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    // Only the lower half is the request.
    let code = request as u32;
    match connection::node(fd) {
        // SAFETY: nvme-cli passes the structure of the request.
        Some(node) => number(unsafe { ioctl::execute(fd, node, code, argument) }),
        None if ioctl::is_nvme(code) => failed(Errno(ENOTTY), -1),
        None => call!(ioctl(fd => c_int, request => c_ulong, argument => *mut c_void) -> c_int, else -1),
    }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn fstat64(fd: c_int, status: *mut Status) -> c_int {
    match connection::node(fd) {
        // SAFETY: the caller's status may be written.
        Some(node) => unsafe { describe(node, status) },
        None => call!(fstat64(fd => c_int, status => *mut Status) -> c_int, else -1),
    }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn stat64(path: *const c_char, status: *mut Status) -> c_int {
    // SAFETY: the path is a string.
    match unsafe { place(path) } {
        Ok(Place::Node(node)) => match connection::find(node) {
            // SAFETY: the caller's status may be written.
            Ok(()) => unsafe { describe(node, status) },
            Err(error) => failed(error, -1),
        },
        Ok(Place::File(moved)) => {
            let path = at(path, moved.as_ref());
            call!(stat64(path => *const c_char, status => *mut Status) -> c_int, else -1)
        }
        Err(error) => failed(error, -1),
    }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: the path is a string.
    match unsafe { place(path) } {
        Ok(Place::Node(node)) => number(connection::find(node).map(|()| 0)),
        Ok(Place::File(moved)) => {
            let path = at(path, moved.as_ref());
            call!(access(path => *const c_char, mode => c_int) -> c_int, else -1)
        }
        Err(error) => failed(error, -1),
    }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn opendir(path: *const c_char) -> *mut DIR {
    let none = std::ptr::null_mut();
    // SAFETY: the path is a string.
    match unsafe { file(path) } {
        Ok(moved) => call!(opendir(at(path, moved.as_ref()) => *const c_char) -> *mut DIR, else none),
        Err(error) => failed(error, none),
    }
}

/// # Safety
/// As the C library's, to which all pointers but the path go unread.
#[unsafe(no_mangle)]
unsafe extern "C" fn scandir64(
    path: *const c_char,
    entries: *mut c_void,
    filter: *const c_void,
    order: *const c_void,
) -> c_int {
    // SAFETY: the path is a string.
    match unsafe { file(path) } {
        Ok(moved) => call!(
            scandir64(
                at(path, moved.as_ref()) => *const c_char, entries => *mut c_void,
                filter => *const c_void, order => *const c_void
            ) -> c_int,
            else -1
        ),
        Err(error) => failed(error, -1),
    }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn readlink(path: *const c_char, text: *mut c_char, bytes: size_t) -> ssize_t {
    // SAFETY: the path is a string.
    match unsafe { file(path) } {
        Ok(moved) => {
            let path = at(path, moved.as_ref());
            call!(readlink(path => *const c_char, text => *mut c_char, bytes => size_t) -> ssize_t, else -1)
        }
        Err(error) => failed(error, -1),
    }
}
