//! Paths of nvme-cli: which are ours.

use crate::{Errno, Result};
use libc::ENOENT;
use nvme_passthrough::{FOLDER, Node, SYS};
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Paths below these have a place in the folder.
const MOVED: [&[u8]; 2] = [b"/sys/class/nvme", b"/sys/block"];
/// Nodes whose names begin so are ours, whatever this machine has.
const NODES: [&[u8]; 2] = [b"/dev/nvme", b"/dev/ng"];

/// The meaning of a path.
pub(crate) enum Place {
    /// A node of the controller.
    Node(Node),
    /// A file: at another path, or at its own.
    File(Option<CString>),
}

/// The folder of the socket, if there is one.
pub(crate) fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

impl Place {
    /// The place of a path; fails for a node that the server cannot have.
    pub(crate) fn of(path: &[u8]) -> Result<Self> {
        if NODES.iter().any(|begin| path.starts_with(begin)) {
            let name = path.strip_prefix(b"/dev/").and_then(|name| std::str::from_utf8(name).ok());
            return name.and_then(Node::of_name).map(Self::Node).ok_or(Errno(ENOENT));
        }
        if MOVED.iter().any(|begin| path.starts_with(begin)) {
            let below = path.strip_prefix(b"/sys/").unwrap_or_default();
            let moved = folder().and_then(|folder| moved(&folder, below));
            return moved.map(|path| Self::File(Some(path))).ok_or(Errno(ENOENT));
        }
        Ok(Self::File(None))
    }
}

fn moved(folder: &Path, below: &[u8]) -> Option<CString> {
    let path: OsString = folder.join(SYS).join(OsStr::from_bytes(below)).into();
    CString::new(path.into_vec()).ok()
}
